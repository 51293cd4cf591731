//! What speaks for a stampede besides the misses, each stream against its own past.
//!
//! An absolute line is a trap here: so many evictions a second are an outage of one cache and the
//! life of another. So each stream is judged like the misses are: a count, given its exposure,
//! against its own level of the last minutes, at odds of one in a thousand.

use crate::detect::Thresholds;
use crate::detect::baseline::{Fade, Level, Scatter};
use crate::detect::history::Facts;
use crate::detect::statistic;
use crate::elementary::ln;

/// The streams that are scored, as the `signal` label of `stampede_signal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SignalKind {
    /// Misses given requests.
    MissRatio,
    /// Backend queries given requests.
    LoadRate,
    /// Refused locks given lock attempts.
    LockContention,
    /// p99 over p50 of the load latency.
    TailLatency,
    /// Keys due now over the mean, as forecast.
    Expiry,
    /// Evicted keys.
    Eviction,
    /// Failed cache calls given requests.
    Errors,
}

impl SignalKind {
    /// Every signal, in label order.
    pub const ALL: [SignalKind; 7] = [
        SignalKind::MissRatio,
        SignalKind::LoadRate,
        SignalKind::LockContention,
        SignalKind::TailLatency,
        SignalKind::Expiry,
        SignalKind::Eviction,
        SignalKind::Errors,
    ];

    /// The value of the `signal` label.
    pub fn as_str(self) -> &'static str {
        match self {
            SignalKind::MissRatio => "miss_ratio",
            SignalKind::LoadRate => "load_rate",
            SignalKind::LockContention => "lock_contention",
            SignalKind::TailLatency => "tail_latency",
            SignalKind::Expiry => "expiry",
            SignalKind::Eviction => "eviction",
            SignalKind::Errors => "errors",
        }
    }
}

/// A counted stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Expired keys, given time.
    Expired,
    /// Evicted keys, given misses: in a full cache every miss that is filled evicts.
    Evicted,
    /// Failed cache calls, given calls.
    Errors,
    /// Loads that found nothing, given misses.
    NotFound,
    /// Backend queries, given lookups.
    Loads,
    /// Refused locks, given attempts.
    Refused,
    /// Lookups, given time.
    Traffic,
    /// Misses that were spared a load, given lookups.
    Spared,
}

const STREAMS: [Stream; 8] = [
    Stream::Expired,
    Stream::Evicted,
    Stream::Errors,
    Stream::NotFound,
    Stream::Loads,
    Stream::Refused,
    Stream::Traffic,
    Stream::Spared,
];

/// Streams whose rise is news: those that do not rise just because misses do.
const WITNESSES: [Stream; 4] = [Stream::Evicted, Stream::Errors, Stream::NotFound, Stream::Refused];

/// Below this score the Gaussian exponent is close enough and costs no logarithm.
const FAR_BELOW: f64 = 0.2;
/// Evidence for one of several explanations of what has certainly happened, nats: odds of 20.
const EXPLANATION: f64 = 3.0;
/// Fewer events are no rise.
const LEAST_EVENTS: f64 = 10.0;
/// A rise is at least so much over the stream's own level.
const LEAST_RISE: f64 = 0.3;
/// Spread of a gauge, in its own standard deviations, at odds of one in a thousand with tails
/// heavier than normal ones.
const GAUGE_DEVIATIONS: f64 = 4.5;
/// The least that a tail ratio (logarithm) or the top key's share rises by.
const LEAST_TAIL_RISE: f64 = std::f64::consts::LN_2;
const LEAST_SHARE_RISE: f64 = 0.2;

impl Stream {
    /// The count and its exposure; `None` when the sources do not say both.
    fn count(self, facts: &Facts) -> Option<(f64, f64)> {
        let lookups = facts.best_lookups();
        let total = || lookups.map(|lookups| lookups.total());
        Some(match self {
            Stream::Expired => (facts.expired?, facts.seconds),
            Stream::Evicted => (facts.evicted?, lookups?.misses),
            Stream::Errors => {
                let errors = facts.errors?;
                (errors, errors + total()?)
            }
            Stream::NotFound => (facts.not_found?, lookups?.misses),
            Stream::Loads => (facts.loads?, total()?),
            Stream::Refused => (facts.lock_failed?, facts.lock_attempts()?),
            Stream::Traffic => (total()?, facts.seconds),
            Stream::Spared => (facts.spared()?, total()?),
        })
    }

