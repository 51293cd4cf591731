//! What outlives the process: learned baselines, the running incident, the file of incidents.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::exporter::Exporter;
use crate::support::redis::Redis;
use crate::support::shop::Shop;
use crate::support::{run, wait_for};

const READY: &str = "stampede_miss_baseline_ready{cache=\"shop\"}";
const ACTIVE: &str = "stampede_active{cache=\"shop\"}";
const POLLS: &str = "stampede_redis_polls_total{cache=\"shop\"}";

/// A shop and where its exporter keeps things.
struct Scene {
    redis: Redis,
    shop: Shop,
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let redis = Redis::start();
        let shop = Shop::open(&redis);
        Scene { redis, shop, dir: tempfile::tempdir().unwrap() }
    }

    fn start(&self) -> Exporter {
        self.configure("");
        Exporter::start(&["--config.file", &self.config_file().display().to_string()])
    }

    fn config_file(&self) -> PathBuf {
        self.dir.path().join("stampede.yml")
    }

    /// Writes the configuration, with something more about the cache.
    fn configure(&self, more: &str) {
        let text = format!(
            "state: {{ dir: '{dir}/state', save_interval: 1s }}\n\
             incidents: {{ file: '{dir}/log/incidents.jsonl' }}\n\
             caches:\n  - name: shop\n    poll_interval: 250ms\n    redis: {{ addr: '{redis}' }}\n    \
             apps: [{{ name: web, url: '{page}' }}]\n    detector: {{ warm_up: 5s }}\n{more}",
            dir = self.dir.path().display(),
            redis = self.redis.url(),
            page = self.shop.url(),
        );
        std::fs::write(self.config_file(), text).unwrap();
    }

    fn state_file(&self) -> PathBuf {
        self.dir.path().join("state/shop.state.json")
    }

    /// Lets customers come until a series has a value that fits.
    fn serve_until(&mut self, exporter: &Exporter, series: &str, fits: impl Fn(f64) -> bool) {
        wait_for(series, || {
            self.shop.step();
            exporter.metric(series).filter(|value| fits(*value))
        });
    }

    /// Everyone reloads the front page from now on.
    fn strike(&mut self, exporter: &Exporter) {
        self.shop.front_page_loads = false;
        self.shop.expire_front_page();
        self.serve_until(exporter, ACTIVE, |active| active == 1.0);
    }

    fn incident_lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.path().join("log/incidents.jsonl"));
        text.unwrap_or_default().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// The values of several series on the first page that shows a poll.
fn first_page(exporter: &Exporter, series: &[&str]) -> Vec<Option<f64>> {
    wait_for("a page with a poll", || {
        let page = exporter.get("/metrics").body;
        let value = |series: &str| {
            page.lines().find_map(|line| line.strip_prefix(series)?.trim().parse::<f64>().ok())
        };
        value(POLLS).filter(|polls| *polls > 0.0)?;
        Some(series.iter().map(|series| value(series)).collect())
    })
}

fn only_incident(exporter: &Exporter) -> Value {
    let body = exporter.get("/api/v1/incidents").body;
    match serde_json::from_str(&body).unwrap() {
        Value::Array(mut all) if all.len() == 1 => all.remove(0),
        other => panic!("one incident: {other}"),
    }
}

#[test]
fn a_disk_that_hangs_holds_up_nothing() {
    let mut scene = Scene::new();
    let log = scene.dir.path().join("log");
    std::fs::create_dir(&log).unwrap();
    // Who opens it to write waits for a reader, and none comes.
    let file = log.join("incidents.jsonl").display().to_string();
    assert!(run("mkfifo", &[&file]).status.success());
    let mut exporter = scene.start();
    scene.serve_until(&exporter, READY, |ready| ready == 1.0);
    scene.strike(&exporter);
    let polls = exporter.metric(POLLS).unwrap();
    exporter.wait_for_metric(POLLS, |now| now >= polls + 4.0);
    exporter.signal("TERM");
    assert_eq!(exporter.wait_for_exit(), Some(0));
    assert!(exporter.log().contains("the disk hangs"), "{}", exporter.log());
}

