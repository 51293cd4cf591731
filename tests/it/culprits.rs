//! The keys to blame, on a real server: named in time, and the server's setting put back whatever
//! happens to the exporter.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use stampede_exporter::clock::Clock;
use stampede_exporter::config::{RedisAddress, RedisConfig};
use stampede_exporter::source::redis::Tracker;
use stampede_exporter::state::Place;

use crate::support::exporter::Exporter;
use crate::support::fake::{Fake, Relay};
use crate::support::page::Page;
use crate::support::redis::Redis;
use crate::support::{PATIENCE, wait_for, wait_for_within};

const ACTIVE: &str = "stampede_active{cache=\"shop\"}";
const READY: &str = "stampede_miss_baseline_ready{cache=\"shop\"}";
const LOOKUPS: &str = "stampede_ttl_sampler_lookups_total{cache=\"shop\"}";

/// Keys of customers in the cache.
const CUSTOMERS: u64 = 5000;
/// Lookups of one step.
const STEP: u64 = 50;

/// Clients of a cache: three lookups in ten are for one popular key, one in a hundred for a key
/// that does not exist.
struct Crowd {
    wire: BufReader<TcpStream>,
    lookups: u64,
    /// Whether the popular key is written back after a load.
    front_loads: bool,
    /// Whether the others are.
    others_load: bool,
}

impl Crowd {
    fn gather(redis: &Redis, greeting: Option<&str>) -> Crowd {
        let wire = TcpStream::connect(("127.0.0.1", redis.port)).unwrap();
        let mut crowd =
            Crowd { wire: BufReader::new(wire), lookups: 0, front_loads: true, others_load: true };
        crowd.exchange(&greeting.map(str::to_owned).into_iter().collect::<Vec<_>>());
        let mut fill: Vec<String> =
            (0..CUSTOMERS).map(|n| format!("SET user:{n}:profile x EX 600")).collect();
        fill.push("SET front x".to_owned());
        crowd.exchange(&fill);
        crowd
    }

    /// Goes on at another server.
    fn move_to(&mut self, redis: &Redis) {
        self.wire = BufReader::new(TcpStream::connect(("127.0.0.1", redis.port)).unwrap());
    }

    fn step(&mut self) {
        let keys: Vec<String> = (0..STEP).map(|_| self.next_key()).collect();
        let gets: Vec<String> = keys.iter().map(|key| format!("GET {key}")).collect();
        let found = self.exchange(&gets);
        let loads = keys.iter().zip(found).filter(|(key, found)| {
            let loads = if *key == "front" { self.front_loads } else { self.others_load };
            !found && !key.starts_with("absent") && loads
        });
        let mut sets: Vec<String> = loads.map(|(key, _)| format!("SET {key} x EX 600")).collect();
        // An entry of a moment, so that there is always something new.
        sets.push(format!("SET moment:{} x PX 300", self.lookups));
        self.exchange(&sets);
    }

    fn next_key(&mut self) -> String {
        self.lookups += 1;
        match self.lookups {
            n if n % 100 == 99 => format!("absent:{n}"),
            n if n % 10 < 3 => "front".to_owned(),
            n => format!("user:{}:profile", n * 7919 % CUSTOMERS),
        }
    }

    /// Sends commands together and says of each answer whether it is something.
    fn exchange(&mut self, commands: &[String]) -> Vec<bool> {
        let text: String = commands.iter().map(|command| format!("{command}\r\n")).collect();
        self.wire.get_mut().write_all(text.as_bytes()).unwrap();
        let mut answer = || {
            let mut head = String::new();
            self.wire.read_line(&mut head).unwrap();
            let head = head.trim_end();
            assert!(!head.starts_with('-'), "{head}");
            match head.strip_prefix('$').map(|length| length.parse::<i64>().unwrap()) {
                Some(-1) => false,
                Some(length) => {
                    let mut body = vec![0; length as usize + 2];
                    self.wire.read_exact(&mut body).unwrap();
                    true
                }
                None => true,
            }
        };
        commands.iter().map(|_| answer()).collect()
    }
}

/// A crowd in front of a server, and where its exporter keeps things.
struct Scene {
    redis: Redis,
    crowd: Crowd,
    dir: tempfile::TempDir,
    login: &'static str,
    /// The port at which the exporter finds the server, where it is not its own.
    at: Option<u16>,
}

