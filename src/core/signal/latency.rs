//! Quantiles of the load latency over the window, from the applications' histograms.
//!
//! Within a bucket the loads are taken to be spread evenly, as PromQL's `histogram_quantile` does;
//! with one set of bounds the answers are the same. Applications with different bounds are merged
//! by adding up their densities.

use std::collections::VecDeque;

/// Buckets that one histogram may have. Client libraries default to 11 to 15; beyond this it is no
/// histogram of latencies, and the cost of a poll must stay bounded.
const MAX_BUCKETS: usize = 256;

/// Loads by how long they took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Buckets {
    /// Upper bounds in seconds, above zero and rising, and the loads of each bucket alone. The
    /// first bucket starts at zero.
    finite: Vec<(f64, f64)>,
    /// Loads above the last bound.
    beyond: f64,
}

impl Buckets {
    /// From how much each cumulative bucket (`le`, in seconds) rose; several series may give the
    /// same bound. `None` when it has more bounds than a histogram of latencies.
    pub fn from_cumulative(mut rises: Vec<(f64, f64)>) -> Option<Buckets> {
        rises.retain(|(bound, _)| *bound > 0.0);
        rises.sort_by(|a, b| a.0.total_cmp(&b.0));
        rises.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 += later.1;
            }
            same
        });
        if rises.len() > MAX_BUCKETS {
            return None;
        }
        let mut buckets = Buckets::default();
        let mut below = 0.0;
        for (bound, cumulative) in rises {
            // A page that is not written at one instant may show less in a wider bucket.
            let alone = (cumulative - below).max(0.0);
            below += alone;
            if bound.is_finite() {
                buckets.finite.push((bound, alone));
            } else {
                buckets.beyond = alone;
            }
        }
        Some(buckets)
    }

    /// All its loads.
    pub fn count(&self) -> f64 {
        self.finite.iter().map(|(_, count)| count).sum::<f64>() + self.beyond
    }
}

/// The loads of the last seconds, of all applications of a cache.
#[derive(Debug, Clone)]
pub struct LatencyWindow {
    seconds: f64,
    steps: VecDeque<(f64, Buckets)>,
}

impl LatencyWindow {
    /// An empty window of so many seconds.
    pub fn new(seconds: f64) -> LatencyWindow {
        LatencyWindow { seconds, steps: VecDeque::new() }
    }

    /// Adds the loads of one poll that ended at `now`.
    pub fn add(&mut self, now: f64, loads: Buckets) {
        if loads.count() > 0.0 {
            self.steps.push_back((now, loads));
        }
    }

    /// The quantiles, each 0 to 1, of the loads in the window up to `now`, seconds. `None` when no
    /// load ended in it.
    pub fn quantiles<const N: usize>(&mut self, now: f64, quantiles: [f64; N]) -> Option<[f64; N]> {
        self.steps.retain(|(time, _)| *time > now - self.seconds);
        let total: f64 = self.steps.iter().map(|(_, loads)| loads.count()).sum();
        let density = Density::of(self.steps.iter().map(|(_, loads)| loads));
        if total > 0.0 { Some(quantiles.map(|q| density.place(q * total))) } else { None }
    }
}

/// Loads a second of latency, piecewise constant: its changes, in order of latency.
struct Density(Vec<(f64, f64)>);

impl Density {
    fn of<'a>(histograms: impl Iterator<Item = &'a Buckets>) -> Density {
        let mut changes = Vec::new();
        for buckets in histograms {
            let mut lower = 0.0;
            for (upper, count) in &buckets.finite {
                let density = count / (upper - lower);
                changes.extend([(lower, density), (*upper, -density)]);
                lower = *upper;
            }
        }
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        Density(changes)
    }

    /// The latency below which so many loads lie; the highest bound when they lie beyond it.
    fn place(&self, loads: f64) -> f64 {
        let (mut at, mut below, mut density) = (0.0, 0.0, 0.0);
        for (latency, change) in &self.0 {
            let here = density * (latency - at);
            if here > 0.0 && below + here >= loads {
                return at + (loads - below) / density;
            }
            (at, below, density) = (*latency, below + here, density + change);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(histograms: &[&[(f64, f64)]]) -> LatencyWindow {
        let mut window = LatencyWindow::new(10.0);
        for rises in histograms {
            window.add(100.0, Buckets::from_cumulative(rises.to_vec()).unwrap());
        }
        window
    }

    fn close(actual: Option<[f64; 2]>, expected: [f64; 2]) {
        let actual = actual.expect("quantiles");
        let near = |(a, e): (&f64, &f64)| (a - e).abs() < 1e-9;
        assert!(actual.iter().zip(&expected).all(near), "{actual:?}, not {expected:?}");
    }

    #[test]
    fn interpolates_as_histogram_quantile() {
        // 90 up to 0.1, 9 up to 0.5, 1 up to 1: p50 is 50/90 of the first, p99 ends the second.
        let rises = [(0.1, 90.0), (0.5, 99.0), (1.0, 100.0), (f64::INFINITY, 100.0)];
        close(window(&[&rises]).quantiles(100.0, [0.5, 0.99]), [0.1 * 50.0 / 90.0, 0.5]);
    }

    #[test]
    fn beyond_the_last_bound_it_is_the_last_bound() {
        let rises = [(0.1, 10.0), (0.5, 10.0), (f64::INFINITY, 100.0)];
        close(window(&[&rises]).quantiles(100.0, [0.05, 0.99]), [0.05, 0.5]);
    }

    #[test]
    fn applications_with_other_bounds_are_merged() {
        // 100 even over 0 to 1 and 100 even over 0 to 0.5: the median m holds 100m + 200m = 100.
        let merged = window(&[&[(1.0, 100.0)], &[(0.5, 100.0)]]).quantiles(100.0, [0.5, 1.0]);
        close(merged, [1.0 / 3.0, 1.0]);
    }

    #[test]
    fn bounds_of_several_series_add_up_and_zero_bounds_do_not_divide() {
        let rises = [(0.0, 5.0), (-1.0, 0.0), (0.1, 5.0), (0.1, 15.0), (0.2, 10.0), (0.2, 30.0)];
        close(window(&[&rises]).quantiles(100.0, [0.5, 0.75]), [0.1, 0.15]);
    }

    #[test]
    fn old_loads_leave_the_window() {
        let mut window = window(&[&[(1.0, 100.0)]]);
        window.add(105.0, Buckets::from_cumulative(vec![(0.1, 10.0)]).unwrap());
        close(window.quantiles(111.0, [0.5, 1.0]), [0.05, 0.1]);
        assert_eq!(window.quantiles(116.0, [0.5, 1.0]), None);
    }

    #[test]
    fn nothing_happened_is_undefined() {
        assert_eq!(window(&[&[(1.0, 0.0), (f64::INFINITY, 0.0)]]).quantiles(100.0, [0.5]), None);
        assert_eq!(Buckets::from_cumulative((1..400).map(|i| (f64::from(i), 1.0)).collect()), None);
    }
}
