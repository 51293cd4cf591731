//! One look at the whole sample, and what it says until the next one.
//!
//! A look sorts the sample, searches it for waves and weighs it by group, which takes milliseconds
//! of a full one. So it is taken anew where it may say something else: when some of the sample has
//! been exchanged, has passed, or when the key space has changed as much; and every 20 seconds in
//! any case. What moves with the clock (what is due, how far off a wave is, whether it has come) is read
//! off the last look at each poll. A small sample changes as much at each poll, and is looked at
//! as often.

use std::sync::Arc;

use super::announced::{Announced, View, level, stretches, told_once, waves_of};
use super::deadlines::Deadlines;
use super::forecast::{Even, Row, forecast, smallest_wave};
use super::mass::{Mass, Part, Sum};
use super::{ALL_GROUP, DUE_WINDOWS, Estimate, Forecast, GroupTtl, TTL_BOUNDS, TtlPicture, Wave};

/// A look holds for so long at most, seconds.
const HOLDS: f64 = 20.0;

/// It holds while less than this share of the sample has come, gone or passed since: a key that was
/// asked again has both come and gone.
const CHANGED: f64 = 0.08;

/// And while the key space has changed by less than this share.
const SPACE_CHANGED: f64 = 0.02;

/// Room for parts that is not given back after a look.
const KEPT_ROOM: usize = 1024;

/// What was seen in one look.
#[derive(Debug, Clone)]
pub(super) struct Look {
    /// When it was taken, Unix seconds.
    pub(super) time: f64,
    /// The state of the sample and of the space.
    changes: u64,
    sample: usize,
    space: (f64, f64),
    mass: Mass,
    /// Sorted by what is left, as far as it may be due before the next look.
    parts: Vec<Part>,
    even: Option<Even>,
    /// The waves of the key space as a whole.
    of_all: Vec<Wave>,
    /// When the first of the announced waves ends, Unix seconds.
    next_end: f64,
    picture: TtlPicture,
}

impl Look {
    /// Takes a look; the room for parts is that of the look `before`. What has been `announced` is
    /// judged again.
    pub(super) fn take(
        now: f64,
        sample: &Deadlines,
        groups: &[Arc<str>],
        before: Option<Look>,
        announced: &mut Vec<Announced>,
    ) -> Look {
        let mut parts = before.map_or_else(|| Vec::with_capacity(sample.capacity()), |b| b.parts);
        parts.clear();
        let mass = Mass::at(now, sample, groups.len(), &mut parts);
        let level = level(groups.len());
        // Where nothing was asked, as with the watch list alone, nothing is known of any group.
        let known = mass.used > 0 || mass.keys == 0.0;
        let before = std::mem::take(announced);
        let mut picture = TtlPicture {
            keys: mass.keys,
            without_ttl: if known { mass.persistent } else { 0.0 },
            without_ttl_share: if known { mass.persistent_share() } else { Estimate::default() },
            sample_keys: mass.used,
            ..TtlPicture::default()
        };

        parts.sort_unstable_by_key(Part::by_group);
        let (mut found, mut start, mut last) = (Vec::new(), 0, Forecast::default());
        for ((place, name), without) in (0..).zip(groups).zip(&mass.without_ttl) {
            let end = parts.partition_point(|part| part.group <= place);
            let of_group = parts.get(start..end).unwrap_or_default();
            start = end;
            found = stretches(of_group, level);
            let (name, row) = (Arc::clone(name), Row::of(of_group));
            let view = View { name, group: Some(place), row, found: &found };
            let waves = waves_of(now, &mass, &view, &before, level, announced);
            last = forecast(now, &mass, row, &waves);
            if known {
                let group = group_ttl(&mass, &view, *without);
                picture.groups.push(GroupTtl { forecast: last, ..group });
            }
            picture.waves.extend(waves);
        }

        // One group is all there is.
        let several = groups.len() > 1;
        if several {
            parts.sort_unstable_by_key(Part::by_left);
            found = stretches(&parts, level);
        }
        let row = Row::of(&parts);
        let view = View { name: Arc::from(ALL_GROUP), group: None, row, found: &found };
        let of_all = waves_of(now, &mass, &view, &before, level, announced);
        picture.all = if several { forecast(now, &mass, row, &of_all) } else { last };
        picture.smallest_wave = smallest_wave(&mass, row, level);
        picture.waves.extend(of_all.iter().cloned());
        picture.waves.sort_by(|a, b| a.start.total_cmp(&b.start));
        picture.waves = told_once(&picture.waves);

        let even = row.even();
        let mut look = Look {
            time: now,
            changes: sample.changes(),
            sample: sample.len(),
            space: space(sample),
            mass,
            even,
            of_all,
            next_end: announced.iter().map(|a| a.end).fold(f64::INFINITY, f64::min),
            picture,
            parts,
        };
        let reach = look.reach() + HOLDS;
        let end = look.parts.partition_point(|part| part.left() <= reach);
        look.parts.truncate(end);
        look.parts.shrink_to(KEPT_ROOM);
        look
    }

