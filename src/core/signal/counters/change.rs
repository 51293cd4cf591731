//! What happened to a server between two polls.

use std::collections::VecDeque;

use super::OwnLookups;
use crate::reading::info::{Counters, Info};

/// Servers count their uptime in whole seconds of a cached clock, so it may be one too high.
const UPTIME_GRAIN: f64 = 1.0;

/// How much more than the time between two polls an uptime may grow before it is another server's,
/// seconds; less than that is a step of the server's wall clock.
const UPTIME_JUMP: f64 = 5.0;

/// A second of so many commands or misses more than twice the usual is out of the ordinary.
const SUDDEN_COMMANDS: f64 = 50.0;

/// See [`SUDDEN_COMMANDS`].
const SUDDEN_MISSES: f64 = 20.0;

/// The share of the keys that may vanish, beyond those expired and evicted, without being asked
/// after: applications delete some of their keys all the time.
const LOST_KEYS: f64 = 0.1;

/// What one poll showed, as far as the next one is compared with it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) at: f64,
    pub(super) run_id: Option<String>,
    uptime: Option<f64>,
    pub(super) role: Option<String>,
    pub(super) counters: Counters,
    keys: Option<f64>,
    /// As of the last poll that showed them.
    calls: Option<Calls>,
    /// Whether that was this poll.
    calls_are_new: bool,
    pub(super) own: OwnLookups,
}

/// Calls of the commands that bear witness; `CONFIG RESETSTAT` sets these back too.
#[derive(Debug, Clone, Copy)]
struct Calls {
    info: f64,
    resetstat: f64,
    flushes: f64,
}

impl Seen {
    pub(super) fn new(at: f64, info: &Info, own: OwnLookups) -> Seen {
        let calls = info.commands.as_ref().map(|commands| Calls {
            info: commands.get("info").calls,
            resetstat: commands.get("config|resetstat").calls,
            flushes: commands.get("flushall").calls + commands.get("flushdb").calls,
        });
        Seen {
            at,
            run_id: info.run_id.clone(),
            uptime: info.uptime,
            role: info.role.clone(),
            counters: info.counters,
            keys: info.keys(),
            calls_are_new: calls.is_some(),
            calls,
            own,
        }
    }

    pub(super) fn flushes(&self) -> Option<f64> {
        self.calls.map(|calls| calls.flushes)
    }

    /// Keeps the calls of an earlier poll when this one did not ask for them.
    pub(super) fn carry_calls(&mut self, before: &Seen) {
        self.calls = self.calls.or(before.calls);
    }

    /// Whether keys went that were neither expired nor evicted.
    pub(super) fn lost_keys_since(&self, before: &Seen) -> bool {
        let Some((old, new)) = before.keys.zip(self.keys) else { return false };
        let gone = |of: fn(&Counters) -> Option<f64>| {
            Change::None.rise(&[(of(&before.counters), of(&self.counters))], 0).unwrap_or(0.0)
        };
        old - new - gone(|c| c.expired) - gone(|c| c.evicted) > LOST_KEYS * old
    }
}

/// How busy a server was between two polls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    commands: f64,
    misses: f64,
}

impl Pace {
    pub(super) fn between(before: &Seen, now: &Seen) -> Option<Pace> {
        let dt = now.at - before.at;
        let of = |old: Option<f64>, new: Option<f64>| Some((new? - old?).max(0.0) / dt);
        (dt > 0.0).then_some(())?;
        Some(Pace {
            commands: of(before.counters.commands, now.counters.commands)?,
            misses: of(before.counters.misses, now.counters.misses)?,
        })
    }

    pub(super) fn is_beyond(self, usual: Pace) -> bool {
        self.commands > 2.0 * usual.commands + SUDDEN_COMMANDS
            || self.misses > 2.0 * usual.misses + SUDDEN_MISSES
    }
}

/// What happened to a server between two polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing: every counter went on.
    None,
    /// The process started, and with it every counter.
    Restart,
    /// The counters were set back; `all` when the server bears witness that each of them was.
    Reset {
        /// Otherwise only those that fell are certain.
        all: bool,
    },
    /// The counters were set back at some time since the command statistics were last looked at,
    /// and have gone on since the last poll as far as they show.
    OldReset,
    /// Another server.
    Node,
}

impl Change {
    /// Compares two polls. A process among `known` did not start in between, however young it is.
    pub(super) fn between(before: &Seen, now: &Seen, known: &VecDeque<String>) -> Change {
        let dt = now.at - before.at;
        let just_started = now.uptime.is_some_and(|uptime| uptime < dt + UPTIME_GRAIN);
        match (&before.run_id, &now.run_id) {
            (Some(old), Some(new)) if old == new => Change::within_process(before, now),
            (Some(_), Some(new)) if just_started && !known.contains(new) => Change::Restart,
            (Some(_), Some(_)) => Change::Node,
            _ => match (before.uptime, now.uptime) {
                (Some(old), Some(new)) if new < old && just_started => Change::Restart,
                (Some(old), Some(new)) if new < old || new - old > dt + UPTIME_JUMP => Change::Node,
                _ => Change::within_process(before, now),
            },
        }
    }

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
        match (fell, witness) {
            (false, false) => Change::None,
            (false, true) if !before.calls_are_new => Change::OldReset,
            _ => Change::Reset { all: new.resetstat > 0.0 },
        }
    }

    /// Whether it is the same process as before.
    pub(super) fn keeps_process(self) -> bool {
        matches!(self, Change::None | Change::Reset { .. } | Change::OldReset)
    }

    /// Whether command statistics that were not asked for are still those of the last time.
    pub(super) fn keeps_calls(self) -> bool {
        self == Change::None
    }

    /// How much one of several counters rose that are only ever set back together; `None` when
    /// that is not certain.
    pub(super) fn rise(self, together: &[(Option<f64>, Option<f64>)], which: usize) -> Option<f64> {
        let (old, new) = *together.get(which)?;
        match self {
            Change::None | Change::OldReset => Some(new? - old?).filter(|rise| *rise >= 0.0),
            Change::Restart | Change::Reset { all: true } => new,
            Change::Reset { all: false } if together.iter().copied().any(has_fallen) => new,
            Change::Reset { all: false } | Change::Node => None,
        }
    }

    /// How many flushes there were; `None` when the later poll does not say.
    pub(super) fn flushes(self, before: &Seen, now: &Seen) -> Option<f64> {
        let (old, new) = (before.flushes(), now.flushes()?);
        let rise = match (self, old) {
            (Change::Node, _) | (Change::None, None) => 0.0,
            (Change::None, Some(old)) => (new - old).max(0.0),
            (Change::Restart | Change::OldReset | Change::Reset { all: true }, _) => new,
            (Change::Reset { all: false }, old) => match old {
                Some(old) if new >= old => new - old,
                _ => new,
            },
        };
        Some(rise)
    }
}

fn has_fallen((old, new): (Option<f64>, Option<f64>)) -> bool {
    matches!((old, new), (Some(old), Some(new)) if new < old)
}
