//! What expires when: the remaining TTLs of the key space, estimated from a sample.

use std::sync::Arc;

/// Upper bounds of the TTL histogram's buckets, seconds; the last one of the exposition is `+Inf`.
pub const TTL_BOUNDS: [f64; 16] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 10_800.0, 43_200.0,
    86_400.0, 604_800.0,
];

/// The windows of `stampede_keys_due`, seconds, with their label values.
pub const DUE_WINDOWS: [(f64, &str); 4] =
    [(1.0, "1s"), (10.0, "10s"), (60.0, "60s"), (300.0, "300s")];

/// The group of the keys that match no configured pattern.
pub const OTHER_GROUP: &str = "other";

/// The picture of one cache's deadlines at one instant, scaled to the whole key space.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TtlPicture {
    /// Unix seconds for which the picture holds.
    pub time: f64,
    /// One entry a configured group, in configuration order, and [`OTHER_GROUP`] last.
    pub groups: Vec<GroupTtl>,
    /// The whole key space together.
    pub all: Forecast,
    /// Keys in the sample that this rests on.
    pub sample_keys: u64,
    /// Unix seconds of the newest sampled key.
    pub sample_time: Option<f64>,
    /// Lookups the sampler has caused at the servers so far.
    pub sampler_lookups: u64,
}

/// One group's share of the picture; counts are estimates for the whole key space.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupTtl {
    /// The group's name from the configuration.
    pub name: Arc<str>,
    /// Keys by remaining TTL: one count a bound of [`TTL_BOUNDS`], not cumulative, then those above.
    pub buckets: Vec<f64>,
    /// Sum of the remaining TTLs, seconds.
    pub ttl_sum: f64,
    /// Keys that never expire.
    pub without_ttl: f64,
    /// Keys due within each of [`DUE_WINDOWS`].
    pub due: [f64; DUE_WINDOWS.len()],
    /// Where this group's deadlines pile up.
    pub forecast: Forecast,
}

/// The highest second ahead.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Forecast {
    /// Keys that run out in the highest second ahead, if any key has a deadline.
    pub peak_keys_per_second: Option<f64>,
    /// Seconds until that second.
    pub peak_in: Option<f64>,
    /// That second's keys over the mean of the horizon.
    pub clustering_ratio: Option<f64>,
}
