//! What is written down about one cache: its trace, its incidents in a file, its changes in the log.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::detect::{Change, advice};
use crate::incident_file::IncidentFile;
use crate::reading::Reading;
use crate::trace::Recorder;

/// Notes that may wait for a slow disk: a quarter of an hour at a poll a second.
const MOST_WAITING: usize = 1000;

/// How long a slow disk may hold up the end of the process, of which a second is expected.
const LAST_WRITES: Duration = Duration::from_millis(500);

/// Writes down what happens to one cache. Watching matters more than writing: what cannot be written
/// is said in the log, and that is all, and a disk that hangs holds up nothing.
pub(super) struct Chronicle {
    cache: Arc<str>,
    records: bool,
    reports: bool,
    /// Away while it writes.
    pen: Option<Pen>,
    writing: Option<JoinHandle<Pen>>,
    waiting: Vec<Note>,
    /// Whether notes are dropped.
    full: bool,
}

/// Something to write.
enum Note {
    Reading(Reading),
    Change(Change),
}

/// What writes to the disk.
struct Pen {
    cache: Arc<str>,
    recorder: Option<Recorder>,
    incident_file: Option<IncidentFile>,
}

impl Chronicle {
    /// Writes to the log alone.
    pub(super) fn of(cache: Arc<str>) -> Chronicle {
        let pen = Pen { cache: Arc::clone(&cache), recorder: None, incident_file: None };
        Chronicle {
            cache,
            records: false,
            reports: false,
            pen: Some(pen),
            writing: None,
            waiting: Vec::new(),
            full: false,
        }
    }

    /// Writes every reading to a trace of its own in this directory from `now` on, Unix seconds;
    /// `apps` as in [`Recorder::create`]. To be called before anything is written.
    pub(super) fn record_in(&mut self, dir: &Path, now: f64, apps: bool) {
        let cache = &self.cache;
        match Recorder::create(dir, cache, now, apps) {
            Ok(recorder) => {
                info!(%cache, file = %recorder.path().display(), "recording");
                self.records = true;
                if let Some(pen) = &mut self.pen {
                    pen.recorder = Some(recorder);
                }
            }
            Err(error) => warn!(%cache, dir = %dir.display(), "not recording: {error}"),
        }
    }

    /// Appends incidents to this file. To be called before anything is written.
    pub(super) fn report_in(&mut self, file: &Path) {
        self.reports = true;
        if let Some(pen) = &mut self.pen {
            pen.incident_file = Some(IncidentFile::new(file));
        }
    }

    /// Adds a reading to the trace.
    pub(super) fn record(&mut self, reading: &Reading) {
        if self.records {
            self.note(Note::Reading(reading.clone()));
        }
        // What waits goes out with the next reading, written or not.
        self.write();
    }

    /// Says what changed to the person who reads the log and in the file of incidents.
    pub(super) fn tell(&mut self, change: &Change) {
        log(&self.cache, change);
        if self.reports {
            self.note(Note::Change(change.clone()));
            self.write();
        }
    }

    /// Waits for what is still to be written, unless the disk hangs.
    pub(super) async fn end(&mut self) {
        let all = async {
            while let Some(writing) = &mut self.writing {
                self.pen = writing.await.ok();
                self.writing = None;
                self.write();
            }
        };
        if timeout(LAST_WRITES, all).await.is_err() {
            warn!(cache = %self.cache, "the disk hangs: the last notes are not written");
        }
    }

    fn note(&mut self, note: Note) {
        let full = self.waiting.len() >= MOST_WAITING;
        if full && !self.full {
            warn!(cache = %self.cache, "the disk hangs: what happens now is not written");
        }
        self.full = full;
        if !full {
            self.waiting.push(note);
        }
    }

    /// Has what waits written, as soon as what was before it is.
    fn write(&mut self) {
        if let Some(done) = self.writing.as_mut().and_then(FutureExt::now_or_never) {
            self.writing = None;
            self.pen = done.ok();
        }
        if !self.waiting.is_empty()
            && let Some(mut pen) = self.pen.take()
        {
            let notes = std::mem::take(&mut self.waiting);
            self.writing = Some(spawn_blocking(move || {
                notes.iter().for_each(|note| pen.write(note));
                pen
            }));
        }
    }
}

impl Pen {
    fn write(&mut self, note: &Note) {
        match note {
            Note::Reading(reading) => {
                let Some(recorder) = &mut self.recorder else { return };
                if let Err(error) = recorder.record(reading) {
                    let file = recorder.path().display();
                    warn!(cache = %self.cache, %file, "recording ends: {error}");
                    self.recorder = None;
                }
            }
            Note::Change(change) => {
                if let Some(file) = &mut self.incident_file {
                    file.append(&self.cache, change);
                }
            }
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
