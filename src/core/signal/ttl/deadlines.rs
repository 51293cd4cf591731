//! The sampled keys, kept as absolute deadlines, so that the picture moves with the clock and
//! several rounds over the key space add up.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{Hash, Hasher};

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
}

/// A key's identity over rounds. Two of a million keys share one with a chance of 3 in 10^8.
pub(super) fn key_id(database: u64, key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    database.hash(&mut hasher);
    key.hash(&mut hasher);
    hasher.finish()
}

/// A drawn key with the number of keys it was drawn from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) drawn: Drawn,
    /// Keys with a deadline in its database when it was asked.
    pub(super) volatile: f64,
}

/// The sample: bounded, the newest answer of each key only.
#[derive(Debug, Clone)]
pub(super) struct Deadlines {
    capacity: usize,
    max_age: f64,
    kept: HashMap<u64, Kept>,
    /// Keys by the time they were asked, oldest first. An entry whose key was asked again later is
    /// passed over.
    order: VecDeque<(u64, f64)>,
    spaces: BTreeMap<u64, Space>,
}

/// A database as last observed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Space {
    /// All its keys.
    pub(super) keys: f64,
    /// Those with a deadline: as the server says, or else by the sample's share.
    pub(super) volatile: f64,
}

impl Deadlines {
    /// An empty sample of at most `capacity` keys, none older than `max_age` seconds.
    pub(super) fn new(capacity: usize, max_age: f64) -> Deadlines {
        Deadlines {
            capacity: capacity.max(1),
            max_age,
            kept: HashMap::new(),
            order: VecDeque::new(),
            spaces: BTreeMap::new(),
        }
    }

    /// Takes in what `INFO keyspace` says now. A database that it leaves out is empty.
    pub(super) fn observe_spaces(&mut self, databases: &[Database]) {
        let space = |d: &Database| {
            let volatile = d.expires.unwrap_or_else(|| d.keys * self.volatile_share(d.index));
            (d.index, Space { keys: d.keys, volatile: volatile.clamp(0.0, d.keys.max(0.0)) })
        };
        self.spaces = databases.iter().map(space).collect();
        let spaces = &self.spaces;
        self.kept.retain(|_, kept| spaces.contains_key(&kept.drawn.database));
    }

    /// Takes in one answer; it replaces an older one of the same key.
    pub(super) fn draw(&mut self, drawn: Drawn) {
        let volatile = self.spaces.get(&drawn.database).map_or(0.0, |space| space.volatile);
        let before = self.kept.insert(drawn.key, Kept { drawn, volatile });
        // A scan may give a key twice in one batch; it has one place in the order all the same.
        if before.is_none_or(|k| k.drawn.taken != drawn.taken) {
            self.order.push_back((drawn.key, drawn.taken));
        }
        self.forget_before(drawn.taken - self.max_age);
        while self.kept.len() > self.capacity || self.order.len() > 2 * self.capacity {
            let Some((key, taken)) = self.order.pop_front() else { break };
            self.remove_if_taken(key, taken);
        }
    }

    /// Takes in that a key was gone when asked.
    pub(super) fn gone(&mut self, key: u64) {
        self.kept.remove(&key);
    }

    /// Takes in that a whole round over a database has ended which began at `began`: a scan gives
    /// every key that was there all the time, so what it did not give again is gone.
    pub(super) fn finish_round(&mut self, database: u64, began: f64) {
        self.kept.retain(|_, k| k.drawn.database != database || k.drawn.taken >= began);
    }

    /// Forgets everything, as after a restart of the server or when it is another one.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.order.clear();
        self.spaces.clear();
    }

    /// Lets answers go that are too old at `now`.
    pub(super) fn expire(&mut self, now: f64) {
        self.forget_before(now - self.max_age);
    }

    /// Lets answers from before this time go.
    fn forget_before(&mut self, time: f64) {
        while let Some(&(key, taken)) = self.order.front() {
            if taken >= time {
                break;
            }
            self.order.pop_front();
            self.remove_if_taken(key, taken);
        }
    }

    /// Keys in the sample.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The databases as last observed, by number.
    pub(super) fn spaces(&self) -> impl Iterator<Item = (u64, Space)> {
        self.spaces.iter().map(|(database, space)| (*database, *space))
    }

    /// One database's sample, newest first.
    pub(super) fn newest_first(&self, database: u64) -> impl Iterator<Item = &Kept> {
        self.order.iter().rev().filter_map(move |(key, taken)| {
            let kept = self.kept.get(key)?;
            (kept.drawn.database == database && kept.drawn.taken == *taken).then_some(kept)
        })
    }

    /// The share of a database's sample that has a deadline; all of it before the first answer.
    fn volatile_share(&self, database: u64) -> f64 {
        let (mut all, mut volatile) = (0.0, 0.0);
        for kept in self.kept.values().filter(|k| k.drawn.database == database) {
            all += 1.0;
            volatile += f64::from(u8::from(kept.drawn.deadline.is_some()));
        }
        if all > 0.0 { volatile / all } else { 1.0 }
    }

    fn remove_if_taken(&mut self, key: u64, taken: f64) {
        if let Entry::Occupied(entry) = self.kept.entry(key)
            && entry.get().drawn.taken <= taken
        {
            entry.remove();
        }
    }
}
