//! The sampled keys, kept as absolute deadlines, so that the picture moves with the clock and
//! several rounds over the key space add up.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

use super::Estimate;
use super::records::{MOST_KEYS, Records, Told};
use crate::reading::info::Database;

/// One key as it was when the sampler asked for it. The key's bytes are not kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Drawn {
    /// Which key: see [`key_id`].
    pub(super) key: u64,
    /// Its database.
    pub(super) database: u64,
    /// Unix seconds when it was asked.
    pub(super) taken: f64,
    /// What the server said. Seconds left are kept to seven digits: a day to ten milliseconds.
    pub(super) told: Told,
    /// The round of the scan that gave it, modulo 256, if rounds keep their order.
    pub(super) round: Option<u8>,
}

/// A key's identity over rounds, of which 40 bits are kept. Two of 30,000 keys share them in one of
/// 2000 samples: then they take turns.
pub(super) fn key_id(database: u64, key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    database.hash(&mut hasher);
    key.hash(&mut hasher);
    hasher.finish()
}

/// A key of the sample with the number of keys it was drawn from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    /// See [`Drawn::told`].
    pub(super) told: Told,
    /// See [`Drawn::taken`].
    pub(super) taken: f64,
    /// Keys with a deadline in its database when it was asked.
    pub(super) volatile: f64,
}

impl Kept {
    /// Unix seconds when it runs out; `None` for a key that never does.
    pub(super) fn deadline(&self) -> Option<f64> {
        self.told.left.map(|left| self.taken + f64::from(left))
    }
}

/// The sample: bounded, the newest answer of each key only.
#[derive(Debug, Clone)]
pub(super) struct Deadlines {
    capacity: usize,
    max_age: f64,
    /// Oldest first.
    records: Records,
    /// What consecutive records have in common, oldest first.
    batches: VecDeque<Batch>,
    /// Records that were let go so far.
    popped: u64,
    /// By database, up to which record the round that runs has passed the one before, counted from
    /// the first that there ever was.
    passed: BTreeMap<u64, u64>,
    spaces: BTreeMap<u64, Space>,
    /// Keys that came to the sample or went so far.
    changes: u64,
}

/// Answers of one database that came together.
#[derive(Debug, Clone, Copy)]
struct Batch {
    database: u64,
    taken: f64,
    volatile: f64,
    round: Option<u8>,
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
        let capacity = capacity.clamp(1, MOST_KEYS);
        Deadlines {
            capacity,
            max_age,
            records: Records::new(capacity),
            batches: VecDeque::new(),
            popped: 0,
            passed: BTreeMap::new(),
            spaces: BTreeMap::new(),
            changes: 0,
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
        let Drawn { key, database, taken, mut told, round } = drawn;
        let before = self.records.find(key);
        if let Some(place) = before {
            // Not every question asks for it.
            let known = self.records.told(place).and_then(|before| before.frequency);
            told.frequency = told.frequency.or(known);
            self.bury_at(place);
        }
        self.note_batch(database, taken, round);
        self.records.push(key, told);
        self.changes += 1;
        if let Some(place) = before
            && round.is_some()
        {
            self.pass(database, place, round);
        }
        self.expire(taken);
    }

    /// Takes in that a round of a database's scan has come to the record at this place. Rounds keep
    /// their order, so what was asked before it in the round before lies in a part of the table
    /// that is scanned again, and was not given again. It is gone, and must not count beside those
    /// that were: they stand for a space from which it has gone.
    fn pass(&mut self, database: u64, place: usize, round: Option<u8>) {
        let until =
            self.passed.get(&database).map_or(0, |passed| passed.saturating_sub(self.popped));
        if (place as u64) < until {
            return;
        }
        let mut end = 0;
        let holds = |batch: &&Batch| {
            end += batch.records;
            place < end
        };
        // The same round: it came twice, or out of turn.
        let before = self.batches.iter().find(holds).and_then(|batch| batch.round);
        if before.is_none() || before == round {
            return;
        }
        let mut start = 0;
        for batch in &self.batches {
            let places = start..start + batch.records;
            start = places.end;
            if place < start {
                break;
            }
            if batch.database == database && batch.round.is_some() {
                self.changes += places.filter(|place| self.records.bury(*place)).count() as u64;
            }
        }
        self.passed.insert(database, self.popped + end as u64);
    }

