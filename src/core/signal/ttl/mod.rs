//! What expires when: the remaining TTLs of the key space, estimated from a sample.
//!
//! ```text
//! draw(key, ttl) ──▶ Deadlines   absolute deadlines of the sampled keys, bounded (records.rs)
//!                        ▼
//!                     Mass       what each stands for in the key space now        (mass.rs)
//!                        ▼
//!                     scan       stretches that chance does not explain           (wave.rs)
//!                        ▼
//!                     Look       histogram, peaks and waves, by group             (look.rs)
//!                        ▼
//!                     TtlPicture the last look, moved with the clock              (estimator.rs)
//! ```
//!
//! What the server says afterwards is held against it: `outcome.rs` follows each wave to its end, and
//! `held.rs` finds the keys that the server counts although their time is up.
//!
//! `statrs` has its second door here, in `binomial.rs`: the tail of the scan statistic.

mod announced;
mod binomial;
mod deadlines;
mod estimator;
mod forecast;
mod glob;
mod held;
mod look;
mod mass;
mod outcome;
mod popularity;
mod records;
mod wave;

use std::sync::Arc;

pub use estimator::{Estimator, Groups, Seen};
pub use held::passed;
pub use outcome::{Outcome, PastWave};

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

/// The group that stands for the whole key space.
pub const ALL_GROUP: &str = "all";

/// The picture of one cache's deadlines at one instant, scaled to the whole key space. What is due, how
/// far off things are and which waves are still to come holds for that instant; the rest is from the
/// last look at the whole sample, at most 20 seconds and a twelfth of the sample before (`look.rs`).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TtlPicture {
    /// Unix seconds for which the picture holds.
    pub time: f64,
    /// One entry a configured group, in configuration order, and [`OTHER_GROUP`] last.
    pub groups: Vec<GroupTtl>,
    /// The whole key space together.
    pub all: Forecast,
    /// Keys due within each of [`DUE_WINDOWS`], over all groups, with their intervals.
    pub due: [Estimate; DUE_WINDOWS.len()],
    /// Coming waves, soonest first; see [`Wave`].
    pub waves: Vec<Wave>,
    /// Keys of the smallest wave of one second that this sample shows in 9 of 10 cases, among even
    /// deadlines: smaller ones stay unseen. `None` where nothing has a deadline.
    pub smallest_wave: Option<f64>,
    /// Keys due in the coming second over the mean rate; `None` where nothing has a deadline. It
    /// is a wave's [`Wave::clustering_ratio`] while one breaks, and smoothed otherwise, so that
    /// the noise of a small sample is no evidence.
    pub due_ratio: Option<f64>,
    /// Waves that are over, newest first: the last ten.
    pub past_waves: Vec<PastWave>,
    /// Keys in the databases, without those in `held`.
    pub keys: f64,
    /// Keys past their deadline that the server still holds and counts; `None` before the scan has
    /// passed enough of them, or where its cursor does not tell how far it is.
    pub held: Option<Estimate>,
    /// Keys that never expire.
    pub without_ttl: f64,
    /// Their share of all keys, 0 to 1.
    pub without_ttl_share: Estimate,
    /// Keys in the sample that this rests on.
    pub sample_keys: u64,
    /// Unix seconds of the newest sampled key.
    pub sample_time: Option<f64>,
    /// Lookups the sampler has caused at the servers so far.
    pub sampler_lookups: u64,
    /// Keys so far that the server refused to look up one by one, or answered oddly.
    pub odd_keys: u64,
    /// Share of one core of the server that sampling takes, where the server shows it.
    pub server_share: Option<f64>,
    /// How far the sampler's rounds have got.
    pub rounds: Rounds,
    /// Keys of the watch list, in configuration order.
    pub watched: Vec<Watched>,
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
    /// The interval of `without_ttl`.
    pub without_ttl_interval: (f64, f64),
    /// Keys due within each of [`DUE_WINDOWS`].
    pub due: [f64; DUE_WINDOWS.len()],
    /// The intervals of `due`.
    pub due_intervals: [(f64, f64); DUE_WINDOWS.len()],
    /// Where this group's deadlines pile up.
    pub forecast: Forecast,
}

/// The highest second ahead.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Forecast {
    /// Keys that run out in the highest second ahead, if any key has a deadline. Inside a wave it
    /// is that second itself; without one it is the highest mean over a stretch that holds enough
    /// sampled keys to tell it from noise.
    pub peak_keys_per_second: Option<f64>,
    /// The interval of `peak_keys_per_second`.
    pub peak_interval: Option<(f64, f64)>,
    /// Seconds until that second.
    pub peak_in: Option<f64>,
    /// That second's keys over the mean rate, which is the highest that any horizon from now on
    /// shows. 1 is perfectly even.
    pub clustering_ratio: Option<f64>,
}

/// A number with its 95 % interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// The best guess.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// The estimate of something proportional to this.
    pub fn times(self, factor: f64) -> Estimate {
        self.map(|number| number * factor)
    }

    /// The estimate of a sum whose parts may all err to the same side.
    fn plus(self, other: Estimate) -> Estimate {
        Estimate {
            value: self.value + other.value,
            low: self.low + other.low,
            high: self.high + other.high,
        }
    }

    fn map(self, number: impl Fn(f64) -> f64) -> Estimate {
        Estimate { value: number(self.value), low: number(self.low), high: number(self.high) }
    }
}

/// Many keys that run out together, significant by the scan statistic.
///
/// A wave of one group carries the group's name; one that no single group explains carries
/// [`ALL_GROUP`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wave {
    /// The group.
    pub group: Arc<str>,
    /// Unix seconds of its first deadline.
    pub start: f64,
    /// Unix seconds of its last deadline.
    pub end: f64,
    /// Keys that run out in it.
    pub keys: Estimate,
    /// Keys that run out in its highest second.
    pub peak_keys_per_second: Estimate,
    /// Its keys over all keys of its group that have a deadline, 0 to 1.
    pub group_share: f64,
    /// Keys of its highest second over all keys of the cache, 0 to 1.
    pub space_share: Estimate,
    /// The share of the lookups that fall on those keys, 0 to 1, where the server counts the use of
    /// each key: with an LFU policy, and if the user may ask `OBJECT FREQ`.
    pub lookup_share: Option<Estimate>,
    /// Its highest second over the mean rate of its group, as far ahead as it was first seen.
    pub clustering_ratio: f64,
    /// Unix seconds when it was first seen, so that the lead time is known.
    pub announced: f64,
}

impl Wave {
    /// Misses a second that its highest second adds, if each due key is missed by every lookup of
    /// that second; a key loaded again within it costs less. Where the server does not count the use
    /// of each key, lookups are taken to fall evenly on all, and a popular wave costs more.
    pub fn extra_misses_per_second(&self, lookups_per_second: f64) -> Estimate {
        self.lookup_share.unwrap_or(self.space_share).times(lookups_per_second)
    }
}

/// How far the sampler has got.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rounds {
    /// Whole rounds over every database so far. With none, the picture rests on a part of them.
    pub complete: u64,
    /// Keys given by the scan in the round that runs now.
    pub keys_in_round: u64,
}

/// A key of the watch list as last asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Watched {
    /// Its name from the configuration; never the key.
    pub name: Arc<str>,
    /// What the server said; `None` before the first answer or where it refused.
    pub state: Option<WatchedState>,
}

/// What is known of a watched key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WatchedState {
    /// It runs out at this Unix time.
    Due(f64),
    /// It never expires.
    NoTtl,
    /// It does not exist.
    Missing,
}
