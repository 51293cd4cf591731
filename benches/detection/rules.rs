//! The rules that are compared: ours, and what people use without it.

use stampede_exporter::backtest::usual_rule::UsualRule;
use stampede_exporter::detect::{Cause, Change, Detector, Thresholds};
use stampede_exporter::reading::{BySource, Lookups, Reading};
use stampede_exporter::signal::sample::Sample;

use crate::world::polled;

/// When a rule spoke.
#[derive(Clone, Copy, Debug)]
pub struct Alarm {
    pub time: f64,
    /// What it said is the cause, once it was sure; only ours says one.
    pub cause: Option<Cause>,
}

/// The rules.
#[derive(Clone, Copy, PartialEq)]
pub enum Rule {
    /// Ours at this poll interval, seconds.
    Ours(usize),
    /// Ours each second, held to a time between false alarms that is this many times shorter.
    OursBolder(f64),
    /// `rate(m[1m]) > 2 * avg_over_time(rate(m[1m])[1h:1m])` for 30 s where there is traffic,
    /// scraped and evaluated at this interval: the shipped `CacheStampedeDetected`.
    Reference(usize),
    /// The same with another factor than 2, which buys fewer false alarms with recall.
    ReferenceTimes(usize, f64),
    /// More than three standard deviations over the moving mean of the miss rate.
    ThreeSigma,
    /// Hit ratio of the last minute below 0.80 for 30 s.
    StaticRatio,
}

impl Rule {
    pub fn name(self) -> String {
        match self {
            Rule::Ours(seconds) => format!("ours, {seconds} s polls"),
            Rule::OursBolder(times) => format!("ours, false alarms at {times} times the rate"),
            Rule::Reference(seconds) => format!("reference rule, {seconds} s scrapes"),
            Rule::ReferenceTimes(seconds, factor) => {
                format!("reference rule at {factor} times, {seconds} s scrapes")
            }
            Rule::ThreeSigma => "3-sigma moving average".to_owned(),
            Rule::StaticRatio => "hit ratio < 0.80 for 30 s".to_owned(),
        }
    }

    /// Every time the rule begins to fire.
    pub fn alarms(self, samples: &[Sample], thresholds: &Thresholds) -> Vec<Alarm> {
        match self {
            Rule::Ours(1) => ours(samples, thresholds),
            Rule::Ours(seconds) => ours(&polled(samples, seconds), thresholds),
            Rule::OursBolder(times) => {
                let false_alarm_interval = thresholds.false_alarm_interval / times;
                ours(samples, &Thresholds { false_alarm_interval, ..thresholds.clone() })
            }
            Rule::Reference(seconds) => {
                Rule::ReferenceTimes(seconds, 2.0).alarms(samples, thresholds)
            }
            Rule::ReferenceTimes(seconds, factor) => {
                reference(&polled(samples, seconds), seconds as f64, factor)
            }
            Rule::ThreeSigma => three_sigma(samples),
            Rule::StaticRatio => static_ratio(samples),
        }
    }
}

fn ours(samples: &[Sample], thresholds: &Thresholds) -> Vec<Alarm> {
    let mut detector = Detector::new(thresholds.clone());
    let mut alarms: Vec<Alarm> = Vec::new();
    for sample in samples {
        for change in detector.observe(sample).changes {
            match change {
                Change::Started(incident) => {
                    alarms.push(Alarm { time: sample.time, cause: Some(incident.cause) });
                }
                Change::Resumed(incident) => {
                    alarms.push(Alarm { time: sample.time, cause: Some(incident.cause) });
                }
                Change::Settled(incident) => {
                    if let Some(last) = alarms.last_mut() {
                        last.cause = Some(incident.cause);
                    }
                }
                Change::CauseChanged { .. } | Change::Ended(_) => {}
            }
        }
    }
    alarms
}

/// The usual rule on the counters as they were scraped.
fn reference(samples: &[Sample], interval: f64, factor: f64) -> Vec<Alarm> {
    let mut rule = UsualRule::new(interval, factor);
    let mut total = Lookups::default();
    let mut alarms: Vec<Alarm> = Vec::new();
    for sample in samples {
        let seen = sample.lookups.redis.unwrap_or_default();
        total = Lookups { hits: total.hits + seen.hits, misses: total.misses + seen.misses };
        let lookups = BySource { redis: Some(total), app: None };
        let reading = Reading { time: sample.time, lookups, ..Reading::default() };
        if let Some(alarm) = rule.take(&reading)
            && alarms.last().is_none_or(|last| last.time != alarm.start)
        {
            alarms.push(Alarm { time: alarm.start, cause: None });
        }
    }
    alarms
}

fn three_sigma(samples: &[Sample]) -> Vec<Alarm> {
    const KEEP: f64 = 0.998_845_4; // a half-life of ten minutes
    let (mut mean, mut square, mut weight) = (0.0, 0.0, 0.0_f64);
    let mut pending = Pending::default();
    let mut alarms = Vec::new();
    for sample in samples {
        let Some(lookups) = sample.lookups.redis else { continue };
        let rate = lookups.misses / sample.dt;
        if weight > 0.0 && sample.time > 120.0 {
            let (mean, square): (f64, f64) = (mean / weight, square / weight);
            let deviation: f64 = (square - mean * mean).max(0.0);
            pending.step(sample.time, rate > mean + 3.0 * deviation.sqrt(), 0.0, &mut alarms);
        }
        mean = mean * KEEP + rate;
        square = square * KEEP + rate * rate;
        weight = weight * KEEP + 1.0;
    }
    alarms
}

fn static_ratio(samples: &[Sample]) -> Vec<Alarm> {
    let mut pending = Pending::default();
    let mut alarms = Vec::new();
    let (mut hits, mut misses, mut oldest) = (0.0, 0.0, 0);
    for (index, sample) in samples.iter().enumerate() {
        let count = |sample: &Sample| {
            sample.lookups.redis.map_or((0.0, 0.0), |lookups| (lookups.hits, lookups.misses))
        };
        let (new_hits, new_misses) = count(sample);
        (hits, misses) = (hits + new_hits, misses + new_misses);
        while oldest < index && samples[oldest].time <= sample.time - 60.0 {
            let (old_hits, old_misses) = count(&samples[oldest]);
            (hits, misses) = (hits - old_hits, misses - old_misses);
            oldest += 1;
        }
        let total = hits + misses;
        pending.step(sample.time, total > 0.0 && hits / total < 0.80, 30.0, &mut alarms);
    }
    alarms
}

/// The `for` of an alerting rule.
#[derive(Default)]
struct Pending {
    since: Option<f64>,
    firing: bool,
}

impl Pending {
    fn step(&mut self, time: f64, over: bool, hold: f64, alarms: &mut Vec<Alarm>) {
        if !over {
            (self.since, self.firing) = (None, false);
            return;
        }
        let since = *self.since.get_or_insert(time);
        if !self.firing && time - since >= hold {
            self.firing = true;
            alarms.push(Alarm { time, cause: None });
        }
    }
}
