//! The sampled keys, kept as absolute deadlines, so that the picture moves with the clock and
//! several rounds over the key space add up.
//!
//! A key takes some 40 bytes: 24 for its record, and up to 11 for its place in the index. The records
//! lie in the order in which they were asked, so that the oldest go first; a key that is asked
//! again gets a new record, and the old one is dead until it comes to the front or too many are.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::Estimate;
use crate::reading::info::Database;

/// One key as it was when the sampler asked for it. The key's bytes are not kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Drawn {
    /// Which key: see [`key_id`].
    pub(super) key: u64,
    /// Its database.
    pub(super) database: u64,
    /// Its group's place in the configuration; one past the last is `other`.
    pub(super) group: u16,
    /// Unix seconds when it was asked.
    pub(super) taken: f64,
    /// Unix seconds when it runs out; `None` for a key that never does.
    pub(super) deadline: Option<f64>,
    /// The server's counter of its use, where it keeps one; see `popularity.rs`.
    pub(super) frequency: Option<u8>,
    /// The round of the scan that gave it, modulo 256, if rounds keep their order.
    pub(super) round: Option<u8>,
}

/// A key's identity over rounds. Two of a million keys share one with a chance of 3 in 10^8.
pub(super) fn key_id(database: u64, key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    database.hash(&mut hasher);
    key.hash(&mut hasher);
    hasher.finish()
}

/// A key of the sample with the number of keys it was drawn from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    /// See [`Drawn::group`].
    pub(super) group: u16,
    /// See [`Drawn::taken`].
    pub(super) taken: f64,
    /// See [`Drawn::deadline`].
    pub(super) deadline: Option<f64>,
    /// See [`Drawn::frequency`].
    pub(super) frequency: Option<u8>,
    /// Keys with a deadline in its database when it was asked.
    pub(super) volatile: f64,
}

/// The sample: bounded, the newest answer of each key only.
#[derive(Debug, Clone)]
pub(super) struct Deadlines {
    capacity: usize,
    max_age: f64,
    /// Oldest first.
    records: VecDeque<Record>,
    /// What consecutive records have in common, oldest first.
    batches: VecDeque<Batch>,
    /// The number of each key's live record. Records are numbered one after the other, modulo 2^32.
    index: HashTable<u32>,
    /// The number of the oldest record.
    first: u32,
    /// By database, up to which record the round that runs has passed the one before.
    passed: BTreeMap<u64, u32>,
    spaces: BTreeMap<u64, Space>,
}

/// One answer; there are tens of thousands of these.
#[derive(Debug, Clone, Copy)]
struct Record {
    key: u64,
    /// Infinitely far for a key that never runs out.
    deadline: f64,
    group: u16,
    /// Whether it is the newest answer of a key that is there.
    live: bool,
    frequency: Option<u8>,
    round: Option<u8>,
}

/// Answers of one database that came together.
#[derive(Debug, Clone, Copy)]
struct Batch {
    database: u64,
    taken: f64,
    volatile: f64,
    records: usize,
}

/// A database as last observed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Space {
    /// All its keys, without those held.
    pub(super) keys: f64,
    /// Those with a deadline: as the server says, or else by the sample's share.
    pub(super) volatile: f64,
    /// Keys past their deadline that the server still holds and counts.
    pub(super) held: Estimate,
}

impl Space {
    /// What is left of `held` when so many keys are known to be there.
    pub(super) fn with_alive(self, alive: f64) -> Space {
        let most = (self.keys + self.held.value - alive).max(0.0);
        let held = self.held.map(|keys| keys.min(most));
        let more = self.held.value - held.value;
        Space { keys: self.keys + more, volatile: self.volatile + more, held }
    }
}

impl Deadlines {
    /// An empty sample of at most `capacity` keys, none older than `max_age` seconds.
    pub(super) fn new(capacity: usize, max_age: f64) -> Deadlines {
        Deadlines {
            capacity: capacity.max(1),
            max_age,
            records: VecDeque::new(),
            batches: VecDeque::new(),
            index: HashTable::new(),
            first: 0,
            passed: BTreeMap::new(),
            spaces: BTreeMap::new(),
        }
    }

    /// Takes in what `INFO keyspace` says now, and how many keys of each database are held past
    /// their deadline. A database that is left out is empty.
    pub(super) fn observe_spaces(
        &mut self,
        databases: impl IntoIterator<Item = (Database, Estimate)>,
    ) {
        let space = |(d, held): (Database, Estimate)| {
            let volatile = d.expires.unwrap_or_else(|| d.keys * self.volatile_share(d.index));
            let volatile = volatile.clamp(0.0, d.keys.max(0.0));
            let held = held.map(|keys| keys.min(volatile));
            let space = Space { keys: d.keys - held.value, volatile: volatile - held.value, held };
            (d.index, space)
        };
        let spaces: BTreeMap<u64, Space> = databases.into_iter().map(space).collect();
        if self.spaces.keys().any(|database| !spaces.contains_key(database)) {
            self.bury(|batch| !spaces.contains_key(&batch.database));
        }
        self.spaces = spaces;
    }

