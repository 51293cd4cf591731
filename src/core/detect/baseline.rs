//! What is normal: the level of a count given what it is counted in, its dispersion and its wander.
//!
//! Every average is a sum that fades with its half-life, so it is the plain mean of all there is at
//! first and forgets at the right pace later. Nothing is stored poll by poll.

use crate::detect::Thresholds;
use crate::detect::state::{Learned, Spread};
use crate::detect::statistic::CERTAIN;
use crate::elementary::exp2;
use crate::reading::Lookups;

/// Dispersion that is assumed at first, the middle of what caches show (1.3 to 2).
const DISPERSION_PRIOR: f64 = 1.5;
/// Seconds of polls, or events where they are fewer, that the first assumption counts for.
const DISPERSION_PRIOR_WEIGHT: f64 = 30.0;
/// Events below which a level is remembered for longer: from fewer it is not known to a thirtieth,
/// and its own error would hide a small rise.
const ENOUGH_EVENTS: f64 = 1000.0;
/// How many times longer: with the half-life of ten minutes half an hour, which still follows a day.
const SCARCE_STRETCH: f64 = 3.0;
/// Degrees of freedom of the dispersion before anything about it is forgotten.
const ENOUGH_FREEDOM: f64 = 1000.0;
/// Counts are never steadier than Poisson, and above 60 a cache is beyond statistics.
const DISPERSION_RANGE: (f64, f64) = (1.0, 60.0);
/// Blocks that the first assumption about the wander counts for.
const WANDER_PRIOR_BLOCKS: f64 = 5.0;
/// Degrees of freedom that the first assumption about the wander counts for.
const WANDER_PRIOR_FREEDOM: f64 = 10.0;
/// Below this mean a single event looks like a burst: up to so many events are never cut off.
const NEVER_CUT: f64 = 5.0;
/// Events in a block from which on its own scatter does not hide the wander.
const BLOCK_EVENTS: f64 = 64.0;
/// A block is closed after this many times its least length, however few its events.
const BLOCK_STRETCH: f64 = 8.0;
/// A count of which so little is expected tells nothing about scatter.
const LEAST_MEAN: f64 = 1e-6;
/// No single stretch of learning fades the past by more than one long poll would, seconds.
const LONGEST_FADE: f64 = 60.0;
/// Half an event beyond those seen: never having seen a miss is no proof that there are none.
const UNSEEN: f64 = 0.5;

/// How fast each kind of knowledge fades over one stretch of time; shared by all levels that learn
/// from the same stretch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fade {
    seconds: f64,
    level: f64,
    /// Of a level with few events.
    scarce: f64,
    dispersion: f64,
    /// Seconds in which what is off the level becomes something else.
    wander_time: f64,
}

impl Fade {
    /// The fading over `seconds` of the level of the last minute. That follows the wander, so what is
    /// left of it changes as soon as the level does.
    pub(crate) fn local(seconds: f64, thresholds: &Thresholds) -> Fade {
        let level = exp2(-seconds.min(LONGEST_FADE) / thresholds.local_half_life);
        let Thresholds { local_half_life, local_window, wander_block, .. } = *thresholds;
        let wander_time = local_half_life + local_window + wander_block;
        Fade { level, scarce: level, wander_time, ..Fade::over(seconds, thresholds) }
    }

    /// The fading over `seconds`.
    pub(crate) fn over(seconds: f64, thresholds: &Thresholds) -> Fade {
        let faded = seconds.min(LONGEST_FADE);
        Fade {
            seconds,
            level: exp2(-faded / thresholds.half_life),
            scarce: exp2(-faded / (thresholds.half_life * SCARCE_STRETCH)),
            dispersion: exp2(-faded / thresholds.dispersion_half_life),
            wander_time: thresholds.wander_time,
        }
    }

    /// This one again if it is over the same time, since most polls are alike.
    pub(crate) fn reused(
        &mut self,
        seconds: f64,
        make: impl FnOnce(f64, &Thresholds) -> Fade,
        thresholds: &Thresholds,
    ) -> Fade {
        if self.seconds != seconds {
            *self = make(seconds, thresholds);
        }
        *self
    }

    /// What is left of the knowledge of a level.
    pub(crate) fn level(&self) -> f64 {
        self.level
    }

    /// Seconds it spans.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds
    }
}

/// What is normal for one count, given its exposure (misses given lookups, say).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Level {
    events: f64,
    exposure: f64,
    squares: f64,
    square_weight: f64,
    square_freedom: f64,
    blocks: f64,
    block_weight: f64,
    block_seconds: f64,
    block: Block,
    /// How far off the last stretch was, and its mean.
    last: Option<(f64, f64)>,
    dispersion: f64,
    doubt: f64,
    doubted_dispersion: f64,
    wander: f64,
    wander_freedom: f64,
    relative_variance: f64,
}

