//! The keys to blame for one cache's misses: when to look, what was found, how it is told.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::Duration;

use tracing::info;

use crate::clock::Clock;
use crate::config::{CulpritsConfig, CulpritsSource, KeyNames, RedisConfig};
use crate::detect::{Suspect, Verdict};
use crate::serve::key_text;
use crate::signal::culprits::{Arming, Culprit};
use crate::source::redis::{Report, Tracker};
use crate::state::Place;

/// How long a key that was to blame is watched, seconds: it may run out and be missed again.
pub const WATCH: f64 = 3600.0;

/// Keys watched at most.
const MOST_WATCHED: usize = 3;

/// Finds the keys to blame.
#[derive(Debug)]
pub struct Culprits {
    config: CulpritsConfig,
    /// Makes the hashes of this process.
    hashes: RandomState,
    tracker: Tracker,
    arming: Arming,
    /// The incident that suspects were named for, and the first of them.
    told: Option<(f64, Vec<u8>)>,
}

/// What a look brought.
#[derive(Debug, Default)]
pub struct Found {
    /// Share of the most-missed key.
    pub hot_key_share: Option<f64>,
    /// The keys to blame, the worst first, named as they may be shown.
    pub suspects: Vec<Suspect>,
    /// Single keys that are worth watching for [`WATCH`] seconds, all in database 0.
    pub to_watch: Vec<Vec<u8>>,
}

impl Culprits {
    /// Nobody is blamed yet. In `dir` the server's setting is kept while it is not as it was; what
    /// is left there by a process before is put back, whatever is configured now.
    pub fn new(
        config: CulpritsConfig,
        redis: &RedisConfig,
        cache: &str,
        dir: &Path,
        limit: Duration,
        clock: Clock,
    ) -> Culprits {
        let place = Place::new(dir, cache, "notify");
        Culprits {
            config,
            hashes: RandomState::new(),
            tracker: Tracker::new(redis, limit, clock, place),
            arming: Arming::default(),
            told: None,
        }
    }

    /// Begins, goes on or ends to look, as the verdict at `now` wants it.
    pub fn follow(&mut self, now: f64, verdict: &Verdict) {
        if self.config.source == CulpritsSource::Nowhere {
            return;
        }
        let incident = verdict.running.as_ref().map(|incident| incident.started_at);
        match self.arming.until(now, verdict.score, incident) {
            Some(until) => self.tracker.track_until(until),
            None => self.tracker.rest(),
        }
    }

    /// What was found since the last call, if anything.
    pub fn found(&mut self) -> Option<Found> {
        let report = self.tracker.report()?;
        Some(Found {
            hot_key_share: report.top_share,
            suspects: report.culprits.iter().map(|culprit| self.suspect(culprit)).collect(),
            to_watch: to_watch(&report),
        })
    }

    /// Says in the log who is to blame for the running incident, again when it is somebody else.
    pub fn tell(&mut self, cache: &str, verdict: &Verdict) {
        let Some(incident) = &verdict.running else { return };
        let Some(first) = incident.suspects.first() else { return };
        let told = (incident.started_at, first.pattern.clone());
        if self.told.as_ref() == Some(&told) {
            return;
        }
        info!(cache, pattern = key_text(&first.pattern), share = first.share, "suspect");
        self.told = Some(told);
    }

    /// Whether lookups of our own would be among what is found.
    pub fn is_looking(&self) -> bool {
        self.tracker.is_tracking()
    }

    /// Whether the server let us when it was asked last.
    pub fn is_allowed(&self) -> bool {
        self.tracker.is_allowed()
    }

    /// Ends the look and puts the server's setting back.
    pub async fn end(&mut self) {
        self.tracker.end().await;
    }

    fn suspect(&self, culprit: &Culprit) -> Suspect {
        match self.config.keys {
            KeyNames::Shown => Suspect {
                pattern: culprit.pattern.clone(),
                share: culprit.share,
                example: (!culprit.single).then(|| culprit.example.clone()),
            },
            KeyNames::Hashed => {
                let hash = self.hashes.hash_one(&culprit.pattern);
                let pattern = format!("#{hash:016x}").into_bytes();
                Suspect { pattern, share: culprit.share, example: None }
            }
        }
    }
}

/// A name that may have been cut is not one to ask the server for.
fn to_watch(report: &Report) -> Vec<Vec<u8>> {
    if !report.first_database_only {
        return Vec::new();
    }
    let whole = |culprit: &&Culprit| {
        culprit.single && culprit.pattern.len() < crate::signal::culprits::LONGEST_NAME
    };
    let keys = report.culprits.iter().filter(whole).take(MOST_WATCHED);
    keys.map(|culprit| culprit.pattern.clone()).collect()
}
