//! `backtest`.

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use clap::{Arg, ArgGroup, ArgMatches, Args, FromArgMatches};

use super::{Command, Span, refusal};
use crate::backtest::{Format, History, Options, Range};
use crate::config::{CacheConfig, Config, Flags, prometheus_server};
use crate::detect::Thresholds;
use crate::trace::{Column, LATEST};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("history").args(["file", "url"]).required(true))]
pub(super) struct BacktestArgs {
    /// A recorded trace (CSV, also gzip)
    file: Option<PathBuf>,

    #[command(flatten)]
    server: ServerArgs,

    /// Take the thresholds from this configuration
    #[arg(id = "config", long = "config.file", value_name = "FILE")]
    config: Option<PathBuf>,

    /// The cache whose thresholds are meant, when the configuration has several
    #[arg(long, value_name = "NAME", requires = "config")]
    cache: Option<String>,

    /// One JSON object a line instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ServerArgs {
    /// A Prometheus-compatible server that has the history, instead of a trace
    #[arg(id = "url", long = "prometheus.url", value_name = "URL", requires_all = ["start", "end"])]
    url: Option<String>,

    /// Where the range begins: Unix seconds, or such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "T", value_parser = time, requires = "url")]
    start: Option<f64>,

    /// Where it ends
    #[arg(long, value_name = "T", value_parser = time, requires = "url")]
    end: Option<f64>,

    #[arg(long, value_name = "D", requires = "url")]
    #[arg(help = format!("Time between readings [default: {}s]", Range::DEFAULT_STEP))]
    step: Option<Span>,

    /// Label matchers for the default queries, such as 'instance="cache-1:9121"'
    #[arg(long, value_name = "MATCHERS", requires = "url")]
    selector: Option<String>,

    #[command(flatten)]
    queries: Queries,
}

impl BacktestArgs {
    /// The replay, or what is wrong with it.
    pub(super) fn command(self) -> Result<Command, String> {
        let detector = match &self.config {
            None => Thresholds::default(),
            Some(path) => {
                let config = Config::from_file(path, &Flags::default()).map_err(refusal)?;
                chosen(config.caches, self.cache.as_deref())?.detector
            }
        };
        let history = match self.file {
            Some(file) => History::File(file),
            None => History::Prometheus(self.server.range()?),
        };
        let format = if self.json { Format::Json } else { Format::Text };
        Ok(Command::Backtest(Box::new(Options { history, detector, format })))
    }
}

impl ServerArgs {
    fn range(self) -> Result<Range, String> {
        // clap asks for all three; what is not there is refused all the same.
        let url = self.url.unwrap_or_default();
        let url = prometheus_server("--prometheus.url", &url).map_err(refusal)?;
        let (start, end) = (self.start.unwrap_or_default(), self.end.unwrap_or_default());
        if start >= end {
            return Err("--end: must be after --start\n".to_owned());
        }
        let step = self.step.map_or(Range::DEFAULT_STEP, |step| step.0.as_secs_f64());
        if step < LEAST_STEP.as_secs_f64() {
            return Err(format!("--step: write a duration of {} or more\n", Span(LEAST_STEP)));
        }
        let selector = self.selector.unwrap_or_default();
        Ok(Range { url, start, end, step, selector, queries: self.queries.0 })
    }
}

/// Prometheus knows times to the millisecond; no history is finer than a tenth of a second.
const LEAST_STEP: Duration = Duration::from_millis(100);

/// The cache of that name, or the only one.
fn chosen(mut caches: Vec<CacheConfig>, name: Option<&str>) -> Result<CacheConfig, String> {
    let names: Vec<&str> = caches.iter().map(|cache| &*cache.name).collect();
    let place = match name {
        Some(name) => names.iter().position(|known| *known == name),
        None => (caches.len() == 1).then_some(0),
    };
    let form = format!("--cache: write the name of a cache of the file: {}\n", names.join(", "));
    place.map(|place| caches.swap_remove(place)).ok_or(form)
}

fn time(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok();
    let date = || humantime::parse_rfc3339_weak(text).ok()?.duration_since(UNIX_EPOCH).ok();
    seconds
        .or_else(|| Some(date()?.as_secs_f64()))
        .filter(|seconds| (0.0..=LATEST).contains(seconds))
        .ok_or_else(|| {
            format!("write Unix seconds, 0 to {LATEST}, or a time such as 2026-01-31T12:00:00Z")
        })
}

/// One `--query.COLUMN` for each column of a trace but its time.
#[derive(Debug)]
struct Queries(Vec<(Column, String)>);

impl Queries {
    fn columns() -> impl Iterator<Item = (Column, String)> {
        let columns = Column::ALL.into_iter().filter(|column| *column != Column::Time);
        columns.map(|column| (column, format!("query.{}", column.as_str())))
    }
}

impl Args for Queries {
    fn augment_args(command: clap::Command) -> clap::Command {
        Queries::columns().fold(command, |command, (column, flag)| {
            let help = match column {
                Column::Hits => {
                    "PromQL for hits, and so on for every column of a trace, in place of what \
                     redis_exporter calls it; an empty one takes it away"
                }
                _ => "",
            };
            let arg = Arg::new(flag.clone()).long(flag).value_name("PROMQL").requires("url");
            command.arg(arg.help(help).hide(column != Column::Hits))
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Queries::augment_args(command)
    }
}

impl FromArgMatches for Queries {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Queries, clap::Error> {
        let given = Queries::columns()
            .filter_map(|(column, flag)| Some((column, matches.get_one::<String>(&flag)?.clone())));
        Ok(Queries(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Queries::from_arg_matches(matches)?;
        Ok(())
    }
}
