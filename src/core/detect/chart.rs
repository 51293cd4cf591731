//! One source's misses against its own past: the negative-binomial likelihood-ratio chart.
//!
//! At each poll every stretch of the newest polls is tested for more misses than its lookups
//! explain (Willsky and Jones 1976; Lai, J. R. Statist. Soc. B 57, 1995: such a chart is as quick as
//! one that knows the size of the change beforehand). Judging misses given lookups makes load
//! changes of any size invisible to it.

use crate::detect::Thresholds;
use crate::detect::baseline::{Baseline, Fade, Level};
use crate::detect::evidence::Streams;
use crate::detect::ladder::{Ladder, Rung};
use crate::detect::statistic;
use crate::reading::Lookups;

/// Below this share of the line the Gaussian exponent is close enough and costs no logarithm.
const FAR_BELOW: f64 = 0.2;
/// Share of the warm-up that must have been learned from; the rest is held back or was not fit.
pub(crate) const LEARNED_SHARE: f64 = 0.7;
/// Misses from which on the level is known to a sixth or so.
const KNOWN_MISSES: f64 = 50.0;
/// No witness takes the line lower than this, nats.
const LOWEST_LINE: f64 = 5.0;
/// Witnesses are heard over this many seconds: one poll of a second may catch half of a burst.
pub(crate) const WITNESS_SECONDS: f64 = 3.0;
/// The level of the last minute counts while it is no older than this many of its windows.
const LOCAL_FRESH: f64 = 2.5;

/// The chart of one source.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    /// What is normal.
    pub(crate) baseline: Baseline,
    /// What was normal in the last minute, and when that was last learned.
    local: Baseline,
    local_end: f64,
    ladder: Ladder,
    lines: Lines,
    corroborated_lines: Lines,
}

/// What a chart says about now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Assessment {
    /// How much of what a stampede needs is there: evidence and least effect; 1 is the line.
    pub(crate) score: f64,
    /// Evidence over line, whatever the effect, in the stretch that scores highest.
    pub(crate) strength: f64,
    /// The highest evidence over line of any stretch, whatever the effect.
    pub(crate) suspicion: f64,
    /// The stretch that scores highest.
    pub(crate) stretch: Rung,
}

/// What a stretch would have held, had all been normal.
#[derive(Debug, Clone, Copy)]
struct Judged {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Chart {
    /// A chart that knows nothing.
    pub(crate) fn new(thresholds: &Thresholds) -> Chart {
        let baseline = Baseline::new(thresholds);
        Chart {
            baseline,
            local: baseline,
            local_end: f64::NEG_INFINITY,
            ladder: Ladder::new(),
            lines: Lines::new(false, thresholds),
            corroborated_lines: Lines::new(true, thresholds),
        }
    }

    /// Adds what a poll saw.
    pub(crate) fn push(&mut self, poll: Rung) {
        self.ladder.push(poll);
    }

    /// Learns the level of the last minute from a stretch that ended at `end`.
    pub(crate) fn learn_local(
        &mut self,
        lookups: Lookups,
        fade: &Fade,
        end: f64,
        thresholds: &Thresholds,
    ) {
        if end - self.local_end > fade.seconds() + thresholds.local_half_life {
            self.local.forget();
        }
        self.local.learn(lookups, fade, thresholds);
        self.local_end = end;
    }

    /// Starts anew: what led to the last alarm must not lead to another one.
    pub(crate) fn restart(&mut self) {
        self.ladder.clear();
    }

    /// Takes the ratio of the last `seconds` as normal.
    pub(crate) fn accept(&mut self, seconds: f64, thresholds: &Thresholds) {
        let stretch = self.ladder.stretches().take_while(|rung| rung.seconds <= seconds).last();
        if let Some(stretch) = stretch.filter(|stretch| stretch.lookups > 0.0) {
            self.baseline.rebase(stretch.misses / stretch.lookups, thresholds);
        }
    }

    /// Whether it has seen enough to judge by statistics alone.
    pub(crate) fn ready(&self, observed_seconds: f64, thresholds: &Thresholds) -> bool {
        observed_seconds >= thresholds.warm_up
            && self.baseline.seconds >= LEARNED_SHARE * thresholds.warm_up
            && self.baseline.misses.exposure() >= thresholds.warm_up_lookups
    }

    /// Whether its level rests on so many misses that suspicion is more than ignorance.
    pub(crate) fn is_known(&self) -> bool {
        self.baseline.misses.events() >= KNOWN_MISSES
    }

