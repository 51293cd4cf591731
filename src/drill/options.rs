//! What a drill was asked for.

use std::path::PathBuf;
use std::time::Duration;

use super::backend::postgres::DatabaseUrl;
use super::error::DrillError;
use super::protections::Protections;
use super::scenario::Scenario;
use super::workload::Arrivals;
use crate::config::RedisConfig;

/// Where the drill takes place.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// On a redis-server of its own, which ends with it.
    Private,
    /// On this server.
    Given {
        /// How to reach it.
        server: RedisConfig,
        /// What to do when it holds keys that no drill wrote.
        foreign: ForeignData,
    },
}

/// What to do on a server with other people's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignData {
    /// Leave it alone.
    Refuse,
    /// Go on beside them (`--yes-this-server`).
    Accept,
}

/// What to write besides the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// A line a second, and a table at the end.
    Text,
    /// The table as Markdown, for a page of results.
    Markdown,
    /// One object at the end of each run.
    Json,
}

/// No time of a drill is longer: it is a fire drill, and sums of its times must stay times.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Keys beyond these take gigabytes for their books alone.
const MOST_KEYS: u32 = 10_000_000;
/// Each process has its own filter, flights and limits.
const MOST_PROCESSES: usize = 1000;
/// Bytes of all values together: the server holds them, and some protections a second copy of each.
const MOST_DATA: u64 = 1 << 30;

/// A drill, with the defaults of `--help`.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What befalls the cache.
    pub scenario: Scenario,
    /// One run for each of these, in turn and with the same seed; at least one.
    pub protections: Vec<Protections>,
    /// Where.
    pub target: Target,
    /// A real database to load from; without it the drill plays one.
    pub backend: Option<DatabaseUrl>,
    /// Requests a second, above zero and at most a million.
    pub rate: f64,
    /// How they are spread over time.
    pub arrivals: Arrivals,
    /// Keys that exist, from one to ten million.
    pub keys: u32,
    /// Exponent of Zipf's law over the keys; 0 makes all equally popular.
    pub zipf: f64,
    /// Share of the requests for the hot key, 0 to 1. Only in the scenario `hot_key`.
    pub hot_share: f64,
    /// Time of load, at most a day as every other time here; the scenario strikes after
    /// [`Options::LEAD`] of it.
    pub duration: Duration,
    /// Life of an entry.
    pub ttl: Duration,
    /// Time of one load at the backend.
    pub load_time: Duration,
    /// Time of a load of the hot key, if it is another one.
    pub hot_load_time: Option<Duration>,
    /// Loads at once at the backend.
    pub pool: usize,
    /// Loads that may wait for a place in the pool; more are refused.
    pub queue: usize,
    /// Bytes of a value; times [`Options::keys`] at most 1 GiB.
    pub value_bytes: usize,
    /// Processes of the service, from one to a thousand; each has its own flights and limits.
    pub processes: usize,
    /// Life of a lock; three loads unless given.
    pub lock_ttl: Option<Duration>,
    /// `beta` of `xfetch` and `xfetch_linear`, above 0.
    pub beta: f64,
    /// Share by which `jitter` lengthens or shortens a life, 0 to 1.
    pub jitter: f64,
    /// How long past its deadline `stale_while_revalidate` serves a value, and `near_cache` one in place of
    /// what it cannot have.
    pub grace: Duration,
    /// Loads at once that `bulkhead` allows a process; its share of the pool unless given.
    pub bulkhead: Option<usize>,
    /// Entries that `near_cache` keeps in a process; nine tenths of the keys unless given.
    pub near_keys: Option<usize>,
    /// The longest that `near_cache` answers without asking Redis, if not until the entry's deadline.
    pub near_life: Option<Duration>,
    /// Seed of arrival times and keys.
    pub seed: u64,
    /// Where to put what the exporter saw, a trace for each run that `backtest` replays.
    pub record_dir: Option<PathBuf>,
    /// What to write.
    pub output: Output,
}

