//! The exporter itself, watching the drill's server and page from this process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::error::DrillError;
use crate::board::Board;
use crate::clock::Clock;
use crate::config::{AppConfig, CacheConfig, CulpritsConfig, PageUrl, RedisConfig, TtlConfig};
use crate::detect::{Cause, Incident, Thresholds};
use crate::monitor::{Handle, Monitor};
use crate::reading::presets::preset;
use crate::snapshot::Snapshot;

/// The exporter's usual second; the detector's figures are for that.
const POLL: Duration = Duration::from_secs(1);
/// Its usual window.
pub const WINDOW: Duration = Duration::from_secs(10);
const MIN_LOOKUPS: u64 = 20;
const KEEP_INCIDENTS: usize = 100;

/// What the exporter is to know of the drill.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchShape {
    /// The `cache` label.
    pub name: Arc<str>,
    /// Where to put a trace of what it sees.
    pub record_dir: Option<PathBuf>,
    /// How long the calm lasts: all there is to learn from, instead of the usual minutes.
    pub calm: Duration,
    /// What ratios and rates are taken over, at least two seconds.
    pub window: Duration,
    /// Keys whose deadlines are looked at, a second.
    pub ttl_keys_per_second: u32,
}

/// A running monitor; dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    board: Board,
    _monitor: Handle,
}

/// One incident of a run.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Seen {
    /// Unix seconds of the poll at which it was declared.
    pub start: f64,
    /// Unix seconds of its end, if it has ended.
    pub end: Option<f64>,
    /// Its cause, as far as it is known.
    pub cause: &'static str,
    /// Misses beyond what was to be expected.
    pub excess_misses: f64,
    /// The figures behind the verdict.
    pub evidence: BTreeMap<&'static str, f64>,
}

impl Watch {
    /// Starts to watch a server and a page of `native` counters.
    ///
    /// # Errors
    /// When the client for the page cannot be built.
    pub fn start(
        shape: WatchShape,
        redis: &RedisConfig,
        page: String,
        clock: Clock,
    ) -> Result<Watch, DrillError> {
        let board = Board::new([Arc::clone(&shape.name)]);
        let record_dir = shape.record_dir.clone();
        let config = config(shape, redis.clone(), page);
        let mut monitor = Monitor::new(config, board.clone(), clock).map_err(DrillError::Watch)?;
        if let Some(dir) = &record_dir {
            monitor.record_in(dir);
        }
        Ok(Watch { board, _monitor: monitor.start() })
    }

    /// Where it publishes what it sees.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// What it sees now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.board.view().caches.into_iter().next().unwrap_or_default()
    }

    /// The incidents so far, the oldest first.
    pub fn incidents(&self) -> Vec<Seen> {
        let snapshot = self.snapshot();
        let past = snapshot.incidents.past.iter().rev();
        past.chain(&snapshot.incidents.running).map(Seen::of).collect()
    }

    /// Waits until it has looked once more, or `limit` is over.
    pub async fn look_once_more(&self, limit: Duration) {
        let mut views = self.board.subscribe();
        views.mark_unchanged();
        // Without another look, what is known has to do.
        let _ = tokio::time::timeout(limit, views.changed()).await;
    }
}

impl Seen {
    fn of(incident: &Incident) -> Seen {
        Seen {
            start: incident.started_at,
            end: incident.ended_at,
            cause: incident.cause.as_str(),
            excess_misses: incident.excess_misses,
            evidence: incident.evidence.iter().copied().collect(),
        }
    }

    /// Whether it has this cause.
    pub fn is(&self, cause: Cause) -> bool {
        self.cause == cause.as_str()
    }
}

fn config(shape: WatchShape, redis: RedisConfig, page: String) -> CacheConfig {
    let calm = shape.calm.as_secs_f64();
    let usual = Thresholds::default();
    CacheConfig {
        name: shape.name,
        poll_interval: POLL,
        poll_timeout: POLL,
        window: shape.window,
        min_lookups: MIN_LOOKUPS,
        redis,
        ttl: TtlConfig { keys_per_second: shape.ttl_keys_per_second, ..TtlConfig::default() },
        apps: vec![AppConfig {
            name: Arc::from("drill"),
            url: PageUrl(page),
            mapping: preset("native").unwrap_or_default(),
        }],
        culprits: CulpritsConfig::default(),
        detector: Thresholds {
            // Half of the calm to learn, and what is learned may be young.
            warm_up: usual.warm_up.min(calm / 2.0),
            hold_back: usual.hold_back.min(calm / 6.0),
            // What strikes after another calm is another incident.
            merge_within: usual.merge_within.min(calm / 2.0),
            ..usual
        },
        keep_incidents: KEEP_INCIDENTS,
    }
}
