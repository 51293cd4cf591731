//! The sliding window that ratios and rates are taken over.

use std::collections::VecDeque;

use crate::reading::{BySource, Lookups};
use crate::signal::sample::{Sample, known};

/// What a person watches, over the window. `None` is undefined: too few lookups, or no source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Signals {
    /// Hits over lookups, 0 to 1.
    pub hit_ratio: BySource<Option<f64>>,
    /// Lookups a second.
    pub lookups_per_second: BySource<Option<f64>>,
    /// Misses a second.
    pub misses_per_second: BySource<Option<f64>>,
    /// Backend queries a second: the database's QPS as the applications see it.
    pub loads_per_second: Option<f64>,
    /// Lock attempts a second, whatever their result.
    pub lock_attempts_per_second: Option<f64>,
    /// Refused over all lock attempts, 0 to 1.
    pub lock_contention_ratio: Option<f64>,
    /// Median load latency, seconds.
    pub load_latency_p50: Option<f64>,
    /// 99th percentile of the load latency, seconds.
    pub load_latency_p99: Option<f64>,
    /// Misses in the window per key that expired in it.
    pub misses_per_expiry: Option<f64>,
}

/// Sums over the last few seconds. Memory is bounded by `CELLS`, whatever the poll interval.
#[derive(Debug, Clone)]
pub struct Window {
    span: f64,
    min_lookups: f64,
    cells: VecDeque<Cell>,
    latency_p50: Option<f64>,
    latency_p99: Option<f64>,
}

/// Polls are merged until a cell lasts the span over this: at the shortest poll of 100 ms and the
/// default span each poll is a cell of its own.
const CELLS: f64 = 128.0;

/// Clocks and timers jitter: a poll that ended this much (in parts of the span) too early to be
/// inside is still outside.
const EDGE: f64 = 1e-3;

impl Window {
    /// A window over the last `span_seconds` in which a ratio needs `min_lookups` lookups.
    pub fn new(span_seconds: f64, min_lookups: f64) -> Window {
        Window {
            span: span_seconds,
            min_lookups,
            cells: VecDeque::new(),
            latency_p50: None,
            latency_p99: None,
        }
    }

    /// Takes in what happened since the last poll and forgets what is older than the span. The
    /// newest poll always counts, even if it is longer than the span.
    pub fn push(&mut self, sample: &Sample) {
        if !(sample.time.is_finite() && sample.dt.is_finite() && sample.dt > 0.0) {
            return;
        }
        self.latency_p50 = known(sample.latency_p50);
        self.latency_p99 = known(sample.latency_p99);
        let oldest = sample.time - self.span * (1.0 - EDGE);
        // A cell that ends after this poll was seen before the clock was set back.
        self.cells.retain(|cell| cell.end > oldest && cell.end < sample.time);
        let cell = Cell::of(sample);
        match self.cells.back_mut() {
            Some(last) if last.seconds + cell.seconds <= self.span / CELLS => last.add(&cell),
            _ => self.cells.push_back(cell),
        }
    }

    /// What the window shows now.
    pub fn signals(&self) -> Signals {
        let mut sum = Cell::default();
        for cell in &self.cells {
            sum.add(cell);
        }
        let lock_attempts = sum.lock_acquired.value + sum.lock_failed.value;
        let locks_known = sum.lock_acquired.rate().is_some() && sum.lock_failed.rate().is_some();
        let misses = if sum.redis.misses.seconds > 0.0 { sum.redis.misses } else { sum.app.misses };
        let ratio_known = misses.seconds > 0.0 && sum.expired.value > 0.0;
        Signals {
            hit_ratio: BySource {
                redis: sum.redis.hit_ratio(self.min_lookups),
                app: sum.app.hit_ratio(self.min_lookups),
            },
            lookups_per_second: BySource {
                redis: sum.redis.lookups_per_second(),
                app: sum.app.lookups_per_second(),
            },
            misses_per_second: BySource {
                redis: sum.redis.misses.rate(),
                app: sum.app.misses.rate(),
            },
            loads_per_second: sum.loads.rate(),
            lock_attempts_per_second: locks_known
                .then(|| lock_attempts / sum.lock_failed.seconds.max(sum.lock_acquired.seconds)),
            lock_contention_ratio: (locks_known && lock_attempts > 0.0)
                .then(|| sum.lock_failed.value / lock_attempts),
            load_latency_p50: self.latency_p50,
            load_latency_p99: self.latency_p99,
            misses_per_expiry: ratio_known.then(|| misses.value / sum.expired.value),
        }
    }
}

