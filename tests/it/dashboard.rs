//! The shipped dashboard: what Grafana needs of it, and what keeps its queries from misleading.
//! That they find data is in `chain`.

use std::collections::BTreeSet;

use serde_json::Value;
use stampede_exporter::shipped::DASHBOARD;

fn dashboard() -> Value {
    serde_json::from_str(DASHBOARD).expect("the dashboard is JSON")
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a Vec<Value> {
    value.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("no {pointer}"))
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Every query: where it stands, and its expression.
fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for panel in list(dashboard, "/panels") {
        for target in list(panel, "/targets") {
            let place = format!("{} {}", text(panel, "/title"), text(target, "/refId"));
            all.push((place, text(target, "/expr").to_owned()));
        }
    }
    for annotation in list(dashboard, "/annotations/list") {
        all.push((text(annotation, "/name").to_owned(), text(annotation, "/expr").to_owned()));
    }
    all
}

/// Names of our metrics in an expression, in order.
fn metrics(expr: &str) -> Vec<&str> {
    expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
        .filter(|word| word.starts_with("stampede_"))
        .collect()
}

#[test]
fn every_panel_says_what_it_shows_and_where_from() {
    let dashboard = dashboard();
    let mut ids = BTreeSet::new();
    for panel in list(&dashboard, "/panels") {
        let title = text(panel, "/title");
        assert!(!title.is_empty(), "a panel without title: {panel}");
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{title}: id used twice");
        assert!(text(panel, "/description").len() > 40, "{title}: no description");
        assert!(!text(panel, "/fieldConfig/defaults/unit").is_empty(), "{title}: no unit");
        assert!(matches!(text(panel, "/type"), "timeseries" | "heatmap" | "stat"), "{title}");
        assert_eq!(text(panel, "/datasource/uid"), "${datasource}", "{title}");
        for target in list(panel, "/targets") {
            assert_eq!(text(target, "/datasource/uid"), "${datasource}", "{title}");
            assert!(!text(target, "/expr").is_empty(), "{title}");
            assert!(!text(target, "/legendFormat").is_empty(), "{title}: no legend");
        }
    }
    for annotation in list(&dashboard, "/annotations/list") {
        assert_eq!(text(annotation, "/datasource/uid"), "${datasource}", "{annotation}");
        assert_eq!(annotation["enable"], true, "{annotation}");
    }
}

#[test]
fn four_panels_share_the_top_row_and_the_time_axis() {
    let dashboard = dashboard();
    let top: Vec<&Value> =
        list(&dashboard, "/panels").iter().filter(|p| p["gridPos"]["y"] == 0).collect();
    let titles: Vec<&str> = top.iter().map(|panel| text(panel, "/title")).collect();
    let wanted =
        ["Hit ratio", "Database QPS", "TTL-expiry histogram", "Lock attempts and contention"];
    assert_eq!(titles, wanted);
    // The grid is 24 wide; the crosshair is shared.
    assert!(top.iter().all(|p| p["gridPos"]["w"] == 6 && p["gridPos"]["h"] == 9));
    assert_eq!(dashboard["graphTooltip"], 1);
    assert!(top.iter().all(|p| p.get("timeFrom").is_none() && p.get("timeShift").is_none()));

    let lines = list(top[0], "/fieldConfig/defaults/thresholds/steps");
    let values: Vec<Option<f64>> = lines.iter().map(|step| step["value"].as_f64()).collect();
    assert_eq!(values, [None, Some(0.8), Some(0.95)]);
    assert_eq!(text(top[0], "/fieldConfig/defaults/custom/thresholdsStyle/mode"), "line");
    assert_eq!(text(top[2], "/type"), "heatmap");
    assert_eq!(top[2]["options"]["calculate"], false);
    assert_eq!(text(top[2], "/targets/0/format"), "heatmap");
}

#[test]
fn panels_do_not_overlap_and_leave_no_holes() {
    let dashboard = dashboard();
    let number = |panel: &Value, field: &str| panel["gridPos"][field].as_u64().expect("a number");
    let mut taken = BTreeSet::new();
    for panel in list(&dashboard, "/panels") {
        let (x, y) = (number(panel, "x"), number(panel, "y"));
        for row in y..y + number(panel, "h") {
            for column in x..x + number(panel, "w") {
                assert!(column < 24 && taken.insert((row, column)), "{}", text(panel, "/title"));
            }
        }
    }
    let rows: BTreeSet<u64> = taken.iter().map(|(row, _)| *row).collect();
    assert_eq!(taken.len(), rows.len() * 24);
}

#[test]
fn it_can_be_provisioned_anywhere() {
    let dashboard = dashboard();
    assert_eq!(dashboard["editable"], false);
    assert_eq!(dashboard["uid"], "stampede-exporter");
    assert_eq!(dashboard["id"], Value::Null);
    for key in ["__inputs", "__requires", "__elements"] {
        assert!(dashboard.get(key).is_none(), "{key}");
    }
    let variables = list(&dashboard, "/templating/list");
    let names: Vec<&str> = variables.iter().map(|v| text(v, "/name")).collect();
    assert_eq!(names, ["datasource", "job", "instance", "cache"]);
    for variable in variables {
        let name = text(variable, "/name");
        assert_eq!(variable["current"], serde_json::json!({}), "{name}: a saved selection");
        assert_eq!(variable["options"], serde_json::json!([]), "{name}: saved options");
        if name == "datasource" {
            assert_eq!(text(variable, "/type"), "datasource");
            assert_eq!(text(variable, "/query"), "prometheus");
            continue;
        }
        assert_eq!(text(variable, "/type"), "query", "{name}");
        assert_eq!(text(variable, "/datasource/uid"), "${datasource}", "{name}");
        assert_eq!(variable["multi"], true, "{name}");
        assert_eq!(variable["includeAll"], true, "{name}");
        assert_eq!(variable["allValue"], ".+", "{name}");
    }
}

#[test]
fn every_query_is_a_query_that_cannot_mislead() {
    for (place, expr) in queries(&dashboard()) {
        let metrics = metrics(&expr);
        assert!(!metrics.is_empty(), "{place}: none of our metrics");
        let selectors = expr.matches(r#"{job=~"$job", instance=~"$instance", cache=~"$cache""#);
        assert_eq!(selectors.count(), metrics.len(), "{place}: a selector misses a variable");
        for (at, _) in expr.match_indices("rate(").chain(expr.match_indices("increase(")) {
            let range = expr[at..].split_once('[').map(|(_, rest)| rest);
            assert!(range.is_some_and(|r| r.starts_with("$__rate_interval]")), "{place}: {expr}");
        }
        for metric in metrics {
            let counter = metric.ends_with("_total") || metric.starts_with(POLL_BUCKETS);
            let rated = expr.contains(&format!("rate({metric}{{"))
                || expr.contains(&format!("increase({metric}{{"));
            assert_eq!(counter, rated, "{place}: {metric} is read the wrong way");
        }
        // Two exporters on one cache must not double: each one's own view is added up first.
        let added_up = expr.split("sum by").count() - 1 + expr.split("sum(").count() - 1;
        assert_eq!(added_up, usize::from(place.starts_with("TTL-expiry histogram")), "{place}");
    }
}

/// The one histogram here that only grows; the TTL histogram is a snapshot.
const POLL_BUCKETS: &str = "stampede_redis_poll_duration_seconds_bucket";
