//! The last minute in stretches of about a second: what the baselines learn from once it is old
//! enough, and what a cause is read from while it is fresh.

use std::collections::VecDeque;

use crate::detect::Thresholds;
use crate::detect::ladder::Rung;
use crate::reading::{BySource, Lookups, Reach, Source};
use crate::signal::sample::Sample;

/// What one stretch of time held, of everything that can speak for or against a stampede.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Facts {
    /// Seconds on the detector's own clock at which it ended.
    pub(crate) end: f64,
    pub(crate) seconds: f64,
    pub(crate) lookups: BySource<Option<Lookups>>,
    pub(crate) expired: Option<f64>,
    pub(crate) evicted: Option<f64>,
    pub(crate) errors: Option<f64>,
    pub(crate) not_found: Option<f64>,
    pub(crate) loads: Option<f64>,
    pub(crate) coalesced: Option<f64>,
    pub(crate) lock_acquired: Option<f64>,
    pub(crate) lock_failed: Option<f64>,
    pub(crate) flushes: Option<f64>,
    /// Keys at its start and at its end.
    pub(crate) keys_before: Option<f64>,
    pub(crate) keys: Option<f64>,
    pub(crate) restarted: bool,
    pub(crate) failing: bool,
    /// The highest value of each gauge in it.
    pub(crate) due_ratio: Option<f64>,
    pub(crate) hot_key_share: Option<f64>,
    pub(crate) tail: Option<f64>,
    /// Nothing is to be learned from it.
    pub(crate) tainted: bool,
}

impl Facts {
    /// What a sample says, without what cannot be a count, a time or a share. Ratios of a server
    /// that is still loading its data say nothing.
    pub(crate) fn of(sample: &Sample, end: f64) -> Facts {
        let loading = sample.reach == Reach::Loading;
        let lookups = |source: Source| {
            let both = (*sample.lookups.get(source))?;
            let known = fit(Some(both.hits)).is_some() && fit(Some(both.misses)).is_some();
            (known && !loading).then_some(both)
        };
        let p50 = fit(sample.latency_p50).filter(|p50| *p50 > 0.0);
        Facts {
            end,
            seconds: sample.dt,
            lookups: BySource { redis: lookups(Source::Redis), app: lookups(Source::App) },
            expired: fit(sample.expired),
            evicted: fit(sample.evicted),
            errors: fit(sample.errors),
            not_found: fit(sample.not_found),
            loads: fit(sample.loads),
            coalesced: fit(sample.coalesced),
            lock_acquired: fit(sample.lock_acquired),
            lock_failed: fit(sample.lock_failed),
            flushes: fit(sample.flushes),
            keys_before: fit(sample.keys_before),
            keys: fit(sample.keys),
            restarted: sample.restarted,
            failing: sample.reach == Reach::Failing,
            due_ratio: fit(sample.due_ratio),
            hot_key_share: fit(sample.hot_key_share).map(|share| share.min(1.0)),
            tail: p50.and_then(|p50| Some(fit(sample.latency_p99)? / p50)),
            tainted: loading,
        }
    }

    /// Whether nothing but lookups is known of it.
    pub(crate) fn is_bare(&self) -> bool {
        let counts = [
            self.expired,
            self.evicted,
            self.errors,
            self.not_found,
            self.loads,
            self.coalesced,
            self.lock_failed,
            self.due_ratio,
            self.hot_key_share,
            self.tail,
        ];
        counts.iter().all(Option::is_none)
    }

