//! How many keys of the key space each sampled deadline stands for now.
//!
//! A sampled key stands for the keys that the space held when it was asked, over the sample's
//! size. What was asked some time ago is still right about the keys it saw, unless they were
//! written since: so the part of the space whose deadlines are known shrinks as deadlines pass, and
//! the space itself says how much is missing. Where keys are gone the space has shrunk too, and
//! nothing is missing. Where they were written again, the missing part is spread over the group
//! like the remaining TTLs at the time of asking, which a key space in balance keeps. Dropping the
//! passed ones instead would starve the short TTLs, and keeping them would invent deadlines.

use super::Estimate;
use super::binomial::share_interval;
use super::deadlines::{Deadlines, Kept, Space};
use super::popularity::{self, Load};
use super::records::Told;

/// The sample reaches back only as far as this share of the space is still unknown, since what is
/// spread over it is an assumption.
const MAX_UNKNOWN: f64 = 0.1;

/// But it always uses this many keys with a deadline: below, the noise is worse than the staleness.
const MIN_FRESH: usize = 1000;

/// The share of the sample whose use must be known before lookups are weighed by it.
const MOST_COUNTED: f64 = 0.9;

/// A stretch of keys with one remaining TTL. There are up to two of them a sampled key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    /// Seconds until the deadline, above zero. Seven digits are what a record keeps.
    pub(super) left: f32,
    /// Keys of the space that it stands for. Seven digits are enough for one of thousands; they
    /// are added up in twice as many.
    keys: f32,
    /// The group's place.
    pub(super) group: u8,
    /// Whether the deadline was seen, or is the assumption about keys written since.
    pub(super) seen: bool,
    /// The server's counter of its use, or a new key's where the server did not tell.
    frequency: u8,
}

impl Part {
    /// Seconds until the deadline, above zero.
    pub(super) fn left(&self) -> f64 {
        f64::from(self.left)
    }

    /// Keys of the space that it stands for.
    pub(super) fn keys(&self) -> f64 {
        f64::from(self.keys)
    }

    /// Parts in this order lie by group, and within one by what is left.
    pub(super) fn by_group(&self) -> u64 {
        u64::from(self.group) << 32 | self.by_left()
    }

    /// Parts in this order lie by what is left: the bits of positive floats are in their order.
    pub(super) fn by_left(&self) -> u64 {
        u64::from(self.left.to_bits())
    }

    /// How often they are asked for, as [`Load`] counts it.
    fn accesses(&self) -> f64 {
        self.keys() * popularity::accesses(self.frequency)
    }
}

/// Keys of the space, and how many of them stand behind deadlines that were seen.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    /// All of them.
    pub(super) keys: f64,
    seen: f64,
}

impl Sum {
    pub(super) fn add(&mut self, part: &Part) {
        self.keys += part.keys();
        self.seen += if part.seen { part.keys() } else { 0.0 };
    }

    pub(super) fn plus(self, other: Sum) -> Sum {
        Sum { keys: self.keys + other.keys, seen: self.seen + other.seen }
    }
}

/// The key space, but for its [`Part`]s.
#[derive(Debug, Clone, Default)]
pub(super) struct Mass {
    /// Keys with a deadline, over all databases that have been sampled.
    pub(super) volatile: f64,
    /// Keys without one, by group.
    pub(super) without_ttl: Vec<f64>,
    /// Keys without one.
    pub(super) persistent: f64,
    /// All keys, sampled or not.
    pub(super) keys: f64,
    /// Keys beyond these that are past their deadline and held all the same.
    pub(super) held: Estimate,
    /// Effective number of sampled keys with a deadline; infinite for a census.
    pub(super) volatile_n: f64,
    /// Effective number of sampled keys without one.
    pub(super) persistent_n: f64,
    /// Sampled keys that it rests on.
    pub(super) used: u64,
    /// How often keys are asked for, where the server counts it.
    load: Option<Load>,
}