impl Scene {
    fn new() -> Scene {
        let redis = Redis::start();
        let crowd = Crowd::gather(&redis, None);
        Scene { redis, crowd, dir: tempfile::tempdir().unwrap(), login: "", at: None }
    }

    fn behind_a_password() -> Scene {
        let mut redis = Redis::start_with(&["--requirepass", "pw"]);
        redis.cli_args = ["-a", "pw", "--no-auth-warning"].map(str::to_owned).to_vec();
        let crowd = Crowd::gather(&redis, Some("AUTH pw"));
        Scene { redis, crowd, dir: tempfile::tempdir().unwrap(), login: ":pw@", at: None }
    }

    fn start(&self, culprits: &str) -> Exporter {
        self.configure(culprits);
        Exporter::start(&["--config.file", &self.config_file().display().to_string()])
    }

    fn config_file(&self) -> PathBuf {
        self.dir.path().join("stampede.yml")
    }

    fn configure(&self, culprits: &str) {
        let text = format!(
            "state: {{ dir: '{dir}', save_interval: 1s }}\n\
             caches:\n  - name: shop\n    poll_interval: 250ms\n    \
             redis: {{ addr: 'redis://{login}127.0.0.1:{port}' }}\n    \
             detector: {{ warm_up: 5s }}\n    culprits: {culprits}\n",
            dir = self.dir.path().display(),
            login = self.login,
            port = self.at.unwrap_or(self.redis.port),
        );
        std::fs::write(self.config_file(), text).unwrap();
    }

    fn setting(&self) -> String {
        let answer = self.redis.cli(&["CONFIG", "GET", "notify-keyspace-events"]);
        answer.lines().nth(1).unwrap_or_default().to_owned()
    }

    fn set(&self, setting: &str) -> String {
        let answer = self.redis.cli(&["CONFIG", "SET", "notify-keyspace-events", setting]);
        assert_eq!(answer, "OK");
        self.setting()
    }

    /// Whether the server sends `new` for a key before it sends `set`.
    fn announces_new_keys(&self) -> bool {
        let mut wire = TcpStream::connect(("127.0.0.1", self.redis.port)).unwrap();
        wire.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut heard = BufReader::new(wire.try_clone().unwrap()).lines();
        wire.write_all(b"SUBSCRIBE __keyevent@0__:new __keyevent@0__:set\r\n").unwrap();
        let key = format!("fresh:{}", self.crowd.lookups);
        wait_for("the subscription", || (heard.next()?.ok()? == ":2").then_some(()));
        self.redis.cli(&["SET", &key, "x", "PX", "300"]);
        let mut channel = String::new();
        wait_for("an event of the key", || {
            let line = heard.next()?.ok()?;
            if line.starts_with("__keyevent@0__:") {
                channel = line;
                return None;
            }
            (line == key).then(|| channel.ends_with(":new"))
        })
    }

    fn is_tracked(&self) -> bool {
        ['E', 'm'].iter().all(|flag| self.setting().contains(*flag))
    }

    /// Whether the server's setting is noted as one to be put back.
    fn is_noted(&self) -> bool {
        self.dir.path().join("shop.notify.json").exists()
    }

    /// Lets the crowd go on until something is so.
    fn until(&mut self, what: &str, is_so: impl Fn(&Scene) -> bool) {
        wait_for(what, || {
            self.crowd.step();
            is_so(self).then_some(())
        });
    }

    fn warm_up(&mut self, exporter: &Exporter) {
        self.until("the baseline", |_| exporter.metric(READY) == Some(1.0));
    }

    /// Everyone misses the popular key from now on.
    fn strike(&mut self, exporter: &Exporter) {
        self.crowd.front_loads = false;
        self.redis.cli(&["PEXPIRE", "front", "1"]);
        self.until("the verdict", |_| exporter.metric(ACTIVE) == Some(1.0));
    }

    /// The first suspect of the only incident, as soon as there is one, within `limit`.
    fn first_suspect(&mut self, exporter: &Exporter, limit: Duration) -> Value {
        wait_for_within(limit, "a suspect", || {
            self.crowd.step();
            let body = exporter.get("/api/v1/incidents").body;
            let incidents: Value = serde_json::from_str(&body).unwrap();
            let first = incidents[0]["suspects"][0].clone();
            (!first.is_null()).then_some(first)
        })
    }

