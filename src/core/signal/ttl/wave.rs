//! Where deadlines pile up more than chance explains: a scan statistic with a local mean.
//!
//! Each sampled deadline starts windows of 1, 5 and 30 s. A window's count is compared with the
//! minute before it and the minute after it, each by itself: it must stand out against both, so
//! that neither a step nor a slope in the density is taken for a wave. Given what a window and a
//! neighbour hold together, the window's count is binomial if both are equally dense, whatever that
//! density is, so nothing is estimated and plugged in. Bonferroni over every window makes the
//! chance of any false wave in one look at most the level asked for.
//!
//! Against the alternatives at a false-alarm rate of 1 in 1000 looks this finds cohorts about half
//! as large as Fano's index does and a tenth of what Kolmogorov-Smirnov needs.

use super::binomial::at_least;
use crate::elementary::{exp, ln};

/// Widths of the windows, seconds: a pipeline's cohort, a batch job's, a slow warm-up's.
pub(super) const WINDOWS: [f64; 3] = [1.0, 5.0, 30.0];

/// How far to each side the local mean reaches, seconds.
const SIDE: f64 = 60.0;

/// How far to each side a window's own surroundings reach, in widths of the window: against these
/// it must stand out by [`MIN_RATIO`], too, or it is a piece of something wider.
const NEAR: f64 = 3.0;

/// A wave is at least this many times as dense as the denser of its two sides: with tens of
/// thousands of sampled keys an unevenness of a few percent is significant and harmless.
const MIN_RATIO: f64 = 2.0;

/// Fewer sampled keys than this are no wave, whatever their density.
const MIN_COUNT: usize = 4;

/// How often the search is repeated without what it has found, for a small wave beside a big one.
const PASSES: usize = 3;

/// Waves looked for in one group at most.
pub(super) const MAX_WAVES: usize = 16;

/// A stretch of the sorted deadlines that stands out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    /// Time of the first deadline in it, on the scale of the input.
    pub(super) from: f64,
    /// Time of the last one.
    pub(super) to: f64,
    /// An upper bound of the chance of any such stretch if nothing piled up.
    pub(super) chance: f64,
}

/// Finds the stretches that stand out with a chance of at most `level`, in order of time, among
/// sorted `times`: seconds from now, all positive.
pub(super) fn scan(mut times: Vec<f32>, level: f64) -> Vec<Span> {
    let mut found: Vec<Span> = Vec::new();
    for _ in 0..PASSES {
        let mut new = pass(&times, level);
        if new.is_empty() {
            break;
        }
        flatten(&mut times, &mut new);
        found.extend(new.iter().map(|candidate| candidate.span));
    }
    found.sort_by(|a, b| a.chance.total_cmp(&b.chance));
    found.truncate(MAX_WAVES);
    found.sort_by(|a, b| a.from.total_cmp(&b.from));
    join(found)
}

/// Sampled keys that a wave of one second must have on average to stand out in 9 of 10 samples,
/// where `n` deadlines are sampled and `density` of them fall into each second around it.
pub(super) fn smallest_count(n: f64, density: f64, level: f64) -> f64 {
    /// The one-sided 90 % point of the standard normal distribution.
    const POWER: f64 = 1.2816;
    let side = density * SIDE;
    let tests = n * WINDOWS.len() as f64;
    let chance = |others: u64| tests * at_least(others, others + side as u64, 1.0 / (1.0 + SIDE));
    let mut count = MIN_COUNT as u64;
    while (count as f64 - 1.0) < MIN_RATIO * density || chance(count - 1) > level {
        count += 1;
    }
    // A Poisson count reaches `count` in 9 of 10 cases if its mean is this (Anscombe's root).
    ((count as f64 - 0.5).sqrt() + POWER / 2.0).powi(2)
}

/// A window that stands out.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    first: usize,
    end: usize,
    span: Span,
    /// How far it stands out, nats; unlike the chance it never runs into zero.
    strength: f64,
    /// Deadlines to be expected in it by its denser side.
    expected: f64,
    /// Deadlines on its sides.
    before: usize,
    after: usize,
}

impl Candidate {
    /// Whether the window of the same width that starts here overlaps this one and cannot be
    /// stronger: it holds no more, and its sides, which are as long, no less.
    fn beats(&self, first: usize, start: f64, sides: &Sides) -> bool {
        first < self.end
            && self.span.from.min(SIDE) >= start.min(SIDE)
            && sides.end - first <= self.end - self.first
            && first - sides.before >= self.before
            && sides.after - sides.end >= self.after
    }
}

