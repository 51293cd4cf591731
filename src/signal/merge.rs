//! The applications of one cache added up, with gaps that stay gaps.

use crate::snapshot::AppTotals;

/// Adds up what several applications counted.
///
/// An application that was away while others answered comes back with everything it counted in
/// between. Added in one step, that would be a rate that never was, so only what it counts from
/// then on is added. When all of them were away nothing is lost: the next sample spans the gap.
#[derive(Debug, Clone, Default)]
pub struct AppSum {
    last: Vec<Option<AppTotals>>,
    sum: AppTotals,
}

impl AppSum {
    /// Takes in every application's totals, in the same order each time, `None` for one that did
    /// not answer, and gives the sums; `None` when none answered.
    pub fn add(&mut self, now: &[Option<AppTotals>]) -> Option<AppTotals> {
        if now.iter().all(Option::is_none) {
            return None;
        }
        self.last.resize(now.len(), None);
        for (last, now) in self.last.iter_mut().zip(now) {
            if let Some(now) = now {
                let before = last.unwrap_or(*now);
                for field in FIELDS {
                    accumulate(
                        field(&mut self.sum),
                        *field(&mut { before }),
                        *field(&mut { *now }),
                    );
                }
            }
            *last = *now;
        }
        Some(self.sum)
    }
}

type Field = fn(&mut AppTotals) -> &mut Option<f64>;

const FIELDS: [Field; 10] = [
    |t| &mut t.hits,
    |t| &mut t.misses,
    |t| &mut t.loads,
    |t| &mut t.loads_coalesced,
    |t| &mut t.errors,
    |t| &mut t.not_found,
    |t| &mut t.lock_acquired,
    |t| &mut t.lock_contended,
    |t| &mut t.lock_timeout,
    |t| &mut t.lock_error,
];

/// A counter that nobody has stays unknown; one that somebody has starts at zero.
fn accumulate(sum: &mut Option<f64>, before: Option<f64>, now: Option<f64>) {
    let Some(now) = now else { return };
    let rise = now - before.unwrap_or(now);
    *sum = Some(sum.unwrap_or(0.0) + rise.max(0.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(n: f64) -> Option<AppTotals> {
        Some(AppTotals { hits: Some(n), ..AppTotals::default() })
    }

    fn added(sum: &mut AppSum, now: &[Option<AppTotals>]) -> Option<f64> {
        sum.add(now).and_then(|t| t.hits)
    }

    #[test]
    fn the_first_reading_is_the_zero() {
        assert_eq!(added(&mut AppSum::default(), &[hits(500.0), hits(7.0)]), Some(0.0));
    }

    #[test]
    fn applications_are_added_up() {
        let mut sum = AppSum::default();
        added(&mut sum, &[hits(100.0), hits(10.0)]);
        assert_eq!(added(&mut sum, &[hits(130.0), hits(15.0)]), Some(35.0));
    }

    #[test]
    fn one_that_was_away_brings_no_burst() {
        let mut sum = AppSum::default();
        added(&mut sum, &[hits(100.0), hits(10.0)]);
        added(&mut sum, &[hits(110.0), None]);
        assert_eq!(added(&mut sum, &[hits(120.0), hits(9000.0)]), Some(20.0));
        assert_eq!(added(&mut sum, &[hits(120.0), hits(9005.0)]), Some(25.0));
    }

    #[test]
    fn a_gap_of_all_is_spanned() {
        let mut sum = AppSum::default();
        added(&mut sum, &[hits(100.0)]);
        assert_eq!(added(&mut sum, &[None]), None);
        assert_eq!(added(&mut sum, &[hits(160.0)]), Some(60.0));
    }

    #[test]
    fn a_counter_nobody_has_is_unknown() {
        let totals = AppSum::default().add(&[hits(1.0)]);
        assert_eq!(totals.and_then(|t| t.misses), None);
    }
}
