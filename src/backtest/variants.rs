//! What each threshold would change: the same history with one threshold moved at a time.

use super::replay::Replay;
use crate::detect::Thresholds;
use crate::reading::Reading;

/// The thresholds that a person would move when there are too many or too few alarms, and by
/// which factors. The rest shape the model, and moving one of them alone says little.
const MOVED: [&str; 6] =
    ["false_alarm_interval", "least_excess", "rise", "rise_points", "clear_after", "merge_within"];

/// The factors on the distance from a threshold's lowest legal value. Twice and half are far enough
/// to show whether it matters at all.
const FACTORS: [f64; 2] = [0.5, 2.0];

/// Replays beside the main one.
pub(super) struct Variants(Vec<(Variant, Replay)>);

/// One threshold at another value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Variant {
    pub(super) key: &'static str,
    pub(super) value: f64,
}

/// What a variant found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub(super) variant: Variant,
    pub(super) incidents: u64,
    pub(super) incident_seconds: f64,
}

impl Variants {
    /// The variants of these thresholds; none unless they are wanted.
    pub(super) fn new(thresholds: &Thresholds, wanted: bool) -> Variants {
        let keys = MOVED.iter().filter(|_| wanted).filter_map(|name| Thresholds::key(name));
        let variants = keys.flat_map(|key| {
            FACTORS.into_iter().filter_map(|factor| {
                let mut moved = thresholds.clone();
                let value = key.low + ((key.get)(thresholds) - key.low) * factor;
                (key.set)(&mut moved, value);
                let legal = key.accepts(value) && moved.check().is_empty();
                legal.then(|| (Variant { key: key.name, value }, Replay::new(moved)))
            })
        });
        Variants(variants.collect())
    }

    /// Takes in a row.
    pub(super) fn take(&mut self, reading: &Reading) {
        for (_, replay) in &mut self.0 {
            replay.take(reading);
        }
    }

    /// What they found.
    pub(super) fn finish(self) -> Vec<Outcome> {
        let outcome = |(variant, replay): (Variant, Replay)| {
            let (_, summary) = replay.finish();
            let incident_seconds = summary.incident_seconds;
            Outcome { variant, incidents: summary.incidents, incident_seconds }
        };
        self.0.into_iter().map(outcome).collect()
    }
}