    /// Takes in that a key was gone when asked.
    pub(super) fn gone(&mut self, key: u64) {
        if let Some(place) = self.records.find(key) {
            self.bury_at(place);
        }
    }

    fn bury_at(&mut self, place: usize) {
        self.changes += u64::from(self.records.bury(place));
    }

    /// Takes in that a whole round over a database has ended which began at `began`: a scan gives
    /// every key that was there all the time, so what it did not give again is gone.
    pub(super) fn finish_round(&mut self, database: u64, began: f64) {
        self.bury(|batch| batch.database == database && batch.taken < began);
    }

    /// Forgets everything, as after a restart of the server or when it is another one.
    pub(super) fn clear(&mut self) {
        self.bury(|_| true);
        self.spaces.clear();
    }

    /// Lets answers go that are too old at `now`, or more than may be kept.
    pub(super) fn expire(&mut self, now: f64) {
        let oldest = now - self.max_age;
        while let (Some(batch), Some(lives)) = (self.batches.front(), self.records.oldest_lives())
            && (batch.taken < oldest || !lives || self.len() > self.capacity)
        {
            self.pop();
        }
        if self.records.is_crowded() {
            self.squeeze();
        }
    }

    /// Keys that it keeps at most.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Keys in the sample.
    pub(super) fn len(&self) -> usize {
        self.records.living()
    }

    /// Keys that came to the sample or went so far; one that is asked again did both.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// The databases as last observed, by number.
    pub(super) fn spaces(&self) -> impl Iterator<Item = (u64, Space)> {
        self.spaces.iter().map(|(database, space)| (*database, *space))
    }

    /// One database's sample, newest first.
    pub(super) fn newest_first(&self, database: u64) -> impl Iterator<Item = Kept> + Clone {
        let mut end = self.records.len();
        let of_batch = move |batch: &Batch| {
            let places = end - batch.records..end;
            end = places.start;
            (*batch, places)
        };
        self.batches
            .iter()
            .rev()
            .map(of_batch)
            .filter(move |(batch, _)| batch.database == database)
            .flat_map(|(Batch { taken, volatile, .. }, places)| {
                let living = self.records.range(places).rev();
                living.map(move |told| Kept { told, taken, volatile })
            })
    }

    /// The share of a database's sample that has a deadline; all of it before the first answer.
    fn volatile_share(&self, database: u64) -> f64 {
        let (mut all, mut volatile) = (0.0, 0.0);
        for kept in self.newest_first(database) {
            all += 1.0;
            volatile += f64::from(u8::from(kept.told.left.is_some()));
        }
        if all > 0.0 { volatile / all } else { 1.0 }
    }

    /// Counts the next record to the newest batch, or to a new one where it has less in common.
    fn note_batch(&mut self, database: u64, taken: f64, round: Option<u8>) {
        let volatile = self.spaces.get(&database).map_or(0.0, |space| space.volatile);
        match self.batches.back_mut() {
            Some(b)
                if (b.database, b.taken, b.volatile, b.round)
                    == (database, taken, volatile, round) =>
            {
                b.records += 1;
            }
            _ => self.batches.push_back(Batch { database, taken, volatile, round, records: 1 }),
        }
    }

    /// Lets every record of some batches go.
    fn bury(&mut self, goes: impl Fn(&Batch) -> bool) {
        let mut start = 0;
        for batch in &self.batches {
            let places = start..start + batch.records;
            start = places.end;
            if goes(batch) {
                self.changes += places.filter(|place| self.records.bury(*place)).count() as u64;
            }
        }
        self.squeeze();
    }

