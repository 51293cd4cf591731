//! From the sample to the picture.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::announced::Announced;
use super::deadlines::{Deadlines, Drawn, key_id};
use super::glob;
use super::held::Held;
use super::look::Look;
use super::outcome::{Outcome, Outcomes};
use super::records::Told;
use super::{OTHER_GROUP, TtlPicture};
use crate::reading::info::Database;

/// A deadline further off counts as this far, seconds: 100 years, beyond which it is a mistake.
const MAX_TTL: f64 = 100.0 * 365.25 * 86_400.0;

/// So many groups have a place that fits a byte with [`OTHER_GROUP`] and none; a configuration has fewer.
const MOST_GROUPS: usize = 254;

/// The configured key groups; the first that matches counts.
#[derive(Debug, Clone)]
pub struct Groups {
    patterns: Vec<Vec<u8>>,
    /// [`OTHER_GROUP`] last.
    names: Vec<Arc<str>>,
}

impl Groups {
    /// Groups by name and pattern, in order: 254 at most, any further ones are left out.
    pub fn new(groups: impl IntoIterator<Item = (Arc<str>, String)>) -> Groups {
        let groups = groups.into_iter().take(MOST_GROUPS);
        let (mut names, patterns): (Vec<_>, Vec<_>) =
            groups.map(|(name, glob)| (name, glob.into_bytes())).unzip();
        names.push(Arc::from(OTHER_GROUP));
        Groups { patterns, names }
    }

    /// The place of a key's group; one past the last when none matches.
    fn of(&self, key: &[u8]) -> u8 {
        let place = self.patterns.iter().position(|pattern| glob::matches(pattern, key));
        place.unwrap_or(self.patterns.len()) as u8
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

/// Turns sampled deadlines into a [`TtlPicture`]. Time is Unix seconds and never runs back.
#[derive(Debug, Clone)]
pub struct Estimator {
    groups: Groups,
    sample: Deadlines,
    held: BTreeMap<u64, Held>,
    look: Option<Look>,
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
            look: None,
            announced: Vec::new(),
            outcomes: Outcomes::default(),
            newest: None,
        }
    }

