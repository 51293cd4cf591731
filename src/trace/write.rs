//! Writes what a cache's sources say as a trace.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::columns::{self, Column};
use crate::reading::Reading;

/// A trace that is being written: one file a cache and start. A row is in the file as soon as it
/// is recorded, so that a crash loses none.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    path: PathBuf,
    /// Whether the applications' lookups are apart from the server's.
    apart: bool,
    row: String,
}

impl Recorder {
    /// Starts a trace of a cache at `now`, Unix seconds; the directory is made if it is missing.
    /// `apps` says whether the cache has applications, whose lookups are then written beside the
    /// server's.
    ///
    /// # Errors
    /// When the directory or the file cannot be made.
    pub fn create(dir: &Path, cache: &str, now: f64, apps: bool) -> io::Result<Recorder> {
        fs::create_dir_all(dir)?;
        let path = dir.join(format!("{}-{}.csv", file_name(cache), now.trunc()));
        // Two starts within a second are one trace too many to tell apart: the second fails.
        let file = File::options().write(true).create_new(true).open(&path)?;
        let mut recorder = Recorder { file, path, apart: apps, row: String::new() };
        let names: Vec<&str> = recorder.columns().map(Column::as_str).collect();
        recorder.row = names.join(",");
        recorder.write_row()?;
        Ok(recorder)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one row.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn record(&mut self, reading: &Reading) -> io::Result<()> {
        self.row.clear();
        let cells = self.columns().map(|column| columns::give(column, reading, self.apart));
        let cells: Vec<String> =
            cells.map(|cell| cell.map_or(String::new(), |value| value.to_string())).collect();
        self.row = cells.join(",");
        self.write_row()
    }

    fn columns(&self) -> impl Iterator<Item = Column> + use<> {
        let apart = self.apart;
        let both = [Column::RedisHits, Column::RedisMisses];
        Column::ALL.into_iter().filter(move |column| apart || !both.contains(column))
    }

    fn write_row(&mut self) -> io::Result<()> {
        self.row.push('\n');
        self.file.write_all(self.row.as_bytes())
    }
}

/// A cache's name as a part of a file's name.
fn file_name(cache: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "_.".contains(c) { c } else { '-' };
    cache.trim_start_matches('.').chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{BySource, Lookups, Reach};
    use crate::trace::TraceReader;

    #[test]
    fn what_is_recorded_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let lookups = |n| Some(Lookups { hits: n, misses: n / 8.0 });
        let known = Reading {
            time: 1_700_000_000.125,
            lookups: BySource { redis: lookups(1e9), app: lookups(123.0) },
            expired: Some(1.0),
            evicted: Some(2.0),
            errors: Some(3.0),
            not_found: Some(4.0),
            loads: Some(5.0),
            coalesced: Some(6.0),
            lock_acquired: Some(7.0),
            lock_failed: Some(8.0),
            flushes: Some(9.0),
            keys: Some(1e16),
            uptime: Some(11.0),
            latency_p50: Some(0.0125),
            latency_p99: Some(1.0 / 3.0),
            due_ratio: Some(14.5),
            hot_key_share: Some(0.75),
            reach: Reach::Loading,
        };
        let unknown = Reading { time: 1_700_000_001.0, ..Reading::default() };
        for apps in [true, false] {
            let start = if apps { 1.0 } else { 2.0 };
            let mut recorder =
                Recorder::create(&dir.path().join("new"), "a/b", start, apps).unwrap();
            recorder.record(&known).unwrap();
            recorder.record(&unknown).unwrap();
            let mut reader = TraceReader::open(recorder.path()).unwrap();
            let mut right = known.clone();
            if !apps {
                right.lookups.app = None;
            }
            assert_eq!(reader.next().unwrap(), Some(Ok(right)));
            assert_eq!(reader.next().unwrap(), Some(Ok(unknown.clone())));
            assert_eq!(reader.next().unwrap(), None);
        }
    }

    #[test]
    fn no_recording_is_overwritten_or_leaves_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let first = Recorder::create(dir.path(), "../x y", 7.5, false).unwrap();
        assert_eq!(first.path(), dir.path().join("-x-y-7.csv"));
        assert!(Recorder::create(dir.path(), "../x y", 7.9, false).is_err());
    }
}
