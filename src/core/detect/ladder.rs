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
    /// This stretch and the poll that follows it.
    fn and(&self, later: &Rung) -> Rung {
        Rung {
            start: self.start,
            seconds: self.seconds + later.seconds,
            polls: self.polls.saturating_add(later.polls),
            lookups: self.lookups + later.lookups,
            misses: self.misses + later.misses,
            spared: self.spared + later.spared,
            loads: self.loads + later.loads,
        }
    }

    /// What it holds beyond its first part.
    fn since(&self, part: &Rung) -> Rung {
        Rung {
            start: part.start,
            seconds: self.seconds - part.seconds,
            polls: self.polls.saturating_sub(part.polls),
            lookups: self.lookups - part.lookups,
            misses: self.misses - part.misses,
            spared: self.spared - part.spared,
            loads: self.loads - part.loads,
        }
    }
}

/// Rungs of one size before the two oldest are merged.
const PER_SIZE: usize = 3;
/// Enough for 2^20 polls: more than a day at the shortest interval.
const SIZES: usize = 20;

/// The newest polls in rungs of doubling size. What is kept of a rung is the sum of all polls before
/// it, so a stretch is one difference and a merger is one sum less.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ladder {
    /// The sum of all polls.
    total: Rung,
    /// What `total` was before each rung, and when that one began; the oldest first.
    before: Vec<Rung>,
    /// Rungs of each size, from single polls on.
    filled: [usize; SIZES],
}

impl Ladder {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Ladder::default();
    }

    /// Adds the newest poll.
    pub(crate) fn push(&mut self, poll: Rung) {
        self.before.push(Rung { start: poll.start, ..self.total });
        self.total = self.total.and(&poll);
        let mut end = self.before.len();
        for filled in &mut self.filled {
            *filled += 1;
            if *filled <= PER_SIZE {
                return;
            }
            let oldest = end - *filled;
            self.before.remove(oldest + 1);
            *filled -= 2;
            end = oldest + 1;
        }
        self.before.remove(0);
    }

    /// Every stretch that ends with the newest poll, shortest first.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Rung> {
        self.before.iter().rev().map(|before| self.total.since(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polls(count: u32) -> Ladder {
        let mut ladder = Ladder::default();
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