    /// Takes in one answer; it replaces an older one of the same key.
    pub(super) fn draw(&mut self, drawn: Drawn) {
        let number = self.first.wrapping_add(self.records.len() as u32);
        self.note_batch(drawn.database, drawn.taken);
        self.records.push_back(Record {
            key: drawn.key,
            deadline: drawn.deadline.unwrap_or(f64::INFINITY),
            group: drawn.group,
            live: true,
            frequency: drawn.frequency,
            round: drawn.round,
        });
        let (records, first) = (&mut self.records, self.first);
        let place = |number: u32| number.wrapping_sub(first) as usize;
        let key_of = |number: &u32| records.get(place(*number)).map_or(0, |r| r.key);
        let mut before = None;
        match self.index.entry(drawn.key, |number| key_of(number) == drawn.key, key_of) {
            Entry::Occupied(mut entry) => {
                let old = std::mem::replace(entry.get_mut(), number);
                before = records.get_mut(place(old)).map(|record| {
                    record.live = false;
                    (place(old), *record)
                });
            }
            Entry::Vacant(entry) => {
                entry.insert(number);
            }
        }
        if let Some((place, old)) = before {
            // Not every question asks for it.
            if let Some(record) = records.back_mut() {
                record.frequency = record.frequency.or(old.frequency);
            }
            if drawn.round.is_some() && old.round.is_some() && drawn.round != old.round {
                self.pass(drawn.database, place);
            }
        }
        self.expire(drawn.taken);
    }

    /// Takes in that a new round of a database's scan has come to the record at this place. Rounds
    /// keep their order, so what was asked before it in the round before lies in a part of the table
    /// that is scanned again, and was not given again. It is gone, and must not count beside those
    /// that were: they stand for a space from which it has gone.
    fn pass(&mut self, database: u64, place: usize) {
        let until = self.passed.get(&database).map_or(0, |n| n.wrapping_sub(self.first) as i32);
        // The numbers of what has been let go lie before the first.
        if usize::try_from(until).is_ok_and(|until| place < until) {
            return;
        }
        let mut end = 0;
        let mut gone = Vec::new();
        for batch in &self.batches {
            let start = end;
            end = start + batch.records;
            if place < end {
                break;
            }
            if batch.database != database {
                continue;
            }
            let records = self.records.range_mut(start..end);
            for record in records.filter(|record| record.live && record.round.is_some()) {
                record.live = false;
                gone.push(record.key);
            }
        }
        for key in gone {
            self.forget(key);
        }
        self.passed.insert(database, self.first.wrapping_add(end as u32));
    }

    /// Takes in that a key was gone when asked.
    pub(super) fn gone(&mut self, key: u64) {
        if let Some(number) = self.forget(key)
            && let Some(record) = self.records.get_mut(number.wrapping_sub(self.first) as usize)
        {
            record.live = false;
        }
    }

    /// Takes in that a whole round over a database has ended which began at `began`: a scan gives
    /// every key that was there all the time, so what it did not give again is gone.
    pub(super) fn finish_round(&mut self, database: u64, began: f64) {
        self.bury(|batch| batch.database == database && batch.taken < began);
    }

    /// Forgets everything, as after a restart of the server or when it is another one.
    pub(super) fn clear(&mut self) {
        *self = Deadlines::new(self.capacity, self.max_age);
    }

    /// Lets answers go that are too old at `now`, or more than may be kept.
    pub(super) fn expire(&mut self, now: f64) {
        let oldest = now - self.max_age;
        while let (Some(batch), Some(record)) = (self.batches.front(), self.records.front())
            && (batch.taken < oldest || !record.live || self.len() > self.capacity)
        {
            self.pop();
        }
        // The dead never outnumber the living, whatever the order in which keys are asked again.
        if self.records.len() > 2 * self.len() {
            self.squeeze();
        }
    }

    /// Keys in the sample.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// The databases as last observed, by number.
    pub(super) fn spaces(&self) -> impl Iterator<Item = (u64, Space)> {
        self.spaces.iter().map(|(database, space)| (*database, *space))
    }

    /// One database's sample, newest first.
    pub(super) fn newest_first(&self, database: u64) -> impl Iterator<Item = Kept> + Clone {
        let mut end = self.records.len();
        let of_batch = move |batch: &Batch| {
            let place = end - batch.records..end;
            end = place.start;
            (*batch, place)
        };
        self.batches
            .iter()
            .rev()
            .map(of_batch)
            .filter(move |(batch, _)| batch.database == database)
            .flat_map(|(Batch { taken, volatile, .. }, place)| {
                let live = self.records.range(place).rev().filter(|record| record.live);
                live.map(move |Record { group, deadline, frequency, .. }| Kept {
                    group: *group,
                    taken,
                    frequency: *frequency,
                    deadline: Some(*deadline).filter(|deadline| deadline.is_finite()),
                    volatile,
                })
            })
    }

