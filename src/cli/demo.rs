//! `demo`.

use std::io::IsTerminal;

use clap::Args;

use super::Command;
use crate::demo::{Ending, Look, Options};

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Go on after the last act until Ctrl-C, for looking around
    #[arg(long)]
    keep: bool,
}

impl DemoArgs {
    pub(super) fn command(self) -> Command {
        let ending = if self.keep { Ending::Keep } else { Ending::ByItself };
        let look = if std::io::stdout().is_terminal() { Look::Coloured } else { Look::Plain };
        Command::Demo(Options { ending, look })
    }
}
