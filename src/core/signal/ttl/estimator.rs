//! From the sample to the picture.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::deadlines::{Deadlines, Drawn, key_id};
use super::forecast::{densest, due, due_ratio, forecast, mean_rate, smallest_wave, within};
use super::glob;
use super::held::Held;
use super::mass::{Mass, Part};
use super::outcome::{Outcome, Outcomes};
use super::wave::{self, Span};
use super::{
    ALL_GROUP, DUE_WINDOWS, Estimate, Forecast, GroupTtl, OTHER_GROUP, TTL_BOUNDS, TtlPicture, Wave,
};
use crate::reading::info::Database;

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

/// A deadline further off counts as this far, seconds: 100 years, beyond which it is a mistake.
const MAX_TTL: f64 = 100.0 * 365.25 * 86_400.0;

/// The configured key groups; the first that matches counts.
#[derive(Debug, Clone)]
pub struct Groups(Vec<(Arc<str>, Vec<u8>)>);

impl Groups {
    /// Groups by name and pattern, in order.
    pub fn new(groups: impl IntoIterator<Item = (Arc<str>, String)>) -> Groups {
        Groups(groups.into_iter().map(|(name, glob)| (name, glob.into_bytes())).collect())
    }

    /// The place of a key's group; one past the last when none matches.
    pub fn of(&self, key: &[u8]) -> u16 {
        let place = self.0.iter().position(|(_, pattern)| glob::matches(pattern, key));
        place.unwrap_or(self.0.len()) as u16
    }

    /// The names, [`OTHER_GROUP`] last.
    fn names(&self) -> impl Iterator<Item = Arc<str>> {
        self.0.iter().map(|(name, _)| Arc::clone(name)).chain([Arc::from(OTHER_GROUP)])
    }

    /// How many there are, with `other`.
    fn count(&self) -> usize {
        self.0.len() + 1
    }
}

/// What a server said of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Seen {
    /// Seconds left; `None` for a key that never runs out.
    pub ttl: Option<f64>,
    /// How much it is used, by `OBJECT FREQ`, if that was asked.
    pub frequency: Option<u8>,
    /// The round of the scan that gave it, modulo 256; `None` if it was not a scan, or one whose
    /// rounds do not keep their order.
    pub round: Option<u8>,
}

impl Seen {
    /// A key with so many seconds left, or without a deadline, and no more known of it.
    pub fn with(ttl: Option<f64>) -> Seen {
        Seen { ttl, ..Seen::default() }
    }
}

/// A wave that has been announced.
#[derive(Debug, Clone)]
struct Announced {
    group: Option<u16>,
    start: f64,
    end: f64,
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

/// Turns sampled deadlines into a [`TtlPicture`]. Time is Unix seconds and never runs back.
#[derive(Debug, Clone)]
pub struct Estimator {
    groups: Groups,
    sample: Deadlines,
    held: BTreeMap<u64, Held>,
    announced: Vec<Announced>,
    outcomes: Outcomes,
    newest: Option<f64>,
}

impl Estimator {
    /// An estimator that keeps at most `capacity` keys, none longer than `max_age` seconds.
    pub fn new(groups: Groups, capacity: usize, max_age: f64) -> Estimator {
        Estimator {
            groups,
            sample: Deadlines::new(capacity, max_age),
            held: BTreeMap::new(),
            announced: Vec::new(),
            outcomes: Outcomes::default(),
            newest: None,
        }
    }

    /// Takes in what was seen of `key` at `now`.
    pub fn draw(&mut self, now: f64, database: u64, key: &[u8], seen: Seen) {
        self.newest = Some(now);
        self.sample.draw(Drawn {
            key: key_id(database, key),
            database,
            group: self.groups.of(key),
            taken: now,
            deadline: seen.ttl.map(|left| now + left.clamp(0.0, MAX_TTL)),
            frequency: seen.frequency,
            round: seen.round,
        });
    }

    /// Takes in that a key which the scan gave was gone when asked.
    pub fn gone(&mut self, database: u64, key: &[u8]) {
        self.sample.gone(key_id(database, key));
    }

    /// Takes in how many keys the databases hold at `now`.
    pub fn observe_spaces(&mut self, now: f64, databases: &[Database]) {
        self.held.retain(|index, _| databases.iter().any(|d| d.index == *index));
        let with_held = databases.iter().map(|database| {
            let held = self.held.entry(database.index).or_default();
            held.observe(now, database.keys);
            (*database, held.estimate().unwrap_or_default())
        });
        self.sample.observe_spaces(with_held);
    }

