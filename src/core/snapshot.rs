//! All that may be said about a cache now: the one input of `/metrics`, the API and the page.

use std::sync::Arc;

use crate::detect::{IncidentLog, Verdict};
use crate::reading::{BySource, Source};
use crate::signal::ttl::{Estimate, Outcome, TtlPicture};
use crate::signal::window::Signals;

/// One cache at one instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// The cache's name from the configuration.
    pub cache: Arc<str>,
    /// Unix seconds; 0 before the first poll.
    pub time: f64,
    /// The servers, in a stable order.
    pub nodes: Vec<NodeState>,
    /// The server whose deadlines are sampled, where it is none of these; its counts are not those
    /// of the cache.
    pub sampled: Option<NodeState>,
    /// The applications, in configuration order.
    pub apps: Vec<AppState>,
    /// Polls of the cache so far.
    pub polls: u64,
    /// Failed polls by reason, every reason there from the start, in a stable order.
    pub poll_errors: Vec<(&'static str, u64)>,
    /// How long polls took.
    pub poll_duration: Histogram,
    /// Rates and ratios over the window.
    pub signals: Signals,
    /// What the detector says.
    pub verdict: Verdict,
    /// Incidents so far.
    pub incidents: IncidentLog,
    /// What expires when; `None` before the first sample or while the server is away.
    pub ttl: Option<TtlPicture>,
    /// What the sampler behind it did so far, whatever the server does now.
    pub sampler: SamplerTotals,
}

/// What the sampler of the deadlines did since the exporter started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SamplerTotals {
    /// Lookups that it caused at the servers.
    pub lookups: u64,
    /// Keys that the server refused to look up one by one, or answered oddly.
    pub odd_keys: u64,
    /// Whole rounds over every database; back at 0 when another process answers.
    pub rounds: u64,
    /// Announced waves that are over, by what became of them, in the order of [`Outcome::ALL`].
    pub waves: [u64; Outcome::ALL.len()],
}

impl Snapshot {
    /// Whether any target of that source answered its last poll. Where none did, what is known of
    /// the source is stale and is not shown as if it were so now.
    pub fn answers(&self, source: Source) -> bool {
        match source {
            Source::Redis => self.nodes.iter().any(|node| node.up),
            Source::App => self.apps.iter().any(|app| app.up),
        }
    }

    /// A figure of the sources that answer.
    pub fn current<T: Copy>(&self, figure: &BySource<Option<T>>) -> BySource<Option<T>> {
        let of = |source| figure.get(source).filter(|_| self.answers(source));
        BySource { redis: of(Source::Redis), app: of(Source::App) }
    }

    /// The signals of the sources that answer.
    pub fn current_signals(&self) -> Signals {
        let signals = &self.signals;
        let app = |figure: Option<f64>| figure.filter(|_| self.answers(Source::App));
        Signals {
            hit_ratio: self.current(&signals.hit_ratio),
            lookups_per_second: self.current(&signals.lookups_per_second),
            misses_per_second: self.current(&signals.misses_per_second),
            loads_per_second: app(signals.loads_per_second),
            lock_attempts_per_second: app(signals.lock_attempts_per_second),
            lock_contention_ratio: app(signals.lock_contention_ratio),
            load_latency_p50: app(signals.load_latency_p50),
            load_latency_p99: app(signals.load_latency_p99),
            misses_per_expiry: signals.misses_per_expiry.filter(|_| self.answers(Source::Redis)),
        }
    }

    /// What expires when, while a server answers.
    pub fn current_ttl(&self) -> Option<&TtlPicture> {
        self.ttl.as_ref().filter(|_| self.answers(Source::Redis))
    }

    /// Lookups a second, as the applications count them, else as the server does.
    pub fn nearest_lookups_per_second(&self) -> Option<f64> {
        self.current(&self.signals.lookups_per_second).nearest()
    }