    fn capability(&self, exporter: &Exporter) -> Option<f64> {
        let node = format!("127.0.0.1:{}", self.redis.port);
        exporter.metric(&format!(
            "stampede_redis_capability{{cache=\"shop\",node=\"{node}\",command=\"keymiss\"}}"
        ))
    }
}

#[test]
fn a_hot_key_is_named_within_five_seconds() {
    let mut scene = Scene::new();
    let before = scene.setting();
    let exporter = scene.start("{ notifications: true }");
    scene.warm_up(&exporter);
    assert_eq!(scene.setting(), before, "not touched without a reason");
    scene.strike(&exporter);
    let suspect = scene.first_suspect(&exporter, Duration::from_secs(5));
    assert_eq!(
        (&suspect["pattern"], &suspect["example"], &suspect["source"]),
        (&"front".into(), &Value::Null, &"missed".into())
    );
    let share = suspect["share"].as_f64().unwrap();
    // Thirty lookups in a hundred miss the key, one misses something else.
    assert!((0.9..=1.0).contains(&share), "{suspect}");

    assert!(scene.is_tracked() && scene.is_noted(), "{}", exporter.log());
    assert_eq!(scene.capability(&exporter), Some(1.0));
    let polls = || exporter.metric("stampede_redis_polls_total{cache=\"shop\"}").unwrap();
    // What was asked before is on the page a second later at the latest.
    let from = polls();
    scene.until("a second", |_| polls() >= from + 6.0);
    let asked = exporter.metric(LOOKUPS);
    scene.until("two more", |_| polls() >= from + 14.0);
    assert_eq!(exporter.metric(LOOKUPS), asked, "its own lookups would be misses too");

    let cause = "stampede_cause{cache=\"shop\",cause=\"hot_key\"}";
    scene.until("the cause", |_| exporter.metric(cause) == Some(1.0));
    assert!(exporter.log().contains("suspect"), "{}", exporter.log());
    assert!(!exporter.get("/metrics").body.contains("front"), "a key is never a label");

    scene.crowd.front_loads = true;
    scene.until("the end", |_| exporter.metric(ACTIVE) == Some(0.0));
    scene.until("the setting is put back", |scene| !scene.is_noted());
    assert_eq!(scene.setting(), before);
    // The key has no name in the configuration, so it is watched under a number.
    scene.until("it is watched", |_| {
        exporter.get("/api/v1/caches").body.contains("\"watch\":\"suspect 1\",\"exists\":true")
    });
}

/// The second stampede of a key comes as no surprise, whichever database it is in.
#[test]
fn a_culprit_is_watched_in_its_own_database() {
    let mut redis = Redis::start();
    redis.cli_args = ["-n", "3"].map(str::to_owned).to_vec();
    let crowd = Crowd::gather(&redis, Some("SELECT 3"));
    let mut scene = Scene { redis, crowd, dir: tempfile::tempdir().unwrap(), login: "", at: None };
    let exporter = scene.start("{ notifications: true }");
    scene.warm_up(&exporter);
    scene.strike(&exporter);
    let suspect = scene.first_suspect(&exporter, Duration::from_secs(5));
    assert_eq!(suspect["pattern"], "front", "{suspect}");
    scene.crowd.front_loads = true;
    scene.until("it is watched", |_| {
        exporter.get("/api/v1/caches").body.contains("\"watch\":\"suspect 1\",\"exists\":true")
    });
    let ttl = "stampede_watched_key_ttl_seconds{cache=\"shop\",watch=\"suspect 1\"}";
    scene.until("its deadline is known", |_| {
        exporter.metric(ttl).is_some_and(|seconds| (500.0..=600.0).contains(&seconds))
    });
    let keys =
        format!("stampede_redis_keys{{cache=\"shop\",node=\"127.0.0.1:{}\"}}", scene.redis.port);
    assert!(exporter.metric(&keys).is_some_and(|keys| keys >= 5000.0), "INFO is still of all");
}

