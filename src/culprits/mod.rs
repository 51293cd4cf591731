//! The keys to blame for one cache's misses: when to look, what was found, how it is told.
//!
//! Best of all the server names the missed keys. Where it is not asked to, or refuses, there are the
//! applications' labels, and the sampled keys that went as the misses rose.

mod names;

use std::path::Path;

use tracing::info;

use crate::clock::Clock;
use crate::config::{CacheConfig, CulpritsSource};
use crate::detect::{Suspect, SuspectSource, Verdict};
use crate::serve::key_text;
use crate::signal::culprits::{Arming, Culprit, GroupedMisses, LONGEST_NAME};
use crate::signal::tally::Step;
use crate::source::redis::{Report, Sampler, Tracker};
use crate::state::Place;
use names::Names;

/// How long a key that was to blame is watched, seconds: it may run out and be missed again.
pub const WATCH: f64 = 3600.0;

/// Keys watched at most.
const MOST_WATCHED: usize = 3;

/// Sampled keys that ran out so many seconds before the poll of a suspicion have to do with it.
const LEAD: f64 = 3.0;

/// Finds the keys to blame.
#[derive(Debug)]
pub struct Culprits {
    source: CulpritsSource,
    names: Names,
    /// Where the server names missed keys; also to put back what a process before has left.
    tracker: Option<Tracker>,
    groups: GroupedMisses,
    arming: Arming,
    /// Seconds from what happened to the poll that shows it, at the most.
    lead: f64,
    /// Whom the server has named in this look.
    named: Vec<Suspect>,
    /// The incident that suspects were named for, and the first of them.
    told: Option<(f64, Vec<u8>)>,
}

/// What is known by now.
#[derive(Debug, Default)]
pub struct Found {
    /// Share of the most-missed key, if the server has named missed keys since the last call.
    pub hot_key_share: Option<f64>,
    /// The keys to blame, the worst first, named as they may be shown.
    pub suspects: Vec<Suspect>,
    /// Single keys that are worth watching for [`WATCH`] seconds, with their databases.
    pub to_watch: Vec<(u64, Vec<u8>)>,
}

impl Culprits {
    /// Nobody is blamed yet. In `dir` the server's setting is kept while it is not as it was; what
    /// is left there by a process before is put back, whatever is configured now.
    pub fn new(config: &CacheConfig, dir: Option<&Path>, clock: Clock) -> Culprits {
        let tracker = |dir: &Path| {
            let place = Place::new(dir, &config.name, "notify");
            Tracker::new(&config.redis, config.poll_timeout, clock, place)
        };
        Culprits {
            source: config.culprits.source,
            names: Names::new(&config.culprits.keys, &config.name),
            tracker: dir.map(tracker),
            groups: GroupedMisses::default(),
            arming: Arming::default(),
            lead: LEAD + config.poll_interval.as_secs_f64(),
            named: Vec::new(),
            told: None,
        }
    }

    /// Takes in what the pages of the applications added in the `seconds` before `now`, Unix
    /// seconds.
    pub fn take_in_pages<'a>(
        &mut self,
        now: f64,
        seconds: f64,
        pages: impl Iterator<Item = &'a Step>,
    ) {
        let missed = pages.flat_map(|page| &page.missed);
        self.groups.take(now, seconds, missed.map(|(group, missed)| (group.as_str(), *missed)));
    }

    /// Begins, goes on or ends to look, as the verdict at `now` wants it.
    pub fn follow(&mut self, now: f64, verdict: &Verdict, sampler: &mut Sampler) {
        let incident = verdict.running.as_ref().map(|incident| incident.started_at);
        let until = self.arming.until(now, verdict.score, incident);
        if let Some(tracker) = &mut self.tracker
            && self.source == CulpritsSource::Notifications
        {
            match until {
                Some(until) => tracker.track_until(until),
                None => tracker.rest(),
            }
        }
        if until.is_some() {
            self.groups.look();
            sampler.look_for_gone(now - self.lead);
        } else {
            self.groups.rest();
            sampler.rest();
            self.named.clear();
        }
    }

    /// What was found so far in the look that is under way.
    pub fn found(&mut self, sampler: &Sampler) -> Found {
        let report = self.tracker.as_mut().and_then(Tracker::report);
        if let Some(report) = &report {
            let named = report.culprits.iter();
            self.named = named.map(|c| self.suspect(c, SuspectSource::Missed)).collect();
        }
        Found {
            hot_key_share: report.as_ref().and_then(|report| report.top_share),
            suspects: if self.named.is_empty() {
                self.inferred(sampler)
            } else {
                self.named.clone()
            },
            to_watch: report.as_ref().map(to_watch).unwrap_or_default(),
        }
    }

    /// Says in the log who is to blame for the running incident, again when it is somebody else.
    pub fn tell(&mut self, cache: &str, verdict: &Verdict) {
        let Some(incident) = &verdict.running else { return };
        let Some(first) = incident.suspects.first() else { return };
        let told = (incident.started_at, first.pattern.clone());
        if self.told.as_ref() == Some(&told) {
            return;
        }
        let source = first.source.as_str();
        info!(cache, pattern = key_text(&first.pattern), share = first.share, source, "suspect");
        self.told = Some(told);
    }

    /// Whether lookups of our own would be among what is found.
    pub fn is_looking(&self) -> bool {
        self.tracker.as_ref().is_some_and(Tracker::is_tracking)
    }

    /// Whether the server let us when it was asked last.
    pub fn is_allowed(&self) -> bool {
        self.tracker.as_ref().is_some_and(Tracker::is_allowed)
    }

    /// Ends the look and puts the server's setting back.
    pub async fn end(&mut self) {
        if let Some(tracker) = &mut self.tracker {
            tracker.end().await;
        }
    }

    /// Who it may be when the server names nobody.
    fn inferred(&self, sampler: &Sampler) -> Vec<Suspect> {
        let groups = self.groups.culprits().into_iter().map(|(group, share)| Suspect {
            // The value of a label, which is no key's name.
            pattern: group.into_bytes(),
            share,
            example: None,
            source: SuspectSource::App,
        });
        let gone = sampler.gone();
        groups.chain(gone.iter().map(|c| self.suspect(c, SuspectSource::Sampled))).collect()
    }

    fn suspect(&self, culprit: &Culprit, source: SuspectSource) -> Suspect {
        // A hash of one of many keys tells nobody anything.
        let example = !culprit.single && self.names.are_shown();
        Suspect {
            pattern: self.names.of(&culprit.pattern),
            share: culprit.share,
            example: example.then(|| culprit.example.clone()),
            source,
        }
    }
}

/// A name that may have been cut is not one to ask the server for.
fn to_watch(report: &Report) -> Vec<(u64, Vec<u8>)> {
    let whole = |culprit: &&Culprit| culprit.single && culprit.pattern.len() < LONGEST_NAME;
    let keys = report.culprits.iter().filter(whole).take(MOST_WATCHED);
    keys.map(|culprit| (culprit.database, culprit.pattern.clone())).collect()
}
