//! One task per cache: tick, read, observe, publish.
//!
//! The exporter polls on its own timer, although Prometheus' guidance is to read at scrape time: a
//! stampede is often shorter than the time between two scrapes.

mod chronicle;

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{self, Instant, MissedTickBehavior, interval, timeout};
use tracing::info;

use crate::board::Board;
use crate::clock::Clock;
use crate::config::{CacheConfig, PrometheusConfig, StateConfig};
use crate::culprits::{self, Culprits};
use crate::detect::{Change, Detector, IncidentLog, Verdict};
use crate::reading::{Lookups, Reach, Reading};
use crate::signal::counters::Interval;
use crate::signal::fleet::Fleet;
use crate::signal::sample::Samples;
use crate::signal::tally::Step;
use crate::signal::window::Window;
use crate::snapshot::{Histogram, NodeTotals, Snapshot};
use crate::source::app::{AppError, AppSource};
use crate::source::redis::{Node, PollErrorKind, Sampler};
use crate::state::Keeper;
use crate::warm_start::WarmStart;
use chronicle::Chronicle;

/// Upper bounds of the poll duration histogram, seconds: a poll over loopback takes well under a
/// millisecond, one across a continent about 100 ms, and the timeout ends it.
const POLL_BOUNDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0];

/// How long a monitor may take to end: as long as one poll by default. What it could not do by then
/// is left to the next start.
const END_GRACE: Duration = Duration::from_millis(800);

/// The task of one cache. Dropped, it stops where it is; [`Handle::end`] lets it keep what it knows.
#[derive(Debug)]
pub struct Handle {
    task: JoinHandle<()>,
    end: Option<oneshot::Sender<()>>,
}

