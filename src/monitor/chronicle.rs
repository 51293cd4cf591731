//! What is written down about one cache: its trace, its incidents in a file, its changes in the log.

use std::path::Path;
use std::sync::Arc;

use tracing::{info, warn};

use crate::detect::{Change, advice};
use crate::incident_file::IncidentFile;
use crate::reading::Reading;
use crate::trace::Recorder;

/// Writes down what happens to one cache. Watching matters more than writing: what cannot be written
/// is said in the log, and that is all.
pub(super) struct Chronicle {
    cache: Arc<str>,
    recorder: Option<Recorder>,
    incident_file: Option<IncidentFile>,
}

impl Chronicle {
    /// Writes to the log alone.
    pub(super) fn of(cache: Arc<str>) -> Chronicle {
        Chronicle { cache, recorder: None, incident_file: None }
    }

    /// Writes every reading to a trace of its own in this directory from `now` on, Unix seconds;
    /// `apps` as in [`Recorder::create`].
    pub(super) fn record_in(&mut self, dir: &Path, now: f64, apps: bool) {
        let cache = &self.cache;
        match Recorder::create(dir, cache, now, apps) {
            Ok(recorder) => {
                info!(%cache, file = %recorder.path().display(), "recording");
                self.recorder = Some(recorder);
            }
            Err(error) => warn!(%cache, dir = %dir.display(), "not recording: {error}"),
        }
    }

    /// Appends incidents to this file from now on.
    pub(super) fn report_in(&mut self, file: &Path) {
        self.incident_file = Some(IncidentFile::new(file));
    }

    /// Adds a reading to the trace.
    pub(super) fn record(&mut self, reading: &Reading) {
        let Some(recorder) = &mut self.recorder else { return };
        if let Err(error) = recorder.record(reading) {
            warn!(cache = %self.cache, file = %recorder.path().display(), "recording ends: {error}");
            self.recorder = None;
        }
    }

    /// Says what changed to the person who reads the log and in the file of incidents.
    pub(super) fn tell(&mut self, change: &Change) {
        log(&self.cache, change);
        if let Some(file) = &mut self.incident_file {
            file.append(&self.cache, change);
        }
    }
}

/// Writes what changed for the person who reads the log.
fn log(cache: &str, change: &Change) {
    match change {
        Change::Started(i) => warn!(
            cache,
            cause = i.cause.as_str(),
            source = i.source.as_str(),
            baseline_misses_per_second = i.baseline_misses_per_second,
            peak_misses_per_second = i.peak_misses_per_second,
            "stampede started"
        ),
        Change::Resumed(i) => warn!(cache, cause = i.cause.as_str(), "stampede goes on"),
        Change::CauseChanged { from, incident } => info!(
            cache,
            from = from.as_str(),
            cause = incident.cause.as_str(),
            "stampede has another cause"
        ),
        Change::Settled(i) => {
            info!(cache, cause = i.cause.as_str(), advice = advice(i), "cause of the stampede")
        }
        Change::Ended(i) => info!(
            cache,
            cause = i.cause.as_str(),
            excess_misses = i.excess_misses,
            peak_misses_per_second = i.peak_misses_per_second,
            "stampede ended"
        ),
    }
}