impl Mass {
    /// The key space at `now`, seconds; its keys that have a deadline go to `parts`, in no order.
    /// `groups` counts `other`.
    pub(super) fn at(now: f64, sample: &Deadlines, groups: usize, parts: &mut Vec<Part>) -> Mass {
        let mut mass = Mass { without_ttl: vec![0.0; groups], ..Mass::default() };
        let (mut volatile_variance, mut persistent_variance) = (0.0, 0.0);
        let (mut load, mut counted) = (Load::default(), 0);
        for (database, space) in sample.spaces() {
            let rows = usable(now, sample.newest_first(database), space.volatile);
            let counts = Counts::of(now, rows.clone(), groups);
            let space = space.with_alive(counts.volatile + counts.persistent - counts.passed);
            counted += counts.counted;
            mass.used += (counts.volatile + counts.persistent) as u64;
            mass.keys += space.keys;
            mass.held = mass.held.plus(space.held);
            let without = space.keys - space.volatile;
            mass.persistent += without;
            persistent_variance += stratum(without, counts.persistent);
            if counts.volatile > 0.0 {
                mass.volatile += space.volatile;
                volatile_variance += stratum(space.volatile, counts.volatile);
            }
            counts.spread(now, rows, space, parts, &mut load);
            if counts.persistent == 0.0 {
                // None was seen, so no group is known for them.
                add(&mut mass.without_ttl, groups.saturating_sub(1) as u8, without);
                continue;
            }
            for (keys, seen) in mass.without_ttl.iter_mut().zip(counts.persistent_by_group) {
                *keys += without * (seen / counts.persistent);
            }
        }
        if f64::from(counted) >= MOST_COUNTED * mass.used as f64 && counted > 0 {
            parts.iter().for_each(|part| load.add(part.accesses()));
            mass.load = Some(load);
        }
        mass.volatile_n = mass.volatile * mass.volatile / volatile_variance;
        mass.persistent_n = mass.persistent * mass.persistent / persistent_variance;
        mass
    }

    /// The number of keys in these parts, all of them with a deadline.
    pub(super) fn estimate<'a>(&self, parts: impl Iterator<Item = &'a Part>) -> Estimate {
        let mut sum = Sum::default();
        parts.for_each(|part| sum.add(part));
        self.estimate_of(sum)
    }

    /// The number of keys in parts with this sum.
    pub(super) fn estimate_of(&self, Sum { keys: value, seen }: Sum) -> Estimate {
        if self.volatile <= 0.0 {
            return Estimate::default();
        }
        // What is only assumed counts for the upper end alone.
        let (fewest, most) = self.volatile_interval();
        let low = share_interval(seen / self.volatile, self.volatile_n).0 * fewest;
        let high = share_interval(value / self.volatile, self.volatile_n).1 * most;
        Estimate { value, low: low.min(value), high: high.max(value) }
    }

    /// The interval of the number of keys with a deadline, by what may be held.
    fn volatile_interval(&self) -> (f64, f64) {
        let Estimate { value, low, high } = self.held;
        ((self.volatile + value - high).max(0.0), self.volatile + value - low)
    }

    /// The share of the keys that has no deadline.
    pub(super) fn persistent_share(&self) -> Estimate {
        let share = |volatile: f64| {
            let all = self.persistent + volatile;
            if all > 0.0 { self.persistent / all } else { 0.0 }
        };
        let (fewest, most) = self.volatile_interval();
        Estimate { value: share(self.volatile), low: share(most), high: share(fewest) }
    }

    /// The share of the lookups that fall on these parts; `None` where the server does not count
    /// them by key.
    pub(super) fn lookup_share<'a>(
        &self,
        parts: impl Iterator<Item = &'a Part>,
    ) -> Option<Estimate> {
        let mut part = Load::default();
        parts.for_each(|p| part.add(p.accesses()));
        self.load?.share(part)
    }

    /// The interval of a number of keys without a deadline.
    pub(super) fn persistent_interval(&self, keys: f64) -> (f64, f64) {
        if self.persistent <= 0.0 {
            return (0.0, 0.0);
        }
        let (low, high) = share_interval(keys / self.persistent, self.persistent_n);
        (low * self.persistent, high * self.persistent)
    }
}

/// What a stratum of `size` keys of which `n` were sampled adds to the variance of a share, times
/// the squared total: nothing when all of them were.
fn stratum(size: f64, n: f64) -> f64 {
    if size <= 0.0 {
        return 0.0;
    }
    if n <= 0.0 {
        return f64::INFINITY;
    }
    size * size * (1.0 - n / size).max(0.0) / n
}

