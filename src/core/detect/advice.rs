//! What to do about an incident: the protection that fits its cause, with numbers from what was
//! measured. Plain text for a person.

use std::fmt::Write as _;

use crate::detect::{Cause, Incident};

/// A lock must outlive nearly every load, or duplicates come back while it is held.
const LOCK_TTL_OVER_P99: f64 = 3.0;
/// Below this p99 a lock's lifetime would be within the jitter of a busy application, seconds.
const SHORTEST_LOCK: f64 = 0.1;
/// A negative answer is kept this long at most, seconds: longer hides a value that comes to exist.
const NEGATIVE_TTL: f64 = 60.0;

/// Keys due over the mean below which no wave was due: an uneven key space reaches a fourth over it.
const NO_WAVE: f64 = 1.5;
/// Longer than this no keys can be spread that live for minutes, seconds. It comes out where hardly
/// any misses were usual.
const LONGEST_SPREAD: f64 = 3600.0;

/// What to do about the incident, in one short paragraph.
pub fn advice(incident: &Incident) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = match incident.cause {
        Cause::HotKey => write!(
            text,
            "One key is recomputed by everyone at once. Let one caller load it: coalesce the loads in \
             each process, and hold a lock across processes{}. Refresh it before it runs out \
             (XFetch, or in the background).",
            lock(incident)
        ),
        Cause::SynchronizedExpiry if were_spread(incident) => write!(
            text,
            "Many keys ran out within a short time{}, though the forecast saw no wave: they are \
             spread, over too short a time for what the backend usually loads. Spread them wider \
             or let them live longer, refresh the popular ones before they run out, and coalesce \
             the loads meanwhile.",
            wave(incident)
        ),
        Cause::SynchronizedExpiry => write!(
            text,
            "Many keys ran out together{}. Spread their deadlines with jitter on the TTL{}, and \
             coalesce the loads meanwhile.",
            wave(incident),
            jitter(incident)
        ),
        Cause::ColdStart => write!(
            text,
            "The cache lost its content. Let only so many loads reach the backend at once{}, warm \
             the most popular keys before traffic returns, and find out who restarted or flushed it.",
            limit(incident)
        ),
        Cause::Invalidation => write!(
            text,
            "Live keys were deleted in bulk{}. Mark them stale instead of deleting them and serve the \
             stale value while one caller refreshes it, or delete in slices.",
            share(incident, "keys_lost_share", "of the keys were gone at once")
        ),
        Cause::Eviction => write!(
            text,
            "Memory is full and live keys are pushed out{}. Raise maxmemory or lower what is kept \
             (shorter TTLs, smaller values), and check that the policy evicts by use. A bounded copy \
             of the popular entries in each process (a near cache) adds its room to the server's.",
            rate(incident, "evicted", "keys evicted a second")
        ),
        Cause::Penetration => write!(
            text,
            "Keys that exist nowhere are asked for{}. Cache the answer \"not there\" for at most \
             {NEGATIVE_TTL:.0} s, reject keys that cannot exist (a Bloom filter), and limit the \
             caller that asks.",
            rate(incident, "not_found", "loads a second found nothing")
        ),
        Cause::Avalanche => write!(
            text,
            "The cache itself fails{} and requests fall through. Break the circuit: fail fast or \
             serve stale copies, let only so many loads reach the backend at once{}, and bring the \
             cache back before letting traffic return. Copies of the popular entries in each process \
             (a near cache) answer most requests through the next outage.",
            rate(incident, "errors", "calls a second failed"),
            limit(incident)
        ),
        Cause::Unknown => write!(
            text,
            "No counter names the cause. Coalesce loads and let only so many reach the backend at \
             once{}; give the exporter the application's counters, or key-level tracking, to know \
             more next time.",
            limit(incident)
        ),
    };
    text
}

/// The lifetime of a lock that outlives the loads that were seen.
fn lock(incident: &Incident) -> String {
    match incident.latency_p99 {
        Some(p99) if p99 > 0.0 => format!(
            " with a TTL of at least {} (three times the p99 of the load, {})",
            duration((LOCK_TTL_OVER_P99 * p99).max(SHORTEST_LOCK)),
            duration(p99)
        ),
        _ => " with a TTL of at least three times the p99 of the load".to_owned(),
    }
}

/// The concurrency at which the backend did its usual work, by Little's law.
fn limit(incident: &Incident) -> String {
    let usual = incident.baseline_loads_per_second.unwrap_or(incident.baseline_misses_per_second);
    match incident.latency_p50 {
        Some(p50) if p50 > 0.0 && usual > 0.0 => format!(
            " (about {:.0}: its usual {} loads a second at {} each)",
            (usual * p50).ceil().max(1.0),
            count(usual),
            duration(p50)
        ),
        _ if usual > 0.0 => format!(" (its usual load is {} a second)", count(usual)),
        _ => String::new(),
    }
}

