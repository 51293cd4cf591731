//! A cache under traffic, poll by poll, with Poisson counts from a fixed seed.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Poisson};
use stampede_exporter::detect::{Change, Detector, Incident, IncidentLog, Thresholds, Verdict};
use stampede_exporter::reading::{BySource, Lookups};
use stampede_exporter::signal::sample::Sample;

/// One cache and the detector that watches it.
pub struct Traffic {
    /// Lookups a second.
    pub rate: f64,
    /// Misses per lookup.
    pub ratio: f64,
    /// Seconds between polls.
    pub poll: f64,
    /// Unix seconds of the last poll.
    pub now: f64,
    pub detector: Detector,
    pub log: IncidentLog,
    pub changes: Vec<Change>,
    pub last: Verdict,
    random: SmallRng,
}

impl Traffic {
    pub fn new(rate: f64, ratio: f64) -> Traffic {
        Traffic {
            rate,
            ratio,
            poll: 1.0,
            now: 1_800_000_000.0,
            detector: Detector::new(Thresholds::default()),
            log: IncidentLog::default(),
            changes: Vec::new(),
            last: Verdict::default(),
            random: SmallRng::seed_from_u64(7),
        }
    }

    pub fn polled_every(mut self, seconds: f64) -> Traffic {
        self.poll = seconds;
        self
    }

    /// A Poisson count.
    pub fn count(&mut self, mean: f64) -> f64 {
        if mean > 0.0 { Poisson::new(mean).unwrap().sample(&mut self.random) } else { 0.0 }
    }

    /// The next poll's sample at the present rate and ratio, before anything is done to it.
    pub fn sample(&mut self) -> Sample {
        self.now += self.poll;
        let misses = self.count(self.rate * self.ratio * self.poll);
        let hits = self.count(self.rate * (1.0 - self.ratio) * self.poll);
        Sample {
            time: self.now,
            dt: self.poll,
            lookups: BySource { redis: Some(Lookups { hits, misses }), app: None },
            ..Sample::default()
        }
    }

    /// Hands one sample to the detector.
    pub fn observe(&mut self, sample: &Sample) -> Verdict {
        let verdict = self.detector.observe(sample);
        self.log.apply(&verdict, 100);
        self.changes.extend(verdict.changes.iter().cloned());
        self.last = verdict.clone();
        verdict
    }

    /// Ordinary polls for so many seconds.
    pub fn run(&mut self, seconds: f64) {
        self.run_with(seconds, |_, _| {});
    }

    /// Polls for so many seconds, each changed by `edit`, which gets the seconds since the start.
    pub fn run_with(&mut self, seconds: f64, mut edit: impl FnMut(f64, &mut Sample)) {
        let began = self.now;
        while self.now < began + seconds - 1e-6 {
            let mut sample = self.sample();
            edit(self.now - began, &mut sample);
            self.observe(&sample);
        }
    }

    /// Unix seconds at which the only incident was declared.
    pub fn only_start(&self) -> f64 {
        self.only().started_at
    }

    /// The only incident there ever was.
    pub fn only(&self) -> &Incident {
        let all: Vec<&Incident> = self.log.running.iter().chain(&self.log.past).collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0]
    }

    /// Nothing was ever declared.
    pub fn assert_silent(&self) {
        assert_eq!(self.changes, []);
        assert_eq!(self.log.count.iter().sum::<u64>(), 0);
    }
}

/// Makes a share of a sample's hits misses.
pub fn lose(sample: &mut Sample, share: f64) {
    let lookups = sample.lookups.redis.as_mut().unwrap();
    let lost = (lookups.hits * share).round();
    lookups.hits -= lost;
    lookups.misses += lost;
}
