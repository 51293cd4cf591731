//! The sampled keys in the order in which they were asked, and the way from a key to its record.
//!
//! There are tens of thousands of these, and they are most of what a sampler keeps in memory: 13
//! bytes each, and two or so for the index. The index is a hash table with chains that run through
//! the records themselves, newest first; records are named by number, so that a chain stays right
//! while the oldest go. A key that is asked again gets a new record, and the old one is dead until it
//! comes to the front or too many are. Room is taken once, and used as the sample grows.

use std::collections::VecDeque;
use std::num::NonZeroU8;
use std::ops::Range;

/// The most keys in one sample, under a megabyte.
pub(super) const MOST_KEYS: usize = 60_000;

/// The dead are at most this share of the living, and a few.
const DEAD_SHARE: usize = 16;
const FEW: usize = 16;

/// Records are numbered one after the other, modulo this.
const NUMBERS: usize = NOBODY as usize;

/// The number of no record.
const NOBODY: u16 = u16::MAX;

/// One answer.
#[derive(Debug, Clone, Copy)]
#[repr(Rust, packed)]
struct Record {
    /// 40 bits of its key's identity.
    low: u32,
    high: u8,
    /// Seconds left when it was asked; infinite for a key that never runs out.
    left: f32,
    /// The next older record in its chain.
    older: u16,
    /// Its group's place plus one; `None` once it is dead.
    group: Option<NonZeroU8>,
    /// The server's counter of its use plus one; 255 is told as 254.
    frequency: Option<NonZeroU8>,
}

/// What a living record says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Told {
    /// The group's place.
    pub(super) group: u8,
    /// Seconds left when it was asked; `None` for a key that never runs out.
    pub(super) left: Option<f32>,
    /// The server's counter of its use, where it was asked.
    pub(super) frequency: Option<u8>,
}

/// All records, oldest first.
#[derive(Debug, Clone)]
pub(super) struct Records {
    ring: VecDeque<Record>,
    /// The number of each chain's newest record.
    heads: Vec<u16>,
    /// The number of the oldest record.
    first: usize,
    living: usize,
}

impl Records {
    /// Room for so many living records, at most [`MOST_KEYS`].
    pub(super) fn new(capacity: usize) -> Records {
        let capacity = capacity.clamp(1, MOST_KEYS);
        Records {
            ring: VecDeque::with_capacity(most_with_dead(capacity) + 1),
            heads: vec![NOBODY; (capacity / 2).next_power_of_two()],
            first: 0,
            living: 0,
        }
    }

    /// Records, the dead too.
    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Keys with a living record.
    pub(super) fn living(&self) -> usize {
        self.living
    }

    /// Whether there are so many dead that they should be taken out.
    pub(super) fn is_crowded(&self) -> bool {
        self.len() > most_with_dead(self.living)
    }

    /// Whether the oldest record lives; `None` without any.
    pub(super) fn oldest_lives(&self) -> Option<bool> {
        self.ring.front().map(|record| record.group.is_some())
    }

    /// What the record at this place says, if it lives.
    pub(super) fn told(&self, place: usize) -> Option<Told> {
        self.ring.get(place).and_then(Record::told)
    }

    /// What the living say in some places, in order.
    pub(super) fn range(
        &self,
        places: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = Told> + Clone {
        self.ring.range(places).filter_map(Record::told)
    }

    /// The place of a key's living record.
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        let key = halves(key);
        let mut number = *self.heads.get(self.chain(key))?;
        while let Some(place) = self.place(number) {
            let record = self.ring.get(place)?;
            if record.key() == key {
                return Some(place);
            }
            number = record.older;
        }
        None
    }

    /// Adds a key that has no living record.
    pub(super) fn push(&mut self, key: u64, told: Told) {
        let key = halves(key);
        let number = self.number(self.len());
        let chain = self.chain(key);
        let Some(head) = self.heads.get_mut(chain) else { return };
        self.ring.push_back(Record {
            low: key.0,
            high: key.1,
            left: told.left.unwrap_or(f32::INFINITY),
            older: std::mem::replace(head, number),
            group: Some(NonZeroU8::MIN.saturating_add(told.group)),
            frequency: told.frequency.map(|counter| NonZeroU8::MIN.saturating_add(counter)),
        });
        self.living += 1;
    }

    /// Takes in that what the record at this place says holds no more; `false` if it was dead.
    pub(super) fn bury(&mut self, place: usize) -> bool {
        let Some(record) = self.ring.get_mut(place).filter(|record| record.group.is_some()) else {
            return false;
        };
        record.group = None;
        let record = *record;
        self.unlink(place, record);
        self.living -= 1;
        true
    }

