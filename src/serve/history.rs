//! The last fifteen minutes of each cache, so that the page has its curves when it is opened.
//!
//! One follower reads the board and keeps at most one point a second; memory is bounded by
//! [`POINTS`] and [`COLUMNS`] a cache, whatever the poll interval.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
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

/// One second of a cache. Single precision: this is drawn, not computed with.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    time: f64,
    hit_ratio_redis: Option<f32>,
    hit_ratio_app: Option<f32>,
    loads: Option<f32>,
    misses: Option<f32>,
    baseline: Option<f32>,
    lock_attempts: Option<f32>,
    lock_contention: Option<f32>,
    active: bool,
}

/// Keys by remaining TTL at one time, over all groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Column {
    time: f64,
    keys: Vec<f32>,
}

/// One cache's history on the wire: a list a figure, all of one length.
#[derive(Debug, Default, Serialize)]
pub(super) struct HistoryJson {
    cache: String,
    span_seconds: f64,
    time: Vec<f64>,
    hit_ratio_redis: Vec<Option<f32>>,
    hit_ratio_app: Vec<Option<f32>>,
    loads_per_second: Vec<Option<f32>>,
    misses_per_second: Vec<Option<f32>>,
    miss_baseline_per_second: Vec<Option<f32>>,
    lock_attempts_per_second: Vec<Option<f32>>,
    lock_contention_ratio: Vec<Option<f32>>,
    active: Vec<bool>,
    /// Upper bounds of the TTL columns, seconds; each column has one more count for those above.
    ttl_bounds: Vec<f64>,
    ttl: Vec<Column>,
}

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

    /// What is newer than `since`, Unix seconds, in the history of one cache.
    pub(super) fn of(&self, cache: &Arc<str>, since: f64) -> HistoryJson {
        let rings = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let mut json = HistoryJson {
            cache: cache.to_string(),
            span_seconds: SPAN,
            ttl_bounds: TTL_BOUNDS.to_vec(),
            ..HistoryJson::default()
        };
        let Some(ring) = rings.get(cache) else { return json };
        for point in ring.points.iter().filter(|point| point.time > since) {
            json.time.push(point.time);
            json.hit_ratio_redis.push(point.hit_ratio_redis);
            json.hit_ratio_app.push(point.hit_ratio_app);
            json.loads_per_second.push(point.loads);
            json.misses_per_second.push(point.misses);
            json.miss_baseline_per_second.push(point.baseline);
            json.lock_attempts_per_second.push(point.lock_attempts);
            json.lock_contention_ratio.push(point.lock_contention);
            json.active.push(point.active);
        }
        json.ttl.extend(ring.columns.iter().filter(|column| column.time > since).cloned());
        json
    }

    fn take_in(&self, view: &View) {
        let mut rings = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        rings.retain(|name, _| view.caches.iter().any(|cache| cache.cache == *name));
        for cache in view.caches.iter().filter(|cache| cache.time > 0.0) {
            rings.entry(Arc::clone(&cache.cache)).or_default().take_in(cache);
        }
    }
}

impl Ring {
    fn take_in(&mut self, cache: &Snapshot) {
        let mut point = Point::of(cache);
        if let Some(last) = self.points.back()
            && last.time.floor() >= point.time.floor()
        {
            // A stampede that came and went within the second stays visible.
            point.active |= last.active;
            self.points.pop_back();
        }
        self.points.push_back(point);
        if let Some(column) = Column::of(cache)
            && self.columns.back().is_none_or(|last| column.time - last.time >= COLUMN_EVERY)
        {
            self.columns.push_back(column);
        }
        while self.points.len() > POINTS {
            self.points.pop_front();
        }
        let oldest = point.time - SPAN;
        while self.columns.len() > COLUMNS || self.columns.front().is_some_and(|c| c.time < oldest)
        {
            self.columns.pop_front();
        }
    }
}

impl Point {
    fn of(cache: &Snapshot) -> Point {
        let signals = cache.current_signals();
        let baseline = cache.current(&cache.verdict.baseline_misses_per_second);
        let narrow = |figure: Option<f64>| figure.map(|value| value as f32);
        // The applications' view is the nearer one; where they say nothing, the server's stands.
        let misses = signals.misses_per_second;
        let (misses, baseline) = match misses.app {
            Some(_) => (misses.app, baseline.app),
            None => (misses.redis, baseline.redis),
        };
        Point {
            time: cache.time,
            hit_ratio_redis: narrow(signals.hit_ratio.redis),
            hit_ratio_app: narrow(signals.hit_ratio.app),
            loads: narrow(signals.loads_per_second),
            misses: narrow(misses),
            baseline: narrow(baseline),
            lock_attempts: narrow(signals.lock_attempts_per_second),
            lock_contention: narrow(signals.lock_contention_ratio),
            active: cache.incidents.running.is_some(),
        }
    }
}

impl Column {
    fn of(cache: &Snapshot) -> Option<Column> {
        let picture = cache.current_ttl()?;
        let mut keys = vec![0.0; TTL_BOUNDS.len() + 1];
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
    use super::*;
    use crate::snapshot::NodeState;

    fn at(time: f64, ratio: f64) -> View {
        let mut cache = Snapshot { cache: "a".into(), time, ..Snapshot::default() };
        cache.nodes = vec![NodeState { up: true, ..NodeState::default() }];
        cache.signals.hit_ratio.redis = Some(ratio);
        cache.ttl = Some(Default::default());
        View { caches: vec![cache.into()], reload_successful: true }
    }

    #[test]
    fn polls_within_a_second_are_one_point_and_the_newest_counts() {
        let history = History::default();
        for (time, ratio) in [(100.1, 0.1), (100.9, 0.2), (101.0, 0.3)] {
            history.take_in(&at(time, ratio));
        }
        let json = history.of(&"a".into(), 0.0);
        assert_eq!(json.time, [100.9, 101.0]);
        assert_eq!(json.hit_ratio_redis, [Some(0.2), Some(0.3)]);
        assert_eq!(history.of(&"a".into(), 100.9).time, [101.0]);
    }

    #[test]
    fn memory_is_bounded_by_the_span() {
        let history = History::default();
        for second in 0..5000 {
            history.take_in(&at(1000.0 + f64::from(second) / 2.0, 0.5));
        }
        let json = history.of(&"a".into(), 0.0);
        assert_eq!(json.time.len(), 900);
        assert!(json.ttl.len() <= 90, "{} columns", json.ttl.len());
        // The last poll was at 1000 + 4999/2 = 3499.5 s.
        assert_eq!(json.time.last(), Some(&3499.5));
    }

    #[test]
    fn a_cache_that_was_taken_away_is_forgotten() {
        let history = History::default();
        history.take_in(&at(100.0, 0.5));
        history.take_in(&View::default());
        assert!(history.of(&"a".into(), 0.0).time.is_empty());
    }
}
