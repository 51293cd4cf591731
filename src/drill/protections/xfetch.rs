//! `xfetch`: a hit recomputes early by chance, the likelier the nearer the deadline.
//!
//! Each request draws `u` uniform in (0, 1] and recomputes when
//! `now - load_time * beta * ln(u) >= deadline`: with a probability of
//! `exp(-remaining / (beta * load_time))`. A. Vattani, F. Chierichetti, K. Lowenstein, "Optimal
//! Probabilistic Cache Stampede Prevention", VLDB 2015, where the exponential is shown to be the
//! best choice; `beta` above 1 favours earlier recomputation.
//!
//! How many recompute until the first is done does not depend on how many ask. With Poisson arrivals
//! of rate `r` the expected number of requests that have fired until `s` before the deadline is
//! `L(s) = r c exp(-s/c)`, `c = beta * load_time`; at the first one it is exponential with mean 1,
//! and while that one loads it grows by a factor of `exp(1/beta)`. So `exp(1/beta) - 1` more fire,
//! 1.72 for `beta = 1`, as long as `r c` is well above 1.
//!
//! Fails for keys that are asked for less than once in a load time: nobody is there to recompute
//! early, so the miss comes (and harms nobody). It does nothing for a key that disappears before its
//! deadline. Each early load is work that a longer life would have saved.

use crate::elementary::ln;

/// Whether this request recomputes. Times in Unix seconds, `load_seconds` is how long the last load
/// took, `beta` above 0, `u` uniform in (0, 1].
pub fn recomputes(now: f64, deadline: f64, load_seconds: f64, beta: f64, u: f64) -> bool {
    now - load_seconds * beta * ln(u) >= deadline
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn draw(rng: &mut StdRng) -> f64 {
        1.0 - rng.random::<f64>()
    }

    #[test]
    fn the_share_that_recomputes_follows_the_formula() {
        let mut rng = StdRng::seed_from_u64(11);
        let draws = 100_000;
        // Load 200 ms: 1, 2 and 5 load times before the deadline, and beta 1 and 2.
        for (remaining, beta, share) in [
            (0.2, 1.0, 0.367_879),
            (0.4, 1.0, 0.135_335),
            (1.0, 1.0, 0.006_738),
            (0.4, 2.0, 0.367_879),
        ] {
            let fired = (0..draws)
                .filter(|_| recomputes(100.0 - remaining, 100.0, 0.2, beta, draw(&mut rng)))
                .count() as f64;
            let deviation = (share * (1.0 - share) / f64::from(draws)).sqrt();
            let found = fired / f64::from(draws);
            assert!((found - share).abs() < 4.0 * deviation, "{remaining} s, {beta}: {found}");
        }
    }

    #[test]
    fn past_the_deadline_everybody_recomputes() {
        for u in [f64::MIN_POSITIVE, 0.5, 1.0] {
            assert!(recomputes(100.0, 100.0, 0.2, 1.0, u));
        }
    }

    /// Loads for one deadline of a key that is asked for `rate` times a second: those that begin
    /// before the first has ended.
    fn loads(rate: f64, load: f64, beta: f64, rng: &mut StdRng) -> u32 {
        // Earlier than ten time constants only one in 22,000 requests fires.
        let mut now = -10.0 * load * beta;
        let (mut loads, mut done) = (0, f64::INFINITY);
        while now < done {
            now -= ln(draw(rng)) / rate;
            if now < done && recomputes(now, 0.0, load, beta, draw(rng)) {
                loads += 1;
                done = done.min(now + load);
            }
        }
        loads
    }

    #[test]
    fn duplicates_do_not_grow_with_the_rate() {
        let mut rng = StdRng::seed_from_u64(12);
        let rounds = 500;
        // e - 1 = 1.718 and sqrt(e) - 1 = 0.649.
        for (rate, beta, expected) in [(50.0, 1.0, 1.718), (500.0, 1.0, 1.718), (250.0, 2.0, 0.649)]
        {
            let counts: Vec<f64> =
                (0..rounds).map(|_| f64::from(loads(rate, 0.2, beta, &mut rng)) - 1.0).collect();
            let mean = counts.iter().sum::<f64>() / f64::from(rounds);
            let variance =
                counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / f64::from(rounds - 1);
            let error = (variance / f64::from(rounds)).sqrt();
            assert!((mean - expected).abs() < 4.0 * error + 0.03, "{rate}/s: {mean}, {expected}");
        }
    }
}
