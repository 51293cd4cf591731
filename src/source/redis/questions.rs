//! How `INFO` is asked: with as few sections as serve, and only as often as they are needed.

use redis::{Cmd, Value};

use super::connection::Connection;
use super::error::{PollError, PollErrorKind};
use crate::reading::info::{self, Info, InfoProblem, InfoProblemKind};

/// The sections of every poll: counters and keys.
const SHORT: [&str; 2] = ["stats", "keyspace"];

/// The further sections of a full question: what seldom changes under a connection, such as the role
/// (a server that becomes a replica loses its keys first, and that is asked after), and the command
/// statistics, which cost the server more than all the others together, since it looks at each command
/// that it knows.
const FURTHER: [&str; 5] = ["server", "memory", "persistence", "replication", "commandstats"];

/// Every so many polls the question is a full one at least: it takes the server three times as long
/// as a short one, so that it adds a tenth to the mean. Where something happened that a short answer
/// leaves open, it follows at once.
const FULL_EVERY_POLLS: u32 = 30;

/// After so many seconds the next question is a full one at least.
const FULL_EVERY_SECONDS: f64 = 30.0;

/// What an answer said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) info: Info,
    /// What was odd about it.
    pub(super) problems: Vec<InfoProblem>,
    /// Whether the question was a full one.
    pub(super) full: bool,
}

/// What one connection's server takes, and what it was asked last. A new connection may lead to
/// another server, and starts anew.
#[derive(Debug, Default)]
pub(super) struct Questions {
    form: Form,
    short_ones: u32,
    /// Unix seconds of the last full question.
    full_at: Option<f64>,
}

impl Questions {
    /// Whether the last full answer is young enough for a short question.
    pub(super) fn may_be_short(&self, now: f64) -> bool {
        self.form == Form::Sections
            && self.short_ones + 1 < FULL_EVERY_POLLS
            && self.full_at.is_some_and(|at| now - at < FULL_EVERY_SECONDS)
    }

    /// Asks for what every poll needs.
    pub(super) async fn ask_shortly(
        &mut self,
        connection: &mut Connection,
    ) -> Result<Answer, PollError> {
        self.short_ones += 1;
        let text = text(connection.ask(&question(&SHORT)).await?)?;
        let (info, mut problems) = info::parse(&text);
        // Nobody asked for what is missing.
        problems.retain(|problem| problem.kind != InfoProblemKind::Missing);
        Ok(Answer { info, problems, full: false })
    }

    /// Asks for everything, in a simpler form where the server does not take the question.
    pub(super) async fn ask_fully(
        &mut self,
        connection: &mut Connection,
        now: f64,
    ) -> Result<Answer, PollError> {
        (self.short_ones, self.full_at) = (0, Some(now));
        loop {
            let answer = text(connection.ask(&self.form.question()).await?);
            let answer = answer.map(|text| {
                let (info, problems) = info::parse(&text);
                Answer { info, problems, full: true }
            });
            match (answer, self.form.simpler()) {
                (Ok(answer), Some(simpler)) if answer.info.is_empty() => self.form = simpler,
                (Err(error), Some(simpler)) if error.kind() == PollErrorKind::Protocol => {
                    self.form = simpler;
                }
                (answer, _) => return answer,
            }
        }
    }
}

/// The form of a full question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Form {
    /// The sections that are read; several at once need Redis 7.0.
    #[default]
    Sections,
    /// Everything, for the command statistics that the default leaves out.
    All,
    /// Whatever the server gives.
    Plain,
}

impl Form {
    fn question(self) -> Cmd {
        match self {
            Form::Sections => question(&[&SHORT[..], &FURTHER[..]].concat()),
            Form::All => question(&["all"]),
            Form::Plain => question(&[]),
        }
    }

    fn simpler(self) -> Option<Form> {
        match self {
            Form::Sections => Some(Form::All),
            Form::All => Some(Form::Plain),
            Form::Plain => None,
        }
    }
}

fn question(sections: &[&str]) -> Cmd {
    let mut command = redis::cmd("INFO");
    command.arg(sections);
    command
}

/// The text of an answer to `INFO`: a bulk string, under RESP3 a verbatim one.
fn text(answer: Value) -> Result<Vec<u8>, PollError> {
    match answer {
        Value::BulkString(bytes) => Ok(bytes),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => Ok(text.into_bytes()),
        Value::ServerError(error) => Err(PollError::replied(error)),
        _ => Err(PollError::new(PollErrorKind::Protocol, "the answer to INFO is not a text")),
    }
}
