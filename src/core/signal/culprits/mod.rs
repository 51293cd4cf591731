//! Which keys the misses fall on: a bounded sketch of a stream of missed keys.
//!
//! ```text
//! missed key ──▶ TopKeys      the most-missed keys                  (top.rs)
//!            ├─▶ shape        user:123 becomes user:*               (shape.rs)
//!            │     ▼
//!            │   TopKeys      the most-missed shapes, with an example
//!            └─▶ Distinct     how many different keys there are     (distinct.rs)
//! ```
//!
//! Some 100 kB in all, whatever comes. Where no missed keys are told, there are two lesser sources:
//!
//! ```text
//! sampled key ──▶ Neighbours      which keys ran out or vanished just then  (neighbours.rs)
//! app's label ──▶ GroupedMisses   the applications' misses by a label       (groups.rs)
//! ```

mod arming;
mod distinct;
mod groups;
mod neighbours;
mod shape;
mod top;

use std::hash::{DefaultHasher, Hash, Hasher};

pub use arming::Arming;
pub use groups::GroupedMisses;
pub use neighbours::Neighbours;
pub use shape::shape;

use self::distinct::Distinct;
use self::top::{Entry, TopKeys};

/// Keys that are told apart. A key with more than one in so many misses is never lost.
const KEYS: usize = 512;

/// Shapes that are told apart.
const SHAPES: usize = 128;

/// Bytes of a name that are kept; longer ones are told apart by all their bytes all the same.
pub const LONGEST_NAME: usize = 200;

/// Misses from which on shares mean something.
const LEAST_MISSES: u64 = 20;

/// A share of the misses that is worth a name.
const LEAST_SHARE: f64 = 0.05;

/// One key that takes so much of its shape's misses is named itself.
const STANDS_OUT: f64 = 0.2;

/// Names given at most.
const MOST_NAMED: usize = 5;

/// The missed keys since tracking began.
#[derive(Debug, Clone)]
pub struct MissedKeys {
    keys: TopKeys,
    shapes: TopKeys,
    distinct: Distinct,
    misses: u64,
}

/// Keys of one shape, or one key, that took a share of the misses.
#[derive(Debug, Clone, PartialEq)]
pub struct Culprit {
    /// The key itself, or the shape of several.
    pub pattern: Vec<u8>,
    /// Whether it is one key.
    pub single: bool,
    /// At least this share of the misses that were seen, 0 to 1.
    pub share: f64,
    /// One of the keys, the most-missed that is known.
    pub example: Vec<u8>,
    /// The database of that one.
    pub database: u64,
}

impl Default for MissedKeys {
    fn default() -> MissedKeys {
        MissedKeys {
            keys: TopKeys::new(KEYS),
            shapes: TopKeys::new(SHAPES),
            distinct: Distinct::default(),
            misses: 0,
        }
    }
}

impl MissedKeys {
    /// Counts one miss of `key` in a database. Keys of one name in two databases are two keys of
    /// one shape.
    pub fn miss(&mut self, database: u64, key: &[u8]) {
        let sum = sum(database, key);
        self.misses += 1;
        self.distinct.add(sum);
        self.keys.add(sum, database, || (name(key), Vec::new()));
        let shape = shape(key);
        self.shapes.add(self::sum(0, &shape), database, || (name(&shape), name(key)));
    }

    /// Misses so far.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Different keys so far, within some 3 %.
    pub fn distinct(&self) -> f64 {
        self.distinct.estimate()
    }

    /// The share of the most-missed key, 0 to 1; `None` while too few misses were seen.
    pub fn top_share(&self) -> Option<f64> {
        self.meaningful()?;
        self.keys.most().first().map(|entry| self.share(entry.least()))
    }

    /// Who is to blame, the worst first: keys that stand out of their shape, and shapes.
    pub fn culprits(&self) -> Vec<Culprit> {
        if self.meaningful().is_none() {
            return Vec::new();
        }
        let keys = self.keys.most().into_iter();
        let keys: Vec<_> = keys.map(|entry| (name(&shape(&entry.name)), entry)).collect();
        let mut found = Vec::new();
        for entry in self.shapes.most() {
            if self.share(entry.least()) >= LEAST_SHARE {
                self.of_shape(entry, &keys, &mut found);
            }
        }
        found.retain(|culprit| culprit.share >= LEAST_SHARE);
        found.sort_by(|a, b| b.share.total_cmp(&a.share));
        found.truncate(MOST_NAMED);
        found
    }