/// How a count scatters about its expectation, and how well that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scatter {
    pub(crate) variance: f64,
    /// Degrees of freedom of the variance: independent measurements that it rests on.
    pub(crate) freedom: f64,
}

/// The block that is being filled for the wander.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    seconds: f64,
    events: f64,
    mean: f64,
}

impl Level {
    /// Nothing known but the first assumptions.
    pub(crate) fn new(thresholds: &Thresholds) -> Level {
        let mut level = Level::default();
        level.refresh(thresholds);
        level
    }

    /// Learns that `events` came with `exposure`; what is beyond the usual scatter counts as its
    /// edge.
    pub(crate) fn learn(
        &mut self,
        events: f64,
        exposure: f64,
        fade: &Fade,
        thresholds: &Thresholds,
    ) {
        if exposure <= 0.0 {
            return;
        }
        let mut seen = events;
        if self.exposure > 0.0 {
            let mean = self.mean(exposure);
            let (off, variance) = (events - mean, self.variance(mean));
            if off.abs() > NEVER_CUT && off * off > thresholds.winsorise.powi(2) * variance {
                let reach = (thresholds.winsorise * variance.sqrt()).max(NEVER_CUT);
                seen = (mean + reach.copysign(off)).max(0.0);
            }
            self.learn_scatter(seen, mean, fade, thresholds);
        }
        let kept = if self.events > ENOUGH_EVENTS { fade.level } else { fade.scarce };
        self.events = self.events * kept + seen;
        self.exposure = self.exposure * kept + exposure;
        self.relative_variance = self.relative();
    }

    /// Events to be expected with `exposure`; 0 when nothing was learned.
    pub(crate) fn mean(&self, exposure: f64) -> f64 {
        self.ratio() * exposure
    }

    /// Events per exposure; 0 when nothing was learned.
    pub(crate) fn ratio(&self) -> f64 {
        if self.exposure > 0.0 {
            (self.events + UNSEEN) / (self.exposure + 2.0 * UNSEEN)
        } else {
            0.0
        }
    }

    /// Variance of a count whose expectation is `mean`.
    pub(crate) fn variance(&self, mean: f64) -> f64 {
        self.doubted_dispersion * mean + self.relative_variance * mean * mean
    }

    /// Scatter of a count whose expectation is `mean`, above 0.
    pub(crate) fn scatter(&self, mean: f64) -> Scatter {
        let wander = self.wander * mean * mean;
        self.scatter_of(mean, self.relative_variance * mean * mean - wander, wander)
    }

    /// Scatter of a count with `exposure` whose expectation is put at `mean`, above 0, however
    /// little was seen. Having seen nothing in a long time is knowing well that there is no more
    /// than that, and a level that is put higher than it is wanders no further than before.
    pub(crate) fn scatter_at_least(&self, mean: f64, exposure: f64) -> Scatter {
        let own = self.mean(exposure);
        if mean <= own {
            return self.scatter(mean);
        }
        let events = mean / exposure * self.exposure;
        let unsure = self.dispersion / (events + UNSEEN) * mean * mean;
        self.scatter_of(mean, unsure, self.wander * own * own)
    }

    /// Of the parts of the variance the wander is the one that is hardly known; the sum has the
    /// freedom that Satterthwaite (Biometrics Bulletin 2, 1946) gives it.
    fn scatter_of(&self, mean: f64, unsure: f64, wander: f64) -> Scatter {
        let variance = self.doubted_dispersion * mean + unsure + wander;
        let share = wander / variance;
        Scatter { variance, freedom: (self.wander_freedom / (share * share)).min(CERTAIN) }
    }

    /// Variance over mean from poll to poll.
    pub(crate) fn dispersion(&self) -> f64 {
        self.dispersion
    }

    /// Exposure that was learned from, faded.
    pub(crate) fn exposure(&self) -> f64 {
        self.exposure
    }

    /// Variance of what is expected, relative to its square: the wander, and the uncertainty of the
    /// level.
    pub(crate) fn relative_variance(&self) -> f64 {
        self.relative_variance
    }

    /// Events that were learned from, faded.
    pub(crate) fn events(&self) -> f64 {
        self.events
    }

    /// Forgets the level and keeps its scatter.
    pub(crate) fn forget(&mut self) {
        (self.events, self.exposure, self.last) = (0.0, 0.0, None);
        self.block = Block::default();
    }

