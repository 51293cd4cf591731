//! The TTL sampler: a rolling scan of the key space, so many keys a second, on the kept connection.
//!
//! # Why a scan
//! `RANDOMKEY` draws keys with unequal chances on Redis (it costs 6 % of the sample, not the
//! truth) and takes the server 2-3 µs a key where `SCAN` takes 1; a scan that goes on from the
//! cursor it was given also ends: after a round every key was seen once, and the picture of a small
//! key space is a census. Its order is that of the keys' hashes, which know nothing of deadlines.
//! `RANDOMKEY` is what is left where `SCAN` is not allowed.
//!
//! # What it does to the server
//! One small pipeline at a time, [`SLICE_KEYS`] keys or fewer: `PTTL` for the keys that the last
//! `SCAN` gave, then the next `SCAN`. Never a script, never two at once. `PTTL` looks a key up
//! without touching its LRU or LFU state, as does `OBJECT FREQ`, which is asked beside it where
//! the server evicts by frequency of use. It cannot avoid three things: the server counts each
//! of these as a lookup, which is taken out of the exported counters exactly, reply by reply, before
//! the next `INFO` on the same connection; it emits `keymiss` events for the keys that are gone
//! already; and it deletes expired keys that a scan meets, a little before it would have done so
//! by itself. Those were the application's keys and their time was up, so they stay in the count
//! of expired keys. What all this takes of the server's time is measured where `commandstats` tell
//! it, and above the configured budget the pace is lowered.

mod course;
mod pace;
mod slice;
mod walk;
mod watch;

use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::{Instant, sleep_until, timeout_at};

use self::course::Course;
use self::pace::Pace;
use self::slice::{Answer, Answered, Command, Refusal, Slice, Use};
use self::watch::WatchList;
use super::{Connection, Node};
use crate::clock::Clock;
use crate::config::TtlConfig;
use crate::reading::info::Info;
use crate::signal::counters::OwnLookups;
use crate::signal::culprits::{Culprit, Neighbours};
use crate::signal::ttl::{Estimator, Groups, Rounds, Seen, TtlPicture};
use crate::snapshot::SamplerTotals;

/// Keys in one pipeline at an ordinary pace: about 100 µs of the server's time, three polls'
/// worth. Each one wakes both processes up, which costs more than its keys do.
const SLICE_KEYS: f64 = 50.0;

/// The longest time one pipeline may take. Longer than that the server has other worries.
const SLICE_TIMEOUT: Duration = Duration::from_millis(500);

/// How long an answer counts, seconds. Deadlines do not age, but keys are written again.
const MAX_AGE: f64 = 300.0;

/// How long a refused command is left alone, seconds. Permissions may be granted at run time.
const REFUSED_PAUSE: f64 = 5.0;

/// How old a picture may be and still be handed out again, seconds: polls may be far more frequent.
const PICTURE_AGE: f64 = 0.9;

/// Samples one server's deadlines between polls.
#[derive(Debug)]
pub struct Sampler {
    clock: Clock,
    pace: Pace,
    estimator: Estimator,
    course: Course,
    watch: WatchList,
    neighbours: Neighbours,
    /// The process that the sample is of.
    run_id: Option<String>,
    uptime: f64,
    /// Whether the server counts the use of each key.
    counts_use: bool,
    /// When that is asked again after it was refused, Unix seconds.
    use_again: f64,
    /// Nothing is asked before this time, Unix seconds ...
    paused_until: f64,
    /// ... and nothing but the watch list before this one.
    fetched_again: f64,
    next: Option<Instant>,
    lookups: u64,
    /// Keys that the server refused to look up or answered oddly.
    odd: u64,
    picture: Option<TtlPicture>,
}

impl Sampler {
    /// A sampler that has asked nothing yet. A pace of 0 keys a second leaves only the watch list.
    pub fn new(config: &TtlConfig, clock: Clock) -> Sampler {
        let groups = config.groups.iter().map(|g| (g.name.clone(), g.pattern.clone()));
        let capacity = (f64::from(config.keys_per_second) * MAX_AGE) as usize;
        Sampler {
            clock,
            pace: Pace::new(config),
            estimator: Estimator::new(Groups::new(groups), capacity, MAX_AGE),
            course: Course::default(),
            watch: WatchList::new(&config.watch),
            neighbours: Neighbours::default(),
            run_id: None,
            uptime: 0.0,
            counts_use: false,
            use_again: 0.0,
            paused_until: 0.0,
            fetched_again: 0.0,
            next: None,
            lookups: 0,
            odd: 0,
            picture: None,
        }
    }

