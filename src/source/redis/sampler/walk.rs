//! The way of the sampler through one database.

use std::collections::VecDeque;

use super::course::KeySource;
use super::slice::{Batch, Fetch, Slice};
use crate::signal::ttl::passed;

/// Key names sent in one pipeline at most, bytes; a longer name goes alone.
const SLICE_BYTES: usize = 64 * 1024;

/// The largest `COUNT`. A table that shrank has many empty places, and a scan that finds little
/// looks at more of them at once; 512 of them take about 20 µs.
const MAX_COUNT: usize = 512;

/// How long a database that could not be selected is left alone, seconds.
const CLOSED_PAUSE: f64 = 60.0;

/// Where the scan of one database is.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Keys that were given and not asked yet.
    queue: VecDeque<Vec<u8>>,
    cursor: u64,
    /// `COUNT` of the next scan; 0 before the first.
    count: usize,
    /// Keys to ask in a slice.
    wanted: usize,
    /// When the round that runs began; `None` before it and once its last keys were given.
    began: Option<f64>,
    /// When the round began whose last keys are in the queue.
    ending: Option<f64>,
    keys_in_round: u64,
    rounds: u64,
    asked: f64,
    loops: LoopWatch,
    closed_until: f64,
}

impl Walk {
    /// The next question.
    pub(super) fn slice(&mut self, database: u64, wanted: usize, source: KeySource) -> Slice {
        self.wanted = wanted;
        let (mut keys, mut bytes) = (Vec::new(), 0);
        while keys.len() < wanted
            && let Some(key) = self.queue.pop_front_if(|k| {
                bytes += k.len();
                bytes <= SLICE_BYTES || keys.is_empty()
            })
        {
            keys.push(key);
        }
        self.asked += keys.len() as f64;
        // The next round does not begin before the last key of this one was asked.
        let running_low = self.queue.len() < wanted && self.ending.is_none();
        let fetch = (running_low || self.queue.is_empty()).then(|| match source {
            KeySource::Scan => {
                Fetch::Scan { cursor: self.cursor, count: self.count.max(wanted).min(MAX_COUNT) }
            }
            KeySource::RandomKey => Fetch::RandomKeys(wanted),
        });
        let round = Some(self.rounds as u8);
        let finishes = if self.queue.is_empty() { self.ending.take() } else { None };
        self.rounds += u64::from(finishes.is_some());
        Slice { database, keys, round, frequencies: false, fetch, finishes }
    }

    /// Takes in the keys of a fetch whose answer came at `at`, and tells how much of the table they
    /// were in, if the cursors are Redis'.
    pub(super) fn advance(&mut self, batch: Batch, at: f64) -> Option<f64> {
        let given = batch.keys.len();
        self.queue.extend(batch.keys);
        let Some(cursor) = batch.cursor else {
            self.restart_scan();
            return None;
        };
        let end = if cursor == 0 { 1.0 } else { passed(cursor) };
        let table = end - passed(self.cursor);
        if self.cursor == 0 {
            self.began = Some(at);
            self.keys_in_round = 0;
            self.loops = LoopWatch::default();
        }
        self.keys_in_round += given as u64;
        self.cursor = cursor;
        if cursor == 0 {
            self.ending = self.began.take();
        } else if self.loops.goes_round(cursor) {
            // A round that never ends: begin anew, and this one is not a whole one.
            self.restart_scan();
        } else if given * 2 < self.wanted {
            self.count = (self.count.max(self.wanted) * 2).min(MAX_COUNT);
        } else if given > self.wanted * 2 {
            self.count = (self.count / 2).max(1);
        }
        (table > 0.0).then_some(table)
    }

    /// Forgets where the scan was.
    pub(super) fn restart(&mut self) {
        self.queue.clear();
        self.restart_scan();
    }

    fn restart_scan(&mut self) {
        self.cursor = 0;
        self.began = None;
        self.ending = None;
    }

    /// Leaves the database alone for a while.
    pub(super) fn close(&mut self, now: f64) {
        self.restart();
        self.closed_until = now + CLOSED_PAUSE;
    }

    /// Whether the database may be asked.
    pub(super) fn is_open(&self, now: f64) -> bool {
        now >= self.closed_until
    }

    /// Keys asked here so far.
    pub(super) fn asked(&self) -> f64 {
        self.asked
    }

