//! The waves that are announced: what the scan finds, judged by its width, measured, and kept until
//! it has broken.

use std::sync::Arc;

use super::forecast::{Row, densest, within};
use super::mass::{Mass, Part};
use super::wave::{self, Span};
use super::{ALL_GROUP, Estimate, Wave};

/// Chance of any false wave in one look at one cache. The sample is a new one about every five
/// minutes, so this is one false wave in about a month; it costs one sampled key over 1 in 1000.
const FALSE_WAVE: f64 = 1e-4;

/// A wave that has been announced stays while its chance is below this many times the level, so
/// that one at the line does not come and go with each sampled key.
const STAYING: f64 = 100.0;

/// A wave is at most this wide as a share of the time until it comes, which its keys' TTL is no
/// shorter than: what is spread wider is jittered as it should be.
const JITTERED: f64 = 0.05;

/// A wave of one second is one however near it is.
const ALWAYS_NARROW: f64 = 1.0;

/// A wave that has been announced may grow to this many times the width that it was allowed then:
/// each sampled key can widen it a little. What grows further was the edge of something wide that
/// was still being written.
const WIDENING: f64 = 2.0;

/// A wave that has been announced.
#[derive(Debug, Clone)]
pub(super) struct Announced {
    group: Option<u8>,
    start: f64,
    pub(super) end: f64,
    since: f64,
    /// Its highest second over the mean rate, the largest so far: as it comes near, the horizon
    /// that the mean is taken over shrinks to it.
    ratio: f64,
}

impl Announced {
    /// How wide it may be, seconds, by how far off it was when it was announced.
    fn widest(&self) -> f64 {
        WIDENING * narrow(self.start - self.since)
    }
}

/// One group's parts.
pub(super) struct View<'a> {
    pub(super) name: Arc<str>,
    /// `None` for all together.
    pub(super) group: Option<u8>,
    pub(super) row: Row<'a>,
    /// Where they pile up.
    pub(super) found: &'a [Span],
}

/// The chance of a false wave that each view of so many groups is allowed.
pub(super) fn level(groups: usize) -> f64 {
    FALSE_WAVE / (groups + 1) as f64
}

/// Where sorted parts pile up, beyond the level, so far as to keep a wave that is announced.
pub(super) fn stretches(parts: &[Part], level: f64) -> Vec<Span> {
    // Room once: a list that grows would leave its smaller selves behind in the heap.
    let mut times = Vec::with_capacity(parts.len());
    times.extend(parts.iter().filter(|part| part.seen).map(|part| part.left));
    wave::scan(times, level * STAYING)
}

/// The waves of one view with their sizes; they are `announced` from now on.
pub(super) fn waves_of(
    now: f64,
    mass: &Mass,
    view: &View<'_>,
    before: &[Announced],
    level: f64,
    announced: &mut Vec<Announced>,
) -> Vec<Wave> {
    let before = before.iter().filter(|a| a.group == view.group);
    let mut waves = Vec::new();
    for mut one in announce(now, view, before, level) {
        let wave = measure(now, mass, view, &one);
        one.ratio = wave.clustering_ratio;
        announced.push(one);
        if wave.keys.value > 0.0 {
            waves.push(wave);
        }
    }
    waves
}

/// The waves of one view to announce now: the significant ones, and those announced `before` that
/// are too near now to be judged again.
fn announce<'a>(
    now: f64,
    view: &View<'_>,
    before: impl Iterator<Item = &'a Announced> + Clone,
    level: f64,
) -> Vec<Announced> {
    let found = view.found;
    let mut waves = Vec::new();
    for span in found {
        let known = before.clone().find(|a| overlaps(a, now, span));
        let width = known.map_or_else(|| narrow(span.from), Announced::widest);
        if span.to - span.from <= width && (known.is_some() || span.chance <= level) {
            waves.push(Announced {
                group: view.group,
                start: now + span.from,
                end: now + span.to,
                since: known.map_or(now, |a| a.since),
                ratio: known.map_or(0.0, |a| a.ratio),
            });
        }
    }
    let breaking = before.filter(|a| {
        let near = a.start - now <= wave::WINDOWS[wave::WINDOWS.len() - 1];
        near && a.end > now && !found.iter().any(|span| overlaps(a, now, span))
    });
    waves.extend(breaking.cloned());
    waves
}

/// Each wave once: under its group's name where one group has most of it, or else under
/// [`ALL_GROUP`].
pub(super) fn told_once(waves: &[Wave]) -> Vec<Wave> {
    let most_of = |wave: &Wave, all: &Wave| {
        let together = wave.start <= all.end + 1.0 && wave.end >= all.start - 1.0;
        (together, together && wave.keys.value >= all.keys.value / 2.0)
    };
    let (all, of_groups): (Vec<&Wave>, Vec<&Wave>) =
        waves.iter().partition(|w| &*w.group == ALL_GROUP);
    let explained = |all: &Wave| of_groups.iter().any(|w| most_of(w, all).1);
    let told = waves.iter().filter(|wave| {
        if &*wave.group == ALL_GROUP {
            !explained(wave)
        } else {
            !all.iter().any(|a| most_of(wave, a).0 && !explained(a))
        }
    });
    told.take(wave::MAX_WAVES).cloned().collect()
}

/// How wide a wave may be that comes in so many seconds.
fn narrow(ahead: f64) -> f64 {
    (JITTERED * ahead).max(ALWAYS_NARROW)
}

fn overlaps(announced: &Announced, now: f64, span: &Span) -> bool {
    // Rounding to milliseconds and the network's delay move a deadline by less than this.
    const SLACK: f64 = 0.5;
    announced.start - SLACK <= now + span.to && announced.end + SLACK >= now + span.from
}

/// An announced wave's size now.
fn measure(now: f64, mass: &Mass, view: &View<'_>, announced: &Announced) -> Wave {
    let (from, to) = (announced.start - now, announced.end - now);
    // Room for what rounding did to deadlines that were moved to and fro between two time scales.
    let room = 1e-3 + to * f64::from(f32::EPSILON);
    let inside = within(view.row.parts, from - room, to + room);
    let seen = || inside.iter().filter(|p| p.seen);
    let keys = mass.estimate(seen());
    let (start, length) = densest(inside, 1.0);
    let second = inside.get(start..start + length).unwrap_or_default();
    let peak = mass.estimate(second.iter().filter(|p| p.seen));
    let lookup_share = mass.lookup_share(second.iter().filter(|p| p.seen));
    let group_keys: f64 = view.row.parts.iter().map(Part::keys).sum();
    let ratio = view.row.mean.map_or(0.0, |mean| peak.value / mean.keys);
    Wave {
        group: Arc::clone(&view.name),
        start: announced.start,
        end: announced.end,
        keys,
        peak_keys_per_second: peak,
        group_share: if group_keys > 0.0 { keys.value / group_keys } else { 0.0 },
        space_share: if mass.keys > 0.0 {
            peak.times(1.0 / mass.keys)
        } else {
            Estimate::default()
        },
        lookup_share,
        clustering_ratio: ratio.max(announced.ratio),
        announced: announced.since,
    }
}
