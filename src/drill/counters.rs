//! What the drill's application counts, as a service with the `native` counters would.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::histogram::Durations;

/// Upper bounds of `cache_load_duration_seconds`: from a key lookup to a report of a minute.
const LOAD_BOUNDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// A count that many tasks raise.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// One more.
    pub fn up(&self) {
        self.add(1);
    }

    /// `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Lock attempts by result.
#[derive(Debug, Default)]
pub struct LockTally {
    /// Got the lock.
    pub acquired: Count,
    /// Somebody else held it.
    pub contended: Count,
    /// Gave up waiting for it.
    pub timeout: Count,
    /// The server did not say.
    pub error: Count,
}

/// Everything that is counted in one run.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests begun.
    pub requests: Count,
    /// Lookups that found an entry, a stale one included.
    pub hits: Count,
    /// Hits that Redis was not asked for.
    pub near_hits: Count,
    /// Lookups that found none. A waiter's further looks are not lookups of their own.
    pub misses: Count,
    /// Backend queries begun.
    pub loads: Count,
    /// Loads beyond one for each time that an entry had to be made anew.
    pub duplicate_loads: Count,
    /// Requests that shared another one's load.
    pub coalesced: Count,
    /// Requests answered with an old value.
    pub stale_served: Count,
    /// Cache calls that failed.
    pub cache_errors: Count,
    /// Loads that the backend refused or gave up.
    pub backend_errors: Count,
    /// Requests answered with an error.
    pub failed: Count,
    /// Loads that found nothing.
    pub not_found: Count,
    /// Lock attempts.
    pub locks: LockTally,
    /// Request latency, from the arrival that was planned to the answer.
    pub latency: Durations,
    /// How late requests began, against the arrival that was planned.
    pub lateness: Durations,
    loads_by_duration: [Count; LOAD_BOUNDS.len()],
    loads_finished: Count,
    load_micros: Count,
}

impl Counters {
    /// Counts a load that has ended, with or without a result.
    pub fn load_ended(&self, took: Duration) {
        self.loads_finished.up();
        self.load_micros.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        let seconds = took.as_secs_f64();
        if let Some(place) = LOAD_BOUNDS.iter().position(|bound| seconds <= *bound)
            && let Some(count) = self.loads_by_duration.get(place)
        {
            count.up();
        }
    }

    /// The counters in the `native` text format.
    pub fn page(&self) -> String {
        let mut page = String::new();
        for (name, help, count) in [
            ("cache_hits_total", "Lookups that found an entry.", &self.hits),
            ("cache_misses_total", "Lookups that found none.", &self.misses),
            ("cache_loads_total", "Queries to the backend.", &self.loads),
            ("cache_loads_coalesced_total", "Requests that shared a load.", &self.coalesced),
            ("cache_errors_total", "Cache calls that failed.", &self.cache_errors),
            ("cache_not_found_total", "Loads that found nothing.", &self.not_found),
        ] {
            head(&mut page, name, help, "counter");
            line(&mut page, name, "", count.get());
        }
        let attempts = "cache_lock_attempts_total";
        head(&mut page, attempts, "Attempts to get the lock of an entry.", "counter");
        for (result, count) in [
            ("acquired", &self.locks.acquired),
            ("contended", &self.locks.contended),
            ("timeout", &self.locks.timeout),
            ("error", &self.locks.error),
        ] {
            line(&mut page, attempts, &format!("{{result=\"{result}\"}}"), count.get());
        }
        self.load_durations(&mut page);
        page
    }

    fn load_durations(&self, page: &mut String) {
        let name = "cache_load_duration_seconds";
        head(page, name, "How long loads took, waiting for a connection included.", "histogram");
        let mut below = 0;
        for (bound, count) in LOAD_BOUNDS.iter().zip(&self.loads_by_duration) {
            below += count.get();
            line(page, &format!("{name}_bucket"), &format!("{{le=\"{bound}\"}}"), below);
        }
        // A load that ends between the lines must not make the buckets fall.
        let all = self.loads_finished.get().max(below);
        line(page, &format!("{name}_bucket"), "{le=\"+Inf\"}", all);
        line(page, &format!("{name}_sum"), "", self.load_micros.get() as f64 / 1e6);
        line(page, &format!("{name}_count"), "", all);
    }
}

// Writing to a String cannot fail.
fn head(page: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(page: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = writeln!(page, "{name}{labels} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_native_counter() {
        let counters = Counters::default();
        counters.hits.add(3);
        counters.locks.contended.up();
        for seconds in [0.002, 0.0025, 70.0] {
            counters.load_ended(Duration::from_secs_f64(seconds));
        }
        let page = counters.page();
        for line in [
            "cache_hits_total 3",
            "cache_misses_total 0",
            "cache_loads_total 0",
            "cache_loads_coalesced_total 0",
            "cache_errors_total 0",
            "cache_not_found_total 0",
            "cache_lock_attempts_total{result=\"acquired\"} 0",
            "cache_lock_attempts_total{result=\"contended\"} 1",
            "cache_load_duration_seconds_bucket{le=\"0.001\"} 0",
            "cache_load_duration_seconds_bucket{le=\"0.0025\"} 2",
            "cache_load_duration_seconds_bucket{le=\"60\"} 2",
            "cache_load_duration_seconds_bucket{le=\"+Inf\"} 3",
            "cache_load_duration_seconds_sum 70.0045",
            "cache_load_duration_seconds_count 3",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
    }
}