    /// Takes in what was seen of `key` at `now`.
    pub fn draw(&mut self, now: f64, database: u64, key: &[u8], seen: Seen) {
        self.newest = Some(now);
        let told = Told {
            group: self.groups.of(key),
            left: seen.ttl.map(|left| left.clamp(0.0, MAX_TTL) as f32),
            frequency: seen.frequency,
        };
        let key = key_id(database, key);
        self.sample.draw(Drawn { key, database, taken: now, told, round: seen.round });
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
        self.look = None;
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
        let look = match self.look.take() {
            Some(look) if look.holds(now, &self.sample) => look,
            before => {
                let names = &self.groups.names;
                Look::take(now, &self.sample, names, before, &mut self.announced)
            }
        };
        let picture = look.at(now);
        let held = self.held.values().any(|h| h.estimate().is_some()).then_some(look.held());
        self.look = Some(look);
        self.outcomes.follow(now, &picture.waves);
        let past_waves = self.outcomes.past().cloned().collect();
        TtlPicture { past_waves, held, sample_time: self.newest, ..picture }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::super::Forecast;
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

    /// Ten groups, up to 6000 keys sampled at 50 a second, and a cohort of 150 that is written after
    /// a while with 40 s each: at each second the picture is as good as one from a new look. What is due
    /// is off by a twentieth, or a quarter of its interval, a wave is told five seconds later at most and
    /// never after its end, and far fewer looks are taken than pictures.
    #[test]
    fn between_looks_the_picture_is_as_good_as_new() {
        let names: Vec<String> = (0..10).map(|group| format!("g{group}")).collect();
        let globs: Vec<String> = names.iter().map(|name| format!("{name}:*")).collect();
        let groups: Vec<_> = names.iter().zip(&globs).map(|(n, g)| (&**n, &**g)).collect();
        let mut e = Estimator { sample: Deadlines::new(6000, 300.0), ..estimator(&groups) };
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut looks, mut told, mut found) = (Vec::new(), None, None);
        for second in 0..180_u32 {
            let now = NOW + f64::from(second);
            e.observe_spaces(now, &space(100_000.0, 90_000.0));
            let cohort = (130..136).contains(&second);
            for place in 0..50 {
                let key = second * 50 + place;
                let left = match place {
                    0..25 if cohort => NOW + 173.0 + rng.random::<f64>() - now,
                    _ => rng.random_range(0.0..1800.0),
                };
                let seen = Seen::with((place % 10 > 0 || cohort).then_some(left));
                e.draw(now, 0, format!("g{}:{key}", key % 10).as_bytes(), seen);
            }
            let mut anew = e.clone();
            anew.look = None;
            let (picture, new) = (e.picture(now), anew.picture(now));
            looks.extend(e.look.as_ref().map(|look| look.time));

            for (due, new) in picture.due.iter().zip(&new.due) {
                let off = (due.value - new.value).abs();
                // A fiftieth of the keys, where what was sampled since the look is all due soon.
                let most = if (130..140).contains(&second) { 1800.0 } else { 0.05 * new.value };
                let least = (new.high - new.low) / 4.0;
                assert!(off <= most.max(least), "{second}: {due:?} {new:?}");
            }
            assert_eq!(picture.groups.len(), 11);
            for (group, new) in picture.groups.iter().zip(&new.groups) {
                let all: f64 = group.buckets.iter().sum();
                let all_new: f64 = new.buckets.iter().sum();
                assert!((all - all_new).abs() <= 0.05 * all_new + 1800.0, "{all} {all_new}");
            }
            assert!(picture.waves.iter().all(|wave| wave.end > now), "{:?}", picture.waves);
            told = told.or((!picture.waves.is_empty()).then_some(second));
            found = found.or((!new.waves.is_empty()).then_some(second));
            let due = (picture.due_ratio.expect("a ratio"), new.due_ratio.expect("a ratio"));
            assert!((due.0 - due.1).abs() <= 0.3 * due.1.max(1.0), "{second}: {due:?}");
        }
        let (told, found) = (told.expect("told"), found.expect("found"));
        assert!((130..134).contains(&found) && told <= found + 5, "{found}, {told}");
        looks.dedup();
        assert!(looks.len() < 120, "{} looks", looks.len());
    }

    /// A thousand keys, one a second: whatever the time, ten of them run out within ten seconds, and
    /// the one in a thousand that passes each second is no reason to look again.
    #[test]
    fn what_is_due_moves_with_the_clock_between_looks() {
        let mut e = estimator(&[]);
        e.observe_spaces(NOW, &space(1000.0, 1000.0));
        for i in 0..1000 {
            let left = f64::from(i) + 0.75;
            e.draw(NOW, 0, format!("k{i}").as_bytes(), Seen::with(Some(left)));
        }
        for second in 0..20 {
            let p = e.picture(NOW + f64::from(second));
            assert_eq!(e.look.as_ref().map(|look| look.time), Some(NOW));
            assert_eq!(p.due.map(|due| due.value.round()), [1.0, 10.0, 60.0, 300.0]);
            assert_eq!(p.groups[0].due.map(f64::round), [1.0, 10.0, 60.0, 300.0]);
            assert_eq!(p.time, NOW + f64::from(second));
        }
        // Half of the space is gone: that is another picture.
        let mut half = e.clone();
        half.observe_spaces(NOW + 19.5, &space(500.0, 500.0));
        assert_eq!(half.picture(NOW + 19.5).keys, 500.0);
        e.picture(NOW + 20.0);
        assert_eq!(e.look.as_ref().map(|look| look.time), Some(NOW + 20.0));
    }
}
