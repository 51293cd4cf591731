//! One stampede from start to end, and the log of the past ones.

use std::collections::VecDeque;

use crate::detect::{Cause, Verdict};
use crate::reading::Source;

/// One stampede, with what it cost and the evidence that was kept when it was declared.
#[derive(Debug, Clone, PartialEq)]
pub struct Incident {
    /// Why, by the evidence so far; settled within ten seconds of the start.
    pub cause: Cause,
    /// Which source's misses decided it.
    pub source: Source,
    /// Unix seconds of the reading at which it was declared.
    pub started_at: f64,
    /// Unix seconds of its end, `None` while it runs.
    pub ended_at: Option<f64>,
    /// Misses a second that were to be expected at its traffic, at the start.
    pub baseline_misses_per_second: f64,
    /// The highest misses a second of any poll in it.
    pub peak_misses_per_second: f64,
    /// Misses beyond the baseline so far.
    pub excess_misses: f64,
    /// Backend queries beyond the baseline so far, where the applications count them.
    pub excess_loads: Option<f64>,
    /// The figures behind the verdict: name and value, most telling first.
    pub evidence: Vec<(&'static str, f64)>,
}

/// What an observation did to the running incident.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A stampede begins.
    Started(Incident),
    /// The evidence now says another cause.
    CauseChanged {
        /// What it said before.
        from: Cause,
        /// The incident as it stands.
        incident: Incident,
    },
    /// The cause is final and the incident is counted under it.
    Settled(Incident),
    /// The stampede is over.
    Ended(Incident),
    /// It was over, and went on: still the same incident, not counted again.
    Resumed(Incident),
}

/// Running totals and the past incidents of one cache, newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IncidentLog {
    /// The running incident, if any.
    pub running: Option<Incident>,
    /// Ended incidents, newest first, at most the configured count.
    pub past: VecDeque<Incident>,
    /// Incidents by cause, in the order of [`Cause::ALL`]; counted once the cause is settled.
    pub count: [u64; Cause::ALL.len()],
    /// Seconds spent in incidents.
    pub seconds: f64,
    /// Misses beyond the baseline in all incidents.
    pub excess_misses: f64,
}

impl IncidentLog {
    /// Takes in what one observation decided, keeping at most `keep` past incidents.
    pub fn apply(&mut self, _verdict: &Verdict, _keep: usize) {}
}
