//! How surprising a count is: the negative binomial tail, as an exponent and as a probability.
//!
//! Counts of misses scatter more than a Poisson variable: their variance is
//! `dispersion * mean + wander * mean^2`. The negative binomial with the same mean and variance has
//! the size `k = mean^2 / (variance - mean)`. The exponent of Chernoff's bound on its tail decides:
//! it is exact to leading order, costs two logarithms and never underflows, where the tail itself
//! is 0 in a double from 1e-300 on. The tail is computed once an incident, to be shown.

use statrs::distribution::{DiscreteCDF, NegativeBinomial};

use crate::elementary::{exp_m1, ln};

/// Sizes above this are Poisson for all purposes, and would only cost the sums their precision.
const POISSON_SIZE: f64 = 1e7;

/// Degrees of freedom of a variance that is certain.
pub(crate) const CERTAIN: f64 = 1e9;

/// No variance is known worse than this, degrees of freedom.
const LEAST_FREEDOM: f64 = 2.0;

/// The exponent of Chernoff's bound, nats: about `-ln P(at least as far from the mean)`. 0 at the
/// mean; infinite where the mean is 0 and the count is not.
pub(crate) fn exponent(count: f64, mean: f64, variance: f64) -> f64 {
    if mean <= 0.0 {
        return if count > 0.0 { f64::INFINITY } else { 0.0 };
    }
    let size = size(mean, variance);
    let own = if count > 0.0 { count * ln(count / mean) } else { 0.0 };
    let nats = if size < POISSON_SIZE {
        own - (count + size) * ln((count + size) / (mean + size))
    } else {
        own - (count - mean)
    };
    nats.max(0.0)
}

/// The exponent that chance exceeds with the probability `exp(-nats)`, for `nats` above 3 or so,
/// where the variance is only known from `freedom` measurements.
///
/// A variable that is `r` deviations off, its exponent `r^2 / 2`, has Student's tail, which is
/// nearly `(1 + r^2 / freedom)^(-(freedom - 1) / 2) / (r sqrt(2 pi))`: lighter than the exponent
/// says where the variance is well known, and far heavier where it is not.
pub(crate) fn line(nats: f64, freedom: f64) -> f64 {
    let beyond = |exponent: f64| 0.5 * ln(4.0 * std::f64::consts::PI * exponent);
    let steps = (freedom - 1.0).max(LEAST_FREEDOM);
    let further = |exponent: f64| 0.5 * freedom * exp_m1(2.0 * (nats - beyond(exponent)) / steps);
    further(further(nats - beyond(nats)))
}

/// Probability of at least `count` events, 0 where a double cannot hold it.
pub(crate) fn probability(count: f64, mean: f64, variance: f64) -> f64 {
    let whole = count.round().max(0.0) as u64;
    if mean <= 0.0 || whole == 0 {
        return if whole > 0 { 0.0 } else { 1.0 };
    }
    let size = size(mean, variance);
    NegativeBinomial::new(size, size / (size + mean))
        .map_or(1.0, |distribution| distribution.sf(whole - 1))
}

fn size(mean: f64, variance: f64) -> f64 {
    let beyond_poisson = variance - mean;
    if beyond_poisson > mean * mean / POISSON_SIZE {
        mean * mean / beyond_poisson
    } else {
        POISSON_SIZE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_no_surprise_and_distance_is() {
        assert_eq!(exponent(50.0, 50.0, 75.0), 0.0);
        assert!(exponent(100.0, 50.0, 75.0) < exponent(150.0, 50.0, 75.0));
        assert!(exponent(20.0, 50.0, 75.0) < exponent(0.0, 50.0, 75.0));
    }

    #[test]
    fn poisson_limit_by_hand() {
        // x ln(x/m) - (x - m) = 20 ln 2 - 10
        let expected = 20.0 * ln(2.0) - 10.0;
        assert!((exponent(20.0, 10.0, 10.0) - expected).abs() < 1e-9);
        // At no events at all it is the mean.
        assert!((exponent(0.0, 10.0, 10.0) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn negative_binomial_by_hand() {
        // mean 10, variance 20: k = 10; x = 30: 30 ln 3 - 40 ln 2
        let expected = 30.0 * ln(3.0) - 40.0 * ln(2.0);
        assert!((exponent(30.0, 10.0, 20.0) - expected).abs() < 1e-9);
    }

    #[test]
    fn the_exponent_bounds_the_tail_within_a_few_nats() {
        for (count, mean, variance) in [(60.0, 20.0, 30.0), (400.0, 200.0, 900.0), (5.0, 0.5, 0.8)]
        {
            let tail = -ln(probability(count, mean, variance));
            let bound = exponent(count, mean, variance);
            assert!(bound <= tail && tail <= bound + 6.0, "{count} {mean}: {bound} {tail}");
        }
    }

    #[test]
    fn the_line_is_where_the_tail_is() {
        for (mean, variance) in [(20.0, 30.0), (48.0, 110.0), (200.0, 900.0)] {
            for count in [2.5 * mean, 4.0 * mean] {
                let tail = -ln(probability(count, mean, variance));
                let exponent = exponent(count, mean, variance);
                assert!((line(tail, 1e9) - exponent).abs() < 0.5, "{count} {mean} {variance}");
            }
        }
    }

    #[test]
    fn the_line_is_further_out_where_the_variance_is_not_known() {
        use statrs::distribution::{ContinuousCDF, StudentsT};
        for (freedom, nats) in [(8.0, 8.0), (12.0, 11.0), (20.0, 11.0), (20.0, 16.0), (100.0, 16.0)]
        {
            let deviations = (2.0 * line(nats, freedom)).sqrt();
            let tail = -ln(StudentsT::new(0.0, 1.0, freedom).unwrap().sf(deviations));
            assert!((tail - nats).abs() < 0.2, "{freedom} {nats}: {tail}");
        }
    }

    #[test]
    fn nothing_expected() {
        assert_eq!(exponent(0.0, 0.0, 0.0), 0.0);
        assert_eq!(exponent(1.0, 0.0, 0.0), f64::INFINITY);
        assert_eq!(probability(0.0, 0.0, 0.0), 1.0);
        assert_eq!(probability(3.0, 0.0, 0.0), 0.0);
    }
}
