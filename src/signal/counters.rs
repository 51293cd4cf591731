//! One server's counters, added up by us so that they survive what happens to the server's own.
//!
//! A server's counters start again with its process, with `CONFIG RESETSTAT`, and when another
//! server answers at the same address. Each poll is compared with the one before, the difference is
//! added to totals of our own, and where a difference is not certain it is dropped: a short gap is
//! better than a spike, and nothing is ever negative. Our TTL sampler's own lookups are taken out.

use std::collections::VecDeque;

use crate::reading::info::{Counters, Info};
use crate::snapshot::NodeTotals;

/// Process ids that are remembered. A load balancer has a handful of servers behind it.
const REMEMBERED_RUN_IDS: usize = 8;

/// Servers count their uptime in whole seconds of a cached clock, so it may be one too high.
const UPTIME_GRAIN: f64 = 1.0;

/// How much more than the time between two polls an uptime may grow before it is another server's,
/// seconds; less than that is a step of the server's wall clock.
const UPTIME_JUMP: f64 = 5.0;

/// Lookups and expiries that we ourselves caused at one server, cumulative, as far as its answers
/// prove that they happened before the next `INFO`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OwnLookups {
    /// Lookups that the server counted as hits.
    pub hits: f64,
    /// Lookups that the server counted as misses.
    pub misses: f64,
    /// Keys that the server expired because we looked at them.
    pub expired: f64,
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
    resets: [u64; ResetReason::ALL.len()],
    interval: Interval,
    before: Option<Seen>,
    /// The processes that have answered, newest last. A process that was seen before did not just
    /// start, however young it is.
    run_ids: VecDeque<String>,
    /// Whether commands of ours may or may not have reached the server since the last poll.
    uncertain: bool,
}