    /// Asks evenly spread questions and returns shortly before `until`, so that a poll at that time
    /// finds the connection idle. Only a question that the server is slow to answer takes longer,
    /// half a second at most: a poll that comes late says more than one without a connection.
    /// It may also be dropped at any time: a question under way then takes the connection with it
    /// (see [`Node::poison`]).
    pub async fn run(&mut self, node: &mut Node, until: Instant) {
        match node.info() {
            Some(info) => self.observe(info),
            None => return self.watch.forget(),
        }
        self.watch.leave(self.clock.now());
        if !self.ask_watched(node, until).await {
            return;
        }
        loop {
            let Some(keys) = self.pace.slice(self.course.keys()) else { return };
            let start = self.next.map_or_else(Instant::now, |next| next.max(Instant::now()));
            if start + self.pace.room() > until {
                return;
            }
            sleep_until(start).await;
            self.next = Some(start + keys.interval);
            let now = self.clock.now();
            if now < self.paused_until.max(self.fetched_again) {
                continue;
            }
            let Some(slice) = self.slice(now, keys.count) else { continue };
            if !self.ask(node, slice).await {
                return;
            }
        }
    }

    /// Watches keys of these databases until a time, Unix seconds, in place of those given before;
    /// they are shown as suspects by number.
    pub fn watch_for_a_while(&mut self, keys: &[(u64, Vec<u8>)], until: f64) {
        self.watch.watch_for_a_while(keys, until);
    }

    /// Asks for the keys that it knows, before any others, which of them went from `since` on, Unix
    /// seconds.
    pub fn look_for_gone(&mut self, since: f64) {
        self.neighbours.look(since);
    }

    /// Asks no more for what went.
    pub fn rest(&mut self) {
        self.neighbours.rest();
    }

    /// The patterns of what went; see [`Neighbours::culprits`].
    pub fn gone(&self) -> Vec<Culprit> {
        self.neighbours.culprits(self.clock.now())
    }

    /// Takes in what the last poll said; [`Sampler::run`] does so by itself.
    pub fn observe(&mut self, info: &Info) {
        let uptime = info.uptime.unwrap_or(self.uptime);
        if info.run_id != self.run_id || uptime < self.uptime {
            self.estimator.clear();
            self.course.restart();
            self.neighbours.clear();
            self.picture = None;
            self.run_id.clone_from(&info.run_id);
        }
        self.uptime = uptime;
        self.pace.observe(self.clock.now(), info);
        self.counts_use = info.maxmemory_policy.as_ref().is_some_and(|p| p.ends_with("-lfu"));
        self.course.observe(info);
        self.estimator.observe_spaces(self.clock.now(), self.course.databases());
    }

    /// Takes in how many keys the server has counted as expired so far, whichever connection said so.
    pub fn observe_expired(&mut self, expired: f64) {
        self.estimator.observe_expired(self.clock.now(), expired);
    }

    /// What expires when; `None` before the first answer, unless there is nothing to ask for.
    pub fn picture(&mut self, now: f64) -> Option<TtlPicture> {
        let watched = self.watch.watched();
        let picture = self.look(now, !watched.is_empty())?.clone();
        Some(TtlPicture { watched, ..picture })
    }

    /// Keys due in the coming second over the mean rate; see [`TtlPicture::due_ratio`].
    pub fn due_ratio(&mut self, now: f64) -> Option<f64> {
        self.look(now, false)?.due_ratio
    }

