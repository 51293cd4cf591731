//! The physical limit: how soon anything at all can know from the misses.
//!
//! Lorden (Ann. Math. Statist. 42, 1971): with a mean time between false alarms of T polls, the
//! worst mean delay of any rule is at least `ln T` over the information that a poll brings. For
//! overdispersed counts that is `(x ln(x / m) - (x - m)) / dispersion` nats, at mean `m` before and
//! `x` after. Half a poll comes on top. The ratio wanders by itself besides, and a rise that the
//! wander often makes tells little: of what a poll shows, only what the best prediction from all
//! polls before (Kalman, J. Basic Eng. 82, 1960) leaves unexplained tells anything, in units of that
//! prediction's own error. The limit is of a rule that knows level, dispersion and wander of the
//! cache perfectly, and no witness.

use stampede_exporter::detect::Thresholds;

use crate::scenario::{Scenario, Traffic, Trouble};
use crate::world::RATIO_TIME;

/// Thirty days of polls.
const POLLS_BETWEEN_FALSE_ALARMS: f64 = 30.0 * 86_400.0;
/// Resolution of the integral, seconds.
const STEP: f64 = 0.01;

/// What can be asked of a rule in one run.
#[derive(Clone, Copy, Default, PartialEq)]
pub enum Reach {
    /// There is no stampede.
    #[default]
    Calm,
    /// At no time is there as much of it as a stampede has by definition.
    TooSmall,
    /// It is over before anything could know of it.
    Unknowable,
    /// The least mean delay at polls of one second.
    Known(f64),
}

impl Reach {
    /// What can be asked where the miss ratio was `ratio` when the stampede began.
    pub fn of(scenario: &Scenario, ratio: f64, thresholds: &Thresholds) -> Reach {
        let Trouble::Stampede(stampede) = scenario.trouble else { return Reach::Calm };
        let normal = scenario.traffic.ratio;
        let least = if normal < thresholds.high_miss_ratio {
            (thresholds.rise * normal).max(normal + thresholds.rise_points)
        } else {
            normal + thresholds.hits_lost * (1.0 - normal)
        };
        let length = stampede.shape.length();
        let times = (0..(length / STEP) as usize).map(|step| step as f64 * STEP);
        let highest = times.map(|t| scenario.ratio_at(ratio, t)).fold(0.0, f64::max);
        if highest < least {
            return Reach::TooSmall;
        }
        delay(scenario, ratio).map_or(Reach::Unknowable, Reach::Known)
    }

    /// The delay, if there is one.
    pub fn delay(self) -> Option<f64> {
        match self {
            Reach::Known(delay) => Some(delay),
            Reach::Calm | Reach::TooSmall | Reach::Unknowable => None,
        }
    }
}

fn delay(scenario: &Scenario, before: f64) -> Option<f64> {
    let Trouble::Stampede(stampede) = scenario.trouble else { return None };
    let needed = POLLS_BETWEEN_FALSE_ALARMS.ln();
    let traffic = &scenario.traffic;
    let mut wander = Tracker::of(traffic, before);
    let mut known = 0.0;
    let mut t = 0.0;
    while t < stampede.shape.length() {
        let after = scenario.ratio_at(before, t);
        let counts = STEP * traffic.rate * information(before, after) / traffic.dispersion;
        let beyond_wander = wander.surprise((after - before) / before);
        if after > before {
            known += counts.min(beyond_wander);
        }
        t += STEP;
        if known >= needed {
            return Some(t + 0.5);
        }
    }
    None
}

/// Nats a lookup, of misses or of hits, whichever tells more.
fn information(before: f64, after: f64) -> f64 {
    let of = |m: f64, x: f64| if x > 0.0 { x * (x / m).ln() - (x - m) } else { m };
    of(before, after).max(of(1.0 - before, 1.0 - after))
}

/// The best prediction of the next miss ratio from those before, all relative to the level, and
/// how far a stampede leads it astray.
struct Tracker {
    keep: f64,
    /// Variance of the prediction, and with that of the count itself.
    predicted: f64,
    seen: f64,
    /// How far the prediction has followed the stampede.
    astray: f64,
}

impl Tracker {
    /// One that has followed a calm cache for long.
    fn of(traffic: &Traffic, ratio: f64) -> Tracker {
        let keep = (-STEP / RATIO_TIME).exp();
        let wander = traffic.wander * traffic.wander;
        let count = traffic.dispersion / (traffic.rate * ratio * STEP);
        // The fixed point of predicted = keep^2 predicted count / (predicted + count) + (1 - keep^2) wander.
        let fresh = (1.0 - keep * keep) * wander;
        let half = 0.5 * (fresh - (1.0 - keep * keep) * count);
        let predicted = half + (half * half + fresh * count).sqrt();
        Tracker { keep, predicted, seen: predicted + count, astray: 0.0 }
    }

    /// Nats that a step of time tells in which the ratio is higher by `rise`, relative.
    fn surprise(&mut self, rise: f64) -> f64 {
        let off = rise - self.astray;
        self.astray = self.keep * (self.astray + off * self.predicted / self.seen);
        0.5 * off * off / self.seen
    }
}