    /// Events per exposure that are nothing to speak of, however quiet the stream was before.
    fn unremarkable(self) -> f64 {
        match self {
            Stream::Expired => 5.0,
            Stream::Errors | Stream::Loads | Stream::Spared => 0.01,
            Stream::Evicted | Stream::NotFound | Stream::Refused => 0.05,
            Stream::Traffic => 1.0,
        }
    }
}

/// All streams of a cache with their levels.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    levels: [Level; STREAMS.len()],
    seconds: [f64; STREAMS.len()],
    tail: Gauge,
    share: Gauge,
    due: Gauge,
}

impl Streams {
    /// Nothing known.
    pub(crate) fn new(thresholds: &Thresholds) -> Streams {
        Streams {
            levels: [Level::new(thresholds); STREAMS.len()],
            seconds: [0.0; STREAMS.len()],
            tail: Gauge::default(),
            share: Gauge::default(),
            due: Gauge::default(),
        }
    }

    /// Learns one stretch of time.
    pub(crate) fn learn(&mut self, facts: &Facts, fade: &Fade, thresholds: &Thresholds) {
        // Where nothing but lookups is known, there is only the traffic to learn.
        let known = if facts.is_bare() { Stream::Traffic as usize } else { 0 };
        let slots = STREAMS.iter().zip(&mut self.levels).zip(&mut self.seconds).skip(known);
        for ((stream, level), seconds) in slots {
            if let Some((events, exposure)) = stream.count(facts) {
                level.learn(events, exposure, fade, thresholds);
                *seconds += facts.seconds;
            }
        }
        self.tail.learn(facts.tail.map(logarithm), fade);
        self.share.learn(facts.hot_key_share, fade);
        self.due.learn(facts.due_ratio, fade);
    }

    /// A stream's own score over a stretch of time: 1 is its line, `None` where it says nothing or
    /// its level is not known yet. Some of several witnesses speaks up by chance more often than
    /// each one does, so its line is the higher for it.
    pub(crate) fn score(
        &self,
        stream: Stream,
        facts: &Facts,
        thresholds: &Thresholds,
    ) -> Option<f64> {
        let line = thresholds.corroboration + ln(WITNESSES.len() as f64);
        self.score_against(line, stream, facts, thresholds)
    }

    /// Whether the stream stands out, given that there is a stampede: what is to be explained is
    /// there, so less evidence will do.
    pub(crate) fn explains(&self, stream: Stream, facts: &Facts, thresholds: &Thresholds) -> bool {
        let score = self.score_against(EXPLANATION, stream, facts, thresholds);
        score.is_some_and(|score| score >= 1.0)
    }

    fn score_against(
        &self,
        line: f64,
        stream: Stream,
        facts: &Facts,
        thresholds: &Thresholds,
    ) -> Option<f64> {
        let (events, exposure) = stream.count(facts)?;
        let mean = self.expected(stream, exposure, thresholds)?;
        if events <= mean {
            return Some(0.0);
        }
        let level = &self.levels[stream as usize];
        let rise = if mean > 0.0 { (events / mean - 1.0) / LEAST_RISE } else { f64::INFINITY };
        let effect = rise.min((events - mean) / LEAST_EVENTS);
        let Scatter { variance, freedom } = level.scatter_at_least(mean, exposure);
        let line = statistic::line(line, freedom);
        let gaussian = 0.5 * (events - mean) * (events - mean) / variance;
        let evidence = if effect < FAR_BELOW || gaussian < FAR_BELOW * line {
            gaussian
        } else {
            statistic::exponent(events, mean, variance)
        };
        Some((evidence / line).min(effect))
    }

    /// Events beyond the stream's level, never below 0; `None` where nobody counts them.
    pub(crate) fn excess(&self, stream: Stream, facts: &Facts) -> Option<f64> {
        let (events, exposure) = stream.count(facts)?;
        Some((events - self.levels[stream as usize].mean(exposure)).max(0.0))
    }

    /// What is normal for a stream.
    pub(crate) fn level(&self, stream: Stream) -> &Level {
        &self.levels[stream as usize]
    }

    /// Events of the stream at its level over the same stretch.
    pub(crate) fn usual(&self, stream: Stream, facts: &Facts) -> Option<f64> {
        let (_, exposure) = stream.count(facts)?;
        Some(self.levels[stream as usize].mean(exposure))
    }

    /// Score of the load latency's tail: p99 over p50 against its own past.
    pub(crate) fn tail_score(&self, facts: &Facts) -> Option<f64> {
        self.tail.score(facts.tail.map(logarithm)?, LEAST_TAIL_RISE)
    }

