//! The random processes that traffic is made of.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Binomial, Distribution, Gamma, Poisson, StandardNormal};

/// A seeded source of counts.
pub struct Draw {
    random: SmallRng,
}

impl Draw {
    pub fn seeded(seed: u64) -> Draw {
        Draw { random: SmallRng::seed_from_u64(seed) }
    }

    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        self.random.random_range(low..high)
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.random.random_bool(probability.clamp(0.0, 1.0))
    }

    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.random)
    }

    pub fn poisson(&mut self, mean: f64) -> f64 {
        if mean <= 0.0 {
            return 0.0;
        }
        Poisson::new(mean).map_or(0.0, |poisson| poisson.sample(&mut self.random))
    }

    /// A count with variance `dispersion * mean`: negative binomial, as a gamma-mixed Poisson.
    pub fn scattered(&mut self, mean: f64, dispersion: f64) -> f64 {
        if mean <= 0.0 || dispersion <= 1.0 {
            return self.poisson(mean);
        }
        let scale = dispersion - 1.0;
        let rate = Gamma::new(mean / scale, scale).map_or(mean, |g| g.sample(&mut self.random));
        self.poisson(rate)
    }

    /// How many of `count` come true.
    pub fn part(&mut self, count: f64, probability: f64) -> f64 {
        let probability = probability.clamp(0.0, 1.0);
        Binomial::new(count.max(0.0) as u64, probability)
            .map_or(0.0, |binomial| binomial.sample(&mut self.random) as f64)
    }

    /// A factor between one half and two, as likely above one as below.
    pub fn half_to_double(&mut self) -> f64 {
        self.uniform(-1.0, 1.0).exp2()
    }
}

/// A level that wanders about one: the exponential of a first-order autoregression.
pub struct Wander {
    state: f64,
    deviation: f64,
    keep: f64,
}

impl Wander {
    /// Standard deviation `deviation` of the logarithm, correlation time `seconds`.
    pub fn new(draw: &mut Draw, deviation: f64, seconds: f64) -> Wander {
        Wander { state: deviation * draw.normal(), deviation, keep: (-1.0 / seconds).exp() }
    }

    /// The next second's level.
    pub fn next(&mut self, draw: &mut Draw) -> f64 {
        let fresh = (1.0 - self.keep * self.keep).sqrt() * self.deviation;
        self.state = self.keep * self.state + fresh * draw.normal();
        self.state.exp()
    }
}