    /// Takes `ratio` as the new level at once, and is less sure of it than of the old one.
    pub(crate) fn rebase(&mut self, ratio: f64) {
        self.exposure *= REBASE_TRUST;
        self.events = ratio * self.exposure;
        self.block = Block::default();
        self.relative_variance = self.relative();
    }

    /// The dispersion is taken from one stretch to the next, where wander cancels; what is left over
    /// in whole blocks is the wander.
    fn learn_scatter(&mut self, seen: f64, mean: f64, fade: &Fade, thresholds: &Thresholds) {
        if mean < LEAST_MEAN {
            return;
        }
        let off = seen - mean;
        if let Some((last_off, last_mean)) = self.last {
            let both = mean + last_mean;
            let square = (off - last_off) * (off - last_off) / both;
            // A second in which hardly anything was expected tells hardly anything.
            let weight = both / (both + 1.0) * fade.seconds.min(LONGEST_FADE);
            let kept = if self.square_freedom > ENOUGH_FREEDOM { fade.dispersion } else { 1.0 };
            self.squares = self.squares * kept + square * weight;
            self.square_weight = self.square_weight * kept + weight;
            // The fewer are expected, the heavier the tail and the less a square tells.
            let heavy = 6.0 * self.dispersion - 4.0;
            self.square_freedom = self.square_freedom * kept + both / (both + heavy);
            self.dispersion = self.current_dispersion();
            self.doubted_dispersion = self.dispersion * self.doubt;
        }
        self.last = Some((off, mean));
        self.block.seconds += fade.seconds;
        self.block.events += seen;
        self.block.mean += mean;
        let length = thresholds.wander_block;
        let full = self.block.mean >= BLOCK_EVENTS || self.block.seconds >= length * BLOCK_STRETCH;
        if self.block.seconds >= length && full {
            self.close_block(fade.wander_time, thresholds);
        }
    }

    fn close_block(&mut self, wander_time: f64, thresholds: &Thresholds) {
        let Block { seconds, events, mean } = std::mem::take(&mut self.block);
        let own = self.dispersion / mean;
        let wander = ((events - mean) / mean).powi(2) - own;
        let prior = thresholds.wander_prior.powi(2).max(f64::MIN_POSITIVE);
        let weight = (prior / (own + prior)).powi(2);
        let fade = exp2(-seconds / thresholds.wander_half_life);
        self.blocks = self.blocks * fade + weight * wander;
        self.block_weight = self.block_weight * fade + weight;
        self.block_seconds = self.block_seconds * fade + weight * seconds;
        self.refresh_wander(wander_time, thresholds);
        self.doubt = self.current_doubt();
    }

    fn current_dispersion(&self) -> f64 {
        let prior = DISPERSION_PRIOR * DISPERSION_PRIOR_WEIGHT;
        let seen = (prior + self.squares) / (DISPERSION_PRIOR_WEIGHT + self.square_weight);
        seen.clamp(DISPERSION_RANGE.0, DISPERSION_RANGE.1)
    }

    /// Factor that the dispersion may be higher by than it was measured, two standard errors. Of
    /// small counts it decides how many are too many, more than anything else does.
    fn current_doubt(&self) -> f64 {
        1.0 + 2.0 * (2.0 / (DISPERSION_PRIOR_WEIGHT + self.square_freedom)).sqrt()
    }

    /// A level that follows the wander is off only by what the ratio wanders while it lags behind. The
    /// first assumption counts as measured while it has a say: minutes of blocks are one measurement.
    fn refresh_wander(&mut self, wander_time: f64, thresholds: &Thresholds) {
        let share = (wander_time / thresholds.wander_time).min(1.0);
        let assumed = |wander: f64| share * wander * wander;
        let blocks = WANDER_PRIOR_BLOCKS + self.block_weight;
        let seen = (WANDER_PRIOR_BLOCKS * assumed(thresholds.wander_prior) + self.blocks) / blocks;
        let lowest = assumed(thresholds.wander_lowest);
        self.wander = seen.clamp(lowest, thresholds.wander_highest.powi(2).max(lowest));
        self.wander_freedom =
            WANDER_PRIOR_FREEDOM * WANDER_PRIOR_BLOCKS / blocks + self.block_seconds / wander_time;
    }

    /// Variance relative to the square of the mean: the wander, and the uncertainty of the level.
    fn relative(&self) -> f64 {
        self.wander + self.dispersion / (self.events + UNSEEN)
    }

