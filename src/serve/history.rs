//! The last fifteen minutes of each cache, so that the page has its curves when it is opened.
//!
//! One follower reads the board and keeps at most one point a second; memory is bounded by
//! [`POINTS`] and [`COLUMNS`] a cache, whatever the poll interval, and taken once: 36 and 7 kB.

use std::collections::vec_deque::Iter;
use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Serialize, Serializer};
use tokio::sync::watch;

use crate::board::View;
use crate::signal::ttl::TTL_BOUNDS;
use crate::snapshot::Snapshot;

/// Seconds that the page shows.
const SPAN: f64 = 900.0;

/// One point a second of the span.
const POINTS: usize = SPAN as usize;

/// Seconds between two columns of the TTL heat map: it changes slowly and is wide.
const COLUMN_EVERY: f64 = 10.0;

/// The columns of the span.
const COLUMNS: usize = (SPAN / COLUMN_EVERY) as usize;

/// The kept history of all caches.
#[derive(Debug, Default)]
pub(super) struct History {
    caches: Mutex<HashMap<Arc<str>, Ring>>,
}

#[derive(Debug, Default)]
struct Ring {
    points: VecDeque<Point>,
    columns: VecDeque<Column>,
}

/// One second of a cache.
#[derive(Debug, Clone, Copy)]
struct Point {
    time: f64,
    hit_ratio_redis: Figure,
    hit_ratio_app: Figure,
    loads: Figure,
    misses: Figure,
    baseline: Figure,
    lock_attempts: Figure,
    lock_contention: Figure,
    active: bool,
}

/// What a curve shows at one point, if anything. Single precision: this is drawn, not computed with.
/// Nothing is kept as no number, since an `Option<f32>` is twice as large.
#[derive(Debug, Clone, Copy)]
struct Figure(f32);

/// Keys by remaining TTL at one time, over all groups.
#[derive(Debug, Clone, Copy, Serialize)]
struct Column {
    time: f64,
    keys: [f32; TTL_BOUNDS.len() + 1],
}

/// One cache's history on the wire: a list a figure, all of one length.
#[derive(Serialize)]
pub(super) struct HistoryJson<'a> {
    cache: &'a str,
    span_seconds: f64,
    time: Curve<'a, f64>,
    hit_ratio_redis: Curve<'a, Figure>,
    hit_ratio_app: Curve<'a, Figure>,
    loads_per_second: Curve<'a, Figure>,
    misses_per_second: Curve<'a, Figure>,
    miss_baseline_per_second: Curve<'a, Figure>,
    lock_attempts_per_second: Curve<'a, Figure>,
    lock_contention_ratio: Curve<'a, Figure>,
    active: Curve<'a, bool>,
    /// Upper bounds of the TTL columns, seconds; each column has one more count for those above.
    ttl_bounds: [f64; TTL_BOUNDS.len()],
    ttl: Columns<'a>,
}

/// What one curve shows, read off the points as it is written: a history is the largest of all
/// answers, and a copy of it would be as large as what is kept.
struct Curve<'a, T> {
    points: Iter<'a, Point>,
    figure: fn(&Point) -> T,
}

/// The columns, in the same way.
struct Columns<'a>(Iter<'a, Column>);

impl History {
    /// Follows the board; never ends by itself.
    pub(super) async fn follow(&self, mut board: watch::Receiver<View>) {
        loop {
            let view = board.borrow_and_update().clone();
            self.take_in(&view);
            if board.changed().await.is_err() {
                pending::<()>().await;
            }
        }
    }

    /// Tells what is newer than `since`, Unix seconds, in the history of these caches, in their order.
    pub(super) fn tell<'c, R>(
        &self,
        caches: impl IntoIterator<Item = &'c Arc<str>>,
        since: f64,
        listener: impl FnOnce(&[HistoryJson<'_>]) -> R,
    ) -> R {
        let rings = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = Ring::default();
        let of = |cache: &'c Arc<str>| rings.get(cache).unwrap_or(&nothing).json(cache, since);
        listener(&caches.into_iter().map(of).collect::<Vec<_>>())
    }

    fn take_in(&self, view: &View) {
        let mut rings = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        rings.retain(|name, _| view.caches.iter().any(|cache| cache.cache == *name));
        for cache in view.caches.iter().filter(|cache| cache.time > 0.0) {
            rings.entry(Arc::clone(&cache.cache)).or_insert_with(Ring::with_room).take_in(cache);
        }
    }
}

impl Ring {
    /// An empty one that never grows.
    fn with_room() -> Ring {
        Ring { points: VecDeque::with_capacity(POINTS), columns: VecDeque::with_capacity(COLUMNS) }
    }

    fn take_in(&mut self, cache: &Snapshot) {
        let mut point = Point::of(cache);
        if let Some(last) = self.points.back()
            && last.time.floor() >= point.time.floor()
        {
            // A stampede that came and went within the second stays visible.
            point.active |= last.active;
            self.points.pop_back();
        }
        push(&mut self.points, POINTS, point);
        if let Some(column) = Column::of(cache)
            && self.columns.back().is_none_or(|last| column.time - last.time >= COLUMN_EVERY)
        {
            push(&mut self.columns, COLUMNS, column);
        }
        let oldest = point.time - SPAN;
        while self.columns.front().is_some_and(|column| column.time < oldest) {
            self.columns.pop_front();
        }
    }

