//! One source's misses against its own past: the negative-binomial likelihood-ratio chart.
//!
//! At each poll every stretch of the newest polls is tested for more misses than its lookups
//! explain (Willsky and Jones 1976; Lai, J. R. Statist. Soc. B 57, 1995: such a chart is as quick as
//! one that knows the size of the change beforehand). Judging misses given lookups makes load
//! changes of any size invisible to it.

use crate::detect::Thresholds;
use crate::detect::baseline::{Baseline, Fade, Level, Scatter};
use crate::detect::evidence::Streams;
use crate::detect::ladder::{Ladder, Rung};
use crate::detect::statistic::{self, CERTAIN};
use crate::elementary::ln;
use crate::reading::Lookups;

/// Below this share of the line the Gaussian exponent is close enough and costs no logarithm.
const FAR_BELOW: f64 = 0.3;
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
    /// Whether the evidence in some stretch, whatever the effect, is reason not to learn from it.
    pub(crate) suspicious: bool,
    /// The stretch that scores highest.
    pub(crate) stretch: Rung,
}

/// What a stretch would have held, had all been normal.
#[derive(Debug, Clone, Copy)]
struct Judged {
    count: f64,
    mean: f64,
    scatter: Scatter,
}

impl Chart {
    /// A chart that knows nothing.
    pub(crate) fn new(thresholds: &Thresholds) -> Chart {
        let baseline = Baseline::new(thresholds);
        Chart {
            baseline,
            local: baseline,
            local_end: f64::NEG_INFINITY,
            ladder: Ladder::default(),
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
    pub(crate) fn accept(&mut self, seconds: f64) {
        let stretch = self.ladder.stretches().take_while(|rung| rung.seconds <= seconds).last();
        if let Some(stretch) = stretch.filter(|stretch| stretch.lookups > 0.0) {
            self.baseline.rebase(stretch.misses / stretch.lookups);
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
        let usual = Normal::new(&self.baseline, ratio, corroborated, thresholds);
        let fresh = now - self.local_end <= LOCAL_FRESH * thresholds.local_window;
        let local = self.local.miss_ratio().filter(|_| fresh);
        // Both are judged on the same side, whichever side the slow level is on. Of few misses the
        // last minute knows less than the last half-hour, and a second guess only adds false alarms.
        let local = local
            .map(|ratio| Normal::new(&self.local, ratio, corroborated, thresholds))
            .filter(|local| local.high == usual.high && local.is_surer_than(&usual))
            .map(|local| local.no_steadier_than(&usual));
        let relief = streams.relief();
        for stretch in self.ladder.stretches() {
            if stretch.polls > 1 && stretch.seconds > thresholds.longest_window {
                break;
            }
            let excess = usual.excess(&stretch);
            if excess <= 0.0 {
                continue;
            }
            let unspared = relief.unspared(&stretch, ratio);
            let recent = stretch.polls == 1 || stretch.seconds <= thresholds.local_window;
            let sudden = local.as_ref().filter(|_| recent);
            if unspared.is_none() {
                // Most stretches change nothing, and that takes no logarithm to see.
                let least = found.score * lines.lowest;
                let scores_less = excess <= found.score * usual.least(&stretch, thresholds)
                    || (usual.below(&stretch, least)
                        && sudden.is_none_or(|local| local.below(&stretch, least)));
                let innocent =
                    found.suspicious || usual.below(&stretch, thresholds.suspicion * lines.lowest);
                if scores_less && innocent {
                    continue;
                }
            }
            let mut strength = usual.strength(&stretch, lines);
            found.suspicious |= strength >= thresholds.suspicion;
            if let Some(unspared) = &unspared {
                strength = usual.strength(unspared, lines);
            }
            let judged = unspared.unwrap_or(stretch);
            if usual.excess(&judged) <= 0.0 {
                continue;
            }
            let least = strength.max(found.score);
            let against_local = sudden.and_then(|local| {
                let strength = local.strength(&judged, lines);
                let stronger = local.excess(&judged) > 0.0 && strength > least;
                stronger.then(|| strength.min(local.effect(&judged, strength, lines, thresholds)))
            });
            let strength = strength.max(against_local.unwrap_or(0.0));
            if strength > found.score {
                let score = strength.min(usual.effect(&judged, strength, lines, thresholds));
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
        let judged = Normal::new(&self.baseline, ratio, false, thresholds).judge(&stretch);
        Some(statistic::probability(judged.count, judged.mean, judged.scatter.variance))
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
        let usual = Normal::new(&self.baseline, ratio, false, thresholds);
        let scatter = QUIET_DEVIATIONS * usual.judge(&stretch).scatter.variance.sqrt();
        let least = usual.least_rise * stretch.lookups;
        usual.excess(&stretch) <= thresholds.clear_level * least + scatter
    }
}

/// What is normal, on the side on which it is judged. Hits that are missing are misses, and misses
/// have the heavy tail upwards: so lost hits are counted as misses that scatter as the hits do.
#[derive(Debug, Clone, Copy)]
struct Normal<'a> {
    level: &'a Level,
    ratio: f64,
    /// Whether lost hits are judged.
    high: bool,
    /// Events to be expected in a lookup.
    per_lookup: f64,
    /// Events in a lookup whose scatter is assumed.
    scattering: f64,
    /// Misses beyond the usual ones, in a lookup, without which nothing is a stampede.
    least_rise: f64,
}

impl<'a> Normal<'a> {
    fn new(
        baseline: &'a Baseline,
        ratio: f64,
        corroborated: bool,
        thresholds: &Thresholds,
    ) -> Normal<'a> {
        let high = ratio >= thresholds.high_miss_ratio;
        let (level, per_lookup) =
            if high { (&baseline.hits, 1.0 - ratio) } else { (&baseline.misses, ratio) };
        let (rise, points) = if corroborated {
            (thresholds.corroborated_rise, thresholds.corroborated_rise_points)
        } else {
            (thresholds.rise, thresholds.rise_points)
        };
        let rise = ((rise - 1.0) * ratio).max(points);
        let least_rise = rise.min(thresholds.hits_lost * (1.0 - ratio));
        Normal { level, ratio, high, per_lookup, scattering: per_lookup, least_rise }
    }

    /// Whether it is the better guide to what comes next.
    fn is_surer_than(&self, other: &Normal<'_>) -> bool {
        self.level.relative_variance() < other.level.relative_variance()
    }

    /// The same where hits scatter as those of `other` do if these are fewer: it is the misses that
    /// make them scatter, and those are more.
    fn no_steadier_than(self, other: &Normal<'_>) -> Normal<'a> {
        let scattering =
            if self.high { self.scattering.max(other.per_lookup) } else { self.scattering };
        Normal { scattering, ..self }
    }

    /// Misses beyond the usual ones.
    fn excess(&self, stretch: &Rung) -> f64 {
        stretch.misses - self.ratio * stretch.lookups
    }

    /// The excess without which nothing is a stampede.
    fn least(&self, stretch: &Rung, thresholds: &Thresholds) -> f64 {
        (self.least_rise * stretch.lookups).max(thresholds.least_excess)
    }

    fn judge(&self, stretch: &Rung) -> Judged {
        let scatter = self.level.scatter(self.scattering * stretch.lookups);
        let misses = self.ratio * stretch.lookups;
        // Where nearly all lookups miss they are steadier than any count without a limit.
        let mean = if self.high { misses.min(scatter.variance) } else { misses };
        Judged { count: mean + self.excess(stretch), mean, scatter }
    }

    /// Whether the evidence is certainly no more than `nats`: the exponent never exceeds that of the
    /// Gaussian, whose tail is lighter.
    fn below(&self, stretch: &Rung, nats: f64) -> bool {
        let excess = self.excess(stretch);
        let variance = self.level.variance(self.scattering * stretch.lookups);
        excess <= 0.0 || 0.5 * excess * excess <= nats * variance
    }

    /// Evidence over line.
    fn strength(&self, stretch: &Rung, lines: &Lines) -> f64 {
        let Judged { count, mean, scatter } = self.judge(stretch);
        let gaussian = 0.5 * (count - mean) * (count - mean) / scatter.variance;
        if gaussian < FAR_BELOW * lines.lowest {
            gaussian / lines.lowest
        } else {
            let exponent = statistic::exponent(count, mean, scatter.variance);
            let usual = self.ratio * stretch.lookups;
            exponent / lines.at(stretch.seconds, usual, scatter.freedom)
        }
    }

    /// How much of the least effect is there; 1 is enough.
    ///
    /// What is seen is the effect plus scatter, and of the many stretches in the longest one some
    /// show more than there is: by as much as the largest of so many scatters. That comes on top of the
    /// least effect, so that a rise just below it stays silent. A witness makes this unnecessary.
    fn effect(&self, stretch: &Rung, strength: f64, lines: &Lines, thresholds: &Thresholds) -> f64 {
        let excess = self.excess(stretch);
        let least = self.least_rise * stretch.lookups;
        let margin = if lines.corroborated || strength < FAR_BELOW {
            0.0
        } else {
            let usual = self.per_lookup * stretch.lookups;
            let count = if self.high { usual - least } else { usual + least };
            let stretches = (thresholds.longest_window / stretch.seconds).max(1.0);
            largest_of(stretches) * (self.level.dispersion() * count).sqrt()
        };
        (excess / (least + margin)).min(excess / thresholds.least_excess)
    }
}

/// The largest of so many normal deviates, as it mostly is (Cramér, Mathematical Methods of Statistics,
/// 1946, 28.6): `sqrt(2 ln n)` alone is half a deviation more. One by itself is as often below 0.
fn largest_of(count: f64) -> f64 {
    if count < 2.0 {
        return 0.0;
    }
    let first = (2.0 * ln(count)).sqrt();
    first - (ln(ln(count)) + ln(4.0 * std::f64::consts::PI)) / (2.0 * first)
}

/// Scatter that a quiet poll may show, standard deviations.
const QUIET_DEVIATIONS: f64 = 2.0;

/// By which power of its length a stretch is held to fewer false alarms than the longest one.
const SHORTER_RARER: f64 = 0.75;
/// The longest stretch over the one below which that goes no further. False alarms of calm caches come
/// from longer stretches alone, and a burst of a second has nothing else to be seen in.
const SHORTEST: f64 = 16.0;

/// The evidence that stretches need.
#[derive(Debug, Clone, Copy)]
struct Lines {
    corroborated: bool,
    interval: f64,
    longest: f64,
    relief: f64,
    lowest: f64,
    scarce: f64,
}

impl Lines {
    fn new(corroborated: bool, thresholds: &Thresholds) -> Lines {
        let relief = if corroborated { thresholds.corroboration } else { 0.0 };
        let interval = thresholds.false_alarm_interval;
        let longest = thresholds.longest_window;
        let scarce = thresholds.scarce_misses;
        let mut lines =
            Lines { corroborated, interval, longest, relief, lowest: LOWEST_LINE, scarce };
        lines.lowest = [1.0, thresholds.longest_window]
            .map(|seconds| lines.at(seconds, f64::INFINITY, CERTAIN))
            .into_iter()
            .fold(f64::INFINITY, f64::min);
        lines
    }

    /// The exponent that a stretch of `seconds` needs in which `usual` misses are to be expected. A
    /// witness speaks for the seconds in which it was heard; that some witness speaks up by chance
    /// within a longer stretch is likelier.
    fn at(&self, seconds: f64, usual: f64, freedom: f64) -> f64 {
        let chances = ln((seconds / WITNESS_SECONDS).max(1.0));
        let relief = (self.relief - chances).max(0.0);
        let shorter = (self.longest / seconds).clamp(1.0, SHORTEST);
        let interval = self.interval * (1.0 + self.scarce / usual).powi(2);
        let nats = ln(interval / seconds) + SHORTER_RARER * ln(shorter) - relief;
        statistic::line(nats.max(LOWEST_LINE), freedom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known after these lookups and misses a second.
    fn learned(local: bool, polls: impl IntoIterator<Item = (f64, f64)>) -> Baseline {
        let thresholds = Thresholds::default();
        let fade = if local { Fade::local } else { Fade::over }(1.0, &thresholds);
        let mut baseline = Baseline::new(&thresholds);
        for (lookups, misses) in polls {
            baseline.learn(Lookups { hits: lookups - misses, misses }, &fade, &thresholds);
        }
        baseline
    }

    fn normal(baseline: &Baseline) -> Normal<'_> {
        let ratio = baseline.miss_ratio().unwrap();
        Normal::new(baseline, ratio, false, &Thresholds::default())
    }

    #[test]
    fn the_last_minute_is_asked_only_where_it_knows_more() {
        let few = |second: u32| (20.0, f64::from(u8::from(second.is_multiple_of(3))));
        let swinging = |second: u32| {
            let up = (second / 60).is_multiple_of(2);
            (1000.0, if up { 40.0 } else { 20.0 })
        };
        let usual = learned(false, (0..3600).map(few));
        let local = learned(true, (0..3600).map(few));
        assert!(!normal(&local).is_surer_than(&normal(&usual)));
        let usual = learned(false, (0..3600).map(swinging));
        // Its blocks end before the ratio swings back.
        let local = learned(true, (0..3600).map(|_| (1000.0, 40.0)));
        assert!(normal(&local).is_surer_than(&normal(&usual)));
    }

    #[test]
    fn lost_hits_scatter_no_less_than_usual_while_they_are_few() {
        let polls = |ratio: f64| {
            (0..600_u32).map(move |second| {
                let off = if second.is_multiple_of(2) { 40.0 } else { -40.0 };
                (1000.0, 1000.0 * ratio + off)
            })
        };
        let (usual, local) = (learned(false, polls(0.5)), learned(true, polls(0.8)));
        let (usual, local) = (normal(&usual), normal(&local));
        let stretch =
            Rung { seconds: 1.0, polls: 1, lookups: 1000.0, misses: 900.0, ..Rung::default() };
        let alone = local.judge(&stretch).scatter.variance;
        let held = local.no_steadier_than(&usual).judge(&stretch).scatter.variance;
        assert!(held > 2.0 * alone, "{held} {alone}");
        // The excess is the same, and what is usual is misses and not hits.
        let judged = usual.judge(&stretch);
        assert!((judged.count - judged.mean - 400.0).abs() < 1.0);
        assert!((judged.mean - 500.0).abs() < 1.0);
    }

    #[test]
    fn the_largest_of_many_is_where_it_mostly_is() {
        // The median of the largest of n is where the n-th root of one half is below it.
        use statrs::distribution::{ContinuousCDF, Normal};
        let normal = Normal::new(0.0, 1.0).unwrap();
        for count in [8.0, 32.0, 128.0] {
            let median = normal.inverse_cdf(0.5_f64.powf(1.0 / count));
            assert!((largest_of(count) - median).abs() < 0.2, "{count}: {median}");
        }
        assert_eq!((largest_of(1.0), largest_of(1.05)), (0.0, 0.0));
        assert!(largest_of(2.0) >= 0.0);
    }

    #[test]
    fn the_shortest_stretches_are_held_to_one_line() {
        let lines = Lines::new(false, &Thresholds::default());
        let line = |seconds: f64| lines.at(seconds, 1e9, CERTAIN);
        let (short, middle, long) =
            (line(1.0) - line(8.0), line(8.0) - line(16.0), line(64.0) - line(128.0));
        // The logarithms of 8 and 2 are of the rates; the rest is for being shorter.
        assert!((short - 8.0_f64.ln()).abs() < 0.1, "{short}");
        for further in [middle, long] {
            assert!((further - 1.75 * 2.0_f64.ln()).abs() < 0.1, "{further}");
        }
    }

    #[test]
    fn few_expected_misses_need_more_evidence() {
        let thresholds = Thresholds::default();
        let lines = Lines::new(false, &thresholds);
        let further = |usual| lines.at(60.0, usual, CERTAIN) - lines.at(60.0, 1e9, CERTAIN);
        assert!((further(thresholds.scarce_misses) - ln(4.0)).abs() < 0.1);
        assert!((further(thresholds.scarce_misses / 9.0) - ln(100.0)).abs() < 0.2);
    }
}