/// Whether the forecast knew the keys that ran out and saw no wave in them.
fn were_spread(incident: &Incident) -> bool {
    incident.figure("due_ratio").is_some_and(|ratio| ratio < NO_WAVE)
}

/// How large the wave was.
fn wave(incident: &Incident) -> String {
    match (incident.figure("expired"), incident.figure("due_ratio")) {
        (Some(expired), _) if expired > 0.0 => {
            format!(" ({} expired within the first seconds)", count(expired))
        }
        (_, Some(ratio)) => format!(" ({ratio:.0} times the usual number in one second)"),
        _ => String::new(),
    }
}

/// Over how long the wave has to be spread for its misses to no more than double the usual ones.
fn jitter(incident: &Incident) -> String {
    let usual = incident.baseline_misses_per_second;
    if usual <= 0.0 || incident.excess_misses <= 0.0 {
        return String::new();
    }
    let spread = incident.excess_misses / usual;
    if spread > LONGEST_SPREAD {
        return String::new();
    }
    format!(
        ": spread over {} the same {} misses no more than double the usual {} a second",
        duration(spread.max(1.0)),
        count(incident.excess_misses),
        count(usual)
    )
}

fn share(incident: &Incident, name: &str, what: &str) -> String {
    incident
        .figure(name)
        .map_or_else(String::new, |share| format!(" ({:.0} % {what})", 100.0 * share))
}

fn rate(incident: &Incident, name: &str, what: &str) -> String {
    match (incident.figure(name), incident.figure("scene_seconds")) {
        (Some(events), Some(seconds)) if events > 0.0 && seconds > 0.0 => {
            format!(" ({} {what})", count(events / seconds))
        }
        _ => String::new(),
    }
}

/// A count that a person reads: whole from ten on.
fn count(value: f64) -> String {
    if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.1} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.1} s"),
        s => format!("{:.0} min", s / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Source;

    fn incident(cause: Cause) -> Incident {
        Incident {
            latency_p50: Some(0.05),
            latency_p99: Some(0.3),
            baseline_misses_per_second: 40.0,
            baseline_loads_per_second: Some(60.0),
            excess_misses: 1200.0,
            evidence: vec![("evicted", 8000.0), ("scene_seconds", 2.0), ("expired", 900.0)],
            ..Incident::new(cause, Source::App, 0.0)
        }
    }

    #[test]
    fn a_lock_outlives_three_times_the_slowest_loads() {
        let text = advice(&incident(Cause::HotKey));
        assert!(text.contains("at least 900 ms") && text.contains("300 ms"), "{text}");
    }

    #[test]
    fn concurrency_is_what_the_backend_held_before() {
        // 60 loads a second at 50 ms are 3 at a time.
        let text = advice(&incident(Cause::ColdStart));
        assert!(text.contains("about 3: its usual 60 loads a second at 50 ms"), "{text}");
    }

    #[test]
    fn jitter_spreads_the_wave_to_the_usual_rate() {
        // 1200 extra misses at 40 a second take 30 s.
        let text = advice(&incident(Cause::SynchronizedExpiry));
        assert!(text.contains("900 expired") && text.contains("spread over 30.0 s"), "{text}");
    }

    /// 1200 extra misses at 0.005 a second would have to be spread over nearly three days.
    #[test]
    fn no_spread_is_named_that_no_keys_can_have() {
        let rare =
            Incident { baseline_misses_per_second: 0.005, ..incident(Cause::SynchronizedExpiry) };
        let text = advice(&rare);
        assert!(text.contains("jitter on the TTL, and"), "{text}");
    }

    #[test]
    fn keys_that_were_spread_are_not_told_to_be() {
        let of = |ratio| {
            let evidence = vec![("expired", 900.0), ("due_ratio", ratio)];
            advice(&Incident { evidence, ..incident(Cause::SynchronizedExpiry) })
        };
        assert!(of(1.25).contains("(900 expired") && of(1.25).contains("Spread them wider"));
        assert!(of(40.0).contains("Spread their deadlines with jitter"));
    }

    #[test]
    fn rates_come_from_the_evidence() {
        let text = advice(&incident(Cause::Eviction));
        assert!(text.contains("4000 keys evicted a second"), "{text}");
    }

    #[test]
    fn every_cause_has_words_even_when_nothing_was_measured() {
        for cause in Cause::ALL {
            let text = advice(&Incident::new(cause, Source::Redis, 0.0));
            assert!(
                text.ends_with('.') && !text.contains("NaN") && !text.contains("inf"),
                "{text}"
            );
            assert!(!text.contains("  "), "{text}");
        }
    }
}
