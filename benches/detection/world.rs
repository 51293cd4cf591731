//! One scenario as it would be polled, a second at a time.

use stampede_exporter::detect::Cause;
use stampede_exporter::reading::{BySource, Lookups};
use stampede_exporter::signal::sample::Sample;

use crate::draw::{Draw, Wander};
use crate::scenario::{Benign, LEAD, Load, Scenario, Sign, Stampede, Trouble};

/// What a run looked like to a poller.
pub struct Run {
    /// One sample a second; a missing poll is simply not there.
    pub samples: Vec<Sample>,
    /// The true start and end of the stampede.
    pub truth: Option<(f64, f64)>,
    pub cause: Option<Cause>,
    /// What the miss ratio had wandered to when the stampede began, all scatter aside.
    pub ratio: f64,
}

/// Which counters this cache happens to have; nobody has all of them.
struct Counted {
    share: bool,
    forecast: bool,
    not_found: bool,
    locks: bool,
    keys: bool,
    evictions: bool,
}

/// Seconds in which the miss ratio wanders to another value.
pub const RATIO_TIME: f64 = 300.0;
/// Usual load latency, seconds.
const LATENCY: f64 = 0.02;

struct World<'a> {
    scenario: &'a Scenario,
    draw: Draw,
    counted: Counted,
    start: f64,
    /// What the miss ratio had wandered to at the start.
    before: f64,
    ratio: Wander,
    load: Wander,
    latency: Wander,
    locks: Wander,
    absent_share: f64,
    usual_evictions: f64,
    expiry_per_miss: f64,
    errors: f64,
    keys: f64,
    keys_normal: f64,
}

