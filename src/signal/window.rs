//! The sliding window that ratios and rates are taken over.

use crate::reading::BySource;

/// What a person watches, over the window. `None` is undefined: too few lookups, or no source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Signals {
    /// Hits over lookups, 0 to 1.
    pub hit_ratio: BySource<Option<f64>>,
    /// Lookups a second.
    pub lookups_per_second: BySource<Option<f64>>,
    /// Misses a second.
    pub misses_per_second: BySource<Option<f64>>,
    /// Backend queries a second: the database's QPS as the applications see it.
    pub loads_per_second: Option<f64>,
    /// Lock attempts a second, whatever their result.
    pub lock_attempts_per_second: Option<f64>,
    /// Refused over all lock attempts, 0 to 1.
    pub lock_contention_ratio: Option<f64>,
    /// Median load latency, seconds.
    pub load_latency_p50: Option<f64>,
    /// 99th percentile of the load latency, seconds.
    pub load_latency_p99: Option<f64>,
    /// Misses in the window per key that expired in it.
    pub misses_per_expiry: Option<f64>,
}