/// What one stretch of time held.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    end: f64,
    seconds: f64,
    redis: Outcome,
    app: Outcome,
    expired: Tally,
    loads: Tally,
    lock_acquired: Tally,
    lock_failed: Tally,
}

impl Cell {
    fn of(sample: &Sample) -> Cell {
        let tally = |value| Tally::of(value, sample.dt);
        Cell {
            end: sample.time,
            seconds: sample.dt,
            redis: Outcome::of(sample.lookups.redis, sample.dt),
            app: Outcome::of(sample.lookups.app, sample.dt),
            expired: tally(sample.expired),
            loads: tally(sample.loads),
            lock_acquired: tally(sample.lock_acquired),
            lock_failed: tally(sample.lock_failed),
        }
    }

    fn add(&mut self, later: &Cell) {
        self.end = later.end;
        self.seconds += later.seconds;
        self.redis.add(later.redis);
        self.app.add(later.app);
        self.expired.add(later.expired);
        self.loads.add(later.loads);
        self.lock_acquired.add(later.lock_acquired);
        self.lock_failed.add(later.lock_failed);
    }
}

/// Hits and misses of one source.
#[derive(Debug, Clone, Copy, Default)]
struct Outcome {
    hits: Tally,
    misses: Tally,
}

impl Outcome {
    fn of(lookups: Option<Lookups>, seconds: f64) -> Outcome {
        let both = lookups
            .filter(|both| known(Some(both.hits)).is_some() && known(Some(both.misses)).is_some());
        Outcome {
            hits: Tally::of(both.map(|both| both.hits), seconds),
            misses: Tally::of(both.map(|both| both.misses), seconds),
        }
    }

    fn add(&mut self, later: Outcome) {
        self.hits.add(later.hits);
        self.misses.add(later.misses);
    }

    fn hit_ratio(&self, min_lookups: f64) -> Option<f64> {
        let lookups = self.hits.value + self.misses.value;
        (lookups > 0.0 && lookups >= min_lookups).then(|| self.hits.value / lookups)
    }

    fn lookups_per_second(&self) -> Option<f64> {
        Some(self.hits.rate()? + self.misses.rate()?)
    }
}

/// A count and the seconds in which it was known; none at all means that nobody says.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    value: f64,
    seconds: f64,
}

impl Tally {
    fn of(value: Option<f64>, seconds: f64) -> Tally {
        known(value).map_or(Tally::default(), |value| Tally { value, seconds })
    }

    fn add(&mut self, later: Tally) {
        self.value += later.value;
        self.seconds += later.seconds;
    }

    fn rate(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.value / self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time: f64, dt: f64, hits: f64, misses: f64) -> Sample {
        let lookups = BySource { redis: Some(Lookups { hits, misses }), app: None };
        Sample { time, dt, lookups, ..Sample::default() }
    }

    #[test]
    fn ratios_come_from_summed_counts() {
        let mut window = Window::new(10.0, 20.0);
        window.push(&sample(1.0, 1.0, 90.0, 10.0));
        window.push(&sample(2.0, 1.0, 0.0, 100.0));
        let signals = window.signals();
        assert_eq!(signals.hit_ratio.redis, Some(0.45));
        assert_eq!(signals.lookups_per_second.redis, Some(100.0));
        assert_eq!(signals.misses_per_second.redis, Some(55.0));
        assert_eq!((signals.hit_ratio.app, signals.loads_per_second), (None, None));
    }