    /// Misses a second that the costliest coming expiry wave adds at its peak; `None` without a
    /// wave or a lookup rate.
    pub fn costliest_wave(&self) -> Option<Estimate> {
        let lookups = self.nearest_lookups_per_second()?;
        let waves = self.current_ttl()?.waves.iter();
        let costs = waves.map(|wave| wave.extra_misses_per_second(lookups));
        costs.max_by(|a, b| a.value.total_cmp(&b.value))
    }
}

/// One server of a cache.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeState {
    /// `host:port` or the socket path; the `node` label.
    pub node: Arc<str>,
    /// Whether the last poll worked.
    pub up: bool,
    /// Unix seconds of the last poll that worked.
    pub last_success: Option<f64>,
    /// `redis`, `valkey`, …
    pub server: Option<String>,
    /// The server's version as it says it.
    pub version: Option<String>,
    /// `master` or `slave`.
    pub role: Option<String>,
    /// `standalone`, `sentinel` or `cluster`.
    pub mode: Option<String>,
    /// Lookups, expiries and evictions, added up by us since we started.
    pub totals: NodeTotals,
    /// Keys now, over all databases.
    pub keys: Option<f64>,
    /// Bytes in use, at most ten seconds ago.
    pub memory_used: Option<f64>,
    /// The memory limit in bytes; `None` when there is none or the server does not say.
    pub memory_limit: Option<f64>,
    /// Counter resets seen, by reason, every reason there from the start.
    pub resets: Vec<(&'static str, Resets)>,
    /// Which commands the server lets us use.
    pub capabilities: Vec<(&'static str, bool)>,
    /// INFO fields that are missing or could not be read, so far.
    pub info_problems: Vec<(&'static str, u64)>,
}

/// How often a server's counters began anew.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Resets {
    /// Times since the first poll.
    pub count: u64,
    /// The last time, Unix seconds of the poll that saw it.
    pub last: Option<f64>,
}

/// Counters that survive resets, without our own sampler's lookups.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NodeTotals {
    /// Hits.
    pub hits: f64,
    /// Misses.
    pub misses: f64,
    /// Expired keys.
    pub expired: f64,
    /// Evicted keys.
    pub evicted: f64,
}

/// One application source of a cache. Counters are added up by us since we started; `None` where
/// the mapping does not have them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AppState {
    /// The application's name from the configuration.
    pub app: Arc<str>,
    /// Whether the last scrape worked.
    pub up: bool,
    /// Unix seconds of the last scrape that worked.
    pub last_success: Option<f64>,
    /// Failed scrapes by reason, every reason there from the start.
    pub errors_by_reason: Vec<(&'static str, u64)>,
    /// The counters.
    pub totals: AppTotals,
}

/// What an application counts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AppTotals {
    /// Hits.
    pub hits: Option<f64>,
    /// Misses.
    pub misses: Option<f64>,
    /// Queries to the backend.
    pub loads: Option<f64>,
    /// Requests that shared another one's load.
    pub loads_coalesced: Option<f64>,
    /// Failed cache calls.
    pub errors: Option<f64>,
    /// Loads that found nothing.
    pub not_found: Option<f64>,
    /// Locks acquired.
    pub lock_acquired: Option<f64>,
    /// Locks held by somebody else.
    pub lock_contended: Option<f64>,
    /// Lock waits that gave up.
    pub lock_timeout: Option<f64>,
    /// Lock attempts that failed.
    pub lock_error: Option<f64>,
}

/// A histogram of durations: the observations so far in each bucket, not added up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// Upper bounds in seconds, rising.
    pub bounds: Vec<f64>,
    /// One count a bound, then those above the last one.
    pub counts: Vec<u64>,
    /// Sum of the observations, seconds.
    pub sum: f64,
}

impl Histogram {
    /// A histogram that holds nothing, with these rising upper bounds, seconds.
    pub fn new(bounds: &[f64]) -> Histogram {
        Histogram { bounds: bounds.to_vec(), counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Adds one observation, seconds.
    pub fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum += value;
    }
}