    fn refresh(&mut self, thresholds: &Thresholds) {
        self.dispersion = self.current_dispersion();
        self.doubt = self.current_doubt();
        self.doubted_dispersion = self.dispersion * self.doubt;
        self.refresh_wander(thresholds.wander_time, thresholds);
        self.relative_variance = self.relative();
    }

    fn spread(&self) -> Spread {
        Spread { dispersion: self.dispersion, wander: self.wander }
    }

    fn restored(events: f64, exposure: f64, spread: Spread, thresholds: &Thresholds) -> Level {
        let dispersion = fit(spread.dispersion).unwrap_or(DISPERSION_PRIOR);
        let weight = thresholds.dispersion_half_life;
        let wander = fit(spread.wander).unwrap_or(thresholds.wander_prior.powi(2));
        let blocks = thresholds.wander_half_life / thresholds.wander_block;
        let mut level = Level {
            events,
            exposure,
            squares: dispersion * weight,
            square_weight: weight,
            square_freedom: weight,
            blocks: wander * blocks,
            block_weight: blocks,
            block_seconds: thresholds.wander_half_life,
            ..Level::default()
        };
        level.refresh(thresholds);
        level
    }
}

/// Hits are judged from `high_miss_ratio` on, and so learned from this part of it on.
const HITS_FROM: f64 = 0.5;
/// What is left of the trust in a level that was taken over at once.
const REBASE_TRUST: f64 = 0.25;

/// What is normal for the lookups of one source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Baseline {
    /// Misses given lookups.
    pub(crate) misses: Level,
    /// Hits given lookups, learned where lost hits may have to be judged.
    pub(crate) hits: Level,
    /// Seconds of learning so far.
    pub(crate) seconds: f64,
}

impl Baseline {
    /// Nothing known.
    pub(crate) fn new(thresholds: &Thresholds) -> Baseline {
        let level = Level::new(thresholds);
        Baseline { misses: level, hits: level, seconds: 0.0 }
    }

    /// Learns one stretch of time.
    pub(crate) fn learn(&mut self, lookups: Lookups, fade: &Fade, thresholds: &Thresholds) {
        let total = lookups.total();
        self.misses.learn(lookups.misses, total, fade, thresholds);
        if self.misses.ratio() >= HITS_FROM * thresholds.high_miss_ratio {
            self.hits.learn(lookups.hits, total, fade, thresholds);
        }
        self.seconds += fade.seconds;
    }

    /// The normal miss ratio, `None` before anything was learned.
    pub(crate) fn miss_ratio(&self) -> Option<f64> {
        (self.misses.exposure > 0.0).then(|| self.misses.ratio())
    }

    /// Forgets the level and keeps its scatter.
    pub(crate) fn forget(&mut self) {
        self.misses.forget();
        self.hits.forget();
    }

    /// Takes a miss ratio as the new normal at once.
    pub(crate) fn rebase(&mut self, miss_ratio: f64) {
        self.misses.rebase(miss_ratio);
        self.hits.rebase(1.0 - miss_ratio);
    }

    /// What has been learned, `None` before anything was.
    pub(crate) fn learned(&self) -> Option<Learned> {
        Some(Learned {
            seconds: self.seconds,
            miss_ratio: self.miss_ratio()?,
            lookups: self.misses.exposure,
            misses: self.misses.spread(),
            hits: self.hits.spread(),
        })
    }

    /// A baseline that knows what another one had learned `ago` seconds ago. `None` when the values
    /// cannot be what one has learned.
    pub(crate) fn restored(
        learned: &Learned,
        ago: f64,
        thresholds: &Thresholds,
    ) -> Option<Baseline> {
        let ratio = fit(learned.miss_ratio).filter(|ratio| *ratio <= 1.0)?;
        let lookups = fit(learned.lookups)? * exp2(-ago.max(0.0) / thresholds.half_life);
        let level = |ratio: f64, spread| {
            let events = (ratio * (lookups + 2.0 * UNSEEN) - UNSEEN).max(0.0);
            Level::restored(events, lookups, spread, thresholds)
        };
        Some(Baseline {
            misses: level(ratio, learned.misses),
            hits: level(1.0 - ratio, learned.hits),
            seconds: fit(learned.seconds)?,
        })
    }
}

