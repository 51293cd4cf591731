//! One server's counters, added up by us so that they survive what happens to the server's own.
//!
//! A server's counters start again with its process, with `CONFIG RESETSTAT`, and when another
//! server answers at the same address. Each poll is compared with the one before, the difference is
//! added to totals of our own, and where a difference is not certain it is dropped: a short gap is
//! better than a spike, and nothing is ever negative. Our TTL sampler's own lookups are taken out.

mod change;

use std::collections::VecDeque;

use crate::reading::info::Info;
use crate::snapshot::{NodeTotals, Resets};

use change::{Change, Pace, Seen};

/// Process ids that are remembered. A load balancer has a handful of servers behind it.
const REMEMBERED_RUN_IDS: usize = 8;

/// Lookups that we ourselves caused at one server, cumulative, as far as its answers prove that
/// they happened before the next `INFO`. Keys that expire when we look at them are none of ours:
/// their time was up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OwnLookups {
    /// Lookups that the server counted as hits.
    pub hits: f64,
    /// Lookups that the server counted as misses.
    pub misses: f64,
}

/// Why counters could not simply be subtracted: a closed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetReason {
    /// The server's process started again.
    Restart,
    /// `CONFIG RESETSTAT`.
    Resetstat,
    /// Another server answered.
    NodeChange,
    /// A replica became a primary or the reverse; counters go on.
    RoleChange,
}

impl ResetReason {
    /// Every reason, in label order.
    pub const ALL: [ResetReason; 4] = [
        ResetReason::Restart,
        ResetReason::Resetstat,
        ResetReason::NodeChange,
        ResetReason::RoleChange,
    ];

    /// The value of the `reason` label.
    pub fn as_str(self) -> &'static str {
        match self {
            ResetReason::Restart => "restart",
            ResetReason::Resetstat => "resetstat",
            ResetReason::NodeChange => "node_change",
            ResetReason::RoleChange => "role_change",
        }
    }
}

/// What became of the lookups between two polls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Interval {
    /// There is no poll before this one.
    #[default]
    First,
    /// They are in the totals.
    Counted,
    /// They are not known and left out of the totals; a rate over this interval means nothing.
    Dropped,
}

/// The counters of one server.
#[derive(Debug, Clone, Default)]
pub struct NodeCounters {
    totals: NodeTotals,
    flushes: Option<f64>,
    keys: Option<f64>,
    uptime: Option<f64>,
    /// When another process took this one's place, Unix seconds; `None` while the one that is known
    /// from before answers.
    took_over: Option<f64>,
    resets: [Resets; ResetReason::ALL.len()],
    interval: Interval,
    before: Option<Seen>,
    /// The processes that have answered, newest last. A process that was seen before did not just
    /// start, however young it is.
    run_ids: VecDeque<String>,
    /// Whether commands of ours may or may not have reached the server since the last poll.
    uncertain: bool,
    /// How busy the server was between the last two polls.
    pace: Option<Pace>,
}

impl NodeCounters {
    /// Takes in one poll. `at` is Unix seconds, `own` what our sampler has caused up to this `INFO`.
    pub fn observe(&mut self, at: f64, info: &Info, own: OwnLookups) -> Interval {
        self.keys = info.keys();
        let mut now = Seen::new(at, info, own);
        let uncertain = std::mem::take(&mut self.uncertain);
        self.interval = match self.before.take() {
            None => {
                self.add_flushes(now.flushes().map(|_| 0.0));
                Interval::First
            }
            Some(before) => {
                let change = Change::between(&before, &now, &self.run_ids);
                if !change.keeps_process() {
                    let new = now.run_id.as_ref().is_some_and(|id| !self.run_ids.contains(id));
                    self.took_over = (change == Change::Node && new).then_some(at);
                }
                self.pace = Pace::between(&before, &now);
                let interval = self.add(&before, &now, change, uncertain);
                if change.keeps_calls() {
                    now.carry_calls(&before);
                }
                interval
            }
        };
        let here = self.took_over.map_or(f64::INFINITY, |since| (at - since).max(0.0));
        self.uptime = info.uptime.map(|uptime| uptime.min(here));
        self.remember(&now);
        self.before = Some(now);
        self.interval
    }

