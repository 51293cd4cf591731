//! How many different keys a stream has, in one kilobyte.
//!
//! HyperLogLog (Flajolet, Fusy, Gandouet, Meunier, AofA 2007): each key falls into one of the
//! registers, which keep the longest run of zeros seen; the standard error is 1.04 over the root of
//! their number.

use crate::elementary::{exp2, ln};

/// Bits of a sum that choose the register: 1024 of them, 3.3 % standard error.
const BITS: u32 = 10;

const REGISTERS: usize = 1 << BITS;

/// Corrects the bias of the harmonic mean at this many registers.
const ALPHA: f64 = 0.7213 / (1.0 + 1.079 / REGISTERS as f64);

/// A counter of different keys.
#[derive(Debug, Clone)]
pub(super) struct Distinct {
    registers: Vec<u8>,
}

impl Default for Distinct {
    fn default() -> Distinct {
        Distinct { registers: vec![0; REGISTERS] }
    }
}

impl Distinct {
    /// Takes in the sum of a key, whose bits must be as good as random.
    pub(super) fn add(&mut self, sum: u64) {
        let register = (sum >> (64 - BITS)) as usize;
        // The bit below the register's number ends the run at the latest.
        let run = ((sum << BITS) | (1 << (BITS - 1))).leading_zeros() as u8 + 1;
        if let Some(longest) = self.registers.get_mut(register) {
            *longest = run.max(*longest);
        }
    }

    /// How many different ones there were.
    pub(super) fn estimate(&self) -> f64 {
        let harmonic: f64 =
            self.registers.iter().map(|run| exp2(f64::from(-i32::from(*run)))).sum();
        let all = REGISTERS as f64;
        let estimate = ALPHA * all * all / harmonic;
        let empty = self.registers.iter().filter(|run| **run == 0).count();
        // Few keys leave registers empty, and those tell more.
        if estimate <= 2.5 * all && empty > 0 { all * ln(all / empty as f64) } else { estimate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output function of SplitMix64: sums as good as random.
    fn mixed(n: u64) -> u64 {
        let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    #[test]
    fn counts_within_three_standard_errors() {
        for count in [0_u64, 1, 10, 1000, 5000, 100_000] {
            let mut distinct = Distinct::default();
            (0..3 * count).for_each(|n| distinct.add(mixed(n % count)));
            let off = distinct.estimate() - count as f64;
            assert!(off.abs() <= 0.1 * count as f64 + 0.5, "{count}: {}", distinct.estimate());
        }
    }
}
