//! The whole product on real load: a real redis-server, an instrumented service, the exporter as a
//! process, and what it says.

use super::support::scene::Scene;
use super::support::wait_for;

/// Polls that a test lets pass where nothing may happen: ten seconds of the product's time.
const QUIET_POLLS: f64 = 40.0;

#[test]
fn a_hot_key_is_one_incident_from_start_to_end() {
    let scene = Scene::start("none");
    assert_eq!(scene.incidents(), 0.0);
    scene.expire_the_hot_key();
    let struck_after = scene.polls();
    // One page is one snapshot: the first that shows it says after how many polls it was decided.
    let declared_after = wait_for("the stampede is seen", || {
        let page = scene.exporter.get("/metrics").body;
        let value = |series: &str| {
            page.lines().find_map(|l| l.strip_prefix(series)?.trim().parse::<f64>().ok())
        };
        let polls = value("stampede_redis_polls_total{cache=\"drill\"}");
        (value("stampede_active{cache=\"drill\"}") == Some(1.0)).then_some(polls).flatten()
    });
    // Two whole polls after the strike; the one under way when it struck is the third.
    assert!(declared_after - struck_after <= 3.0, "{struck_after} to {declared_after}");

    wait_for("the stampede ends", || (!scene.active()).then_some(()));
    scene.wait_for_polls(QUIET_POLLS);
    let counted = scene.of_cause("stampede_incidents_total");
    assert_eq!(counted.len(), 1, "{counted:?}");
    let (cause, count) = &counted[0];
    assert!(
        *count == 1.0 && ["hot_key", "unknown"].contains(&cause.as_str()),
        "{counted:?} {}",
        scene.exporter.get("/api/v1/incidents").body
    );
    // 150 requests a second for a key that is away for 3 s.
    let excess = scene.exporter.metric("stampede_excess_misses_total{cache=\"drill\"}").unwrap();
    assert!((300.0..=600.0).contains(&excess), "{excess}");
}

#[test]
fn a_hot_key_with_one_flight_is_no_incident() {
    let scene = Scene::start("coalesce");
    let loads =
        || scene.exporter.metric("stampede_app_loads_total{cache=\"drill\",app=\"service\"}");
    let before = loads().unwrap();
    scene.expire_the_hot_key();
    let coalesced = "stampede_app_loads_coalesced_total{cache=\"drill\",app=\"service\"}";
    scene.exporter.wait_for_metric(coalesced, |shared| shared > 50.0);
    scene.wait_for_polls(QUIET_POLLS);
    assert!(loads().unwrap() > before, "the key was loaded again");
    assert_eq!((scene.active(), scene.incidents()), (false, 0.0), "{}", scene.exporter.log());
}

#[test]
fn a_hot_key_behind_a_lock_is_contention_and_no_incident() {
    let scene = Scene::start("mutex");
    let contention = "stampede_lock_contention_ratio{cache=\"drill\"}";
    let loads =
        || scene.exporter.metric("stampede_app_loads_total{cache=\"drill\",app=\"service\"}");
    let before = loads().unwrap();
    scene.expire_the_hot_key();
    scene.exporter.wait_for_metric(contention, |ratio| ratio > 0.5);
    scene.wait_for_polls(QUIET_POLLS);
    assert!(loads().unwrap() > before, "the key was loaded again");
    assert_eq!((scene.active(), scene.incidents()), (false, 0.0), "{}", scene.exporter.log());
}

#[test]
fn a_flush_under_load_is_a_cold_start() {
    let scene = Scene::start("none");
    assert_eq!(scene.redis.cli(&["FLUSHALL"]), "OK");
    wait_for("the stampede is seen", || scene.active().then_some(()));
    wait_for("it is counted", || (scene.incidents() > 0.0).then_some(()));
    assert_eq!(scene.of_cause("stampede_incidents_total"), [("cold_start".to_owned(), 1.0)]);
    wait_for("the stampede ends", || (!scene.active()).then_some(()));
}
