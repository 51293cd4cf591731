//! The course of an incident: declared, read again until its cause settles, ended, resumed.

use crate::detect::cause::{Finding, Scene};
use crate::detect::detector::{Detector, Verdict};
use crate::detect::episode::Episode;
use crate::detect::evidence::Stream;
use crate::detect::history::Facts;
use crate::detect::ladder::Rung;
use crate::detect::{Cause, Change, Incident, Thresholds};
use crate::reading::{Lookups, Source};
use crate::signal::sample::Sample;

/// Another event is another incident if the extra misses grow by this factor with it.
const ANOTHER_RISE: f64 = 1.5;

/// A poll with fewer extra misses than this share of the highest rate of its incident is what comes after
/// it: a burst is over within a poll, and its evidence would be thinned out by the seconds that follow.
const AFTERMATH: f64 = 0.1;

/// The newest poll and the source whose misses decide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Poll<'a> {
    pub(crate) sample: &'a Sample,
    /// Seconds since the poll before; fewer than the sample's where that spans a gap.
    pub(crate) elapsed: f64,
    pub(crate) facts: &'a Facts,
    pub(crate) source: Source,
}

impl Poll<'_> {
    fn lookups(&self) -> Option<Lookups> {
        *self.facts.lookups.get(self.source)
    }
}

/// Why an incident is declared.
struct Grounds {
    finding: Finding,
    /// When the misses began to rise, on the detector's clock.
    onset: f64,
    /// Misses beyond the baseline since then.
    excess_misses: f64,
    p_value: Option<f64>,
    figures: Vec<(&'static str, f64)>,
}

impl Detector {
    /// The misses of a stretch passed the line.
    pub(super) fn misses_rose(&mut self, poll: &Poll<'_>, stretch: &Rung, verdict: &mut Verdict) {
        let chart = self.charts.get(poll.source);
        let expected = chart.expected_misses(stretch.lookups).unwrap_or(0.0);
        let mut figures = vec![
            ("miss_ratio", stretch.misses / stretch.lookups),
            ("baseline_miss_ratio", expected / stretch.lookups),
            ("window_seconds", stretch.seconds),
        ];
        let (finding, rest) = self
            .scene(stretch.start, poll, |scene, limits| (scene.finding(limits), scene.figures()));
        figures.extend(rest);
        let grounds = Grounds {
            finding,
            onset: stretch.start,
            excess_misses: stretch.misses - expected,
            p_value: chart.p_value(stretch, &self.streams, &self.thresholds),
            figures,
        };
        self.declare(poll, grounds, verdict);
    }

    /// So many cache calls fail that the misses do not matter.
    pub(super) fn calls_failed(&mut self, poll: &Poll<'_>, verdict: &mut Verdict) {
        self.something_happened(Cause::Avalanche, poll, verdict);
    }

    /// One more poll of a running incident.
    pub(super) fn go_on(&mut self, poll: &Poll<'_>, verdict: &mut Verdict) {
        let Some(mut episode) = self.episode.take() else { return };
        let excess = self.excess(poll);
        episode.record(
            poll.facts,
            poll.sample,
            excess,
            self.streams.excess(Stream::Loads, poll.facts),
        );
        let silent = poll.lookups().is_none();
        episode.silence = if silent { episode.silence + poll.elapsed } else { 0.0 };
        verdict.excess_misses = excess;
        verdict.incident_seconds = poll.elapsed;

        if !episode.settled {
            self.reconsider(&mut episode, poll, verdict);
        }
        let age = self.clock - episode.declared;
        let lasting = age >= self.thresholds.new_normal_after;
        let over = lasting || self.is_over(&episode, poll);
        let another = if over { None } else { self.another(&episode, poll) };
        if !episode.settled && (over || age >= self.thresholds.settle_after) {
            episode.settled = true;
            verdict.changes.push(Change::Settled(episode.incident.clone()));
        }
        if !over && another.is_none() {
            self.episode = Some(episode);
            return;
        }
        if lasting {
            let seconds = self.thresholds.longest_window;
            self.charts.get_mut(poll.source).accept(seconds);
        }
        self.end(episode, poll.sample.time, verdict);
        if lasting {
            // What comes next is measured against the new normal, so it is something new.
            self.last = None;
        }
        if let Some(cause) = another {
            self.something_happened(cause, poll, verdict);
        }
    }

