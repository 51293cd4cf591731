//! The running process: monitors, server and signals, from the first line of the log to the last.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use tracing::{error, info, warn};

use crate::board::Board;
use crate::clock::Clock;
use crate::config::{CacheConfig, Config, ConfigError, Problem, PrometheusConfig, StateConfig};
use crate::monitor::{Handle, Monitor};
use crate::one_line::one_line;
use crate::serve::serve;
use crate::signals::{Ends, hangup};
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
    let mut hangup = hangup().map_err(RunError::Signals)?;
    let wanted = config.web.listen_address;
    let refused = |source| RunError::Listen { address: wanted, source };
    let listener = TcpListener::bind(wanted).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;

    let clock = Clock::start();
    let board = Board::new(names(&config.caches));
    let mut watched = Watched {
        monitors: Vec::new(),
        record_dir: config.record_dir.clone(),
        state: config.state.clone(),
        incidents_file: config.incidents_file.clone(),
        warm_start: config.warm_start.clone(),
    };
    watched.change_to(&config.caches, &board, clock).await?;
    tell_who_is_sampled_by_another(&config.caches);
    let (end, ended) = oneshot::channel::<()>();
    let mut server = tokio::spawn(serve(listener, board.clone(), clock, async {
        let _ = ended.await;
    }));
    info!(caches = config.caches.len(), "listening on http://{address}");

    // At most one: reading files may take long, and nothing else waits for it.
    let mut reloads = JoinSet::new();
    loop {
        tokio::select! {
            signal = ends.next() => {
                info!("ending at {signal}");
                drop(end);
                let (stopped, ()) = tokio::join!(server, watched.end());
                return serve_result(stopped);
            }
            stopped = &mut server => {
                watched.end().await;
                return serve_result(stopped);
            }
            _ = hangup.recv(), if reloads.is_empty() => {
                reloads.spawn_blocking(reload.clone());
            }
            Some(Ok(loaded)) = reloads.join_next() => {
                let changed = match loaded {
                    Ok(new) => match watched.change_to(&new.caches, &board, clock).await {
                        Ok(()) => Ok(new),
                        Err(error) => Err(vec![one_line(&error)]),
                    },
                    Err(error) => Err(lines(&error)),
                };
                match changed {
                    Ok(new) => {
                        tell_what_waits(&config, &new);
                        tell_who_is_sampled_by_another(&new.caches);
                        info!(caches = new.caches.len(), "configuration reloaded");
                    }
                    Err(problems) => {
                        board.reload_failed();
                        for problem in problems {
                            error!("configuration not reloaded: {problem}");
                        }
                    }
                }
            }
        }
    }
}

fn lines(error: &ConfigError) -> Vec<String> {
    error.0.iter().map(Problem::to_string).collect()
}

/// What of a new configuration takes effect at the next start only.
fn tell_what_waits(running: &Config, new: &Config) {
    let waits = [
        ("web", running.web != new.web),
        ("log", running.log != new.log),
        ("record", running.record_dir != new.record_dir),
        ("state", running.state != new.state),
        ("incidents", running.incidents_file != new.incidents_file),
        ("warm_start", running.warm_start != new.warm_start),
    ];
    for (section, _) in waits.iter().filter(|(_, differs)| *differs) {
        warn!("the change of {section} needs a restart");
    }
}

/// Says whose hits hold what another cache's sampler looks up: a cache takes out its own only.
fn tell_who_is_sampled_by_another(caches: &[CacheConfig]) {
    for cache in caches {
        let sampler = caches.iter().find(|other| {
            let sampled = other.ttl.sample_from.as_ref().unwrap_or(&other.redis);
            other.name != cache.name
                && other.ttl.keys_per_second > 0
                && sampled.address == cache.redis.address
        });
        if let Some(sampler) = sampler {
            warn!(
                "the hits of cache {:?} hold what the sampler of cache {:?} looks up at the same \
                 server; let it sample a replica (ttl.sample_from), or only one of them \
                 (ttl.keys_per_second: 0)",
                cache.name, sampler.name
            );
        }
    }
}

fn serve_result(ended: Result<io::Result<()>, JoinError>) -> Result<(), RunError> {
    ended.unwrap_or_else(|panic| Err(panic.into())).map_err(RunError::Serve)
}

fn names(caches: &[CacheConfig]) -> Vec<Arc<str>> {
    caches.iter().map(|cache| Arc::clone(&cache.name)).collect()
}

/// The monitors of the configured caches.
struct Watched {
    monitors: Vec<(CacheConfig, Handle)>,
    /// Where their traces go, if anywhere.
    record_dir: Option<PathBuf>,
    /// What they keep over restarts, if anything.
    state: Option<StateConfig>,
    /// Where they append their incidents, if anywhere.
    incidents_file: Option<PathBuf>,
    /// Whose history they learn from at their start, if any.
    warm_start: Option<PrometheusConfig>,
}

impl Watched {
    /// Starts and stops monitors until they are those of `caches`, and tells the board. A cache
    /// whose configuration did not change keeps its monitor and all that it has learned; of one
    /// that did, the old monitor ends first, so that two never write for one cache. When a monitor
    /// cannot be made, nothing changes.
    async fn change_to(
        &mut self,
        caches: &[CacheConfig],
        board: &Board,
        clock: Clock,
    ) -> Result<(), RunError> {
        let known = |config: &&CacheConfig| self.monitors.iter().any(|(kept, _)| kept == *config);
        let new = caches.iter().filter(|config| !known(config)).map(|config| {
            let mut monitor = Monitor::new(config.clone(), board.clone(), clock)
                .map_err(|source| RunError::Watch { cache: Arc::clone(&config.name), source })?;
            if let Some(dir) = &self.record_dir {
                monitor.record_in(dir);
            }
            if let Some(state) = &self.state {
                monitor.remember_in(state);
            }
            if let Some(history) = &self.warm_start {
                monitor.learn_from(history);
            }
            if let Some(file) = &self.incidents_file {
                monitor.report_in(file);
            }
            Ok((config.clone(), monitor))
        });
        let new = new.collect::<Result<Vec<_>, RunError>>()?;
        let monitors = std::mem::take(&mut self.monitors);
        let (kept, gone): (Vec<_>, Vec<_>) =
            monitors.into_iter().partition(|(config, _)| caches.contains(config));
        self.monitors = kept;
        end(gone).await;
        board.reloaded(names(caches));
        self.monitors.extend(new.into_iter().map(|(config, monitor)| (config, monitor.start())));
        Ok(())
    }

    /// Ends all monitors, each keeping what it knows.
    async fn end(&mut self) {
        end(std::mem::take(&mut self.monitors)).await;
    }
}

async fn end(monitors: Vec<(CacheConfig, Handle)>) {
    join_all(monitors.into_iter().map(|(_, monitor)| monitor.end())).await;
}
