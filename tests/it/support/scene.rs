//! A service under the load of the drill, and the exporter as a process that watches it.

use std::time::Duration;

use stampede_exporter::config::{RedisAddress, RedisConfig};
use stampede_exporter::drill::stage::{Stage, Traffic};
use stampede_exporter::drill::{ForeignData, Options, Protections, Scenario, Target};
use tokio::sync::oneshot;

use super::exporter::Exporter;
use super::redis::Redis;
use super::{runtime, wait_for};

/// A service under load and the exporter that watches it, four times a second.
pub struct Scene {
    pub exporter: Exporter,
    pub redis: Redis,
    // Dropping these ends the load, the page and the thread of both.
    _traffic: Traffic,
    _stage: Stage,
    _end: oneshot::Sender<()>,
}

impl Scene {
    /// 500 requests a second, 30 % of them for one key whose load takes 3 s, warmed up. A machine
    /// that also builds holds that much.
    pub fn start(protections: &str) -> Scene {
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
        let (end, ended) = oneshot::channel();
        let (put_up, ready) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            runtime().block_on(async {
                let stage = Stage::open(&options).await.unwrap();
                let service = stage.service(&protections);
                stage.fill(&service).await.unwrap();
                let traffic = stage.load(service).unwrap();
                put_up.send((stage, traffic)).unwrap();
                let _ = ended.await;
            });
        });
        let (stage, traffic) = ready.recv().expect("the scene is put up");
        let exporter = Exporter::start_configured(&format!(
            "caches:\n  - name: drill\n    poll_interval: 250ms\n    redis: {{ addr: '{}' }}\n    \
             detector: {{ warm_up: 5s }}\n    apps: [{{ name: service, url: '{}' }}]\n",
            redis.url(),
            stage.page_url(),
        ));
        exporter.wait_for_metric("stampede_miss_baseline_ready{cache=\"drill\"}", |v| v == 1.0);
        Scene { exporter, redis, _traffic: traffic, _stage: stage, _end: end }
    }

    /// Lets the hot key run out.
    pub fn expire_the_hot_key(&self) {
        let keys = self.redis.cli(&["--scan", "--pattern", "*:0"]);
        assert_eq!(self.redis.cli(&["PEXPIRE", &keys, "1"]), "1", "{keys}");
    }

    pub fn active(&self) -> bool {
        self.exporter.metric("stampede_active{cache=\"drill\"}") == Some(1.0)
    }

    pub fn polls(&self) -> f64 {
        self.exporter.metric("stampede_redis_polls_total{cache=\"drill\"}").unwrap()
    }

    /// Incidents so far, over all causes.
    pub fn incidents(&self) -> f64 {
        self.of_cause("stampede_incidents_total").iter().map(|(_, count)| count).sum()
    }

    /// The causes with a value above zero.
    pub fn of_cause(&self, metric: &str) -> Vec<(String, f64)> {
        let page = self.exporter.get("/metrics").body;
        let prefix = format!("{metric}{{cache=\"drill\",cause=\"");
        let series = page.lines().filter_map(|line| {
            let (cause, value) = line.strip_prefix(&prefix)?.split_once("\"} ")?;
            Some((cause.to_owned(), value.parse::<f64>().ok()?))
        });
        series.filter(|(_, value)| *value > 0.0).collect()
    }

    pub fn wait_for_polls(&self, polls: f64) {
        let until = self.polls() + polls;
        wait_for("polls", || (self.polls() >= until).then_some(()));
    }
}