/// One search: the strongest windows that do not overlap.
fn pass(times: &[f32], level: f64) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    let tests = (times.len() * WINDOWS.len()) as f64;
    for width in WINDOWS {
        let mut sides = Sides::default();
        // So many deadlines right after a window for each of its own are too many.
        let near = near(width);
        let most_near = near / (MIN_RATIO * width);
        let from = candidates.len();
        for (first, start) in times.iter().enumerate() {
            let start = f64::from(*start);
            let Some(to) = sides.end_at(times, start + width) else { continue };
            // Most windows of an even stretch are settled here.
            let count = sides.end - first;
            let too_many = sides.end + (count as f64 * most_near) as usize;
            let dense = start + width + near;
            let too_dense = || times.get(too_many).is_some_and(|time| f64::from(*time) <= dense);
            if count < MIN_COUNT || too_dense() {
                continue;
            }
            sides.advance(times, start, width);
            let last = candidates.get(from..).and_then(<[Candidate]>::last);
            if last.is_some_and(|last| last.beats(first, start, &sides)) {
                continue;
            }
            if let Some(candidate) = judge((start, to), first, &sides, width, tests, level) {
                keep_stronger(&mut candidates, from, candidate);
            }
        }
    }
    strongest(candidates)
}

/// The strongest that do not overlap.
fn strongest(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_by(|a, b| b.strength.total_cmp(&a.strength));
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        if kept.len() == MAX_WAVES {
            break;
        }
        if kept.iter().all(|k| candidate.end <= k.first || candidate.first >= k.end) {
            kept.push(candidate);
        }
    }
    kept
}

/// Adds a window of one width, or lets the stronger of two neighbours that overlap stand for both:
/// a wave of many thousand sampled keys starts as many windows. What is lost by it, in a chain of
/// overlaps, the next pass finds. `from` is the first place of this width.
fn keep_stronger(candidates: &mut Vec<Candidate>, from: usize, candidate: Candidate) {
    match candidates.get_mut(from..).and_then(<[Candidate]>::last_mut) {
        Some(last) if candidate.first < last.end => {
            if candidate.strength > last.strength {
                *last = candidate;
            }
        }
        _ => candidates.push(candidate),
    }
}

/// Where a window and its sides begin and end in the sorted times; moves forward only.
#[derive(Debug, Default)]
struct Sides {
    before: usize,
    near_before: usize,
    end: usize,
    near_after: usize,
    after: usize,
}

impl Sides {
    /// Ends the window, and gives the last time in it.
    fn end_at(&mut self, times: &[f32], until: f64) -> Option<f64> {
        skip(times, &mut self.end, 0, |time| time <= until);
        times.get(self.end.checked_sub(1)?).copied().map(f64::from)
    }

    /// Moves the sides to where the window is.
    fn advance(&mut self, times: &[f32], start: f64, width: f64) {
        let near = near(width);
        skip(times, &mut self.before, 0, |time| time < start - SIDE);
        skip(times, &mut self.near_before, 0, |time| time < start - near);
        skip(times, &mut self.near_after, self.end, |time| time <= start + width + near);
        skip(times, &mut self.after, self.end, |time| time <= start + width + SIDE);
    }
}

/// Moves a place on over what is still before it.
fn skip(times: &[f32], place: &mut usize, least: usize, before: impl Fn(f64) -> bool) {
    *place = (*place).max(least);
    while times.get(*place).is_some_and(|time| before(f64::from(*time))) {
        *place += 1;
    }
}

/// The length of a window's own surroundings to each side, seconds.
fn near(width: f64) -> f64 {
    (NEAR * width).min(SIDE)
}

/// Whether the window that begins in this place stands out; its first and last time are given.
fn judge(
    (from, to): (f64, f64),
    first: usize,
    sides: &Sides,
    width: f64,
    tests: f64,
    level: f64,
) -> Option<Candidate> {
    let count = sides.end.saturating_sub(first);
    // What lies before now is unknown, so near now there is less of a side; none is no side.
    let before_length = from.min(SIDE);
    if count < MIN_COUNT || before_length < width {
        return None;
    }
    // The window starts at a deadline, which therefore says nothing about its density.
    let others = (count - 1) as f64;
    let candidate_sides = (first - sides.before, sides.after - sides.end);
    let (before, after) = (candidate_sides.0 as f64, candidate_sides.1 as f64);
    let expected = (before / before_length).max(after / SIDE) * width;
    let near_before = (first - sides.near_before) as f64 / near(width).min(from);
    let near_after = (sides.near_after - sides.end) as f64 / near(width);
    let surroundings = near_before.max(near_after) * width;
    if others < MIN_RATIO * expected.max(surroundings) {
        return None;
    }
    let before_share = width / (width + before_length);
    let after_share = width / (width + SIDE);
    let strength = strength(others, before, before_share).min(strength(others, after, after_share));
    // Chernoff: the chance is at most exp(-strength), which settles the clear cases cheaply.
    let bound = tests * exp(-strength);
    let chance = if bound <= level {
        bound
    } else {
        let exact = |side: f64, share| at_least(others as u64, (others + side) as u64, share);
        tests * exact(before, before_share).max(exact(after, after_share))
    };
    let span = Span { from, to, chance };
    let (end, (before, after)) = (sides.end, candidate_sides);
    (chance <= level).then_some(Candidate { first, end, span, strength, expected, before, after })
}

