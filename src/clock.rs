//! The one place that reads a clock.
//!
//! Detection needs time that never steps back, people need the time on the wall. [`Clock::now`]
//! is both: the wall clock of the moment the process started, moved on by the monotonic clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Unix time that runs on the monotonic clock, so that a step of the wall clock is never a gap.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
    origin_unix: f64,
}

impl Clock {
    /// Starts a clock from the wall clock's time now.
    #[allow(clippy::disallowed_methods)] // the owner of time
    pub fn start() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { origin: Instant::now(), origin_unix: since_epoch.as_secs_f64() }
    }

    /// Unix seconds; never smaller than an earlier answer of the same clock.
    pub fn now(&self) -> f64 {
        self.origin_unix + self.origin.elapsed().as_secs_f64()
    }
}
