//! The detector of one cache.

use crate::detect::baseline::{Baseline, Fade};
use crate::detect::cause::{Event, WaveDue};
use crate::detect::chart::{Assessment, Chart, LEARNED_SHARE, WITNESS_SECONDS};
use crate::detect::course::Poll;
use crate::detect::episode::Episode;
use crate::detect::evidence::{Stream, Streams};
use crate::detect::history::{Facts, History, Pace};
use crate::detect::{Change, Incident, SignalKind, State, Suspect, Thresholds};
use crate::elementary::ln;
use crate::reading::{BySource, Source};
use crate::signal::sample::Sample;

/// What the detector says after one sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// Unix seconds of the sample.
    pub time: f64,
    /// Seconds of this sample that count as time in an incident.
    pub incident_seconds: f64,
    /// Misses beyond the baseline, counted only in an incident; at its declaration also those of
    /// the polls before that led to it.
    pub excess_misses: f64,
    /// The running incident.
    pub running: Option<Incident>,
    /// Evidence over threshold; 1 is the line.
    pub score: f64,
    /// Each signal's own score, in the order of [`SignalKind::ALL`]; 1 is its line, `None` where
    /// its source says nothing.
    pub signals: [Option<f64>; SignalKind::ALL.len()],
    /// Misses a second to be expected at the present traffic.
    pub baseline_misses_per_second: BySource<Option<f64>>,
    /// Whether the deciding source's baseline has seen enough to judge.
    pub ready: bool,
    /// What this sample changed, in order.
    pub changes: Vec<Change>,
}

/// The part of the observed time that the baseline may wait with learning, while that is short.
const EARLY_HOLD: f64 = 0.25;

/// Decides, sample by sample, whether a cache is in a stampede. Memory is bounded.
///
/// It keeps a clock of its own, the sum of the time that each sample adds, so a wall clock that is set
/// back or ahead moves nothing but the times that it reports.
#[derive(Debug, Clone)]
pub struct Detector {
    pub(super) thresholds: Thresholds,
    pub(super) clock: f64,
    pub(super) history: History,
    slow_fade: Fade,
    local_fade: Fade,
    pub(super) charts: BySource<Chart>,
    observed: BySource<f64>,
    pub(super) streams: Streams,
    pub(super) event: Option<(Event, f64)>,
    pub(super) wave: Option<WaveDue>,
    pub(super) over: bool,
    failing_calls: u32,
    suspicious: f64,
    pub(super) episode: Option<Episode>,
    pub(super) last: Option<Episode>,
    /// Who is to blame for what happens now, as far as is known.
    pub(super) suspects: Vec<Suspect>,
    time: f64,
}

impl Detector {
    /// A detector that has seen nothing.
    pub fn new(thresholds: Thresholds) -> Detector {
        let chart = Chart::new(&thresholds);
        Detector {
            clock: 0.0,
            history: History::default(),
            slow_fade: Fade::over(1.0, &thresholds),
            local_fade: Fade::local(1.0, &thresholds),
            charts: BySource { redis: chart.clone(), app: chart },
            observed: BySource::default(),
            streams: Streams::new(&thresholds),
            event: None,
            wave: None,
            over: false,
            failing_calls: 0,
            suspicious: 0.0,
            episode: None,
            last: None,
            suspects: Vec::new(),
            time: 0.0,
            thresholds,
        }
    }

    /// A detector that goes on where another one left off at `state.time`, at `now`, both in Unix
    /// seconds. Values that cannot be what a detector has learned are left out.
    pub fn resume(thresholds: Thresholds, state: State, now: f64) -> Detector {
        let mut detector = Detector::new(thresholds);
        detector.adopt(&state, now);
        if let Some(incident) = state.incident.filter(|incident| incident.started_at.is_finite()) {
            let since = |time: f64| detector.clock - (now - time).max(0.0);
            let episode = Episode::restored(incident, state.settled, since);
            match episode.incident.ended_at {
                None => detector.episode = Some(episode),
                Some(_) => detector.last = Some(episode),
            }
        }
        detector.time = now;
        detector
    }

    /// Takes over the baselines of another detector's state, of each source of which that one had
    /// seen more lookups, at `now` in Unix seconds.
    pub fn adopt(&mut self, state: &State, now: f64) {
        let ago = Some(now - state.time).filter(|ago| ago.is_finite()).unwrap_or(0.0).max(0.0);
        for source in Source::ALL {
            let learned = state.baselines.get(source).as_ref();
            let restored =
                learned.and_then(|learned| Baseline::restored(learned, ago, &self.thresholds));
            let own = &mut self.charts.get_mut(source).baseline;
            if let Some(baseline) = restored
                && baseline.misses.exposure() > own.misses.exposure()
            {
                // What was learned from is the part of the observed time that could be.
                *self.observed.get_mut(source) = baseline.seconds / LEARNED_SHARE;
                *own = baseline;
            }
        }
    }

