//! How fast the sampler may go, and how much of the server's time it takes.

use std::time::Duration;

use super::SLICE_KEYS;
use crate::config::TtlConfig;
use crate::elementary::exp;
use crate::reading::info::Info;

/// What a key is taken to cost with its share of a scan before it was measured, microseconds: twice
/// what servers on slow machines need.
const ASSUMED_COST: f64 = 3.0;

/// The cost of a key fades with this time constant, seconds, since a call during which the server's
/// process had to wait for its turn looks like a dear one.
const COST_MEMORY: f64 = 30.0;

/// One round over a small key space takes at least this long, seconds: asking the same keys more
/// often would say nothing new.
const MIN_ROUND: f64 = 5.0;

/// Time between two pipelines, seconds: the least keeps a fast pace from becoming a busy loop, the
/// most keeps a slow one moving.
const MIN_INTERVAL: f64 = 0.02;
const MAX_INTERVAL: f64 = 1.0;

/// The longest time kept free before a poll, seconds: polls are at least 100 ms apart, and where
/// questions take longer than this, waiting for none would stop them altogether.
const MAX_ROOM: f64 = 0.03;

/// Weight of the newest measured round trip.
const ROUND_TRIP_WEIGHT: f64 = 0.2;

/// How many keys to ask, and how long to wait until the next ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Portion {
    pub(super) count: usize,
    pub(super) interval: Duration,
}

/// The sampler's pace.
#[derive(Debug)]
pub(super) struct Pace {
    keys_per_second: f64,
    /// Share of one core of the server that sampling may take.
    budget: f64,
    /// Keys a second that the budget allows.
    bearable: f64,
    /// Keys asked and the microseconds that they and their scans took, fading.
    cost: (f64, f64),
    /// Smoothed time from question to answer, seconds.
    round_trip: f64,
    lookups: f64,
    uses: f64,
    scans: f64,
    seen: Option<Seen>,
    server_share: Option<f64>,
}

/// The server's books and ours at the last poll.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at: f64,
    lookups: f64,
    uses: f64,
    scans: f64,
    /// Calls and microseconds of `PTTL`, of `OBJECT FREQ` and of `SCAN`, by whomever.
    pttl: (f64, f64),
    object: (f64, f64),
    scan: (f64, f64),
}

impl Pace {
    pub(super) fn new(config: &TtlConfig) -> Pace {
        Pace {
            keys_per_second: f64::from(config.keys_per_second),
            budget: config.server_budget,
            bearable: config.server_budget * 1e6 / ASSUMED_COST,
            cost: (0.0, 0.0),
            round_trip: 0.0,
            lookups: 0.0,
            uses: 0.0,
            scans: 0.0,
            seen: None,
            server_share: None,
        }
    }

    /// The next portion for a server of so many keys; `None` when sampling is off.
    pub(super) fn slice(&self, keys: f64) -> Option<Portion> {
        if self.keys_per_second <= 0.0 {
            return None;
        }
        let pace = self.keys_per_second.min(self.bearable).min(keys / MIN_ROUND).max(1.0);
        let interval = (SLICE_KEYS / pace).clamp(MIN_INTERVAL, MAX_INTERVAL);
        let count = (pace * interval).ceil() as usize;
        Some(Portion { count, interval: Duration::from_secs_f64(interval) })
    }

    /// How long before the next poll the last pipeline may start.
    pub(super) fn room(&self) -> Duration {
        const SPARE: f64 = 0.002;
        Duration::from_secs_f64((2.0 * self.round_trip + SPARE).min(MAX_ROOM))
    }

    /// Notes how long a pipeline took, seconds.
    pub(super) fn took(&mut self, seconds: f64) {
        self.round_trip += ROUND_TRIP_WEIGHT * (seconds.clamp(0.0, 1.0) - self.round_trip);
    }

    /// Notes how many keys were asked for their use.
    pub(super) fn asked_use(&mut self, keys: f64) {
        self.uses += keys;
    }

    /// Notes what was asked.
    pub(super) fn asked(&mut self, lookups: f64, scan: bool) {
        self.lookups += lookups;
        self.scans += f64::from(u8::from(scan));
    }

    /// The share of one core of the server that sampling took between the last two polls.
    pub(super) fn server_share(&self) -> Option<f64> {
        self.server_share
    }