    /// Tests every stretch that ends now. A `corroborated` one needs less.
    pub(crate) fn assess(
        &self,
        corroborated: bool,
        now: f64,
        streams: &Streams,
        thresholds: &Thresholds,
    ) -> Assessment {
        let mut found = Assessment::default();
        let Some(ratio) = self.baseline.miss_ratio() else { return found };
        let lines = if corroborated { &self.corroborated_lines } else { &self.lines };
        let usual = Normal::new(&self.baseline, ratio, thresholds);
        let fresh = now - self.local_end <= LOCAL_FRESH * thresholds.local_window;
        let local = self.local.miss_ratio().filter(|_| fresh);
        // Both are judged on the same side, whichever side the slow level is on.
        let local = local
            .map(|ratio| Normal::new(&self.local, ratio, thresholds))
            .filter(|local| local.high == usual.high);
        let relief = streams.relief();
        for stretch in self.ladder.stretches() {
            if stretch.polls > 1 && stretch.seconds > thresholds.longest_window {
                break;
            }
            if stretch.misses <= ratio * stretch.lookups {
                continue;
            }
            let unspared = relief.unspared(&stretch, ratio);
            let sudden = local.as_ref().filter(|_| stretch.seconds <= thresholds.local_window);
            let least = found.score * lines.lowest;
            if unspared.is_none()
                && usual.below(&stretch, least.min(found.suspicion * lines.lowest))
                && sudden.is_none_or(|local| local.below(&stretch, least))
            {
                continue;
            }
            let mut strength = usual.strength(&stretch, lines);
            found.suspicion = found.suspicion.max(strength);
            if let Some(unspared) = &unspared {
                strength = usual.strength(unspared, lines);
            }
            let judged = unspared.unwrap_or(stretch);
            let excess = judged.misses - ratio * judged.lookups;
            if excess <= 0.0 {
                continue;
            }
            let least = strength.max(found.score);
            let against_local = sudden
                .and_then(|local| strength_against_local(local, &judged, least, lines, thresholds));
            let strength = strength.max(against_local.unwrap_or(0.0));
            if strength > found.score {
                let effect = effect(&judged, &self.baseline, excess, strength, lines, thresholds);
                let score = strength.min(effect);
                if score > found.score {
                    found = Assessment { score, strength, stretch, ..found };
                }
            }
        }
        found
    }

    /// Probability of what the stretch held, or worse, by chance.
    pub(crate) fn p_value(
        &self,
        stretch: &Rung,
        streams: &Streams,
        thresholds: &Thresholds,
    ) -> Option<f64> {
        let ratio = self.baseline.miss_ratio()?;
        let stretch = streams.relief().unspared(stretch, ratio).unwrap_or(*stretch);
        let judged = Normal::new(&self.baseline, ratio, thresholds).judge(&stretch);
        Some(statistic::probability(judged.count, judged.mean, judged.variance))
    }

    /// Misses to be expected among `lookups`, `None` before anything was learned.
    pub(crate) fn expected_misses(&self, lookups: f64) -> Option<f64> {
        self.baseline.miss_ratio().map(|ratio| ratio * lookups)
    }

    /// Whether a stretch is back to normal: less than a part of the least effect above the
    /// baseline, scatter and what was spared the backend aside.
    pub(crate) fn quiet(&self, stretch: &Rung, streams: &Streams, thresholds: &Thresholds) -> bool {
        let Some(ratio) = self.baseline.miss_ratio() else { return true };
        let stretch = streams.relief().unspared(stretch, ratio).unwrap_or(*stretch);
        let total = stretch.lookups;
        let (level, mean, least) = if ratio < thresholds.high_miss_ratio {
            (&self.baseline.misses, ratio * total, needed(ratio, thresholds) * total)
        } else {
            let usual = (1.0 - ratio) * total;
            (&self.baseline.hits, usual, thresholds.hits_lost * usual)
        };
        let scatter = QUIET_DEVIATIONS * level.variance(mean).sqrt();
        stretch.misses - ratio * total <= thresholds.clear_level * least + scatter
    }
}

/// What is normal, on the side on which it is judged. Hits that are missing are misses, and misses
/// have the heavy tail upwards: so lost hits are mirrored to the same side.
#[derive(Debug, Clone, Copy)]
struct Normal<'a> {
    baseline: &'a Baseline,
    level: &'a Level,
    ratio: f64,
    /// Whether lost hits are judged.
    high: bool,
    /// Events to be expected in a lookup.
    per_lookup: f64,
}