impl Options {
    /// The share of the duration that is calm, before the scenario strikes: enough to learn what is
    /// usual, and leaves more than half for what follows.
    pub const LEAD: f64 = 0.4;

    /// The share of the duration after which a scenario that does not end by itself relents.
    pub const RELENT: f64 = 0.6;

    /// The share of the keys that a near cache keeps unless told otherwise. By Zipf's law the rest of 2000
    /// keys takes 1.3 % of the requests, which is less than what misses in a calm minute (1.8 %): where
    /// Redis is away, no more of them reach the backend than usual.
    const NEAR: f64 = 0.9;

    /// Whether the numbers make a drill.
    ///
    /// # Errors
    /// Says which one does not, and what it may be.
    pub fn check(&self) -> Result<(), DrillError> {
        let share = 0.0..=1.0;
        let life = Duration::from_millis(1)..=LONGEST;
        let rules = [
            ("protections", "at least one", !self.protections.is_empty()),
            ("rate", "above 0 and at most 1000000", self.rate > 0.0 && self.rate <= 1e6),
            ("keys", "from 1 to 10000000", (1..=MOST_KEYS).contains(&self.keys)),
            ("zipf", "from 0 to 10", (0.0..=10.0).contains(&self.zipf)),
            ("hot share", "from 0 to 1", share.contains(&self.hot_share)),
            ("beta", "above 0 and at most 100", self.beta > 0.0 && self.beta <= 100.0),
            ("jitter", "from 0 to 1", share.contains(&self.jitter)),
            (
                "duration",
                "above 0 and at most 24h",
                !self.duration.is_zero() && self.duration <= LONGEST,
            ),
            ("ttl", "from 1ms to 24h", life.contains(&self.ttl)),
            ("load time", "at most 24h", self.load_time <= LONGEST),
            ("hot load time", "at most 24h", self.hot_load_time.is_none_or(|time| time <= LONGEST)),
            ("lock ttl", "from 1ms to 24h", self.lock_ttl.is_none_or(|time| life.contains(&time))),
            ("grace", "at most 24h", self.grace <= LONGEST),
            ("pool", "at least 1", self.pool > 0),
            ("bulkhead", "at least 1", self.bulkhead != Some(0)),
            ("near keys", "at least 1", self.near_keys != Some(0)),
            (
                "near life",
                "from 1ms to 24h",
                self.near_life.is_none_or(|time| life.contains(&time)),
            ),
            (
                "product of --keys and --value-bytes",
                "at most 1073741824",
                u64::from(self.keys).saturating_mul(self.value_bytes as u64) <= MOST_DATA,
            ),
            ("processes", "from 1 to 1000", (1..=MOST_PROCESSES).contains(&self.processes)),
        ];
        match rules.iter().find(|(_, _, met)| !met) {
            Some((name, legal, _)) => Err(DrillError::Option { name, legal }),
            None => Ok(()),
        }
    }

    /// Entries of a near cache.
    pub fn near_keys(&self) -> usize {
        let share = (f64::from(self.keys) * Options::NEAR).ceil() as usize;
        self.near_keys.unwrap_or(share).max(1)
    }

    /// How long the calm before is.
    pub fn lead(&self) -> Duration {
        self.duration.mul_f64(Options::LEAD)
    }
}

