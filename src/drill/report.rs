//! What a run came to, for machines and for people.

use std::time::Duration;

use serde::Serialize;

use super::options::Options;
use super::protections::Protections;
use super::stage::Stage;
use super::watch::Seen;
use super::workload::Workload;

/// Below this share of the planned requests the rate was not held.
const HELD: f64 = 0.99;
/// Requests that begin later than that, at the 99th percentile, came in bursts of the machine's
/// making and not as planned.
const LATE: f64 = 0.05;

/// One run. The JSON names are fixed; times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What befell the cache.
    pub scenario: &'static str,
    /// What protected it.
    pub protection: String,
    /// Seed of times and keys.
    pub seed: u64,
    /// Seconds of load.
    pub seconds: f64,
    /// Whether it was stopped before its time.
    pub interrupted: bool,
    /// Requests begun.
    pub requests: u64,
    /// Requests a second that were asked for.
    pub rate_asked: f64,
    /// Requests a second that were begun.
    pub rate_reached: f64,
    /// Whether the machine held the rate, so that the figures mean what they say.
    pub rate_held: bool,
    /// Lookups that found an entry.
    pub hits: u64,
    /// Hits that Redis was not asked for.
    pub near_hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Backend queries.
    pub loads: u64,
    /// Loads beyond one for each time that an entry had to be made anew.
    pub duplicate_loads: u64,
    /// Requests that shared a load.
    pub coalesced: u64,
    /// Requests answered with an old value.
    pub stale_served: u64,
    /// Locks taken.
    pub lock_acquired: u64,
    /// Lock attempts refused.
    pub lock_contended: u64,
    /// Waits for a lock that gave up.
    pub lock_timeouts: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Cache calls that failed.
    pub cache_errors: u64,
    /// Loads that the backend refused.
    pub backend_errors: u64,
    /// What a real database said to the last load that failed.
    pub backend_said: Option<String>,
    /// Loads that found nothing.
    pub not_found: u64,
    /// Median latency of a request.
    pub latency_p50_seconds: Option<f64>,
    /// 99th percentile of the latency of a request.
    pub latency_p99_seconds: Option<f64>,
    /// The most loads that ran or waited at once.
    pub peak_concurrent_loads: u64,
    /// How late requests began, 99th percentile.
    pub lateness_p99_seconds: Option<f64>,
    /// Unix seconds at which the scenario struck.
    pub struck_at: Option<f64>,
    /// What the exporter declared.
    pub incidents: Vec<Seen>,
}

/// What a run was.
pub(super) struct Run<'a> {
    pub(super) stage: &'a Stage,
    pub(super) options: &'a Options,
    pub(super) protections: &'a Protections,
    pub(super) workload: &'a Workload,
    pub(super) incidents: Vec<Seen>,
    pub(super) struck_at: Option<f64>,
    pub(super) seconds: f64,
    pub(super) interrupted: bool,
}

impl Report {
    /// Sums up a run.
    pub(super) fn new(run: Run<'_>) -> Report {
        let Run { stage, options, seconds, .. } = run;
        let counters = stage.counters();
        let requests = counters.requests.get();
        let lateness = counters.lateness.quantile(0.99);
        let planned = run.workload.planned() as f64;
        let reached = requests as f64 >= HELD * planned;
        Report {
            scenario: options.scenario.as_str(),
            protection: run.protections.to_string(),
            seed: options.seed,
            seconds,
            interrupted: run.interrupted,
            requests,
            rate_asked: options.rate,
            rate_reached: requests as f64 / seconds.max(Duration::from_millis(1).as_secs_f64()),
            rate_held: reached && lateness.is_none_or(|late| late <= LATE),
            hits: counters.hits.get(),
            near_hits: counters.near_hits.get(),
            misses: counters.misses.get(),
            loads: counters.loads.get(),
            duplicate_loads: counters.duplicate_loads.get(),
            coalesced: counters.coalesced.get(),
            stale_served: counters.stale_served.get(),
            lock_acquired: counters.locks.acquired.get(),
            lock_contended: counters.locks.contended.get(),
            lock_timeouts: counters.locks.timeout.get(),
            errors: counters.failed.get(),
            cache_errors: counters.cache_errors.get(),
            backend_errors: counters.backend_errors.get(),
            backend_said: stage.backend().said().map(|said| said.to_string()),
            not_found: counters.not_found.get(),
            latency_p50_seconds: counters.latency.quantile(0.5),
            latency_p99_seconds: counters.latency.quantile(0.99),
            peak_concurrent_loads: stage.backend().peak() as u64,
            lateness_p99_seconds: lateness,
            struck_at: run.struck_at,
            incidents: run.incidents,
        }
    }
}
