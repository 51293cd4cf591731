//! One detector over one history.

use crate::detect::{Change, Detector, Incident, SignalKind, Thresholds};
use crate::reading::Reading;
use crate::signal::sample::Samples;

/// Feeds readings to a detector and hands out the incidents that can no longer go on.
#[derive(Debug)]
pub(super) struct Replay {
    samples: Samples,
    detector: Detector,
    merge_within: f64,
    held: Option<Replayed>,
    summary: Summary,
}

/// An incident of a replay.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Replayed {
    pub(super) incident: Incident,
    /// The highest score in it; 1 is the line.
    pub(super) peak_score: f64,
    /// Whether another signal than the misses was over its own line in it.
    pub(super) corroborated: bool,
}

/// A whole replay in numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Summary {
    pub(super) rows: u64,
    /// Unix seconds of the first row; 0 without any.
    pub(super) first: f64,
    /// Unix seconds of the last row.
    pub(super) last: f64,
    pub(super) incidents: u64,
    /// Incidents that rest on the misses alone.
    pub(super) uncorroborated: u64,
    /// Seconds within incidents.
    pub(super) incident_seconds: f64,
    pub(super) excess_misses: f64,
    /// The lowest of the incidents' highest scores.
    pub(super) weakest: Option<f64>,
}

impl Summary {
    /// Seconds from the first to the last row.
    pub(super) fn seconds(&self) -> f64 {
        self.last - self.first
    }
}

impl Replay {
    pub(super) fn new(thresholds: Thresholds) -> Replay {
        Replay {
            samples: Samples::default(),
            merge_within: thresholds.merge_within,
            detector: Detector::new(thresholds),
            held: None,
            summary: Summary::default(),
        }
    }

    /// Takes in a row; gives an incident that is over for good.
    pub(super) fn take(&mut self, reading: &Reading) -> Option<Replayed> {
        if self.summary.rows == 0 {
            self.summary.first = reading.time;
        }
        self.summary.rows += 1;
        self.summary.last = reading.time;
        let sample = self.samples.next(reading)?;
        let verdict = self.detector.observe(&sample);
        self.summary.incident_seconds += verdict.incident_seconds;
        let mut over = self.take_expired(verdict.time);
        for change in verdict.changes {
            match change {
                Change::Started(incident) => {
                    let started = Replayed { incident, peak_score: 0.0, corroborated: false };
                    over = self.held.replace(started).or(over);
                }
                Change::Resumed(incident)
                | Change::Settled(incident)
                | Change::Ended(incident)
                | Change::CauseChanged { incident, .. } => {
                    if let Some(held) = &mut self.held {
                        held.incident = incident;
                    }
                }
            }
        }
        if let (Some(held), Some(running)) = (&mut self.held, verdict.running) {
            held.incident = running;
            held.peak_score = held.peak_score.max(verdict.score);
            held.corroborated |=
                SignalKind::ALL.iter().zip(verdict.signals).any(|(kind, score)| {
                    *kind != SignalKind::MissRatio && score.is_some_and(|s| s >= 1.0)
                });
        }
        over.inspect(|incident| self.summary.add(incident))
    }

    /// The start of the incident that runs or can still go on, Unix seconds.
    pub(super) fn held(&self) -> Option<f64> {
        self.held.as_ref().map(|held| held.incident.started_at)
    }

    /// The last incident, which may still run, and the numbers.
    pub(super) fn finish(mut self) -> (Option<Replayed>, Summary) {
        let last = self.held.take().inspect(|incident| self.summary.add(incident));
        (last, self.summary)
    }

    /// The held incident, when it has been over for too long to go on.
    fn take_expired(&mut self, now: f64) -> Option<Replayed> {
        let ended = self.held.as_ref()?.incident.ended_at?;
        if now - ended > self.merge_within { self.held.take() } else { None }
    }
}

impl Summary {
    fn add(&mut self, replayed: &Replayed) {
        self.incidents += 1;
        self.uncorroborated += u64::from(!replayed.corroborated);
        self.excess_misses += replayed.incident.excess_misses;
        let weakest = self.weakest.unwrap_or(f64::INFINITY);
        self.weakest = Some(weakest.min(replayed.peak_score));
    }
}
