//! `bloom`: keys that were never written are refused before anybody looks for them.
//!
//! B. H. Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors", CACM 13(7), 1970. For
//! `n` keys and a share `p` of wrong "perhaps", the filter has `-n ln p / ln² 2` bits and
//! `-log2 p` hashes; two hashes give all of them (A. Kirsch, M. Mitzenmacher, "Less Hashing, Same
//! Performance", ESA 2006). It never refuses a key that was written.
//!
//! Fails for keys that are created elsewhere and not made known to the filter, which are refused
//! although they exist; and it cannot forget, so with many deletions it says "perhaps" ever more
//! often until it is built anew.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::elementary::ln;

/// Bits in a word.
const WORD: u64 = 64;

/// A Bloom filter that many tasks may use at once.
#[derive(Debug)]
pub struct Bloom {
    words: Vec<AtomicU64>,
    hashes: u64,
    /// Two independent, randomly keyed hash functions, so that nobody can choose keys that collide.
    hashers: [RandomState; 2],
}

impl Bloom {
    /// A filter for this many keys (at least one) that wrongly says "perhaps" for a share of
    /// `wrong` (between 0 and 1) of the keys that were never written.
    pub fn new(keys: u64, wrong: f64) -> Bloom {
        let wrong = wrong.clamp(1e-9, 0.5);
        let ln2 = std::f64::consts::LN_2;
        let bits = -(keys.max(1) as f64) * ln(wrong) / (ln2 * ln2);
        let words = (0..(bits as u64).div_ceil(WORD).max(1)).map(|_| AtomicU64::new(0)).collect();
        let hashes = (-ln(wrong) / ln2).round().max(1.0) as u64;
        Bloom { words, hashes, hashers: [RandomState::new(), RandomState::new()] }
    }

    /// Makes a key known.
    pub fn insert(&self, key: &impl Hash) {
        for bit in self.bits(key) {
            if let Some(word) = self.words.get((bit / WORD) as usize) {
                word.fetch_or(1 << (bit % WORD), Ordering::Relaxed);
            }
        }
    }

    /// Whether the key was perhaps made known; `false` is certain.
    pub fn perhaps(&self, key: &impl Hash) -> bool {
        self.bits(key).all(|bit| {
            let word = self.words.get((bit / WORD) as usize);
            word.is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (bit % WORD)) != 0)
        })
    }

    fn bits(&self, key: &impl Hash) -> impl Iterator<Item = u64> {
        let [first, second] = &self.hashers;
        // An odd step visits every bit of an even count.
        let (start, step) = (first.hash_one(key), second.hash_one(key) | 1);
        let bits = self.words.len() as u64 * WORD;
        (0..self.hashes).map(move |n| start.wrapping_add(n.wrapping_mul(step)) % bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_never_refused_and_the_rest_seldom_is_let_through() {
        let bloom = Bloom::new(10_000, 0.01);
        (0..10_000_u64).for_each(|key| bloom.insert(&key));
        assert!((0..10_000_u64).all(|key| bloom.perhaps(&key)));
        let asked = 100_000;
        let wrong = (1_000_000..1_000_000 + asked).filter(|key: &u64| bloom.perhaps(key)).count();
        // One in a hundred was asked for; seven hashes instead of 6.64 and whole words change it by
        // some percent, the fill of one filter by some more.
        let share = wrong as f64 / asked as f64;
        assert!((0.005..0.015).contains(&share), "{share}");
    }

    #[test]
    fn an_empty_filter_refuses_everything() {
        assert!(!(0..1000_u64).any(|key| Bloom::new(0, 0.01).perhaps(&key)));
    }
}