    fn declare(&mut self, poll: &Poll<'_>, grounds: Grounds, verdict: &mut Verdict) {
        let excess_misses = grounds.excess_misses.max(0.0);
        let cause = grounds.finding.cause;
        let resumable = self.last.take().filter(|last| {
            self.clock - last.ended < self.thresholds.merge_within
                && (last.incident.cause == cause || !is_event(cause))
        });
        let resumes = resumable.is_some();
        let mut episode = match resumable {
            Some(mut last) => {
                last.resume(self.clock);
                last
            }
            None => {
                let mut incident = Incident::new(cause, poll.source, poll.sample.time);
                incident.score = verdict.score;
                incident.p_value = grounds.p_value;
                incident.evidence = grounds.figures;
                incident.baseline_misses_per_second =
                    verdict.baseline_misses_per_second.get(poll.source).unwrap_or(0.0);
                incident.baseline_loads_per_second = self
                    .streams
                    .usual(Stream::Loads, poll.facts)
                    .map(|loads| loads / poll.facts.seconds);
                Episode::new(incident, grounds.finding.rank, grounds.onset, self.clock)
            }
        };
        let loads = self.streams.excess(Stream::Loads, poll.facts);
        episode.record(poll.facts, poll.sample, excess_misses, loads);
        episode.blame(&self.suspects);
        verdict.excess_misses += excess_misses;
        verdict.incident_seconds = poll.elapsed;
        let incident = episode.incident.clone();
        verdict.changes.push(if resumes {
            Change::Resumed(incident)
        } else {
            Change::Started(incident)
        });
        self.episode = Some(episode);
    }

    /// Declares what is known by its sign and not by statistics.
    fn something_happened(&mut self, cause: Cause, poll: &Poll<'_>, verdict: &mut Verdict) {
        let onset = self.clock - poll.sample.dt;
        let grounds = Grounds {
            // Nothing that the misses show is stronger.
            finding: Finding { cause, rank: 0 },
            onset,
            // Those of a running incident are counted in the verdict already.
            excess_misses: if verdict.excess_misses > 0.0 { 0.0 } else { self.excess(poll) },
            p_value: None,
            figures: self.scene(onset, poll, |scene, _| scene.figures()),
        };
        self.declare(poll, grounds, verdict);
    }

    fn end(&mut self, mut episode: Episode, time: f64, verdict: &mut Verdict) {
        episode.end(time, self.clock);
        for source in Source::ALL {
            self.charts.get_mut(source).restart();
        }
        self.over = false;
        verdict.changes.push(Change::Ended(episode.incident.clone()));
        self.last = Some(episode);
    }

    /// Reads the cause again while the evidence still comes in. Only a stronger sign changes it, and
    /// what the other streams do once the misses have fallen is no sign of anything.
    fn reconsider(&self, episode: &mut Episode, poll: &Poll<'_>, verdict: &mut Verdict) {
        let incident = &episode.incident;
        let peak = incident.peak_misses_per_second - incident.baseline_misses_per_second;
        let has_fallen = |rate: f64| rate < AFTERMATH * peak;
        if self.quiet(poll.facts, poll.source) == Some(true)
            || self.excess_rate(poll.facts, poll.source).is_some_and(has_fallen)
        {
            return;
        }
        let finding = self.scene(episode.onset, poll, |scene, limits| scene.finding(limits));
        if finding.rank >= episode.rank {
            return;
        }
        episode.rank = finding.rank;
        let from = episode.change_cause(finding.cause);
        if from != finding.cause {
            let incident = episode.incident.clone();
            verdict.changes.push(Change::CauseChanged { from, incident });
        }
    }