    /// What it says before its first sample: what it was told when it resumed.
    pub fn standing(&self) -> Verdict {
        Verdict {
            time: self.time,
            running: self.episode.as_ref().map(|episode| episode.incident.clone()),
            ready: Source::ALL.into_iter().any(|source| self.ready(source)),
            ..Verdict::default()
        }
    }

    /// What it has learned, to go on after a restart.
    pub fn state(&self) -> State {
        let learned = |source| self.charts.get(source).baseline.learned();
        let recent = |episode: &&Episode| self.clock - episode.ended < self.thresholds.merge_within;
        let episode = self.episode.as_ref().or(self.last.as_ref().filter(recent));
        State {
            time: self.time,
            baselines: BySource { redis: learned(Source::Redis), app: learned(Source::App) },
            incident: episode.map(|episode| episode.incident.clone()),
            settled: episode.is_some_and(|episode| episode.settled),
        }
    }

    /// Blames keys for what happens now; nobody, where there are none. An incident keeps the last
    /// ones that were named while it ran.
    pub fn blame(&mut self, suspects: Vec<Suspect>) {
        self.suspects = suspects;
        if let Some(episode) = &mut self.episode {
            episode.blame(&self.suspects);
        }
    }

    /// Takes in one sample and decides. A sample that no time passed in says nothing.
    pub fn observe(&mut self, sample: &Sample) -> Verdict {
        let mut verdict = Verdict { time: sample.time, ..Verdict::default() };
        if !(sample.dt > 0.0 && sample.dt.is_finite() && sample.time.is_finite()) {
            verdict.running = self.episode.as_ref().map(|episode| episode.incident.clone());
            return verdict;
        }
        let elapsed = self.elapsed(sample);
        self.clock += elapsed;
        self.time = sample.time;
        let facts = Facts::of(sample, self.clock);
        self.history.push(&facts, &self.thresholds);
        self.learn();
        self.remember(&facts);
        for source in Source::ALL {
            if let Some(rung) = facts.rung(source) {
                self.charts.get_mut(source).push(rung);
                *self.observed.get_mut(source) += sample.dt;
            }
        }

        let sum;
        let recent = if facts.is_bare() {
            &facts
        } else {
            sum = self.history.since(self.clock - WITNESS_SECONDS.max(sample.dt));
            &sum
        };
        let source = self.deciding(&facts);
        let scores = self.streams.scores(recent, &self.thresholds);
        let corroborated = self.explained().is_some() || self.wave_is_due() || scores.corroborate();
        let assessment = if facts.lookups.get(source).is_some() {
            self.charts.get(source).assess(
                corroborated,
                self.clock,
                &self.streams,
                &self.thresholds,
            )
        } else {
            Assessment::default()
        };
        verdict.ready = self.ready(source);
        verdict.signals = scores.signals();
        verdict.signals[SignalKind::MissRatio as usize] =
            facts.lookups.get(source).map(|_| assessment.score);
        for source in Source::ALL {
            *verdict.baseline_misses_per_second.get_mut(source) =
                facts.lookups.get(source).and_then(|lookups| {
                    let expected = self.charts.get(source).expected_misses(lookups.total())?;
                    Some(expected / sample.dt)
                });
        }

        let calls_fail = self.calls_fail(&facts, recent, scores.of(Stream::Errors).unwrap_or(0.0));
        let misses_rise = self.alarm(&assessment, corroborated, verdict.ready);
        verdict.score = assessment.score.max(if calls_fail { 1.0 } else { 0.0 });
        let poll = Poll { sample, elapsed, facts: &facts, source };
        if self.episode.is_some() {
            self.go_on(&poll, &mut verdict);
        } else if misses_rise {
            self.misses_rose(&poll, &assessment.stretch, &mut verdict);
        } else if calls_fail {
            self.calls_failed(&poll, &mut verdict);
        }
        let known = self.charts.get(source).is_known();
        let suspicious = (verdict.ready && known) || self.explained().is_some();
        self.hold_back(suspicious && assessment.suspicious, elapsed);
        verdict.running = self.episode.as_ref().map(|episode| episode.incident.clone());
        verdict
    }

    /// Seconds that are new in a sample. The first one after a gap spans the whole of it, most of
    /// which the samples in the gap have counted already. A wall clock that was set does not count.
    fn elapsed(&self, sample: &Sample) -> f64 {
        let since = sample.time - self.time;
        if since > 0.0 { since.min(sample.dt) } else { sample.dt }
    }

