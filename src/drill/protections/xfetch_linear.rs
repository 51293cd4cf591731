//! `xfetch_linear`: a hit recomputes early with the probability `(age / ttl) ^ beta`.
//!
//! Some texts call this XFetch as well. It knows neither the load time nor the rate: with Poisson
//! arrivals of rate `r` the first early load of a life `T` comes, in the median, at the age
//! `T * ((beta + 1) ln 2 / (r T)) ^ (1 / (beta + 1))`. For a busy key that is soon after the write
//! when `beta` is 1, so the entry's life is hardly used; a *larger* `beta` makes it *later*, the
//! reverse of what some of those texts say.
//!
//! Fails by its cost: the busier the key, the more often it is loaded, without bound.

use std::time::Duration;

use crate::elementary::pow;

/// Whether this request recomputes. `age` since the write, `u` uniform in (0, 1].
pub fn recomputes(age: f64, ttl: Duration, beta: f64, u: f64) -> bool {
    u <= probability(age, ttl, beta)
}

/// The probability that a request recomputes, `age` seconds after the write.
pub fn probability(age: f64, ttl: Duration, beta: f64) -> f64 {
    pow((age / ttl.as_secs_f64()).clamp(0.0, 1.0), beta)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::elementary::ln;

    const TTL: Duration = Duration::from_secs(60);

    #[test]
    fn the_share_that_recomputes_follows_the_formula() {
        let mut rng = StdRng::seed_from_u64(21);
        let draws = 100_000;
        for (age, beta, share) in
            [(30.0, 1.0, 0.5), (30.0, 3.0, 0.125), (54.0, 1.0, 0.9), (0.0, 1.0, 0.0)]
        {
            let fired = (0..draws)
                .filter(|_| recomputes(age, TTL, beta, 1.0 - rng.random::<f64>()))
                .count();
            let found = fired as f64 / f64::from(draws);
            let deviation = (share * (1.0 - share) / f64::from(draws)).sqrt();
            assert!((found - share).abs() <= 4.0 * deviation, "{age} s, {beta}: {found}");
        }
    }

    #[test]
    fn a_larger_beta_recomputes_later_as_the_formula_says() {
        let mut rng = StdRng::seed_from_u64(22);
        // 100 requests a second: 6000 in a life. ((1+1) ln 2/6000)^(1/2) = 0.015200 of 60 s, and
        // ((4+1) ln 2/6000)^(1/5) = 0.22508.
        for (beta, median) in [(1.0, 0.912), (4.0, 13.505)] {
            let rounds = 2000;
            let earlier = (0..rounds)
                .filter(|_| {
                    let mut age = 0.0;
                    loop {
                        age -= ln(1.0 - rng.random::<f64>()) / 100.0;
                        if recomputes(age, TTL, beta, 1.0 - rng.random::<f64>()) {
                            return age < median;
                        }
                    }
                })
                .count();
            // Half of them, within four standard deviations of a fair coin.
            let deviation = (f64::from(rounds) * 0.25).sqrt();
            let off = (earlier as f64 - f64::from(rounds) / 2.0).abs();
            assert!(off < 4.0 * deviation, "{beta}: {earlier} of {rounds}");
        }
    }
}
