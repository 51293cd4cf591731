//! One pipeline of the sampler, and what its answers mean.

use redis::{Pipeline, ServerError, ServerErrorKind, Value};

/// A command of the sampler, as the `command` label of `stampede_redis_capability`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Pttl,
    Scan,
    RandomKey,
    Select,
    ObjectFreq,
}

impl Command {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Command::Pttl => "pttl",
            Command::Scan => "scan",
            Command::RandomKey => "randomkey",
            Command::Select => "select",
            Command::ObjectFreq => "object",
        }
    }
}

/// How the next keys are got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fetch {
    /// `SCAN` from this cursor, looking at about so many entries.
    Scan { cursor: u64, count: usize },
    /// `RANDOMKEY` so many times.
    RandomKeys(usize),
}

impl Fetch {
    pub(super) fn command(self) -> Command {
        match self {
            Fetch::Scan { .. } => Command::Scan,
            Fetch::RandomKeys(_) => Command::RandomKey,
        }
    }
}

/// One pipeline: the TTLs of some keys of one database, then more keys.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) database: u64,
    pub(super) keys: Vec<Vec<u8>>,
    /// The round of the scan that gave them, modulo 256, if rounds keep their order.
    pub(super) round: Option<u8>,
    /// Whether their use is asked too.
    pub(super) frequencies: bool,
    pub(super) fetch: Option<Fetch>,
    /// When the round began that these keys are the last of, Unix seconds.
    pub(super) finishes: Option<f64>,
}

/// What a pipeline brought.
#[derive(Debug)]
pub(super) struct Answered {
    /// Whether the questions went to the slice's database.
    pub(super) selected: bool,
    /// One answer a key.
    pub(super) ttls: Vec<Answer>,
    /// One answer a key where their use was asked.
    pub(super) frequencies: Vec<Use>,
    /// The keys that were fetched; `None` when none were asked for.
    pub(super) fetched: Option<Result<Batch, Refusal>>,
}

/// What `PTTL` says of a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Answer {
    /// Seconds left.
    Left(f64),
    /// It never runs out.
    NoTtl,
    /// It does not exist any more.
    Gone,
    /// The server does not do this at all, or not now. It looked nothing up.
    Refused(Refusal),
    /// This one key could not be looked up, or the answer is none that `PTTL` gives.
    Odd,
}

/// What `OBJECT FREQ` says of a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Use {
    /// The logarithmic counter of its use.
    Counter(u8),
    /// It does not exist any more.
    Gone,
    /// The server does not do this at all, or not now. It looked nothing up.
    Refused(Refusal),
    /// It looked the key up and said something else: that its policy is another one by now.
    Odd,
}

/// Why a command was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The user may not use it, or the server does not have it.
    Command,
    /// The server is loading, has lost its primary, or runs a script.
    NotNow,
}

/// More keys, and where to go on.
#[derive(Debug, PartialEq)]
pub(super) struct Batch {
    /// The next cursor; `None` for keys drawn at random. 0 ends the round.
    pub(super) cursor: Option<u64>,
    pub(super) keys: Vec<Vec<u8>>,
}

