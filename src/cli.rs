//! The command line as it is typed, and what it asks for.

mod backtest;
mod demo;
mod drill;
mod run;
mod ttl;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::config::{Config, ConfigError, Flags, shown};
use crate::{backtest as replay, demo as shown, drill as fire_drill, shipped, ttl_command};
use backtest::BacktestArgs;
use demo::DemoArgs;
use drill::DrillArgs;
use run::{CheckArgs, RunArgs};
use ttl::TtlArgs;

/// What the user asked for.
#[derive(Debug)]
pub enum Command {
    /// Watch caches and serve what is seen until a signal ends it.
    Run(Source, Flags),
    /// Say what is wrong with a configuration.
    Check(PathBuf),
    /// Look at what expires when.
    Ttl(ttl_command::Options),
    /// Run the detector over history.
    Backtest(Box<replay::Options>),
    /// Put real load on a Redis and let a stampede happen, once for each of these.
    Drill(Vec<fire_drill::Options>),
    /// Show everything together, from nothing.
    Demo(shown::Options),
    /// Print something that ships inside the program.
    Print(&'static str),
}

/// Where the configuration comes from; read again at every reload.
#[derive(Debug, Clone)]
pub enum Source {
    /// `--config.file`.
    File(PathBuf),
    /// `--redis.addr` and any number of `--app.url`.
    Addresses {
        /// The server's address.
        redis: String,
        /// The applications' pages.
        apps: Vec<String>,
    },
}

impl Source {
    /// Reads the configuration as it is now.
    ///
    /// # Errors
    ///
    /// Every problem at once.
    pub fn load(&self, flags: &Flags) -> Result<Config, ConfigError> {
        match self {
            Source::File(path) => Config::from_file(path, flags),
            Source::Addresses { redis, apps } => Config::from_addresses(redis, apps, flags),
        }
    }
}

/// Why there is nothing to do but to print.
#[derive(Debug)]
pub enum Stop {
    /// `--help` or `--version`: text for stdout.
    Answer(String),
    /// Wrong arguments: text for stderr, without secrets.
    Refusal(String),
}

/// Reads the arguments, the program's name first.
///
/// # Errors
///
/// [`Stop`] when the arguments are wrong, or ask for help or the version.
pub fn parse(args: Vec<OsString>) -> Result<Command, Stop> {
    match Typed::try_parse_from(&args) {
        Ok(typed) => typed.command().map_err(Stop::Refusal),
        Err(error) => Err(match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Stop::Answer(error.to_string()),
            _ => Stop::Refusal(without_secrets(error.to_string(), &args)),
        }),
    }
}

/// A refusal quotes what it refuses; the user and password of an address are taken out of it.
fn without_secrets(message: String, args: &[OsString]) -> String {
    args.iter().fold(message, |message, arg| {
        let arg = arg.to_string_lossy();
        let user = arg.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
        match user {
            Some((secret, _)) if !secret.is_empty() => message.replace(secret, "***"),
            _ => message,
        }
    })
}

/// Sees cache stampedes on Redis in seconds, explains them, and publishes them for Prometheus.
#[derive(Debug, Parser)]
#[command(name = "stampede-exporter", version, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true)]
struct Typed {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Watch caches and serve /metrics (the default verb)
    Run(RunArgs),
    /// Say everything that is wrong with a configuration file
    Check(CheckArgs),
    /// Look for a few seconds at what expires when
    Ttl(TtlArgs),
    /// Say what the detector would have said: a recorded trace or a Prometheus' history
    Backtest(BacktestArgs),
    /// A bounded fire drill: real load, a stampede, a protection, and what comes of it
    Drill(DrillArgs),
    /// Everything together on this machine, from nothing: a stampede, seen as it happens
    Demo(DemoArgs),
    /// Print the recording rules and alerts, a rule file for Prometheus
    Rules,
    /// Print the dashboard, JSON for Grafana
    Dashboard,
}

impl Typed {
    fn command(self) -> Result<Command, String> {
        match self.verb {
            None => Ok(self.run.command()),
            Some(Verb::Run(args)) => Ok(args.command()),
            Some(Verb::Check(args)) => Ok(Command::Check(args.config)),
            Some(Verb::Ttl(args)) => args.command().map_err(refusal),
            Some(Verb::Backtest(args)) => args.command(),
            Some(Verb::Drill(args)) => args.command(),
            Some(Verb::Demo(args)) => Ok(args.command()),
            Some(Verb::Rules) => Ok(Command::Print(shipped::RULES)),
            Some(Verb::Dashboard) => Ok(Command::Print(shipped::DASHBOARD)),
        }
    }
}

/// Problems as the text of a refusal, a line each.
fn refusal(problems: ConfigError) -> String {
    format!("{problems}\n")
}

/// A duration as flags write it, such as `1s` or `250ms`.
#[derive(Debug, Clone, Copy)]
struct Span(Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let form = "write a duration such as 1s or 250ms";
        humantime::parse_duration(text).map(Span).map_err(|_| form.to_owned())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self.0))
    }
}