    #[test]
    fn only_the_span_counts() {
        let mut window = Window::new(10.0, 1.0);
        window.push(&sample(1.0, 1.0, 0.0, 500.0));
        for second in 2..=10 {
            window.push(&sample(f64::from(second), 1.0, 10.0, 0.0));
        }
        assert_eq!(window.signals().misses_per_second.redis, Some(50.0));
        window.push(&sample(11.0, 1.0, 10.0, 0.0));
        assert_eq!(window.signals().misses_per_second.redis, Some(0.0));
    }

    #[test]
    fn too_few_lookups_have_no_ratio_but_a_rate() {
        let mut window = Window::new(10.0, 20.0);
        window.push(&sample(1.0, 1.0, 10.0, 9.0));
        assert_eq!(window.signals().hit_ratio.redis, None);
        assert_eq!(window.signals().lookups_per_second.redis, Some(19.0));
        window.push(&sample(2.0, 1.0, 1.0, 0.0));
        assert_eq!(window.signals().hit_ratio.redis, Some(0.55));
        let mut idle = Window::new(10.0, 0.0);
        idle.push(&sample(1.0, 1.0, 0.0, 0.0));
        assert_eq!(idle.signals().hit_ratio.redis, None);
    }

    #[test]
    fn a_silent_source_is_gone_after_the_span() {
        let mut window = Window::new(5.0, 1.0);
        window.push(&sample(1.0, 1.0, 10.0, 10.0));
        for second in 2..=5 {
            let time = f64::from(second);
            window.push(&Sample { time, dt: 1.0, ..Sample::default() });
            assert_eq!(window.signals().hit_ratio.redis, Some(0.5));
        }
        window.push(&Sample { time: 6.0, dt: 1.0, ..Sample::default() });
        assert_eq!(window.signals(), Signals::default());
    }

    #[test]
    fn locks_loads_latency_and_expiries() {
        let mut window = Window::new(10.0, 1.0);
        window.push(&Sample {
            expired: Some(2.0),
            loads: Some(30.0),
            lock_acquired: Some(10.0),
            lock_failed: Some(30.0),
            latency_p50: Some(0.01),
            latency_p99: Some(0.3),
            ..sample(2.0, 2.0, 0.0, 50.0)
        });
        let signals = window.signals();
        assert_eq!(signals.loads_per_second, Some(15.0));
        assert_eq!(signals.lock_attempts_per_second, Some(20.0));
        assert_eq!(signals.lock_contention_ratio, Some(0.75));
        assert_eq!((signals.load_latency_p50, signals.load_latency_p99), (Some(0.01), Some(0.3)));
        assert_eq!(signals.misses_per_expiry, Some(25.0));
    }

    #[test]
    fn a_poll_longer_than_the_span_counts_whole() {
        let mut window = Window::new(10.0, 1.0);
        window.push(&sample(60.0, 60.0, 30.0, 30.0));
        window.push(&sample(120.0, 60.0, 60.0, 0.0));
        assert_eq!(window.signals().hit_ratio.redis, Some(1.0));
        assert_eq!(window.signals().lookups_per_second.redis, Some(1.0));
    }

    #[test]
    fn a_clock_set_back_leaves_no_future_behind() {
        let mut window = Window::new(10.0, 1.0);
        window.push(&sample(5000.0, 1.0, 0.0, 100.0));
        window.push(&sample(100.0, 1.0, 100.0, 0.0));
        assert_eq!(window.signals().hit_ratio.redis, Some(1.0));
    }

    #[test]
    fn memory_is_bounded_and_garbage_is_ignored() {
        let mut window = Window::new(10.0, 1.0);
        for poll in 1..=100_000 {
            window.push(&sample(f64::from(poll) * 0.001, 0.001, 1.0, 1.0));
        }
        assert!(window.cells.len() <= 256, "{}", window.cells.len());
        assert_eq!(window.signals().hit_ratio.redis, Some(0.5));
        window.push(&sample(f64::NAN, 1.0, 0.0, 9.0));
        window.push(&sample(200.0, f64::INFINITY, 0.0, 9.0));
        window.push(&Sample { loads: Some(-1.0), ..sample(100.5, 0.5, f64::NAN, 5.0) });
        assert_eq!(window.signals().hit_ratio.redis, Some(0.5));
        assert_eq!(window.signals().loads_per_second, None);
    }
}