/// The newest part of a database's sample that leaves no more of the space unknown than allowed.
fn usable(
    now: f64,
    newest_first: impl Iterator<Item = Kept> + Clone,
    space: f64,
) -> impl Iterator<Item = Kept> + Clone {
    let (mut n, mut known, mut place, mut reach) = (0_usize, 0.0, 0, 0);
    newest_first.clone().for_each(|kept| {
        place += 1;
        if let Some(deadline) = kept.deadline() {
            n += 1;
            known += if deadline > now { kept.volatile } else { 0.0 };
        }
        if n <= MIN_FRESH || known >= (1.0 - MAX_UNKNOWN) * space * n as f64 {
            reach = place;
        }
    });
    newest_first.take(reach)
}

/// What is counted in one database's sample before its keys are spread over the space.
#[derive(Debug, Default)]
struct Counts {
    /// Sampled keys with a deadline, without one, and with one that has passed.
    volatile: f64,
    persistent: f64,
    passed: f64,
    /// Those whose use the server told.
    counted: u32,
    /// Sum of the keys that those not passed stood for when they were asked.
    known: f64,
    /// The same of the passed, by group.
    passed_by_group: Vec<f64>,
    volatile_by_group: Vec<f64>,
    persistent_by_group: Vec<f64>,
}

impl Counts {
    fn of(now: f64, rows: impl Iterator<Item = Kept>, groups: usize) -> Counts {
        let none = || vec![0.0; groups];
        let mut counts = Counts {
            passed_by_group: none(),
            volatile_by_group: none(),
            persistent_by_group: none(),
            ..Counts::default()
        };
        rows.for_each(|kept| {
            let group = kept.told.group;
            counts.counted += u32::from(kept.told.frequency.is_some());
            let Some(deadline) = kept.deadline() else {
                counts.persistent += 1.0;
                add(&mut counts.persistent_by_group, group, 1.0);
                return;
            };
            counts.volatile += 1.0;
            add(&mut counts.volatile_by_group, group, 1.0);
            if deadline > now {
                counts.known += kept.volatile;
            } else {
                counts.passed += 1.0;
                add(&mut counts.passed_by_group, group, kept.volatile);
            }
        });
        counts
    }

    /// Adds the keys with a deadline to the parts, and the use of those without one to the load.
    fn spread(
        &self,
        now: f64,
        rows: impl Iterator<Item = Kept>,
        space: Space,
        parts: &mut Vec<Part>,
        load: &mut Load,
    ) {
        let known = self.known / self.volatile;
        // More known than there is: keys were deleted, whichever.
        let shrink = if known > space.volatile { space.volatile / known } else { 1.0 };
        let share = shrink / self.volatile;
        let unknown = self.unknown_each((space.volatile - known).max(0.0));
        let without = (space.keys - space.volatile) / self.persistent;
        rows.for_each(|kept| {
            let Told { group, left, frequency } = kept.told;
            let frequency = frequency.unwrap_or(popularity::NEW);
            let (Some(deadline), Some(at_first)) = (kept.deadline(), left) else {
                return load.add(without * popularity::accesses(frequency));
            };
            if deadline > now {
                let (left, keys) = ((deadline - now) as f32, (kept.volatile * share) as f32);
                parts.push(Part { left, keys, group, seen: true, frequency });
            }
            let keys = unknown.get(usize::from(group)).copied().unwrap_or(0.0);
            if keys > 0.0 && at_first > 0.0 {
                parts.push(Part { left: at_first, keys, group, seen: false, frequency });
            }
        });
    }

    /// What each sampled key stands for of the keys that are unknown, by group: they are in the
    /// groups of those that have passed.
    fn unknown_each(&self, unknown: f64) -> Vec<f32> {
        let all: f64 = self.passed_by_group.iter().sum();
        let by_group = self.passed_by_group.iter().zip(&self.volatile_by_group);
        let each = by_group.map(|(passed, members)| {
            let share = if all > 0.0 { passed / all } else { members / self.volatile };
            (unknown * share / members) as f32
        });
        each.collect()
    }
}

fn add(counts: &mut [f64], group: u8, keys: f64) {
    if let Some(count) = counts.get_mut(usize::from(group)) {
        *count += keys;
    }
}
