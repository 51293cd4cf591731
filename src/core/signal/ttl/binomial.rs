//! What a count out of a sample says about the whole: intervals of a share, and the chance of a
//! count that high.

use statrs::function::beta::checked_beta_reg;

/// The two-sided 95 % point of the standard normal distribution.
pub(super) const Z: f64 = 1.959_963_984_540_054;

/// The 95 % interval of a share, seen as `share` in a sample of `n`.
///
/// Wilson's score interval with continuity correction (Newcombe, "Two-sided confidence intervals
/// for the single proportion", Statistics in Medicine 17, 1998, method 4). The plain score
/// interval covers 95 % on average and less for rare things, which deadlines within one second
/// are; the corrected one stays at or above 95 % there. `n` is an effective sample size and need
/// not be whole: without a sample everything is possible, `(0, 1)`, and an infinite one, which is
/// a census, leaves nothing open.
pub(super) fn share_interval(share: f64, n: f64) -> (f64, f64) {
    if n.is_nan() || share.is_nan() || n <= 0.0 {
        return (0.0, 1.0);
    }
    let p = share.clamp(0.0, 1.0);
    if n.is_infinite() {
        return (p, p);
    }
    let q = 1.0 - p;
    let scale = 2.0 * (n + Z * Z);
    let middle = 2.0 * n * p + Z * Z;
    let below = (Z * Z - 2.0 - 1.0 / n + 4.0 * p * (n * q + 1.0)).max(0.0);
    let above = (Z * Z + 2.0 - 1.0 / n + 4.0 * p * (n * q - 1.0)).max(0.0);
    let low = if p == 0.0 { 0.0 } else { (middle - 1.0 - Z * below.sqrt()) / scale };
    let high = if q == 0.0 { 1.0 } else { (middle + 1.0 + Z * above.sqrt()) / scale };
    (low.clamp(0.0, p), high.clamp(p, 1.0))
}

/// The chance that `n` independent trials of chance `p` succeed at least `k` times.
///
/// It is the regularised incomplete beta function `I_p(k, n - k + 1)`, which keeps its relative
/// precision far out in the tail, where sums of single terms do not.
pub(super) fn at_least(k: u64, n: u64, p: f64) -> f64 {
    if k == 0 {
        return 1.0;
    }
    if k > n || p.is_nan() || p <= 0.0 {
        return 0.0;
    }
    let (k, n) = (k as f64, n as f64);
    checked_beta_reg(k, n - k + 1.0, p.min(1.0)).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, within: f64) {
        assert!((a - b).abs() <= within, "{a} is not {b}");
    }

    /// Newcombe's own examples for method 4: 81/263, 15/148, 0/20, 1/29.
    #[test]
    fn intervals_are_those_of_the_paper() {
        for (count, n, low, high) in [
            (81.0, 263.0, 0.2535, 0.3682),
            (15.0, 148.0, 0.0598, 0.1644),
            (0.0, 20.0, 0.0, 0.2005),
            (1.0, 29.0, 0.0018, 0.1963),
        ] {
            let got = share_interval(count / n, n);
            close(got.0, low, 5e-5);
            close(got.1, high, 5e-5);
        }
    }

    #[test]
    fn intervals_hold_at_the_edges() {
        assert_eq!(share_interval(0.0, 0.0), (0.0, 1.0));
        assert_eq!(share_interval(1.0, 20.0).1, 1.0);
        assert_eq!(share_interval(0.25, f64::INFINITY), (0.25, 0.25));
        let (low, high) = share_interval(0.6, 0.7);
        assert!((0.0..=1.0).contains(&low) && (low..=1.0).contains(&high));
    }

    /// Four heads in four throws: 1/16. Two or more of three at 1/2: 1/2. A far tail: ten of ten
    /// at 1 %, exactly 1e-20.
    #[test]
    fn tails_are_exact() {
        close(at_least(4, 4, 0.5), 0.0625, 1e-12);
        close(at_least(2, 3, 0.5), 0.5, 1e-12);
        close(at_least(10, 10, 0.01) / 1e-20, 1.0, 1e-9);
        assert_eq!(at_least(0, 3, 0.2), 1.0);
        assert_eq!(at_least(4, 3, 0.2), 0.0);
    }
}
