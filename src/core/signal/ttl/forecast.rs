//! From parts of the key space to rates: the mean, the highest second, what is due now.
//!
//! Outside waves everything is smoothed over enough sampled keys to be more than noise; inside one,
//! single seconds count.

use super::mass::{Mass, Part};
use super::wave;
use super::{Forecast, Wave};

/// What is due now counts at most as this many times the mean outside waves: it is uneven, and no
/// evidence that something breaks. It stays clear of the line from which on the detector takes it
/// for a wave, 1.5 by default: at the line, every stampede of an uneven cache would be one.
const CALM: f64 = 1.25;

/// The shortest horizon for the mean rate, seconds; a space that runs out sooner is one wave.
const MIN_HORIZON: f64 = 10.0;

/// Outside waves, density is taken over stretches that hold about this many sampled keys, for a
/// standard error of a sixth: a stretch of an even space looks twice as dense in no day.
const SMOOTH_KEYS: f64 = 32.0;

/// Parts sorted by what is left, with their mean rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) parts: &'a [Part],
    /// `None` where no key has a deadline.
    pub(super) mean: Option<MeanRate>,
}

impl<'a> Row<'a> {
    pub(super) fn of(parts: &'a [Part]) -> Row<'a> {
        Row { parts, mean: mean_rate(parts) }
    }

    /// What is even about it: see [`Even`].
    pub(super) fn even(&self) -> Option<Even> {
        let mean = self.mean?;
        let all = self.parts.last().map_or(MIN_HORIZON, |p| p.left().max(MIN_HORIZON));
        let width = (SMOOTH_KEYS / mean.sampled.max(f64::MIN_POSITIVE)).clamp(1.0, all);
        Some(Even { keys: mean.keys, width })
    }
}

/// How fast keys run out where they do so evenly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Even {
    /// The mean rate, keys of the space a second.
    keys: f64,
    /// The stretch over which density is taken, seconds: shorter than all there is.
    pub(super) width: f64,
}

impl Even {
    /// Keys due in the coming second over the mean rate, when so many are due within the width.
    pub(super) fn due_ratio(self, now: f64, keys: f64, waves: &[Wave]) -> f64 {
        let breaking = waves.iter().filter(|w| w.start <= now + 1.0 && w.end >= now);
        let calm = (keys / self.width / self.keys).min(CALM);
        breaking.map(|w| w.clustering_ratio).fold(calm, f64::max)
    }
}

/// The highest second ahead: a wave's if there is one, or else the densest stretch that is long
/// enough to hold more than noise.
pub(super) fn forecast(now: f64, mass: &Mass, row: Row<'_>, waves: &[Wave]) -> Forecast {
    let Some(Even { keys: mean, width }) = row.even() else { return Forecast::default() };
    let parts = row.parts;
    let (start, length) = densest(parts, width);
    let stretch = parts.get(start..start + length).unwrap_or_default();
    let calm = mass.estimate(stretch.iter()).times(1.0 / width);
    let calm_in = stretch.first().map(|p| p.left());
    // With many sampled keys the stretch is as short as a wave, and may be that wave.
    let is_in = |wave: &Wave| {
        stretch.first().is_some_and(|p| now + p.left() <= wave.end)
            && stretch.last().is_some_and(|p| now + p.left() >= wave.start)
    };
    let highest = waves
        .iter()
        .filter(|w| w.end > now)
        .max_by(|a, b| a.peak_keys_per_second.value.total_cmp(&b.peak_keys_per_second.value));
    let (peak, peak_in, ratio) = match highest {
        Some(wave) if wave.peak_keys_per_second.value > calm.value || is_in(wave) => {
            let starts_in = Some((wave.start - now).max(0.0));
            (wave.peak_keys_per_second, starts_in, wave.clustering_ratio)
        }
        _ => (calm, calm_in, calm.value / mean),
    };
    Forecast {
        peak_keys_per_second: Some(peak.value),
        peak_interval: Some((peak.low, peak.high)),
        peak_in,
        clustering_ratio: Some(ratio),
    }
}

/// Keys of the smallest wave of one second that is seen in 9 of 10 cases.
pub(super) fn smallest_wave(mass: &Mass, row: Row<'_>, level: f64) -> Option<f64> {
    let mean = row.mean?;
    let seen = row.parts.iter().filter(|p| p.seen);
    let (count, keys) = seen.fold((0.0, 0.0), |(n, keys), part| (n + 1.0, keys + part.keys()));
    let needed = wave::smallest_count(count, mean.sampled, level);
    (count > 0.0).then(|| needed * keys / count).filter(|keys| *keys < mass.volatile)
}

/// How fast keys run out on average.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeanRate {
    /// Keys of the space a second.
    pub(super) keys: f64,
    /// Sampled keys a second.
    pub(super) sampled: f64,
}

/// The mean rate: the highest that any horizon from now on shows. Keys with a short TTL come due
/// again and again, which the deadlines that they have now do not show: over a long horizon they
/// would thin out the mean, and every even space would look clustered.
fn mean_rate(parts: &[Part]) -> Option<MeanRate> {
    let (mut keys, mut sampled) = (0.0, 0.0);
    let mut highest: Option<MeanRate> = None;
    for (place, part) in parts.iter().enumerate() {
        keys += part.keys();
        sampled += f64::from(u8::from(part.seen));
        // A mean over fewer keys is noise, unless there are no more.
        if sampled < SMOOTH_KEYS && place + 1 < parts.len() {
            continue;
        }
        let horizon = part.left().max(MIN_HORIZON);
        if highest.is_none_or(|h| keys > h.keys * horizon) {
            highest = Some(MeanRate { keys: keys / horizon, sampled: sampled / horizon });
        }
    }
    highest.filter(|rate| rate.keys > 0.0)
}

/// The parts between two remaining TTLs, both included.
pub(super) fn within(parts: &[Part], from: f64, to: f64) -> &[Part] {
    let first = parts.partition_point(|p| p.left() < from);
    let end = parts.partition_point(|p| p.left() <= to);
    parts.get(first..end).unwrap_or_default()
}

/// First place and length of the stretch of this width that holds most keys.
pub(super) fn densest(parts: &[Part], width: f64) -> (usize, usize) {
    let (mut first, mut keys) = (0, 0.0);
    let mut best = (0, 0, 0.0);
    for (place, part) in parts.iter().enumerate() {
        keys += part.keys();
        while let Some(oldest) = parts.get(first).filter(|p| part.left() - p.left() > width) {
            keys -= oldest.keys();
            first += 1;
        }
        if keys > best.2 {
            best = (first, place + 1 - first, keys);
        }
    }
    (best.0, best.1)
}
