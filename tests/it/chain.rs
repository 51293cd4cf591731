//! The whole chain, nothing of it pretended: a Redis, an application in front of it whose popular
//! entry runs out, the exporter, a Prometheus with the shipped rules and the dashboard's queries, and
//! an Alertmanager.

use std::time::Duration;

use serde_json::Value;
use stampede_exporter::shipped::{DASHBOARD, RULES, RUNBOOKS};

use crate::support::alertmanager::Alertmanager;
use crate::support::exporter::Exporter;
use crate::support::prometheus::{Prometheus, number};
use crate::support::redis::Redis;
use crate::support::scene::Scene;
use crate::support::shop::Shop;
use crate::support::wait_for_within;

/// The slowest groups of the rules are evaluated every 15 seconds, and a cause is settled after 10.
const LIMIT: Duration = Duration::from_secs(90);

#[test]
fn a_stampede_reaches_the_alert_and_every_panel() {
    let redis = Redis::start();
    let mut shop = Shop::open(&redis);
    let exporter = Exporter::start_configured(&format!(
        "caches:\n\
         - name: shop\n  \
           poll_interval: 200ms\n  \
           window: 5s\n  \
           redis: {{ addr: '{}' }}\n  \
           ttl: {{ groups: [{{ name: product, match: 'product:*' }}] }}\n  \
           apps: [{{ name: web, url: '{}' }}]\n  \
           detector: {{ warm_up: 5s }}\n",
        redis.url(),
        shop.url(),
    ));
    let ready = r#"stampede_miss_baseline_ready{cache="shop"}"#;
    wait_for_within(LIMIT, "the exporter knows what is normal", || {
        shop.step();
        exporter.metric(ready).filter(|ready| *ready == 1.0)
    });
    let prometheus = Prometheus::start(exporter.port, RULES);
    let begin = prometheus.now();
    wait_for_within(LIMIT, "Prometheus has seen the calm", || {
        shop.step();
        some(prometheus.query(r#"stampede_hit_ratio{source="app"} > 0.95"#))
    });
    assert_eq!(prometheus.firing("CacheStampede"), Vec::<Value>::new());

    shop.front_page_loads = false;
    shop.expire_front_page();
    let alert = wait_for_within(LIMIT, "the alert fires while the stampede runs", || {
        shop.step();
        prometheus.firing("CacheStampede").pop()
    });
    assert_eq!(alert["labels"]["cache"], "shop", "{alert}");
    wait_for_within(LIMIT, "the incident is counted under its cause", || {
        shop.step();
        some(prometheus.query("sum(stampede_incidents_total) == 1"))
    });
    let texts =
        prometheus.firing("CacheStampede").pop().expect("still firing")["annotations"].take();
    for text in texts.as_object().expect("annotations").values().filter_map(Value::as_str) {
        assert!(!text.contains("<no value>") && !text.contains("error expanding"), "{text}");
    }
    let figures = texts["description"].as_str().expect("a description");
    assert!(!figures.contains("unknown"), "{figures}");

    shop.front_page_loads = true;
    wait_for_within(LIMIT, "the stampede ends", || {
        shop.step();
        some(prometheus.query("stampede_active == 0"))
    });
    every_rule_works(&prometheus, &mut shop);
    every_query_finds_data(&prometheus, &mut shop, begin);
    every_runbook_asks_what_can_be_answered(&prometheus);
    every_name_is_exported(&exporter);
}

/// A drill, and whoever is on call: told what, where, why and what to do, and told when it is over.
#[test]
fn a_drill_reaches_the_person_on_call_and_so_does_its_end() {
    let scene = Scene::start("none");
    let alertmanager = Alertmanager::start();
    // An alert is kept for five minutes after an incident, which a test does not wait for.
    let rules = RULES.replace("[5m]", "[15s]");
    let prometheus = Prometheus::start_alerting(scene.exporter.port, &rules, alertmanager.port);
    let calm = r#"stampede_incidents_total{cause="hot_key"} == 0"#;
    wait_for_within(LIMIT, "Prometheus has seen the calm", || some(prometheus.query(calm)));
    assert_eq!(alertmanager.received("CacheStampede"), Vec::<Value>::new());

    scene.expire_the_hot_key();
    let told = || alertmanager.received("CacheStampede");
    let alert = wait_for_within(LIMIT, "the receiver is told, with the cause", || {
        let summary = "Stampede on cache drill, cause hot_key";
        told().into_iter().find(|alert| alert["annotations"]["summary"] == summary)
    });
    assert_eq!(alert["status"], "firing", "{alert}");
    assert_eq!(alert["labels"]["cache"], "drill", "{alert}");
    assert_eq!(alert["labels"]["severity"], "critical", "{alert}");
    let runbook = alert["annotations"]["runbook_url"].as_str().expect("a runbook");
    let name = runbook.strip_prefix("alerts/runbooks/").and_then(|file| file.strip_suffix(".md"));
    let page = scene.exporter.get(&format!("/runbooks/{}", name.expect("a page of this project")));
    assert!(page.status == 200 && page.body.contains("hot_key"), "{}", page.body);

    let resolved = wait_for_within(LIMIT, "the receiver is told that it is over", || {
        told().pop().filter(|alert| alert["status"] == "resolved")
    });
    assert_eq!(resolved["labels"], alert["labels"]);
    assert_eq!(resolved["startsAt"], alert["startsAt"], "it was one alert");
    assert!(!scene.active(), "{resolved}");
}

/// The same keys, once written with one TTL and once with a tenth of jitter on it.
#[test]
fn a_wave_is_announced_before_it_breaks_and_jitter_is_none() {
    let spread = "for i = 1, 20000 do redis.call('SET', 'old:' .. i, 'x', 'EX', 60 + i % 3600) end";
    let (wave, jitter) = (Redis::start(), Redis::start());
    wave.cli(&["EVAL", spread, "0"]);
    let batch = "for i = 1, 5000 do redis.call('SET', 'batch:' .. i, 'x', 'EX', 120) end";
    wave.cli(&["EVAL", batch, "0"]);
    let batch = "for i = 1, 24000 do redis.call('SET', 'batch:' .. i, 'x', 'PX', 108000 + i) end";
    jitter.cli(&["EVAL", batch, "0"]);
    let exporter = Exporter::start_configured(&format!(
        "defaults:\n  \
           ttl: {{ keys_per_second: 2000, groups: [{{ name: batch, match: 'batch:*' }}] }}\n\
         caches:\n\
         - {{ name: wave, redis: {{ addr: '{}' }} }}\n\
         - {{ name: jitter, redis: {{ addr: '{}' }} }}\n",
        wave.url(),
        jitter.url(),
    ));
    let sampled = |cache| {
        let series = format!("stampede_ttl_sample_keys{{cache=\"{cache}\"}}");
        wait_for_within(LIMIT, "a sample", || exporter.metric(&series).filter(|n| *n >= 5000.0))
    };
    sampled("wave");
    sampled("jitter");
    let prometheus = Prometheus::start(exporter.port, RULES);
    let alert = wait_for_within(LIMIT, "the wave is announced", || {
        prometheus.firing("CacheExpiryWaveAhead").pop()
    });
    assert_eq!(alert["labels"]["cache"], "wave", "{alert}");
    let text = alert["annotations"]["description"].as_str().expect("a description");
    assert!(text.contains("Most of them: group batch."), "{text}");
    let jitter = prometheus.query(r#"cache:stampede_expiry_peak_contrast:ratio{cache="jitter"}"#);
    assert!(!jitter.is_empty(), "the other cache was looked at, too");
    assert_eq!(prometheus.firing("CacheExpiryWaveAhead").len(), 1, "jitter is no wave");
}

/// Every rule has been evaluated without error, every recording rule has recorded, and nothing says
/// that a source is missing.
fn every_rule_works(prometheus: &Prometheus, shop: &mut Shop) {
    for rule in prometheus.rules() {
        let name = rule["name"].as_str().expect("a name").to_owned();
        if rule["type"] == "recording" {
            wait_for_within(LIMIT, &name, || {
                shop.step();
                some(prometheus.query(&format!("last_over_time({name}[5m])")))
            });
        }
        wait_for_within(LIMIT, &format!("{name} has been evaluated"), || {
            shop.step();
            let now = prometheus.rules().into_iter().find(|r| r["name"] == name.as_str())?;
            assert_ne!(now["health"], "err", "{now}");
            (now["health"] == "ok").then_some(())
        });
    }
    for quiet in [
        "CacheRedisDown",
        "CacheAppSourceDown",
        "StampedeExporterAbsent",
        "StampedeConfigReloadFailed",
    ] {
        assert_eq!(prometheus.firing(quiet), Vec::<Value>::new());
    }
}

fn every_query_finds_data(prometheus: &Prometheus, shop: &mut Shop, begin: f64) {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("the dashboard is JSON");
    let variables = &dashboard["templating"]["list"];

    // What Grafana puts in for "All", and for one value of each variable.
    let mut all = vec![("$__rate_interval".to_owned(), "4s".to_owned())];
    let mut one = all.clone();
    for variable in variables.as_array().expect("variables") {
        let Some(query) = variable["query"]["query"].as_str() else { continue };
        let name = format!("${}", variable["name"].as_str().expect("a name"));
        let (selector, label) = query
            .strip_prefix("label_values(")
            .and_then(|rest| rest.strip_suffix(')')?.rsplit_once(", "))
            .expect("label_values(SELECTOR, LABEL)");
        let values = prometheus.label_values(&substituted(selector, &all), label);
        let [value] = values.as_slice() else { panic!("{name}: {values:?}") };
        assert_eq!(prometheus.label_values(&substituted(selector, &one), label), values, "{name}");
        all.push((name.clone(), variable["allValue"].as_str().expect("all").to_owned()));
        one.push((name, value.replace('.', r"\\.")));
    }

    let panels = dashboard["panels"].as_array().expect("panels");
    let of_panels = panels.iter().flat_map(|p| p["targets"].as_array().expect("targets"));
    let annotations = dashboard["annotations"]["list"].as_array().expect("annotations");
    for query in of_panels.chain(annotations) {
        let expr = query["expr"].as_str().expect("an expression");
        for choice in [&all, &one] {
            let expr = substituted(expr, choice);
            assert!(!expr.contains('$'), "{expr}");
            // An `or` must not hide that one of its sides has never any data.
            for side in expr.split(" or ") {
                wait_for_within(LIMIT, side, || {
                    shop.step();
                    let series = prometheus.query_range(side, begin, prometheus.now());
                    let values = series.iter().flat_map(|s| s["values"].as_array());
                    some(values.flatten().filter_map(|pair| number(&pair[1])).collect())
                });
            }
        }
    }
}

/// A query that somebody pastes at 3 a.m. must be one.
fn every_runbook_asks_what_can_be_answered(prometheus: &Prometheus) {
    for (name, text) in RUNBOOKS {
        let blocks = text.split("```").skip(1).step_by(2);
        let lines = blocks.flat_map(str::lines).map(|l| l.split(" #").next().unwrap_or_default());
        for line in lines.filter(|line| line.contains("stampede_")) {
            let error = prometheus.error(&line.replace("NAME", "shop"));
            assert_eq!(error, None, "{name}: {line}");
        }
    }
}

/// A metric that is misspelled in a rule and in its unit test alike.
fn every_name_is_exported(exporter: &Exporter) {
    // Some are there only with a wave ahead or many keys; the page made by hand has all.
    let page = exporter.get("/metrics").body + include_str!("../golden/metrics.txt");
    let runbooks = RUNBOOKS.iter().map(|(_, text)| *text);
    for text in [RULES, DASHBOARD].into_iter().chain(runbooks) {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
        for word in words.filter(|word| word.starts_with("stampede_")) {
            let sample = |line: &str| {
                line.strip_prefix(word).is_some_and(|rest| rest.starts_with(['{', ' ']))
            };
            assert!(page.lines().any(sample), "{word} is not on the page");
        }
    }
}

fn substituted(text: &str, choice: &[(String, String)]) -> String {
    choice.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
}

fn some<T>(values: Vec<T>) -> Option<Vec<T>> {
    (!values.is_empty()).then_some(values)
}