/// How far `count` out of `count + side` is from a share of `share`: the Kullback-Leibler
/// divergence times the number of trials, nats.
fn strength(count: f64, side: f64, share: f64) -> f64 {
    let n = count + side;
    let term = |k: f64, p: f64| if k > 0.0 { k * ln(k / (n * p)) } else { 0.0 };
    term(count, share) + term(side, 1.0 - share)
}

/// Thins each found window to what its sides hold, so that it neither hides its neighbours nor
/// leaves a hole that makes them stand out.
fn flatten(times: &mut Vec<f32>, found: &mut [Candidate]) {
    found.sort_by_key(|c| c.first);
    let mut windows = found.iter().peekable();
    let mut places = 0..;
    times.retain(|_| {
        let place: usize = places.next().unwrap_or_default();
        while windows.next_if(|c| c.end <= place).is_some() {}
        windows.peek().is_none_or(|c| {
            let step = c.expected / (c.end - c.first) as f64;
            let Some(nth) = place.checked_sub(c.first).map(|nth| nth as f64) else { return true };
            ((nth + 1.0) * step).floor() > (nth * step).floor()
        })
    });
}

/// Stretches that are no further apart than one of them is wide are one wave: what is wider than a
/// window is found in pieces.
fn join(sorted: Vec<Span>) -> Vec<Span> {
    /// The narrowest and the widest gap that joins, seconds.
    const GAP: (f64, f64) = (1.0, 30.0);
    let mut joined: Vec<Span> = Vec::new();
    for span in sorted {
        match joined.last_mut() {
            Some(last) if span.from - last.to <= widest(last, &span).clamp(GAP.0, GAP.1) => {
                last.to = last.to.max(span.to);
                last.chance = last.chance.min(span.chance);
            }
            _ => joined.push(span),
        }
    }
    joined
}

