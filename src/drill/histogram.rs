//! Quantiles of durations, counted by many tasks at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Each power of two of microseconds is cut into 32 parts, so a quantile is at most 1/32 (3 %) too
/// high.
const PARTS: u64 = 32;
const PART_BITS: u32 = PARTS.trailing_zeros();
/// Up to 2^36 microseconds: 19 hours, longer than any drill.
const POWERS: u32 = 36;
const BUCKETS: usize = ((POWERS - PART_BITS + 1) as usize) * PARTS as usize;

/// A histogram with logarithmic buckets, from 1 microsecond up.
#[derive(Debug)]
pub struct Durations {
    counts: Vec<AtomicU64>,
}

impl Default for Durations {
    fn default() -> Durations {
        Durations { counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Durations {
    /// Counts one duration.
    pub fn record(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = bucket(micros).min(BUCKETS - 1);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The duration that a share `q` (0 to 1) of the recorded ones does not exceed, seconds;
    /// `None` when nothing was recorded.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let counts: Vec<u64> = self.counts.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return None;
        }
        let rank = ((q * total as f64).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        let bucket = counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(upper_bound(bucket) as f64 / 1e6)
    }
}

/// Small values have a bucket each; above, the leading bits choose it.
fn bucket(micros: u64) -> usize {
    if micros < PARTS {
        return micros as usize;
    }
    let power = 63 - micros.leading_zeros();
    let part = (micros >> (power - PART_BITS)) - PARTS;
    ((power - PART_BITS + 1) as usize) * PARTS as usize + part as usize
}

/// The largest value of a bucket, microseconds.
fn upper_bound(bucket: usize) -> u64 {
    let (row, part) = (bucket as u64 / PARTS, bucket as u64 % PARTS);
    match row {
        0 => part,
        row => ((PARTS + part + 1) << (row - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_the_bound_is_close() {
        for micros in (0..5000).chain([65_535, 65_536, 1_000_000, 3_600_000_000]) {
            let bound = upper_bound(bucket(micros));
            assert!(bound >= micros, "{micros} above its bound {bound}");
            assert!(bound as f64 <= micros as f64 * (1.0 + 1.0 / 32.0), "{micros}: {bound}");
            assert!(bucket(bound + 1) == bucket(micros) + 1, "{micros}: no gap after {bound}");
        }
    }

    #[test]
    fn quantiles_of_one_to_a_hundred_milliseconds() {
        let durations = Durations::default();
        assert_eq!(durations.quantile(0.5), None);
        (1..=100).for_each(|ms| durations.record(Duration::from_millis(ms)));
        for (q, seconds) in [(0.0, 0.001), (0.5, 0.050), (0.99, 0.099), (1.0, 0.100)] {
            let found = durations.quantile(q).unwrap();
            assert!(found >= seconds && found <= seconds * 1.032, "{q}: {found}");
        }
    }

    #[test]
    fn the_longest_duration_is_counted() {
        let durations = Durations::default();
        durations.record(Duration::MAX);
        assert!(durations.quantile(1.0).unwrap() > 60_000.0);
    }
}
