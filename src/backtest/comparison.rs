//! Our incidents beside the alarms of the usual rule, on the same rows.

use super::usual_rule::{Alarm, UsualRule};
use crate::reading::Reading;

/// Alarms of the rule alone that are told one by one.
const TOLD: usize = 20;

/// Follows the rule and which of its alarms come with an incident of ours.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    rule: UsualRule,
    firing: Option<Firing>,
    /// The incident that is held, by its start, and how long after it the rule spoke.
    spoke: Option<(f64, f64)>,
    outcome: Beside,
}

/// An alarm that is on.
#[derive(Debug)]
struct Firing {
    alarm: Alarm,
    with_ours: bool,
}

/// What the rule said in all.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Beside {
    /// Alarms that came while an incident of ours ran or could still go on.
    pub(super) with_ours: u64,
    /// All other alarms.
    pub(super) alone: u64,
    /// The first of those, each with its end, Unix seconds.
    pub(super) told: Vec<(Alarm, f64)>,
    /// Incidents of ours that it was silent on.
    pub(super) silent: u64,
}

impl Comparison {
    /// Takes in a row, and the start of the incident that is held after it, Unix seconds.
    pub(super) fn take(&mut self, reading: &Reading, held: Option<f64>) {
        let alarm = self.rule.take(reading);
        if self.firing.as_ref().map(|firing| firing.alarm) != alarm {
            self.end_alarm(reading.time);
            self.firing = alarm.map(|alarm| Firing { alarm, with_ours: false });
        }
        if let (Some(firing), Some(start)) = (&mut self.firing, held) {
            firing.with_ours = true;
            if self.spoke.is_none_or(|(of, _)| of != start) {
                self.spoke = Some((start, firing.alarm.start - start));
            }
        }
    }

    /// How many seconds after the incident that began at `start` and is over now the rule spoke,
    /// fewer than 0 if before; `None` when it was silent.
    pub(super) fn of_incident(&mut self, start: f64) -> Option<f64> {
        let after = self.spoke.filter(|(of, _)| *of == start).map(|(_, after)| after);
        self.outcome.silent += u64::from(after.is_none());
        after
    }

    /// What it said up to the last row, at `now`, Unix seconds.
    pub(super) fn finish(mut self, now: f64) -> Beside {
        self.end_alarm(now);
        self.outcome
    }

    fn end_alarm(&mut self, now: f64) {
        let Some(Firing { alarm, with_ours }) = self.firing.take() else { return };
        if with_ours {
            self.outcome.with_ours += 1;
            return;
        }
        self.outcome.alone += 1;
        if self.outcome.told.len() < TOLD {
            self.outcome.told.push((alarm, now));
        }
    }
}
