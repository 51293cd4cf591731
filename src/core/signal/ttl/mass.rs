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
use super::deadlines::{Deadlines, Kept};
use super::popularity::{self, Load};

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
    /// Seconds until the deadline, above zero.
    pub(super) left: f64,
    /// Keys of the space that it stands for. Seven digits are enough for one of thousands; they
    /// are added up in twice as many.
    keys: f32,
    /// The group's place.
    pub(super) group: u16,
    /// Whether the deadline was seen, or is the assumption about keys written since.
    pub(super) seen: bool,
    /// The server's counter of its use, or a new key's where the server did not tell.
    frequency: u8,
}

impl Part {
    /// Keys of the space that it stands for.
    pub(super) fn keys(&self) -> f64 {
        f64::from(self.keys)
    }

    /// How often they are asked for, as [`Load`] counts it.
    fn accesses(&self) -> f64 {
        self.keys() * popularity::accesses(self.frequency)
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
    /// The key space at `now`, seconds, with its keys that have a deadline as parts in no order;
    /// `groups` counts `other`.
    pub(super) fn at(now: f64, sample: &Deadlines, groups: usize) -> (Mass, Vec<Part>) {
        let mut mass = Mass { without_ttl: vec![0.0; groups], ..Mass::default() };
        let mut parts = Vec::new();
        let (mut volatile_variance, mut persistent_variance) = (0.0, 0.0);
        let (mut load, mut counted) = (Load::default(), 0.0);
        for (database, space) in sample.spaces() {
            let rows = usable(now, sample.newest_first(database), space.volatile);
            let (mut volatile, mut persistent, mut passed) = (0.0, 0.0, 0.0);
            let mut seen = vec![0.0; groups];
            for kept in rows.clone() {
                counted += f64::from(u8::from(kept.frequency.is_some()));
                if let Some(deadline) = kept.deadline {
                    volatile += 1.0;
                    passed += f64::from(u8::from(deadline <= now));
                } else {
                    persistent += 1.0;
                    add(&mut seen, kept.group, 1.0);
                }
            }
            let space = space.with_alive(volatile + persistent - passed);
            mass.used += (volatile + persistent) as u64;
            mass.keys += space.keys;
            mass.held = mass.held.plus(space.held);
            if volatile > 0.0 {
                mass.volatile += space.volatile;
                volatile_variance += stratum(space.volatile, volatile);
                volatile_parts(now, rows.clone(), space.volatile, groups, &mut parts);
            }
            let without = space.keys - space.volatile;
            mass.persistent += without;
            persistent_variance += stratum(without, persistent);
            if persistent == 0.0 {
                // None was seen, so no group is known for them.
                add(&mut mass.without_ttl, groups.saturating_sub(1) as u16, without);
                continue;
            }
            for (keys, seen) in mass.without_ttl.iter_mut().zip(seen) {
                *keys += without * (seen / persistent);
            }
            for kept in rows.filter(|kept| kept.deadline.is_none()) {
                let counter = kept.frequency.unwrap_or(popularity::NEW);
                load.add(without / persistent * popularity::accesses(counter));
            }
        }
        if counted >= MOST_COUNTED * mass.used as f64 && counted > 0.0 {
            parts.iter().for_each(|part| load.add(part.accesses()));
            mass.load = Some(load);
        }
        mass.volatile_n = mass.volatile * mass.volatile / volatile_variance;
        mass.persistent_n = mass.persistent * mass.persistent / persistent_variance;
        (mass, parts)
    }

    /// The number of keys in these parts, all of them with a deadline.
    pub(super) fn estimate<'a>(&self, parts: impl Iterator<Item = &'a Part>) -> Estimate {
        let (mut seen, mut value) = (0.0, 0.0);
        for part in parts {
            value += part.keys();
            seen += if part.seen { part.keys() } else { 0.0 };
        }
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
    let (mut n, mut known, mut reach) = (0_usize, 0.0, 0);
    for (place, kept) in newest_first.clone().enumerate() {
        if let Some(deadline) = kept.deadline {
            n += 1;
            known += if deadline > now { kept.volatile } else { 0.0 };
        }
        if n <= MIN_FRESH || known / n as f64 >= (1.0 - MAX_UNKNOWN) * space {
            reach = place + 1;
        }
    }
    newest_first.take(reach)
}

/// Adds one database's keys with a deadline.
fn volatile_parts(
    now: f64,
    rows: impl Iterator<Item = Kept> + Clone,
    space: f64,
    groups: usize,
    parts: &mut Vec<Part>,
) {
    let answers = rows.filter_map(|kept| Some((kept, kept.deadline?)));
    let mut n = 0.0;
    let mut passed = vec![0.0; groups];
    let mut by_group = vec![0.0; groups];
    let mut known = 0.0;
    for (kept, deadline) in answers.clone() {
        n += 1.0;
        add(&mut by_group, kept.group, 1.0);
        if deadline > now {
            known += kept.volatile;
        } else {
            add(&mut passed, kept.group, kept.volatile);
        }
    }
    known /= n;
    // More known than there is: keys were deleted, whichever.
    let shrink = if known > space { space / known } else { 1.0 };
    let unknown = (space - known).max(0.0);
    let all_passed: f64 = passed.iter().sum();
    let unknown_of = |group: u16| {
        let place = usize::from(group);
        let members = by_group.get(place).copied().unwrap_or(0.0);
        let share = if all_passed > 0.0 {
            passed.get(place).copied().unwrap_or(0.0) / all_passed
        } else {
            members / n
        };
        unknown * share / members
    };
    for (Kept { group, taken, volatile, frequency, .. }, deadline) in answers {
        let frequency = frequency.unwrap_or(popularity::NEW);
        if deadline > now {
            let keys = (volatile / n * shrink) as f32;
            parts.push(Part { left: deadline - now, keys, group, seen: true, frequency });
        }
        let (keys, left) = (unknown_of(group) as f32, deadline - taken);
        if keys > 0.0 && left > 0.0 {
            parts.push(Part { left, keys, group, seen: false, frequency });
        }
    }
}

fn add(counts: &mut [f64], group: u16, keys: f64) {
    if let Some(count) = counts.get_mut(usize::from(group)) {
        *count += keys;
    }
}