    /// Takes in the stretch that follows.
    pub(crate) fn add(&mut self, later: &Facts) {
        self.end = later.end;
        self.seconds += later.seconds;
        self.lookups.redis = both(self.lookups.redis, later.lookups.redis);
        self.lookups.app = both(self.lookups.app, later.lookups.app);
        self.expired = sum(self.expired, later.expired);
        self.evicted = sum(self.evicted, later.evicted);
        self.errors = sum(self.errors, later.errors);
        self.not_found = sum(self.not_found, later.not_found);
        self.loads = sum(self.loads, later.loads);
        self.coalesced = sum(self.coalesced, later.coalesced);
        self.lock_acquired = sum(self.lock_acquired, later.lock_acquired);
        self.lock_failed = sum(self.lock_failed, later.lock_failed);
        self.flushes = sum(self.flushes, later.flushes);
        self.keys_before = self.keys_before.or(later.keys_before);
        self.keys = later.keys.or(self.keys);
        self.restarted |= later.restarted;
        self.failing |= later.failing;
        self.due_ratio = highest(self.due_ratio, later.due_ratio);
        self.hot_key_share = highest(self.hot_key_share, later.hot_key_share);
        self.tail = highest(self.tail, later.tail);
        self.tainted |= later.tainted;
    }

    /// The lookups of the source that knows best what users wait for: the applications' if they
    /// say anything.
    pub(crate) fn best_lookups(&self) -> Option<Lookups> {
        self.lookups.nearest()
    }

    /// What this stretch adds to the chart of `source`, if that says anything.
    pub(crate) fn rung(&self, source: Source) -> Option<Rung> {
        let lookups = (*self.lookups.get(source))?;
        Some(Rung {
            start: self.end - self.seconds,
            seconds: self.seconds,
            polls: 1,
            lookups: lookups.total(),
            misses: lookups.misses,
            spared: self.spared().unwrap_or(0.0),
            loads: self.loads.unwrap_or(0.0),
        })
    }

    /// Misses that were spared a load: another one's was shared, or its lock was waited for. Who
    /// shares a load in a process that counts no misses may not have asked the server at all.
    pub(crate) fn spared(&self) -> Option<f64> {
        let coalesced = self.coalesced.filter(|_| self.lookups.app.is_some());
        sum(coalesced, self.lock_failed)
    }

    /// Lock attempts, where both results are known.
    pub(crate) fn lock_attempts(&self) -> Option<f64> {
        Some(self.lock_acquired? + self.lock_failed?)
    }

    /// Share of the keys that are gone without having expired or been evicted, 0 to 1. Expiries
    /// and evictions that nobody counts explain nothing.
    pub(crate) fn keys_lost(&self) -> Option<f64> {
        let before = self.keys_before.filter(|keys| *keys > 0.0)?;
        let explained = self.expired.unwrap_or(0.0) + self.evicted.unwrap_or(0.0);
        Some(((before - self.keys? - explained) / before).max(0.0))
    }
}

/// Stretches kept for the shortest hold-back, and the most for the longest.
const KEPT_SECONDS: f64 = 45.0;
const CELLS: f64 = 64.0;
/// The finest stretch, seconds; a little more than a poll a second with its jitter, so that ten
/// polls of 100 ms make one and one of a second stays alone.
const FINEST: f64 = 1.04;

/// The last minute or so. Memory is bounded whatever the poll interval.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    cells: VecDeque<Facts>,
    /// Stretches that each pace has been handed already, from the oldest on.
    learned: [usize; 2],
}

/// Who learns: the level of the last minutes, which waits long, and that of the last minute.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    Slow,
    Local,
}

impl History {
    /// Adds the newest poll.
    pub(crate) fn push(&mut self, facts: &Facts, thresholds: &Thresholds) {
        let finest = (thresholds.hold_back / CELLS).max(FINEST);
        let [slow, local] = self.learned;
        let open = self.cells.len() > slow.max(local);
        match self.cells.back_mut() {
            Some(last) if open && last.seconds + facts.seconds <= finest => last.add(facts),
            _ => self.cells.push_back(*facts),
        }
        let kept = thresholds.hold_back.max(KEPT_SECONDS);
        let all = |learned: [usize; 2]| learned.into_iter().all(|learned| learned > 0);
        while all(self.learned)
            && self.cells.front().is_some_and(|cell| cell.end < facts.end - kept)
        {
            self.cells.pop_front();
            self.learned = self.learned.map(|learned| learned - 1);
        }
    }

    /// The oldest stretch that ended at `until` or before and that this pace has not had yet.
    pub(crate) fn ripe(&mut self, pace: Pace, until: f64) -> Option<&Facts> {
        let learned = &mut self.learned[pace as usize];
        let cell = self.cells.get(*learned).filter(|cell| cell.end <= until)?;
        *learned += 1;
        Some(cell)
    }