    fn json<'a>(&'a self, cache: &'a str, since: f64) -> HistoryJson<'a> {
        let first = self.points.partition_point(|point| point.time <= since);
        let points = self.points.range(first..);
        let curve = |figure| Curve { points: points.clone(), figure };
        let first = self.columns.partition_point(|column| column.time <= since);
        HistoryJson {
            cache,
            span_seconds: SPAN,
            time: Curve { points: points.clone(), figure: |point| point.time },
            hit_ratio_redis: curve(|point| point.hit_ratio_redis),
            hit_ratio_app: curve(|point| point.hit_ratio_app),
            loads_per_second: curve(|point| point.loads),
            misses_per_second: curve(|point| point.misses),
            miss_baseline_per_second: curve(|point| point.baseline),
            lock_attempts_per_second: curve(|point| point.lock_attempts),
            lock_contention_ratio: curve(|point| point.lock_contention),
            active: Curve { points: points.clone(), figure: |point| point.active },
            ttl_bounds: TTL_BOUNDS,
            ttl: Columns(self.columns.range(first..)),
        }
    }
}

/// Adds the newest of at most so many.
fn push<T>(ring: &mut VecDeque<T>, most: usize, newest: T) {
    if ring.len() >= most {
        ring.pop_front();
    }
    ring.push_back(newest);
}

impl Point {
    fn of(cache: &Snapshot) -> Point {
        let signals = cache.current_signals();
        let baseline = cache.current(&cache.verdict.baseline_misses_per_second);
        // The applications' view is the nearer one; where they say nothing, the server's stands.
        let misses = signals.misses_per_second;
        let (misses, baseline) = match misses.app {
            Some(_) => (misses.app, baseline.app),
            None => (misses.redis, baseline.redis),
        };
        Point {
            time: cache.time,
            hit_ratio_redis: Figure::of(signals.hit_ratio.redis),
            hit_ratio_app: Figure::of(signals.hit_ratio.app),
            loads: Figure::of(signals.loads_per_second),
            misses: Figure::of(misses),
            baseline: Figure::of(baseline),
            lock_attempts: Figure::of(signals.lock_attempts_per_second),
            lock_contention: Figure::of(signals.lock_contention_ratio),
            active: cache.incidents.running.is_some(),
        }
    }
}

impl Figure {
    fn of(figure: Option<f64>) -> Figure {
        Figure(figure.map_or(f32::NAN, |value| value as f32))
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Some(self.0).filter(|value| !value.is_nan()).serialize(serializer)
    }
}

impl<T: Serialize> Serialize for Curve<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.points.clone().map(self.figure))
    }
}

impl Serialize for Columns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

impl Column {
    fn of(cache: &Snapshot) -> Option<Column> {
        let picture = cache.current_ttl()?;
        let mut keys = [0.0; TTL_BOUNDS.len() + 1];
        for group in &picture.groups {
            for (sum, count) in keys.iter_mut().zip(&group.buckets) {
                *sum += *count as f32;
            }
        }
        Some(Column { time: cache.time, keys })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::snapshot::NodeState;

    fn at(time: f64, ratio: f64) -> View {
        let mut cache = Snapshot { cache: "a".into(), time, ..Snapshot::default() };
        cache.nodes = vec![NodeState { up: true, ..NodeState::default() }];
        cache.signals.hit_ratio.redis = Some(ratio);
        cache.ttl = Some(Default::default());
        View { caches: vec![cache.into()], reload_successful: true }
    }

    /// The list of that name in the history of the one cache.
    fn list(history: &History, name: &str, since: f64) -> Vec<Value> {
        let json = history
            .tell([&"a".into()], since, |told| serde_json::to_value(told).expect("JSON"))
            .pointer(&format!("/0/{name}"))
            .and_then(Value::as_array)
            .cloned();
        json.expect("a list")
    }

    #[test]
    fn polls_within_a_second_are_one_point_and_the_newest_counts() {
        let history = History::default();
        for (time, ratio) in [(100.1, 0.125), (100.9, 0.25), (101.0, 0.375)] {
            history.take_in(&at(time, ratio));
        }
        assert_eq!(list(&history, "time", 0.0), [100.9, 101.0]);
        assert_eq!(list(&history, "hit_ratio_redis", 0.0), [0.25, 0.375]);
        assert_eq!(list(&history, "hit_ratio_app", 0.0), [Value::Null, Value::Null]);
        assert_eq!(list(&history, "time", 100.9), [101.0]);
    }

    /// What is taken at the start is enough to the end.
    #[test]
    fn memory_is_bounded_by_the_span() {
        let history = History::default();
        let room = |history: &History| {
            let rings = history.caches.lock().expect("rings");
            let ring = rings.values().next().expect("a ring");
            let (points, columns) = (ring.points.capacity(), ring.columns.capacity());
            points * size_of::<Point>() + columns * size_of::<Column>()
        };
        history.take_in(&at(999.5, 0.5));
        let taken = room(&history);
        assert!(taken <= 45_000, "{taken} bytes");
        for second in 0..5000 {
            history.take_in(&at(1000.0 + f64::from(second) / 2.0, 0.5));
        }
        assert_eq!(room(&history), taken);
        let (time, columns) = (list(&history, "time", 0.0), list(&history, "ttl", 0.0));
        assert_eq!(time.len(), 900);
        assert!(columns.len() <= 90, "{} columns", columns.len());
        // The last poll was at 1000 + 4999/2 = 3499.5 s.
        assert_eq!(time.last(), Some(&Value::from(3499.5)));
    }

    #[test]
    fn a_cache_that_was_taken_away_is_forgotten() {
        let history = History::default();
        history.take_in(&at(100.0, 0.5));
        history.take_in(&View::default());
        assert_eq!(list(&history, "time", 0.0), [0.0; 0]);
    }
}
