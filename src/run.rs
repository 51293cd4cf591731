//! The running process: monitors, server and signals, from the first line of the log to the last.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use tracing::{error, info, warn};

use crate::board::Board;
use crate::clock::Clock;
use crate::config::{CacheConfig, Config, ConfigError};
use crate::monitor;
use crate::serve::serve;
use crate::source::app::AppError;

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
    /// The server ended although nobody asked it to.
    #[error("cannot serve any longer")]
    Serve(#[source] io::Error),
    /// The client for an application's page cannot be made.
    #[error("cannot watch cache {cache:?}")]
    Watch {
        /// Whose application it is.
        cache: Arc<str>,
        /// What is in the way, such as the system's certificates.
        source: AppError,
    },
    /// The signals of the process cannot be caught.
    #[error("cannot catch signals")]
    Signals(#[source] io::Error),
}

/// Watches and serves until SIGTERM or SIGINT. `reload` is asked at SIGHUP.
///
/// # Errors
///
/// [`RunError`] when it cannot start, or the server ends by itself.
pub async fn run(
    config: Config,
    reload: impl Fn() -> Result<Config, ConfigError> + Clone + Send + 'static,
) -> Result<(), RunError> {
    let mut ends = Ends::catch().map_err(RunError::Signals)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(RunError::Signals)?;
    let wanted = config.web.listen_address;
    let refused = |source| RunError::Listen { address: wanted, source };
    let listener = TcpListener::bind(wanted).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;

    let clock = Clock::start();
    let board = Board::new(names(&config.caches));
    let mut watched = Watched::default();
    watched.become_those_of(&config.caches, &board, clock)?;
    let (end, ended) = oneshot::channel::<()>();
    let mut server = tokio::spawn(serve(listener, board.clone(), clock, async {
        let _ = ended.await;
    }));
    info!("listening on http://{address}");

    // At most one: reading files may take long, and nothing else waits for it.
    let mut reloads = JoinSet::new();
    loop {
        tokio::select! {
            signal = ends.next() => {
                info!("ending at {signal}");
                drop(end);
                return serve_result(server.await);
            }
            stopped = &mut server => return serve_result(stopped),
            _ = hangup.recv(), if reloads.is_empty() => {
                reloads.spawn_blocking(reload.clone());
            }
            Some(Ok(loaded)) = reloads.join_next() => match loaded {
                Ok(new) => {
                    if new.web.listen_address != wanted {
                        warn!("the new listen address {} needs a restart", new.web.listen_address);
                    }
                    board.reloaded(names(&new.caches));
                    watched.become_those_of(&new.caches, &board, clock)?;
                    info!(caches = new.caches.len(), "configuration reloaded");
                }
                Err(error) => keep_old(&board, &error),
            },
        }
    }
}

/// A bad file changes nothing but what the page says about it.
fn keep_old(board: &Board, error: &ConfigError) {
    for problem in &error.0 {
        error!("configuration not reloaded: {problem}");
    }
    board.reload_failed();
}

fn serve_result(ended: Result<io::Result<()>, JoinError>) -> Result<(), RunError> {
    ended.unwrap_or_else(|panic| Err(panic.into())).map_err(RunError::Serve)
}

fn names(caches: &[CacheConfig]) -> Vec<Arc<str>> {
    caches.iter().map(|cache| Arc::clone(&cache.name)).collect()
}

/// The monitors of the configured caches.
#[derive(Default)]
struct Watched(Vec<(CacheConfig, monitor::Handle)>);

impl Watched {
    /// Starts and stops monitors until they are those of `caches`. A cache whose configuration did
    /// not change keeps its monitor and all that it has learned; of one that did, the old monitor
    /// ends first, so that two never write for one cache.
    fn become_those_of(
        &mut self,
        caches: &[CacheConfig],
        board: &Board,
        clock: Clock,
    ) -> Result<(), RunError> {
        self.0.retain(|(config, _)| caches.contains(config));
        for config in caches {
            if self.0.iter().all(|(kept, _)| kept != config) {
                let handle =
                    monitor::spawn(config.clone(), board.clone(), clock).map_err(|source| {
                        RunError::Watch { cache: Arc::clone(&config.name), source }
                    })?;
                self.0.push((config.clone(), handle));
            }
        }
        Ok(())
    }
}

/// The signals that end the process.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    fn catch() -> io::Result<Ends> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Ends { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for one of them, and names it.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
