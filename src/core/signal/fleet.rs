//! The applications of one cache, added up.

use crate::reading::mapping::Counter;
use crate::reading::{Lookups, Reading};
use crate::signal::latency::LatencyWindow;
use crate::signal::tally::{ByCounter, Step};

/// The quantiles that are watched: the usual load, and the tail that a stampede makes.
const QUANTILES: [f64; 2] = [0.5, 0.99];

/// Adds up what the applications of a cache say at each poll.
///
/// Each poll adds the rises that are known. An application that is away, or came back just now,
/// adds nothing, so that the others keep being watched and its return is no spike. Only when no
/// application knows a counter is it unknown in the reading; the first reading that has it again
/// then holds all that was counted meanwhile, for a sample that spans the gap.
#[derive(Debug, Clone)]
pub struct Fleet {
    totals: ByCounter,
    /// What the last reading had.
    told: ByCounter,
    /// Each application's own totals when it last told them.
    last: Vec<ByCounter>,
    latency: LatencyWindow,
}

impl Fleet {
    /// A fleet that has seen nothing; the load latency is taken over so many seconds.
    pub fn new(window_seconds: f64) -> Fleet {
        Fleet {
            totals: ByCounter::default(),
            told: ByCounter::default(),
            last: Vec::new(),
            latency: LatencyWindow::new(window_seconds),
        }
    }

    /// Adds one poll: a step of each application, always in the same order, an empty one for an
    /// application that did not answer. Fills in the applications' side of the reading, whose time
    /// must be set.
    pub fn observe(&mut self, steps: &[&Step], reading: &mut Reading) {
        self.last.resize(steps.len(), ByCounter::default());
        let [hits, misses] = self.add(steps, [Counter::Hits, Counter::Misses]);
        reading.lookups.app = hits.zip(misses).map(|(hits, misses)| Lookups { hits, misses });
        reading.loads = self.add_one(steps, Counter::Loads);
        reading.coalesced = self.add_one(steps, Counter::LoadsCoalesced);
        reading.errors = self.add_one(steps, Counter::Errors);
        reading.not_found = self.add_one(steps, Counter::NotFound);
        reading.lock_acquired = self.add_one(steps, Counter::LockAcquired);
        let refused = [Counter::LockContended, Counter::LockTimeout, Counter::LockError]
            .map(|counter| self.add_one(steps, counter));
        reading.lock_failed = refused.into_iter().flatten().reduce(|a, b| a + b);

        for loads in steps.iter().filter_map(|step| step.loads.as_ref()) {
            self.latency.add(reading.time, loads.clone());
        }
        let quantiles = self.latency.quantiles(reading.time, QUANTILES);
        reading.latency_p50 = quantiles.map(|[p50, _]| p50);
        reading.latency_p99 = quantiles.map(|[_, p99]| p99);
    }

    fn add_one(&mut self, steps: &[&Step], counter: Counter) -> Option<f64> {
        let [total] = self.add(steps, [counter]);
        total
    }