    /// Whole rounds so far.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Keys given in the round that runs.
    pub(super) fn keys_in_round(&self) -> u64 {
        self.keys_in_round
    }
}

/// Notices that cursors go round in a circle, in constant memory: one cursor is remembered, and
/// replaced after 1, 2, 4, 8 … steps (Brent's cycle detection). A scan that works never gives a
/// cursor twice in a round.
#[derive(Debug, Default)]
struct LoopWatch {
    remembered: Option<u64>,
    steps: u64,
    limit: u64,
}

impl LoopWatch {
    fn goes_round(&mut self, cursor: u64) -> bool {
        if self.remembered == Some(cursor) {
            return true;
        }
        self.steps += 1;
        if self.steps >= self.limit {
            self.remembered = Some(cursor);
            self.limit = (self.limit * 2).max(1);
            self.steps = 0;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn give(walk: &mut Walk, cursor: u64, keys: &[&str], at: f64) {
        let keys = keys.iter().map(|k| k.as_bytes().to_vec()).collect();
        walk.advance(Batch { cursor: Some(cursor), keys }, at);
    }

    fn names(slice: &Slice) -> Vec<&str> {
        slice.keys.iter().map(|k| std::str::from_utf8(k).expect("text")).collect()
    }

    #[test]
    fn a_round_ends_with_its_last_key() {
        let mut walk = Walk::default();
        let first = walk.slice(0, 2, KeySource::Scan);
        assert_eq!(
            (names(&first), first.fetch),
            (vec![], Some(Fetch::Scan { cursor: 0, count: 2 }))
        );
        give(&mut walk, 7, &["a", "b"], 10.0);
        let second = walk.slice(0, 2, KeySource::Scan);
        assert_eq!(names(&second), ["a", "b"]);
        assert_eq!(second.fetch, Some(Fetch::Scan { cursor: 7, count: 2 }));
        give(&mut walk, 0, &["c", "d", "e", "f"], 11.0);
        let third = walk.slice(0, 2, KeySource::Scan);
        assert_eq!((third.fetch, third.finishes), (None, None));
        let last = walk.slice(0, 2, KeySource::Scan);
        assert_eq!((names(&last), last.finishes), (vec!["e", "f"], Some(10.0)));
        assert_eq!(walk.slice(0, 2, KeySource::Scan).finishes, None);
        // One key is left over: it ends its round before the next one begins.
        give(&mut walk, 0, &["g", "h", "i"], 12.0);
        let most = walk.slice(0, 2, KeySource::Scan);
        assert_eq!((most.fetch, most.finishes), (None, None));
        let last = walk.slice(0, 2, KeySource::Scan);
        assert_eq!((names(&last), last.finishes), (vec!["i"], Some(12.0)));
        assert_eq!(last.fetch, Some(Fetch::Scan { cursor: 0, count: 2 }));
    }

    #[test]
    fn a_circle_of_cursors_begins_anew_and_is_no_round() {
        let mut walk = Walk::default();
        for (step, cursor) in [3, 5, 9, 5, 9, 5, 9, 5, 9].into_iter().enumerate() {
            let slice = walk.slice(0, 2, KeySource::Scan);
            assert_eq!(slice.finishes, None);
            give(&mut walk, cursor, &["k"], step as f64);
            if walk.cursor == 0 {
                assert!(step >= 3, "begun anew at step {step}");
                return;
            }
        }
        panic!("the circle was not noticed");
    }

    #[test]
    fn sparse_tables_are_scanned_in_longer_strides() {
        let mut walk = Walk::default();
        for cursor in 1..20 {
            let slice = walk.slice(0, 20, KeySource::Scan);
            assert!(matches!(slice.fetch, Some(Fetch::Scan { count: 20..=MAX_COUNT, .. })));
            give(&mut walk, cursor, &[], 0.0);
        }
        assert_eq!(walk.count, MAX_COUNT);
    }

    #[test]
    fn long_names_go_alone() {
        let mut walk = Walk::default();
        let long = "x".repeat(1_000_000);
        give(&mut walk, 0, &[&long, "a", "b"], 0.0);
        assert_eq!(walk.slice(0, 20, KeySource::Scan).keys.len(), 1);
        assert_eq!(walk.slice(0, 20, KeySource::Scan).keys.len(), 2);
    }
}
