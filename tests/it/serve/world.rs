//! A board with every feature on it, made by hand.
#![allow(clippy::needless_update)] // so that a new field of the core does not touch this file

use std::sync::Arc;

use stampede_exporter::board::View;
use stampede_exporter::detect::{Cause, Incident, IncidentLog, Suspect, SuspectSource, Verdict};
use stampede_exporter::reading::{BySource, Source};
use stampede_exporter::signal::ttl::{
    Estimate, Forecast, GroupTtl, Outcome, PastWave, Rounds, TTL_BOUNDS, TtlPicture, Watched,
    WatchedState, Wave,
};
use stampede_exporter::signal::window::Signals;
use stampede_exporter::snapshot::{
    AppState, AppTotals, Histogram, NodeState, NodeTotals, Resets, SamplerTotals, Snapshot,
};

/// A cache name with all that a page has to escape.
pub const HOSTILE: &str = "we\"ird\\<script>alert(1)</script>&\n'";

/// 2026-11-30T12:00:00Z.
pub const NOON: f64 = 1_796_040_000.0;

/// Three caches: one in a stampede with everything there, one that lost its server, one that was
/// never polled.
pub fn view() -> View {
    let caches = [catalog(), lost(), Snapshot { cache: "fresh".into(), ..Snapshot::default() }];
    View { caches: caches.map(Arc::new).into(), reload_successful: true }
}

/// One node of two is down, one application of two is down, a hot key is being reloaded.
pub fn catalog() -> Snapshot {
    Snapshot {
        cache: "catalog".into(),
        time: NOON,
        nodes: vec![node("10.0.0.1:6379", true), node("10.0.0.2:6379", false)],
        apps: vec![app("web", true), app("batch", false)],
        polls: 7200,
        poll_errors: vec![("connect_refused", 3), ("timeout", 0)],
        // 100 polls: 60 up to 1 ms, 30 up to 10 ms, 8 up to 100 ms, 2 above.
        poll_duration: Histogram {
            bounds: vec![0.001, 0.01, 0.1],
            counts: vec![60, 30, 8, 2],
            sum: 1.25,
        },
        signals: Signals {
            // 90 hits, 10 misses.
            hit_ratio: BySource { redis: Some(0.9), app: Some(0.75) },
            lookups_per_second: BySource { redis: Some(10.0), app: Some(2000.0) },
            misses_per_second: BySource { redis: Some(1.0), app: Some(500.0) },
            loads_per_second: Some(480.5),
            lock_attempts_per_second: Some(500.0),
            lock_contention_ratio: Some(0.6),
            load_latency_p50: Some(0.025),
            load_latency_p99: Some(3.1),
            misses_per_expiry: Some(120.0),
        },
        verdict: Verdict {
            time: NOON,
            incident_seconds: 1.0,
            excess_misses: 460.0,
            running: Some(running()),
            score: 4.5,
            signals: [Some(4.5), Some(3.0), Some(2.0), Some(1.5), Some(0.0), Some(0.0), None],
            baseline_misses_per_second: BySource { redis: None, app: Some(40.0) },
            ready: true,
            ..Verdict::default()
        },
        incidents: IncidentLog {
            running: Some(running()),
            past: [past()].into(),
            count: [1, 0, 1, 0, 0, 0, 0, 0],
            seconds: 92.5,
            excess_misses: 30_460.25,
        },
        sampled: Some(NodeState {
            node: "replica:6379".into(),
            up: true,
            capabilities: vec![("scan", true), ("pttl", false)],
            ..NodeState::default()
        }),
        ttl: Some(ttl()),
        sampler: SamplerTotals { lookups: 86_400, odd_keys: 3, rounds: 7, waves: [3, 1, 2] },
        ..Snapshot::default()
    }
}

/// The server is gone; what was known of it last is still there and must not be shown as if it
/// were so now.
pub fn lost() -> Snapshot {
    Snapshot {
        cache: HOSTILE.into(),
        time: NOON,
        nodes: vec![node("/run/redis \"2\".sock", false)],
        polls: 50,
        poll_errors: vec![("connect_refused", 0), ("timeout", 12)],
        poll_duration: Histogram {
            bounds: vec![0.001, 0.01, 0.1],
            counts: vec![38, 0, 0, 12],
            sum: 12.02,
        },
        signals: Signals {
            hit_ratio: BySource { redis: Some(0.97), app: None },
            lookups_per_second: BySource { redis: Some(800.0), app: None },
            misses_per_second: BySource { redis: Some(24.0), app: None },
            misses_per_expiry: Some(2.0),
            ..Signals::default()
        },
        verdict: Verdict {
            baseline_misses_per_second: BySource { redis: Some(20.0), app: None },
            ready: true,
            ..Verdict::default()
        },
        ttl: Some(ttl()),
        sampler: SamplerTotals { lookups: 86_400, odd_keys: 3, rounds: 7, waves: [3, 1, 2] },
        ..Snapshot::default()
    }
}

/// A stampede that runs since ten seconds.
pub fn running() -> Incident {
    Incident {
        score: 4.5,
        p_value: Some(1e-300),
        baseline_misses_per_second: 40.0,
        peak_misses_per_second: 640.0,
        excess_misses: 4600.0,
        baseline_loads_per_second: Some(40.0),
        peak_loads_per_second: Some(630.0),
        excess_loads: Some(4550.0),
        latency_p50: Some(0.025),
        latency_p99: Some(3.1),
        evidence: vec![("hot_key_share", 0.93), ("misses_per_expiry", 120.0)],
        suspects: vec![
            Suspect {
                pattern: b"front".into(),
                share: 0.93,
                example: None,
                source: SuspectSource::Missed,
            },
            Suspect {
                pattern: b"user:*".into(),
                share: 0.05,
                example: Some(b"user:<i>\xff".into()),
                source: SuspectSource::Sampled,
            },
        ],
        ..Incident::new(Cause::HotKey, Source::App, NOON - 10.0)
    }
}

