//! One server, polled.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::connect::{self, Phase};
use super::connection::Connection;
use super::error::{PollError, PollErrorKind};
use super::questions::{Answer, Questions};
use super::retry::Retry;
use crate::clock::Clock;
use crate::config::RedisConfig;
use crate::one_line::one_line;
use crate::reading::Reach;
use crate::reading::info::{Info, InfoProblem, InfoProblemKind};
use crate::signal::counters::{NodeCounters, OwnLookups, ResetReason};
use crate::snapshot::NodeState;

/// Different problems of `INFO` texts that are told apart; a server cannot make us keep more.
const REMEMBERED_PROBLEMS: usize = 256;

/// Changes of the answering server after which the address is said to be more than one.
const NODE_CHANGES_TO_WARN: u64 = 2;

/// One server of a cache: its kept connection and what it said.
#[derive(Debug)]
pub struct Node {
    label: Arc<str>,
    config: RedisConfig,
    timeout: Duration,
    clock: Clock,
    connection: Option<Connection>,
    questions: Questions,
    retry: Retry,
    health: Health,
    last_success: Option<f64>,
    info: Option<Info>,
    /// What the last full question gave, and when: short answers are completed from it.
    last_full: Option<(f64, Info)>,
    counters: NodeCounters,
    own: OwnLookups,
    capabilities: Vec<(&'static str, bool)>,
    problems: HashSet<InfoProblem>,
    warned_of_many: bool,
}

impl Node {
    /// A server that is not connected to yet. `timeout` is for one whole poll.
    pub fn new(config: &RedisConfig, timeout: Duration, clock: Clock) -> Node {
        Node {
            label: config.address.to_string().into(),
            config: config.clone(),
            timeout,
            clock,
            connection: None,
            questions: Questions::default(),
            retry: Retry::default(),
            health: Health::Unknown,
            last_success: None,
            info: None,
            last_full: None,
            counters: NodeCounters::default(),
            own: OwnLookups::default(),
            capabilities: vec![("info", false)],
            problems: HashSet::new(),
            warned_of_many: false,
        }
    }

    /// The `node` label.
    pub fn label(&self) -> &Arc<str> {
        &self.label
    }

    /// Polls the server once, connecting first where needed, within the timeout in all.
    ///
    /// After a failure the connection is gone, and the next polls may fail at once while a pause
    /// lasts. A change for the worse or the better is logged here; the error is for counting.
    ///
    /// # Errors
    /// Whatever kept the server from answering `INFO`; its kind is the label.
    pub async fn poll(&mut self) -> Result<(), PollError> {
        if let Some(kind) = self.retry.waits_for(self.clock.now()) {
            return Err(PollError::new(kind, "not tried again yet after a failure"));
        }
        match self.try_poll().await {
            Ok(answer) => {
                self.take_in(answer);
                Ok(())
            }
            Err(error) => {
                self.fail(&error);
                Err(error)
            }
        }
    }

    /// Everything about the server for the snapshot. While it is down only counters remain.
    pub fn state(&self) -> NodeState {
        let info = self.info.as_ref();
        NodeState {
            node: Arc::clone(&self.label),
            up: self.health == Health::Up,
            last_success: self.last_success,
            server: info.and_then(|i| i.server.clone()),
            version: info.and_then(|i| i.version.clone()),
            role: info.and_then(|i| i.role.clone()),
            mode: info.and_then(|i| i.mode.clone()),
            totals: self.counters.totals(),
            keys: info.and_then(Info::keys),
            memory_used: info.and_then(|i| i.used_memory),
            memory_limit: info.and_then(|i| i.maxmemory).filter(|limit| *limit > 0.0),
            resets: ResetReason::ALL.map(|r| (r.as_str(), self.counters.resets(r))).to_vec(),
            capabilities: self.capabilities.clone(),
            info_problems: InfoProblemKind::ALL.map(|k| (k.as_str(), self.problems(k))).to_vec(),
        }
    }

    /// The counters, added up over everything that happened to the server.
    pub fn counters(&self) -> &NodeCounters {
        &self.counters
    }

    /// What the last poll said; `None` while the server is down.
    pub fn info(&self) -> Option<&Info> {
        self.info.as_ref()
    }

    /// Whether the server answered the last poll.
    pub fn reach(&self) -> Reach {
        match (self.health, &self.info) {
            (Health::Unknown, _) => Reach::Unknown,
            (Health::Up, Some(Info { loading: Some(true), .. })) => Reach::Loading,
            (Health::Up, _) => Reach::Answering,
            (Health::Down(_), _) => Reach::Failing,
        }
    }

    /// The kept connection, for commands between two polls; `None` while the server is down.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut()
    }

