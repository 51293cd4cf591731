//! The most frequent keys of a stream in bounded memory.
//!
//! Space-Saving (Metwally, Agrawal, El Abbadi, ICDT 2005): of `n` events, any key with more than
//! `n / capacity` is kept, and each count is too high by at most the error noted beside it.

use std::collections::{BTreeSet, HashMap};

/// The most frequent keys.
#[derive(Debug, Clone)]
pub(super) struct TopKeys {
    capacity: usize,
    entries: HashMap<u64, Entry>,
    /// Counts with the sums of their keys, the smallest first.
    order: BTreeSet<(u64, u64)>,
}

/// One key and how often it came.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Its name, cut where it is long.
    pub(super) name: Vec<u8>,
    /// What it was first seen for.
    pub(super) example: Vec<u8>,
    /// The database in which it was first seen.
    pub(super) database: u64,
    count: u64,
    /// How much of the count may be that of the key whose place it took.
    error: u64,
}

impl Entry {
    /// It came so often at least.
    pub(super) fn least(&self) -> u64 {
        self.count - self.error
    }
}

impl TopKeys {
    pub(super) fn new(capacity: usize) -> TopKeys {
        TopKeys { capacity, entries: HashMap::new(), order: BTreeSet::new() }
    }

    /// Counts the key with this sum once, which was seen in this database; `names` gives its name
    /// and an example when it is new.
    pub(super) fn add(
        &mut self,
        sum: u64,
        database: u64,
        names: impl FnOnce() -> (Vec<u8>, Vec<u8>),
    ) {
        if let Some(entry) = self.entries.get_mut(&sum) {
            self.order.remove(&(entry.count, sum));
            entry.count += 1;
            self.order.insert((entry.count, sum));
            return;
        }
        let mut error = 0;
        if self.entries.len() >= self.capacity
            && let Some((count, rarest)) = self.order.pop_first()
        {
            self.entries.remove(&rarest);
            error = count;
        }
        let (name, example) = names();
        self.entries.insert(sum, Entry { name, example, database, count: error + 1, error });
        self.order.insert((error + 1, sum));
    }

    /// All that are kept, the one that surely came most often first.
    pub(super) fn most(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.entries.values().collect();
        entries.sort_by(|a, b| b.least().cmp(&a.least()).then_with(|| a.name.cmp(&b.name)));
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(top: &mut TopKeys, key: u64) {
        top.add(key, 0, || (key.to_string().into_bytes(), Vec::new()));
    }

    #[test]
    fn a_frequent_key_survives_any_number_of_others() {
        let mut top = TopKeys::new(10);
        for n in 0..10_000 {
            count(&mut top, 1_000_000 + n);
            if n % 4 == 0 {
                count(&mut top, 7);
            }
        }
        assert_eq!((top.entries.len(), top.order.len()), (10, 10));
        let most = top.most();
        let first = most.first().unwrap();
        assert_eq!(first.name, b"7");
        // Of 12 500 events 2500 were this key's; what it took over from others does not count.
        assert!(first.least() <= 2500 && first.least() + 1250 >= 2500, "{first:?}");
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut top = TopKeys::new(10);
        [3, 1, 3, 2, 3, 2].into_iter().for_each(|key| count(&mut top, key));
        let counts: Vec<_> = top.most().iter().map(|e| (e.name.clone(), e.least())).collect();
        assert_eq!(counts, [(b"3".to_vec(), 3), (b"2".to_vec(), 2), (b"1".to_vec(), 1)]);
    }
}
