//! `drill`. The defaults are those of [`Options`].

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::{Command, Span, refusal};
use crate::config::target;
use crate::drill::{
    Arrivals, DatabaseUrlError, ForeignData, Options, Output, Protection, Protections, Scenario,
    Target,
};

#[derive(Debug, Args)]
pub(super) struct DrillArgs {
    #[arg(long = "scenario", value_name = "NAME[,NAME]", value_delimiter = ',')]
    #[arg(default_value = Options::default().scenario.as_str())]
    #[arg(help = format!(
        "What befalls the cache, several in turn: all, {}",
        Scenario::ALL.map(Scenario::as_str).join(", ")
    ))]
    scenarios: Vec<Choice<Scenario>>,

    #[arg(long = "protection", value_name = "NAME[+NAME]", default_value = "none")]
    #[arg(help = format!(
        "What protects it, several joined with +; given again, one run for each: none, {}",
        Protection::ALL.map(Protection::as_str).join(", ")
    ))]
    protections: Vec<Protections>,

    /// One run for each of these, in turn and with the same seed, and a table of all of them; all
    /// stands for none and each by itself
    #[arg(long, value_name = "NAME[+NAME],…", value_delimiter = ',')]
    #[arg(conflicts_with = "protections")]
    compare: Vec<Choice<Protections>>,

    /// Drill on this server instead of a private one
    #[arg(id = "redis", long = "redis.addr", value_name = "URL")]
    redis: Option<String>,

    /// Drill there although it holds other data; only keys of the drill's own are written
    #[arg(long = "yes-this-server", requires = "redis")]
    yes_this_server: bool,

    /// Load from this PostgreSQL instead of a database that the drill plays; nothing is written
    /// there. A password written here shows in the list of processes
    #[arg(long = "backend.url", value_name = "URL")]
    backend: Option<String>,

    /// Requests a second
    #[arg(long, value_name = "N/s", default_value_t = Rate(Options::default().rate))]
    rate: Rate,

    /// Requests come evenly instead of at random
    #[arg(long = "even")]
    even: bool,

    /// Keys that exist; times the bytes of a value at most 1 GiB
    #[arg(long, value_name = "N", default_value_t = Options::default().keys)]
    keys: u32,

    /// Exponent of Zipf's law over the keys; 0 makes all equally popular
    #[arg(long, value_name = "X", default_value_t = Options::default().zipf)]
    zipf: f64,

    /// Share of the requests for the hot key, in the scenario hot_key
    #[arg(long = "hot-share", value_name = "X", default_value_t = Options::default().hot_share)]
    hot_share: f64,

    /// Time of load
    #[arg(long, value_name = "D", default_value_t = Span(Options::default().duration))]
    duration: Span,

    /// Life of an entry
    #[arg(long, value_name = "D", default_value_t = Span(Options::default().ttl))]
    ttl: Span,

    /// Time of one load at the backend
    #[arg(long = "load-time", value_name = "D", default_value_t = Span(Options::default().load_time))]
    load_time: Span,

    /// Time of a load of the hot key, if it is another one
    #[arg(long = "hot-load-time", value_name = "D")]
    hot_load_time: Option<Span>,

    /// Loads at once at the backend
    #[arg(long, value_name = "N", default_value_t = Options::default().pool)]
    pool: usize,

    /// Loads that may wait for a place in the pool
    #[arg(long, value_name = "N", default_value_t = Options::default().queue)]
    queue: usize,

    /// Bytes of a value
    #[arg(long = "value-bytes", value_name = "N", default_value_t = Options::default().value_bytes)]
    value_bytes: usize,

    /// Processes of the service
    #[arg(long, value_name = "N", default_value_t = Options::default().processes)]
    processes: usize,

    /// Life of a lock [default: three loads]
    #[arg(long = "lock-ttl", value_name = "D")]
    lock_ttl: Option<Span>,

    /// How early xfetch refreshes: 1 is the published choice, more is earlier; for xfetch_linear
    /// more is later
    #[arg(long, value_name = "X", default_value_t = Options::default().beta)]
    beta: f64,

    /// Share by which jitter lengthens or shortens a life
    #[arg(long, value_name = "X", default_value_t = Options::default().jitter)]
    jitter: f64,

    /// How long past its deadline stale_while_revalidate serves a value, and near_cache one in
    /// place of what it cannot have
    #[arg(long, value_name = "D", default_value_t = Span(Options::default().grace))]
    grace: Span,

    /// Loads at once that bulkhead allows a process [default: its share of the pool]
    #[arg(long, value_name = "N")]
    bulkhead: Option<usize>,

    /// Entries that near_cache keeps in a process [default: nine tenths of the keys]
    #[arg(long = "near-keys", value_name = "N")]
    near_keys: Option<usize>,

    /// The longest that near_cache answers without asking Redis [default: until the entry's deadline]
    #[arg(long = "near-life", value_name = "D")]
    near_life: Option<Span>,

    /// The same seed gives the same requests
    #[arg(long, value_name = "N", default_value_t = Options::default().seed)]
    seed: u64,

    /// Keep what the exporter saw in this directory, a trace for each run that `backtest` can
    /// replay
    #[arg(long = "record.dir", value_name = "DIR")]
    record_dir: Option<PathBuf>,

    /// The table as Markdown instead of text
    #[arg(long, conflicts_with = "json")]
    markdown: bool,

    /// One JSON object at the end of each run instead of text
    #[arg(long)]
    json: bool,
}

