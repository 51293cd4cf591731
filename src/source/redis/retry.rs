//! When to try again a server that failed.

use super::error::PollErrorKind;
use crate::elementary::exp2;

/// The pause after failures: none after the first, then longer and longer.
#[derive(Debug, Default)]
pub(super) struct Retry {
    failures: u32,
    not_before: f64,
    kind: Option<PollErrorKind>,
}

impl Retry {
    /// The pause after the second failure in a row, seconds; it doubles with each further one.
    const FIRST_PAUSE: f64 = 0.1;

    /// The longest pause, seconds. It is shorter than the usual time between polls, so that a
    /// server that is back is seen at the next poll, and longer than the shortest, so that ten
    /// polls a second are not ten attempts to connect.
    const LONGEST_PAUSE: f64 = 0.9;

    /// The reason to wait for, while a pause lasts.
    pub(super) fn waits_for(&self, now: f64) -> Option<PollErrorKind> {
        self.kind.filter(|_| now < self.not_before)
    }

    pub(super) fn failed(&mut self, now: f64, kind: PollErrorKind) {
        let doubled = Retry::FIRST_PAUSE * exp2(f64::from(self.failures.saturating_sub(1)));
        let pause = if self.failures == 0 { 0.0 } else { doubled.min(Retry::LONGEST_PAUSE) };
        // Jitter spreads those who watch the same server and lost it together.
        self.not_before = now + pause * rand::random_range(0.5..=1.0);
        self.failures = self.failures.saturating_add(1);
        self.kind = Some(kind);
    }
}
