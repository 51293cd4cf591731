//! How fast history is replayed, from an uncompressed file: `cargo bench --bench replay`.
//!
//! One core, everything included: reading, parsing, comparing, deciding. The memory is what the
//! process holds after the replay: it must not grow with the trace.

#![allow(clippy::print_stdout, clippy::expect_used, missing_docs)]

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use stampede_exporter::backtest::{Format, History, Options, run};
use stampede_exporter::detect::Thresholds;
use stampede_exporter::reading::Reading;
use stampede_exporter::trace::{Row, TraceReader};

/// Rows of each trace; a second each, so a month has a little more than the largest.
const ROWS: [u64; 3] = [500_000, 1_000_000, 2_000_000];

/// What the traces have: the least, what a server alone gives, and what applications add.
const COLUMNS: [&str; 3] = [
    "time,hits,misses",
    "time,hits,misses,expired,evicted,keys,uptime,flushes",
    "time,hits,misses,expired,evicted,errors,not_found,loads,lock_acquired,lock_failed,flushes,keys,\
     uptime,latency_p50,latency_p99",
];

fn main() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("trace.csv");
    println!("| columns | rows | MB | parsed rows/s | replayed rows/s | resident, MB |");
    println!("|---|---|---|---|---|---|");
    for columns in COLUMNS {
        for rows in ROWS {
            let text = trace(columns, rows);
            std::fs::write(&path, &text).expect("the trace is written");
            let (bytes, count) = (text.len() as f64 / 1e6, columns.split(',').count());
            drop(text);
            let (parsed, replayed) = (rate(rows, || parse(&path)), rate(rows, || replay(&path)));
            println!(
                "| {count} | {rows} | {bytes:.0} | {parsed:.0} | {replayed:.0} | {:.1} |",
                resident()
            );
        }
    }
}

/// A calm cache: 1000 lookups a second of which 2 % miss, give or take.
fn trace(columns: &str, rows: u64) -> String {
    let mut text = format!("{columns}\n");
    let (mut hits, mut misses) = (1_000_000_000_u64, 10_000_000_u64);
    for row in 0..rows {
        // The top bits of a multiplicative hash are as good as noise here.
        let noise = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
        hits += 972 + noise;
        misses += 12 + noise;
        for (index, column) in columns.split(',').enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = match column {
                "time" => write!(text, "{}", 1_700_000_000 + row),
                "hits" => write!(text, ",{hits}"),
                "misses" | "loads" => write!(text, ",{misses}"),
                "expired" => write!(text, ",{}", 25 * row),
                "keys" => write!(text, ",{}", 1_000_000 + noise),
                "uptime" => write!(text, ",{row}"),
                "latency_p50" => write!(text, ",0.0125"),
                "latency_p99" => write!(text, ",0.095"),
                _ => write!(text, "{comma}{}", row / 10),
            };
        }
        text.push('\n');
    }
    text
}

fn parse(path: &Path) {
    let mut reader = TraceReader::open(path).expect("a trace");
    let mut reading = Reading::default();
    while reader.read(&mut reading).expect("a row") == Row::Read {}
}

fn replay(path: &Path) {
    let history = History::File(path.to_owned());
    let options = Options { history, detector: Thresholds::default(), format: Format::Json };
    run(&options, &mut std::io::sink(), &mut std::io::sink()).expect("a whole replay");
}

/// Rows a second: the best of three, since the others had the machine to share.
#[allow(clippy::disallowed_methods)] // a stopwatch
fn rate(rows: u64, work: impl Fn()) -> f64 {
    let seconds = (0..3).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    rows as f64 / seconds.fold(f64::INFINITY, f64::min)
}

/// The memory that the process holds; the trace's text has been given back.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().map_or(f64::NAN, |kilobytes: f64| kilobytes / 1e3)
}
