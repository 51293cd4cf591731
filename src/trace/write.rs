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
        let (path, file) = new_file(dir, &format!("{}-{}", file_name(cache), now.trunc()))?;
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

/// A file that was not there. A cache that is started twice within a second has two.
fn new_file(dir: &Path, stem: &str) -> io::Result<(PathBuf, File)> {
    let mut path = dir.join(format!("{stem}.csv"));
    let mut starts: u64 = 1;
    loop {
        match File::options().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                starts += 1;
                path = dir.join(format!("{stem}-{starts}.csv"));
            }
            opened => return opened.map(|file| (path, file)),
        }
    }
}

/// A cache's name as a part of a file's name.
fn file_name(cache: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "_.".contains(c) { c } else { '-' };
    cache.trim_start_matches('.').chars().map(safe).collect()
}
