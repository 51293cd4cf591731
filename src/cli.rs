//! The command line as it is typed, and what it asks for.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgGroup, Args, Parser, Subcommand};

use crate::config::{Config, ConfigError, Flags, LogFormat, LogLevel};
use crate::shipped;

/// What the user asked for.
#[derive(Debug)]
pub enum Command {
    /// Watch caches and serve what is seen until a signal ends it.
    Run(Source, Flags),
    /// Say what is wrong with a configuration.
    Check(PathBuf),
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
        Ok(typed) => Ok(typed.command()),
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
    /// Print the recording rules and alerts, a rule file for Prometheus
    Rules,
    /// Print the dashboard, JSON for Grafana
    Dashboard,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").args(["config", "redis"]).required(true))]
struct RunArgs {
    /// The configuration file (YAML); SIGHUP reads it again
    #[arg(long = "config.file", value_name = "FILE")]
    config: Option<PathBuf>,

    /// Without a file: watch this server as the cache "default". A password written here shows in
    /// the list of processes; a file can name where it is kept instead
    #[arg(id = "redis", long = "redis.addr", value_name = "URL")]
    redis: Option<String>,

    /// Without a file: an application's page of counters, in the native format; may be repeated
    #[arg(id = "apps", long = "app.url", value_name = "URL")]
    #[arg(requires = "redis", conflicts_with = "config")]
    apps: Vec<String>,

    /// Where to serve, IP:PORT; port 0 takes a free one and the log says which [default:
    /// 127.0.0.1:19121]
    #[arg(long = "web.listen-address", value_name = "ADDRESS")]
    listen_address: Option<SocketAddr>,

    /// The least important level to log [default: info]
    #[arg(long = "log.level", value_name = "LEVEL", value_parser = log_level)]
    #[arg(help = format!("The least important level to log: {} [default: info]", levels()))]
    log_level: Option<LogLevel>,

    /// How a line of the log looks: text, json [default: text]
    #[arg(long = "log.format", value_name = "FORMAT", value_parser = log_format)]
    log_format: Option<LogFormat>,

    /// Write what is seen to this directory, as traces that `backtest` can replay
    #[arg(long = "record.dir", value_name = "DIR")]
    record_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The configuration file (YAML)
    #[arg(long = "config.file", value_name = "FILE")]
    config: PathBuf,
}

impl Typed {
    fn command(self) -> Command {
        match self.verb {
            Some(Verb::Run(args)) => args.command(),
            Some(Verb::Check(args)) => Command::Check(args.config),
            Some(Verb::Rules) => Command::Print(shipped::RULES),
            Some(Verb::Dashboard) => Command::Print(shipped::DASHBOARD),
            None => self.run.command(),
        }
    }
}

impl RunArgs {
    fn command(self) -> Command {
        let source = match (self.config, self.redis) {
            (Some(file), _) => Source::File(file),
            // The group asks for one of the two; an address that is not there is refused as empty.
            (None, redis) => {
                Source::Addresses { redis: redis.unwrap_or_default(), apps: self.apps }
            }
        };
        let flags = Flags {
            listen_address: self.listen_address,
            log_level: self.log_level,
            log_format: self.log_format,
            record_dir: self.record_dir,
        };
        Command::Run(source, flags)
    }
}

fn log_level(text: &str) -> Result<LogLevel, String> {
    let level = LogLevel::ALL.iter().find(|level| level.as_str() == text);
    level.copied().ok_or_else(|| format!("write one of {}", levels()))
}

fn levels() -> String {
    LogLevel::ALL.iter().map(|level| level.as_str()).collect::<Vec<_>>().join(", ")
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    let format = LogFormat::ALL.iter().find(|format| format.as_str() == text);
    format.copied().ok_or_else(|| "write text or json".to_owned())
}
