//! The metric page as text.

use std::io::Write;
use std::process::{Command, Stdio};

use expect_test::expect_file;
use stampede_exporter::board::View;
use stampede_exporter::serve::{Build, render};
use stampede_exporter::snapshot::Resets;

use super::world;

const BUILD: Build<'static> = Build { version: "1.2.3", revision: "abc1234" };

fn page() -> String {
    render(&world::view(), &BUILD)
}

/// The value of a series as the page writes it.
fn value(page: &str, series: &str) -> Option<f64> {
    let line = page.lines().find(|l| l.rsplit_once(' ').is_some_and(|(s, _)| s == series))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn the_golden_page() {
    expect_file!["../../golden/metrics.txt"].assert_eq(&page());
}

/// The one word that promtool has to say once a server's counters began anew: it takes the counters
/// that are counted for a type in the name. Rules and dashboards rely on the name, so it stays.
const KNOWN_WORD: &str =
    "stampede_redis_counter_resets_total metric name should not include type 'counter'\n";

#[test]
fn promtool_accepts_the_page() {
    assert_eq!(promtool_says(&page()), KNOWN_WORD);
    let mut caches = [world::catalog(), world::lost()];
    for node in caches.iter_mut().flat_map(|cache| &mut cache.nodes) {
        node.resets.iter_mut().for_each(|(_, resets)| *resets = Resets::default());
    }
    let view = View { caches: caches.map(Into::into).to_vec(), reload_successful: true };
    assert_eq!(promtool_says(&render(&view, &BUILD)), "");
}

fn promtool_says(page: &str) -> String {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool; `make tools` installs what the tests need");
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn a_lost_server_takes_its_ratios_baseline_and_ttls_with_it() {
    let view = View { caches: vec![world::lost().into()], reload_successful: true };
    let page = render(&view, &BUILD);
    let there = |name: &str| page.lines().any(|l| l.starts_with(&format!("{name}{{")));
    for name in [
        "stampede_hit_ratio",
        "stampede_lookups_per_second",
        "stampede_misses_per_second",
        "stampede_miss_baseline_per_second",
        "stampede_misses_per_expiry",
        "stampede_key_ttl_seconds_bucket",
        "stampede_keys_without_ttl",
        "stampede_keys_due",
        "stampede_expiry_peak_keys_per_second",
        "stampede_redis_keys",
        "stampede_redis_info",
    ] {
        assert!(!there(name), "{name} is a stale value");
    }
    for name in [
        "stampede_redis_up",
        "stampede_redis_keyspace_hits_total",
        "stampede_redis_keyspace_misses_total",
        "stampede_redis_polls_total",
        "stampede_redis_poll_errors_total",
        "stampede_ttl_sampler_lookups_total",
        "stampede_active",
    ] {
        assert!(there(name), "{name} should stay");
    }
    assert!(!page.contains("# TYPE stampede_hit_ratio"), "a family without series is left out");
}

#[test]
fn a_lost_application_leaves_the_servers_series() {
    let mut cache = world::catalog();
    cache.apps.iter_mut().for_each(|app| app.up = false);
    let page = render(&View { caches: vec![cache.into()], reload_successful: true }, &BUILD);
    assert_eq!(value(&page, r#"stampede_hit_ratio{cache="catalog",source="redis"}"#), Some(0.9));
    assert_eq!(value(&page, r#"stampede_hit_ratio{cache="catalog",source="app"}"#), None);
    assert_eq!(value(&page, r#"stampede_loads_per_second{cache="catalog"}"#), None);
    assert_eq!(
        value(&page, r#"stampede_load_latency_seconds{cache="catalog",quantile="0.99"}"#),
        None
    );
    assert_eq!(value(&page, r#"stampede_app_hits_total{cache="catalog",app="web"}"#), Some(6000.0));
}

#[test]
fn a_cache_that_was_never_polled_has_its_closed_sets_at_zero() {
    let page = page();
    assert_eq!(value(&page, r#"stampede_active{cache="fresh"}"#), Some(0.0));
    for cause in [
        "hot_key",
        "synchronized_expiry",
        "cold_start",
        "invalidation",
        "eviction",
        "penetration",
        "avalanche",
        "unknown",
    ] {
        for name in ["stampede_incidents_total", "stampede_cause"] {
            let series = format!(r#"{name}{{cache="fresh",cause="{cause}"}}"#);
            assert_eq!(value(&page, &series), Some(0.0), "{series}");
        }
    }
    for signal in [
        "miss_ratio",
        "load_rate",
        "lock_contention",
        "tail_latency",
        "expiry",
        "eviction",
        "errors",
    ] {
        let series = format!(r#"stampede_signal{{cache="fresh",signal="{signal}"}}"#);
        assert_eq!(value(&page, &series), Some(0.0), "{series}");
    }
    assert_eq!(value(&page, r#"stampede_incident_start_timestamp_seconds{cache="fresh"}"#), None);
}

#[test]
fn no_value_is_ever_not_a_number() {
    let mut cache = world::catalog();
    cache.signals.hit_ratio.redis = Some(f64::NAN);
    cache.signals.loads_per_second = Some(f64::INFINITY);
    cache.verdict.score = f64::NAN;
    let page = render(&View { caches: vec![cache.into()], reload_successful: true }, &BUILD);
    assert_eq!(value(&page, r#"stampede_hit_ratio{cache="catalog",source="redis"}"#), None);
    assert_eq!(value(&page, r#"stampede_loads_per_second{cache="catalog"}"#), None);
    assert!(!page.contains("NaN"));
    assert!(page.lines().all(|l| !l.ends_with(" inf")));
}