fn fit(value: f64) -> Option<f64> {
    (value.is_finite() && value >= 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A level that learned a second each of these misses in a thousand lookups.
    fn learned(misses: impl IntoIterator<Item = f64>) -> Level {
        let thresholds = Thresholds::default();
        let fade = Fade::over(1.0, &thresholds);
        let mut level = Level::new(&thresholds);
        for misses in misses {
            level.learn(misses, 1000.0, &fade, &thresholds);
        }
        level
    }

    #[test]
    fn a_steady_ratio_is_learned_and_is_no_steadier_than_poisson() {
        let level = learned((0..1200).map(|_| 30.0));
        assert!((level.ratio() - 0.03).abs() < 1e-4);
        assert_eq!(level.dispersion(), 1.0);
    }

    #[test]
    fn dispersion_is_the_squared_step_over_both_means() {
        // From 20 to 40 and back: 20^2 / 60.
        let level =
            learned((0..3000_u32).map(|second| if second.is_multiple_of(2) { 20.0 } else { 40.0 }));
        assert!((6.0..7.0).contains(&level.dispersion()), "{}", level.dispersion());
    }

    #[test]
    fn slow_swings_are_wander_and_not_dispersion() {
        // A third up and down, for a minute each: one ninth.
        let swing = |second: u32| if (second / 60).is_multiple_of(2) { 20.0 } else { 40.0 };
        let level = learned((0..6000).map(swing));
        assert!((0.08..0.13).contains(&level.wander), "{}", level.wander);
        assert!(level.dispersion() < 1.5, "{}", level.dispersion());
    }

    #[test]
    fn the_first_assumption_about_the_wander_loses_its_say() {
        let level = |seconds: u32| learned((0..seconds).map(|_| 30.0));
        assert_eq!(level(1).wander_freedom, WANDER_PRIOR_FREEDOM);
        // Ten minutes are thirty-odd blocks, but three times that the ratio wanders elsewhere.
        let freedom = level(600).wander_freedom;
        assert!((3.0..5.0).contains(&freedom), "{freedom}");
        assert!(level(6000).wander_freedom > WANDER_PRIOR_FREEDOM);
    }

    #[test]
    fn a_level_that_follows_is_assumed_to_be_off_by_less() {
        let thresholds = Thresholds::default();
        let mut level = Level::new(&thresholds);
        let fade = Fade::local(1.0, &thresholds);
        for _ in 0..17 {
            level.learn(30.0, 1000.0, &fade, &thresholds);
        }
        let usual = learned((0..17).map(|_| 30.0)).wander;
        assert!(level.wander < 0.5 * usual, "{} {usual}", level.wander);
    }

    #[test]
    fn a_level_put_higher_wanders_as_far_as_it_did() {
        let level =
            learned((0..2400_u32).map(|s| if (s / 60).is_multiple_of(2) { 20.0 } else { 40.0 }));
        let at = |mean: f64| level.scatter_at_least(mean, 1000.0).variance;
        let beyond_counts = |mean: f64| at(mean) - level.doubted_dispersion * mean;
        assert!(beyond_counts(300.0) < 1.5 * beyond_counts(level.mean(1000.0)));
    }

    #[test]
    fn without_wander_the_variance_is_certain() {
        let thresholds =
            Thresholds { wander_lowest: 0.0, wander_prior: 0.0, ..Thresholds::default() };
        let level = Level::new(&thresholds);
        assert_eq!(level.scatter(10.0).freedom, CERTAIN);
    }

    #[test]
    fn a_burst_moves_the_level_no_further_than_a_bad_poll() {
        let calm = learned((0..600).map(|_| 30.0));
        let burst = learned((0..600).map(|_| 30.0).chain([900.0]));
        assert!(burst.ratio() > calm.ratio() && burst.ratio() < 1.01 * calm.ratio());
    }

    #[test]
    fn no_lookups_teach_nothing() {
        let thresholds = Thresholds::default();
        let mut level = Level::new(&thresholds);
        level.learn(0.0, 0.0, &Fade::over(1.0, &thresholds), &thresholds);
        assert_eq!((level.mean(100.0), level.exposure()), (0.0, 0.0));
    }

    #[test]
    fn what_was_learned_comes_back_and_fades_while_away() {
        let thresholds = Thresholds::default();
        let mut baseline = Baseline::new(&thresholds);
        let fade = Fade::over(1.0, &thresholds);
        for _ in 0..600 {
            baseline.learn(Lookups { hits: 970.0, misses: 30.0 }, &fade, &thresholds);
        }
        let learned = baseline.learned().unwrap();
        let back = Baseline::restored(&learned, thresholds.half_life, &thresholds).unwrap();
        assert!((back.miss_ratio().unwrap() - 0.03).abs() < 1e-4);
        let trust = back.misses.exposure() / baseline.misses.exposure();
        assert!((trust - 0.5).abs() < 1e-9, "{trust}");
        assert_eq!(
            Baseline::restored(&Learned { miss_ratio: 1.5, ..learned }, 0.0, &thresholds)
                .map(|_| ()),
            None
        );
    }
}