    /// Lets the baselines learn what is old enough.
    fn learn(&mut self) {
        let observed = self.observed.redis.max(self.observed.app);
        let hold = self.thresholds.hold_back.min(observed * EARLY_HOLD);
        while let Some(cell) = self.history.ripe(Pace::Slow, self.clock - hold) {
            if cell.tainted {
                continue;
            }
            let fade = self.slow_fade.reused(cell.seconds, Fade::over, &self.thresholds);
            for source in Source::ALL {
                if let Some(lookups) = *cell.lookups.get(source) {
                    let baseline = &mut self.charts.get_mut(source).baseline;
                    baseline.learn(lookups, &fade, &self.thresholds);
                }
            }
            self.streams.learn(cell, &fade, &self.thresholds);
        }
        let hold = hold.min(self.thresholds.local_window);
        while let Some(cell) = self.history.ripe(Pace::Local, self.clock - hold) {
            if cell.tainted {
                continue;
            }
            let fade = self.local_fade.reused(cell.seconds, Fade::local, &self.thresholds);
            for source in Source::ALL {
                if let Some(lookups) = *cell.lookups.get(source) {
                    let chart = self.charts.get_mut(source);
                    chart.learn_local(lookups, &fade, cell.end, &self.thresholds);
                }
            }
        }
    }

    /// Keeps what explains misses for some seconds.
    fn remember(&mut self, facts: &Facts) {
        let from = self.clock - self.thresholds.event_memory.max(facts.seconds);
        let history = &self.history;
        let seen = Event::seen(facts, || history.since(from), &self.thresholds);
        if let Some(event) = seen {
            self.event = Some((event, self.clock));
        } else if facts.tainted || facts.failing {
            // Nothing can be seen of it yet, so the time does not count.
            if let Some((_, at)) = &mut self.event {
                *at += facts.seconds;
            }
        }
        if let (Some(ratio), Some(score)) =
            (facts.due_ratio, self.streams.due_score(facts, &self.thresholds))
            && score >= 1.0
        {
            let before = self.wave.filter(|_| self.wave_is_due());
            self.wave = Some(WaveDue {
                at: self.clock,
                score: before.map_or(score, |wave| wave.score.max(score)),
                ratio: before.map_or(ratio, |wave| wave.ratio.max(ratio)),
            });
        }
    }

    fn explained(&self) -> Option<Event> {
        let (event, at) = self.event?;
        (self.clock - at <= self.thresholds.event_memory).then_some(event)
    }

    fn wave_is_due(&self) -> bool {
        self.wave.is_some_and(|wave| self.clock - wave.at <= self.thresholds.due_memory)
    }

    /// The application knows what users wait for; without it, or until it is known, the server.
    fn deciding(&self, facts: &Facts) -> Source {
        match (facts.lookups.app, facts.lookups.redis) {
            (Some(_), Some(_)) if !self.ready(Source::App) && self.ready(Source::Redis) => {
                Source::Redis
            }
            (Some(_), _) => Source::App,
            (None, Some(_)) => Source::Redis,
            (None, None) => {
                self.episode.as_ref().map_or(Source::Redis, |episode| episode.incident.source)
            }
        }
    }

    fn ready(&self, source: Source) -> bool {
        self.charts.get(source).ready(*self.observed.get(source), &self.thresholds)
    }

    /// Whether the misses alone are an alarm: over the line, and confirmed.
    fn alarm(&mut self, assessment: &Assessment, corroborated: bool, ready: bool) -> bool {
        let may_judge = ready || self.explained().is_some();
        let over = may_judge && assessment.score >= 1.0;
        let confirmed = corroborated
            || assessment.strength >= self.thresholds.immediate
            || assessment.stretch.polls >= 2
            || self.over;
        self.over = over;
        over && confirmed
    }

    /// Whether cache calls fail so often that it needs no misses to be a stampede.
    fn calls_fail(&mut self, facts: &Facts, recent: &Facts, surprise: f64) -> bool {
        let rise = |facts: &Facts| {
            let calls = facts.best_lookups()?.total() + facts.errors?;
            let excess = self.streams.excess(Stream::Errors, facts)?;
            (calls > 0.0 && excess >= self.thresholds.least_excess).then(|| excess / calls)
        };
        let (now, lately) = (rise(facts).unwrap_or(0.0), rise(recent).unwrap_or(0.0));
        self.failing_calls = if now >= self.thresholds.error_share {
            self.failing_calls.saturating_add(1)
        } else {
            0
        };
        let line =
            || ln(self.thresholds.false_alarm_interval) / self.thresholds.corroboration.max(1.0);
        self.failing_calls >= 2
            || (self.failing_calls == 1 && surprise >= self.thresholds.immediate * line())
            || (lately >= self.thresholds.least_error_share && surprise >= line())
    }

    /// Nothing is learned from an incident, nor from what may become one, for a while. While too
    /// little is known everything looks suspicious and is learned all the same.
    fn hold_back(&mut self, suspicious: bool, seconds: f64) {
        if self.episode.is_some() {
            self.history.taint();
            return;
        }
        self.suspicious = if suspicious { self.suspicious + seconds } else { 0.0 };
        if suspicious && self.suspicious <= self.thresholds.hold_back_limit {
            self.history.taint();
        }
    }
}