/// A replica that was promoted in another one's place: it has run for longer, and knows less.
#[test]
fn a_failover_to_a_server_that_knows_half_is_a_cold_start() {
    let (standby, mut scene) = (Redis::start(), Scene::new());
    let script = "for n = 0, tonumber(ARGV[1]) do \
                  redis.call('SET', 'user:' .. n .. ':profile', 'x', 'EX', 600) end";
    standby.cli(&["EVAL", script, "0", &(CUSTOMERS / 2).to_string()]);
    let relay = Relay::to(scene.redis.port);
    scene.at = Some(relay.port);
    let exporter = scene.start("{}");
    scene.warm_up(&exporter);
    relay.switch(standby.port);
    scene.crowd.move_to(&standby);
    scene.until("the verdict", |_| exporter.metric(ACTIVE) == Some(1.0));
    let incidents = |cause| {
        exporter.metric(&format!("stampede_incidents_total{{cache=\"shop\",cause=\"{cause}\"}}"))
    };
    scene.until("it is settled", |_| incidents("cold_start") == Some(1.0));
    let changes = format!(
        "stampede_redis_counter_resets_total{{cache=\"shop\",node=\"127.0.0.1:{}\",reason=\"node_change\"}}",
        relay.port
    );
    assert_eq!(exporter.metric(&changes), Some(1.0));
}

#[test]
fn a_wave_is_named_by_what_its_keys_share() {
    let mut scene = Scene::new();
    let exporter = scene.start("{ notifications: true }");
    scene.warm_up(&exporter);
    let script = "for n = 0, tonumber(ARGV[1]) - 1 do \
                  redis.call('PEXPIRE', 'user:' .. n .. ':profile', 1) end";
    scene.redis.cli(&["EVAL", script, "0", &CUSTOMERS.to_string()]);
    scene.until("the verdict", |_| exporter.metric(ACTIVE) == Some(1.0));
    let suspect = scene.first_suspect(&exporter, Duration::from_secs(10));
    assert_eq!(suspect["pattern"], "user:*:profile");
    let example = suspect["example"].as_str().unwrap();
    assert!(example.starts_with("user:") && example.ends_with(":profile"), "{suspect}");
    assert!(suspect["share"].as_f64().unwrap() > 0.8, "{suspect}");
}

/// Fills the cache with as many keys again that nobody asks for, and waits until the sampler has
/// seen some thousand lookups more than it has.
fn sampled_among_others(scene: &mut Scene, exporter: &Exporter) {
    let script = "for n = 1, tonumber(ARGV[1]) do \
                  redis.call('SET', 'session:' .. n, 'x', 'EX', 600) end";
    scene.redis.cli(&["EVAL", script, "0", &CUSTOMERS.to_string()]);
    let asked = exporter.metric(LOOKUPS).unwrap();
    scene.until("a sample", |_| exporter.metric(LOOKUPS).unwrap() >= asked + 1000.0);
}

fn is_customers(suspect: &Value) {
    assert_eq!(
        (&suspect["pattern"], &suspect["source"]),
        (&"user:*:profile".into(), &"sampled".into())
    );
    let example = suspect["example"].as_str().unwrap();
    assert!(example.starts_with("user:") && example.ends_with(":profile"), "{suspect}");
    assert!(suspect["share"].as_f64().unwrap() > 0.9, "{suspect}");
}

#[test]
fn a_wave_is_named_by_its_deadlines_where_the_server_is_not_asked() {
    let mut scene = Scene::new();
    let before = scene.setting();
    let exporter = scene.start("{}");
    scene.warm_up(&exporter);
    // All in twenty seconds: half of that is left when the sampler has seen enough of them.
    let script = "local t = redis.call('TIME') for n = 0, tonumber(ARGV[1]) - 1 do \
                  redis.call('EXPIREAT', 'user:' .. n .. ':profile', t[1] + 20) end";
    scene.redis.cli(&["EVAL", script, "0", &CUSTOMERS.to_string()]);
    sampled_among_others(&mut scene, &exporter);
    assert_eq!(exporter.metric(ACTIVE), Some(0.0), "{}", exporter.log());
    scene.until("the verdict", |_| exporter.metric(ACTIVE) == Some(1.0));
    is_customers(&scene.first_suspect(&exporter, Duration::from_secs(10)));
    assert!(exporter.log().contains("source=\"sampled\""), "{}", exporter.log());
    assert!(exporter.get("/").body.contains("of the sampled keys that went just then"));
    assert_eq!(scene.setting(), before, "nobody allowed to change it");
}