/// A cold start of an hour before, 82.5 seconds long.
pub fn past() -> Incident {
    Incident {
        ended_at: Some(NOON - 3517.5),
        score: 9.0,
        baseline_misses_per_second: 38.0,
        peak_misses_per_second: 1900.0,
        excess_misses: 25_860.25,
        evidence: vec![("flushes", 1.0)],
        ..Incident::new(Cause::ColdStart, Source::Redis, NOON - 3600.0)
    }
}

fn node(name: &str, up: bool) -> NodeState {
    NodeState {
        node: name.into(),
        up,
        last_success: Some(NOON - if up { 0.0 } else { 42.5 }),
        server: Some("redis".to_owned()),
        version: Some("7.0.15".to_owned()),
        role: Some("master".to_owned()),
        mode: Some("standalone".to_owned()),
        totals: NodeTotals { hits: 9000.0, misses: 1000.0, expired: 25.0, evicted: 4.0 },
        keys: Some(50_000.0),
        memory_used: Some(900e6),
        memory_limit: Some(1e9),
        resets: vec![
            ("restart", Resets { count: 1, last: Some(NOON - 7200.0) }),
            ("resetstat", Resets::default()),
            ("node_change", Resets::default()),
            ("role_change", Resets::default()),
        ],
        capabilities: vec![("scan", true), ("config_get", false)],
        info_problems: vec![("missing", 0), ("unreadable", 2)],
        ..NodeState::default()
    }
}

fn app(name: &str, up: bool) -> AppState {
    AppState {
        app: name.into(),
        up,
        last_success: up.then_some(NOON),
        errors_by_reason: vec![("timeout", if up { 0 } else { 9 }), ("http_status", 0)],
        totals: AppTotals {
            hits: Some(6000.0),
            misses: Some(2000.0),
            loads: Some(1900.0),
            loads_coalesced: Some(100.0),
            errors: Some(0.0),
            // This mapping does not have them.
            not_found: None,
            lock_acquired: Some(800.0),
            lock_contended: Some(1200.0),
            lock_timeout: Some(3.0),
            lock_error: None,
        },
    }
}

fn ttl() -> TtlPicture {
    let mut buckets = vec![0.0; TTL_BOUNDS.len() + 1];
    // 120.4 keys within 1 s, 30.4 more within 60 s, 49.2 beyond a week: 200 keys in all.
    buckets[0] = 120.4;
    buckets[6] = 30.4;
    buckets[16] = 49.2;
    TtlPicture {
        time: NOON,
        groups: vec![
            GroupTtl {
                name: "product".into(),
                buckets,
                ttl_sum: 34_000_000.5,
                without_ttl: 7.5,
                due: [120.4, 120.4, 150.8, 150.8],
                forecast: Forecast {
                    peak_keys_per_second: Some(120.4),
                    peak_in: Some(0.5),
                    clustering_ratio: Some(60.2),
                    ..Forecast::default()
                },
                ..GroupTtl::default()
            },
            GroupTtl {
                name: "other".into(),
                buckets: vec![0.0; TTL_BOUNDS.len() + 1],
                ..GroupTtl::default()
            },
        ],
        all: Forecast {
            peak_keys_per_second: Some(120.4),
            peak_in: Some(0.5),
            clustering_ratio: Some(60.2),
            ..Forecast::default()
        },
        waves: vec![Wave {
            group: "product".into(),
            start: NOON + 90.0,
            end: NOON + 92.0,
            keys: Estimate { value: 120.0, low: 100.0, high: 141.0 },
            peak_keys_per_second: Estimate { value: 80.0, low: 70.0, high: 95.0 },
            group_share: 0.6,
            // At 2000 lookups a second: 80 more misses a second, 70 to 96.
            space_share: Estimate { value: 0.04, low: 0.035, high: 0.048 },
            lookup_share: None,
            clustering_ratio: 60.2,
            announced: NOON - 30.0,
        }],
        past_waves: vec![PastWave {
            wave: Wave {
                group: "other".into(),
                start: NOON - 90.0,
                end: NOON - 89.0,
                keys: Estimate { value: 300.0, low: 250.0, high: 361.0 },
                announced: NOON - 200.0,
                ..Wave::default()
            },
            outcome: Outcome::Expired,
            expired: 280.0,
        }],
        keys: 2000.0,
        held: Some(Estimate { value: 40.0, low: 25.0, high: 56.0 }),
        odd_keys: 3,
        server_share: Some(0.0025),
        rounds: Rounds { complete: 7, keys_in_round: 120 },
        watched: vec![
            Watched { name: "front".into(), state: Some(WatchedState::Due(NOON + 12.5)) },
            Watched { name: "menu".into(), state: Some(WatchedState::Missing) },
            Watched { name: "logo".into(), state: Some(WatchedState::NoTtl) },
            Watched { name: "new".into(), state: None },
        ],
        sample_keys: 1000,
        sample_time: Some(NOON - 0.25),
        sampler_lookups: 86_400,
        ..TtlPicture::default()
    }
}
