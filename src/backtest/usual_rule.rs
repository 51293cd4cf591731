//! The rule that people use without a detector, over the same rows, for comparison:
//! `rate(m[1m]) > 2 * avg_over_time(rate(m[1m])[1h:1m])` for 30 s, where there is traffic at all.
//!
//! It is `CacheStampedeDetected` of the shipped alerts as a Prometheus would compute it that scrapes
//! and evaluates every few seconds. Memory is bounded: some minutes of scrapes, an hour of minutes.
//! The detection benchmark holds the detector against the same code.

use std::collections::VecDeque;

use crate::reading::Reading;

/// Seconds between two scrapes at the least: what `deploy/prometheus.yml` has. Rows that are further
/// apart are scrapes of their own.
const SCRAPE: f64 = 5.0;

/// Seconds that the rate of the misses is taken over.
const MINUTE: f64 = 60.0;

/// Seconds that the rate of the lookups is taken over.
const LOOKUPS: f64 = 300.0;

/// Minutes in the average.
const AVERAGED: f64 = 60.0;

/// How many times the average the rate must be above.
const TIMES: f64 = 2.0;

/// Lookups a second below which it is silent.
const LEAST_LOOKUPS: f64 = 1.0;

/// Seconds for which it must hold.
const HOLD: f64 = 30.0;

/// The rule and its state.
#[derive(Debug)]
pub struct UsualRule {
    /// Seconds between two scrapes.
    scrape: f64,
    /// How many times the average the rate must be above.
    times: f64,
    /// The newest scrapes, oldest first.
    scrapes: VecDeque<Scrape>,
    /// Rates of the misses at full minutes of the last hour, oldest first: minutes since 1970.
    minutes: VecDeque<(f64, f64)>,
    /// What the counters said last, and what they add up to as `rate` adds: a fall is a reset.
    last: Option<(f64, f64)>,
    total: (f64, f64),
    /// Unix seconds since which its condition holds.
    pending: Option<f64>,
    firing: Option<Alarm>,
}

/// A time in which it fired.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alarm {
    /// Unix seconds from which it fired.
    pub start: f64,
    /// Misses a second over the last minute, when it began to fire.
    pub misses_per_second: f64,
    /// Their average of the last hour.
    pub average: f64,
}

#[derive(Debug, Clone, Copy)]
struct Scrape {
    time: f64,
    misses: f64,
    lookups: f64,
}

impl Default for UsualRule {
    /// As it is shipped.
    fn default() -> UsualRule {
        UsualRule::new(SCRAPE, TIMES)
    }
}

impl UsualRule {
    /// One that scrapes every `scrape` seconds, or as often as there are rows if those are rarer, and
    /// fires above `times` the average.
    pub fn new(scrape: f64, times: f64) -> UsualRule {
        UsualRule {
            scrape,
            times,
            scrapes: VecDeque::new(),
            minutes: VecDeque::new(),
            last: None,
            total: (0.0, 0.0),
            pending: None,
            firing: None,
        }
    }

    /// Takes in a row; gives the alarm while it fires.
    pub fn take(&mut self, reading: &Reading) -> Option<Alarm> {
        let before = self.scrapes.back().map_or(f64::NEG_INFINITY, |scrape| scrape.time);
        let Some(lookups) = reading.lookups.nearest() else { return self.firing };
        let (misses, total) = (lookups.misses, lookups.total());
        let rise = |before: f64, now: f64| if now < before { now } else { now - before };
        if let Some(last) = self.last.replace((misses, total)) {
            self.total.0 += rise(last.0, misses);
            self.total.1 += rise(last.1, total);
        }
        // A little early is not a scrape missed.
        if reading.time - before < self.scrape * 0.9 {
            return self.firing;
        }
        let (misses, lookups) = self.total;
        self.scrapes.push_back(Scrape { time: reading.time, misses, lookups });
        self.fill_minutes(before, reading.time);
        while self.scrapes.front().is_some_and(|s| s.time <= reading.time - LOOKUPS) {
            self.scrapes.pop_front();
        }
        self.evaluate(reading.time);
        self.firing
    }

