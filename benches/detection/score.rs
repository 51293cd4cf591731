//! How well a rule did.

use crate::rules::Alarm;
use crate::world::Run;

/// Alarms closer than this are one, as an operator sees them.
const MERGE: f64 = 120.0;
/// An alarm this long after the end still belongs to the stampede.
pub const AFTER: f64 = 180.0;

/// Sums over many runs.
#[derive(Clone, Default)]
pub struct Score {
    pub stampedes: usize,
    pub delays: Vec<f64>,
    pub causes_right: usize,
    /// Merged alarms where there was no stampede, and the days and runs they came in.
    pub false_alarms: usize,
    pub days: f64,
    pub benign_runs: usize,
    pub benign_runs_alarmed: usize,
}

impl Score {
    /// Takes in what a rule said about one run.
    pub fn add(&mut self, run: &Run, alarms: &[Alarm]) {
        let seconds = run.samples.last().map_or(0.0, |sample| sample.time);
        let belongs = |alarm: &Alarm| {
            run.truth.is_some_and(|(start, end)| alarm.time >= start && alarm.time <= end + AFTER)
        };
        let mut outside = 0;
        let mut last = f64::NEG_INFINITY;
        for alarm in alarms.iter().filter(|alarm| !belongs(alarm)) {
            outside += usize::from(alarm.time - last >= MERGE);
            last = alarm.time;
        }
        self.false_alarms += outside;
        match run.truth {
            Some((start, end)) => {
                self.stampedes += 1;
                self.days += (start + (seconds - end - AFTER).max(0.0)) / 86_400.0;
                if let Some(first) = alarms.iter().find(|alarm| belongs(alarm)) {
                    self.delays.push(first.time - start);
                    self.causes_right += usize::from(first.cause == run.cause);
                }
            }
            None => {
                self.days += seconds / 86_400.0;
                self.benign_runs += 1;
                self.benign_runs_alarmed += usize::from(outside > 0);
            }
        }
    }

    pub fn merge(&mut self, other: Score) {
        self.stampedes += other.stampedes;
        self.delays.extend(other.delays);
        self.causes_right += other.causes_right;
        self.false_alarms += other.false_alarms;
        self.days += other.days;
        self.benign_runs += other.benign_runs;
        self.benign_runs_alarmed += other.benign_runs_alarmed;
    }

    pub fn recall(&self) -> f64 {
        self.delays.len() as f64 / self.stampedes.max(1) as f64
    }

    /// The delay that this share of the detected ones stays within, seconds.
    pub fn delay(&self, share: f64) -> f64 {
        quantile(&self.delays, share)
    }

    pub fn cause_accuracy(&self) -> f64 {
        self.causes_right as f64 / self.delays.len().max(1) as f64
    }

    pub fn false_alarms_per_day(&self) -> f64 {
        self.false_alarms as f64 / self.days.max(f64::MIN_POSITIVE)
    }
}

/// The value that a share of the values does not exceed; not a number if there are none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(index.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}
