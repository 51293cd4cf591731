//! Which key a request asks for: popularity falls with the rank as a power of it.

use rand::Rng;
use rand::distr::{Distribution, StandardUniform};

use crate::elementary::pow;

/// Zipf's law over a finite number of ranks, drawn in constant time by Walker's alias method
/// (A. J. Walker, "An Efficient Method for Generating Discrete Random Variables with General
/// Distributions", ACM TOMS 3(3), 1977; built as by M. D. Vose, IEEE TSE 17(9), 1991).
#[derive(Debug, Clone)]
pub struct Zipf {
    /// For each rank: the chance to keep it, and the rank to take otherwise.
    table: Vec<(f64, u32)>,
}

impl Zipf {
    /// Ranks 0 to `ranks - 1` (at least one); rank `r` has a weight of `1 / (r + 1)^exponent`. An
    /// exponent of 0 makes all equal.
    pub fn new(ranks: u32, exponent: f64) -> Zipf {
        let weights: Vec<f64> = (0..ranks.max(1)).map(|rank| weight(rank, exponent)).collect();
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        let mut table: Vec<(f64, u32)> = (0..).zip(&weights).map(|(r, w)| (w / mean, r)).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..table.len()).partition(|&rank| table.get(rank).is_some_and(|cell| cell.0 < 1.0));
        // Each poor cell is filled up by a rich one, which may become poor by that.
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            let lacking = table.get(poor).map_or(0.0, |cell| 1.0 - cell.0);
            if let Some(cell) = table.get_mut(poor) {
                cell.1 = rich as u32;
            }
            if let Some(cell) = table.get_mut(rich) {
                cell.0 -= lacking;
                if cell.0 < 1.0 {
                    large.pop();
                    small.push(rich);
                }
            }
        }
        Zipf { table }
    }
}

/// How often a rank is drawn, against rank 0.
pub fn weight(rank: u32, exponent: f64) -> f64 {
    pow(f64::from(rank) + 1.0, -exponent)
}

impl Distribution<u32> for Zipf {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> u32 {
        let cell = rng.random_range(0..self.table.len());
        let keep: f64 = StandardUniform.sample(rng);
        match self.table.get(cell) {
            Some(&(chance, other)) if keep >= chance => other,
            _ => cell as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    fn shares(zipf: &Zipf, ranks: usize, draws: usize) -> Vec<f64> {
        let mut rng = StdRng::seed_from_u64(7);
        let mut counts = vec![0.0; ranks];
        (0..draws).for_each(|_| counts[zipf.sample(&mut rng) as usize] += 1.0);
        counts.iter().map(|count| count / draws as f64).collect()
    }

    #[test]
    fn four_ranks_with_exponent_one() {
        // The weights 1, 1/2, 1/3, 1/4 add up to 25/12.
        let expected = [12.0 / 25.0, 6.0 / 25.0, 4.0 / 25.0, 3.0 / 25.0];
        let draws = 200_000;
        for (found, share) in shares(&Zipf::new(4, 1.0), 4, draws).iter().zip(expected) {
            let deviation = (share * (1.0 - share) / draws as f64).sqrt();
            assert!((found - share).abs() < 4.0 * deviation, "{found} for {share}");
        }
    }

    #[test]
    fn exponent_zero_is_uniform_and_one_rank_is_certain() {
        for share in shares(&Zipf::new(5, 0.0), 5, 100_000) {
            assert!((share - 0.2).abs() < 0.006, "{share}");
        }
        assert_eq!(shares(&Zipf::new(1, 1.0), 1, 10), [1.0]);
        assert_eq!(shares(&Zipf::new(0, 1.0), 1, 10), [1.0]);
    }
}
