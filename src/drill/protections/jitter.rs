//! `jitter`: entries live a little longer or shorter by chance, so that what was written together
//! does not run out together.
//!
//! `ttl * (1 + spread * (2u - 1))`, `u` uniform: a batch of `n` entries then runs out over
//! `2 * spread * ttl` at `n / (2 * spread * ttl)` a second instead of in one.
//!
//! Fails to help a single hot key, and a batch whose life is short against its load.

use std::time::Duration;

/// The life of one entry; `spread` from 0 to 1 is the share of `base` by which it may differ either
/// way, `u` is uniform in [0, 1].
pub fn life(base: Duration, spread: f64, u: f64) -> Duration {
    base.mul_f64((1.0 + spread.clamp(0.0, 1.0) * (2.0 * u - 1.0)).max(0.0))
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    const BASE: Duration = Duration::from_secs(100);

    #[test]
    fn the_ends_and_the_middle() {
        for (u, seconds) in [(0.0, 80), (0.5, 100), (1.0, 120)] {
            assert_eq!(life(BASE, 0.2, u), Duration::from_secs(seconds));
        }
        assert_eq!(life(BASE, 0.0, 0.9), BASE);
    }

    #[test]
    fn lives_are_uniform() {
        // Kolmogorov-Smirnov: D * sqrt(n) exceeds 1.95 once in a thousand for a uniform sample.
        let mut rng = StdRng::seed_from_u64(31);
        let n = 10_000;
        let mut lives: Vec<f64> =
            (0..n).map(|_| life(BASE, 0.2, rng.random()).as_secs_f64()).collect();
        lives.sort_by(f64::total_cmp);
        let distance = (0..)
            .zip(&lives)
            .map(|(rank, life)| {
                let expected = (life - 80.0) / 40.0;
                let (below, above) = (rank as f64 / n as f64, (rank + 1) as f64 / n as f64);
                (expected - below).abs().max((above - expected).abs())
            })
            .fold(0.0, f64::max);
        assert!(distance * (n as f64).sqrt() < 1.95, "{distance}");
    }
}