impl Handle {
    /// Ends the task: what it has learned is saved.
    pub async fn end(mut self) {
        self.end = None;
        // A task that is late is stopped when this is dropped.
        let _ = timeout(END_GRACE, &mut self.task).await;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Everything that is known about one cache.
pub struct Monitor {
    config: CacheConfig,
    board: Board,
    clock: Clock,
    node: Node,
    sampler: Sampler,
    /// The server that is sampled, where it is another one.
    sampled: Option<Node>,
    apps: Vec<AppSource>,
    fleet: Fleet,
    samples: Samples,
    window: Window,
    detector: Detector,
    verdict: Verdict,
    incidents: IncidentLog,
    polls: u64,
    poll_errors: Vec<(&'static str, u64)>,
    poll_duration: Histogram,
    chronicle: Chronicle,
    keeper: Option<Keeper>,
    /// Where to learn from at the start, and the look at it.
    history: Option<PrometheusConfig>,
    warm_start: Option<WarmStart>,
    /// From the start on.
    culprits: Option<Culprits>,
    state_dir: Option<PathBuf>,
}

impl Monitor {
    /// A monitor that has not looked yet. It is large: in a box, it is not copied where it is handed
    /// on, nor is there room for that in every stack frame on its way.
    ///
    /// # Errors
    /// When a client for an application cannot be built.
    pub fn new(config: CacheConfig, board: Board, clock: Clock) -> Result<Box<Monitor>, AppError> {
        let apps = config.apps.iter().map(|app| AppSource::new(app, config.poll_timeout, clock));
        // It is polled between two polls of the cache's own server and may not hold up the next.
        let timeout = config.poll_timeout.min(config.poll_interval / 2);
        let sampled = config.ttl.sample_from.as_ref().map(|from| Node::new(from, timeout, clock));
        Ok(Box::new(Monitor {
            sampled,
            node: Node::new(&config.redis, config.poll_timeout, clock),
            sampler: Sampler::new(&config.ttl, clock),
            apps: apps.collect::<Result<_, _>>()?,
            fleet: Fleet::new(config.window.as_secs_f64()),
            samples: Samples::default(),
            window: Window::new(config.window.as_secs_f64(), config.min_lookups as f64),
            detector: Detector::new(config.detector.clone()),
            verdict: Verdict::default(),
            incidents: IncidentLog::default(),
            polls: 0,
            poll_errors: PollErrorKind::ALL.iter().map(|kind| (kind.as_str(), 0)).collect(),
            poll_duration: Histogram::new(&POLL_BOUNDS),
            chronicle: Chronicle::of(config.name.clone()),
            keeper: None,
            history: None,
            warm_start: None,
            culprits: None,
            state_dir: None,
            config,
            board,
            clock,
        }))
    }

    /// Keeps what it learns in this directory from now on, and goes on from what is there.
    pub fn remember_in(&mut self, state: &StateConfig) {
        self.keeper = Some(Keeper::new(state, &self.config.name));
        self.state_dir = Some(state.dir.clone());
    }

    /// Learns at the start from what this server has stored, where nothing is remembered.
    pub fn learn_from(&mut self, history: &PrometheusConfig) {
        self.history = Some(history.clone());
    }

    /// Appends incidents to this file from now on.
    pub fn report_in(&mut self, file: &Path) {
        self.chronicle.report_in(file);
    }

    /// Writes every reading to a trace of its own in this directory from now on. Watching matters
    /// more than recording: a trace that cannot be written is said in the log, and that is all.
    pub fn record_in(&mut self, dir: &Path) {
        self.chronicle.record_in(dir, self.clock.now(), !self.config.apps.is_empty());
    }

    /// Starts watching; what is seen goes to the board.
    pub fn start(self: Box<Self>) -> Handle {
        let (end, ended) = oneshot::channel();
        Handle { task: tokio::spawn(self.run(ended)), end: Some(end) }
    }

    async fn run(mut self: Box<Self>, mut ended: oneshot::Receiver<()>) {
        self.recall();
        self.warm_start = self.history.take().filter(|_| !self.verdict.ready).map(|server| {
            let CacheConfig { name, detector, .. } = &self.config;
            WarmStart::begin(server, name.to_string(), detector.clone(), self.clock)
        });
        // Every counter is there before it first moves: one that is born at 1 has no increase.
        let first = self.snapshot();
        self.board.introduce(first);
        self.culprits = Some(Culprits::new(&self.config, self.state_dir.as_deref(), self.clock));
        let mut ticks = interval(self.config.poll_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                _ = &mut ended => break,
                () = self.cycle(&mut ticks) => {}
            }
        }
        let (now, state) = (self.clock.now(), self.detector.state());
        let keep = async {
            if let Some(keeper) = &mut self.keeper {
                keeper.end(now, &state).await;
            }
        };
        let let_go = async {
            if let Some(culprits) = &mut self.culprits {
                culprits.end().await;
            }
        };
        tokio::join!(keep, let_go, self.chronicle.end());
    }

    /// One tick. It may be dropped at any time, when the monitor ends.
    async fn cycle(&mut self, ticks: &mut time::Interval) {
        let tick = ticks.tick().await;
        self.read().await;
        self.take_in_history();
        self.observe();
        self.publish();
        self.keep().await;
        self.sample(tick + self.config.poll_interval).await;
    }

    /// Samples deadlines until shortly before the next poll.
    async fn sample(&mut self, until: Instant) {
        if let Some(node) = &mut self.sampled {
            // What is wrong is in its state and in the log.
            let _ = node.poll().await;
            return self.sampler.run(node, until).await;
        }
        // Its lookups of keys that are gone would be among the misses that are looked at.
        if !self.culprits.as_ref().is_some_and(Culprits::is_looking) {
            self.sampler.run(&mut self.node, until).await;
        }
    }

    /// Goes on where the process before left off.
    fn recall(&mut self) {
        let now = self.clock.now();
        let Some(mut state) = self.keeper.as_mut().and_then(|keeper| keeper.recall(now)) else {
            return;
        };
        let cache = &self.config.name;
        info!(%cache, age_seconds = (now - state.time).round(), "goes on from the saved state");
        let gap = now - state.time;
        let thresholds = &self.config.detector;
        if let Some(incident) = state.incident.as_mut().filter(|i| i.ended_at.is_none())
            && gap >= thresholds.merge_within
        {
            // Nobody knows when it ended, and what is seen now is another one.
            incident.ended_at = Some(state.time);
            let change = Change::Ended(incident.clone());
            self.chronicle.tell(&change);
            self.incidents.apply(
                &Verdict { changes: vec![change], ..Verdict::default() },
                self.config.keep_incidents,
            );
        }
        self.detector = Detector::resume(self.config.detector.clone(), state, now);
        self.verdict = self.detector.standing();
        self.incidents.running.clone_from(&self.verdict.running);
    }

    /// Takes over what was learned from history, once it is there.
    fn take_in_history(&mut self) {
        let now = self.clock.now();
        if let Some(state) = self.warm_start.as_mut().and_then(WarmStart::learned) {
            self.detector.adopt(&state, now);
            let (cache, ready) = (&self.config.name, self.detector.standing().ready);
            let age_seconds = (now - state.time).round();
            info!(%cache, ready, age_seconds, "learned from the history in Prometheus");
            self.warm_start = None;
        }
    }

    async fn keep(&mut self) {
        let Some(keeper) = &mut self.keeper else { return };
        let at_once = !self.verdict.changes.is_empty();
        keeper.keep(self.clock.now(), at_once, || self.detector.state()).await;
    }

    /// Asks every source at once, so that their counts belong to the same instant.
    async fn read(&mut self) {
        let start = self.clock.now();
        let clock = self.clock;
        let poll = async {
            let result = self.node.poll().await;
            (result, clock.now() - start)
        };
        // An application that fails says so in its own state.
        let reads = join_all(self.apps.iter_mut().map(AppSource::read));
        let ((poll, seconds), _) = tokio::join!(poll, reads);
        self.polls += 1;
        self.poll_duration.observe(seconds);
        if let Err(error) = poll {
            let reason = error.kind().as_str();
            if let Some((_, count)) = self.poll_errors.iter_mut().find(|(r, _)| *r == reason) {
                *count += 1;
            }
        }
    }

    /// Turns what the sources said into a verdict.
    fn observe(&mut self) {
        let mut reading = self.reading();
        self.take_in_culprits(&mut reading);
        self.chronicle.record(&reading);
        let Some(sample) = self.samples.next(&reading) else { return };
        self.window.push(&sample);
        self.verdict = self.detector.observe(&sample);
        if let Some(culprits) = &mut self.culprits {
            let seen = self.apps.iter().map(AppSource::step);
            culprits.take_in_pages(sample.time, sample.dt, seen);
            culprits.follow(sample.time, &self.verdict, &mut self.sampler);
            culprits.tell(&self.config.name, &self.verdict);
        }
        self.incidents.apply(&self.verdict, self.config.keep_incidents);
        self.verdict.changes.iter().for_each(|change| self.chronicle.tell(change));
    }

    /// Takes in whom a look at the keys has found.
    fn take_in_culprits(&mut self, reading: &mut Reading) {
        let Some(culprits) = &mut self.culprits else { return };
        let found = culprits.found(&self.sampler);
        self.node.note_capability("keymiss", culprits.is_allowed());
        reading.hot_key_share = found.hot_key_share;
        if !found.to_watch.is_empty() {
            self.sampler.watch_for_a_while(&found.to_watch, reading.time + culprits::WATCH);
        }
        self.detector.blame(found.suspects);
    }

    /// What the sources of this cache said just now. A source that did not answer is unknown.
    fn reading(&mut self) -> Reading {
        let reach = self.node.reach();
        let mut reading = Reading { time: self.clock.now(), reach, ..Reading::default() };
        if reach == Reach::Answering {
            let counters = self.node.counters();
            let NodeTotals { hits, misses, expired, evicted } = counters.totals();
            if counters.interval() != Interval::Dropped {
                reading.lookups.redis = Some(Lookups { hits, misses });
            }
            reading.expired = Some(expired);
            reading.evicted = Some(evicted);
            reading.flushes = counters.flushes();
            reading.keys = counters.keys();
            reading.uptime = counters.uptime();
            self.sampler.observe_expired(expired);
            reading.due_ratio = self.sampler.due_ratio(reading.time);
        }
        let steps: Vec<&Step> = self.apps.iter().map(AppSource::step).collect();
        self.fleet.observe(&steps, &mut reading);
        reading
    }

    fn publish(&mut self) {
        let snapshot = self.snapshot();
        self.board.publish(Snapshot { time: self.clock.now(), ..snapshot });
    }

    /// What is known, as of no time.
    fn snapshot(&mut self) -> Snapshot {
        let now = self.clock.now();
        let node = self.node.state();
        let mut signals = self.window.signals();
        let mut verdict = self.verdict.clone();
        let up = node.up;
        if !up {
            // What a lost server said last is not what it says now.
            signals.hit_ratio.redis = None;
            signals.lookups_per_second.redis = None;
            signals.misses_per_second.redis = None;
            verdict.baseline_misses_per_second.redis = None;
        }
        Snapshot {
            cache: self.config.name.clone(),
            time: 0.0,
            nodes: vec![node],
            sampled: self.sampled.as_ref().map(Node::state),
            apps: self.apps.iter().map(AppSource::state).collect(),
            polls: self.polls,
            poll_errors: self.poll_errors.clone(),
            poll_duration: self.poll_duration.clone(),
            signals,
            verdict,
            incidents: self.incidents.clone(),
            ttl: self.sampler.picture(now).filter(|_| up),
            sampler: self.sampler.totals(),
        }
    }
}
