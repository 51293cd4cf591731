//! What a detector has learned, as a file holds it: types of their own, with a version.

use serde::{Deserialize, Serialize};

use crate::detect::incident::figure;
use crate::detect::state::{Learned, Spread, State};
use crate::detect::{Cause, Incident, Suspect, SuspectSource};
use crate::reading::{BySource, Source};

/// The form below. A file of another version is not read.
const VERSION: u32 = 2;

/// An older file tells more about another time of day than about now, seconds.
const MAX_AGE: f64 = 3600.0;

/// A file may be from so far ahead, seconds: clocks are set.
const MAX_AHEAD: f64 = 60.0;

/// Why a file that can be read is not used.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("it has version {0}, this exporter writes and reads {VERSION}")]
    Version(u32),
    #[error("it is of another cache, {0:?}")]
    Cache(String),
    #[error("it is {0:.0} s old, more than {MAX_AGE} s")]
    Old(f64),
    #[error("it is from {0:.0} s in the future")]
    Future(f64),
    #[error("it is damaged: {0} is not known")]
    Unknown(&'static str),
}

/// What every version has, so that another one can be told.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    version: u32,
}

impl Head {
    pub(super) fn check(&self) -> Result<(), Unfit> {
        if self.version == VERSION { Ok(()) } else { Err(Unfit::Version(self.version)) }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StateJson {
    version: u32,
    cache: String,
    /// Unix seconds of the last sample.
    time: f64,
    redis: Option<LearnedJson>,
    app: Option<LearnedJson>,
    incident: Option<IncidentJson>,
    settled: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct LearnedJson {
    seconds: f64,
    miss_ratio: f64,
    lookups: f64,
    misses: SpreadJson,
    hits: SpreadJson,
}

#[derive(Debug, Serialize, Deserialize)]
struct SpreadJson {
    dispersion: f64,
    wander: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct IncidentJson {
    cause: String,
    source: String,
    started_at: f64,
    ended_at: Option<f64>,
    score: f64,
    p_value: Option<f64>,
    baseline_misses_per_second: f64,
    peak_misses_per_second: f64,
    excess_misses: f64,
    baseline_loads_per_second: Option<f64>,
    peak_loads_per_second: Option<f64>,
    excess_loads: Option<f64>,
    latency_p50: Option<f64>,
    latency_p99: Option<f64>,
    evidence: Vec<(String, f64)>,
    suspects: Vec<SuspectJson>,
}

/// Names of keys are bytes.
#[derive(Debug, Serialize, Deserialize)]
struct SuspectJson {
    pattern: Vec<u8>,
    share: f64,
    example: Option<Vec<u8>>,
    source: String,
}

impl StateJson {
    pub(super) fn of(cache: &str, state: &State) -> StateJson {
        StateJson {
            version: VERSION,
            cache: cache.to_owned(),
            time: state.time,
            redis: state.baselines.redis.as_ref().map(learned_json),
            app: state.baselines.app.as_ref().map(learned_json),
            incident: state.incident.as_ref().map(incident_json),
            settled: state.settled,
        }
    }

    /// The state of `cache` at `now`, Unix seconds.
    pub(super) fn state(self, cache: &str, now: f64) -> Result<State, Unfit> {
        if self.cache != cache {
            return Err(Unfit::Cache(self.cache));
        }
        let age = now - self.time;
        if age > MAX_AGE {
            return Err(Unfit::Old(age));
        }
        if age < -MAX_AHEAD {
            return Err(Unfit::Future(-age));
        }
        Ok(State {
            time: self.time,
            baselines: BySource { redis: self.redis.map(learned), app: self.app.map(learned) },
            incident: self.incident.map(incident).transpose()?,
            settled: self.settled,
        })
    }
}

fn learned_json(learned: &Learned) -> LearnedJson {
    let spread = |s: Spread| SpreadJson { dispersion: s.dispersion, wander: s.wander };
    LearnedJson {
        seconds: learned.seconds,
        miss_ratio: learned.miss_ratio,
        lookups: learned.lookups,
        misses: spread(learned.misses),
        hits: spread(learned.hits),
    }
}

fn learned(json: LearnedJson) -> Learned {
    let spread = |s: SpreadJson| Spread { dispersion: s.dispersion, wander: s.wander };
    Learned {
        seconds: json.seconds,
        miss_ratio: json.miss_ratio,
        lookups: json.lookups,
        misses: spread(json.misses),
        hits: spread(json.hits),
    }
}

fn incident_json(incident: &Incident) -> IncidentJson {
    let suspect = |s: &Suspect| SuspectJson {
        pattern: s.pattern.clone(),
        share: s.share,
        example: s.example.clone(),
        source: s.source.as_str().to_owned(),
    };
    IncidentJson {
        cause: incident.cause.as_str().to_owned(),
        source: incident.source.as_str().to_owned(),
        started_at: incident.started_at,
        ended_at: incident.ended_at,
        score: incident.score,
        p_value: incident.p_value,
        baseline_misses_per_second: incident.baseline_misses_per_second,
        peak_misses_per_second: incident.peak_misses_per_second,
        excess_misses: incident.excess_misses,
        baseline_loads_per_second: incident.baseline_loads_per_second,
        peak_loads_per_second: incident.peak_loads_per_second,
        excess_loads: incident.excess_loads,
        latency_p50: incident.latency_p50,
        latency_p99: incident.latency_p99,
        evidence: incident.evidence.iter().map(|(name, v)| ((*name).to_owned(), *v)).collect(),
        suspects: incident.suspects.iter().map(suspect).collect(),
    }
}

fn incident(json: IncidentJson) -> Result<Incident, Unfit> {
    let cause = Cause::ALL.into_iter().find(|c| c.as_str() == json.cause);
    let source = Source::ALL.into_iter().find(|s| s.as_str() == json.source);
    let suspect = |s: SuspectJson| {
        let source = SuspectSource::ALL.into_iter().find(|known| known.as_str() == s.source);
        let source = source.ok_or(Unfit::Unknown("the source of a suspect"))?;
        Ok(Suspect { pattern: s.pattern, share: s.share, example: s.example, source })
    };
    Ok(Incident {
        cause: cause.ok_or(Unfit::Unknown("the cause"))?,
        source: source.ok_or(Unfit::Unknown("the source"))?,
        started_at: json.started_at,
        ended_at: json.ended_at,
        score: json.score,
        p_value: json.p_value,
        baseline_misses_per_second: json.baseline_misses_per_second,
        peak_misses_per_second: json.peak_misses_per_second,
        excess_misses: json.excess_misses,
        baseline_loads_per_second: json.baseline_loads_per_second,
        peak_loads_per_second: json.peak_loads_per_second,
        excess_loads: json.excess_loads,
        latency_p50: json.latency_p50,
        latency_p99: json.latency_p99,
        // A figure that this version does not keep any more is no loss.
        evidence: json.evidence.iter().filter_map(|(n, v)| Some((figure(n)?, *v))).collect(),
        suspects: json.suspects.into_iter().map(suspect).collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_state() -> State {
        let spread = Spread { dispersion: 1.5, wander: 0.25 };
        let learned = Learned {
            seconds: 90.0,
            miss_ratio: 0.125,
            lookups: 4e5,
            misses: spread,
            hits: spread,
        };
        let suspect = Suspect {
            pattern: b"user:\xff*".to_vec(),
            share: 0.5,
            example: Some(b"user:\xff7".to_vec()),
            source: SuspectSource::Sampled,
        };
        let incident = Incident {
            score: 2.0,
            p_value: Some(0.0),
            excess_loads: Some(3.5),
            evidence: vec![("miss_ratio", 0.75), ("hot_key_share", 0.5)],
            suspects: vec![suspect],
            ..Incident::new(Cause::HotKey, Source::App, 1000.25)
        };
        State {
            time: 1010.0,
            baselines: BySource { redis: None, app: Some(learned) },
            incident: Some(incident),
            settled: true,
        }
    }

    fn read(text: &str, cache: &str, now: f64) -> Result<State, Unfit> {
        serde_json::from_str::<StateJson>(text).unwrap().state(cache, now)
    }

    #[test]
    fn what_is_written_is_read() {
        let text = serde_json::to_string(&StateJson::of("c", &some_state())).unwrap();
        assert_eq!(read(&text, "c", 1020.0).unwrap(), some_state());
    }

    #[test]
    fn what_does_not_fit_says_why() {
        let text = serde_json::to_string(&StateJson::of("c", &some_state())).unwrap();
        assert_eq!(read(&text, "d", 1020.0), Err(Unfit::Cache("c".to_owned())));
        assert_eq!(read(&text, "c", 4611.0), Err(Unfit::Old(3601.0)));
        assert_eq!(read(&text, "c", 900.0), Err(Unfit::Future(110.0)));
        let other = text.replace("hot_key\"", "gremlins\"");
        assert_eq!(read(&other, "c", 1020.0), Err(Unfit::Unknown("the cause")));
        let head = |text: &str| serde_json::from_str::<Head>(text).unwrap().check();
        assert_eq!(head(&text), Ok(()));
        assert_eq!(head(r#"{"version":0,"other":1}"#), Err(Unfit::Version(0)));
    }
}
