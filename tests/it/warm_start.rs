//! The first start on a new machine, with a Prometheus that knows the exporter from before.

use std::net::TcpListener;
use std::time::Duration;

use crate::support::exporter::Exporter;
use crate::support::prometheus::{PASSWORD, Prometheus, USER, number};
use crate::support::redis::Redis;
use crate::support::shop::Shop;
use crate::support::{wait_for, wait_for_within};

const READY: &str = "stampede_miss_baseline_ready{cache=\"a \\\"shop\\\"\"}";
const ACTIVE: &str = "stampede_active{cache=\"a \\\"shop\\\"\"}";
const POLLS: &str = "stampede_redis_polls_total{cache=\"a \\\"shop\\\"\"}";

/// Polls of 250 ms until a baseline is ready that was learned by watching alone.
const WARM_UP_POLLS: f64 = 20.0;

/// A shop's exporter, with something more at the top of its configuration.
fn start(redis: &Redis, shop: &Shop, more: &str) -> Exporter {
    Exporter::start_configured(&format!(
        "{more}\ncaches:\n  - name: 'a \"shop\"'\n    poll_interval: 250ms\n    \
         redis: {{ addr: '{}' }}\n    apps: [{{ name: web, url: '{}' }}]\n    \
         detector: {{ warm_up: 5s }}\n",
        redis.url(),
        shop.url()
    ))
}

#[test]
fn a_new_machine_knows_what_is_normal_and_what_was_a_stampede() {
    let redis = Redis::start();
    let mut shop = Shop::open(&redis);
    let before = start(&redis, &shop, "");
    let prometheus = Prometheus::guarded(before.port);
    // Two points of five seconds at the least, before the stampede and in it.
    for (strikes, state) in [(false, 0), (true, 1)] {
        if strikes {
            wait_for("a baseline", || {
                shop.step();
                before.metric(READY).filter(|ready| *ready == 1.0)
            });
            shop.front_page_loads = false;
            shop.expire_front_page();
        }
        let seen = format!("count_over_time((stampede_active == {state})[5m:1s])");
        wait_for_within(Duration::from_secs(60), &seen, || {
            shop.step();
            let series = prometheus.query(&seen);
            number(&series.first()?["value"][1]).filter(|seen| *seen >= 25.0)
        });
    }
    drop(before);

    let password = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(password.path(), format!("{PASSWORD}\n")).unwrap();
    let after = start(
        &redis,
        &shop,
        &format!(
            "warm_start: {{ prometheus: 'http://127.0.0.1:{}', username: {USER}, password_file: '{}' }}",
            prometheus.port,
            password.path().display()
        ),
    );
    let page = wait_for("a baseline", || {
        shop.step();
        let page = after.get("/metrics").body;
        page.contains(&format!("{READY} 1")).then_some(page)
    });
    let value = |series: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap_or_else(|| panic!("{series}:\n{page}")).trim().parse().unwrap()
    };
    assert!(value(POLLS) < WARM_UP_POLLS, "{}", after.log());
    assert!(after.log().contains("learned from the history in Prometheus"), "{}", after.log());
    // The stampede runs on, and is one still: three in ten lookups miss instead of one in a hundred.
    wait_for("the stampede is seen", || {
        shop.step();
        after.metric(ACTIVE).filter(|active| *active == 1.0)
    });
    let rate =
        |name: &str| after.metric(&format!("{name}{{cache=\"a \\\"shop\\\"\",source=\"app\"}}"));
    let usual = rate("stampede_miss_baseline_per_second").unwrap();
    let lookups = rate("stampede_lookups_per_second").unwrap();
    assert!(usual < 0.03 * lookups, "{usual} of {lookups}");
}

#[test]
fn a_prometheus_that_is_of_no_use_is_said_once_and_waited_for_by_nobody() {
    let redis = Redis::start();
    let mut shop = Shop::open(&redis);
    // One that refuses, one that never answers, and one that is none.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [
        "http://127.0.0.1:1".to_owned(),
        format!("http://{}", silent.local_addr().unwrap()),
        shop.url(),
    ];
    let exporters = addresses
        .map(|url| start(&redis, &shop, &format!("warm_start: {{ prometheus: '{url}' }}")));
    for exporter in &exporters {
        wait_for("a baseline of its own", || {
            shop.step();
            exporter.metric(READY).filter(|ready| *ready == 1.0)
        });
    }
    let [refuses, silent, none] = exporters;
    assert!(
        none.log().contains("no warm start: no answer of a Prometheus server"),
        "{}",
        none.log()
    );
    // The other two may be about to start.
    for (exporter, reason) in [(refuses, "Connection refused"), (silent, "timed out")] {
        assert!(!exporter.log().contains("no warm start"), "{}", exporter.log());
        wait_for_within(Duration::from_secs(60), "it gives up", || {
            exporter.log().contains("no warm start").then_some(())
        });
        let log = exporter.log();
        assert_eq!(log.matches("no warm start").count(), 1, "{log}");
        assert!(log.contains(reason), "{log}");
    }
}

#[test]
fn a_saved_state_that_is_ready_needs_no_prometheus() {
    let redis = Redis::start();
    let mut shop = Shop::open(&redis);
    let dir = tempfile::tempdir().unwrap();
    let more = format!(
        "state: {{ dir: '{}' }}\nwarm_start: {{ prometheus: 'http://127.0.0.1:1' }}",
        dir.path().display()
    );
    let mut before = start(&redis, &shop, &more);
    wait_for("a baseline", || {
        shop.step();
        before.metric(READY).filter(|ready| *ready == 1.0)
    });
    before.signal("TERM");
    before.wait_for_exit();
    let after = start(&redis, &shop, &more);
    after.wait_for_metric(READY, |ready| ready == 1.0);
    after.wait_for_metric(POLLS, |polls| polls >= 8.0);
    assert!(!after.log().contains("warm start"), "{}", after.log());
}