impl Run {
    /// Simulates one scenario; the same seed gives the same run. Each optional counter is there with
    /// the chance `counted`.
    pub fn of(scenario: &Scenario, seed: u64, counted: f64) -> Run {
        let mut world = World::new(scenario, seed, counted);
        let mut samples = Vec::with_capacity(scenario.seconds);
        let mut unpolled = Vec::new();
        for second in 0..scenario.seconds {
            unpolled.push(world.second(second as f64));
            if !world.missing(second as f64) {
                samples.extend(polled(&unpolled, unpolled.len()));
                unpolled.clear();
            }
        }
        let Trouble::Stampede(stampede) = scenario.trouble else {
            return Run { samples, truth: None, cause: None, ratio: world.before };
        };
        let end = (world.start + stampede.shape.length()).min(scenario.seconds as f64);
        Run {
            samples,
            truth: Some((world.start, end)),
            cause: Some(stampede.cause),
            ratio: world.before,
        }
    }
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, seed: u64, counted: f64) -> World<'a> {
        let mut draw = Draw::seeded(seed);
        let traffic = &scenario.traffic;
        let counted = Counted {
            share: draw.chance(counted),
            forecast: draw.chance(counted),
            not_found: draw.chance(counted),
            locks: draw.chance(counted),
            keys: draw.chance(counted),
            evictions: draw.chance(counted),
        };
        let keys_normal = 10.0_f64.powf(draw.uniform(4.0, 6.0));
        World {
            start: LEAD + draw.uniform(0.0, 60.0),
            before: 0.0,
            ratio: Wander::new(&mut draw, traffic.wander, RATIO_TIME),
            load: Wander::new(&mut draw, traffic.load_wander, 120.0),
            latency: Wander::new(&mut draw, 0.2, 30.0),
            locks: Wander::new(&mut draw, 0.3, 60.0),
            absent_share: draw.uniform(0.0, 0.2),
            usual_evictions: if draw.chance(0.3) { draw.uniform(0.2, 1.0) } else { 0.0 },
            expiry_per_miss: draw.uniform(0.2, 0.8),
            errors: draw.uniform(0.0, 0.001),
            keys: keys_normal,
            keys_normal,
            counted,
            draw,
            scenario,
        }
    }

    fn stampede(&self) -> Option<Stampede> {
        match self.scenario.trouble {
            Trouble::Stampede(stampede) => Some(stampede),
            Trouble::Benign(_) => None,
        }
    }

    fn benign(&self) -> Option<Benign> {
        match self.scenario.trouble {
            Trouble::Stampede(_) => None,
            Trouble::Benign(benign) => Some(benign),
        }
    }

    fn missing(&self, second: f64) -> bool {
        matches!(self.benign(), Some(Benign::PollGap(length))
            if (0.0..length).contains(&(second - LEAD)))
    }

    /// Mean height of the stampede over the second that ends at `now`.
    fn height(&self, second: f64) -> f64 {
        const PARTS: u32 = 10;
        let Some(stampede) = self.stampede() else { return 0.0 };
        let part = |index: u32| {
            let at = second + (f64::from(index) + 0.5) / f64::from(PARTS);
            stampede.shape.at(at - self.start)
        };
        stampede.height * (0..PARTS).map(part).sum::<f64>() / f64::from(PARTS)
    }

    fn rate(&mut self, second: f64) -> f64 {
        let traffic = &self.scenario.traffic;
        let since = second - LEAD;
        let factor = match traffic.load {
            Load::Steady => 1.0,
            Load::Sine(share) => 1.0 + share * (second / 1800.0 * std::f64::consts::TAU).sin(),
            Load::Ramp(to, within) => 1.0 + (to - 1.0) * (since / within).clamp(0.0, 1.0),
            Load::Stall(_) if (0.0..2.0).contains(&since) => 0.0,
            Load::Stall(factor) if (2.0..4.0).contains(&since) => factor,
            Load::Stall(_) => 1.0,
        };
        traffic.rate * factor * self.load.next(&mut self.draw)
    }

    fn usual_ratio(&mut self, second: f64) -> f64 {
        let ratio = self.scenario.traffic.ratio * self.ratio.next(&mut self.draw);
        match self.benign() {
            Some(Benign::Pulses(points)) if second % 60.0 < 20.0 => ratio + points,
            Some(Benign::Drift(to)) => {
                ratio * (1.0 + (to - 1.0) * second / self.scenario.seconds as f64)
            }
            _ => ratio,
        }
        .min(1.0)
    }

    fn second(&mut self, second: f64) -> Sample {
        let traffic = &self.scenario.traffic;
        let (dispersion, request_dispersion) = (traffic.dispersion, traffic.request_dispersion);
        let cause = self.stampede().map(|stampede| stampede.cause);
        let height = self.height(second);
        let rate = self.rate(second);
        let requests = self.draw.scattered(rate, request_dispersion);
        let ratio = self.usual_ratio(second);
        if second <= self.start {
            self.before = ratio;
        }
        let usual = self.draw.scattered(requests * ratio, dispersion).min(requests);
        let extra = match cause {
            Some(Cause::Penetration) => self.draw.poisson(height),
            _ => self.draw.part(requests - usual, height),
        };
        let on_top = if cause == Some(Cause::Penetration) { extra } else { 0.0 };
        let misses = usual + extra;
        let hits = requests + on_top - misses;
        let mut sample = Sample {
            time: second + 1.0,
            dt: 1.0,
            lookups: BySource { redis: Some(Lookups { hits, misses }), app: None },
            ..Sample::default()
        };
        self.witnesses(second, &mut sample, usual, extra, requests);
        if self.benign() == Some(Benign::CountersReset) && (second - LEAD).abs() < 0.5 {
            sample.lookups.redis = None;
        }
        sample
    }

    /// Everything else that is counted, with its own scatter.
    fn witnesses(
        &mut self,
        second: f64,
        sample: &mut Sample,
        usual: f64,
        extra: f64,
        requests: f64,
    ) {
        let stampede = self.stampede();
        let cause = stampede.map(|stampede| stampede.cause);
        let sign = stampede.map_or(Sign::None, |stampede| stampede.sign);
        let first = (0.0..1.0).contains(&(self.start - second));
        let since = second - LEAD;
        let misses = usual + extra;
        let found = |cause_is: Cause| if cause == Some(cause_is) { extra } else { 0.0 };

        sample.errors = Some(self.draw.poisson(self.errors * requests) + found(Cause::Avalanche));
        let absent = self.draw.part(misses - found(Cause::Penetration), self.absent_share);
        let not_found = absent + self.draw.part(found(Cause::Penetration), 0.97);
        sample.not_found = self.counted.not_found.then_some(not_found);
        let coalesced = self.draw.part(misses, 0.1);
        sample.coalesced = Some(coalesced);
        sample.loads = Some(misses - coalesced);

        // A key that runs out is reloaded by everyone who asks for it meanwhile.
        let wave = self.draw.part(found(Cause::SynchronizedExpiry), 0.5);
        let usual_expiry = self.draw.scattered(self.expiry_per_miss * usual, 3.0);
        let unread = match self.benign() {
            Some(Benign::UnreadExpiry(share)) if (0.0..2.0).contains(&since) => {
                self.draw.poisson(0.5 * share * self.keys_normal)
            }
            _ => 0.0,
        };
        sample.expired = Some(usual_expiry + wave + unread);
        let evicting = match sign {
            Sign::Evictions(rate) => {
                let share = stampede.map_or(0.0, |stampede| self.height(second) / stampede.height);
                self.draw.scattered(rate * share, 5.0)
            }
            _ => 0.0,
        };
        let evicted = self.draw.scattered(self.usual_evictions * misses, 5.0) + evicting;
        sample.evicted =
            (self.counted.evictions || matches!(sign, Sign::Evictions(_))).then_some(evicted);

        sample.flushes = Some(f64::from(u8::from(first && sign == Sign::Flush)));
        sample.restarted = first && matches!(sign, Sign::Restart | Sign::Shard(_));
        let before = self.keys;
        self.keys +=
            0.002 * (self.keys_normal - self.keys) + 0.001 * self.keys * self.draw.normal();
        if first {
            self.keys *= match sign {
                Sign::Restart | Sign::Flush => 0.0,
                Sign::Shard(of) => 1.0 - 1.0 / of,
                _ => 1.0,
            };
        }
        self.keys = self.keys.max(0.0);
        if self.counted.keys {
            (sample.keys_before, sample.keys) = (Some(before), Some(self.keys));
        }

        if self.counted.locks {
            let attempts = self.draw.part(misses, 0.3);
            let busy = (0.02 * self.locks.next(&mut self.draw)).min(1.0);
            let refused = self.draw.part(attempts, busy) + self.draw.poisson(0.2 * extra);
            let benign = match self.benign() {
                Some(Benign::RefusedLocks(rate, seconds)) if (0.0..seconds).contains(&since) => {
                    self.draw.poisson(rate)
                }
                _ => 0.0,
            };
            sample.lock_acquired = Some(attempts);
            sample.lock_failed = Some(refused + benign);
        }
        let slow = match self.benign() {
            Some(Benign::SlowBackend(by, seconds)) if (0.0..seconds).contains(&since) => by,
            _ => 1.0 + extra / (usual + 50.0),
        };
        sample.latency_p50 = Some(LATENCY);
        sample.latency_p99 = Some(4.0 * LATENCY * slow * self.latency.next(&mut self.draw));

        let forecast = self.draw.poisson(20.0) / 20.0;
        let due =
            if wave > 0.0 && second - self.start < 2.0 { wave / (usual_expiry + 1.0) } else { 0.0 };
        sample.due_ratio =
            self.counted.forecast.then(|| forecast + due * self.draw.uniform(0.5, 1.5));
        let top = 0.05 + 0.05 * self.draw.uniform(0.0, 1.0);
        let hot = found(Cause::HotKey) * self.draw.uniform(0.85, 1.0);
        let share = (hot + top * (misses - hot)) / misses.max(1.0);
        // The top key is found in a sample of what is missed.
        let seen = self.draw.part(50.0, share) / 50.0;
        sample.hot_key_share = self.counted.share.then_some(seen);
    }
}

