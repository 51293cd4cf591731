//! Which keys are missed, for a while: key-miss notifications on a second connection.
//!
//! They cost the server a third of its speed where every lookup misses, so they are asked for when
//! there is reason to look, for a bounded time, and taken back with certainty: what the server's
//! setting was is on the disk before it is changed, and put back by whoever runs next. A setting
//! that somebody else has changed meanwhile is theirs.

mod feed;
mod journal;
mod session;
mod setting;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::warn;

use self::journal::Journal;
use self::session::{Progress, Session, Wish};
use super::error::{PollError, PollErrorKind};
use crate::clock::Clock;
use crate::config::RedisConfig;
use crate::one_line::one_line;
use crate::signal::culprits::Culprit;
use crate::state::Place;

/// Why misses are not tracked.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    /// The server does not let us.
    #[error("the server refused {command}: {answer}")]
    Refused { command: &'static str, answer: String },
    /// The connection failed.
    #[error(transparent)]
    Lost(#[from] PollError),
    /// What was subscribed to ended.
    #[error("the subscription ended")]
    Feed(#[from] io::Error),
    /// The setting cannot be noted, so it is not changed.
    #[error("the setting cannot be kept")]
    Journal(#[source] io::Error),
}

impl Trouble {
    /// `answer` is the server's error code, not its text, which may repeat anything.
    fn refused(command: &'static str, answer: &[u8]) -> Trouble {
        Trouble::Refused { command, answer: String::from_utf8_lossy(answer).into_owned() }
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Trouble::Refused { .. })
    }

    fn is_late(&self) -> bool {
        matches!(self, Trouble::Lost(error) if error.kind() == PollErrorKind::Timeout)
    }
}

/// Tracks the missed keys of one server when it is told to.
#[derive(Debug)]
pub struct Tracker {
    node: Arc<str>,
    config: RedisConfig,
    limit: Duration,
    clock: Clock,
    journal: Journal,
    progress: Arc<Mutex<Progress>>,
    session: Option<(JoinHandle<()>, watch::Sender<Wish>)>,
    /// Until when it was told to track. A session that ended before is not begun again for that.
    until: f64,
    /// Misses that were reported.
    reported: u64,
    allowed: bool,
    warned: bool,
}

/// What tracking has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Misses seen so far.
    pub misses: u64,
    /// Different keys among them, within some 3 %.
    pub distinct: f64,
    /// Share of the most-missed key; `None` while too few were seen.
    pub top_share: Option<f64>,
    /// Who is to blame, the worst first.
    pub culprits: Vec<Culprit>,
}

impl Tracker {
    /// A tracker that does nothing yet; `place` is where the server's setting is kept while it is
    /// not as it was. What a process before has left there is put back as soon as the server
    /// answers.
    pub fn new(config: &RedisConfig, limit: Duration, clock: Clock, place: Place) -> Tracker {
        let mut tracker = Tracker {
            node: config.address.to_string().into(),
            config: config.clone(),
            limit,
            clock,
            journal: Journal(place),
            progress: Arc::default(),
            session: None,
            until: f64::NEG_INFINITY,
            reported: 0,
            allowed: false,
            warned: false,
        };
        if tracker.journal.is_there() {
            tracker.start(Wish::PutBack);
        }
        tracker
    }

    /// Tracks until this time, Unix seconds; tracking that is under way goes on until then. It does
    /// not begin while the setting is still to be put back, and is to be asked for again.
    pub fn track_until(&mut self, until: f64) {
        self.take_in();
        if until == self.until {
            return;
        }
        match &self.session {
            Some((_, wish)) => {
                let goes_on = wish.send_if_modified(|wish| match wish {
                    Wish::TrackUntil(before) => {
                        *before = until;
                        true
                    }
                    Wish::PutBack | Wish::End => false,
                });
                if goes_on {
                    self.until = until;
                }
            }
            None => {
                self.until = until;
                self.reported = 0;
                self.progress =
                    Arc::new(Mutex::new(Progress { tracking: true, ..Progress::default() }));
                self.start(Wish::TrackUntil(until));
            }
        }
    }

    /// Ends tracking that is under way; the setting is put back in the background.
    pub fn rest(&mut self) {
        self.take_in();
        if let Some((_, wish)) = &self.session {
            wish.send_if_modified(|wish| match wish {
                Wish::TrackUntil(_) => {
                    *wish = Wish::PutBack;
                    true
                }
                Wish::PutBack | Wish::End => false,
            });
        }
    }

    /// Whether misses are looked at now, or about to be: lookups of our own would be among them.
    pub fn is_tracking(&self) -> bool {
        self.session.is_some() && self.progress().tracking
    }

    /// What was found, if there is something new since the last report.
    pub fn report(&mut self) -> Option<Report> {
        self.take_in();
        let progress = self.progress();
        let misses = progress.missed.misses();
        if misses <= self.reported {
            return None;
        }
        let report = Report {
            misses,
            distinct: progress.missed.distinct(),
            top_share: progress.missed.top_share(),
            culprits: progress.missed.culprits(),
        };
        drop(progress);
        self.reported = misses;
        Some(report)
    }

    /// Whether the server let us when it was asked last; not before it was.
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Ends tracking and puts the setting back.
    pub async fn end(&mut self) {
        let Some((task, wish)) = self.session.take() else { return };
        wish.send_replace(Wish::End);
        let _ = task.await;
    }

    fn start(&mut self, first: Wish) {
        let (sender, wish) = watch::channel(first);
        let session = Session {
            node: Arc::clone(&self.node),
            config: self.config.clone(),
            limit: self.limit,
            clock: self.clock,
            journal: self.journal.clone(),
            wish,
            progress: Arc::clone(&self.progress),
        };
        self.session = Some((tokio::spawn(session.run()), sender));
    }

    /// Takes in what became of the session. That it failed is said once, until it works again.
    fn take_in(&mut self) {
        let (allowed, trouble) = {
            let mut progress = self.progress();
            (progress.allowed, progress.trouble.take())
        };
        if let Some(trouble) = &trouble
            && !self.warned
        {
            let error = one_line(trouble);
            warn!(node = %self.node, error, "missed keys are not tracked");
        }
        if trouble.is_some() || allowed == Some(true) {
            self.warned = trouble.is_some();
            self.allowed = allowed == Some(true);
        }
        if self.session.as_ref().is_some_and(|(task, _)| task.is_finished()) {
            self.session = None;
        }
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
