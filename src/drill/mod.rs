//! A fire drill: real load on a real Redis, a stampede on demand, with and without protection.
//!
//! ```text
//! workload ──► client ──► store    (Redis, under one prefix; a private server if none is given)
//!  open loop      │
//!                 ├─ protections/  (one a file)
//!                 ▼
//!              backend             (a bounded pool, before a database played or real)
//! ```
//!
//! [`stage`] puts all of it up and takes it down, [`scenario`] says what befalls it, [`counters`]
//! is what an instrumented service would count and [`page`] shows it to an exporter, [`report`]
//! sums it up.

pub mod backend;
pub mod client;
pub mod counters;
pub mod entry;
pub mod error;
pub mod histogram;
pub mod options;
pub mod page;
pub mod protections;
pub mod report;
pub mod scenario;
pub mod server;
pub mod stage;
pub mod store;
mod table;
pub mod watch;
pub mod workload;
pub mod zipf;

use std::collections::VecDeque;
use std::io::Write;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

pub use backend::postgres::{DatabaseUrl, DatabaseUrlError};
pub use error::DrillError;
pub use options::{ForeignData, Options, Output, Target};
pub use protections::{Protection, Protections};
pub use report::Report;
use report::Run;
pub use scenario::Scenario;
use stage::Stage;
use watch::WatchShape;
pub use workload::Arrivals;

/// Answers that are still out when the load ends are waited for at most that long.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// The exporter looks every second.
const LAST_LOOK: Duration = Duration::from_secs(2);
/// Deadlines looked at, a second: a default drill's 2000 keys once in the calm.
const TTL_KEYS: u32 = 200;

/// Runs the drill once for each of its protections and writes what came of it. `shutdown` ends it
/// early; what was measured until then is reported, and everything is cleaned up.
///
/// # Errors
/// When there is no server to run on, it holds somebody else's data, or it fails.
pub async fn run(
    options: Options,
    out: &mut (dyn Write + Send),
    shutdown: impl Future<Output = ()>,
) -> Result<Vec<Report>, DrillError> {
    options.check()?;
    if let Some(dir) = &options.record_dir {
        let made = std::fs::create_dir_all(dir);
        made.map_err(|source| DrillError::Record { dir: dir.clone(), source })?;
    }
    let mut shutdown = pin!(shutdown);
    let mut reports = Vec::with_capacity(options.protections.len());
    for protections in &options.protections {
        let stage = Stage::open(&options).await?;
        let played = play(&stage, &options, protections, out, shutdown.as_mut()).await;
        stage.close().await?;
        let report = played?;
        if options.output == Output::Json {
            serde_json::to_writer(&mut *out, &report).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
        let interrupted = report.interrupted;
        reports.push(report);
        if interrupted {
            break;
        }
    }
    match options.output {
        Output::Text => table::text(&reports, out)?,
        Output::Markdown => table::markdown(&reports, out)?,
        Output::Json => {}
    }
    Ok(reports)
}

/// One run on a stage: calm, the strike, what follows.
async fn play(
    stage: &Stage,
    options: &Options,
    protections: &Protections,
    out: &mut (dyn Write + Send),
    mut shutdown: std::pin::Pin<&mut impl Future<Output = ()>>,
) -> Result<Report, DrillError> {
    let service = stage.service(protections);
    stage.fill(&service).await?;
    let mut traffic = stage.load(service)?;
    let watch = stage.watch(WatchShape {
        name: format!("{}-{protections}", options.scenario.as_str()).into(),
        record_dir: options.record_dir.clone(),
        calm: options.lead(),
        window: watch::WINDOW,
        ttl_keys_per_second: TTL_KEYS,
    })?;
    let start = Instant::now();
    let end = start + options.duration;
    let mut events = VecDeque::from([
        (start + options.lead(), Event::Strike),
        (start + options.duration.mul_f64(Options::RELENT), Event::Relent),
    ]);
    if options.output == Output::Text {
        writeln!(out, "{} under {protections}", options.scenario.as_str())?;
    }
    let (mut interrupted, mut struck_at) = (false, None);
    let mut progress = Progress::default();
    while !interrupted && Instant::now() < end {
        let second = start + Duration::from_secs(progress.lines + 1);
        let next = events.front().map_or(end, |(at, _)| *at).min(second).min(end);
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = shutdown.as_mut() => interrupted = true,
        }
        while let Some((_, event)) = events.pop_front_if(|(at, _)| Instant::now() >= *at) {
            match event {
                Event::Strike => {
                    struck_at = Some(stage.clock().now());
                    stage.strike(&mut traffic).await?;
                }
                Event::Relent => stage.relent(&traffic)?,
            }
        }
        if Instant::now() >= second {
            progress.write(stage, options.output, out)?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    stage.relent(&traffic)?;
    traffic.workload.finish(LAST_ANSWERS).await;
    watch.look_once_more(LAST_LOOK).await;
    Ok(Report::new(Run {
        stage,
        options,
        protections,
        workload: &traffic.workload,
        incidents: watch.incidents(),
        struck_at,
        seconds,
        interrupted,
    }))
}

/// What happens at a set time.
enum Event {
    Strike,
    Relent,
}

/// The line a second.
#[derive(Default)]
struct Progress {
    lines: u64,
    before: [u64; 4],
}

impl Progress {
    fn write(&mut self, stage: &Stage, output: Output, out: &mut dyn Write) -> std::io::Result<()> {
        self.lines += 1;
        let counters = stage.counters();
        let now = [&counters.hits, &counters.misses, &counters.loads, &counters.failed]
            .map(counters::Count::get);
        let before = std::mem::replace(&mut self.before, now);
        let [hits, misses, loads, failed] =
            std::array::from_fn(|i| now.get(i).unwrap_or(&0) - before.get(i).unwrap_or(&0));
        if output != Output::Text {
            return Ok(());
        }
        let ratio = 100.0 * hits as f64 / ((hits + misses) as f64).max(1.0);
        writeln!(
            out,
            "{:4} s  hit {ratio:5.1} %  misses {misses:6}/s  loads {loads:6}/s  errors {failed:6}/s",
            self.lines
        )
    }
}