/// The same run polled every `seconds` instead of every second.
pub fn polled(samples: &[Sample], seconds: usize) -> Vec<Sample> {
    let add = |a: Option<f64>, b: Option<f64>| Some(a.unwrap_or(0.0) + b?).or(a);
    samples
        .chunks(seconds)
        .filter_map(|chunk| {
            let (first, last) = (chunk.first()?, chunk.last()?);
            let mut sum = Sample { keys_before: first.keys_before, ..last.clone() };
            for earlier in &chunk[..chunk.len() - 1] {
                sum.dt += earlier.dt;
                sum.lookups.redis = match (sum.lookups.redis, earlier.lookups.redis) {
                    (Some(a), Some(b)) => {
                        Some(Lookups { hits: a.hits + b.hits, misses: a.misses + b.misses })
                    }
                    _ => None,
                };
                sum.expired = add(sum.expired, earlier.expired);
                sum.evicted = add(sum.evicted, earlier.evicted);
                sum.errors = add(sum.errors, earlier.errors);
                sum.not_found = add(sum.not_found, earlier.not_found);
                sum.loads = add(sum.loads, earlier.loads);
                sum.coalesced = add(sum.coalesced, earlier.coalesced);
                sum.lock_acquired = add(sum.lock_acquired, earlier.lock_acquired);
                sum.lock_failed = add(sum.lock_failed, earlier.lock_failed);
                sum.flushes = add(sum.flushes, earlier.flushes);
                sum.restarted |= earlier.restarted;
            }
            Some(sum)
        })
        .collect()
}
