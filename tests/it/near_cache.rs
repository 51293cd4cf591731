//! The near cache in the drill: what it spares Redis and the database, and what it hides.

use std::time::Duration;

use stampede_exporter::drill::{ForeignData, Options, Report, Scenario};

use super::drill::{given, run, small};
use super::support::redis::Redis;

fn report(options: Options) -> Report {
    run(options).0.unwrap().remove(0)
}

#[test]
fn a_hit_in_it_is_no_call_to_redis() {
    let redis = Redis::start();
    let target = given(&redis, ForeignData::Refuse);
    let options = Options { target, near_keys: Some(50), ..small(Scenario::Steady, "near_cache") };
    let report = report(options);
    let stats = redis.info("commandstats", "cmdstat_get").unwrap();
    let calls = stats.strip_prefix("calls=").and_then(|rest| rest.split(',').next()).unwrap();
    // By Zipf's law half of 100 keys take 87 % of the requests.
    assert!(report.near_hits * 10 > report.hits * 7, "{report:?}");
    assert_eq!(calls.parse::<u64>().unwrap(), report.requests - report.near_hits, "{report:?}");
}

#[test]
fn what_the_database_refuses_is_answered_from_the_copy() {
    let shape = small(Scenario::HotKey, "near_cache");
    // Nobody asks for another key, which might have no copy.
    let options = Options { pool: 5, queue: 10, hot_share: 1.0, ..shape };
    let report = report(options);
    assert!(report.backend_errors >= 1, "{report:?}");
    assert!(report.stale_served >= 1, "{report:?}");
    assert_eq!(report.errors, 0, "{report:?}");
}

#[test]
fn a_purge_is_seen_at_the_deadline_or_after_a_shorter_life() {
    // Room for all of the 100 keys, however they fall into the parts of the cache.
    let misses = |near_life| {
        let options = small(Scenario::Invalidation, "near_cache");
        report(Options { near_life, near_keys: Some(400), ..options }).misses
    };
    // Four of five keys are purged, and in the 1.2 s after it nearly all are asked for.
    let shorter = misses(Some(Duration::from_millis(100)));
    assert!(shorter >= 40, "{shorter}");
    // Lives of 300 s: few entries run out in two seconds.
    let deadline = misses(None);
    assert!(deadline <= 10, "{deadline}");
}

/// A drill with enough calm to learn from, in which some entries run out every second.
fn watched(scenario: Scenario, protection: &str) -> Report {
    report(Options {
        rate: 600.0,
        keys: 600,
        duration: Duration::from_secs(20),
        ttl: Duration::from_secs(60),
        load_time: Duration::from_millis(100),
        ..small(scenario, protection)
    })
}

fn causes(report: &Report) -> Vec<&str> {
    report.incidents.iter().map(|incident| incident.cause).collect()
}

/// The same drill bare and with a near cache of the default size, side by side.
fn bare_and_near(scenario: Scenario) -> (Report, Report) {
    std::thread::scope(|scope| {
        let bare = scope.spawn(|| watched(scenario, "none"));
        let near = watched(scenario, "near_cache");
        (bare.join().unwrap(), near)
    })
}

#[test]
fn too_little_memory_in_redis_is_no_incident_where_processes_have_some() {
    let (bare, near) = bare_and_near(Scenario::Eviction);
    assert_eq!(causes(&bare), ["eviction"], "{bare:?}");
    assert_eq!(causes(&near), [""; 0], "{near:?}");
    // Half of the entries have gone from Redis: without copies most misses are of those.
    assert!(near.loads * 3 < bare.loads, "{near:?}\n{bare:?}");
    assert_eq!(near.stale_served, 0, "{near:?}");
}

#[test]
fn an_outage_of_redis_is_no_incident_where_processes_have_copies() {
    let (bare, near) = bare_and_near(Scenario::Avalanche);
    assert_eq!(causes(&bare), ["avalanche"], "{bare:?}");
    assert_eq!(causes(&near), [""; 0], "{near:?}");
    assert!(near.loads * 3 < bare.loads, "{near:?}\n{bare:?}");
    // What is under way when Redis falls silent fails, and then one trial at a time.
    assert!((1..bare.cache_errors / 10).contains(&near.cache_errors), "{near:?}\n{bare:?}");
    assert!(near.stale_served > 0, "{near:?}");
    assert_eq!(near.errors, 0, "{near:?}");
}