/// One by name, or all of them.
#[derive(Debug, Clone)]
enum Choice<T> {
    All,
    One(T),
}

impl<T: FromStr> FromStr for Choice<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Choice<T>, T::Err> {
        if text == "all" { Ok(Choice::All) } else { text.parse().map(Choice::One) }
    }
}

/// What was chosen, with `all` in place of "all of them".
fn chosen<T: Clone>(choices: Vec<Choice<T>>, all: &[T]) -> Vec<T> {
    let chosen = choices.into_iter().map(|choice| match choice {
        Choice::All => all.to_vec(),
        Choice::One(one) => vec![one],
    });
    chosen.flatten().collect()
}

impl DrillArgs {
    /// A drill for each scenario, or what is wrong with them.
    pub(super) fn command(self) -> Result<Command, String> {
        let target = match self.redis {
            None => Target::Private,
            Some(redis) => {
                let (server, _) = target(&redis, &[]).map_err(refusal)?;
                let foreign =
                    if self.yes_this_server { ForeignData::Accept } else { ForeignData::Refuse };
                Target::Given { server, foreign }
            }
        };
        let backend = self.backend.map(|url| url.parse()).transpose();
        let backend = backend.map_err(|e: DatabaseUrlError| format!("--backend.url {e}\n"))?;
        let protections = match self.compare.is_empty() {
            true => self.protections,
            false => chosen(self.compare, &Protections::each()),
        };
        let options = Options {
            protections,
            target,
            backend,
            rate: self.rate.0,
            arrivals: if self.even { Arrivals::Constant } else { Arrivals::Poisson },
            keys: self.keys,
            zipf: self.zipf,
            hot_share: self.hot_share,
            duration: self.duration.0,
            ttl: self.ttl.0,
            load_time: self.load_time.0,
            hot_load_time: self.hot_load_time.map(|span| span.0),
            pool: self.pool,
            queue: self.queue,
            value_bytes: self.value_bytes,
            processes: self.processes,
            lock_ttl: self.lock_ttl.map(|span| span.0),
            beta: self.beta,
            jitter: self.jitter,
            grace: self.grace.0,
            bulkhead: self.bulkhead,
            near_keys: self.near_keys,
            near_life: self.near_life.map(|span| span.0),
            seed: self.seed,
            record_dir: self.record_dir,
            output: match (self.json, self.markdown) {
                (true, _) => Output::Json,
                (false, true) => Output::Markdown,
                (false, false) => Output::Text,
            },
            ..Options::default()
        };
        options.check().map_err(|problem| format!("{problem}\n"))?;
        let scenarios = chosen(self.scenarios, &Scenario::ALL).into_iter();
        Ok(Command::Drill(
            scenarios.map(|scenario| Options { scenario, ..options.clone() }).collect(),
        ))
    }
}

/// Requests a second, written with or without `/s`.
#[derive(Debug, Clone, Copy)]
struct Rate(f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let number = text.strip_suffix("/s").unwrap_or(text).parse();
        number
            .map(Rate)
            .map_err(|_| "write a number of requests a second such as 2000/s".to_owned())
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_stands_for_all_in_its_place() {
        assert_eq!(chosen(vec!["all".parse().unwrap()], &Scenario::ALL), Scenario::ALL);
        let each = Protections::each();
        assert_eq!(each.len(), 1 + Protection::ALL.len());
        let choices = ["mutex+jitter", "all"].map(|text| text.parse().unwrap()).to_vec();
        let more: Vec<Protections> = chosen(choices, &each);
        assert_eq!(more[0].to_string(), "mutex+jitter");
        assert_eq!(more[1..], each);
        assert!("meteorite".parse::<Choice<Scenario>>().is_err());
    }
}
