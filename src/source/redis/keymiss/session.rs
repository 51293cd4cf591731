//! One time of tracking, from the server's setting as it was to the setting as it was.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::Trouble;
use super::feed::{Feed, MISSES};
use super::journal::{Entry, Journal};
use super::setting;
use crate::clock::Clock;
use crate::config::RedisConfig;
use crate::one_line::one_line;
use crate::signal::culprits::MissedKeys;
use crate::source::redis::connect::{self, Phase};
use crate::source::redis::connection::Connection;

/// How often the setting is looked at while it is not as it was.
const CHECK: Duration = Duration::from_secs(1);

/// How long new keys are listened for where the setting may hide that they are announced. A cache
/// that misses loads, and what it loads is new.
const LISTEN: Duration = Duration::from_millis(500);

/// How often it is tried to put the setting back while the server does not let us.
const RETRY: Duration = Duration::from_secs(2);

/// So often a late answer is waited for on the same connection: a server that hangs does what it was
/// told there before what it is told on another one, and so a change could come after its end.
const TRIES_IN_ORDER: u32 = 15;

/// Misses after which enough is known: a flood ends the tracking early, and it costs some tenths
/// of a second of processor time in all.
const MOST_MISSES: u64 = 100_000;

/// What a session shall do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wish {
    /// Track until this time, Unix seconds.
    TrackUntil(f64),
    /// Put back what is not as it was.
    PutBack,
    /// End; what cannot be put back at once is left to the next start.
    End,
}

/// What a session has found so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Whether misses are looked at, or about to be.
    pub(super) tracking: bool,
    pub(super) missed: MissedKeys,
    /// Whether the server lets us; `None` before it has said.
    pub(super) allowed: Option<bool>,
    /// What went wrong.
    pub(super) trouble: Option<Trouble>,
}

/// One time of tracking.
pub(super) struct Session {
    pub(super) node: Arc<str>,
    pub(super) config: RedisConfig,
    pub(super) limit: Duration,
    pub(super) clock: Clock,
    pub(super) journal: Journal,
    pub(super) wish: watch::Receiver<Wish>,
    pub(super) progress: Arc<Mutex<Progress>>,
}

impl Session {
    pub(super) async fn run(self) {
        let mut control = None;
        if matches!(*self.wish.borrow(), Wish::TrackUntil(_)) {
            let result = tokio::select! {
                result = self.track(&mut control) => result,
                () = self.ended() => Ok(()),
            };
            self.note(|progress| {
                progress.tracking = false;
                if let Err(trouble) = result {
                    progress.allowed = progress.allowed.filter(|_| !trouble.is_refusal());
                    progress.trouble = Some(trouble);
                }
            });
        }
        self.put_back(control).await;
    }

    /// Changes the setting where that is needed, and counts misses until the time is over.
    async fn track(&self, control: &mut Option<Connection>) -> Result<(), Trouble> {
        let control = self.control(control).await?;
        let ours = match setting::read(control, self.limit).await {
            Ok(previous) => Ok(self.extend(control, previous).await?),
            // Where nobody may look, misses may be announced all the same.
            Err(trouble) if trouble.is_refusal() => Err(trouble),
            Err(trouble) => return Err(trouble),
        };
        let mut feed = Feed::open(&self.config, MISSES, self.limit).await?;
        if ours.is_ok() {
            self.note(|progress| progress.allowed = Some(true));
        }
        tokio::select! {
            result = self.count(&mut feed) => result?,
            result = self.guard(control, ours.as_deref().ok()) => result?,
        }
        match ours {
            Err(trouble) if self.note(|progress| progress.missed.misses()) == 0 => Err(trouble),
            _ => Ok(()),
        }
    }

    /// Adds what is missing to the setting, and gives what it is then.
    async fn extend(
        &self,
        control: &mut Connection,
        mut previous: String,
    ) -> Result<String, Trouble> {
        if setting::extended(&previous) == previous {
            return Ok(previous);
        }
        if self.new_keys_show(&previous).await? {
            previous.push('n');
        }
        let wanted = setting::extended(&previous);
        let mut entry = Entry::new(&self.node, &previous, &wanted);
        self.journal.note(&entry)?;
        if let Err(trouble) = setting::write(control, &wanted, self.limit).await {
            if trouble.is_refusal() {
                self.journal.clear()?;
            }
            return Err(trouble);
        }
        let set = setting::read(control, self.limit).await?;
        entry.set = Some(set.clone());
        self.journal.note(&entry)?;
        info!(node = %self.node, previous, set, "notify-keyspace-events changed, for a while");
        Ok(set)
    }

