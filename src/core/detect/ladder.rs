//! Sums over the newest polls, for every stretch of time that matters, in logarithmic memory.
//!
//! A generalised likelihood ratio test asks at each poll whether a change began one poll ago, two
//! ago, and so on. Keeping every poll for two minutes costs memory and time with the poll rate.
//! Here old polls are merged two by two, level by level, as in the exponential histogram of Datar et
//! al. (SIAM J. Comput. 31, 2002): the newest stay single, older ones come in pairs, then in fours.
//! Of any two neighbouring stretches the longer is at most half as long again, and one poll.

/// What a stretch of time held.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rung {
    /// Seconds, on the detector's own clock, at which it began.
    pub(crate) start: f64,
    /// Seconds in it.
    pub(crate) seconds: f64,
    /// Polls in it.
    pub(crate) polls: u32,
    /// Lookups in it.
    pub(crate) lookups: f64,
    /// Misses in it.
    pub(crate) misses: f64,
    /// Misses in it that something else loads for, 0 where nobody counts them.
    pub(crate) spared: f64,
    /// Backend queries in it, 0 where nobody counts them.
    pub(crate) loads: f64,
}

impl Rung {
    /// This stretch and the one before it.
    fn after(self, earlier: &Rung) -> Rung {
        Rung {
            start: earlier.start,
            seconds: self.seconds + earlier.seconds,
            polls: self.polls.saturating_add(earlier.polls),
            lookups: self.lookups + earlier.lookups,
            misses: self.misses + earlier.misses,
            spared: self.spared + earlier.spared,
            loads: self.loads + earlier.loads,
        }
    }
}

/// Rungs of one size before the two oldest are merged.
const PER_SIZE: usize = 3;
/// Enough for 2^20 polls: more than a day at the shortest interval.
const SIZES: usize = 20;

/// The newest polls, newest first, in rungs of doubling size.
#[derive(Debug, Clone)]
pub(crate) struct Ladder {
    rungs: [[Rung; PER_SIZE + 1]; SIZES],
    filled: [usize; SIZES],
}

impl Ladder {
    /// An empty one.
    pub(crate) fn new() -> Ladder {
        Ladder { rungs: [[Rung::default(); PER_SIZE + 1]; SIZES], filled: [0; SIZES] }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.filled = [0; SIZES];
    }

    /// Adds the newest poll.
    pub(crate) fn push(&mut self, rung: Rung) {
        let mut carried = rung;
        for (rungs, filled) in self.rungs.iter_mut().zip(&mut self.filled) {
            rungs.copy_within(0..*filled, 1);
            rungs[0] = carried;
            *filled += 1;
            if *filled <= PER_SIZE {
                return;
            }
            carried = rungs[PER_SIZE - 1].after(&rungs[PER_SIZE]);
            *filled = PER_SIZE - 1;
        }
    }

    /// Every stretch that ends with the newest poll, shortest first.
    pub(crate) fn stretches(&self) -> Stretches<'_> {
        Stretches { ladder: self, size: 0, place: 0, sum: Rung::default() }
    }
}

/// Sums over the newest polls, each longer by a rung than the one before.
#[derive(Debug, Clone)]
pub(crate) struct Stretches<'a> {
    ladder: &'a Ladder,
    size: usize,
    place: usize,
    sum: Rung,
}

impl Iterator for Stretches<'_> {
    type Item = Rung;

    fn next(&mut self) -> Option<Rung> {
        if self.place >= *self.ladder.filled.get(self.size)? {
            // What was ever merged leaves no size empty below it.
            (self.size, self.place) = (self.size + 1, 0);
            if *self.ladder.filled.get(self.size)? == 0 {
                return None;
            }
        }
        let rung = self.ladder.rungs.get(self.size)?.get(self.place)?;
        self.place += 1;
        self.sum = self.sum.after(rung);
        Some(self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polls(count: u32) -> Ladder {
        let mut ladder = Ladder::new();
        for poll in 0..count {
            ladder.push(Rung {
                start: f64::from(poll),
                seconds: 1.0,
                polls: 1,
                lookups: 10.0,
                misses: f64::from(poll),
                ..Rung::default()
            });
        }
        ladder
    }

    #[test]
    fn every_stretch_ends_now_and_holds_what_it_spans() {
        for stretch in polls(1000).stretches() {
            let first = stretch.start;
            assert_eq!(stretch.seconds, 1000.0 - first);
            assert_eq!(f64::from(stretch.polls), stretch.seconds);
            assert_eq!(stretch.lookups, 10.0 * stretch.seconds);
            assert_eq!(stretch.misses, (first + 999.0) * stretch.seconds / 2.0);
        }
    }

    #[test]
    fn lengths_are_close_together() {
        for count in [1, 2, 3, 4, 7, 100, 1000, 12345] {
            let lengths: Vec<f64> = polls(count).stretches().map(|s| s.seconds).collect();
            assert_eq!(lengths.first(), Some(&1.0));
            assert_eq!(lengths.last(), Some(&f64::from(count)), "nothing is lost");
            for pair in lengths.windows(2) {
                assert!(pair[1] - pair[0] <= pair[0] / 2.0 + 1.0, "{pair:?} of {count}");
            }
        }
    }

    #[test]
    fn empty_and_cleared() {
        let mut ladder = polls(50);
        ladder.clear();
        assert_eq!(ladder.stretches().count(), 0);
    }
}
