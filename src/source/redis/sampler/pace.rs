//! How fast the sampler may go, and how much of the server's time it takes.

use std::time::Duration;

use super::SLICE_KEYS;
use crate::reading::info::Info;

/// The share of one core of the server that sampling may take. Measured by `commandstats` where the
/// server shows them; above it the pace is lowered.
const BUDGET: f64 = 0.005;

/// The pace is never lowered below this share of the configured one.
const LOWEST: f64 = 0.05;

/// What the cost of a key keeps of its past from poll to poll: about the last half minute counts,
/// since a call during which the server's process had to wait for its turn looks like a dear one.
const COST_MEMORY: f64 = 0.97;

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
    /// Share of the configured pace that the budget leaves, up to 1.
    throttle: f64,
    /// Keys asked and the microseconds that they and their scans took, fading.
    cost: (f64, f64),
    /// Smoothed time from question to answer, seconds.
    round_trip: f64,
    lookups: f64,
    scans: f64,
    seen: Option<Seen>,
    server_share: Option<f64>,
}

/// The server's books and ours at the last poll.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at: f64,
    lookups: f64,
    scans: f64,
    /// Calls and microseconds of `PTTL` and of `SCAN`, by whomever.
    pttl: (f64, f64),
    scan: (f64, f64),
}

impl Pace {
    pub(super) fn new(keys_per_second: u32) -> Pace {
        Pace {
            keys_per_second: f64::from(keys_per_second),
            throttle: 1.0,
            cost: (0.0, 0.0),
            round_trip: 0.0,
            lookups: 0.0,
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
        let pace = (self.keys_per_second * self.throttle).min(keys / MIN_ROUND).max(1.0);
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
            scans: self.scans,
            pttl: stat("pttl"),
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
            + ours(seen.scans - before.scans, before.scan, seen.scan);
        self.server_share = Some(usec / 1e6 / (seen.at - before.at));
        self.cost = (COST_MEMORY * self.cost.0 + keys, COST_MEMORY * self.cost.1 + usec);
        let (keys, usec) = self.cost;
        if keys > 0.0 && usec > 0.0 {
            let bearable = BUDGET * 1e6 * keys / usec;
            self.throttle = (bearable / self.keys_per_second.max(1.0)).clamp(LOWEST, 1.0);
        }
    }
}
