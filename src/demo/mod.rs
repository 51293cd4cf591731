//! Everything together on this machine, from nothing: a private redis-server, a service under load,
//! the exporter on a real page, and four acts that show what it sees. It ends by itself and leaves
//! nothing behind.

mod acts;
mod house;
mod teller;

use std::io::Write;
use std::pin::pin;

pub use acts::Outcome;
use house::House;
use teller::Teller;

use crate::drill::DrillError;

/// What happens after the last act.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ending {
    /// It ends by itself.
    #[default]
    ByItself,
    /// It goes on until it is stopped, for looking around (`--keep`).
    Keep,
}

/// How lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Look {
    /// As they are.
    #[default]
    Plain,
    /// With colours for a terminal.
    Coloured,
}

/// How the demo runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// What happens after the last act.
    pub ending: Ending,
    /// How lines look.
    pub look: Look,
}

/// Why the demo did not show what it is to show.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The stage could not be put up, or broke.
    #[error(transparent)]
    Drill(#[from] DrillError),
    /// No page, or nowhere to write to.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The exporter did not see what happened, or saw what did not.
    #[error("the demo failed: {0}")]
    Failed(&'static str),
    /// Stopped before its end.
    #[error("the demo was stopped before its end")]
    Stopped,
}

/// Runs the demo; `shutdown` stops it. Whatever happens, nothing is left behind.
///
/// # Errors
/// When it cannot run, is stopped before its end, or a stampede was not seen and its end too.
pub async fn run(
    options: Options,
    out: &mut (dyn Write + Send),
    shutdown: impl Future<Output = ()>,
) -> Result<Outcome, DemoError> {
    let mut shutdown = pin!(shutdown);
    let mut teller = Teller::new(out, options.look);
    let mut house = tokio::select! {
        house = House::open() => house?,
        () = shutdown.as_mut() => return Err(DemoError::Stopped),
    };
    let played = tokio::select! {
        played = acts::play(&mut house, &mut teller) => played,
        () = shutdown.as_mut() => Err(DemoError::Stopped),
    };
    if played.is_ok() && options.ending == Ending::Keep {
        tokio::select! {
            gone_on = acts::go_on(&mut house, &mut teller) => gone_on?,
            () = shutdown.as_mut() => {}
        }
    }
    house.close().await?;
    teller.say("All of it is gone again: server, load, exporter.")?;
    played
}
