//! Keys that were seen before misses rose, asked for again: which of them are gone.
//!
//! Without a word from the server on what is missed, the keys that ran out or vanished just then
//! are the nearest to it. A sample cannot see one hot key; it sees what many keys have in common.

use std::collections::{BTreeMap, VecDeque};

use super::{Culprit, LEAST_SHARE, LONGEST_NAME, MOST_NAMED, shape};

/// Keys that are remembered: a pattern that is a twentieth of the key space has 15 among them, and
/// at an ordinary pace they are all asked again in three seconds.
const REMEMBERED: usize = 300;

/// Seconds between two keys that are remembered, so that all of them are from the last minute.
const SPACING: f64 = 0.2;

/// The sampler's questions are so far apart at most, seconds, and the keys of one come together.
const CATCHES_UP: f64 = 1.0;

/// Gone keys from which on shares mean something.
const LEAST_GONE: usize = 8;

/// A memory of sampled keys and what became of them.
#[derive(Debug, Clone, Default)]
pub struct Neighbours {
    /// Newest first.
    kept: VecDeque<Neighbour>,
    /// When one more may be remembered, Unix seconds.
    next: f64,
    /// From when on what is gone counts, Unix seconds, while somebody looks.
    since: Option<f64>,
}

#[derive(Debug, Clone)]
struct Neighbour {
    database: u64,
    key: Vec<u8>,
    deadline: Option<f64>,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Not asked again.
    Unknown,
    Present,
    Gone,
}

impl Neighbours {
    /// Takes in that a key was there at `now` and runs out at `deadline`, both in Unix seconds.
    pub fn draw(&mut self, now: f64, database: u64, key: &[u8], deadline: Option<f64>) {
        // While somebody looks, what is remembered is from before. A name that would be cut is none
        // to ask for.
        if self.since.is_some() || now < self.next || key.len() > LONGEST_NAME {
            return;
        }
        self.next = self.next.max(now - CATCHES_UP) + SPACING;
        self.kept.truncate(REMEMBERED - 1);
        let fate = Fate::Unknown;
        self.kept.push_front(Neighbour { database, key: key.to_vec(), deadline, fate });
    }

    /// Looks for keys that went from `since` on, Unix seconds; goes on where a look is under way.
    pub fn look(&mut self, since: f64) {
        if self.since.is_none() {
            self.since = Some(since);
            // What ran out before is no news.
            self.kept.retain(|kept| kept.deadline.is_none_or(|deadline| deadline >= since));
        }
    }

    /// Ends the look. What is gone is forgotten, and the others can be asked for in the next one.
    pub fn rest(&mut self) {
        if self.since.take().is_some() {
            self.kept.retain(|kept| kept.fate != Fate::Gone);
            self.kept.iter_mut().for_each(|kept| kept.fate = Fate::Unknown);
        }
    }

    /// Forgets everything, as when the server is another one.
    pub fn clear(&mut self) {
        self.kept.clear();
    }

    /// Keys of one database that are to be asked for again at `now`, so many at most; none while
    /// nobody looks. A key whose time is up needs no question.
    pub fn questions(&self, now: f64, most: usize) -> Option<(u64, Vec<Vec<u8>>)> {
        self.since?;
        let open = self.kept.iter().filter(|kept| {
            kept.fate == Fate::Unknown && kept.deadline.is_none_or(|deadline| deadline > now)
        });
        let database = open.clone().next()?.database;
        let keys = open.filter(|kept| kept.database == database).take(most);
        Some((database, keys.map(|kept| kept.key.clone()).collect()))
    }

    /// Takes in whether a key is still there.
    pub fn answer(&mut self, database: u64, key: &[u8], is_there: bool) {
        if self.since.is_none() {
            return;
        }
        for kept in &mut self.kept {
            if kept.database == database && kept.key == key && kept.fate == Fate::Unknown {
                kept.fate = if is_there { Fate::Present } else { Fate::Gone };
            }
        }
    }