fn widest(a: &Span, b: &Span) -> f64 {
    (a.to - a.from).max(b.to - b.from)
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn scan(times: Vec<f64>, level: f64) -> Vec<Span> {
        super::scan(times.into_iter().map(|time| time as f32).collect(), level)
    }

    /// `n` deadlines spread evenly over an hour, with `count` more within `width` at half an hour.
    fn even_with(n: usize, count: usize, width: f64) -> Vec<f64> {
        let mut times: Vec<f64> = (0..n).map(|i| (i as f64 + 0.5) * 3600.0 / n as f64).collect();
        times.extend((0..count).map(|i| 1800.01 + width * i as f64 / (2 * count) as f64));
        times.sort_by(f64::total_cmp);
        times
    }

    fn smallest(n: usize, width: f64) -> usize {
        (1..100).find(|count| !scan(even_with(n, *count, width), 1e-3).is_empty()).expect("one")
    }

    /// The expected number of windows of 1 s that start at a deadline and hold k or more, with the
    /// density known, is n P(Poisson(n/3600) >= k - 1). By hand for one look in a thousand:
    /// n = 300: k = 5 (0.0006), n = 1000: k = 7 (0.0005), n = 3000: k = 10 (0.0008). Three widths
    /// and a density that is only counted, not known, cost up to two keys more. Evenly spread keys
    /// add the expected 0.08, 0.28 and 0.83 themselves, so those that are added may be fewer.
    #[test]
    fn critical_counts_are_near_those_of_a_known_density() {
        for (n, known) in [(300, 5), (1000, 7), (3000, 10)] {
            let found = smallest(n, 1.0);
            assert!(
                (known - 1..=known + 2).contains(&found),
                "{n}: {found}, known density {known}"
            );
        }
    }

    #[test]
    fn even_deadlines_are_no_wave() {
        assert_eq!(scan(even_with(3000, 0, 1.0), 1e-3), []);
        assert_eq!(scan(vec![], 1e-3), []);
        assert_eq!(scan(vec![5.0, 5.0, 5.0], 1e-3), []);
    }

    /// A step from nothing to ten a second, and back: dense, but no denser than one of its sides.
    #[test]
    fn a_plateau_is_no_wave() {
        let plateau: Vec<f64> = (0..3000).map(|i| 200.0 + f64::from(i) / 10.0).collect();
        assert_eq!(scan(plateau, 1e-3), []);
    }

    #[test]
    fn a_wave_has_its_place_and_a_small_one_beside_it_is_seen_too() {
        let mut times = even_with(3000, 400, 1.0);
        times.extend((0..30).map(|i| 1820.02 + f64::from(i) / 100.0));
        times.sort_by(f64::total_cmp);
        let waves = scan(times, 1e-4);
        assert_eq!(waves.len(), 2, "{waves:?}");
        assert!(waves[0].from >= 1799.0 && waves[0].to <= 1801.5, "{waves:?}");
        assert!(waves[1].from >= 1819.0 && waves[1].to <= 1821.5, "{waves:?}");
    }

    /// A TTL of two minutes with 10 % of jitter, and nothing else: one stretch, which the caller may judge
    /// by its width, and no second or five of it by themselves.
    #[test]
    fn a_jittered_cohort_is_one_wide_stretch() {
        let times: Vec<f64> = (0..600).map(|i| 108.0 + f64::from(i * 7919 % 600) * 0.04).collect();
        let mut times = times;
        times.sort_by(f64::total_cmp);
        let waves = scan(times, 1e-3);
        assert_eq!(waves.len(), 1, "{waves:?}");
        assert!(waves[0].to - waves[0].from > 23.0, "{waves:?}");
    }

    /// Pieces of one stretch are joined across what the search left out between them; two short
    /// waves ten seconds apart are two.
    #[test]
    fn pieces_are_joined_as_far_as_they_are_wide() {
        let span = |from: f64, to: f64| Span { from, to, chance: 1e-6 };
        let pieces = vec![span(24.0, 25.0), span(30.0, 47.0)];
        assert_eq!(join(pieces), [span(24.0, 47.0)]);
        let waves = vec![span(24.0, 25.0), span(35.0, 36.0)];
        assert_eq!(join(waves.clone()), waves);
    }

    /// A second that lies at the very edge of now has no side before it to compare with.
    #[test]
    fn nothing_is_said_about_what_cannot_be_compared() {
        let now: Vec<f64> = (0..50).map(|i| 0.1 + f64::from(i) / 100.0).collect();
        assert_eq!(scan(now, 1e-3), []);
    }

    /// Every window judged by plain counting.
    fn plain_pass(times: &[f32], level: f64) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        let tests = (times.len() * WINDOWS.len()) as f64;
        let up_to = |time: f64| times.iter().filter(|t| f64::from(**t) <= time).count();
        let before = |time: f64| times.iter().filter(|t| f64::from(**t) < time).count();
        for width in WINDOWS {
            let from = candidates.len();
            for (first, start) in times.iter().enumerate() {
                let start = f64::from(*start);
                let sides = Sides {
                    before: before(start - SIDE),
                    near_before: before(start - near(width)),
                    end: up_to(start + width),
                    near_after: up_to(start + width + near(width)),
                    after: up_to(start + width + SIDE),
                };
                let ends = (start, f64::from(times[sides.end - 1]));
                if let Some(found) = judge(ends, first, &sides, width, tests, level) {
                    keep_stronger(&mut candidates, from, found);
                }
            }
        }
        strongest(candidates)
    }

    /// Windows that are left out unjudged would not have changed anything: uneven spaces with waves
    /// of all sizes and widths, some of them close to now.
    #[test]
    fn the_search_finds_what_judging_every_window_finds() {
        let mut found = 0;
        for seed in 0..60 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let reach = rng.random_range(20.0..1000.0);
            let mut times: Vec<f32> = (0..300).map(|_| rng.random_range(0.01..reach)).collect();
            for _ in 0..rng.random_range(0..4) {
                let (at, width) = (rng.random_range(0.01..reach), rng.random_range(0.1..40.0));
                let keys = rng.random_range(1..100);
                times.extend((0..keys).map(|_| at + rng.random_range(0.0..width)));
            }
            times.sort_by(f32::total_cmp);
            let told = |found: Vec<Candidate>| -> Vec<(usize, usize, u64)> {
                found.iter().map(|c| (c.first, c.end, c.strength.to_bits())).collect()
            };
            let searched = told(pass(&times, 1e-2));
            found += searched.len();
            assert_eq!(searched, told(plain_pass(&times, 1e-2)), "seed {seed}");
        }
        assert!(found > 30, "{found}");
    }
}
