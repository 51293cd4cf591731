//! The running incident and what is noted about it, on the detector's own clock.

use crate::detect::history::Facts;
use crate::detect::{Cause, Incident, Suspect, SuspectSource};
use crate::signal::sample::Sample;

/// An incident while it runs, and for a while after.
#[derive(Debug, Clone)]
pub(crate) struct Episode {
    /// What is known about it.
    pub(crate) incident: Incident,
    /// How strong the sign of its cause is, 0 the strongest.
    pub(crate) rank: usize,
    /// When the misses began to rise.
    pub(crate) onset: f64,
    /// When it was declared.
    pub(crate) declared: f64,
    /// When it was last declared or resumed.
    pub(crate) alarmed: f64,
    /// When it ended, if it did.
    pub(crate) ended: f64,
    /// Whether its cause is final and counted.
    pub(crate) settled: bool,
    /// Seconds since anything was known of its lookups.
    pub(crate) silence: f64,
}

impl Episode {
    /// One that is declared now.
    pub(crate) fn new(incident: Incident, rank: usize, onset: f64, now: f64) -> Episode {
        Episode {
            incident,
            rank,
            onset,
            declared: now,
            alarmed: now,
            ended: f64::NEG_INFINITY,
            settled: false,
            silence: 0.0,
        }
    }

    /// One that another process has declared; `clock` turns Unix seconds into the detector's own.
    pub(crate) fn restored(
        incident: Incident,
        settled: bool,
        clock: impl Fn(f64) -> f64,
    ) -> Episode {
        let declared = clock(incident.started_at);
        let ended = incident.ended_at.map_or(f64::NEG_INFINITY, clock);
        Episode {
            incident,
            // Its evidence is gone, so it stays what it is.
            rank: 0,
            onset: declared,
            declared,
            alarmed: declared,
            ended,
            settled,
            silence: 0.0,
        }
    }

    /// It went on after it had ended.
    pub(crate) fn resume(&mut self, now: f64) {
        self.incident.ended_at = None;
        self.ended = f64::NEG_INFINITY;
        self.alarmed = now;
        self.silence = 0.0;
    }

    /// These keys are to blame, as far as they fit its cause, where any do.
    pub(crate) fn blame(&mut self, suspects: &[Suspect]) {
        let fitting = suspects.iter().filter(|suspect| fits(suspect, self.incident.cause));
        let fitting: Vec<Suspect> = fitting.cloned().collect();
        if !fitting.is_empty() {
            self.incident.suspects = fitting;
        }
    }

    /// The evidence says another cause; gives the one before.
    pub(crate) fn change_cause(&mut self, cause: Cause) -> Cause {
        self.incident.suspects.retain(|suspect| fits(suspect, cause));
        std::mem::replace(&mut self.incident.cause, cause)
    }

    /// It is over.
    pub(crate) fn end(&mut self, time: f64, now: f64) {
        self.incident.ended_at = Some(time);
        self.ended = now;
    }

    /// Adds up what one poll of it cost.
    pub(crate) fn record(
        &mut self,
        facts: &Facts,
        sample: &Sample,
        excess_misses: f64,
        excess_loads: Option<f64>,
    ) {
        let incident = &mut self.incident;
        incident.excess_misses += excess_misses;
        if let Some(lookups) = facts.lookups.get(incident.source) {
            let rate = lookups.misses / facts.seconds;
            incident.peak_misses_per_second = incident.peak_misses_per_second.max(rate);
        }
        if let Some(excess) = excess_loads {
            incident.excess_loads = Some(incident.excess_loads.unwrap_or(0.0) + excess);
        }
        if let Some(loads) = facts.loads {
            let peak = incident.peak_loads_per_second.unwrap_or(0.0);
            incident.peak_loads_per_second = Some(peak.max(loads / facts.seconds));
        }
        let worse = facts.tail.is_some() && sample.latency_p99 > incident.latency_p99;
        if worse {
            (incident.latency_p50, incident.latency_p99) = (sample.latency_p50, sample.latency_p99);
        }
    }
}

/// A key that went like many others is no sign where one key is missed, or none that was there.
fn fits(suspect: &Suspect, cause: Cause) -> bool {
    suspect.source != SuspectSource::Sampled || cause.takes_many_keys()
}
