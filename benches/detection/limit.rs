//! The physical limit: how soon anything at all can know.
//!
//! Lorden (Ann. Math. Statist. 42, 1971): with a mean time between false alarms of T polls, the
//! worst mean delay of any rule is at least `ln T` over the information that a poll brings. For
//! overdispersed counts that is `(x ln(x / m) - (x - m)) / dispersion` nats, at mean `m` before and
//! `x` after. Half a poll comes on top. Wander and the learning of the level are left out, so the
//! limit is of a rule that knows the cache perfectly.

use crate::scenario::{Scenario, Trouble};

/// Thirty days of polls.
const POLLS_BETWEEN_FALSE_ALARMS: f64 = 30.0 * 86_400.0;
/// Resolution of the integral, seconds.
const STEP: f64 = 0.01;

/// The least mean delay at polls of one second, `None` if the stampede is over before anything
/// could know of it.
pub fn delay(scenario: &Scenario) -> Option<f64> {
    let Trouble::Stampede(stampede) = scenario.trouble else { return None };
    let needed = POLLS_BETWEEN_FALSE_ALARMS.ln();
    let traffic = &scenario.traffic;
    let mut known = 0.0;
    let mut t = 0.0;
    while t < stampede.shape.length() {
        let (before, after) = (traffic.ratio, scenario.ratio_at(t));
        known += STEP * traffic.rate * information(before, after) / traffic.dispersion;
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
    if after <= before { 0.0 } else { of(before, after).max(of(1.0 - before, 1.0 - after)) }
}
