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
    /// A counter that fell was reset, and what it would have shown is not guessed: a short gap is
    /// better than an invented rate. Nothing is ever negative, infinite or not a number.
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
            keys: known(after.keys),
            keys_before: known(before.keys),
            restarted: restarted(known(before.uptime), known(after.uptime), dt),
            latency_p50: known(after.latency_p50),
            latency_p99: known(after.latency_p99),
            due_ratio: known(after.due_ratio),
            hot_key_share: known(after.hot_key_share).map(|share| share.min(1.0)),
            reach: after.reach,
        })
    }
}

/// Uptime is in whole seconds and read a little later than the clock, so it may lag by this much.
const UPTIME_SLACK: f64 = 2.0;

/// Consecutive readings of one cache, turned into samples.
///
/// A reading that knows no lookups leaves a gap. The first one that knows them again is compared
/// with the last one that did, so that what happened in the gap is one long sample, not nothing.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    before: Option<Reading>,
    /// The last reading that knew its lookups, while the one before does not.
    anchor: Option<Reading>,
}

impl Samples {
    /// The sample that ends at this reading; `None` at the first one and when no time passed.
    pub fn next(&mut self, reading: &Reading) -> Option<Sample> {
        let known = knows_lookups(reading);
        let from = self.anchor.as_ref().filter(|_| known).or(self.before.as_ref());
        let sample = from.and_then(|from| Sample::between(from, reading));
        if known {
            self.anchor = None;
        } else if self.before.as_ref().is_some_and(knows_lookups) {
            self.anchor = self.before.take();
        }
        match &mut self.before {
            Some(before) => before.clone_from(reading),
            none => *none = Some(reading.clone()),
        }
        sample
    }
}

fn knows_lookups(reading: &Reading) -> bool {
    reading.lookups.app.is_some() || reading.lookups.redis.is_some()
}

/// How much a counter rose; `None` when it fell or is unknown on either side.
fn rise(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let difference = known(after)? - known(before)?;
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

/// A value that can be a count, a time or a share; anything else says nothing.
pub(super) fn known(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value >= 0.0)
}

/// Whether the process is a new one: its uptime fell, or it is younger than the earlier reading,
/// which happens when it grew past its old value in a long gap.
fn restarted(before: Option<f64>, after: Option<f64>, dt: f64) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => after < before || after + UPTIME_SLACK < dt,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(time: f64, hits: f64, misses: f64) -> Reading {
        let lookups = BySource { redis: Some(Lookups { hits, misses }), app: None };
        Reading { time, lookups, ..Reading::default() }
    }

    fn redis(sample: &Sample) -> Option<(f64, f64)> {
        sample.lookups.redis.map(|lookups| (lookups.hits, lookups.misses))
    }

    #[test]
    fn differences_and_the_later_gauges() {
        let before = Reading {
            expired: Some(7.0),
            loads: Some(3.0),
            keys: Some(500.0),
            uptime: Some(90.0),
            due_ratio: Some(1.0),
            ..reading(10.0, 100.0, 20.0)
        };
        let after = Reading {
            expired: Some(9.0),
            loads: None,
            keys: Some(480.0),
            uptime: Some(91.0),
            due_ratio: Some(4.0),
            reach: Reach::Answering,
            ..reading(11.5, 160.0, 25.0)
        };
        let sample = Sample::between(&before, &after).unwrap();
        assert_eq!((sample.time, sample.dt), (11.5, 1.5));
        assert_eq!(redis(&sample), Some((60.0, 5.0)));
        assert_eq!(sample.lookups.app, None);
        assert_eq!((sample.expired, sample.loads), (Some(2.0), None));
        assert_eq!((sample.keys_before, sample.keys), (Some(500.0), Some(480.0)));
        assert_eq!((sample.due_ratio, sample.reach), (Some(4.0), Reach::Answering));
        assert!(!sample.restarted);
    }

    #[test]
    fn no_time_no_sample() {
        for time in [10.0, 9.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Sample::between(&reading(10.0, 1.0, 1.0), &reading(time, 2.0, 2.0)), None);
        }
    }

    #[test]
    fn a_fallen_counter_is_a_gap_and_takes_its_partner_along() {
        let before = Reading { expired: Some(50.0), ..reading(0.0, 1000.0, 100.0) };
        let hits_fell = Reading { expired: Some(2.0), ..reading(1.0, 40.0, 300.0) };
        let sample = Sample::between(&before, &hits_fell).unwrap();
        assert_eq!((redis(&sample), sample.expired), (None, None));
        let misses_fell = reading(1.0, 1010.0, 5.0);
        assert_eq!(redis(&Sample::between(&before, &misses_fell).unwrap()), None);
    }

    #[test]
    fn a_new_process_is_told_by_its_uptime() {
        let uptime = |before, after, dt| {
            let before = Reading { uptime: before, ..reading(0.0, 1.0, 1.0) };
            let after = Reading { uptime: after, ..reading(dt, 1.0, 1.0) };
            Sample::between(&before, &after).unwrap().restarted
        };
        assert!(uptime(Some(100.0), Some(0.0), 1.0));
        assert!(uptime(Some(100.0), Some(300.0), 600.0), "it started within the gap");
        assert!(!uptime(Some(100.0), Some(700.0), 600.0));
        assert!(!uptime(Some(100.0), Some(100.0), 0.9), "whole seconds stand still");
        assert!(!uptime(Some(0.0), Some(0.0), 1.5));
        assert!(!uptime(None, Some(0.0), 1.0) && !uptime(Some(9.0), None, 1.0));
    }

    #[test]
    fn garbage_says_nothing() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            let before = reading(0.0, 10.0, 10.0);
            let after = Reading {
                loads: Some(bad),
                keys: Some(bad),
                hot_key_share: Some(bad),
                ..reading(1.0, bad, 20.0)
            };
            let sample = Sample::between(&before, &after).unwrap();
            assert_eq!(redis(&sample), None);
            assert_eq!((sample.loads, sample.keys, sample.hot_key_share), (None, None, None));
            assert_eq!(redis(&Sample::between(&after, &reading(2.0, 30.0, 30.0)).unwrap()), None);
        }
    }

    #[test]
    fn a_gap_becomes_one_long_sample() {
        let mut samples = Samples::default();
        let unknown = |time| Reading { time, ..Reading::default() };
        assert_eq!(samples.next(&reading(1.0, 100.0, 10.0)), None, "nothing to compare with");
        let silent = samples.next(&unknown(2.0)).expect("time passed");
        assert_eq!((silent.dt, redis(&silent)), (1.0, None));
        assert_eq!(samples.next(&unknown(3.0)).map(|s| s.dt), Some(1.0));
        let after = samples.next(&reading(4.0, 190.0, 20.0)).expect("time passed");
        assert_eq!((after.dt, redis(&after)), (3.0, Some((90.0, 10.0))));
        let next = samples.next(&reading(5.0, 191.0, 20.0)).expect("time passed");
        assert_eq!((next.dt, redis(&next)), (1.0, Some((1.0, 0.0))));
    }
}
