//! `near_cache`: a bounded copy of the popular entries in the process itself, in front of Redis. Also
//! called a first-level (L1) or client-side cache.
//!
//! A hit in it is no call to Redis. A copy is good until the entry's own deadline, or for a shorter
//! life of its own; then Redis is asked again. Where that call or the load after it fails, the copy
//! stands in, also past its deadline for a grace time: `stale-if-error` of M. Nottingham, "HTTP
//! Cache-Control Extensions for Stale Content", RFC 5861, section 4. It is then good for a random part of what is left of its grace,
//! so that what ran out during an outage is not made anew all at once after it. A call that failed
//! leaves Redis alone for a pause, and after that one request at a time tries it: an outage costs a
//! time-out now and then, not one for each request. What has no copy falls through to the database.
//!
//! What is kept is chosen by Clock-PRO (S. Jiang, F. Chen, X. Zhang, "CLOCK-Pro: An Effective
//! Improvement of the CLOCK Replacement", USENIX ATC 2005): an entry that is asked for once does not
//! push out one that is asked for often.
//!
//! Fails where values must not be old: each process has a copy of its own, so a change or a purge is
//! seen at the deadline, or after the shorter life. It takes memory in every process. The keys that it
//! answers look idle to the server, which evicts them first: that is why there is room for the sum of
//! both, as long as copies are good until the deadline; after a life of seconds what was evicted is
//! missed. A process that starts finds in Redis only what the others ask it for. It merges no loads:
//! at the deadline of a hot key everyone misses, unless `coalesce` joins it.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quick_cache::sync::Cache;

/// Sizes and times of a near cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NearShape {
    /// Entries, up to a thirtieth more: each part of the cache rounds up for itself.
    pub entries: usize,
    /// The longest that a copy is good before Redis is asked again, if not until its deadline.
    pub life: Option<Duration>,
    /// How long past its deadline a copy may stand in.
    pub grace: Duration,
    /// How long Redis is left alone after a call to it failed.
    pub pause: Duration,
}

/// The copies of one process. Times are Unix seconds, as deadlines are.
#[derive(Debug)]
pub struct NearCache<K, V> {
    shape: NearShape,
    copies: Cache<K, Arc<Kept<V>>>,
    redis: Mutex<Redis>,
}

#[derive(Debug)]
struct Kept<V> {
    value: V,
    deadline: f64,
    /// Until when nobody else is asked; the bits of an `f64`.
    good_until: AtomicU64,
}

/// What was found here.
#[derive(Debug, Clone, PartialEq)]
pub struct Copy<V> {
    /// The value.
    pub value: V,
    /// Whether its deadline is over.
    pub stale: bool,
}

/// What is known of Redis.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Redis {
    Answers,
    LeftAlone { until: f64 },
    Tried,
}

/// The right to one call to Redis.
#[derive(Debug)]
pub struct Call<'a> {
    redis: &'a Mutex<Redis>,
    pause: Duration,
    begun: f64,
    trial: bool,
}

impl<K: Eq + Hash, V: Clone> NearCache<K, V> {
    /// An empty one.
    pub fn new(shape: NearShape) -> NearCache<K, V> {
        let copies = Cache::new(shape.entries);
        NearCache { shape, copies, redis: Mutex::new(Redis::Answers) }
    }

    /// A copy that is good enough to ask nobody else.
    pub fn get(&self, key: &K, now: f64) -> Option<Copy<V>> {
        let kept = self.copies.get(key)?;
        (now < kept.good_until()).then(|| kept.copy(now))
    }

    /// Keeps a copy of what Redis has or is about to have until `deadline`.
    pub fn keep(&self, key: K, value: V, deadline: f64, now: f64) {
        let life = self.shape.life.map_or(f64::INFINITY, |life| life.as_secs_f64());
        let good_until = AtomicU64::new(deadline.min(now + life).to_bits());
        self.copies.insert(key, Arc::new(Kept { value, deadline, good_until }));
    }

