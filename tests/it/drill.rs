//! The drill against real servers: its workload, its protections, and what it leaves behind.

use std::future::pending;
use std::time::Duration;

use stampede_exporter::config::{RedisAddress, RedisConfig};
use stampede_exporter::drill::{
    self, DrillError, ForeignData, Options, Output, Protections, Report, Scenario, Target,
};

use super::support::redis::Redis;

fn given(redis: &Redis, foreign: ForeignData) -> Target {
    let address = RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port: redis.port };
    let server = RedisConfig { address, username: None, password: None, tls: None };
    Target::Given { server, foreign }
}

/// A drill of two seconds: small enough for a debug build on a busy machine.
fn small(scenario: Scenario, protections: &str) -> Options {
    Options {
        scenario,
        protections: vec![protections.parse::<Protections>().unwrap()],
        rate: 400.0,
        keys: 100,
        hot_share: 0.5,
        duration: Duration::from_secs(2),
        ttl: Duration::from_secs(300),
        load_time: Duration::from_millis(500),
        output: Output::Json,
        ..Options::default()
    }
}

fn run(options: Options) -> (Result<Vec<Report>, DrillError>, String) {
    let mut out = Vec::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let result = runtime.block_on(drill::run(options, &mut out, pending()));
    (result, String::from_utf8(out).unwrap())
}

fn report(scenario: Scenario, protections: &str) -> Report {
    run(small(scenario, protections)).0.unwrap().remove(0)
}

#[test]
fn a_bare_hot_key_is_loaded_by_everyone() {
    let report = report(Scenario::HotKey, "none");
    // 200 requests a second for the hot key, 500 ms without it: 100 loads, of which one is due. The
    // natural spread of a Poisson count is 10; half of it must come on any machine.
    assert!((50..=200).contains(&report.duplicate_loads), "{report:?}");
    assert!(report.peak_concurrent_loads >= 50, "{report:?}");
    assert_eq!(report.errors, 0);
}

#[test]
fn one_flight_loads_a_hot_key_once() {
    let report = report(Scenario::HotKey, "coalesce");
    assert_eq!(report.duplicate_loads, 0, "{report:?}");
    assert!(report.coalesced >= 50, "{report:?}");
}

#[test]
fn a_lock_loads_a_hot_key_once_over_all_processes() {
    let options = Options { processes: 4, ..small(Scenario::HotKey, "mutex") };
    let report = run(options).0.unwrap().remove(0);
    assert_eq!(report.duplicate_loads, 0, "{report:?}");
    assert!(report.lock_acquired >= 1 && report.lock_contended >= 50, "{report:?}");
    assert_eq!(report.lock_timeouts, 0, "{report:?}");
}

#[test]
fn flights_are_one_a_process() {
    let options = Options { processes: 4, ..small(Scenario::HotKey, "coalesce") };
    let report = run(options).0.unwrap().remove(0);
    assert_eq!(report.duplicate_loads, 3, "{report:?}");
}

#[test]
fn a_lock_shorter_than_the_load_brings_the_duplicates_back() {
    let options = Options {
        lock_ttl: Some(Duration::from_millis(100)),
        processes: 2,
        ..small(Scenario::HotKey, "mutex")
    };
    let report = run(options).0.unwrap().remove(0);
    // A lock of 100 ms runs out four times within a load of 500 ms.
    assert!((1..=8).contains(&report.duplicate_loads), "{report:?}");
}

#[test]
fn steady_load_loads_each_entry_once() {
    let report = report(Scenario::Steady, "coalesce");
    assert_eq!(report.duplicate_loads, 0, "{report:?}");
    // Two seconds of lives spread over 300 s: no more than the 100 keys could miss.
    assert!(report.hits > 10 * report.misses, "{report:?}");
    assert!(report.requests > 400, "{report:?}");
}

#[test]
fn a_batch_with_one_life_is_made_anew_together() {
    let report = report(Scenario::SynchronizedExpiry, "none");
    // 50 of the 100 keys run out at once; in the seconds after, most of them are asked for.
    assert!(report.loads > 25, "{report:?}");
}

#[test]
fn an_emptied_cache_is_made_anew_entry_by_entry() {
    let report = report(Scenario::ColdStart, "coalesce");
    // Each of the 100 keys that was asked for afterwards is loaded once.
    assert!((40..=101).contains(&report.loads), "{report:?}");
    assert_eq!(report.duplicate_loads, 0, "{report:?}");
}

#[test]
fn the_object_of_a_run_has_the_fixed_names() {
    let (result, out) = run(small(Scenario::Steady, "none"));
    assert_eq!(result.unwrap().len(), 1);
    let object: serde_json::Value = serde_json::from_str(out.trim_end()).unwrap();
    for name in [
        "scenario",
        "protection",
        "requests",
        "hits",
        "misses",
        "loads",
        "duplicate_loads",
        "coalesced",
        "stale_served",
        "lock_acquired",
        "lock_contended",
        "lock_timeouts",
        "errors",
        "latency_p50_seconds",
        "latency_p99_seconds",
        "peak_concurrent_loads",
    ] {
        assert!(!object[name].is_null(), "{name} in {out}");
    }
}

#[test]
fn a_given_server_is_left_as_it_was() {
    let redis = Redis::start();
    redis.cli(&["SET", "stampede-drill-is-not-a-drill", "theirs"]);
    let target = given(&redis, ForeignData::Accept);
    let options = Options { target, ..small(Scenario::ColdStart, "mutex") };
    run(options).0.unwrap();
    assert_eq!(redis.cli(&["KEYS", "*"]), "stampede-drill-is-not-a-drill");
    assert_eq!(redis.cli(&["GET", "stampede-drill-is-not-a-drill"]), "theirs");
}

#[test]
fn a_server_with_other_data_is_refused() {
    for database in ["0", "3"] {
        let redis = Redis::start();
        redis.cli(&["-n", database, "SET", "theirs", "1"]);
        let target = given(&redis, ForeignData::Refuse);
        let error = run(Options { target, ..small(Scenario::Steady, "none") }).0.unwrap_err();
        assert!(matches!(error, DrillError::ForeignData { .. }), "{error}");
        assert!(error.to_string().contains("--yes-this-server"), "{error}");
        assert_eq!(redis.cli(&["INFO", "keyspace"]).lines().count(), 2, "nothing was written");
    }
}

#[test]
fn leftovers_of_an_earlier_drill_are_not_foreign() {
    let redis = Redis::start();
    redis.cli(&["SET", "stampede-drill:0:item:1", "old"]);
    let target = given(&redis, ForeignData::Refuse);
    run(Options { target, ..small(Scenario::Steady, "none") }).0.unwrap();
}

#[test]
fn an_interrupted_drill_reports_and_cleans_up() {
    let redis = Redis::start();
    let target = given(&redis, ForeignData::Refuse);
    let duration = Duration::from_secs(600);
    let options = Options { target, duration, ..small(Scenario::Steady, "none") };
    let mut out = Vec::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // The keys are there, so it is in the middle of it.
    let under_way = async {
        while redis.cli(&["DBSIZE"]) == "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reports = runtime.block_on(drill::run(options, &mut out, under_way)).unwrap();
    assert!(reports[0].interrupted);
    assert_eq!(redis.cli(&["DBSIZE"]), "0");
}