    /// The share of a database's sample that has a deadline; all of it before the first answer.
    fn volatile_share(&self, database: u64) -> f64 {
        let (mut all, mut volatile) = (0.0, 0.0);
        for kept in self.newest_first(database) {
            all += 1.0;
            volatile += f64::from(u8::from(kept.deadline.is_some()));
        }
        if all > 0.0 { volatile / all } else { 1.0 }
    }

    /// Counts the next record to the newest batch, or to a new one where it has less in common.
    fn note_batch(&mut self, database: u64, taken: f64) {
        let volatile = self.spaces.get(&database).map_or(0.0, |space| space.volatile);
        match self.batches.back_mut() {
            Some(b) if (b.database, b.taken, b.volatile) == (database, taken, volatile) => {
                b.records += 1;
            }
            _ => self.batches.push_back(Batch { database, taken, volatile, records: 1 }),
        }
    }

    /// Lets every record of some batches go.
    fn bury(&mut self, goes: impl Fn(&Batch) -> bool) {
        let mut start = 0;
        for batch in &self.batches {
            let place = start..start + batch.records;
            start = place.end;
            if !goes(batch) {
                continue;
            }
            for record in self.records.range_mut(place).filter(|record| record.live) {
                record.live = false;
            }
        }
        self.squeeze();
    }

    /// Takes the dead out and numbers the others anew.
    fn squeeze(&mut self) {
        let mut batches = self.batches.iter_mut();
        let (mut batch, mut left) = (None, 0);
        self.records.retain(|record| {
            if left == 0 {
                batch = batches.next();
                left = batch.as_ref().map_or(0, |b: &&mut Batch| b.records);
            }
            left = left.saturating_sub(1);
            if !record.live
                && let Some(batch) = &mut batch
            {
                batch.records -= 1;
            }
            record.live
        });
        self.batches.retain(|batch| batch.records > 0);
        self.first = 0;
        self.passed.clear();
        self.index.clear();
        let (index, records) = (&mut self.index, &self.records);
        let key_of = |number: &u32| records.get(*number as usize).map_or(0, |r| r.key);
        for (number, record) in (0..).zip(records) {
            index.insert_unique(record.key, number, key_of);
        }
    }

    /// Lets the oldest record go.
    fn pop(&mut self) {
        let Some(record) = self.records.front().copied() else { return };
        if record.live {
            self.forget(record.key);
        }
        self.records.pop_front();
        self.first = self.first.wrapping_add(1);
        if let Some(batch) = self.batches.front_mut() {
            batch.records -= 1;
            if batch.records == 0 {
                self.batches.pop_front();
            }
        }
    }