    /// Takes in that a scan gave so many keys of so much of a database's table, 0 to 1.
    pub fn scanned(&mut self, database: u64, given: usize, table: f64) {
        self.held.entry(database).or_default().scanned(given as f64, table);
    }

    /// Takes in how many keys the server has counted as expired so far.
    pub fn observe_expired(&mut self, now: f64, expired: f64) {
        self.outcomes.observe(now, expired);
    }

    /// How many waves came to each end, in the order of [`Outcome::ALL`].
    pub fn outcomes(&self) -> [u64; Outcome::ALL.len()] {
        self.outcomes.counts()
    }

    /// Takes in that a whole round over a database has ended, which began at `began`.
    pub fn finish_round(&mut self, database: u64, began: f64) {
        self.sample.finish_round(database, began);
    }

    /// Forgets the sample, as after a restart or when the server is another one.
    pub fn clear(&mut self) {
        self.sample.clear();
        self.held.clear();
        self.announced.clear();
        self.outcomes.forget();
        self.newest = None;
    }

    /// Keys in the sample.
    pub fn sample_keys(&self) -> usize {
        self.sample.len()
    }

    /// The picture at `now`. What only the sampler knows (its lookups, rounds, cost and
    /// watch list) is left empty for it to fill.
    pub fn picture(&mut self, now: f64) -> TtlPicture {
        self.sample.expire(now);
        let (mass, mut parts) = Mass::at(now, &self.sample, self.groups.count());
        let level = FALSE_WAVE / (self.groups.count() + 1) as f64;
        // Where nothing was asked, as with the watch list alone, nothing is known of any group.
        let known = mass.used > 0 || mass.keys == 0.0;
        let before = std::mem::take(&mut self.announced);
        let mut waves = Vec::new();

        parts.sort_unstable_by(|a, b| a.group.cmp(&b.group).then(a.left.total_cmp(&b.left)));
        let mut groups = Vec::new();
        for ((place, name), without) in (0..).zip(self.groups.names()).zip(&mass.without_ttl) {
            let start = parts.partition_point(|part| part.group < place);
            let end = parts.partition_point(|part| part.group <= place);
            let parts = parts.get(start..end).unwrap_or_default();
            let view = View { name, group: Some(place), parts };
            let here = waves_of(now, &mass, &view, &before, level, &mut self.announced);
            if known {
                let forecast = forecast(now, &mass, view.parts, &here);
                groups.push(GroupTtl { forecast, ..group_ttl(&mass, &view, *without) });
            }
            waves.extend(here);
        }

        parts.sort_unstable_by(|a, b| a.left.total_cmp(&b.left));
        let all = View { name: Arc::from(ALL_GROUP), group: None, parts: &parts };
        let here = waves_of(now, &mass, &all, &before, level, &mut self.announced);
        let forecast = forecast(now, &mass, &parts, &here);
        let due_ratio = due_ratio(now, &parts, &here);
        waves.extend(here);
        waves.sort_by(|a, b| a.start.total_cmp(&b.start));
        let waves = told_once(&waves);
        self.outcomes.follow(now, &waves);
        TtlPicture {
            time: now,
            groups,
            all: forecast,
            due: DUE_WINDOWS.map(|(window, _)| mass.estimate(due(&parts, window))),
            smallest_wave: smallest_wave(&mass, &parts, level),
            due_ratio,
            waves,
            past_waves: self.outcomes.past().cloned().collect(),
            keys: mass.keys,
            held: self.held.values().any(|h| h.estimate().is_some()).then_some(mass.held),
            without_ttl: if known { mass.persistent } else { 0.0 },
            without_ttl_share: if known { mass.persistent_share() } else { Estimate::default() },
            sample_keys: mass.used,
            sample_time: self.newest,
            ..TtlPicture::default()
        }
    }
}

/// The waves of one view with their sizes; they are `announced` from now on.
fn waves_of(
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
    let times = view.parts.iter().filter(|p| p.seen).map(|p| p.left).collect();
    let found = wave::scan(times, level * STAYING);
    let mut waves = Vec::new();
    for span in &found {
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
fn told_once(waves: &[Wave]) -> Vec<Wave> {
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

/// One group's parts, sorted by remaining TTL.
struct View<'a> {
    name: Arc<str>,
    /// `None` for all together.
    group: Option<u16>,
    parts: &'a [Part],
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
    // A millisecond of room, since deadlines were moved to and fro between two time scales.
    let inside = within(view.parts, from - 1e-3, to + 1e-3);
    let seen = || inside.iter().filter(|p| p.seen);
    let keys = mass.estimate(seen());
    let (start, length) = densest(inside, 1.0);
    let second = inside.get(start..start + length).unwrap_or_default();
    let peak = mass.estimate(second.iter().filter(|p| p.seen));
    let lookup_share = mass.lookup_share(second.iter().filter(|p| p.seen));
    let group_keys: f64 = view.parts.iter().map(Part::keys).sum();
    let ratio = mean_rate(view.parts).map_or(0.0, |mean| peak.value / mean.keys);
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

/// The additive part of a group's picture.
fn group_ttl(mass: &Mass, view: &View<'_>, without_ttl: f64) -> GroupTtl {
    let mut buckets = vec![0.0; TTL_BOUNDS.len() + 1];
    for part in view.parts {
        let place = TTL_BOUNDS.partition_point(|bound| *bound < part.left);
        if let Some(bucket) = buckets.get_mut(place) {
            *bucket += part.keys();
        }
    }
    let due = DUE_WINDOWS.map(|(window, _)| mass.estimate(due(view.parts, window)));
    GroupTtl {
        name: Arc::clone(&view.name),
        buckets,
        ttl_sum: view.parts.iter().fold(0.0, |sum, p| sum + p.left * p.keys()),
        without_ttl,
        without_ttl_interval: mass.persistent_interval(without_ttl),
        due: due.map(|estimate| estimate.value),
        due_intervals: due.map(|estimate| (estimate.low, estimate.high)),
        forecast: Forecast::default(),
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::detect::Thresholds;

    const NOW: f64 = 1_700_000_000.0;

    fn estimator(groups: &[(&str, &str)]) -> Estimator {
        let groups = groups.iter().map(|(name, glob)| (Arc::from(*name), (*glob).to_owned()));
        Estimator::new(Groups::new(groups), 10_000, 300.0)
    }

    fn space(keys: f64, expires: f64) -> [Database; 1] {
        [Database { index: 0, keys, expires: Some(expires), avg_ttl: None }]
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{a} is not {b}");
    }

    /// 1000 keys, 800 with a deadline. Ten sampled: eight have one (two of `a` at 5 s, six of `b`
    /// at 100 s), two (of `c`, which is `other`) have none. So each stands for 100 keys.
    #[test]
    fn a_sample_is_scaled_to_the_key_space_by_group() {
        let mut e = estimator(&[("a", "a:*"), ("b", "b:*")]);
        e.observe_spaces(NOW, &space(1000.0, 800.0));
        for i in 0..2 {
            e.draw(NOW, 0, format!("a:{i}").as_bytes(), Seen::with(Some(5.0)));
            e.draw(NOW, 0, format!("c:{i}").as_bytes(), Seen::with(None));
        }
        for i in 0..6 {
            e.draw(NOW, 0, format!("b:{i}").as_bytes(), Seen::with(Some(100.0)));
        }
        let p = e.picture(NOW);
        let names: Vec<&str> = p.groups.iter().map(|g| &*g.name).collect();
        assert_eq!(names, ["a", "b", "other"]);
        assert_eq!((p.sample_keys, p.sample_time, p.keys), (10, Some(NOW), 1000.0));
        close(p.groups[0].buckets[2], 200.0); // 2 < 5 <= 5
        close(p.groups[1].buckets[7], 600.0); // 60 < 100 <= 120
        close(p.groups[0].ttl_sum, 1000.0);
        close(p.groups[2].without_ttl, 200.0);
        close(p.without_ttl, 200.0);
        assert_eq!(p.groups[0].due.map(f64::round), [0.0, 200.0, 200.0, 200.0]);
        assert_eq!(p.groups[1].due.map(f64::round), [0.0, 0.0, 0.0, 600.0]);
        assert!(p.due[1].low > 0.0 && p.due[1].low < 200.0 && p.due[1].high > 200.0);
    }

    /// Forty of forty keys are known, so nothing is left open; 30 s later they are due in 10 s.
    #[test]
    fn a_census_is_exact_and_moves_with_the_clock() {
        let mut e = estimator(&[]);
        e.observe_spaces(NOW, &space(40.0, 40.0));
        for i in 0..40 {
            e.draw(NOW, 0, format!("k{i}").as_bytes(), Seen::with(Some(40.0)));
        }
        let p = e.picture(NOW + 30.5);
        close(p.due[0].value, 0.0);
        close(p.due[1].value, 40.0);
        close(p.due[1].low, 40.0);
        close(p.due[1].high, 40.0);
    }

    /// Once passed and gone from the server they are gone from the picture; written again
    /// meanwhile, they are somewhere in the same range of TTLs.
    #[test]
    fn passed_deadlines_are_gone_or_written_again_as_the_space_says() {
        for (still, expected) in [(0.0, 0.0), (40.0, 40.0)] {
            let mut e = estimator(&[]);
            e.observe_spaces(NOW, &space(40.0, 40.0));
            for i in 0..40 {
                e.draw(NOW, 0, format!("k{i}").as_bytes(), Seen::with(Some(f64::from(i) + 0.5)));
            }
            e.observe_spaces(NOW, &space(still, still));
            let p = e.picture(NOW + 60.0);
            close(p.due[2].value, expected);
            assert_eq!(p.due[2].low, 0.0);
        }
    }

    /// The newer answer counts: the key was written again with a longer TTL, or lost it.
    #[test]
    fn a_newer_answer_replaces_the_older_one() {
        let mut e = estimator(&[]);
        e.observe_spaces(NOW, &space(2.0, 1.0));
        e.draw(NOW, 0, b"a", Seen::with(Some(5.0)));
        e.draw(NOW, 0, b"b", Seen::with(Some(5.0)));
        e.draw(NOW + 1.0, 0, b"a", Seen::with(Some(200.0)));
        e.draw(NOW + 1.0, 0, b"b", Seen::with(None));
        let p = e.picture(NOW + 1.0);
        assert_eq!(p.sample_keys, 2);
        close(p.due[1].value, 0.0);
        close(p.due[3].value, 1.0);
        close(p.without_ttl, 1.0);
    }

    /// Two databases: 900 keys at 5 s of which 9 were asked, 100 at 500 s of which 10 were.
    #[test]
    fn databases_are_weighed_by_their_own_size() {
        let mut e = estimator(&[]);
        let database = |index, keys| Database { index, keys, expires: Some(keys), avg_ttl: None };
        e.observe_spaces(NOW, &[database(0, 900.0), database(7, 100.0)]);
        for i in 0..10 {
            if i < 9 {
                e.draw(NOW, 0, format!("k{i}").as_bytes(), Seen::with(Some(5.0)));
            }
            e.draw(NOW, 7, format!("k{i}").as_bytes(), Seen::with(Some(500.0)));
        }
        let p = e.picture(NOW);
        close(p.due[1].value, 900.0);
        close(p.groups[0].buckets.iter().sum(), 1000.0);
    }

    /// 50 000 keys written in one second with 120 s, 500 of them sampled: one wave, of all of
    /// them, two minutes off, 120 times the mean of the two minutes; it stays until it has broken.
    #[test]
    fn keys_written_together_are_a_wave() {
        let mut e = estimator(&[("p", "p:*")]);
        e.observe_spaces(NOW, &space(50_000.0, 50_000.0));
        for i in 0..500 {
            e.draw(
                NOW,
                0,
                format!("p:{i}").as_bytes(),
                Seen::with(Some(120.0 + f64::from(i) / 500.0)),
            );
        }
        let p = e.picture(NOW);
        assert_eq!(p.waves.len(), 1, "{:?}", p.waves);
        let wave = &p.waves[0];
        assert_eq!(&*wave.group, "p");
        close(wave.keys.value, 50_000.0);
        assert!((wave.start - NOW - 120.0).abs() < 0.01 && wave.end - wave.start < 1.0);
        close(wave.group_share, 1.0);
        close(wave.extra_misses_per_second(2000.0).value, 2000.0);
        let ratio = p.all.clustering_ratio.expect("a ratio");
        assert!((115.0..=122.0).contains(&ratio), "{ratio}");
        close(p.all.peak_in.expect("a peak"), 120.0);
        let p = e.picture(NOW + 119.9);
        assert_eq!(p.waves.len(), 1);
        assert!(p.due_ratio.expect("a ratio") >= ratio);
        assert_eq!(e.picture(NOW + 122.0).waves, []);
    }

    /// As it comes nearer and more of it is sampled, it stays the wave that was announced, with the
    /// ratio that it had far off.
    #[test]
    fn a_wave_stays_the_same_until_it_breaks() {
        let mut e = estimator(&[]);
        e.observe_spaces(NOW, &space(50_000.0, 50_000.0));
        let mut first = None;
        for second in 0..120_u32 {
            let now = NOW + f64::from(second);
            for i in 0..40 {
                let key = second * 40 + i;
                let at = NOW + 120.0 + f64::from(key * 7919 % 400) / 1000.0;
                e.draw(now, 0, format!("p:{key}").as_bytes(), Seen::with(Some(at - now)));
            }
            let p = e.picture(now);
            assert_eq!(p.waves.len(), 1, "after {second} s: {:?}", p.waves);
            let seen = (p.waves[0].announced, p.waves[0].clustering_ratio);
            let first = *first.get_or_insert(seen);
            assert_eq!(seen.0, first.0, "after {second} s");
            assert!(seen.1 >= first.1, "after {second} s: {seen:?}, first {first:?}");
            assert!(p.all.clustering_ratio >= Some(first.1), "after {second} s: {:?}", p.all);
        }
    }

    /// The same with 10 % of jitter, 108 to 132 s: spread as it should be, at every distance. Its
    /// densest second holds a 24th of the keys, 5.5 times the mean of 132 s, and up to a quarter more
    /// by chance, being the highest of many with 177 sampled keys each.
    #[test]
    fn jittered_keys_are_no_wave() {
        let mut e = estimator(&[]);
        e.observe_spaces(NOW, &space(50_000.0, 50_000.0));
        let mut rng = SmallRng::seed_from_u64(1);
        for i in 0..4000 {
            let left = rng.random_range(108.0..132.0);
            e.draw(NOW, 0, format!("p:{i}").as_bytes(), Seen::with(Some(left)));
        }
        let ratio = e.picture(NOW).all.clustering_ratio.expect("a ratio");
        assert!((5.5..7.0).contains(&ratio), "{ratio}");
        for second in 0..130 {
            let p = e.picture(NOW + f64::from(second));
            assert_eq!(p.waves, [], "after {second} s");
            let line = Thresholds::default().due_ratio;
            assert!(p.due_ratio.expect("a ratio") < line, "after {second} s: {:?}", p.due_ratio);
        }
    }

    /// A cache that is filled from nothing at an even rate, 1000 keys a second with 120 s each. Its
    /// first seconds look like a wave, for nothing is written yet that would come after it. Once
    /// the keys lie over more than a tenth of the 119 s that it was announced ahead, it is none.
    #[test]
    fn a_wave_that_grows_wide_is_one_no_longer() {
        let mut e = estimator(&[]);
        let mut rng = SmallRng::seed_from_u64(1);
        for second in 1..120_u32 {
            let now = NOW + f64::from(second);
            let written = second * 1000;
            e.observe_spaces(now, &space(f64::from(written), f64::from(written)));
            for _ in 0..100 {
                let key = rng.random_range(0..written);
                let at = NOW + 120.0 + f64::from(key) / 1000.0;
                e.draw(now, 0, format!("p:{key}").as_bytes(), Seen::with(Some(at - now)));
            }
            let p = e.picture(now);
            if second <= 5 || second > 12 {
                let waves = usize::from(second <= 5);
                assert_eq!(p.waves.len(), waves, "after {second} s: {:?}", p.waves);
            }
        }
    }

    #[test]
    fn nothing_due_is_a_plain_zero() {
        let mut e = estimator(&[]);
        e.observe_spaces(NOW, &space(1000.0, 1000.0));
        for i in 0..1000 {
            e.draw(NOW, 0, format!("k:{i}").as_bytes(), Seen::with(Some(500.0 + f64::from(i))));
        }
        let ratio = e.picture(NOW).due_ratio.expect("a ratio");
        assert_eq!((ratio, ratio.is_sign_negative()), (0.0, false));
    }

    #[test]
    fn nothing_sampled_says_nothing() {
        let mut e = estimator(&[]);
        let p = e.picture(NOW);
        assert_eq!((p.sample_keys, p.due_ratio, p.all), (0, None, Forecast::default()));
        e.observe_spaces(NOW, &space(0.0, 0.0));
        e.draw(NOW, 0, b"", Seen::with(Some(f64::MAX)));
        assert_eq!(e.picture(NOW).due[3].value, 0.0);
    }
}