    /// Whether it still says at `now` what a new look would, but for little.
    pub(super) fn holds(&self, now: f64, sample: &Deadlines) -> bool {
        let ago = now - self.time;
        let changed = |now: f64, then: f64| (now - then).abs() > SPACE_CHANGED * then;
        let (keys, volatile) = space(sample);
        if !(0.0..HOLDS).contains(&ago)
            || self.next_end <= now
            || changed(keys, self.space.0)
            || changed(volatile, self.space.1)
        {
            return false;
        }
        let passed = self.parts.iter().take_while(|p| p.left() <= ago).filter(|p| p.seen);
        let changes = (sample.changes() - self.changes) as f64 + passed.count() as f64;
        changes == 0.0 || changes < CHANGED * self.sample as f64
    }

    /// The picture at `now`.
    pub(super) fn at(&self, now: f64) -> TtlPicture {
        let ago = now - self.time;
        let mut picture = TtlPicture { time: now, ..self.picture.clone() };
        let mut sums = vec![[Sum::default(); DUE_WINDOWS.len()]; picture.groups.len()];
        let (mut all, mut calm) = ([Sum::default(); DUE_WINDOWS.len()], 0.0);
        let width = self.even.map_or(0.0, |even| even.width);
        let reach = self.reach() + ago;
        for part in self.parts.iter().take_while(|part| part.left() <= reach) {
            // What is assumed about keys written since does not come nearer.
            let left = if part.seen { part.left() - ago } else { part.left() };
            if left <= 0.0 {
                continue;
            }
            calm += if left <= width { part.keys() } else { 0.0 };
            let Some(window) = DUE_WINDOWS.iter().position(|(window, _)| left <= *window) else {
                continue;
            };
            let of_group = sums.get_mut(usize::from(part.group));
            for sums in [Some(&mut all), of_group].into_iter().flatten() {
                if let Some(sum) = sums.get_mut(window) {
                    sum.add(part);
                }
            }
        }
        picture.due = self.estimates(all);
        picture.due_ratio = self.even.map(|even| even.due_ratio(now, calm, &self.of_all));
        come_nearer(&mut picture.all, ago);
        for (group, sums) in picture.groups.iter_mut().zip(sums) {
            let due = self.estimates(sums);
            group.due = due.map(|estimate| estimate.value);
            group.due_intervals = due.map(|estimate| (estimate.low, estimate.high));
            come_nearer(&mut group.forecast, ago);
        }
        picture
    }

    /// Keys that are held past their deadline.
    pub(super) fn held(&self) -> Estimate {
        self.mass.held
    }

    /// How far ahead it is read, seconds.
    fn reach(&self) -> f64 {
        let [.., (longest, _)] = DUE_WINDOWS;
        self.even.map_or(longest, |even| longest.max(even.width))
    }

    /// Keys due within each window, from those due in it and in no shorter one.
    fn estimates(&self, sums: [Sum; DUE_WINDOWS.len()]) -> [Estimate; DUE_WINDOWS.len()] {
        let mut so_far = Sum::default();
        sums.map(|sum| {
            so_far = so_far.plus(sum);
            self.mass.estimate_of(so_far)
        })
    }
}

/// All keys that the server counts, and those with a deadline.
fn space(sample: &Deadlines) -> (f64, f64) {
    sample.spaces().fold((0.0, 0.0), |(keys, volatile), (_, space)| {
        (keys + space.keys + space.held.value, volatile + space.volatile + space.held.value)
    })
}

fn come_nearer(forecast: &mut Forecast, ago: f64) {
    forecast.peak_in = forecast.peak_in.map(|peak_in| (peak_in - ago).max(0.0));
}

/// The part of a group's picture that is additive and does not move with the clock.
fn group_ttl(mass: &Mass, view: &View<'_>, without_ttl: f64) -> GroupTtl {
    let mut buckets = vec![0.0; TTL_BOUNDS.len() + 1];
    let (mut place, mut ttl_sum) = (0, 0.0);
    for part in view.row.parts {
        while TTL_BOUNDS.get(place).is_some_and(|bound| *bound < part.left()) {
            place += 1;
        }
        if let Some(bucket) = buckets.get_mut(place) {
            *bucket += part.keys();
        }
        ttl_sum += part.left() * part.keys();
    }
    GroupTtl {
        name: Arc::clone(&view.name),
        buckets,
        ttl_sum,
        without_ttl,
        without_ttl_interval: mass.persistent_interval(without_ttl),
        ..GroupTtl::default()
    }
}