    /// Lets the oldest record go.
    pub(super) fn pop(&mut self) {
        self.bury(0);
        if self.ring.pop_front().is_some() {
            self.first = (self.first + 1) % NUMBERS;
        }
    }

    /// Takes the dead out and numbers the others anew; `each` is told of every record, in order,
    /// whether it lives.
    pub(super) fn squeeze(&mut self, mut each: impl FnMut(bool)) {
        self.ring.retain(|record| {
            each(record.group.is_some());
            record.group.is_some()
        });
        self.first = 0;
        self.heads.fill(NOBODY);
        let chains = self.heads.len();
        for (number, record) in (0..).zip(&mut self.ring) {
            if let Some(head) = self.heads.get_mut(chain(record.key(), chains)) {
                record.older = std::mem::replace(head, number);
            }
        }
    }

    fn unlink(&mut self, place: usize, record: Record) {
        let number = self.number(place);
        let chain = self.chain(record.key());
        let Some(head) = self.heads.get_mut(chain) else { return };
        if *head == number {
            *head = record.older;
            return;
        }
        let mut newer = *head;
        while let Some(place) = self.place(newer)
            && let Some(other) = self.ring.get_mut(place)
        {
            if other.older == number {
                other.older = record.older;
                return;
            }
            newer = other.older;
        }
    }

    fn chain(&self, key: (u32, u8)) -> usize {
        chain(key, self.heads.len())
    }

    fn number(&self, place: usize) -> u16 {
        ((self.first + place) % NUMBERS) as u16
    }

    fn place(&self, number: u16) -> Option<usize> {
        (number != NOBODY).then(|| (usize::from(number) + NUMBERS - self.first) % NUMBERS)
    }
}

impl Record {
    fn key(&self) -> (u32, u8) {
        (self.low, self.high)
    }

    fn told(&self) -> Option<Told> {
        Some(Told {
            group: self.group?.get() - 1,
            left: Some(self.left).filter(|left| left.is_finite()),
            frequency: self.frequency.map(|counter| counter.get() - 1),
        })
    }
}

/// So many records at most for so many living.
fn most_with_dead(living: usize) -> usize {
    living + living / DEAD_SHARE + FEW
}

/// The part of a key's identity that is kept.
fn halves(key: u64) -> (u32, u8) {
    (key as u32, (key >> 32) as u8)
}

/// The chain of a key, of a power of two of them.
fn chain(key: (u32, u8), chains: usize) -> usize {
    key.0 as usize & (chains - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(group: u8) -> Told {
        Told { group, left: Some(5.0), frequency: None }
    }

    /// With the index: half a number a chain, and at most a sixteenth of the records dead.
    #[test]
    fn a_record_is_small() {
        assert_eq!(size_of::<Record>(), 13);
        let records = Records::new(30_000);
        let bytes = records.ring.capacity() * size_of::<Record>() + records.heads.len() * 2;
        assert!(bytes < 16 * 30_000, "{bytes}");
        // Every record that there may be has a number of its own.
        assert!(most_with_dead(MOST_KEYS) + 1 < NUMBERS);
    }

    #[test]
    fn what_was_told_is_kept() {
        let mut records = Records::new(10);
        let all = [
            Told { group: 0, left: Some(0.25), frequency: Some(0) },
            Told { group: 250, left: None, frequency: Some(254) },
            Told { group: 1, left: Some(3600.5), frequency: None },
        ];
        for (key, told) in (0..).zip(all) {
            records.push(key, told);
        }
        assert_eq!(records.range(0..3).collect::<Vec<_>>(), all);
        records.push(3, Told { frequency: Some(255), ..all[0] });
        assert_eq!(records.told(3).and_then(|t| t.frequency), Some(254));
    }

    /// Keys of one chain, which differ in their upper bits only, in every order of going.
    #[test]
    fn a_chain_holds_whatever_goes() {
        let key = |n: u64| n << 32 | 7;
        for gone in 0..3 {
            for then in 0..3 {
                let mut records = Records::new(4);
                (0..3).for_each(|n| records.push(key(n), told(n as u8)));
                for n in [gone, then] {
                    if let Some(place) = records.find(key(n)) {
                        assert!(records.bury(place) && !records.bury(place));
                    }
                }
                for n in 0..3 {
                    let group = records.find(key(n)).and_then(|p| records.told(p)).map(|t| t.group);
                    let expected = (n != gone && n != then).then_some(n as u8);
                    assert_eq!(group, expected, "{n} after {gone} and {then}");
                }
                let living = records.living();
                let mut seen = Vec::new();
                records.squeeze(|lives| seen.push(lives));
                assert_eq!((records.len(), seen.len()), (living, 3));
                assert!((0..3).filter(|n| records.find(key(*n)).is_some()).count() == living);
            }
        }
    }
}
