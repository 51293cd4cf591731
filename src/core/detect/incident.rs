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
    /// Evidence over threshold when it was declared; 1 is the line.
    pub score: f64,
    /// Probability of at least so many misses by chance, when it was declared; 0 where it is too
    /// small for a double, `None` where no statistics decided.
    pub p_value: Option<f64>,
    /// Misses a second that were to be expected at its traffic, at the start.
    pub baseline_misses_per_second: f64,
    /// The highest misses a second of any poll in it.
    pub peak_misses_per_second: f64,
    /// Misses beyond the baseline so far.
    pub excess_misses: f64,
    /// Backend queries a second that were to be expected at the start, where the applications
    /// count them.
    pub baseline_loads_per_second: Option<f64>,
    /// The highest backend queries a second of any poll in it.
    pub peak_loads_per_second: Option<f64>,
    /// Backend queries beyond the baseline so far, where the applications count them.
    pub excess_loads: Option<f64>,
    /// Median load latency at its worst poll (by p99), seconds.
    pub latency_p50: Option<f64>,
    /// The highest 99th percentile of the load latency, seconds.
    pub latency_p99: Option<f64>,
    /// The figures behind the verdict: name and value, most telling first.
    pub evidence: Vec<(&'static str, f64)>,
    /// The keys to blame, by pattern, the worst first; empty while nobody looked at keys.
    pub suspects: Vec<Suspect>,
}

/// Keys of one shape that took a share of the misses.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspect {
    /// The keys' common shape, such as `user:*`, or the key itself when it is only one.
    pub pattern: Vec<u8>,
    /// Their share of what was looked at, 0 to 1; of what, [`Suspect::source`] says.
    pub share: f64,
    /// One of them, where key names may be shown.
    pub example: Option<Vec<u8>>,
    /// How it is known.
    pub source: SuspectSource,
}

/// How it is known that keys are to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuspectSource {
    /// The server named the missed keys; the share is of them.
    Missed,
    /// The applications count misses by a label, whose value is the pattern; the share is of the
    /// extra misses.
    App,
    /// Sampled keys that ran out or vanished as the misses rose, whether anybody missed them or
    /// not; the share is of those.
    Sampled,
}

impl SuspectSource {
    /// Every source, the surest first.
    pub const ALL: [SuspectSource; 3] =
        [SuspectSource::Missed, SuspectSource::App, SuspectSource::Sampled];

    /// As the API and the log write it.
    pub fn as_str(self) -> &'static str {
        match self {
            SuspectSource::Missed => "missed",
            SuspectSource::App => "app",
            SuspectSource::Sampled => "sampled",
        }
    }
}

/// The name of a figure as evidence has it, if there is one of that name.
pub fn figure(name: &str) -> Option<&'static str> {
    FIGURES.into_iter().find(|figure| *figure == name)
}

/// Every figure that evidence may hold.
const FIGURES: [&str; 19] = [
    "scene_seconds",
    "miss_ratio",
    "baseline_miss_ratio",
    "window_seconds",
    "errors",
    "flushes",
    "restarted",
    "keys_lost_share",
    "not_found",
    "hot_key_share",
    "due_ratio",
    "expired",
    "evicted",
    "misses_per_expiry",
    "lock_failed",
    "lock_acquired",
    "coalesced",
    "loads",
    "tail_ratio",
];

impl Incident {
    /// An incident that has just begun and of which nothing else is known.
    pub fn new(cause: Cause, source: Source, started_at: f64) -> Incident {
        Incident {
            cause,
            source,
            started_at,
            ended_at: None,
            score: 0.0,
            p_value: None,
            baseline_misses_per_second: 0.0,
            peak_misses_per_second: 0.0,
            excess_misses: 0.0,
            baseline_loads_per_second: None,
            peak_loads_per_second: None,
            excess_loads: None,
            latency_p50: None,
            latency_p99: None,
            evidence: Vec::new(),
            suspects: Vec::new(),
        }
    }

    /// The figure behind the verdict of that name, if it was kept.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.evidence.iter().find(|(key, _)| *key == name).map(|&(_, value)| value)
    }
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
    /// The cause is final and the incident is counted under it. Comes once an incident, before its
    /// end.
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
    pub fn apply(&mut self, verdict: &Verdict, keep: usize) {
        for change in &verdict.changes {
            match change {
                Change::Started(_) | Change::CauseChanged { .. } => {}
                Change::Settled(incident) => self.count[incident.cause as usize] += 1,
                Change::Ended(incident) => self.past.push_front(incident.clone()),
                Change::Resumed(incident) => {
                    self.past.retain(|past| past.started_at != incident.started_at);
                }
            }
        }
        self.past.truncate(keep);
        self.running.clone_from(&verdict.running);
        self.seconds += verdict.incident_seconds;
        self.excess_misses += verdict.excess_misses;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(started_at: f64) -> Incident {
        Incident::new(Cause::HotKey, Source::Redis, started_at)
    }

    fn verdict(running: Option<Incident>, changes: Vec<Change>) -> Verdict {
        Verdict {
            running,
            changes,
            incident_seconds: 1.0,
            excess_misses: 5.0,
            ..Verdict::default()
        }
    }

    #[test]
    fn counts_once_when_settled_and_keeps_the_newest() {
        let mut log = IncidentLog::default();
        for start in [100.0, 400.0, 700.0] {
            log.apply(&verdict(Some(at(start)), vec![Change::Started(at(start))]), 2);
            assert_eq!(log.running, Some(at(start)));
            let ended = Incident { ended_at: Some(start + 20.0), ..at(start) };
            let changes = vec![Change::Settled(at(start)), Change::Ended(ended)];
            log.apply(&verdict(None, changes), 2);
            assert_eq!(log.running, None);
        }
        assert_eq!(log.count[Cause::HotKey as usize], 3);
        assert_eq!(log.count.iter().sum::<u64>(), 3);
        let starts: Vec<f64> = log.past.iter().map(|incident| incident.started_at).collect();
        assert_eq!(starts, [700.0, 400.0]);
        assert_eq!((log.seconds, log.excess_misses), (6.0, 30.0));
    }

    #[test]
    fn a_resumed_incident_is_running_again_and_not_counted_again() {
        let mut log = IncidentLog::default();
        let changes = vec![Change::Settled(at(10.0)), Change::Ended(at(10.0))];
        log.apply(&verdict(None, changes), 5);
        log.apply(&verdict(Some(at(10.0)), vec![Change::Resumed(at(10.0))]), 5);
        assert_eq!((log.past.len(), log.count[0]), (0, 1));
        log.apply(&verdict(None, vec![Change::Ended(at(10.0))]), 5);
        assert_eq!((log.past.len(), log.count[0]), (1, 1));
    }

    #[test]
    fn keeping_none_keeps_the_counts() {
        let mut log = IncidentLog::default();
        let changes = vec![Change::Settled(at(10.0)), Change::Ended(at(10.0))];
        log.apply(&verdict(None, changes), 0);
        assert_eq!((log.past.len(), log.count[0]), (0, 1));
    }
}
