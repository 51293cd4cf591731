//! The detector over history: a recorded trace, or a range of a Prometheus server.
//!
//! It is the same detector as in [`monitor`](crate::monitor), row by row, so that somebody can see
//! what it would have said last month before turning it on. Memory does not grow with the history.

mod comparison;
mod prometheus;
mod replay;
mod report;
pub mod usual_rule;
mod variants;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::clock::Clock;
use crate::config::PageUrl;
use crate::detect::Thresholds;
use crate::reading::Reading;
use crate::source::prometheus::PrometheusError;
use crate::trace::{BadRow, Column, Row, TraceError, TraceReader};

use comparison::Comparison;
use prometheus::RangeReader;
use replay::Replay;
use variants::Variants;

/// Bad rows that are named one by one; the rest are counted.
const NAMED_BAD_ROWS: u64 = 20;

/// Rows between two looks at the clock for the progress line: well under a second's work.
const PROGRESS_ROWS: u64 = 100_000;

/// Seconds between two progress lines.
const PROGRESS_SECONDS: f64 = 1.0;

/// What to replay, and how to tell it.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Where the readings come from.
    pub history: History,
    /// The thresholds of the cache, or the defaults.
    pub detector: Thresholds,
    /// How to tell it.
    pub format: Format,
}

/// How to tell the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Tables for a person, and what other thresholds would have made of it.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Recorded readings.
#[derive(Debug, Clone, PartialEq)]
pub enum History {
    /// A trace as [`trace`](crate::trace) describes it, plain or gzip.
    File(PathBuf),
    /// A range of what a Prometheus-compatible server has stored.
    Prometheus(Range),
}

/// A range of a Prometheus-compatible server's history.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    /// The server, `http` or `https`, without `/api`. May hold user and password: never shown.
    pub url: PageUrl,
    /// Unix seconds of the first reading.
    pub start: f64,
    /// Unix seconds of the last reading; after `start`.
    pub end: f64,
    /// Seconds between readings; above 0.
    pub step: f64,
    /// Label matchers for the default queries, such as `instance="cache-1:9121"`; may be empty.
    pub selector: String,
    /// Queries by the column that they fill, in place of the defaults or beyond them. An empty
    /// query takes a default away.
    pub queries: Vec<(Column, String)>,
}

impl Range {
    /// Seconds between readings unless told otherwise: Prometheus' own default is one minute, but
    /// those who watch a cache scrape four times as often.
    pub const DEFAULT_STEP: f64 = 15.0;
}

