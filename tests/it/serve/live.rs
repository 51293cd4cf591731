//! What becomes of the page when a real server goes away and comes back.

use crate::support::exporter::Exporter;
use crate::support::redis::Redis;
use crate::support::wait_for;

const RATIO: &str = r#"stampede_hit_ratio{cache="default",source="redis"}"#;
const ACTIVE: &str = r#"stampede_active{cache="default"}"#;

fn of_node(name: &str, redis: &Redis) -> String {
    format!(r#"{name}{{cache="default",node="127.0.0.1:{}"}}"#, redis.port)
}

/// Reads a key that exists until the page has a hit ratio.
fn read_until_there_is_a_ratio(redis: &Redis, exporter: &Exporter) {
    redis.cli(&["SET", "key", "value", "EX", "3600"]);
    wait_for(RATIO, || {
        redis.cli(&["-r", "30", "GET", "key"]);
        exporter.metric(RATIO)
    });
}

#[test]
fn a_server_that_freezes_takes_its_ratios_along_and_brings_them_back() {
    let redis = Redis::start();
    let exporter = Exporter::start(&["--redis.addr", &redis.url()]);
    read_until_there_is_a_ratio(&redis, &exporter);
    wait_for("the TTL series", || {
        exporter.metric(r#"stampede_keys_due{cache="default",group="other",window="300s"}"#)
    });
    let hits = of_node("stampede_redis_keyspace_hits_total", &redis);
    let seen = exporter.metric(&hits).unwrap();
    assert!(seen >= 20.0, "{seen}");

    redis.stop();
    let up = of_node("stampede_redis_up", &redis);
    exporter.wait_for_metric(&up, |up| up == 0.0);
    let page = exporter.get("/metrics").body;
    for name in ["stampede_hit_ratio", "stampede_miss_baseline_per_second", "stampede_key_ttl"] {
        assert!(!page.lines().any(|line| line.starts_with(name)), "{name} is still there:\n{page}");
    }
    assert!(exporter.metric(&hits).unwrap() >= seen);
    assert_eq!(exporter.metric(ACTIVE), Some(0.0));
    assert!(exporter.get("/").body.contains("NO ANSWER"));
    assert_eq!(exporter.get("/-/healthy").status, 200);

    redis.cont();
    exporter.wait_for_metric(&up, |up| up == 1.0);
    read_until_there_is_a_ratio(&redis, &exporter);
}

#[test]
fn failed_polls_make_no_new_series() {
    let mut redis = Redis::start();
    let url = redis.url();
    let yaml = format!(
        "web: {{ listen_address: \"127.0.0.1:0\" }}\ncaches:\n  - name: default\n    \
         poll_interval: 100ms\n    poll_timeout: 100ms\n    redis: {{ addr: \"{url}\" }}\n"
    );
    let exporter = Exporter::start_configured(&yaml);
    exporter.wait_for_metric(&of_node("stampede_redis_up", &redis), |up| up == 1.0);
    redis.kill();
    exporter.wait_for_metric(&of_node("stampede_redis_up", &redis), |up| up == 0.0);
    let series = || {
        let page = exporter.get("/metrics").body;
        let names = page.lines().filter(|line| !line.starts_with('#'));
        names.filter_map(|l| Some(l.rsplit_once(' ')?.0.to_owned())).collect::<Vec<_>>()
    };
    let before = series();
    let polls = exporter.metric(r#"stampede_redis_polls_total{cache="default"}"#).unwrap();
    exporter
        .wait_for_metric(r#"stampede_redis_polls_total{cache="default"}"#, |n| n > polls + 20.0);
    assert_eq!(series(), before);
}