    /// Nothing is to be learned from what has not been learned yet.
    pub(crate) fn taint(&mut self) {
        for cell in self.cells.iter_mut().rev() {
            if cell.tainted {
                break;
            }
            cell.tainted = true;
        }
    }

    /// Everything that happened after `from`, as one stretch; at least the newest.
    pub(crate) fn since(&self, from: f64) -> Facts {
        let recent = self.cells.iter().rev().take_while(|cell| cell.end > from).count().max(1);
        let mut cells = self.cells.iter().skip(self.cells.len().saturating_sub(recent));
        let mut sum = cells.next().copied().unwrap_or_default();
        for cell in cells {
            sum.add(cell);
        }
        sum
    }
}

/// More events than any cache has in a century; above it, sums of squares lose their meaning.
const LARGEST: f64 = 1e15;

fn fit(value: Option<f64>) -> Option<f64> {
    value.filter(|value| (0.0..=LARGEST).contains(value))
}

fn sum(earlier: Option<f64>, later: Option<f64>) -> Option<f64> {
    match (earlier, later) {
        (Some(earlier), Some(later)) => Some(earlier + later),
        (earlier, later) => earlier.or(later),
    }
}

fn highest(earlier: Option<f64>, later: Option<f64>) -> Option<f64> {
    match (earlier, later) {
        (Some(earlier), Some(later)) => Some(earlier.max(later)),
        (earlier, later) => earlier.or(later),
    }
}

fn both(earlier: Option<Lookups>, later: Option<Lookups>) -> Option<Lookups> {
    match (earlier, later) {
        (Some(earlier), Some(later)) => {
            Some(Lookups { hits: earlier.hits + later.hits, misses: earlier.misses + later.misses })
        }
        (earlier, later) => earlier.or(later),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polls(seconds: f64, count: u32) -> History {
        let mut history = History::default();
        for poll in 1..=count {
            let facts = Facts {
                end: f64::from(poll) * seconds,
                seconds,
                loads: Some(1.0),
                ..Facts::default()
            };
            history.push(&facts, &Thresholds::default());
            while history.ripe(Pace::Slow, facts.end - 45.0).is_some() {}
            while history.ripe(Pace::Local, facts.end - 16.0).is_some() {}
        }
        history
    }

    #[test]
    fn memory_is_bounded_at_every_poll_interval() {
        for seconds in [0.1, 1.0, 15.0, 60.0] {
            let history = polls(seconds, 10_000);
            assert!(history.cells.len() <= 100, "{seconds}: {}", history.cells.len());
        }
    }

    #[test]
    fn the_last_seconds_are_added_up() {
        assert_eq!(polls(1.0, 100).since(90.0).loads, Some(10.0));
        assert_eq!(polls(1.0, 100).since(1000.0).loads, Some(1.0), "at least the newest");
        let merged = polls(0.1, 1000).since(90.0).loads.unwrap();
        assert!((99.0..=111.0).contains(&merged), "{merged}");
    }

    #[test]
    fn each_pace_waits_for_its_own_time() {
        let mut history = polls(1.0, 100);
        assert!(history.ripe(Pace::Slow, 56.0).is_some_and(|cell| cell.end == 56.0));
        assert!(history.ripe(Pace::Local, 84.0).is_none());
        history.taint();
        assert!(history.ripe(Pace::Local, 100.0).is_some_and(|cell| cell.tainted));
    }

    #[test]
    fn keys_that_expired_are_not_lost() {
        let fell = |expired, evicted| Facts {
            keys_before: Some(1000.0),
            keys: Some(600.0),
            expired,
            evicted,
            ..Facts::default()
        };
        assert_eq!(fell(Some(0.0), Some(0.0)).keys_lost(), Some(0.4));
        assert_eq!(fell(Some(300.0), Some(100.0)).keys_lost(), Some(0.0));
        assert_eq!(Facts::default().keys_lost(), None);
    }
}