    /// Adds lookups that our own commands caused, once their answers are in.
    pub fn note_own(&mut self, more: OwnLookups) {
        self.own.hits += more.hits;
        self.own.misses += more.misses;
    }

    /// Gives the connection up because commands on it were cut off: their answers may come late,
    /// and nobody knows which of them the server counted.
    pub fn poison(&mut self) {
        self.connection = None;
        self.counters.note_uncertain();
    }

    /// Notes whether the server lets us use a command, each time that one shows it.
    pub fn note_capability(&mut self, command: &'static str, allowed: bool) {
        match self.capabilities.iter_mut().find(|(name, _)| *name == command) {
            Some((_, known)) => *known = allowed,
            None => self.capabilities.push((command, allowed)),
        }
    }

    /// One poll within the deadline. A kept connection may have been closed since the last poll
    /// without anything being wrong, so that alone is tried once more on a new one.
    async fn try_poll(&mut self) -> Result<Answer, PollError> {
        let timeout = self.timeout;
        let mut phase = Phase::default();
        let attempts = async {
            let kept = self.connection.is_some();
            let mut result = self.ask(&mut phase).await;
            if kept && result.as_ref().is_err_and(|e| e.kind() == PollErrorKind::Closed) {
                self.connection = None;
                result = self.ask(&mut phase).await;
            }
            match result {
                Err(error) if error.kind() == PollErrorKind::Closed => {
                    Err(connect::explain_closed(&self.config, timeout, error).await)
                }
                result => result,
            }
        };
        match tokio::time::timeout(timeout, attempts).await {
            Ok(result) => result,
            Err(_) => Err(phase.out_of_time(timeout)),
        }
    }

    /// Asks for `INFO`: the short question while it tells enough, else the full one.
    async fn ask(&mut self, phase: &mut Phase) -> Result<Answer, PollError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                self.questions = Questions::default();
                none.insert(connect::connect(&self.config, self.timeout, phase).await?)
            }
        };
        *phase = Phase::Asking;
        let now = self.clock.now();
        let loading = self.info.as_ref().is_none_or(|info| info.loading == Some(true));
        if !loading && self.questions.may_be_short(now) {
            let answer = self.questions.ask_shortly(connection).await?;
            if !answer.info.is_empty() && !self.counters.wants_more(now, &answer.info) {
                return Ok(answer);
            }
        }
        self.questions.ask_fully(connection, now).await
    }

    fn take_in(&mut self, Answer { mut info, problems, full }: Answer) {
        let now = self.clock.now();
        if full {
            self.last_full = Some((now, info.clone()));
        } else if let Some((at, earlier)) = &self.last_full {
            info.keep_from(earlier, now - at);
        }
        for problem in problems {
            if self.problems.len() < REMEMBERED_PROBLEMS && !self.problems.contains(&problem) {
                let InfoProblem { kind, field } = &problem;
                tracing::debug!(node = %self.label, kind = kind.as_str(), field, "odd INFO field");
                self.problems.insert(problem);
            }
        }
        self.counters.observe(now, &info, self.own);
        self.info = Some(info);
        self.last_success = Some(now);
        self.retry = Retry::default();
        self.note_capability("info", true);
        self.warn_of_many();
        match self.health {
            Health::Up => {}
            Health::Unknown => tracing::info!(node = %self.label, "the server answers"),
            Health::Down(_) => tracing::info!(node = %self.label, "the server answers again"),
        }
        self.health = Health::Up;
    }

    fn fail(&mut self, error: &PollError) {
        let kind = error.kind();
        self.connection = None;
        self.info = None;
        self.retry.failed(self.clock.now(), kind);
        if kind == PollErrorKind::NoPermission {
            self.note_capability("info", false);
        }
        if self.health != Health::Down(kind) {
            let error = one_line(error);
            tracing::warn!(node = %self.label, reason = kind.as_str(), error, "the poll failed");
        }
        self.health = Health::Down(kind);
    }

    fn warn_of_many(&mut self) {
        let changes = self.counters.resets(ResetReason::NodeChange).count;
        if changes >= NODE_CHANGES_TO_WARN && !self.warned_of_many {
            self.warned_of_many = true;
            tracing::warn!(
                node = %self.label,
                changes,
                "different servers answer at this address; give each server its own, or the numbers \
                 of several are mixed"
            );
        }
    }

    fn problems(&self, kind: InfoProblemKind) -> u64 {
        self.problems.iter().filter(|problem| problem.kind == kind).count() as u64
    }
}

/// Whether the server answered the last poll; a failure for another reason is a change too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Unknown,
    Up,
    Down(PollErrorKind),
}