    /// Listens whether new keys are announced where the setting may hide that.
    async fn new_keys_show(&self, setting: &str) -> Result<bool, Trouble> {
        let Some(pattern) = setting::where_new_keys_may_show(setting) else { return Ok(false) };
        let mut feed = Feed::open(&self.config, pattern, self.limit).await?;
        let heard = async {
            while !feed.next().await?.is_of_a_new_key() {}
            Ok(true)
        };
        timeout(LISTEN, heard).await.unwrap_or(Ok(false))
    }

    async fn count(&self, feed: &mut Feed) -> Result<(), Trouble> {
        loop {
            let miss = feed.next().await?;
            let misses = self.note(|progress| {
                progress.allowed = Some(true);
                progress.missed.miss(miss.database(), &miss.payload);
                progress.missed.misses()
            });
            if misses >= MOST_MISSES {
                return Ok(());
            }
        }
    }

    /// Returns when the time is over, or somebody else has changed the setting.
    async fn guard(&self, control: &mut Connection, ours: Option<&str>) -> Result<(), Trouble> {
        let mut wish = self.wish.clone();
        loop {
            let Wish::TrackUntil(until) = *wish.borrow_and_update() else { return Ok(()) };
            let left = until - self.clock.now();
            if left <= 0.0 {
                return Ok(());
            }
            tokio::select! {
                () = sleep(CHECK.min(Duration::from_secs_f64(left))) => {}
                _ = wish.changed() => {}
            }
            if let Some(ours) = ours
                && setting::read(control, self.limit).await? != ours
            {
                return Ok(());
            }
        }
    }

    /// Puts the setting back, trying until the server takes it or everything ends.
    async fn put_back(&self, mut control: Option<Connection>) {
        let mut tries = 0;
        while self.journal.is_there() {
            let Err(trouble) = self.try_to_put_back(&mut control).await else { return };
            if tries == 0 {
                let error = one_line(&trouble);
                warn!(node = %self.node, error, "notify-keyspace-events not put back yet");
            }
            tries += 1;
            if !trouble.is_late() || tries % TRIES_IN_ORDER == 0 {
                control = None;
            }
            if *self.wish.borrow() == Wish::End {
                return;
            }
            tokio::select! {
                () = sleep(RETRY) => {}
                () = self.ended() => {}
            }
        }
    }

    async fn try_to_put_back(&self, control: &mut Option<Connection>) -> Result<(), Trouble> {
        let entry = match self.journal.entry() {
            Ok(Some(entry)) if *entry.node == *self.node => entry,
            Ok(Some(Entry { node, previous, .. })) => {
                let node = &*node;
                warn!(
                    node,
                    previous,
                    "notify-keyspace-events was changed there and is to be put back \
                     by hand: this server is not watched any more"
                );
                return self.journal.clear();
            }
            Ok(None) => return Ok(()),
            Err(error) => {
                let (file, error) = (self.journal.0.path().display(), error.to_string());
                warn!(node = %self.node, %file, error, "what notify-keyspace-events was is not known");
                return self.journal.clear();
            }
        };
        let control = self.control(control).await?;
        let now = setting::read(control, self.limit).await?;
        let ours = match &entry.set {
            Some(set) => now == *set,
            // The end came between the change and the answer to it.
            None => setting::mean_the_same(&now, &entry.wanted),
        };
        if ours {
            setting::write(control, &entry.previous, self.limit).await?;
            info!(node = %self.node, setting = entry.previous, "notify-keyspace-events put back");
        } else if !setting::mean_the_same(&now, &entry.previous) {
            info!(node = %self.node, setting = now, "notify-keyspace-events left as somebody else set it");
        }
        self.journal.clear()
    }

    /// The connection for `CONFIG`, kept so that a change and what takes it back stay in order.
    async fn control<'a>(
        &self,
        kept: &'a mut Option<Connection>,
    ) -> Result<&'a mut Connection, Trouble> {
        match kept {
            Some(connection) => Ok(connection),
            None => {
                let mut phase = Phase::default();
                let connecting = connect::connect(&self.config, self.limit, &mut phase);
                let connection = match timeout(self.limit, connecting).await {
                    Ok(connection) => connection?,
                    Err(_) => return Err(phase.out_of_time(self.limit).into()),
                };
                Ok(kept.insert(connection))
            }
        }
    }

    /// Waits for the wish to end.
    async fn ended(&self) {
        let mut wish = self.wish.clone();
        // Nobody is left to wish for anything: that is the end too.
        let _ = wish.wait_for(|wish| *wish == Wish::End).await;
    }

    fn note<T>(&self, change: impl FnOnce(&mut Progress) -> T) -> T {
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
