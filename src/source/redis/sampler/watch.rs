//! The watch list: single keys whose deadline is asked at every poll, since a sample of a large key
//! space does not see one hot key.

use std::sync::Arc;

use redis::{Pipeline, Value};

use super::slice::{Answer, ttl};
use crate::config::TtlWatch;
use crate::signal::ttl::{Watched, WatchedState};

/// The watched keys of one cache.
#[derive(Debug, Default)]
pub(super) struct WatchList {
    keys: Vec<Key>,
    /// Keys of the configuration; those behind them are watched for a while.
    lasting: usize,
}

#[derive(Debug)]
struct Key {
    name: Arc<str>,
    database: u64,
    key: Vec<u8>,
    /// Unix seconds at which it is left again.
    until: f64,
    state: Option<WatchedState>,
}

impl WatchList {
    pub(super) fn new(watch: &[TtlWatch]) -> WatchList {
        let key = |w: &TtlWatch| Key {
            name: w.name.clone(),
            database: 0,
            key: w.key.clone().into_bytes(),
            until: f64::INFINITY,
            state: None,
        };
        WatchList { keys: watch.iter().map(key).collect(), lasting: watch.len() }
    }

    /// Watches keys until a time, Unix seconds, in place of those that were watched for a while. A
    /// key that is watched already stays what it is.
    pub(super) fn watch_for_a_while(&mut self, keys: &[(u64, Vec<u8>)], until: f64) {
        let before = self.keys.split_off(self.lasting);
        let new =
            keys.iter().filter(|(database, key)| !self.keys.iter().any(|k| k.is(*database, key)));
        let new: Vec<Key> = new
            .enumerate()
            .map(|(place, (database, key))| Key {
                name: format!("suspect {}", place + 1).into(),
                database: *database,
                key: key.clone(),
                until,
                state: before.iter().find(|b| b.is(*database, key)).and_then(|b| b.state),
            })
            .collect();
        self.keys.extend(new);
    }

    /// Leaves the keys whose time is over.
    pub(super) fn leave(&mut self, now: f64) {
        self.keys.retain(|key| key.until > now);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// One question about all of them. The connection is left in database 0.
    pub(super) fn pipeline(&self) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(self.keys.len());
        let mut here = 0;
        let mut select = |pipeline: &mut Pipeline, database| {
            if std::mem::replace(&mut here, database) != database {
                pipeline.cmd("SELECT").arg(database);
            }
        };
        for key in &self.keys {
            select(&mut pipeline, key.database);
            pipeline.cmd("PTTL").arg(&key.key);
        }
        select(&mut pipeline, 0);
        pipeline
    }

    /// Takes in the answers, which came at `at`, Unix seconds; gives those of `PTTL`. What is refused
    /// is not known.
    pub(super) fn take_in(&mut self, answers: Vec<Value>, at: f64) -> Vec<Answer> {
        let mut answers = answers.into_iter();
        let mut ttls = Vec::with_capacity(self.keys.len());
        let (mut here, mut selected) = (0, true);
        for key in &mut self.keys {
            if std::mem::replace(&mut here, key.database) != key.database {
                selected = answers.next() == Some(Value::Okay);
            }
            let Some(answer) = answers.next().as_ref().map(ttl) else { break };
            key.state = match answer {
                Answer::Left(seconds) => Some(WatchedState::Due(at + seconds)),
                Answer::NoTtl => Some(WatchedState::NoTtl),
                Answer::Gone => Some(WatchedState::Missing),
                Answer::Refused(_) | Answer::Odd => None,
            }
            // The question went to another database: counted, but about another key.
            .filter(|_| selected);
            ttls.push(answer);
        }
        ttls
    }

    /// Forgets what is known, as while the server is away.
    pub(super) fn forget(&mut self) {
        for key in &mut self.keys {
            key.state = None;
        }
    }

    /// The list for the picture; empty before the first answer to any of them.
    pub(super) fn watched(&self) -> Vec<Watched> {
        if self.keys.iter().all(|key| key.state.is_none()) {
            return Vec::new();
        }
        self.keys.iter().map(|k| Watched { name: Arc::clone(&k.name), state: k.state }).collect()
    }
}

impl Key {
    fn is(&self, database: u64, key: &[u8]) -> bool {
        self.database == database && self.key == key
    }
}
