//! The whole product on real load: a real redis-server, an instrumented service, the exporter as a
//! process, and what it says.

use std::time::Duration;

use stampede_exporter::config::{RedisAddress, RedisConfig};
use stampede_exporter::drill::stage::{Stage, Traffic};
use stampede_exporter::drill::{ForeignData, Options, Protections, Scenario, Target};

use super::support::exporter::Exporter;
use super::support::redis::Redis;
use super::support::wait_for;

/// Polls that a test lets pass where nothing may happen: ten seconds of the product's time.
const QUIET_POLLS: f64 = 40.0;

/// A service under load and the exporter that watches it, four times a second.
struct Scene {
    exporter: Exporter,
    redis: Redis,
    // Dropping these ends the load and the page.
    _traffic: Traffic,
    _stage: Stage,
    _runtime: tokio::runtime::Runtime,
}

impl Scene {
    /// 500 requests a second, 30 % of them for one key whose load takes 3 s, warmed up. A machine
    /// that also builds holds that much.
    fn start(protections: &str) -> Scene {
        let redis = Redis::start();
        let protections: Protections = protections.parse().unwrap();
        let address = RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port: redis.port };
        let server = RedisConfig { address, username: None, password: None, tls: None };
        let options = Options {
            scenario: Scenario::HotKey,
            target: Target::Given { server, foreign: ForeignData::Refuse },
            protections: vec![protections.clone()],
            rate: 500.0,
            keys: 500,
            hot_share: 0.3,
            // Longer than any test: entries run out when the test says so.
            duration: Duration::from_secs(600),
            ttl: Duration::from_secs(600),
            load_time: Duration::from_millis(20),
            hot_load_time: Some(Duration::from_secs(3)),
            pool: 5000,
            ..Options::default()
        };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (stage, traffic) = runtime.block_on(async {
            let stage = Stage::open(&options).await.unwrap();
            stage.fill(&protections).await.unwrap();
            let traffic = stage.load(&protections).unwrap();
            (stage, traffic)
        });
        let exporter = Exporter::start_configured(&format!(
            "caches:\n  - name: drill\n    poll_interval: 250ms\n    redis: {{ addr: '{}' }}\n    \
             detector: {{ warm_up: 5s }}\n    apps: [{{ name: service, url: '{}' }}]\n",
            redis.url(),
            stage.page_url(),
        ));
        exporter.wait_for_metric("stampede_miss_baseline_ready{cache=\"drill\"}", |v| v == 1.0);
        Scene { exporter, redis, _traffic: traffic, _stage: stage, _runtime: runtime }
    }

    /// Lets the hot key run out.
    fn expire_the_hot_key(&self) {
        let keys = self.redis.cli(&["--scan", "--pattern", "*:0"]);
        assert_eq!(self.redis.cli(&["PEXPIRE", &keys, "1"]), "1", "{keys}");
    }

    fn active(&self) -> bool {
        self.exporter.metric("stampede_active{cache=\"drill\"}") == Some(1.0)
    }

    fn polls(&self) -> f64 {
        self.exporter.metric("stampede_redis_polls_total{cache=\"drill\"}").unwrap()
    }

    /// Incidents so far, over all causes.
    fn incidents(&self) -> f64 {
        self.of_cause("stampede_incidents_total").iter().map(|(_, count)| count).sum()
    }

    /// The causes with a value above zero.
    fn of_cause(&self, metric: &str) -> Vec<(String, f64)> {
        let page = self.exporter.get("/metrics").body;
        let prefix = format!("{metric}{{cache=\"drill\",cause=\"");
        let series = page.lines().filter_map(|line| {
            let (cause, value) = line.strip_prefix(&prefix)?.split_once("\"} ")?;
            Some((cause.to_owned(), value.parse::<f64>().ok()?))
        });
        series.filter(|(_, value)| *value > 0.0).collect()
    }

    fn wait_for_polls(&self, polls: f64) {
        let until = self.polls() + polls;
        wait_for("polls", || (self.polls() >= until).then_some(()));
    }
}

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