impl Default for Options {
    /// A small service: a minute of 2000 requests a second over 2000 keys that live for a minute
    /// and take 200 ms to load, before a database with 100 connections. The hot key has such a share
    /// that its burst of one load is a stampede also when a poll cuts it in half.
    fn default() -> Options {
        Options {
            scenario: Scenario::Steady,
            protections: vec![Protections::default()],
            target: Target::Private,
            backend: None,
            rate: 2000.0,
            arrivals: Arrivals::Poisson,
            keys: 2000,
            zipf: 1.0,
            hot_share: 0.8,
            duration: Duration::from_secs(60),
            ttl: Duration::from_secs(60),
            load_time: Duration::from_millis(200),
            hot_load_time: None,
            pool: 100,
            queue: 1000,
            value_bytes: 1000,
            processes: 1,
            lock_ttl: None,
            beta: 1.0,
            jitter: 0.2,
            grace: Duration::from_secs(30),
            bulkhead: None,
            near_keys: None,
            near_life: None,
            seed: 1,
            record_dir: None,
            output: Output::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_make_no_drill_are_named() {
        assert!(Options::default().check().is_ok());
        let error = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.check().unwrap_err().to_string()
        };
        assert_eq!(error(|o| o.rate = 0.0), "the rate must be above 0 and at most 1000000");
        assert_eq!(error(|o| o.rate = f64::NAN), "the rate must be above 0 and at most 1000000");
        assert_eq!(error(|o| o.keys = 0), "the keys must be from 1 to 10000000");
        assert_eq!(error(|o| o.keys = u32::MAX), "the keys must be from 1 to 10000000");
        assert_eq!(error(|o| o.processes = 1001), "the processes must be from 1 to 1000");
        let data = "the product of --keys and --value-bytes must be at most 1073741824";
        assert_eq!(error(|o| o.value_bytes = usize::MAX), data);
        assert_eq!(error(|o| (o.keys, o.value_bytes) = (1024, (1 << 20) + 1)), data);
        let limit = Options { keys: 1024, value_bytes: 1 << 20, ..Options::default() };
        assert!(limit.check().is_ok());
        assert_eq!(error(|o| o.hot_share = 1.5), "the hot share must be from 0 to 1");
        let lock = "the lock ttl must be from 1ms to 24h";
        assert_eq!(error(|o| o.lock_ttl = Some(Duration::from_micros(1))), lock);
        assert_eq!(error(|o| o.bulkhead = Some(0)), "the bulkhead must be at least 1");
        assert_eq!(error(|o| o.near_keys = Some(0)), "the near keys must be at least 1");
        assert_eq!(error(|o| o.protections.clear()), "the protections must be at least one");
    }

    /// On few keys, misses are taken for a stampede from a twentieth of a second's lookups on.
    #[test]
    fn half_a_burst_of_the_hot_key_is_a_stampede() {
        let Options { rate, hot_share, load_time, .. } = Options::default();
        let burst = rate * hot_share * load_time.as_secs_f64();
        assert!(burst / 2.0 >= 1.5 * rate / 20.0, "{burst} misses");
    }

    #[test]
    fn a_near_cache_keeps_nine_tenths_and_at_least_one() {
        let near_keys =
            |keys, near_keys| Options { keys, near_keys, ..Options::default() }.near_keys();
        assert_eq!(
            [near_keys(2000, None), near_keys(1, None), near_keys(9, Some(3))],
            [1800, 1, 3]
        );
    }

    #[test]
    fn no_time_is_longer_than_a_day() {
        type Set = fn(&mut Options, Duration);
        let day = Duration::from_secs(86_400);
        let times: [(&str, Set); 7] = [
            ("the duration must be above 0 and at most 24h", |o, t| o.duration = t),
            ("the ttl must be from 1ms to 24h", |o, t| o.ttl = t),
            ("the load time must be at most 24h", |o, t| o.load_time = t),
            ("the hot load time must be at most 24h", |o, t| o.hot_load_time = Some(t)),
            ("the lock ttl must be from 1ms to 24h", |o, t| o.lock_ttl = Some(t)),
            ("the grace must be at most 24h", |o, t| o.grace = t),
            ("the near life must be from 1ms to 24h", |o, t| o.near_life = Some(t)),
        ];
        for (refusal, set) in times {
            let mut options = Options::default();
            set(&mut options, day);
            assert!(options.check().is_ok(), "{refusal}");
            set(&mut options, Duration::MAX);
            assert_eq!(options.check().unwrap_err().to_string(), refusal);
        }
    }
}
