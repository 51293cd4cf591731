//! `background_refresh`: a hit near the deadline is answered at once and starts one reload behind.
//!
//! Either the server is asked for the remaining life with each read (`PTTL` beside the `GET`), or,
//! as `refresh_at`, the time to begin is kept inside the value, which costs nothing at a read. It is
//! what Caffeine calls `refreshAfterWrite`. One reload at a time and key in a process; the processes
//! do not know of each other.
//!
//! Fails for keys that nobody asks for between the threshold and the deadline, and for keys that
//! disappear before their deadline. With the server's own count, each read is two lookups, and both
//! count in `keyspace_hits`.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Whether an entry with `remaining` of its life `ttl` is to be reloaded; `threshold` is a share of
/// the life, 0 to 1.
pub fn is_due(remaining: Duration, ttl: Duration, threshold: f64) -> bool {
    remaining <= ttl.mul_f64(threshold.clamp(0.0, 1.0))
}

/// The keys that this process is reloading; clones are handles to the same set.
#[derive(Debug, Clone)]
pub struct Refreshes<K: Eq + Hash>(Arc<Mutex<HashSet<K>>>);

/// The right to reload one key, until dropped.
#[derive(Debug)]
pub struct Refresh<K: Eq + Hash> {
    key: K,
    all: Refreshes<K>,
}

impl<K: Eq + Hash> Default for Refreshes<K> {
    fn default() -> Refreshes<K> {
        Refreshes(Arc::default())
    }
}

impl<K: Eq + Hash + Clone> Refreshes<K> {
    /// Begins to reload a key, unless that is under way.
    pub fn begin(&self, key: &K) -> Option<Refresh<K>> {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = Refreshes(Arc::clone(&self.0));
        keys.insert(key.clone()).then(|| Refresh { key: key.clone(), all })
    }
}

impl<K: Eq + Hash> Drop for Refresh<K> {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_fifth_of_the_life_is_due() {
        let ttl = Duration::from_secs(60);
        for (remaining, due) in [(60, false), (13, false), (12, true), (0, true)] {
            assert_eq!(is_due(Duration::from_secs(remaining), ttl, 0.2), due, "{remaining} s");
        }
    }

    #[test]
    fn one_reload_at_a_time_for_a_key() {
        let refreshes = Refreshes::default();
        let first = refreshes.begin(&1);
        assert!(first.is_some());
        assert!(refreshes.begin(&1).is_none());
        assert!(refreshes.begin(&2).is_some(), "another key is another matter");
        drop(first);
        assert!(refreshes.begin(&1).is_some(), "it is free again");
    }
}