    /// Takes a key out of the index and gives its record's number.
    fn forget(&mut self, key: u64) -> Option<u32> {
        let place = |number: u32| number.wrapping_sub(self.first) as usize;
        let is_it = |number: &u32| self.records.get(place(*number)).is_some_and(|r| r.key == key);
        let entry = self.index.find_entry(key, is_it).ok()?;
        Some(entry.remove().0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn drawn(key: u64, database: u64, taken: f64, deadline: Option<f64>) -> Drawn {
        Drawn {
            key,
            database,
            group: (key % 7) as u16,
            taken,
            deadline,
            frequency: None,
            round: None,
        }
    }

    fn space(index: u64) -> (Database, Estimate) {
        let database = Database { index, keys: 100.0, expires: Some(50.0), avg_ttl: None };
        (database, Estimate::default())
    }

    #[test]
    fn a_record_is_small() {
        assert_eq!(size_of::<Record>(), 24);
    }

    /// Whatever is drawn, gone, finished and forgotten, in whatever order: the sample is the newest
    /// answer of each key that is there, as a plain map has it.
    #[test]
    fn it_is_the_newest_answer_of_each_key() {
        const MAX_AGE: f64 = 50.0;
        for seed in 0..20 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut sample = Deadlines::new(10_000, MAX_AGE);
            sample.observe_spaces([space(0), space(3)]);
            let mut plain: HashMap<u64, Drawn> = HashMap::new();
            for step in 0..3000_u32 {
                let now = f64::from(step / 10);
                let key = rng.random_range(0..400_u64);
                let database = if key.is_multiple_of(2) { 0 } else { 3 };
                match rng.random_range(0..100) {
                    0 => {
                        let began = now - rng.random_range(0.0..30.0);
                        sample.finish_round(database, began);
                        plain.retain(|_, d| d.database != database || d.taken >= began);
                    }
                    1..10 => {
                        sample.gone(key);
                        plain.remove(&key);
                    }
                    10 => {
                        sample.observe_spaces([space(0)]);
                        sample.observe_spaces([space(0), space(3)]);
                        plain.retain(|_, d| d.database == 0);
                    }
                    kind => {
                        let deadline = (kind > 30).then(|| now + rng.random_range(0.0..100.0));
                        let answer = drawn(key, database, now, deadline);
                        sample.draw(answer);
                        plain.insert(key, answer);
                    }
                }
                sample.expire(now);
                plain.retain(|_, d| d.taken >= now - MAX_AGE);
                assert_eq!(sample.len(), plain.len(), "seed {seed}, step {step}");
            }
            for database in [0, 3] {
                let told = |group: u16, taken: f64, deadline: Option<f64>| {
                    (group, taken.to_bits(), deadline.map(f64::to_bits))
                };
                let kept = sample.newest_first(database);
                let times: Vec<f64> = kept.clone().map(|k| k.taken).collect();
                assert!(times.is_sorted_by(|a, b| a >= b), "seed {seed}");
                let mut kept: Vec<_> = kept.map(|k| told(k.group, k.taken, k.deadline)).collect();
                let of_database = plain.values().filter(|d| d.database == database);
                let mut expected: Vec<_> =
                    of_database.map(|d| told(d.group, d.taken, d.deadline)).collect();
                kept.sort_unstable();
                expected.sort_unstable();
                assert_eq!(kept, expected, "seed {seed}");
            }
        }
    }

    /// Keys that are asked again and again at random: the records stay at twice the keys at most,
    /// and the newest are what is kept when there are too many.
    #[test]
    fn it_is_bounded() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut sample = Deadlines::new(1000, 1e9);
        sample.observe_spaces([space(0)]);
        for step in 0..50_000_u32 {
            sample.draw(drawn(rng.random_range(0..900), 0, f64::from(step), None));
            assert!(sample.records.len() <= 2 * sample.len().max(1), "{}", sample.records.len());
        }
        assert_eq!(sample.len(), 900);
        for key in 0..5000 {
            sample.draw(drawn(key + 10_000, 0, 50_000.0, None));
        }
        assert_eq!((sample.len(), sample.records.len(), sample.batches.len()), (1000, 1000, 1));
        let newest: Vec<u16> = sample.newest_first(0).take(3).map(|k| k.group).collect();
        assert_eq!(newest, [14_999 % 7, 14_998 % 7, 14_997 % 7].map(|group| group as u16));
    }

    /// Two databases, scanned in turns. In the second round key 3 of the first is not given again; it
    /// goes when a key that was asked after it comes. A key that comes twice in one round, or was
    /// asked out of turn, makes nothing go.
    #[test]
    fn what_a_round_has_passed_is_gone() {
        let mut sample = Deadlines::new(1000, 1e9);
        sample.observe_spaces([space(0), space(3)]);
        let mut time = 0.0;
        let mut draw = |sample: &mut Deadlines, key: u64, database: u64, round: Option<u8>| {
            time += 1.0;
            sample.draw(Drawn { round, ..drawn(key, database, time, None) });
        };
        for key in 0..10 {
            draw(&mut sample, key, 0, Some(255));
            draw(&mut sample, 100 + key, 3, Some(255));
        }
        draw(&mut sample, 9, 0, Some(255));
        draw(&mut sample, 8, 0, None);
        assert_eq!(sample.len(), 20);
        for key in [0, 1, 2] {
            draw(&mut sample, key, 0, Some(0));
            assert_eq!(sample.len(), 20, "after {key}");
        }
        draw(&mut sample, 4, 0, Some(0));
        assert_eq!(sample.len(), 19);
        draw(&mut sample, 104, 3, Some(0));
        assert_eq!((sample.len(), sample.newest_first(3).count()), (15, 6));
        // All but the 8, which was asked out of turn.
        draw(&mut sample, 9, 0, Some(0));
        assert_eq!(sample.newest_first(0).count(), 6, "0, 1, 2, 4, 8, 9");
    }

    /// The number of a record runs over after 2^32 of them, some years.
    #[test]
    fn numbers_may_run_over() {
        let mut sample = Deadlines::new(10, 1e9);
        sample.observe_spaces([space(0)]);
        sample.first = u32::MAX - 4;
        for key in 0..100 {
            sample.draw(drawn(key, 0, key as f64, Some(1e9 + key as f64)));
            sample.draw(drawn(key, 0, key as f64, Some(2e9 + key as f64)));
        }
        let deadlines: Vec<f64> = sample.newest_first(0).filter_map(|k| k.deadline).collect();
        assert_eq!(deadlines.len(), 10);
        assert_eq!(deadlines.first(), Some(&(2e9 + 99.0)));
    }
}