    /// Notes the rate at each full minute after the scrape before, up to `now`.
    fn fill_minutes(&mut self, before: f64, now: f64) {
        let newest = (now / MINUTE).floor();
        let mut minute = (before / MINUTE).floor().max(newest - AVERAGED) + 1.0;
        while minute <= newest {
            if let Some(rate) = self.rate(minute * MINUTE, MINUTE, |scrape| scrape.misses) {
                self.minutes.push_back((minute, rate));
            }
            minute += 1.0;
        }
        while self
            .minutes
            .front()
            .is_some_and(|(minute, _)| *minute * MINUTE <= now - AVERAGED * MINUTE)
        {
            self.minutes.pop_front();
        }
    }

    /// The rate over the `seconds` before `time`; `None` with fewer than two scrapes.
    fn rate(&self, time: f64, seconds: f64, of: impl Fn(&Scrape) -> f64) -> Option<f64> {
        let start = self.scrapes.partition_point(|scrape| scrape.time <= time - seconds);
        let end = self.scrapes.partition_point(|scrape| scrape.time <= time);
        let (first, last) = (self.scrapes.get(start)?, self.scrapes.get(end.checked_sub(1)?)?);
        (last.time > first.time).then(|| (of(last) - of(first)) / (last.time - first.time))
    }

    fn evaluate(&mut self, now: f64) {
        let average =
            self.minutes.iter().map(|(_, rate)| rate).sum::<f64>() / self.minutes.len() as f64;
        let busy = self.rate(now, LOOKUPS, |scrape| scrape.lookups);
        let rate = self.rate(now, MINUTE, |scrape| scrape.misses).filter(|rate| {
            *rate > self.times * average && busy.is_some_and(|busy| busy >= LEAST_LOOKUPS)
        });
        let Some(misses_per_second) = rate else {
            (self.pending, self.firing) = (None, None);
            return;
        };
        let since = *self.pending.get_or_insert(now);
        if self.firing.is_none() && now - since >= HOLD {
            self.firing = Some(Alarm { start: now, misses_per_second, average });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{BySource, Lookups};

    /// A minute after the epoch's hundredth hour.
    const START: f64 = 360_060.0;

    /// The times at which it began to fire and ceased to, in seconds from the start, for misses a
    /// second among a thousand lookups.
    fn fired(seconds: u32, misses: impl Fn(u32) -> f64) -> Vec<(f64, f64)> {
        let mut rule = UsualRule::default();
        let (mut sum, mut since, mut fired) = (1e6, None, Vec::new());
        for second in 0..seconds {
            sum += misses(second);
            let hits = 1e9 + f64::from(second) * 1000.0;
            let lookups = BySource { redis: Some(Lookups { hits, misses: sum }), app: None };
            let time = START + f64::from(second);
            match rule.take(&Reading { time, lookups, ..Reading::default() }) {
                Some(alarm) => since = Some(alarm.start - START),
                None => fired.extend(since.take().map(|start| (start, time - START))),
            }
        }
        assert!(rule.scrapes.len() <= 60 && rule.minutes.len() <= 60);
        fired
    }

    /// 10 misses a second, then 50: the rate of the minute passes 20 after a quarter of it, while
    /// the average of an hour hardly moves; half a minute later it fires.
    #[test]
    fn a_step_is_seen_after_three_quarters_of_a_minute() {
        let found = fired(4000, |second| if (3600..3800).contains(&second) { 50.0 } else { 10.0 });
        let [(start, end)] = found[..] else { panic!("{found:?}") };
        assert!((3645.0..=3655.0).contains(&start), "{start}");
        assert!((3800.0..3860.0).contains(&end), "{end}");
    }

    /// The first and the last of twelve scrapes are 55 s apart: the rate is twice the usual 10 once
    /// there are 550 misses more than usual, and stays so for most of the minute.
    #[test]
    fn a_burst_of_less_than_a_minutes_misses_is_not_seen() {
        let burst = |long: u32| {
            move |second| if (3600..3600 + long).contains(&second) { 180.0 } else { 10.0 }
        };
        assert_eq!(fired(4000, burst(3)), []);
        assert_eq!(fired(4000, burst(4)).len(), 1);
    }

    #[test]
    fn growing_traffic_is_an_alarm_to_it() {
        assert_eq!(fired(5000, |second| if second < 3600 { 10.0 } else { 25.0 }).len(), 1);
    }
}