    /// The picture but for the watch list, a new one where the last is old.
    fn look(&mut self, now: f64, watches: bool) -> Option<&TtlPicture> {
        let fresh =
            self.picture.as_ref().is_some_and(|p| (0.0..PICTURE_AGE).contains(&(now - p.time)));
        if !fresh {
            let known = self.course.is_empty() || self.estimator.sample_keys() > 0 || watches;
            self.picture = known.then(|| TtlPicture {
                sampler_lookups: self.lookups,
                odd_keys: self.odd,
                server_share: self.pace.server_share(),
                rounds: self.rounds(),
                ..self.estimator.picture(now)
            });
        }
        self.picture.as_ref()
    }

    /// What it did so far.
    pub fn totals(&self) -> SamplerTotals {
        let rounds = self.rounds().complete;
        let waves = self.estimator.outcomes();
        SamplerTotals { lookups: self.lookups, odd_keys: self.odd, rounds, waves }
    }

    /// How far the rounds have got.
    pub fn rounds(&self) -> Rounds {
        self.course.rounds()
    }

    /// Keys in the sample.
    pub fn sample_keys(&self) -> usize {
        self.estimator.sample_keys()
    }

    /// The next question: for what may be gone, else for what comes next on the way.
    fn slice(&mut self, now: f64, keys: usize) -> Option<Slice> {
        if let Some((database, keys)) = self.neighbours.questions(now, keys) {
            let (round, frequencies, fetch, finishes) = (None, false, None, None);
            return Some(Slice { database, keys, round, frequencies, fetch, finishes });
        }
        let frequencies = self.counts_use && now >= self.use_again;
        Some(Slice { frequencies, ..self.course.next(now, keys)? })
    }

    /// Asks for the keys of the watch list; `false` when the connection is lost.
    async fn ask_watched(&mut self, node: &mut Node, until: Instant) -> bool {
        if self.watch.is_empty() || Instant::now() + self.pace.room() > until {
            return true;
        }
        let loading = node.info().is_none_or(|info| info.loading == Some(true));
        if loading || self.clock.now() < self.paused_until {
            self.watch.forget();
            return true;
        }
        let Some((answers, at)) = self.exchange(node, &self.watch.pipeline()).await else {
            self.watch.forget();
            return false;
        };
        let answers = self.watch.take_in(answers, at);
        self.count(node, &answers, false);
        true
    }

    /// Asks one question and takes in its answers; `false` when the connection is lost.
    async fn ask(&mut self, node: &mut Node, slice: Slice) -> bool {
        match self.exchange(node, &slice.pipeline()).await {
            Some((answers, at)) => {
                self.take_in(node, &slice, answers, at);
                true
            }
            None => false,
        }
    }

    /// Sends a pipeline; its answers, and when the server read its clock for them, Unix seconds.
    /// `None` when the answers did not come in time: then the connection is given up.
    async fn exchange(
        &mut self,
        node: &mut Node,
        pipeline: &Pipeline,
    ) -> Option<(Vec<Value>, f64)> {
        let deadline = Instant::now() + SLICE_TIMEOUT;
        let sent = self.clock.now();
        let mut asking = Asking(Some(node));
        let Some(connection) = asking.connection() else {
            asking.settled();
            return None;
        };
        let Ok(Ok(answers)) = timeout_at(deadline, connection.ask_all(pipeline)).await else {
            // Late, or the connection broke: `asking` gives it up.
            return None;
        };
        asking.settled();
        let received = self.clock.now();
        self.pace.took(received - sent);
        Some((answers, (sent + received) / 2.0))
    }

    fn take_in(&mut self, node: &mut Node, slice: &Slice, answers: Vec<Value>, at: f64) {
        let answered = slice.read(answers);
        self.take_in_ttls(node, slice, &answered, at);
        if let Some(began) = slice.finishes {
            self.estimator.finish_round(slice.database, began);
        }
        let orderly = self.course.is_orderly();
        let Some(walk) = self.course.walk(slice.database) else { return };
        if !answered.selected {
            walk.close(at);
            node.note_capability(Command::Select.as_str(), false);
            return;
        }
        match (slice.fetch, answered.fetched) {
            (Some(fetch), Some(Ok(batch))) => {
                node.note_capability(fetch.command().as_str(), true);
                let given = batch.keys.len();
                if let Some(table) = walk.advance(batch, at)
                    && orderly
                {
                    self.estimator.scanned(slice.database, given, table);
                }
            }
            (Some(fetch), Some(Err(refusal))) => {
                walk.restart();
                self.refused(node, fetch.command(), refusal);
            }
            _ => {}
        }
    }

