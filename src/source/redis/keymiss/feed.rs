//! The second connection: subscribed to events of keys, and read as fast as they come.
//!
//! It is read here rather than by the library, whose subscriptions put no bound on what waits. Not
//! read in time, it fills the server's buffer, and the server closes it.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::Trouble;
use crate::config::RedisConfig;
use crate::source::redis::connect::{self, Duplex, Phase};
use crate::source::redis::error::{PollError, PollErrorKind};

/// Misses of every database.
pub(super) const MISSES: &str = "__keyevent@*__:keymiss";

/// Bytes of a key that are read; of a longer one the rest is passed over.
const LONGEST_KEY: usize = 64 * 1024;

/// Parts of an event: what it is, the pattern, the channel, the payload.
const MOST_PARTS: usize = 4;

/// The longest line that begins an answer or is one.
const LONGEST_LINE: u64 = 4096;

/// A subscription to events of keys.
pub(super) struct Feed(BufReader<Box<dyn Duplex>>);

/// One event: in a channel by event the key is the payload, in one by key the event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) channel: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

impl Event {
    /// The database of the key.
    pub(super) fn database(&self) -> u64 {
        let channel = String::from_utf8_lossy(&self.channel);
        let number = channel.split_once('@').and_then(|(_, rest)| rest.split_once("__"));
        number.and_then(|(number, _)| number.parse().ok()).unwrap_or(0)
    }

    /// Whether it says that a key is new.
    pub(super) fn is_of_a_new_key(&self) -> bool {
        self.channel.ends_with(b"__:new") || self.payload == b"new"
    }
}

/// The head of an answer, with the bytes of a string.
enum Frame {
    Text(Vec<u8>),
    Error(Vec<u8>),
    Items(usize),
    Other,
}

impl Feed {
    /// Connects, logs in and subscribes, within `limit`.
    pub(super) async fn open(
        config: &RedisConfig,
        pattern: &str,
        limit: Duration,
    ) -> Result<Feed, Trouble> {
        let mut phase = Phase::default();
        let opening = async {
            let mut feed = Feed(BufReader::new(connect::stream(config, limit, &mut phase).await?));
            if let Some(auth) = connect::auth(config).await? {
                feed.say(&auth).await?;
                if let Frame::Error(_) = feed.frame().await? {
                    let text = "the server refused to log a second connection in";
                    return Err(PollError::new(PollErrorKind::Auth, text).into());
                }
            }
            feed.say(redis::cmd("PSUBSCRIBE").arg(pattern)).await?;
            match feed.frame().await? {
                Frame::Items(items @ ..=MOST_PARTS) => {
                    for _ in 0..items {
                        feed.frame().await?;
                    }
                    Ok(feed)
                }
                Frame::Error(error) => {
                    let code = error.split(|byte| *byte == b' ').next().unwrap_or_default();
                    Err(Trouble::refused("PSUBSCRIBE", code))
                }
                Frame::Text(_) | Frame::Items(_) | Frame::Other => Err(odd().into()),
            }
        };
        match tokio::time::timeout(limit, opening).await {
            Ok(feed) => feed,
            Err(_) => {
                let text = "the server did not open a second connection in time";
                Err(PollError::new(PollErrorKind::Timeout, text).into())
            }
        }
    }

    /// Waits for the next event. Dropped before it has one, the feed is of no more use.
    pub(super) async fn next(&mut self) -> Result<Event, Trouble> {
        loop {
            let Frame::Items(items @ ..=MOST_PARTS) = self.frame().await? else {
                return Err(odd().into());
            };
            let mut parts = Vec::with_capacity(items);
            for _ in 0..items {
                match self.frame().await? {
                    Frame::Text(text) => parts.push(text),
                    Frame::Items(_) => return Err(odd().into()),
                    Frame::Error(_) | Frame::Other => {}
                }
            }
            if let Ok([kind, _, channel, payload]) = <[Vec<u8>; 4]>::try_from(parts)
                && kind == b"pmessage"
            {
                return Ok(Event { channel, payload });
            }
        }
    }

    async fn say(&mut self, command: &redis::Cmd) -> io::Result<()> {
        self.0.get_mut().write_all(&command.get_packed_command()).await?;
        self.0.get_mut().flush().await
    }

    async fn frame(&mut self) -> io::Result<Frame> {
        let mut line = Vec::new();
        (&mut self.0).take(LONGEST_LINE).read_until(b'\n', &mut line).await?;
        let Some((kind, rest)) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first) else {
            return Err(if line.is_empty() { io::ErrorKind::UnexpectedEof.into() } else { odd() });
        };
        let length = || std::str::from_utf8(rest).ok().and_then(|text| text.parse::<i64>().ok());
        match kind {
            b'+' => Ok(Frame::Text(rest.to_vec())),
            b'-' => Ok(Frame::Error(rest.to_vec())),
            b':' => Ok(Frame::Other),
            b'*' => {
                let items = length().and_then(|items| usize::try_from(items).ok());
                items.map(Frame::Items).ok_or_else(odd)
            }
            b'$' => match length().ok_or_else(odd)? {
                -1 => Ok(Frame::Other),
                length => self.text(usize::try_from(length).map_err(|_| odd())?).await,
            },
            _ => Err(odd()),
        }
    }

    /// A string of this length and the line end behind it.
    async fn text(&mut self, length: usize) -> io::Result<Frame> {
        let mut text = vec![0; length.min(LONGEST_KEY)];
        self.0.read_exact(&mut text).await?;
        let rest = (length - text.len()) as u64 + 2;
        let passed = tokio::io::copy(&mut (&mut self.0).take(rest), &mut tokio::io::sink()).await?;
        if passed < rest {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Frame::Text(text))
    }
}

fn odd() -> io::Error {
    io::Error::other("the answer is not what Redis would say")
}