    fn is_over(&self, episode: &Episode, poll: &Poll<'_>) -> bool {
        if episode.incident.cause == Cause::Avalanche && poll.facts.failing {
            return false;
        }
        if episode.silence >= self.thresholds.silence_after {
            return true;
        }
        let clear = self.thresholds.clear_after;
        if self.clock - episode.alarmed < clear {
            return false;
        }
        let lately = self.history.since(self.clock - clear);
        let Some(lookups) = *lately.lookups.get(poll.source) else { return false };
        let errors = self.streams.excess(Stream::Errors, &lately).unwrap_or(0.0);
        let calls = lookups.total() + lately.errors.unwrap_or(0.0);
        let least = self.thresholds.least_error_share * self.thresholds.clear_level;
        let errors_quiet = errors <= least * calls || errors < self.thresholds.least_excess;
        errors_quiet && self.quiet(&lately, poll.source) == Some(true)
    }

    /// Whether a stretch is back to normal, if the source says anything about it.
    fn quiet(&self, facts: &Facts, source: Source) -> Option<bool> {
        let stretch = facts.rung(source)?;
        Some(self.charts.get(source).quiet(&stretch, &self.streams, &self.thresholds))
    }

    /// The cause of another incident on top of a running one: the server was flushed, say, while a
    /// hot key was missing, and the misses grew with it.
    fn another(&self, episode: &Episode, poll: &Poll<'_>) -> Option<Cause> {
        let (event, at) = self.event.filter(|(_, at)| *at > episode.declared)?;
        let fresh = self.clock - at <= self.thresholds.event_memory;
        if !episode.settled || !fresh || event.cause() == episode.incident.cause {
            return None;
        }
        let since = self.history.since(at - poll.sample.dt);
        let before = self.history.since(at - poll.sample.dt - self.thresholds.event_memory);
        let (since_rate, before_rate) = (self.excess_rate(&since, poll.source)?, {
            let both = self.excess_rate(&before, poll.source)? * before.seconds;
            let own = self.excess_rate(&since, poll.source)? * since.seconds;
            let seconds = before.seconds - since.seconds;
            if seconds > 0.0 { (both - own) / seconds } else { 0.0 }
        });
        let quiet = self.quiet(&since, poll.source)?;
        (!quiet && since_rate >= ANOTHER_RISE * before_rate.max(0.0)).then(|| event.cause())
    }

    /// Misses of the newest poll beyond the baseline.
    fn excess(&self, poll: &Poll<'_>) -> f64 {
        let rate = self.excess_rate(poll.facts, poll.source).unwrap_or(0.0);
        (rate * poll.facts.seconds).max(0.0)
    }

    fn excess_rate(&self, facts: &Facts, source: Source) -> Option<f64> {
        let lookups = (*facts.lookups.get(source))?;
        let expected = self.charts.get(source).expected_misses(lookups.total())?;
        Some((lookups.misses - expected) / facts.seconds)
    }

    /// Shows what happened since shortly before `onset` to whoever judges it.
    fn scene<T>(
        &self,
        onset: f64,
        poll: &Poll<'_>,
        judge: impl FnOnce(&Scene<'_>, &Thresholds) -> T,
    ) -> T {
        let facts = self.history.since(onset);
        let excess = self.excess_rate(&facts, poll.source).unwrap_or(0.0) * facts.seconds;
        let memory = self.thresholds.event_memory;
        let event = self.event.filter(|(_, at)| *at >= onset - memory).map(|(event, _)| event);
        let scene = Scene {
            facts: &facts,
            excess_misses: excess.max(0.0),
            event,
            wave: self.wave.filter(|wave| wave.at >= onset - self.thresholds.due_memory),
            failing: poll.facts.failing && poll.source == Source::App,
            streams: &self.streams,
        };
        judge(&scene, &self.thresholds)
    }
}

/// Whether a cause is something that happened to the server, and so the start of something new.
fn is_event(cause: Cause) -> bool {
    matches!(cause, Cause::ColdStart | Cause::Invalidation | Cause::Avalanche)
}
