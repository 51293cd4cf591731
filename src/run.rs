//! The running process: monitors, server and signals, from the first line of the log to the last.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::board::Board;
use crate::config::{CacheConfig, Config, ConfigError};

/// Why the exporter could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The listen address is not ours to take.
    #[error("cannot listen on {address}")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The signals of the process cannot be caught.
    #[error("cannot catch signals")]
    Signals(#[source] io::Error),
}

/// Watches and serves until SIGTERM or SIGINT. `reload` is asked at SIGHUP.
///
/// # Errors
///
/// [`RunError`] when it cannot start.
pub async fn run(
    config: Config,
    reload: impl Fn() -> Result<Config, ConfigError>,
) -> Result<(), RunError> {
    let mut signals = Signals::catch().map_err(RunError::Signals)?;
    let asked = config.web.listen_address;
    let refused = |source| RunError::Listen { address: asked, source };
    let listener = TcpListener::bind(asked).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let board = Board::new(names(&config.caches));
    info!("listening on http://{address}");

    loop {
        match signals.next().await {
            Asked::Reload => match reload() {
                Ok(new) => {
                    info!(caches = new.caches.len(), "configuration reloaded");
                    if new.web.listen_address != asked {
                        let wanted = new.web.listen_address;
                        warn!(%address, %wanted, "a new listen address needs a restart");
                    }
                    board.reloaded(names(&new.caches));
                }
                Err(error) => {
                    for problem in &error.0 {
                        warn!("configuration not reloaded: {problem}");
                    }
                    board.reload_failed();
                }
            },
            Asked::End(name) => {
                info!("{name}: ending");
                return Ok(());
            }
        }
    }
}

fn names(caches: &[CacheConfig]) -> Vec<Arc<str>> {
    caches.iter().map(|cache| Arc::clone(&cache.name)).collect()
}

/// What a signal asks for.
enum Asked {
    Reload,
    End(&'static str),
}

/// The signals that the process understands.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> io::Result<Signals> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End("SIGTERM"),
            _ = self.interrupt.recv() => Asked::End("SIGINT"),
            _ = self.hangup.recv() => Asked::Reload,
        }
    }
}
