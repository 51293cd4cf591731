//! How often keys are asked for, by the counters of a server that evicts by frequency of use.
//!
//! A read raises the counter of a key, which starts at 5, with the chance `1 / ((counter - 5) *
//! lfu_log_factor + 1)`, so the sum of `1 / chance` over the steps is an unbiased estimate of the
//! reads (Morris, "Counting large numbers of events in small registers", CACM 21, 1978).
//! `lfu_log_factor` is 10 unless somebody changed it, which `INFO` does not tell. Each minute
//! without a read (`lfu-decay-time`) takes one off the counter again, so it is a count of late; of
//! keys that are popular for hours it is too high against that of new ones.

use super::Estimate;
use super::binomial::share_interval;

/// The counter of a key that was just written.
pub(super) const NEW: u8 = 5;

/// The default of `lfu-log-factor`.
const LOG_FACTOR: f64 = 10.0;

/// How often a key with this counter was asked for of late. Its write counts as one, and for each
/// minute of decay below the start that one lies longer ago.
pub(super) fn accesses(counter: u8) -> f64 {
    let steps = f64::from(counter) - f64::from(NEW);
    if steps < 0.0 {
        1.0 / (1.0 - steps)
    } else {
        1.0 + steps + LOG_FACTOR * steps * (steps - 1.0) / 2.0
    }
}

/// The accesses of the whole key space, as the sample shows them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Load {
    sum: f64,
    squares: f64,
}

impl Load {
    /// Adds what one sampled key stands for.
    pub(super) fn add(&mut self, accesses: f64) {
        self.sum += accesses;
        self.squares += accesses * accesses;
    }

    /// The share of the accesses that a part of the sample has. The interval is that of a share in
    /// a sample of so many as have the same variance: few popular keys count for few.
    pub(super) fn share(self, part: Load) -> Option<Estimate> {
        if self.sum <= 0.0 {
            return None;
        }
        let value = part.sum / self.sum;
        // The variance of a ratio of sums, by linearisation.
        let inside = part.squares * (1.0 - value).powi(2);
        let outside = (self.squares - part.squares).max(0.0) * value * value;
        let variance = (inside + outside) / (self.sum * self.sum);
        let n = if value > 0.0 && variance > 0.0 {
            value * (1.0 - value) / variance
        } else {
            self.sum * self.sum / self.squares
        };
        let (low, high) = share_interval(value, n);
        Some(Estimate { value, low, high })
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// By hand: from 5 to 8 it takes 1 + 11 + 21 reads.
    #[test]
    fn a_counter_tells_the_reads_behind_it() {
        assert_eq!([5, 6, 7, 8].map(accesses), [1.0, 2.0, 13.0, 34.0]);
        assert_eq!([4, 3, 0].map(accesses), [0.5, 1.0 / 3.0, 1.0 / 6.0]);
    }

    /// The server's own rule, 1000 reads of 400 keys: on average the counters tell as many. One
    /// counter is off by a quarter or so, the mean of 400 by 1.5 %; this allows 6 %.
    #[test]
    fn counters_are_right_on_average() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut sum = 0.0;
        for _ in 0..400 {
            let mut counter = NEW;
            for _ in 0..1000 {
                let chance = 1.0 / (f64::from(counter - NEW) * 10.0 + 1.0);
                counter += u8::from(rng.random_bool(chance));
            }
            sum += accesses(counter) - 1.0;
        }
        assert!((sum / 400.0 / 1000.0 - 1.0).abs() < 0.06, "{}", sum / 400.0);
    }

    /// Ten of a thousand keys have half of the accesses. Among equals half of a thousand would be
    /// known to 3 %; ten keys are known like a share among some 20.
    #[test]
    fn few_popular_keys_leave_much_open() {
        let (mut all, mut part) = (Load::default(), Load::default());
        for key in 0..1000 {
            let accesses = if key < 10 { 99.0 } else { 1.0 };
            all.add(accesses);
            if key < 10 {
                part.add(accesses);
            }
        }
        let share = all.share(part).expect("a share");
        assert_eq!(share.value, 0.5);
        // n = 0.25 / (0.25 * (98010 + 990) / 1980^2) = 39.6: 0.5 +- 0.155, and 0.013 of correction.
        assert!(
            (0.33..0.36).contains(&share.low) && (0.64..0.67).contains(&share.high),
            "{share:?}"
        );
        assert_eq!(Load::default().share(Load::default()), None);
        assert_eq!(all.share(Load::default()).map(|s| (s.value, s.low)), Some((0.0, 0.0)));
    }
}