    /// Takes the dead out.
    fn squeeze(&mut self) {
        let mut batches = self.batches.iter_mut();
        let (mut batch, mut left) = (None, 0);
        self.records.squeeze(|lives| {
            if left == 0 {
                batch = batches.next();
                left = batch.as_ref().map_or(0, |b: &&mut Batch| b.records);
            }
            left = left.saturating_sub(1);
            if !lives && let Some(batch) = &mut batch {
                batch.records -= 1;
            }
        });
        self.batches.retain(|batch| batch.records > 0);
        self.passed.clear();
    }

    /// Lets the oldest record go.
    fn pop(&mut self) {
        self.changes += u64::from(self.records.oldest_lives() == Some(true));
        self.records.pop();
        self.popped += 1;
        if let Some(batch) = self.batches.front_mut() {
            batch.records -= 1;
            if batch.records == 0 {
                self.batches.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn drawn(key: u64, database: u64, taken: f64, left: Option<f32>) -> Drawn {
        let told = Told { group: (key % 7) as u8, left, frequency: None };
        Drawn { key, database, taken, told, round: None }
    }

    fn space(index: u64) -> (Database, Estimate) {
        let database = Database { index, keys: 100.0, expires: Some(50.0), avg_ttl: None };
        (database, Estimate::default())
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
                        let left = (kind > 30).then(|| rng.random_range(0.0..100.0));
                        let answer = drawn(key, database, now, left);
                        sample.draw(answer);
                        plain.insert(key, answer);
                    }
                }
                sample.expire(now);
                plain.retain(|_, d| d.taken >= now - MAX_AGE);
                assert_eq!(sample.len(), plain.len(), "seed {seed}, step {step}");
            }
            for database in [0, 3] {
                let told = |told: Told, taken: f64| {
                    (told.group, taken.to_bits(), told.left.map(f32::to_bits))
                };
                let kept = sample.newest_first(database);
                let times: Vec<f64> = kept.clone().map(|k| k.taken).collect();
                assert!(times.is_sorted_by(|a, b| a >= b), "seed {seed}");
                let mut kept: Vec<_> = kept.map(|k| told(k.told, k.taken)).collect();
                let of_database = plain.values().filter(|d| d.database == database);
                let mut expected: Vec<_> = of_database.map(|d| told(d.told, d.taken)).collect();
                kept.sort_unstable();
                expected.sort_unstable();
                assert_eq!(kept, expected, "seed {seed}");
            }
        }
    }

    /// Keys that are asked again and again at random: the dead stay at a sixteenth of the keys and
    /// a few, and the newest are what is kept when there are too many.
    #[test]
    fn it_is_bounded() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut sample = Deadlines::new(1000, 1e9);
        sample.observe_spaces([space(0)]);
        for step in 0..50_000_u32 {
            sample.draw(drawn(rng.random_range(0..900), 0, f64::from(step), None));
            let most = sample.len() * 17 / 16 + 16;
            assert!(sample.records.len() <= most, "{}", sample.records.len());
        }
        assert_eq!(sample.len(), 900);
        for key in 0..5000 {
            sample.draw(drawn(key + 10_000, 0, 50_000.0, None));
        }
        assert_eq!((sample.len(), sample.records.len(), sample.batches.len()), (1000, 1000, 1));
        let newest: Vec<u8> = sample.newest_first(0).take(3).map(|k| k.told.group).collect();
        assert_eq!(newest, [14_999 % 7, 14_998 % 7, 14_997 % 7].map(|group| group as u8));
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

    /// The number of a record runs over after 65,535 of them.
    #[test]
    fn numbers_may_run_over() {
        let mut sample = Deadlines::new(10, 1e9);
        sample.observe_spaces([space(0)]);
        for key in 0..40_000 {
            sample.draw(drawn(key, 0, key as f64, Some(1.0)));
            sample.draw(drawn(key, 0, key as f64, Some(key as f32)));
            assert_eq!(sample.len() as u64, 10.min(key + 1));
        }
        let left: Vec<f32> = sample.newest_first(0).filter_map(|k| k.told.left).collect();
        assert_eq!(left, (39_990..40_000_u16).rev().map(f32::from).collect::<Vec<_>>());
    }
}
