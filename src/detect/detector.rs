//! The detector of one cache.

use crate::detect::{Change, Incident, SignalKind, State, Thresholds};
use crate::reading::BySource;
use crate::signal::sample::Sample;

/// What the detector says after one sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// Unix seconds of the sample.
    pub time: f64,
    /// Seconds of this sample that count as time in an incident.
    pub incident_seconds: f64,
    /// Misses of this sample beyond the baseline, counted only in an incident.
    pub excess_misses: f64,
    /// The running incident.
    pub running: Option<Incident>,
    /// Evidence over threshold; 1 is the line.
    pub score: f64,
    /// Each signal's own score, in the order of [`SignalKind::ALL`]; 1 is its line, `None` where
    /// its source says nothing.
    pub signals: [Option<f64>; SignalKind::ALL.len()],
    /// Misses a second to be expected at the present traffic.
    pub baseline_misses_per_second: BySource<Option<f64>>,
    /// Whether the deciding source's baseline has seen enough to judge.
    pub ready: bool,
    /// What this sample changed, in order.
    pub changes: Vec<Change>,
}

/// Decides, sample by sample, whether a cache is in a stampede. Memory is bounded.
#[derive(Debug, Clone)]
pub struct Detector {
    _thresholds: Thresholds,
}

impl Detector {
    /// A detector that has seen nothing.
    pub fn new(thresholds: Thresholds) -> Detector {
        Detector { _thresholds: thresholds }
    }

    /// A detector that goes on where another one left off at `state.time`, at `now`.
    pub fn resume(thresholds: Thresholds, _state: State, _now: f64) -> Detector {
        Detector::new(thresholds)
    }

    /// What it has learned, to go on after a restart.
    pub fn state(&self) -> State {
        State::default()
    }

    /// Takes in one sample and decides.
    pub fn observe(&mut self, sample: &Sample) -> Verdict {
        Verdict { time: sample.time, ..Verdict::default() }
    }
}