    fn take_in_ttls(&mut self, node: &mut Node, slice: &Slice, answered: &Answered, at: f64) {
        self.count(node, &answered.ttls, slice.fetch.is_some());
        self.count_use(node, &answered.frequencies);
        if !answered.selected {
            // The questions went to another database: counted, but about no key of this one.
            return;
        }
        let mut frequencies = answered.frequencies.iter().map(|answer| match answer {
            Use::Counter(counter) => Some(*counter),
            _ => None,
        });
        for (key, answer) in slice.keys.iter().zip(&answered.ttls) {
            let frequency = frequencies.next().flatten();
            let left = match answer {
                Answer::Left(left) => Some(*left),
                Answer::NoTtl => None,
                Answer::Gone => {
                    self.estimator.gone(slice.database, key);
                    self.neighbours.answer(slice.database, key, false);
                    continue;
                }
                Answer::Refused(_) | Answer::Odd => continue,
            };
            let seen = Seen { ttl: left, frequency, round: slice.round };
            self.estimator.draw(at, slice.database, key, seen);
            self.neighbours.answer(slice.database, key, true);
            self.neighbours.draw(at, slice.database, key, left.map(|left| at + left));
        }
    }

    /// Every answer counts as the lookup that it was at the server, and costs nothing but itself
    /// when it is odd.
    fn count(&mut self, node: &mut Node, answers: &[Answer], scanned: bool) {
        let mut own = OwnLookups::default();
        let mut refused = None;
        for answer in answers {
            match answer {
                Answer::Left(_) | Answer::NoTtl => own.hits += 1.0,
                Answer::Gone => own.misses += 1.0,
                Answer::Refused(refusal) => refused = Some(*refusal),
                Answer::Odd => self.odd += 1,
            }
        }
        node.note_own(own);
        let lookups = own.hits + own.misses;
        self.lookups += lookups as u64;
        self.pace.asked(lookups, scanned);
        if let Some(refusal) = refused {
            self.refused(node, Command::Pttl, refusal);
        } else if lookups > 0.0 {
            node.note_capability(Command::Pttl.as_str(), true);
        }
    }

    /// Counts the lookups of `OBJECT FREQ`.
    fn count_use(&mut self, node: &mut Node, answers: &[Use]) {
        let mut own = OwnLookups::default();
        let mut refused = None;
        for answer in answers {
            match answer {
                // The server looks the key up before it says that it does not count.
                Use::Counter(_) | Use::Odd => own.hits += 1.0,
                Use::Gone => own.misses += 1.0,
                Use::Refused(refusal) => refused = Some(*refusal),
            }
        }
        node.note_own(own);
        self.lookups += (own.hits + own.misses) as u64;
        self.pace.asked_use(own.hits + own.misses);
        if let Some(refusal) = refused {
            self.refused(node, Command::ObjectFreq, refusal);
        } else if answers.iter().any(|answer| matches!(answer, Use::Counter(_))) {
            node.note_capability(Command::ObjectFreq.as_str(), true);
        }
    }

    /// Leaves a command alone for a while; a refused `SCAN` makes way for `RANDOMKEY`.
    fn refused(&mut self, node: &mut Node, command: Command, refusal: Refusal) {
        let again = self.clock.now() + REFUSED_PAUSE;
        if refusal == Refusal::NotNow {
            self.paused_until = again;
            return;
        }
        node.note_capability(command.as_str(), false);
        match command {
            Command::Scan => self.course.leave_scan(again),
            Command::ObjectFreq => self.use_again = again,
            Command::RandomKey | Command::Select => self.fetched_again = again,
            Command::Pttl => self.paused_until = again,
        }
    }
}

/// A question under way at a server. Dropped before it is settled, it gives the connection up.
struct Asking<'a>(Option<&'a mut Node>);

impl Asking<'_> {
    fn connection(&mut self) -> Option<&mut Connection> {
        self.0.as_mut()?.connection()
    }

    fn settled(mut self) {
        self.0 = None;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(node) = self.0.take() {
            node.poison();
        }
    }
}