    /// Adds counters that are only known together, and gives what the reading may tell of them.
    fn add<const N: usize>(&mut self, steps: &[&Step], group: [Counter; N]) -> [Option<f64>; N] {
        let all = |of: &ByCounter| group.iter().all(|counter| of.get(*counter).is_some());
        let gap = !all(&self.told);
        let mut tell = false;
        for (step, last) in steps.iter().zip(&mut self.last) {
            let counts = if gap { all(&step.totals) } else { all(&step.rises) };
            tell |= counts;
            for counter in group {
                let rise = match (gap, step.totals.get(counter), last.get(counter)) {
                    (false, ..) => step.rises.get(counter),
                    (true, Some(now), Some(before)) => Some(now - before),
                    (true, ..) => None,
                };
                if let Some(rise) = rise.filter(|_| counts) {
                    self.totals.set(counter, Some(self.totals.get(counter).unwrap_or(0.0) + rise));
                }
                if let Some(now) = step.totals.get(counter) {
                    last.set(counter, Some(now));
                }
            }
        }
        group.map(|counter| {
            let told = tell.then(|| self.totals.get(counter).unwrap_or(0.0));
            self.told.set(counter, told);
            told
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::latency::Buckets;

    /// A page with these totals of hits and misses, and the rises when they are known.
    fn page(totals: (f64, f64), rises: Option<(f64, f64)>) -> Step {
        let mut step = Step::default();
        step.totals.set(Counter::Hits, Some(totals.0));
        step.totals.set(Counter::Misses, Some(totals.1));
        step.rises.set(Counter::Hits, rises.map(|(hits, _)| hits));
        step.rises.set(Counter::Misses, rises.map(|(_, misses)| misses));
        step
    }

    fn lookups(fleet: &mut Fleet, steps: &[&Step]) -> Option<(f64, f64)> {
        let mut reading = Reading { time: 1000.0, ..Reading::default() };
        fleet.observe(steps, &mut reading);
        reading.lookups.app.map(|l| (l.hits, l.misses))
    }

    #[test]
    fn several_applications_are_added_up() {
        let mut fleet = Fleet::new(10.0);
        let (first, away) = (page((0.0, 0.0), None), Step::default());
        assert_eq!(lookups(&mut fleet, &[&first, &first]), Some((0.0, 0.0)));
        let (a, b) = (page((90.0, 10.0), Some((90.0, 10.0))), page((5.0, 1.0), Some((5.0, 1.0))));
        assert_eq!(lookups(&mut fleet, &[&a, &b]), Some((95.0, 11.0)));
        let b = page((8.0, 2.0), Some((3.0, 1.0)));
        assert_eq!(lookups(&mut fleet, &[&away, &b]), Some((98.0, 12.0)), "one is away");
        let (a, b) = (page((990.0, 110.0), None), page((9.0, 2.0), Some((1.0, 0.0))));
        assert_eq!(lookups(&mut fleet, &[&a, &b]), Some((99.0, 12.0)), "its return is no spike");
        let (a, b) = (page((991.0, 111.0), Some((1.0, 1.0))), page((9.0, 2.0), Some((0.0, 0.0))));
        assert_eq!(lookups(&mut fleet, &[&a, &b]), Some((100.0, 13.0)));
    }

    #[test]
    fn what_nobody_knows_is_unknown_and_the_gap_can_be_spanned() {
        let mut fleet = Fleet::new(10.0);
        assert_eq!(lookups(&mut fleet, &[&page((0.0, 0.0), None)]), Some((0.0, 0.0)));
        assert_eq!(lookups(&mut fleet, &[&page((4.0, 1.0), Some((4.0, 1.0)))]), Some((4.0, 1.0)));
        assert_eq!(lookups(&mut fleet, &[&Step::default()]), None);
        assert_eq!(lookups(&mut fleet, &[&page((9.0, 3.0), None)]), Some((9.0, 3.0)));
        assert_eq!(lookups(&mut fleet, &[&page((9.0, 3.0), None)]), None, "a rise not known");
    }

    #[test]
    fn hits_without_misses_say_nothing() {
        let mut half = page((4.0, 1.0), Some((4.0, 1.0)));
        half.rises.set(Counter::Misses, None);
        half.totals.set(Counter::Misses, None);
        assert_eq!(lookups(&mut Fleet::new(10.0), &[&half]), None);
    }

    #[test]
    fn refused_locks_and_latencies() {
        let mut fleet = Fleet::new(10.0);
        let locks = [Counter::LockContended, Counter::LockTimeout, Counter::LockAcquired];
        let (mut first, mut second) = (Step::default(), Step::default());
        for (counter, rise) in locks.into_iter().zip([90.0, 2.0, 10.0]) {
            first.totals.set(counter, Some(0.0));
            second.totals.set(counter, Some(rise));
            second.rises.set(counter, Some(rise));
        }
        second.loads = Buckets::from_cumulative(vec![(1.0, 100.0)]);
        let mut reading = Reading { time: 1000.0, ..Reading::default() };
        fleet.observe(&[&first, &first], &mut reading);
        assert_eq!((reading.lock_failed, reading.latency_p50), (Some(0.0), None));
        fleet.observe(&[&second, &second], &mut reading);
        assert_eq!((reading.lock_failed, reading.lock_acquired), (Some(184.0), Some(20.0)));
        assert_eq!((reading.latency_p50, reading.latency_p99), (Some(0.5), Some(0.99)));
    }
}