impl Slice {
    /// The commands. The connection is left in database 0, where others expect it.
    pub(super) fn pipeline(&self) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(2 * self.keys.len() + 3);
        if self.elsewhere() {
            pipeline.cmd("SELECT").arg(self.database);
        }
        for key in &self.keys {
            pipeline.cmd("PTTL").arg(key);
        }
        for key in self.asked_for_use() {
            pipeline.cmd("OBJECT").arg("FREQ").arg(key);
        }
        match self.fetch {
            Some(Fetch::Scan { cursor, count }) => {
                pipeline.cmd("SCAN").arg(cursor).arg("COUNT").arg(count);
            }
            Some(Fetch::RandomKeys(count)) => {
                for _ in 0..count {
                    pipeline.cmd("RANDOMKEY");
                }
            }
            None => {}
        }
        if self.elsewhere() {
            pipeline.cmd("SELECT").arg(0);
        }
        pipeline
    }

    /// Reads the answers to [`Slice::pipeline`].
    pub(super) fn read(&self, answers: Vec<Value>) -> Answered {
        let mut answers = answers.into_iter();
        let selected = !self.elsewhere() || answers.next() == Some(Value::Okay);
        let ttls = answers.by_ref().take(self.keys.len()).map(|a| ttl(&a)).collect();
        let frequencies = answers.by_ref().take(self.asked_for_use().len());
        let frequencies = frequencies.map(|a| frequency(&a)).collect();
        let fetched = self.fetch.map(|fetch| match fetch {
            Fetch::Scan { .. } => batch(answers.next().unwrap_or(Value::Nil)),
            Fetch::RandomKeys(count) => random(answers.by_ref().take(count)),
        });
        Answered { selected, ttls, frequencies, fetched }
    }

    fn asked_for_use(&self) -> &[Vec<u8>] {
        if self.frequencies { &self.keys } else { &[] }
    }

    fn elsewhere(&self) -> bool {
        self.database != 0
    }
}

/// What an answer to `PTTL` says.
pub(super) fn ttl(answer: &Value) -> Answer {
    match answer {
        Value::Int(-1) => Answer::NoTtl,
        Value::Int(-2) => Answer::Gone,
        Value::Int(milliseconds @ 0..) => Answer::Left(*milliseconds as f64 / 1000.0),
        Value::ServerError(error) => match refusal(error) {
            Some(refusal) => Answer::Refused(refusal),
            None => Answer::Odd,
        },
        _ => Answer::Odd,
    }
}

/// What an answer to `OBJECT FREQ` says.
fn frequency(answer: &Value) -> Use {
    match answer {
        Value::Int(counter) => u8::try_from(*counter).map_or(Use::Odd, Use::Counter),
        Value::Nil => Use::Gone,
        Value::ServerError(error) => refusal(error).map_or(Use::Odd, Use::Refused),
        _ => Use::Odd,
    }
}

/// What an error means for the whole command; `None` when it is about one key.
fn refusal(error: &ServerError) -> Option<Refusal> {
    let details = error.details().unwrap_or_default();
    match error.kind() {
        Some(ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown) => Some(Refusal::NotNow),
        // Servers name the command when it is meant, and the key when only that is.
        Some(ServerErrorKind::NoPerm) => details.contains("command").then_some(Refusal::Command),
        _ if error.code() == "BUSY" => Some(Refusal::NotNow),
        _ if details.starts_with("unknown ") => Some(Refusal::Command),
        _ => None,
    }
}

fn batch(answer: Value) -> Result<Batch, Refusal> {
    let parts = match answer {
        Value::Array(parts) => parts,
        Value::ServerError(error) => return Err(refusal(&error).unwrap_or(Refusal::Command)),
        _ => return Err(Refusal::NotNow),
    };
    let mut parts = parts.into_iter();
    let cursor = match parts.next() {
        Some(Value::BulkString(text)) => {
            std::str::from_utf8(&text).ok().and_then(|t| t.parse().ok())
        }
        Some(Value::SimpleString(text)) => text.parse().ok(),
        Some(Value::Int(number)) => u64::try_from(number).ok(),
        _ => None,
    };
    let (Some(cursor), Some(Value::Array(keys))) = (cursor, parts.next()) else {
        return Err(Refusal::NotNow);
    };
    Ok(Batch { cursor: Some(cursor), keys: keys.into_iter().filter_map(key).collect() })
}

fn random(answers: impl Iterator<Item = Value>) -> Result<Batch, Refusal> {
    let mut keys = Vec::new();
    for answer in answers {
        if let Value::ServerError(error) = &answer {
            return Err(refusal(error).unwrap_or(Refusal::Command));
        }
        keys.extend(key(answer));
    }
    Ok(Batch { cursor: None, keys })
}

/// A key's bytes, whatever they are.
fn key(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        Value::VerbatimString { text, .. } => Some(text.into_bytes()),
        _ => None,
    }
}