    /// Takes in a poll at `now` and adapts the pace to what sampling cost.
    pub(super) fn observe(&mut self, now: f64, info: &Info) {
        let Some(commands) = &info.commands else { return };
        let stat = |name| {
            let stat = commands.get(name);
            (stat.calls, stat.usec.unwrap_or(0.0))
        };
        let seen = Seen {
            at: now,
            lookups: self.lookups,
            uses: self.uses,
            scans: self.scans,
            pttl: stat("pttl"),
            object: if commands.get("object|freq").calls > 0.0 {
                stat("object|freq")
            } else {
                stat("object")
            },
            scan: stat("scan"),
        };
        let Some(before) = self.seen else {
            self.seen = Some(seen);
            return;
        };
        // A second's worth at least, so that one slow call is not taken for the cost of all.
        if seen.at - before.at < 1.0 {
            return;
        }
        self.seen = Some(seen);
        let ours = |calls: f64, before: (f64, f64), after: (f64, f64)| {
            let (all, usec) = (after.0 - before.0, after.1 - before.1);
            // Others use these commands too: ours is our share of the calls.
            if all > 0.0 && usec > 0.0 { usec * (calls / all).min(1.0) } else { 0.0 }
        };
        let keys = seen.lookups - before.lookups;
        let usec = ours(keys, before.pttl, seen.pttl)
            + ours(seen.uses - before.uses, before.object, seen.object)
            + ours(seen.scans - before.scans, before.scan, seen.scan);
        let seconds = seen.at - before.at;
        self.server_share = Some(usec / 1e6 / seconds);
        let kept = exp(-seconds / COST_MEMORY);
        self.cost = (kept * self.cost.0 + keys, kept * self.cost.1 + usec);
        let (keys, usec) = self.cost;
        if keys > 0.0 && usec > 0.0 {
            self.bearable = self.budget * 1e6 * keys / usec;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::info;

    /// A second at a server on which we looked at so many keys, each for so many microseconds.
    struct Server {
        pace: Pace,
        now: f64,
        calls: f64,
        usec: f64,
    }

    impl Server {
        fn second(&mut self, ours: f64, others: f64, cost: f64) -> f64 {
            self.now += 1.0;
            self.calls += ours + others;
            self.usec += (ours + others) * cost;
            self.pace.asked(ours, false);
            let (calls, usec) = (self.calls, self.usec);
            let text = format!("# Commandstats\r\ncmdstat_pttl:calls={calls},usec={usec}\r\n");
            self.pace.observe(self.now, &info::parse(text.as_bytes()).0);
            let portion = self.pace.slice(1e6).expect("a portion");
            portion.count as f64 / portion.interval.as_secs_f64()
        }
    }

    fn server(keys_per_second: u32, server_budget: f64) -> Server {
        let config = TtlConfig { keys_per_second, server_budget, ..TtlConfig::default() };
        Server { pace: Pace::new(&config), now: 0.0, calls: 0.0, usec: 0.0 }
    }

    /// 0.1 % of a core are 1000 us a second: 200 keys of 5 us each. Before the first measurement
    /// 3 us are assumed, so 333.
    #[test]
    fn the_budget_sets_the_pace_by_what_a_key_costs() {
        let mut server = server(10_000, 0.001);
        let assumed = server.second(100.0, 0.0, 5.0);
        assert!((333.0..=350.0).contains(&assumed), "{assumed}");
        let measured = server.second(100.0, 0.0, 5.0);
        assert!((200.0..=210.0).contains(&measured), "{measured}");
        assert_eq!(server.pace.server_share().map(|s| (s * 1e6).round()), Some(500.0));
        // Somebody else's calls are not ours.
        server.second(100.0, 300.0, 5.0);
        assert_eq!(server.pace.server_share().map(|s| (s * 1e6).round()), Some(500.0));
        // Ten times as dear for a while, then cheap again; it follows both, and stays at a key a
        // second at least.
        let dear = (0..200).map(|_| server.second(20.0, 0.0, 50_000.0)).last();
        assert_eq!(dear, Some(1.0));
        let cheap = (0..600).map(|_| server.second(200.0, 0.0, 0.5)).last().expect("a pace");
        assert!((1900.0..=2100.0).contains(&cheap), "{cheap}");
    }

    #[test]
    fn a_pace_within_the_budget_is_kept() {
        let mut server = server(100, 0.005);
        let paces: Vec<f64> = (0..10).map(|_| server.second(100.0, 0.0, 1.0)).collect();
        assert!(paces.iter().all(|pace| (100.0..101.0).contains(pace)), "{paces:?}");
    }
}