/// Why a replay could not be done or finished.
#[derive(Debug, thiserror::Error)]
pub enum BacktestError {
    /// The trace.
    #[error("{}: {error}", file.display())]
    Trace {
        /// The trace's file.
        file: PathBuf,
        /// What is wrong with it.
        error: TraceError,
    },
    /// Rows, but none that can be read: what follows from that is not "no incident".
    #[error("{}: none of the {rows} rows can be read", file.display())]
    OnlyBadRows {
        /// The trace's file.
        file: PathBuf,
        /// How many there are.
        rows: u64,
    },
    /// The Prometheus server.
    #[error(transparent)]
    Prometheus(#[from] PrometheusError),
    /// The threads or timers of the system.
    #[error("cannot wait for the Prometheus server")]
    Runtime(#[source] io::Error),
    /// There is nothing to replay.
    #[error(
        "`{0}` gave nothing in the whole range; see --query.hits, --query.misses and the range"
    )]
    Nothing(String),
    /// The output is closed.
    #[error("cannot write the result")]
    Output(#[source] io::Error),
}

/// Replays the history. The result goes to `out`; progress, bad rows and notes go to `progress`.
/// Incidents are written as soon as they can no longer go on. Must not be called from within an
/// async task, because a Prometheus server is waited for.
///
/// # Errors
/// When the history cannot be read to its end, or the result not be written; what was written
/// before stands.
pub fn run(
    options: &Options,
    out: &mut dyn Write,
    progress: &mut dyn Write,
) -> Result<(), BacktestError> {
    let mut rows = Rows::open(&options.history)?;
    for note in rows.notes() {
        // The result does not depend on whether somebody reads the notes.
        let _ = writeln!(progress, "{note}");
    }
    let mut replay = Replay::new(options.detector.clone());
    let mut variants = Variants::new(&options.detector, options.format == Format::Text);
    // What only a person reads is not computed for others.
    let mut comparison = (options.format == Format::Text).then(Comparison::default);
    let mut steps = Steps::new(progress);
    let mut report = report::Report::new(out, options.format);
    let mut reading = Reading::default();
    loop {
        match rows.read(&mut reading)? {
            Row::Read => {
                variants.take(&reading);
                if let Some(incident) = replay.take(&reading) {
                    report.incident(&incident, comparison.as_mut())?;
                }
                if let Some(comparison) = &mut comparison {
                    comparison.take(&reading, replay.held());
                }
                steps.row(reading.time);
            }
            Row::Bad(bad) => steps.bad_row(bad),
            Row::End => break,
        }
    }
    let (last, summary) = replay.finish();
    if let Some(incident) = last {
        report.incident(&incident, comparison.as_mut())?;
    }
    let (read, bad) = steps.finish();
    let beside = comparison.map(|comparison| comparison.finish(summary.last));
    report.finish(&summary, beside.unwrap_or_default(), variants.finish())?;
    match &options.history {
        History::File(file) if read == 0 && bad > 0 => {
            Err(BacktestError::OnlyBadRows { file: file.clone(), rows: bad })
        }
        _ => Ok(()),
    }
}

/// Where rows come from.
enum Rows {
    Trace(PathBuf, TraceReader),
    Prometheus(Box<RangeReader>),
}

impl Rows {
    fn open(history: &History) -> Result<Rows, BacktestError> {
        Ok(match history {
            History::File(file) => {
                let reader = TraceReader::open(file).map_err(|error| of(file, error))?;
                Rows::Trace(file.clone(), reader)
            }
            History::Prometheus(range) => Rows::Prometheus(Box::new(RangeReader::open(range)?)),
        })
    }

    fn read(&mut self, reading: &mut Reading) -> Result<Row, BacktestError> {
        Ok(match self {
            Rows::Trace(file, reader) => reader.read(reading).map_err(|error| of(file, error))?,
            Rows::Prometheus(reader) => match reader.next()? {
                Some(next) => {
                    *reading = next;
                    Row::Read
                }
                None => Row::End,
            },
        })
    }

    /// What a person should know about the source before the result.
    fn notes(&self) -> Vec<String> {
        match self {
            Rows::Trace(_, reader) => {
                let unknown = reader.unknown_columns().iter();
                unknown.map(|name| format!("the column `{name}` is passed over")).collect()
            }
            Rows::Prometheus(reader) => reader.notes(),
        }
    }
}

fn of(file: &Path, error: TraceError) -> BacktestError {
    BacktestError::Trace { file: file.to_owned(), error }
}

/// Tells how far it is.
struct Steps<'a> {
    to: &'a mut dyn Write,
    clock: Clock,
    started: f64,
    told: f64,
    rows: u64,
    bad: u64,
}

impl<'a> Steps<'a> {
    fn new(to: &'a mut dyn Write) -> Steps<'a> {
        let clock = Clock::start();
        let now = clock.now();
        Steps { to, clock, started: now, told: now, rows: 0, bad: 0 }
    }

    fn row(&mut self, time: f64) {
        self.rows += 1;
        if self.rows.is_multiple_of(PROGRESS_ROWS) {
            let now = self.clock.now();
            if now - self.told >= PROGRESS_SECONDS {
                self.told = now;
                let _ = writeln!(self.to, "{} rows, up to {}", self.rows, report::date(time));
            }
        }
    }

    fn bad_row(&mut self, bad: BadRow) {
        self.bad += 1;
        if self.bad <= NAMED_BAD_ROWS {
            let _ = writeln!(self.to, "{bad}");
        }
    }

    /// How many rows were read and how many passed over.
    fn finish(self) -> (u64, u64) {
        if self.bad > NAMED_BAD_ROWS {
            let _ = writeln!(self.to, "{} bad rows in all", self.bad);
        }
        let seconds = self.clock.now() - self.started;
        let rate = self.rows as f64 / seconds.max(f64::MIN_POSITIVE);
        let _ = writeln!(self.to, "{} rows in {seconds:.2} s ({rate:.0} a second)", self.rows);
        (self.rows, self.bad)
    }
}
