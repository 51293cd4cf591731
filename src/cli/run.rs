//! `run` and `check`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::{Command, Source};
use crate::config::{Flags, LISTEN_FORM, LogFormat, LogLevel};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").args(["config", "redis"]).required(true))]
pub(super) struct RunArgs {
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
    #[arg(long = "web.listen-address", value_name = "ADDRESS", value_parser = listen_address)]
    listen_address: Option<SocketAddr>,

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
pub(super) struct CheckArgs {
    /// The configuration file (YAML)
    #[arg(long = "config.file", value_name = "FILE")]
    pub(super) config: PathBuf,
}

impl RunArgs {
    pub(super) fn command(self) -> Command {
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

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("write {LISTEN_FORM}"))
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
