//! `ttl`.

use clap::Args;

use super::Command;
use crate::config::{ConfigError, target};
use crate::ttl_command::{Format, Options};

#[derive(Debug, Args)]
pub(super) struct TtlArgs {
    /// The server to look at. A password written here shows in the list of processes
    #[arg(long = "redis.addr", value_name = "URL")]
    redis: String,

    /// A group of keys to show by itself, such as product=product:*; may be repeated, and the
    /// first that matches counts
    #[arg(long = "group", value_name = "NAME=PATTERN")]
    groups: Vec<String>,

    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl TtlArgs {
    pub(super) fn command(self) -> Result<Command, ConfigError> {
        let (redis, groups) = target(&self.redis, &self.groups)?;
        let format = if self.json { Format::Json } else { Format::Text };
        Ok(Command::Ttl(Options { redis, groups, format }))
    }
}