impl<'a> Normal<'a> {
    fn new(baseline: &'a Baseline, ratio: f64, thresholds: &Thresholds) -> Normal<'a> {
        let high = ratio >= thresholds.high_miss_ratio;
        let (level, per_lookup) =
            if high { (&baseline.hits, 1.0 - ratio) } else { (&baseline.misses, ratio) };
        Normal { baseline, level, ratio, high, per_lookup }
    }

    fn judge(&self, stretch: &Rung) -> Judged {
        let excess = stretch.misses - self.ratio * stretch.lookups;
        let mean = self.per_lookup * stretch.lookups;
        Judged { count: mean + excess, mean, variance: self.level.variance(mean) }
    }

    /// Whether the evidence is certainly no more than `nats`: the exponent never exceeds that of the
    /// Gaussian, whose tail is lighter.
    fn below(&self, stretch: &Rung, nats: f64) -> bool {
        let excess = stretch.misses - self.ratio * stretch.lookups;
        let variance = self.level.variance(self.per_lookup * stretch.lookups);
        excess <= 0.0 || 0.5 * excess * excess <= nats * variance
    }

    /// Evidence over line.
    fn strength(&self, stretch: &Rung, lines: &Lines) -> f64 {
        let judged = self.judge(stretch);
        let distance = judged.count - judged.mean;
        let gaussian = 0.5 * distance * distance / judged.variance;
        if gaussian < FAR_BELOW * lines.lowest {
            gaussian / lines.lowest
        } else {
            let exponent = statistic::exponent(judged.count, judged.mean, judged.variance);
            exponent / lines.at(stretch.seconds)
        }
    }
}

/// Evidence over line against the last minute, of a stretch that is a stampede against it too;
/// `None` if it is no more than `least`.
fn strength_against_local(
    local: &Normal<'_>,
    stretch: &Rung,
    least: f64,
    lines: &Lines,
    thresholds: &Thresholds,
) -> Option<f64> {
    let excess = stretch.misses - local.ratio * stretch.lookups;
    if excess <= 0.0 {
        return None;
    }
    let strength = local.strength(stretch, lines);
    (strength > least)
        .then(|| strength.min(effect(stretch, local.baseline, excess, strength, lines, thresholds)))
}

/// Scatter that a quiet poll may show, standard deviations.
const QUIET_DEVIATIONS: f64 = 2.0;

/// The evidence that stretches need.
#[derive(Debug, Clone, Copy)]
struct Lines {
    corroborated: bool,
    interval: f64,
    relief: f64,
    lowest: f64,
}

impl Lines {
    fn new(corroborated: bool, thresholds: &Thresholds) -> Lines {
        let relief = if corroborated { thresholds.corroboration } else { 0.0 };
        let interval = thresholds.false_alarm_interval;
        let mut lines = Lines { corroborated, interval, relief, lowest: LOWEST_LINE };
        lines.lowest = lines.at(thresholds.longest_window).min(lines.at(1.0));
        lines
    }

    /// The line of a stretch of `seconds`, nats. A witness speaks for the seconds in which it was
    /// heard; that some witness speaks up by chance within a longer stretch is likelier.
    fn at(&self, seconds: f64) -> f64 {
        let chances = (seconds / WITNESS_SECONDS).max(1.0).ln();
        let relief = (self.relief - chances).max(0.0);
        ((self.interval / seconds).ln() - relief).max(LOWEST_LINE)
    }
}

/// Rise of the miss ratio that a stampede needs at the least.
fn needed(ratio: f64, thresholds: &Thresholds) -> f64 {
    ((thresholds.rise - 1.0) * ratio).max(thresholds.rise_points)
}

/// How much of the least effect is there; 1 is enough.
///
/// What is seen is the effect plus scatter, and of the many stretches in the longest one some show
/// more than there is: the largest of n scatters by about `sqrt(2 ln n)` standard deviations. That
/// comes on top of the least effect, so that a rise just below it stays silent. A witness makes
/// this unnecessary.
fn effect(
    stretch: &Rung,
    baseline: &Baseline,
    excess: f64,
    strength: f64,
    lines: &Lines,
    thresholds: &Thresholds,
) -> f64 {
    let corroborated = lines.corroborated;
    let ratio = baseline.misses.ratio();
    let (least, count, level) = if ratio < thresholds.high_miss_ratio {
        let rise = if corroborated {
            ((thresholds.corroborated_rise - 1.0) * ratio).max(thresholds.corroborated_rise_points)
        } else {
            needed(ratio, thresholds)
        };
        let least = rise * stretch.lookups;
        (least, ratio * stretch.lookups + least, &baseline.misses)
    } else {
        let usual = (1.0 - ratio) * stretch.lookups;
        let least = thresholds.hits_lost * usual;
        (least, usual - least, &baseline.hits)
    };
    let margin = if corroborated || strength < FAR_BELOW {
        0.0
    } else {
        let stretches = (thresholds.longest_window / stretch.seconds).max(1.0);
        (2.0 * stretches.ln() * level.dispersion() * count).sqrt()
    };
    (excess / (least + margin)).min(excess / thresholds.least_excess)
}
