//! The columns and the fields of a reading that they fill.

use crate::reading::{Lookups, Reach, Reading};

/// A column of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Column {
    /// Unix seconds.
    Time,
    /// Lookups that found a value.
    Hits,
    /// Lookups that found none.
    Misses,
    /// Keys that ran out.
    Expired,
    /// Keys that memory had no room for.
    Evicted,
    /// Failed cache calls.
    Errors,
    /// Loads that found nothing.
    NotFound,
    /// Backend queries.
    Loads,
    /// Requests that shared a load.
    Coalesced,
    /// Locks acquired.
    LockAcquired,
    /// Locks refused.
    LockFailed,
    /// Flush calls.
    Flushes,
    /// Keys now.
    Keys,
    /// Seconds since the youngest server process started, or took another one's place.
    Uptime,
    /// Median load latency, seconds.
    LatencyP50,
    /// 99th percentile of the load latency, seconds.
    LatencyP99,
    /// Keys due in the coming second over the mean.
    DueRatio,
    /// Share of the recent misses on the most-missed key.
    HotKeyShare,
    /// The server's own hits, when `hits` is the applications'.
    RedisHits,
    /// The server's own misses, when `misses` is the applications'.
    RedisMisses,
    /// Whether the server answers.
    Up,
}

impl Column {
    /// Every column, in the order in which they are written.
    pub const ALL: [Column; 21] = [
        Column::Time,
        Column::Hits,
        Column::Misses,
        Column::Expired,
        Column::Evicted,
        Column::Errors,
        Column::NotFound,
        Column::Loads,
        Column::Coalesced,
        Column::LockAcquired,
        Column::LockFailed,
        Column::Flushes,
        Column::Keys,
        Column::Uptime,
        Column::LatencyP50,
        Column::LatencyP99,
        Column::DueRatio,
        Column::HotKeyShare,
        Column::RedisHits,
        Column::RedisMisses,
        Column::Up,
    ];

    /// The columns without which there is no trace.
    pub const REQUIRED: [Column; 3] = [Column::Time, Column::Hits, Column::Misses];

    /// The name in the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Column::Time => "time",
            Column::Hits => "hits",
            Column::Misses => "misses",
            Column::Expired => "expired",
            Column::Evicted => "evicted",
            Column::Errors => "errors",
            Column::NotFound => "not_found",
            Column::Loads => "loads",
            Column::Coalesced => "coalesced",
            Column::LockAcquired => "lock_acquired",
            Column::LockFailed => "lock_failed",
            Column::Flushes => "flushes",
            Column::Keys => "keys",
            Column::Uptime => "uptime",
            Column::LatencyP50 => "latency_p50",
            Column::LatencyP99 => "latency_p99",
            Column::DueRatio => "due_ratio",
            Column::HotKeyShare => "hot_key_share",
            Column::RedisHits => "redis_hits",
            Column::RedisMisses => "redis_misses",
            Column::Up => "up",
        }
    }

    /// What its cells may hold, for messages.
    pub(super) fn legal(self) -> &'static str {
        match self {
            Column::Time => "Unix seconds (from 0 to 253402300799)",
            Column::Up => "0, 1 or 2",
            Column::HotKeyShare => "a share from 0 to 1",
            _ => "a number of 0 or more",
        }
    }

    /// The column of a header's name.
    pub fn from_name(name: &str) -> Option<Column> {
        Column::ALL.into_iter().find(|column| column.as_str() == name)
    }
}

/// The last second of the year 9999, Unix seconds. A later time is not in seconds, or damaged.
pub const LATEST: f64 = 253_402_300_799.0;

/// How far above 1 a share may be that was computed elsewhere.
const ROUNDING: f64 = 1e-9;

/// A row's lookups, which are two cells a source.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowLookups {
    hits: Option<f64>,
    misses: Option<f64>,
    redis_hits: Option<f64>,
    redis_misses: Option<f64>,
}

impl RowLookups {
    /// Puts the row's lookups into the reading; `apart` when the server's own are columns too.
    pub(crate) fn fill(self, reading: &mut Reading, apart: bool) {
        let pair = |hits: Option<f64>, misses: Option<f64>| {
            hits.zip(misses).map(|(hits, misses)| Lookups { hits, misses })
        };
        let named = pair(self.hits, self.misses);
        if apart {
            reading.lookups.app = named;
            reading.lookups.redis = pair(self.redis_hits, self.redis_misses);
        } else {
            reading.lookups.redis = named;
        }
    }
}

/// Takes a cell into the reading. Whether the value is one that the column can have.
pub(crate) fn take(
    column: Column,
    value: f64,
    reading: &mut Reading,
    lookups: &mut RowLookups,
) -> bool {
    let field = match column {
        Column::Time => {
            reading.time = value;
            return (0.0..=LATEST).contains(&value);
        }
        Column::Up => {
            reading.reach = match value {
                1.0 => Reach::Answering,
                0.0 => Reach::Failing,
                2.0 => Reach::Loading,
                _ => return false,
            };
            return true;
        }
        Column::Hits => &mut lookups.hits,
        Column::Misses => &mut lookups.misses,
        Column::RedisHits => &mut lookups.redis_hits,
        Column::RedisMisses => &mut lookups.redis_misses,
        Column::Expired => &mut reading.expired,
        Column::Evicted => &mut reading.evicted,
        Column::Errors => &mut reading.errors,
        Column::NotFound => &mut reading.not_found,
        Column::Loads => &mut reading.loads,
        Column::Coalesced => &mut reading.coalesced,
        Column::LockAcquired => &mut reading.lock_acquired,
        Column::LockFailed => &mut reading.lock_failed,
        Column::Flushes => &mut reading.flushes,
        Column::Keys => &mut reading.keys,
        Column::Uptime => &mut reading.uptime,
        Column::LatencyP50 => &mut reading.latency_p50,
        Column::LatencyP99 => &mut reading.latency_p99,
        Column::DueRatio => &mut reading.due_ratio,
        Column::HotKeyShare => &mut reading.hot_key_share,
    };
    *field = Some(value);
    value >= 0.0 && (column != Column::HotKeyShare || value <= 1.0 + ROUNDING)
}

/// What a reading has for a column; `apart` as in [`RowLookups::fill`].
pub(super) fn give(column: Column, reading: &Reading, apart: bool) -> Option<f64> {
    let redis = reading.lookups.redis;
    let named = if apart { reading.lookups.app } else { redis };
    match column {
        Column::Time => Some(reading.time),
        Column::Hits => named.map(|l| l.hits),
        Column::Misses => named.map(|l| l.misses),
        Column::RedisHits => redis.filter(|_| apart).map(|l| l.hits),
        Column::RedisMisses => redis.filter(|_| apart).map(|l| l.misses),
        Column::Up => match reading.reach {
            Reach::Unknown => None,
            Reach::Failing => Some(0.0),
            Reach::Answering => Some(1.0),
            Reach::Loading => Some(2.0),
        },
        Column::Expired => reading.expired,
        Column::Evicted => reading.evicted,
        Column::Errors => reading.errors,
        Column::NotFound => reading.not_found,
        Column::Loads => reading.loads,
        Column::Coalesced => reading.coalesced,
        Column::LockAcquired => reading.lock_acquired,
        Column::LockFailed => reading.lock_failed,
        Column::Flushes => reading.flushes,
        Column::Keys => reading.keys,
        Column::Uptime => reading.uptime,
        Column::LatencyP50 => reading.latency_p50,
        Column::LatencyP99 => reading.latency_p99,
        Column::DueRatio => reading.due_ratio,
        Column::HotKeyShare => reading.hot_key_share,
    }
}