    /// The copy, where asking for another one has failed, if its grace is not over; from now on it is
    /// good for the share `u` of what is left of that, which should be chosen by chance.
    pub fn stand_in(&self, key: &K, now: f64, u: f64) -> Option<Copy<V>> {
        let kept = self.copies.get(key)?;
        let left = kept.deadline + self.shape.grace.as_secs_f64() - now;
        (left > 0.0).then(|| {
            kept.good_until.store((now + u * left).to_bits(), Ordering::Relaxed);
            kept.copy(now)
        })
    }

    /// The right to ask Redis for an entry, unless it is left alone.
    pub fn call(&self, now: f64) -> Option<Call<'_>> {
        let mut redis = lock(&self.redis);
        let trial = match *redis {
            Redis::Answers => false,
            Redis::LeftAlone { until } if until <= now => {
                *redis = Redis::Tried;
                true
            }
            Redis::LeftAlone { .. } | Redis::Tried => return None,
        };
        Some(Call { redis: &self.redis, pause: self.shape.pause, begun: now, trial })
    }

    /// Whether the last that is known of Redis is a failed call.
    pub fn leaves_redis_alone(&self) -> bool {
        *lock(&self.redis) != Redis::Answers
    }
}

impl<V: Clone> Kept<V> {
    fn good_until(&self) -> f64 {
        f64::from_bits(self.good_until.load(Ordering::Relaxed))
    }

    fn copy(&self, now: f64) -> Copy<V> {
        Copy { value: self.value.clone(), stale: now >= self.deadline }
    }
}

impl Call<'_> {
    /// Ends the call at `now`.
    pub fn done(mut self, worked: bool, now: f64) {
        let mut redis = lock(self.redis);
        // What was asked before the first failure says nothing about the trial.
        if self.trial || *redis == Redis::Answers {
            *redis = match worked {
                true => Redis::Answers,
                false => Redis::LeftAlone { until: now + self.pause.as_secs_f64() },
            };
        }
        self.trial = false;
    }
}

impl Drop for Call<'_> {
    /// A trial that is cancelled has not worked.
    fn drop(&mut self) {
        if self.trial {
            let until = self.begun + self.pause.as_secs_f64();
            *lock(self.redis) = Redis::LeftAlone { until };
        }
    }
}

