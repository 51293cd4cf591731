//! The JSON of the API.

use serde_json::{Value, json};
use stampede_exporter::board::View;
use stampede_exporter::detect::{Cause, Incident};
use stampede_exporter::reading::Source;

use super::server::Server;
use super::world;

fn read(server: &Server, target: &str) -> Value {
    let answer = server.get(target);
    assert_eq!(answer.status, 200, "{target}: {}", answer.body);
    assert!(answer.headers.to_lowercase().contains("content-type: application/json"));
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn an_incident_has_its_figures_and_both_forms_of_its_times() {
    let server = Server::start(&world::view());
    let all = read(&server, "/api/v1/incidents");
    assert_eq!(all.as_array().unwrap().len(), 2);
    let running = &all[0];
    for (key, expected) in [
        ("cache", json!("catalog")),
        ("cause", json!("hot_key")),
        ("source", json!("app")),
        ("started_at", json!("2026-11-30T11:59:50.000Z")),
        ("started_timestamp", json!(1_796_039_990.0)),
        ("ended_at", Value::Null),
        ("ended_timestamp", Value::Null),
        ("baseline_misses_per_second", json!(40.0)),
        ("peak_misses_per_second", json!(640.0)),
        ("excess_misses", json!(4600.0)),
        ("excess_loads", json!(4550.0)),
        (
            "suspects",
            json!([
                {"pattern": "front", "share": 0.93, "example": null, "source": "missed"},
                {"pattern": "user:*", "share": 0.05, "example": "user:<i>\\xff", "source": "sampled"},
            ]),
        ),
        ("runbook", json!("/runbooks/hot_key")),
        ("evidence", json!({"hot_key_share": 0.93, "misses_per_expiry": 120.0})),
    ] {
        assert_eq!(running[key], expected, "{key}");
    }
    // Three times the p99 of 3.1 s.
    assert!(running["advice"].as_str().unwrap().contains("a TTL of at least 9.3 s"));
    assert_eq!(all[1]["cause"], "cold_start");
    assert_eq!(all[1]["suspects"], json!([]));
    assert_eq!(all[1]["ended_at"], "2026-11-30T11:01:22.500Z");
    assert_eq!(all[1]["excess_loads"], Value::Null);
}

#[test]
fn the_most_telling_figure_of_the_evidence_comes_first() {
    let mut cache = world::catalog();
    let running = cache.incidents.running.as_mut().unwrap();
    running.evidence = vec![("miss_ratio", 0.3), ("expired", 7.0), ("loads", 9.0)];
    let server = Server::start(&View { caches: vec![cache.into()], reload_successful: true });
    let text = server.get("/api/v1/incidents?limit=1").body;
    assert!(text.contains(r#""evidence":{"miss_ratio":0.3,"expired":7.0,"loads":9.0}"#), "{text}");
}

#[test]
fn incidents_of_all_caches_are_newest_first_and_can_be_limited() {
    let mut view = world::view();
    let mut lost = world::lost();
    // Between the two of the other cache.
    lost.incidents.past =
        [Incident::new(Cause::Avalanche, Source::Redis, world::NOON - 60.0)].into();
    view.caches[1] = lost.into();
    let server = Server::start(&view);
    let causes = |target: &str| -> Vec<String> {
        let all = read(&server, target);
        let cause = |incident: &Value| incident["cause"].as_str().unwrap().to_owned();
        all.as_array().unwrap().iter().map(cause).collect()
    };
    assert_eq!(causes("/api/v1/incidents"), ["hot_key", "avalanche", "cold_start"]);
    assert_eq!(causes("/api/v1/incidents?limit=1"), ["hot_key"]);
    assert_eq!(causes("/api/v1/incidents?cache=catalog"), ["hot_key", "cold_start"]);
    assert!(causes("/api/v1/incidents?cache=fresh").is_empty());
}

#[test]
fn a_cache_says_what_is_known_and_null_for_what_is_not() {
    let server = Server::start(&world::view());
    let all = read(&server, "/api/v1/caches");
    let (catalog, lost, fresh) = (&all[0], &all[1], &all[2]);
    assert_eq!(catalog["state"], "stampede");
    assert_eq!(catalog["active"], true);
    assert_eq!(catalog["incident"]["cause"], "hot_key");
    assert_eq!(catalog["hit_ratio"], json!({"redis": 0.9, "app": 0.75}));
    assert_eq!(catalog["signals"]["lock_contention"], 2.0);
    assert_eq!(catalog["signals"]["errors"], Value::Null);
    assert_eq!(catalog["nodes"][1]["up"], false);
    assert_eq!(catalog["nodes"][1]["keys"], Value::Null);
    assert_eq!(catalog["ttl"]["groups"][0]["keys_due"]["10s"], 120.4);
    let wave = &catalog["ttl"]["waves"][0];
    assert_eq!(wave["starts_at"], "2026-11-30T12:01:30.000Z");
    assert_eq!(wave["keys"], json!({"value": 120.0, "low": 100.0, "high": 141.0}));
    // 0.04, 0.035 and 0.048 of 2000 lookups a second.
    assert_eq!(wave["extra_misses_per_second"], json!({"value": 80.0, "low": 70.0, "high": 96.0}));
    let past = &catalog["ttl"]["past_waves"][0];
    assert_eq!((&past["group"], &past["outcome"]), (&json!("other"), &json!("expired")));
    assert_eq!((&past["keys"]["low"], &past["expired_keys"]), (&json!(250.0), &json!(280.0)));
    assert_eq!(past["started_at"], "2026-11-30T11:58:30.000Z");
    assert_eq!(catalog["ttl"]["expired_keys_held"]["high"], 56.0);
    assert_eq!(catalog["ttl"]["watched"][0]["expires_at"], "2026-11-30T12:00:12.500Z");
    assert_eq!(catalog["ttl"]["watched"][1]["exists"], false);
    assert_eq!(catalog["ttl"]["watched"][3]["exists"], Value::Null);
    assert_eq!(lost["cache"], world::HOSTILE);
    assert_eq!(lost["state"], "down");
    assert_eq!(lost["hit_ratio"], json!({"redis": null, "app": null}));
    assert_eq!(lost["ttl"], Value::Null);
    assert_eq!(fresh["state"], "waiting");
    assert_eq!(fresh["updated_at"], Value::Null);
    assert_eq!(read(&server, "/api/v1/caches?cache=fresh").as_array().unwrap().len(), 1);
}

#[test]
fn history_grows_with_the_board() {
    let server = Server::start(&world::view());
    let with_points = |wanted: usize| {
        crate::support::wait_for("points of the history", || {
            let history = read(&server, "/api/v1/history?cache=catalog");
            (history[0]["time"].as_array()?.len() == wanted).then_some(history)
        })
    };
    with_points(1);
    let mut next = world::catalog();
    next.time += 1.0;
    next.signals.hit_ratio.app = Some(0.5);
    next.incidents.running = None;
    server.board.publish(next);
    let history = with_points(2);
    assert_eq!(history[0]["cache"], "catalog");
    assert_eq!(history[0]["time"], json!([world::NOON, world::NOON + 1.0]));
    assert_eq!(history[0]["hit_ratio_app"], json!([0.75, 0.5]));
    assert_eq!(history[0]["active"], json!([true, false]));
    let newer = read(&server, &format!("/api/v1/history?cache=catalog&since={}", world::NOON));
    assert_eq!(newer[0]["time"], json!([world::NOON + 1.0]));
    // 120.4 keys within a second, from the first picture.
    assert_eq!(history[0]["ttl"][0]["keys"][0], json!(120.4));
}