    /// Whether a poll without command statistics and all that goes with them would leave open what
    /// happened: another process answers, counters fell, keys vanished, or the server was suddenly
    /// much busier, behind which a reset can hide.
    pub fn wants_more(&self, at: f64, info: &Info) -> bool {
        let Some(before) = &self.before else { return true };
        let now = Seen::new(at, info, OwnLookups::default());
        let ordinary = Change::between(before, &now, &self.run_ids) == Change::None;
        let (Some(usual), Some(pace)) = (self.pace, Pace::between(before, &now)) else {
            return true;
        };
        !ordinary || pace.is_beyond(usual) || now.lost_keys_since(before)
    }

    /// Notes that commands of ours were cut off: nobody knows how many of them the server counted,
    /// so the lookups up to the next poll are dropped.
    pub fn note_uncertain(&mut self) {
        self.uncertain = true;
    }

    /// The sums since the first poll.
    pub fn totals(&self) -> NodeTotals {
        self.totals
    }

    /// Calls of `FLUSHALL` and `FLUSHDB` since the first poll; `None` while the server does not
    /// show them.
    pub fn flushes(&self) -> Option<f64> {
        self.flushes
    }

    /// Keys at the last poll.
    pub fn keys(&self) -> Option<f64> {
        self.keys
    }

    /// Seconds since the process started or took the place of another one, at the last poll. A
    /// failover to a server that has run for long is as much a new beginning as a restart; one that
    /// has answered before, as behind a load balancer, is none.
    pub fn uptime(&self) -> Option<f64> {
        self.uptime
    }

    /// What became of the lookups between the last two polls.
    pub fn interval(&self) -> Interval {
        self.interval
    }

    /// How often counters began anew for this reason, and when last.
    pub fn resets(&self, reason: ResetReason) -> Resets {
        self.resets[reason as usize]
    }

    fn count_reset(&mut self, reason: ResetReason, at: f64) {
        let resets = &mut self.resets[reason as usize];
        *resets = Resets { count: resets.count + 1, last: Some(at) };
    }

    fn add(&mut self, before: &Seen, now: &Seen, change: Change, uncertain: bool) -> Interval {
        match change {
            Change::None => {}
            Change::Restart => self.count_reset(ResetReason::Restart, now.at),
            Change::Reset { .. } | Change::OldReset => {
                self.count_reset(ResetReason::Resetstat, now.at);
            }
            Change::Node => self.count_reset(ResetReason::NodeChange, now.at),
        }
        let roles = before.role.as_ref().zip(now.role.as_ref());
        if change.keeps_process() && roles.is_some_and(|(old, new)| old != new) {
            self.count_reset(ResetReason::RoleChange, now.at);
        }
        let (old, new) = (&before.counters, &now.counters);
        // A process that started after our last poll has seen none of our earlier commands.
        let own = match change {
            Change::Restart => OwnLookups::default(),
            _ => now.own.since(before.own),
        };
        self.totals.expired += change.rise(&[(old.expired, new.expired)], 0).unwrap_or(0.0);
        self.totals.evicted += change.rise(&[(old.evicted, new.evicted)], 0).unwrap_or(0.0);
        self.add_flushes(change.flushes(before, now));
        // A server sets hits and misses back together, so either one that fell speaks for both.
        let pair = [(old.hits, new.hits), (old.misses, new.misses)];
        let unknown = uncertain && change != Change::Restart;
        match (change.rise(&pair, 0), change.rise(&pair, 1)) {
            (Some(hits), Some(misses)) if !unknown => {
                self.totals.hits += (hits - own.hits).max(0.0);
                self.totals.misses += (misses - own.misses).max(0.0);
                Interval::Counted
            }
            _ => Interval::Dropped,
        }
    }

    fn add_flushes(&mut self, calls: Option<f64>) {
        if let Some(calls) = calls {
            self.flushes = Some(self.flushes.unwrap_or(0.0) + calls);
        }
    }

    fn remember(&mut self, now: &Seen) {
        let Some(run_id) = &now.run_id else { return };
        if self.run_ids.contains(run_id) {
            return;
        }
        if self.run_ids.len() == REMEMBERED_RUN_IDS {
            self.run_ids.pop_front();
        }
        self.run_ids.push_back(run_id.clone());
    }
}

impl OwnLookups {
    fn since(self, before: OwnLookups) -> OwnLookups {
        OwnLookups { hits: self.hits - before.hits, misses: self.misses - before.misses }
    }
}