#[test]
fn a_purge_is_named_by_asking_for_the_keys_again() {
    let mut scene = Scene::new();
    let exporter = scene.start("{}");
    scene.warm_up(&exporter);
    sampled_among_others(&mut scene, &exporter);
    scene.crowd.others_load = false;
    let script = "for n = 0, tonumber(ARGV[1]) - 1 do \
                  redis.call('DEL', 'user:' .. n .. ':profile') end";
    scene.redis.cli(&["EVAL", script, "0", &CUSTOMERS.to_string()]);
    scene.until("the verdict", |_| exporter.metric(ACTIVE) == Some(1.0));
    is_customers(&scene.first_suspect(&exporter, Duration::from_secs(10)));
}

/// One key is nothing that a sample sees; then nobody is blamed rather than whoever went by chance.
#[test]
fn a_hot_key_has_no_name_where_the_server_is_not_asked() {
    let mut scene = Scene::new();
    let exporter = scene.start("{}");
    scene.warm_up(&exporter);
    scene.strike(&exporter);
    let cause = "stampede_cause{cache=\"shop\",cause=\"hot_key\"}";
    scene.until("the cause", |_| exporter.metric(cause) == Some(1.0));
    let incidents = "stampede_incidents_total{cache=\"shop\",cause=\"hot_key\"}";
    scene.until("it is settled", |_| exporter.metric(incidents) == Some(1.0));
    let body = exporter.get("/api/v1/incidents").body;
    let incidents: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(incidents[0]["suspects"], serde_json::json!([]), "{}", exporter.log());
}

#[test]
fn the_applications_name_the_group_whose_misses_rose() {
    let page = Page::start("");
    let scene = Scene::new();
    let app =
        format!("{{}}\n    apps: [{{ name: web, url: '{}', group_label: keyspace }}]", page.url());
    let exporter = scene.start(&app);
    let (mut hits, mut sessions, mut products) = (0, 0, 0);
    let mut serve = |struck: bool| {
        hits += 100;
        sessions += 3;
        products += if struck { 60 } else { 1 };
        page.set(&format!(
            "cache_hits_total {hits}\ncache_misses_total{{keyspace=\"session\"}} {sessions}\n\
             cache_misses_total{{keyspace=\"product\",shard=\"1\"}} {products}\n\
             cache_misses_total{{keyspace=\"product\",shard=\"2\"}} {products}\n"
        ));
    };
    wait_for("the baseline", || {
        serve(false);
        (exporter.metric(READY) == Some(1.0)).then_some(())
    });
    let suspect = wait_for_within(Duration::from_secs(10), "a suspect", || {
        serve(true);
        let body = exporter.get("/api/v1/incidents").body;
        let incidents: Value = serde_json::from_str(&body).unwrap();
        let first = incidents[0]["suspects"][0].clone();
        (!first.is_null()).then_some(first)
    });
    assert_eq!(
        (&suspect["pattern"], &suspect["source"], &suspect["example"]),
        (&"product".into(), &"app".into(), &Value::Null)
    );
    assert!(suspect["share"].as_f64().unwrap() > 0.9, "{suspect}");
    assert!(exporter.get("/").body.contains("of the extra misses"));
    assert!(!exporter.get("/metrics").body.contains("product"), "a group is never a label");
}

#[test]
fn names_can_be_hidden() {
    let mut scene = Scene::behind_a_password();
    let exporter = scene.start("{ notifications: true, hash_keys: true }");
    scene.warm_up(&exporter);
    scene.strike(&exporter);
    let suspect = scene.first_suspect(&exporter, Duration::from_secs(5));
    let pattern = suspect["pattern"].as_str().unwrap();
    assert!(pattern.len() == 17 && pattern.starts_with('#'), "{suspect}");
    assert_eq!(suspect["example"], Value::Null);
    scene.until("it is on the page", |_| exporter.get("/").body.contains(pattern));
    for text in [exporter.get("/").body, exporter.get("/api/v1/incidents").body, exporter.log()] {
        assert!(!text.contains("front") && !text.contains("user:"), "{text}");
    }
}

