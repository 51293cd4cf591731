//! Keys past their deadline that the server still holds.
//!
//! A server counts a key until somebody asks for it or its own search comes by, which takes a
//! minute and more among many keys. A scan leaves such keys out, and its cursor tells how much of
//! the table it has passed: so many keys given for so much of the table, against the keys that the
//! server counts, is the share that is really there. The keys lie in the table by their hash, so
//! the number in a stretch of it is a Poisson count, and the estimate has an interval.

use super::Estimate;
use super::binomial::Z;
use crate::elementary::exp;

/// What was given fades with this time constant, seconds.
const MEMORY: f64 = 60.0;

/// And with this share of the table: a scan removes the keys that it leaves out, so a second round
/// over a small table finds another state.
const MEMORY_OF_TABLE: f64 = 0.25;

/// Scans tell nothing while the key space changes by more than this share from one observation to the
/// next: nobody knows which of them saw which size.
const JUMP: f64 = 0.05;

/// Keys that a scan must have given before it tells anything.
const MIN_GIVEN: f64 = 200.0;

/// How much of a table lies before a cursor, 0 to 1: Redis and its descendants count the bits of a
/// cursor from the highest to the lowest, so that it stays right while a table grows or shrinks.
pub fn passed(cursor: u64) -> f64 {
    cursor.reverse_bits() as f64 / 2_f64.powi(64)
}

/// The scans of one database.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    /// Keys given and table passed since the last observation.
    pending: (f64, f64),
    /// Keys given, and those counted in as much of the table, fading.
    given: f64,
    counted: f64,
    /// Table passed, fading.
    table: f64,
    /// Time and keys of the last observation.
    last: Option<(f64, f64)>,
}

impl Held {
    /// Takes in that a scan gave so many keys of so much of the table, 0 to 1.
    pub(super) fn scanned(&mut self, given: f64, table: f64) {
        self.pending.0 += given;
        self.pending.1 += table;
    }

    /// Takes in how many keys the server counts at `now`, Unix seconds.
    pub(super) fn observe(&mut self, now: f64, keys: f64) {
        let (given, table) = std::mem::take(&mut self.pending);
        let (before, keys_before) = self.last.replace((now, keys)).unwrap_or((now, keys));
        if (keys - keys_before).abs() > JUMP * keys.max(keys_before) {
            return;
        }
        let kept = exp((before - now) / MEMORY - table / MEMORY_OF_TABLE);
        self.given = self.given * kept + given;
        // The scans lie between the two observations.
        self.counted = self.counted * kept + table * (keys + keys_before) / 2.0;
        self.table = self.table * kept + table;
    }

    /// Keys that are held although their time is up; the best guess is none as long as chance
    /// explains what is missing. `None` while too little was scanned.
    pub(super) fn estimate(&self) -> Option<Estimate> {
        let (_, keys) = self.last?;
        if self.given < MIN_GIVEN || self.counted <= 0.0 {
            return None;
        }
        let missing = 1.0 - self.given / self.counted;
        // The keys in the table that was passed are counted, not sampled.
        let error = Z * ((1.0 - self.table).max(0.0) * self.given).sqrt() / self.counted;
        let of_keys = |share: f64| share.clamp(0.0, 1.0) * keys;
        let (low, high) = (of_keys(missing - error), of_keys(missing + error));
        let value = if low > 0.0 { of_keys(missing) } else { 0.0 };
        Some(Estimate { value, low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cursors of a table of eight: 0, 4, 2, 6, 1, 5, 3, 7.
    #[test]
    fn cursors_count_from_the_highest_bit_down() {
        let told = [0_u64, 4, 2, 6, 1, 5, 3, 7].map(|c| passed(c) * 8.0);
        assert_eq!(told, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    }

    /// 10 000 keys counted, a tenth of the table passed and 950 given: 50 of 1000 are missing. 1.96
    /// times the root of 0.9 * 950 is 57.3, so anything up to 107.3 of 1000, and chance explains it.
    /// With 800 given it does not: 200 +- 52.6 of 1000.
    #[test]
    fn what_a_scan_leaves_out_is_held() {
        let scans = |given: f64| {
            let mut held = Held::default();
            held.observe(0.0, 10_000.0);
            held.scanned(given, 0.1);
            held.observe(0.0, 10_000.0);
            held.estimate().expect("an estimate")
        };
        let few = scans(950.0);
        assert_eq!((few.value, few.low, few.high.round()), (0.0, 0.0, 1073.0));
        let many = scans(800.0);
        assert_eq!([many.value, many.low, many.high].map(f64::round), [2000.0, 1474.0, 2526.0]);
    }

    #[test]
    fn growth_is_no_lack() {
        assert_eq!(Held::default().estimate(), None);
        let grown = |to: f64, given: f64| {
            let mut held = Held::default();
            held.observe(0.0, 1000.0);
            held.scanned(given, 0.5);
            held.observe(1.0, to);
            held.estimate().map(|e| (e.value, e.low))
        };
        // From 1000 to 1040 keys between two observations: 1020 on average.
        assert_eq!(grown(1040.0, 510.0), Some((0.0, 0.0)));
        // All at once, after the scans or before them.
        assert_eq!((grown(3000.0, 500.0), grown(3000.0, 1500.0)), (None, None));
    }
}
