//! Incidents on disk: one JSON object a line, appended.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tracing::{info, warn};

use crate::detect::Change;
use crate::serve::incident_line;

/// The file that incidents of a cache are appended to; several caches may share it.
///
/// It is opened for each line, which is written in one call: a file that was moved away by a log
/// rotation is made anew, and lines of several caches do not mix.
#[derive(Debug)]
pub struct IncidentFile {
    path: PathBuf,
    failing: bool,
}

impl IncidentFile {
    /// Appends to the file at `path` from now on.
    pub fn new(path: &Path) -> IncidentFile {
        IncidentFile { path: path.to_owned(), failing: false }
    }

    /// Appends what changed, where it is a start, an end, or that it went on. That it cannot is
    /// said in the log, once.
    pub fn append(&mut self, cache: &str, change: &Change) {
        let (event, incident) = match change {
            Change::Started(incident) => ("started", incident),
            Change::Resumed(incident) => ("resumed", incident),
            Change::Ended(incident) => ("ended", incident),
            Change::CauseChanged { .. } | Change::Settled(_) => return,
        };
        let line = incident_line(event, cache, incident);
        let result = self.write(&line);
        let file = self.path.display();
        match (&result, self.failing) {
            (Err(error), false) => warn!(cache, %file, "incidents not written: {error}"),
            (Ok(()), true) => info!(cache, %file, "incidents written again"),
            _ => {}
        }
        self.failing = result.is_err();
    }

    fn write(&self, line: &str) -> io::Result<()> {
        if let Some(dir) = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::create_dir_all(dir)?;
        }
        let mut file = File::options().create(true).append(true).open(&self.path)?;
        // A full disk may have cut the line before.
        let cut = if self.failing { "\n" } else { "" };
        file.write_all(format!("{cut}{line}\n").as_bytes())
    }
}