/// Misses as fast as the server can, for a minute at the least.
struct Flood(Child);

impl Flood {
    fn start(redis: &Redis) -> Flood {
        let port = redis.port.to_string();
        let load = ["-p", &port, "-n", "1000000000", "-r", "1000000000", "-P", "16", "-c", "4"];
        let child = Command::new("redis-benchmark")
            .args(load)
            .args(["-q", "GET", "absent:__rand_int__"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-benchmark; `make tools` installs what the tests need");
        Flood(child)
    }

    fn goes_on(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_flood_ends_the_look_before_its_time() {
    let mut scene = Scene::new();
    let before = scene.setting();
    let exporter = scene.start("{ notifications: true }");
    scene.warm_up(&exporter);
    let mut flood = Flood::start(&scene.redis);
    wait_for("the verdict", || (exporter.metric(ACTIVE) == Some(1.0)).then_some(()));
    let started: f64 = {
        let series = "stampede_incident_start_timestamp_seconds{cache=\"shop\"}";
        exporter.wait_for_metric(series, |start| start > 0.0)
    };
    wait_for("the setting is changed", || exporter.log().contains("changed, for").then_some(()));
    wait_for("the setting is put back", || (!scene.is_noted()).then_some(()));
    let node = format!("127.0.0.1:{}", scene.redis.port);
    let answered = exporter
        .metric(&format!(
            "stampede_redis_last_success_timestamp_seconds{{cache=\"shop\",node=\"{node}\"}}"
        ))
        .unwrap();
    assert!(answered - started < 25.0, "a look takes thirty seconds: {}", answered - started);
    assert!(flood.goes_on() && exporter.metric(ACTIVE) == Some(1.0), "{}", exporter.log());
    assert_eq!(scene.setting(), before);
    let suspect = scene.first_suspect(&exporter, Duration::from_secs(5));
    assert_eq!(suspect["pattern"], "absent:*");
}

/// One warm-up serves all the ways in which tracking ends: the incident goes on over the restarts.
#[test]
fn the_setting_is_put_back_whatever_happens() {
    const ON: &str = "{ notifications: true }";
    const OFF: &str = "{}";
    let mut scene = Scene::new();
    let before = scene.set("Kgx");
    let mut exporter = scene.start(ON);
    scene.warm_up(&exporter);
    scene.strike(&exporter);

    scene.until("tracked", Scene::is_tracked);
    exporter.signal("TERM");
    assert_eq!(exporter.wait_for_exit(), Some(0));
    assert_eq!((scene.setting(), scene.is_noted()), (before.clone(), false), "after SIGTERM");

    exporter = scene.start(ON);
    scene.until("tracked again", |scene| scene.is_tracked() && scene.is_noted());
    exporter.signal("KILL");
    drop(exporter);
    assert!(scene.is_tracked(), "nobody was left to put it back");
    exporter = scene.start(OFF);
    scene.until("put back by the next one", |scene| !scene.is_noted());
    assert_eq!(scene.setting(), before, "after SIGKILL");
    drop(exporter);

    exporter = scene.start(ON);
    scene.until("tracked a third time", |scene| scene.is_tracked() && scene.is_noted());
    exporter.signal("KILL");
    drop(exporter);
    let theirs = scene.set("KEA");
    exporter = scene.start(OFF);
    scene.until("looked at by the next one", |scene| !scene.is_noted());
    assert_eq!(scene.setting(), theirs, "changed by somebody else after SIGKILL");
    assert_eq!(scene.capability(&exporter), Some(0.0), "it is off");
    drop(exporter);

    // The server writes A for this, and leaves the n out.
    let before = scene.set("KEAn");
    assert_eq!((before.contains('n'), scene.announces_new_keys()), (false, true));
    exporter = scene.start(ON);
    scene.until("tracked a fourth time", |scene| scene.is_tracked() && scene.is_noted());
    exporter.signal("TERM");
    assert_eq!(exporter.wait_for_exit(), Some(0));
    assert_eq!((scene.setting(), scene.announces_new_keys()), (before, true));
    scene.set("KEA");
    assert!(!scene.announces_new_keys());

    let before = scene.setting();
    exporter = scene.start(ON);
    scene.until("tracked before a reload", |scene| scene.is_tracked() && scene.is_noted());
    scene.configure(OFF);
    exporter.signal("HUP");
    scene.until("the reload", |_| exporter.log().contains("configuration reloaded"));
    assert_eq!((scene.setting(), scene.is_noted()), (before, false), "switched off by a reload");
    drop(exporter);

    // The server hangs when the exporter ends, and when the next one starts.
    let before = scene.setting();
    exporter = scene.start(ON);
    scene.until("tracked a fifth time", |scene| scene.is_tracked() && scene.is_noted());
    scene.redis.stop();
    exporter.signal("TERM");
    assert_eq!(exporter.wait_for_exit(), Some(0));
    assert!(scene.is_noted(), "left to the next one");
    exporter = scene.start(OFF);
    wait_for("it could not", || exporter.log().contains("not put back yet").then_some(()));
    scene.redis.cont();
    scene.until("put back when it answers", |scene| !scene.is_noted());
    assert_eq!(scene.setting(), before, "after a hang");
    drop(exporter);

    exporter = scene.start(ON);
    scene.until("tracked a sixth time", |scene| scene.is_tracked() && scene.is_noted());
    let theirs = scene.set("Ex");
    scene.until("noticed", |scene| !scene.is_noted());
    assert_eq!(scene.setting(), theirs, "changed by somebody else meanwhile");
    drop(exporter);
}

#[test]
fn a_server_that_refuses_costs_the_names_and_nothing_else() {
    let mut scene = Scene::new();
    let rules = ["on", ">pw", "~*", "+info", "+scan", "+pttl", "+select", "+config|get"];
    let answer = scene.redis.cli(&[&["ACL", "SETUSER", "watch"][..], &rules].concat());
    assert_eq!(answer, "OK");
    scene.login = "watch:pw@";
    let before = scene.setting();
    let exporter = scene.start("{ notifications: true }");
    scene.warm_up(&exporter);
    scene.strike(&exporter);
    scene.until("it is said", |_| exporter.log().contains("missed keys are not tracked"));
    assert!(exporter.log().contains("the server refused CONFIG SET: NOPERM"), "{}", exporter.log());
    assert_eq!(exporter.log().matches("not tracked").count(), 1, "{}", exporter.log());
    assert_eq!((scene.setting(), scene.is_noted()), (before, false));
    assert_eq!(scene.capability(&exporter), Some(0.0));
    let asked = exporter.metric(LOOKUPS).unwrap();
    scene.until("the sampler goes on", |_| exporter.metric(LOOKUPS).unwrap() > asked);
    scene.crowd.front_loads = true;
    scene.until("the end", |_| exporter.metric(ACTIVE) == Some(0.0));
}

/// Whatever a server says, a look ends, and nothing is found.
#[tokio::test]
async fn odd_answers_end_a_look() {
    let setting = b"*2\r\n$22\r\nnotify-keyspace-events\r\n$2\r\nEm\r\n";
    let answers: [&[u8]; 8] = [
        b"+huh\r\n",
        b"*0\r\n",
        b"*2\r\n$1\r\nx\r\n*0\r\n",
        b"*1000000000\r\n$1\r\nx\r\n",
        b"$-5\r\n",
        b"$99999999999999\r\nx",
        b"\xff\xfe\r\n",
        setting,
    ];
    let dir = tempfile::tempdir().unwrap();
    for answer in answers {
        let server = Fake::saying(answer);
        let address = RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port: server.port };
        let config = RedisConfig { address, username: None, password: None, tls: None };
        let place = Place::new(dir.path(), "odd", "notify");
        let (clock, limit) = (Clock::start(), Duration::from_millis(300));
        let mut tracker = Tracker::new(&config, limit, clock, place.clone());
        tracker.track_until(clock.now() + 1.0);
        assert!(tracker.is_tracking());
        let end = async {
            while tracker.is_tracking() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, end).await.expect("the look ends");
        assert_eq!(tracker.report(), None, "{}", answer.escape_ascii());
        tracker.end().await;
        assert!(!place.path().exists(), "nothing was changed: {}", answer.escape_ascii());
    }
}