    /// The keys that stand out of a shape, and the rest of it.
    fn of_shape(&self, entry: &Entry, keys: &[(Vec<u8>, &Entry)], found: &mut Vec<Culprit>) {
        let all = entry.least();
        let own = keys.iter().filter(|(shape, _)| *shape == entry.name).map(|(_, key)| *key);
        let (mut rest, mut other) = (all, None);
        for key in own {
            let count = key.least().min(rest);
            if count as f64 >= STANDS_OUT * all as f64 && self.share(count) >= LEAST_SHARE {
                rest -= count;
                let (pattern, share) = (key.name.clone(), self.share(count));
                let (example, database) = (pattern.clone(), key.database);
                found.push(Culprit { pattern, single: true, share, example, database });
            } else if other.is_none() {
                other = Some((&key.name, key.database));
            }
        }
        let (example, database) = other.unwrap_or((&entry.example, entry.database));
        found.push(Culprit {
            pattern: entry.name.clone(),
            single: entry.name == *example,
            share: self.share(rest),
            example: example.clone(),
            database,
        });
    }

    fn meaningful(&self) -> Option<()> {
        (self.misses >= LEAST_MISSES).then_some(())
    }

    fn share(&self, count: u64) -> f64 {
        count as f64 / self.misses.max(1) as f64
    }
}

fn name(key: &[u8]) -> Vec<u8> {
    key.iter().copied().take(LONGEST_NAME).collect()
}

/// A sum that is the same in every process.
fn sum(database: u64, key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    database.hash(&mut hasher);
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(keys: impl IntoIterator<Item = String>) -> MissedKeys {
        let mut missed = MissedKeys::default();
        keys.into_iter().for_each(|key| missed.miss(0, key.as_bytes()));
        missed
    }

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_hot_key_is_named_itself() {
        // Nine in ten misses on one key among others of its shape.
        let missed = seen((0..1000).map(|n| match n % 10 {
            0 => format!("product:{}", n + 1),
            _ => "product:0".to_owned(),
        }));
        assert_eq!(missed.top_share(), Some(0.9));
        let culprits = missed.culprits();
        let first = culprits.first().unwrap();
        assert_eq!((text(&first.pattern), first.single, first.share), ("product:0", true, 0.9));
        let second = culprits.get(1).unwrap();
        assert_eq!((text(&second.pattern), second.single), ("product:*", false));
        assert!((second.share - 0.1).abs() < 1e-9, "{second:?}");
        assert_ne!(text(&second.example), "product:0", "an example of the others");
    }

    #[test]
    fn a_wave_is_named_by_its_shape() {
        // Far more keys than are told apart, and some noise of another shape.
        let missed = seen((0..10_000).map(|n| match n % 5 {
            0 => format!("session:{:032x}", u128::from(n as u64) * 0x9e37_79b9_7f4a_7c15),
            _ => format!("user:{n}:profile"),
        }));
        let culprits = missed.culprits();
        let first = culprits.first().unwrap();
        assert_eq!((text(&first.pattern), first.share), ("user:*:profile", 0.8));
        assert_eq!(culprits.get(1).map(|c| text(&c.pattern)), Some("session:*"));
        assert!(missed.top_share().unwrap() < 0.01);
        assert!((missed.distinct() / 10_000.0 - 1.0).abs() < 0.1, "{}", missed.distinct());
    }

    #[test]
    fn a_key_with_no_id_is_a_single_one() {
        let culprits = seen((0..30).map(|_| "front".to_owned())).culprits();
        let [only] = culprits.as_slice() else { panic!("one: {culprits:?}") };
        assert_eq!((text(&only.pattern), only.single, only.share), ("front", true, 1.0));
    }

    #[test]
    fn one_name_in_two_databases_is_two_keys_of_one_shape() {
        let mut missed = MissedKeys::default();
        (0..40).for_each(|n| missed.miss(n % 4, b"front:7"));
        assert_eq!(missed.top_share(), Some(0.25));
        let culprits = missed.culprits();
        let mut keys: Vec<_> = culprits.iter().map(|c| (c.database, text(&c.pattern))).collect();
        keys.sort_unstable();
        assert_eq!(keys, [(0, "front:7"), (1, "front:7"), (2, "front:7"), (3, "front:7")]);
    }

    #[test]
    fn a_few_misses_say_nothing() {
        let missed = seen((0..19).map(|_| "front".to_owned()));
        assert_eq!((missed.top_share(), missed.culprits()), (None, Vec::new()));
    }

    #[test]
    fn long_names_are_cut_and_told_apart() {
        let long = "x".repeat(100_000);
        let missed = seen((0..40).map(|n| format!("{long}{}", if n % 2 == 0 { 'a' } else { 'b' })));
        assert_eq!(missed.top_share(), Some(0.5));
        assert!(missed.culprits().iter().all(|c| c.pattern.len() <= LONGEST_NAME));
    }
}