fn lock(redis: &Mutex<Redis>) -> std::sync::MutexGuard<'_, Redis> {
    redis.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    const SHAPE: NearShape = NearShape {
        entries: 100,
        life: None,
        grace: Duration::from_secs(30),
        pause: Duration::from_secs(1),
    };

    fn near(shape: NearShape) -> NearCache<u64, &'static str> {
        NearCache::new(shape)
    }

    fn copy(value: &'static str, stale: bool) -> Option<Copy<&'static str>> {
        Some(Copy { value, stale })
    }

    #[test]
    fn a_copy_is_good_until_the_deadline_and_not_longer() {
        let near = near(SHAPE);
        assert_eq!(near.get(&1, 0.0), None);
        near.keep(1, "v", 100.0, 40.0);
        assert_eq!(near.get(&1, 99.9), copy("v", false));
        assert_eq!(near.get(&1, 100.0), None);
        near.keep(1, "w", 160.0, 100.2);
        assert_eq!(near.get(&1, 100.2), copy("w", false));
    }

    #[test]
    fn a_life_of_its_own_ends_before_the_deadline_and_never_after_it() {
        let near = near(NearShape { life: Some(Duration::from_secs(5)), ..SHAPE });
        near.keep(1, "v", 100.0, 40.0);
        assert_eq!(near.get(&1, 44.9), copy("v", false));
        assert_eq!(near.get(&1, 45.0), None);
        assert_eq!(near.stand_in(&1, 45.0, 0.0), copy("v", false), "its deadline is not over");
        near.keep(1, "v", 100.0, 98.0);
        assert_eq!(near.get(&1, 100.0), None);
    }

    #[test]
    fn a_copy_stands_in_until_its_grace_is_over() {
        let near = near(SHAPE);
        assert_eq!(near.stand_in(&1, 50.0, 0.5), None);
        near.keep(1, "v", 100.0, 40.0);
        // Twenty seconds of grace are left, and it is good for half of them.
        assert_eq!(near.stand_in(&1, 110.0, 0.5), copy("v", true));
        assert_eq!(near.get(&1, 119.9), copy("v", true));
        assert_eq!(near.get(&1, 120.0), None);
        assert_eq!(near.stand_in(&1, 129.9, 1.0), copy("v", true));
        assert_eq!(near.get(&1, 130.0), None);
        assert_eq!(near.stand_in(&1, 130.0, 1.0), None);
    }

    /// A thousand entries run out over an outage of twelve seconds and are asked for every tenth of one.
    #[test]
    fn what_ran_out_in_an_outage_is_not_made_anew_at_once() {
        let mut rng = StdRng::seed_from_u64(1);
        let near = near(NearShape { entries: 2000, ..SHAPE });
        (0..1000).for_each(|key| near.keep(key, "v", 100.0 + key as f64 * 0.012, 40.0));
        for tenth in 1000..1120 {
            let now = f64::from(tenth) / 10.0;
            for key in 0..1000 {
                let copy = near.get(&key, now).or_else(|| near.stand_in(&key, now, rng.random()));
                assert!(copy.is_some(), "{key} at {now}");
            }
        }
        // What is not good any more is made anew. Graces end 18 to 30 s after the outage, so that
        // evenly spread it is some 40 a second.
        let good = |now: f64| (0..1000).filter(|key| near.get(key, now).is_some()).count();
        for second in 0..30 {
            let now = 112.0 + f64::from(second);
            assert!(good(now) - good(now + 1.0) <= 80, "{} at {now}", good(now) - good(now + 1.0));
        }
        assert!(good(112.0) >= 900 && good(142.0) == 0, "{}", good(112.0));
    }

    #[test]
    fn there_are_never_many_more_than_allowed_and_the_popular_ones_stay() {
        for entries in [1, 31, 100, 1000, 10_000] {
            let near = near(NearShape { entries, ..SHAPE });
            let popular = 0..(entries / 2) as u64;
            for key in popular.clone() {
                near.keep(key, "popular", 100.0, 0.0);
                near.get(&key, 0.0);
            }
            // A scan: ten times as many, each asked for once.
            for key in 0..10 * entries as u64 {
                near.keep(1_000_000 + key, "once", 100.0, 0.0);
            }
            assert!(near.copies.len() <= entries + entries / 30, "{entries}");
            let left = popular.clone().filter(|key| near.get(key, 0.0).is_some()).count();
            // The parts of the cache are not filled quite evenly.
            assert!(left * 10 >= popular.count() * 9, "{left} of {entries} / 2");
        }
    }

    #[test]
    fn after_a_failure_one_trial_at_a_time() {
        let near = near(SHAPE);
        let (first, late) = (near.call(5.0).unwrap(), near.call(5.0).unwrap());
        first.done(false, 6.0);
        assert!(near.leaves_redis_alone());
        assert!(near.call(6.9).is_none());
        let trial = near.call(7.0).unwrap();
        late.done(true, 7.0);
        assert!(near.call(7.5).is_none(), "one that began before says nothing");
        assert!(near.call(60.0).is_none(), "one at a time, however long it takes");
        trial.done(false, 8.0);
        assert!(near.call(8.9).is_none());
        drop(near.call(9.0).unwrap());
        assert!(near.call(9.9).is_none(), "cancelled is not worked");
        near.call(10.0).unwrap().done(true, 10.1);
        assert!(!near.leaves_redis_alone());
        let both = (near.call(10.1), near.call(10.1));
        assert!(both.0.is_some() && both.1.is_some(), "it answers again");
    }

    #[test]
    fn a_call_that_is_cancelled_while_redis_answers_says_nothing() {
        let near = near(SHAPE);
        drop(near.call(5.0).unwrap());
        assert!(near.call(5.0).is_some() && !near.leaves_redis_alone());
    }
}
