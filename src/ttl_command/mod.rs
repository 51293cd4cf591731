//! `ttl`: a few seconds' look at what expires when on a live server.

mod json;
mod text;

use std::io::{self, Write};
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::config::{RedisConfig, TtlConfig, TtlGroup};
use crate::one_line::one_line;
use crate::reading::Reach;
use crate::signal::ttl::TtlPicture;
use crate::source::redis::{Node, Sampler};

/// Keys asked a second: about 5 ms of the server's time in each.
const KEYS_PER_SECOND: u32 = 2000;

/// Share of one core of the server that the look may take.
const SERVER_BUDGET: f64 = 0.01;

/// How long to look: 10 000 keys tell a share of 1 % to a fifth of it.
const LOOK: Duration = Duration::from_secs(5);

/// Time between two polls, and between two steps of the progress line.
const STEP: Duration = Duration::from_millis(200);

/// Time for connecting and for one poll.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Columns of the progress line, so that a shorter one covers a longer one.
const PROGRESS_WIDTH: usize = 64;

/// What to look at, and how to say it.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The server.
    pub redis: RedisConfig,
    /// Key groups: the first that matches counts.
    pub groups: Vec<TtlGroup>,
    /// How to say it.
    pub format: Format,
}

/// How to say it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// For a person at a terminal.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// Why there is nothing to say.
#[derive(Debug, thiserror::Error)]
pub enum TtlError {
    /// The server did not answer.
    #[error("{0}")]
    Unreachable(String),
    /// It is still loading.
    #[error("{0} is loading its data set; ask again when it is done")]
    Loading(String),
    /// It lets nobody look.
    #[error(
        "{server} does not let this user look at keys: it refuses {refused}; grant +scan and +pttl"
    )]
    Refused {
        /// The server's address.
        server: String,
        /// The commands.
        refused: String,
    },
    /// No key was answered in time.
    #[error("{0} answered INFO, but no question about a key in time")]
    NoAnswer(String),
    /// The answer cannot be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

/// What was found.
#[derive(Debug)]
struct Look {
    server: String,
    /// The kind of server and its version, such as `redis 7.0.15`.
    software: String,
    picture: TtlPicture,
    /// How long was looked, seconds.
    seconds: f64,
    /// Whether it was cut short.
    interrupted: bool,
}

/// Looks at the server and writes what expires when to `out`; `progress` is for the person who
/// waits. Interrupted, it writes what there is so far.
///
/// # Errors
/// When the server does not answer, lets nobody look at keys, or `out` cannot be written.
pub async fn run(
    options: &Options,
    out: &mut dyn Write,
    progress: &mut dyn Write,
) -> Result<(), TtlError> {
    let look = look(options, progress).await?;
    match options.format {
        Format::Text => text::write(&look, out)?,
        Format::Json => json::write(&look, out)?,
    }
    Ok(out.flush()?)
}

async fn look(options: &Options, progress: &mut dyn Write) -> Result<Look, TtlError> {
    let clock = Clock::start();
    let config = TtlConfig {
        keys_per_second: KEYS_PER_SECOND,
        server_budget: SERVER_BUDGET,
        groups: options.groups.clone(),
        ..TtlConfig::default()
    };
    let mut node = Node::new(&options.redis, TIMEOUT, clock);
    let mut sampler = Sampler::new(&config, clock);
    let server = node.label().to_string();
    let (began, end) = (clock.now(), Instant::now() + LOOK);
    let mut interrupted = false;
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    loop {
        node.poll().await.map_err(|error| TtlError::Unreachable(one_line(&error)))?;
        if node.reach() == Reach::Loading {
            return Err(TtlError::Loading(server));
        }
        let tick = (Instant::now() + STEP).min(end);
        let step = async {
            sampler.run(&mut node, tick).await;
            tokio::time::sleep_until(tick).await;
        };
        tokio::select! {
            () = step => {}
            // Without a handler for it there is nothing to wait for.
            Ok(()) = &mut interrupt => interrupted = true,
        }
        let keys = node.info().and_then(|info| info.keys());
        let whole = sampler.rounds().complete > 0 || keys == Some(0.0);
        show(progress, sampler.sample_keys(), keys);
        if whole || interrupted || Instant::now() >= end {
            break;
        }
    }
    // Nobody has to see it: a progress line that cannot be cleared is no failure.
    let _ = write!(progress, "\r{:PROGRESS_WIDTH$}\r", "");
    let picture = match sampler.picture(clock.now()) {
        Some(picture) => picture,
        None if node.info().and_then(|info| info.keys()) == Some(0.0) => TtlPicture::default(),
        None => return Err(nothing(server, &node)),
    };
    let state = node.state();
    let software =
        [state.server, state.version].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Ok(Look { server, software, picture, seconds: clock.now() - began, interrupted })
}

/// The progress line.
fn show(progress: &mut dyn Write, asked: usize, keys: Option<f64>) {
    let of = keys.map(|keys| format!(" of {}", text::count(keys))).unwrap_or_default();
    let asked = text::count(asked as f64);
    // As above.
    let line = format!("asking keys for their TTL: {asked}{of}");
    let _ = write!(progress, "\r{line:<PROGRESS_WIDTH$}");
    let _ = progress.flush();
}

fn nothing(server: String, node: &Node) -> TtlError {
    let state = node.state();
    let refused: Vec<&str> =
        state.capabilities.iter().filter(|(_, allowed)| !allowed).map(|(name, _)| *name).collect();
    match refused.as_slice() {
        [] => TtlError::NoAnswer(server),
        refused => TtlError::Refused { server, refused: refused.join(", ") },
    }
}