impl NodeCounters {
    /// Takes in one poll. `at` is Unix seconds, `own` what our sampler has caused up to this `INFO`.
    pub fn observe(&mut self, at: f64, info: &Info, own: OwnLookups) -> Interval {
        self.keys = info.keys();
        self.uptime = info.uptime;
        let now = Seen::new(at, info, own);
        let uncertain = std::mem::take(&mut self.uncertain);
        let change = self.before.as_ref().map(|before| self.change(before, &now));
        self.interval = match (self.before.take(), change) {
            (Some(before), Some(change)) => self.add(&before, &now, change, uncertain),
            _ => {
                self.add_flushes(now.flushes().map(|_| 0.0));
                Interval::First
            }
        };
        self.remember(&now);
        self.before = Some(now);
        self.interval
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

    /// Seconds since the process started, at the last poll.
    pub fn uptime(&self) -> Option<f64> {
        self.uptime
    }

    /// What became of the lookups between the last two polls.
    pub fn interval(&self) -> Interval {
        self.interval
    }

    /// How often a reset was seen.
    pub fn resets(&self, reason: ResetReason) -> u64 {
        self.resets[reason as usize]
    }

    fn count_reset(&mut self, reason: ResetReason) {
        self.resets[reason as usize] += 1;
    }

    /// Decides what happened to the server between two polls.
    fn change(&self, before: &Seen, now: &Seen) -> Change {
        let dt = now.at - before.at;
        let just_started = now.uptime.is_some_and(|uptime| uptime < dt + UPTIME_GRAIN);
        match (&before.run_id, &now.run_id) {
            (Some(old), Some(new)) if old == new => Change::within_process(before, now),
            (Some(_), Some(new)) if just_started && !self.run_ids.contains(new) => Change::Restart,
            (Some(_), Some(_)) => Change::Node,
            _ => match (before.uptime, now.uptime) {
                (Some(old), Some(new)) if new < old && just_started => Change::Restart,
                (Some(old), Some(new)) if new < old || new - old > dt + UPTIME_JUMP => Change::Node,
                _ => Change::within_process(before, now),
            },
        }
    }

    fn add(&mut self, before: &Seen, now: &Seen, change: Change, uncertain: bool) -> Interval {
        match change {
            Change::None => {}
            Change::Restart => self.count_reset(ResetReason::Restart),
            Change::Reset { .. } => self.count_reset(ResetReason::Resetstat),
            Change::Node => self.count_reset(ResetReason::NodeChange),
        }
        let roles = before.role.as_ref().zip(now.role.as_ref());
        if change.keeps_process() && roles.is_some_and(|(old, new)| old != new) {
            self.count_reset(ResetReason::RoleChange);
        }
        let (old, new) = (&before.counters, &now.counters);
        // A process that started after our last poll has seen none of our earlier commands.
        let own = match change {
            Change::Restart => OwnLookups::default(),
            _ => now.own.since(before.own),
        };
        self.totals.expired += less(change.rise(&[(old.expired, new.expired)], 0), own.expired);
        self.totals.evicted += less(change.rise(&[(old.evicted, new.evicted)], 0), 0.0);
        self.add_flushes(change.flushes(before.flushes(), now.flushes()));
        // A server sets hits and misses back together, so either one that fell speaks for both.
        let pair = [(old.hits, new.hits), (old.misses, new.misses)];
        let unknown = uncertain && change != Change::Restart;
        match (change.rise(&pair, 0), change.rise(&pair, 1)) {
            (Some(hits), Some(misses)) if !unknown => {
                self.totals.hits += less(Some(hits), own.hits);
                self.totals.misses += less(Some(misses), own.misses);
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
        OwnLookups {
            hits: self.hits - before.hits,
            misses: self.misses - before.misses,
            expired: self.expired - before.expired,
        }
    }
}

/// What one poll showed, as far as the next one is compared with it.
#[derive(Debug, Clone)]
struct Seen {
    at: f64,
    run_id: Option<String>,
    uptime: Option<f64>,
    role: Option<String>,
    counters: Counters,
    calls: Option<Calls>,
    own: OwnLookups,
}

/// Calls of the commands that bear witness; `CONFIG RESETSTAT` sets these back too.
#[derive(Debug, Clone, Copy)]
struct Calls {
    info: f64,
    resetstat: f64,
    flushes: f64,
}

impl Seen {
    fn new(at: f64, info: &Info, own: OwnLookups) -> Seen {
        Seen {
            at,
            run_id: info.run_id.clone(),
            uptime: info.uptime,
            role: info.role.clone(),
            counters: info.counters,
            calls: info.commands.as_ref().map(|commands| Calls {
                info: commands.get("info").calls,
                resetstat: commands.get("config|resetstat").calls,
                flushes: commands.get("flushall").calls + commands.get("flushdb").calls,
            }),
            own,
        }
    }

    fn flushes(&self) -> Option<f64> {
        self.calls.map(|calls| calls.flushes)
    }
}

/// What happened to a server between two polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    Restart,
    /// `all` when the server bears witness that every counter was set back.
    Reset {
        all: bool,
    },
    Node,
}

impl Change {
    /// The same process answered. Its counters may have been set back, even if they have risen past
    /// their old values since, so several are compared and the command statistics are asked:
    /// every poll of ours is a call of `INFO`, which makes that count rise from poll to poll, and
    /// `RESETSTAT` is the first call that they show after it.
    fn within_process(before: &Seen, now: &Seen) -> Change {
        let fell = before.counters.all().into_iter().zip(now.counters.all()).any(has_fallen);
        let Some((old, new)) = before.calls.zip(now.calls) else {
            return if fell { Change::Reset { all: false } } else { Change::None };
        };
        let witness = new.resetstat > old.resetstat
            || new.info < old.info
            || (new.resetstat > 0.0 && new.info <= old.info);
        if fell || witness { Change::Reset { all: new.resetstat > 0.0 } } else { Change::None }
    }

    fn keeps_process(self) -> bool {
        matches!(self, Change::None | Change::Reset { .. })
    }

    /// How much one of several counters rose that are only ever set back together; `None` when
    /// that is not certain.
    fn rise(self, together: &[(Option<f64>, Option<f64>)], which: usize) -> Option<f64> {
        let (old, new) = *together.get(which)?;
        match self {
            Change::None => Some(new? - old?).filter(|rise| *rise >= 0.0),
            Change::Restart | Change::Reset { all: true } => new,
            Change::Reset { all: false } if together.iter().copied().any(has_fallen) => new,
            Change::Reset { all: false } | Change::Node => None,
        }
    }

    fn flushes(self, old: Option<f64>, new: Option<f64>) -> Option<f64> {
        match self {
            Change::Node => new.map(|_| 0.0),
            Change::Reset { all: false } if !has_fallen((old, new)) => {
                Change::None.flushes(old, new)
            }
            _ => self.rise(&[(old, new)], 0).or(new.map(|_| 0.0)),
        }
    }
}

fn has_fallen((old, new): (Option<f64>, Option<f64>)) -> bool {
    matches!((old, new), (Some(old), Some(new)) if new < old)
}

/// A rise without our own share; what is not known adds nothing.
fn less(rise: Option<f64>, own: f64) -> f64 {
    (rise.unwrap_or(0.0) - own).max(0.0)
}
