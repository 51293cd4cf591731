//! What the sources of a cache said at one instant.
//!
//! [`Reading`] is the common currency: live polling makes one from `INFO` and the applications'
//! pages, a recorded trace has one a row. Everything after it is the same code for both.

pub mod expression;
pub mod info;
pub mod mapping;
pub mod page;
pub mod presets;

/// Where a count comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The server's own `keyspace_hits` and `keyspace_misses`.
    Redis,
    /// The counters of the instrumented applications, added up.
    App,
}

impl Source {
    /// All sources, in label order.
    pub const ALL: [Source; 2] = [Source::Redis, Source::App];

    /// The value of the `source` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Redis => "redis",
            Source::App => "app",
        }
    }
}

/// One value for each [`Source`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BySource<T> {
    /// The server's.
    pub redis: T,
    /// The applications'.
    pub app: T,
}

impl<T> BySource<T> {
    /// The value of one source.
    pub fn get(&self, source: Source) -> &T {
        match source {
            Source::Redis => &self.redis,
            Source::App => &self.app,
        }
    }

    /// The value of one source, to change it.
    pub fn get_mut(&mut self, source: Source) -> &mut T {
        match source {
            Source::Redis => &mut self.redis,
            Source::App => &mut self.app,
        }
    }
}

impl<T: Copy> BySource<Option<T>> {
    /// The value of the source that is nearest to what users wait for: the applications' if they
    /// say anything, else the server's.
    pub fn nearest(&self) -> Option<T> {
        self.app.or(self.redis)
    }
}

/// Hits and misses: cumulative in a [`Reading`], a difference in a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lookups {
    /// Lookups that found a value.
    pub hits: f64,
    /// Lookups that found none.
    pub misses: f64,
}

impl Lookups {
    /// Hits and misses together.
    pub fn total(self) -> f64 {
        self.hits + self.misses
    }
}

/// Whether the server behind the cache answered the poll.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reach {
    /// Nothing is known about it, as in a trace without an `up` column.
    #[default]
    Unknown,
    /// Every node answered.
    Answering,
    /// Some node that should answer did not.
    Failing,
    /// The server answers but is still loading its data set.
    Loading,
}

/// Everything the sources of one cache said at one instant. Counts are cumulative; `None` means
/// that the source does not say, never zero.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Unix seconds.
    pub time: f64,
    /// Hits and misses since some start, of each source that gave them.
    pub lookups: BySource<Option<Lookups>>,
    /// Keys removed because their time was up (`expired_keys`).
    pub expired: Option<f64>,
    /// Keys removed for lack of memory (`evicted_keys`).
    pub evicted: Option<f64>,
    /// Cache calls that failed at the applications.
    pub errors: Option<f64>,
    /// Loads that found that the value exists nowhere.
    pub not_found: Option<f64>,
    /// Queries to the backend.
    pub loads: Option<f64>,
    /// Requests that shared another one's load.
    pub coalesced: Option<f64>,
    /// Lock attempts that got the lock.
    pub lock_acquired: Option<f64>,
    /// Lock attempts that did not: contended, timed out or failed.
    pub lock_failed: Option<f64>,
    /// `FLUSHALL` and `FLUSHDB` calls.
    pub flushes: Option<f64>,
    /// Keys in the whole key space now.
    pub keys: Option<f64>,
    /// Seconds since the youngest node's process started, or took another one's place.
    pub uptime: Option<f64>,
    /// Median load latency over the window, seconds.
    pub latency_p50: Option<f64>,
    /// 99th percentile of the load latency over the window, seconds.
    pub latency_p99: Option<f64>,
    /// Keys due in the coming second over the mean expiry rate, as the TTL forecast sees it.
    pub due_ratio: Option<f64>,
    /// Share of the recent misses that fall on the most-missed key, 0 to 1.
    pub hot_key_share: Option<f64>,
    /// Whether Redis answered.
    pub reach: Reach,
}