    /// The patterns of the keys that are gone at `now` or ran out since the look began, with their
    /// shares of them, the largest first; none while too few are.
    pub fn culprits(&self, now: f64) -> Vec<Culprit> {
        let Some(since) = self.since else { return Vec::new() };
        let ran_out = |deadline: f64| (since..=now).contains(&deadline);
        let gone: Vec<&Neighbour> = self
            .kept
            .iter()
            .filter(|kept| kept.fate == Fate::Gone || kept.deadline.is_some_and(ran_out))
            .collect();
        if gone.len() < LEAST_GONE {
            return Vec::new();
        }
        let mut shapes: BTreeMap<Vec<u8>, (usize, &Neighbour)> = BTreeMap::new();
        for kept in &gone {
            shapes.entry(shape(&kept.key)).or_insert((0, kept)).0 += 1;
        }
        let culprit = |(pattern, (count, first)): (Vec<u8>, (usize, &Neighbour))| Culprit {
            single: pattern == first.key,
            pattern,
            share: count as f64 / gone.len() as f64,
            example: first.key.clone(),
            database: first.database,
        };
        let mut found: Vec<Culprit> = shapes.into_iter().map(culprit).collect();
        found.retain(|culprit| culprit.share >= LEAST_SHARE);
        found.sort_by(|a, b| b.share.total_cmp(&a.share));
        found.truncate(MOST_NAMED);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: f64 = 1_700_000_000.0;

    /// Keys of 75 s, one every 0.25 s: every third a product that runs out in `products`
    /// seconds, the others sessions of an hour.
    fn drawn(products: f64) -> Neighbours {
        let mut neighbours = Neighbours::default();
        for n in 0..300 {
            let at = NOW - 75.0 + f64::from(n) * 0.25;
            let (key, deadline) = match n % 3 {
                0 => (format!("product:{n}"), NOW + products),
                _ => (format!("session:{n:032x}"), at + 3600.0),
            };
            neighbours.draw(at, 0, key.as_bytes(), Some(deadline));
        }
        neighbours
    }

    fn named(neighbours: &Neighbours, now: f64) -> Vec<(String, f64)> {
        let text = |c: Culprit| (String::from_utf8(c.pattern).unwrap(), c.share);
        neighbours.culprits(now).into_iter().map(text).collect()
    }

    /// Answers every question, `size` at a time; gives the keys that were asked for.
    fn ask(neighbours: &mut Neighbours, size: usize, is_there: impl Fn(&str) -> bool) -> usize {
        let mut asked = 0;
        while let Some((database, keys)) = neighbours.questions(NOW + 1.0, size) {
            assert!((1..=size).contains(&keys.len()));
            asked += keys.len();
            for key in keys {
                neighbours.answer(database, &key, is_there(std::str::from_utf8(&key).unwrap()));
            }
        }
        asked
    }

    #[test]
    fn what_ran_out_together_is_named_by_its_deadlines_alone() {
        let mut neighbours = drawn(0.5);
        assert_eq!(named(&neighbours, NOW + 1.0), [], "nobody looks");
        neighbours.look(NOW - 3.0);
        assert_eq!(named(&neighbours, NOW), [], "not yet");
        assert_eq!(named(&neighbours, NOW + 1.0), [("product:*".to_owned(), 1.0)]);
        assert_eq!(ask(&mut neighbours, 20, |_| true), 200, "only the others are asked for");
    }

    #[test]
    fn what_was_deleted_is_named_by_asking() {
        let mut neighbours = drawn(600.0);
        neighbours.look(NOW - 3.0);
        // All products, and one session in sixteen.
        let gone = |key: &str| key.starts_with("product") || key.ends_with('0');
        let asked = ask(&mut neighbours, 7, |key| !gone(key));
        assert_eq!(asked, 300);
        assert_eq!(named(&neighbours, NOW + 4.0).first().unwrap().0, "product:*");
        neighbours.rest();
        assert_eq!((named(&neighbours, NOW + 5.0), neighbours.questions(NOW, 9)), (vec![], None));
        // The sessions that were still there are asked for in the next look.
        neighbours.look(NOW + 2.0);
        let left = (0..300_u32).filter(|n| n % 3 != 0 && n % 16 != 0).count();
        assert_eq!(ask(&mut neighbours, 20, |_| true), left);
    }

    #[test]
    fn what_ran_out_before_or_is_too_little_is_no_news() {
        let mut neighbours = drawn(-10.0);
        neighbours.look(NOW - 3.0);
        assert_eq!(ask(&mut neighbours, 50, |_| true), 200);
        assert_eq!(named(&neighbours, NOW + 1.0), []);
        let mut few = drawn(600.0);
        few.look(NOW - 3.0);
        let seven = |key: &str| {
            key.strip_prefix("product:")
                .is_some_and(|n| n.len() == 1 || n == "12" || n == "15" || n == "18")
        };
        ask(&mut few, 50, |key| !seven(key));
        assert_eq!(named(&few, NOW + 1.0), [], "seven keys");
    }

    #[test]
    fn memory_is_bounded_and_of_the_last_minute() {
        let mut neighbours = Neighbours::default();
        for n in 0..100_000 {
            neighbours.draw(NOW + f64::from(n) * 0.01, 0, format!("k:{n}").as_bytes(), None);
        }
        assert_eq!(neighbours.kept.len(), REMEMBERED);
        neighbours.draw(NOW + 2000.0, 0, &[b'x'; LONGEST_NAME + 1], None);
        assert!(neighbours.kept.iter().all(|kept| kept.key.len() <= LONGEST_NAME));
        let oldest = String::from_utf8(neighbours.kept.back().unwrap().key.clone()).unwrap();
        let number: u32 = oldest.strip_prefix("k:").unwrap().parse().unwrap();
        assert!(number >= 100_000 - 7000, "{number}");
    }

    /// Fifty keys each half a second: what is remembered is from as many of them as with one key each
    /// fifth of a second.
    #[test]
    fn keys_that_come_together_are_not_lost() {
        let mut neighbours = Neighbours::default();
        for half in 0..120 {
            for n in 0..50 {
                let at = NOW + f64::from(half) * 0.5;
                neighbours.draw(at, 0, format!("k:{half}:{n}").as_bytes(), None);
            }
        }
        assert_eq!(neighbours.kept.len(), REMEMBERED);
        let of = |half: u32| {
            let start = format!("k:{half}:");
            neighbours.kept.iter().filter(|kept| kept.key.starts_with(start.as_bytes())).count()
        };
        assert!((1..120).all(|half| (2..=3).contains(&of(half))));
    }
}