#[test]
fn a_restart_goes_on_with_the_same_incident() {
    let mut scene = Scene::new();
    let mut before = scene.start();
    scene.serve_until(&before, READY, |ready| ready == 1.0);
    scene.strike(&before);
    let incident = only_incident(&before);
    before.signal("TERM");
    assert_eq!(before.wait_for_exit(), Some(0));

    let after = scene.start();
    assert_eq!(first_page(&after, &[READY, ACTIVE]), [Some(1.0), Some(1.0)], "{}", after.log());
    let polls = after.metric(POLLS).unwrap();
    scene.serve_until(&after, POLLS, |now| now >= polls + 8.0);
    assert_eq!(after.metric(ACTIVE), Some(1.0), "it still runs");
    let goes_on = only_incident(&after);
    for field in ["started_at", "cause", "evidence", "baseline_misses_per_second"] {
        assert_eq!(goes_on[field], incident[field], "{field}");
    }
    let excess = |incident: &Value| incident["excess_misses"].as_f64().unwrap();
    assert!(excess(&goes_on) > excess(&incident), "it goes on counting");

    scene.shop.front_page_loads = true;
    scene.serve_until(&after, ACTIVE, |active| active == 0.0);
    let lines = scene.incident_lines();
    let told: Vec<_> =
        lines.iter().map(|l| (l["event"].as_str().unwrap(), &l["started_at"])).collect();
    assert_eq!(told, [("started", &incident["started_at"]), ("ended", &incident["started_at"])]);
    assert_eq!((&lines[0]["ended_at"], &lines[0]["cache"]), (&Value::Null, &"shop".into()));
    let ended = only_incident(&after);
    for (field, value) in ended.as_object().unwrap() {
        assert_eq!(&lines[1][field], value, "{field}: as the API says it");
    }
}

#[test]
fn a_reload_that_changes_the_cache_goes_on_with_the_incident() {
    let mut scene = Scene::new();
    let exporter = scene.start();
    scene.serve_until(&exporter, READY, |ready| ready == 1.0);
    scene.strike(&exporter);
    let (incident, before) = (only_incident(&exporter), exporter.metric(POLLS).unwrap());
    scene.configure("    window: 20s\n");
    exporter.signal("HUP");
    wait_for("the reload", || {
        scene.shop.step();
        exporter.log().contains("configuration reloaded").then_some(())
    });
    // The new monitor counts its polls anew.
    scene.serve_until(&exporter, POLLS, |polls| (8.0..before).contains(&polls));
    assert_eq!(exporter.metric(ACTIVE), Some(1.0));
    assert_eq!(only_incident(&exporter)["started_at"], incident["started_at"]);
    scene.shop.front_page_loads = true;
    scene.serve_until(&exporter, ACTIVE, |active| active == 0.0);
    let told: Vec<Value> = scene.incident_lines().iter().map(|l| l["event"].clone()).collect();
    assert_eq!(told, ["started", "ended"], "nothing twice, nothing lost");
}

#[test]
fn a_kill_loses_what_one_save_interval_holds() {
    let mut scene = Scene::new();
    let before = scene.start();
    scene.serve_until(&before, READY, |ready| ready == 1.0);
    let ready_at = before
        .metric(&format!(
            "stampede_redis_last_success_timestamp_seconds{{cache=\"shop\",node=\"127.0.0.1:{}\"}}",
            scene.redis.port
        ))
        .unwrap();
    let file = scene.state_file();
    wait_for("a save after the warm-up", || {
        scene.shop.step();
        let saved = json(&file)?["time"].as_f64()?;
        // The interval of one second, and a poll before and after it, on a slow machine.
        assert!(saved - ready_at < 5.0, "saved at {saved}, ready at {ready_at}");
        (saved > ready_at).then_some(())
    });
    before.signal("KILL");
    drop(before);
    let after = scene.start();
    assert_eq!(first_page(&after, &[READY]), [Some(1.0)], "{}", after.log());
}

#[test]
fn a_state_of_no_use_is_said_once_and_left() {
    let scene = Scene::new();
    let cases = [
        ("{\"version\":2,", "it is damaged"),
        ("\u{0}\u{1}", "it is damaged"),
        ("{\"version\":0}", "it has version 0"),
        ("{\"version\":2,\"cache\":\"shop\",\"time\":1.0,\"settled\":false}", "s old, more than"),
    ];
    for (text, reason) in cases {
        std::fs::create_dir_all(scene.state_file().parent().unwrap()).unwrap();
        std::fs::write(scene.state_file(), text).unwrap();
        let exporter = scene.start();
        assert_eq!(first_page(&exporter, &[READY, ACTIVE]), [Some(0.0), Some(0.0)], "{text}");
        wait_for("a save over it", || {
            json(&scene.state_file())?["time"].as_f64().filter(|time| *time > 1.0)
        });
        let log = exporter.log();
        assert_eq!(log.matches("state not used").count(), 1, "{log}");
        assert!(log.contains(reason), "{reason}: {log}");
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_said_once() {
    let mut scene = Scene::new();
    let refused = Exporter::start_configured(&format!(
        "caches: [{{ name: shop, redis: {{ addr: '{}' }} }}]\nstate: {{ dir: '/proc/none' }}\n\
         incidents: {{ file: '/proc/none/incidents.jsonl' }}\n",
        scene.redis.url()
    ));
    scene.serve_until(&refused, POLLS, |polls| polls >= 3.0);
    refused.signal("TERM");
    wait_for("the last save failed", || refused.log().contains("state not saved").then_some(()));
    assert_eq!(refused.log().matches("state not saved").count(), 1, "{}", refused.log());
}
