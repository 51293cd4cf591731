//! What happened between two readings.

use crate::reading::{BySource, Lookups, Reach, Reading};

/// The differences between two consecutive readings of one cache, and the gauges of the later one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// Unix seconds of the later reading.
    pub time: f64,
    /// Seconds between the two; always above zero.
    pub dt: f64,
    /// Hits and misses in between.
    pub lookups: BySource<Option<Lookups>>,
    /// Keys expired in between.
    pub expired: Option<f64>,
    /// Keys evicted in between.
    pub evicted: Option<f64>,
    /// Failed cache calls in between.
    pub errors: Option<f64>,
    /// Loads that found nothing in between.
    pub not_found: Option<f64>,
    /// Backend queries in between.
    pub loads: Option<f64>,
    /// Requests that shared a load in between.
    pub coalesced: Option<f64>,
    /// Locks acquired in between.
    pub lock_acquired: Option<f64>,
    /// Lock attempts refused in between.
    pub lock_failed: Option<f64>,
    /// Flush calls in between.
    pub flushes: Option<f64>,
    /// Keys at the later reading.
    pub keys: Option<f64>,
    /// Keys at the earlier reading.
    pub keys_before: Option<f64>,
    /// Whether a server process started in between (uptime fell).
    pub restarted: bool,
    /// Median load latency, seconds.
    pub latency_p50: Option<f64>,
    /// 99th percentile of the load latency, seconds.
    pub latency_p99: Option<f64>,
    /// See [`Reading::due_ratio`].
    pub due_ratio: Option<f64>,
    /// See [`Reading::hot_key_share`].
    pub hot_key_share: Option<f64>,
    /// Whether Redis answered at the later reading.
    pub reach: Reach,
}

impl Sample {
    /// The sample between two readings, or `None` when no time passed between them.
    ///
    /// A counter that fell was reset: what it shows now is all that is known to have happened
    /// since, and for hits and misses that is dropped rather than guessed (a short gap is better
    /// than a spike). Nothing is ever negative.
    pub fn between(before: &Reading, after: &Reading) -> Option<Sample> {
        let dt = after.time - before.time;
        if !(dt > 0.0 && dt.is_finite()) {
            return None;
        }
        Some(Sample {
            time: after.time,
            dt,
            lookups: BySource {
                redis: lookups(before.lookups.redis, after.lookups.redis),
                app: lookups(before.lookups.app, after.lookups.app),
            },
            expired: rise(before.expired, after.expired),
            evicted: rise(before.evicted, after.evicted),
            errors: rise(before.errors, after.errors),
            not_found: rise(before.not_found, after.not_found),
            loads: rise(before.loads, after.loads),
            coalesced: rise(before.coalesced, after.coalesced),
            lock_acquired: rise(before.lock_acquired, after.lock_acquired),
            lock_failed: rise(before.lock_failed, after.lock_failed),
            flushes: rise(before.flushes, after.flushes),
            keys: after.keys,
            keys_before: before.keys,
            restarted: matches!((before.uptime, after.uptime), (Some(b), Some(a)) if a < b),
            latency_p50: after.latency_p50,
            latency_p99: after.latency_p99,
            due_ratio: after.due_ratio,
            hot_key_share: after.hot_key_share,
            reach: after.reach,
        })
    }
}

/// How much a counter rose; `None` when it fell or is unknown on either side.
fn rise(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let difference = after? - before?;
    (difference >= 0.0).then_some(difference)
}

/// Hits and misses stand or fall together: one that was reset makes the other unreliable.
fn lookups(before: Option<Lookups>, after: Option<Lookups>) -> Option<Lookups> {
    let (before, after) = (before?, after?);
    Some(Lookups {
        hits: rise(Some(before.hits), Some(after.hits))?,
        misses: rise(Some(before.misses), Some(after.misses))?,
    })
}