    /// Score of the forecast: keys due now over the mean, against the least that is a wave and
    /// against its own scatter.
    pub(crate) fn due_score(&self, facts: &Facts, thresholds: &Thresholds) -> Option<f64> {
        let due = facts.due_ratio?;
        let own = self.due.line(0.0).unwrap_or(0.0);
        Some(due / thresholds.due_ratio.max(own))
    }

    /// Score of the most-missed key's share against its own past.
    pub(crate) fn share_score(&self, facts: &Facts) -> Option<f64> {
        self.share.score(facts.hot_key_share?, LEAST_SHARE_RISE)
    }

    /// The most-missed key's usual share, once it is known.
    pub(crate) fn usual_share(&self) -> Option<f64> {
        self.share.line(0.0).map(|_| self.share.mean())
    }

    /// All scores over a stretch of time.
    pub(crate) fn scores(&self, facts: &Facts, thresholds: &Thresholds) -> Scores {
        if facts.is_bare() {
            return Scores::default();
        }
        let score = |stream| match stream {
            // Nobody asks for these.
            Stream::Expired | Stream::Traffic | Stream::Spared => None,
            _ => self.score(stream, facts, thresholds),
        };
        Scores {
            streams: STREAMS.map(score),
            tail: self.tail_score(facts),
            share: self.share_score(facts),
            due: self.due_score(facts, thresholds),
        }
    }

    fn expected(&self, stream: Stream, exposure: f64, thresholds: &Thresholds) -> Option<f64> {
        let index = stream as usize;
        (self.seconds[index] >= thresholds.warm_up)
            .then(|| self.levels[index].mean(exposure).max(stream.unremarkable() * exposure))
    }
}

/// What all streams say about one stretch of time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scores {
    streams: [Option<f64>; STREAMS.len()],
    tail: Option<f64>,
    share: Option<f64>,
    due: Option<f64>,
}

impl Scores {
    /// Whether any stream that is independent of the misses stands out.
    pub(crate) fn corroborate(&self) -> bool {
        let counted = WITNESSES.iter().map(|&stream| self.of(stream));
        counted.chain([self.tail, self.share]).flatten().any(|score| score >= 1.0)
    }

    /// One counted stream's score.
    pub(crate) fn of(&self, stream: Stream) -> Option<f64> {
        self.streams[stream as usize]
    }

    /// Every signal that is not the misses themselves, in the order of [`SignalKind::ALL`].
    pub(crate) fn signals(&self) -> [Option<f64>; SignalKind::ALL.len()] {
        SignalKind::ALL.map(|kind| match kind {
            SignalKind::MissRatio => None,
            SignalKind::LoadRate => self.of(Stream::Loads),
            SignalKind::LockContention => self.of(Stream::Refused),
            SignalKind::TailLatency => self.tail,
            SignalKind::Expiry => self.due,
            SignalKind::Eviction => self.of(Stream::Evicted),
            SignalKind::Errors => self.of(Stream::Errors),
        })
    }
}

/// A gauge's own mean and spread.
#[derive(Debug, Clone, Copy, Default)]
struct Gauge {
    weight: f64,
    sum: f64,
    squares: f64,
}

/// Seconds of a gauge before its mean is one.
const GAUGE_WEIGHT: f64 = 30.0;

impl Gauge {
    fn learn(&mut self, value: Option<f64>, fade: &Fade) {
        if let Some(value) = value {
            // What stands out moves the mean no further than its own line.
            let value = self.line(0.0).map_or(value, |line| value.min(line.max(self.mean() * 1.5)));
            let weight = fade.seconds();
            self.weight = self.weight * fade.level() + weight;
            self.sum = self.sum * fade.level() + value * weight;
            self.squares = self.squares * fade.level() + value * value * weight;
        }
    }

    fn mean(&self) -> f64 {
        if self.weight > 0.0 { self.sum / self.weight } else { 0.0 }
    }

    fn line(&self, least_rise: f64) -> Option<f64> {
        (self.weight >= GAUGE_WEIGHT).then(|| {
            let mean = self.mean();
            let variance = (self.squares / self.weight - mean * mean).max(0.0);
            mean + (GAUGE_DEVIATIONS * variance.sqrt()).max(least_rise)
        })
    }

    fn score(&self, value: f64, least_rise: f64) -> Option<f64> {
        let line = self.line(least_rise)?;
        let mean = self.mean();
        Some(((value - mean) / (line - mean)).max(0.0))
    }
}

fn logarithm(ratio: f64) -> f64 {
    ln(ratio.max(1.0))
}
