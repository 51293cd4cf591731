use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use stampede_exporter::clock::Clock;
use stampede_exporter::config::{RedisAddress, RedisConfig, TtlConfig, TtlGroup};
use stampede_exporter::signal::ttl::TtlPicture;
use stampede_exporter::source::redis::{Node, Sampler};
use stampede_exporter::ttl_command::{self, Format, Options, TtlError};
use tokio::time::Instant;

use crate::support::PATIENCE;
use crate::support::redis::Redis;

/// A sampler at work on one server, with a poll every 200 ms.
struct Watch {
    clock: Clock,
    node: Node,
    sampler: Sampler,
}

impl Watch {
    fn new(redis: &Redis, keys_per_second: u32, groups: &[(&str, &str)]) -> Watch {
        let clock = Clock::start();
        let groups = groups
            .iter()
            .map(|(name, glob)| TtlGroup { name: Arc::from(*name), pattern: (*glob).into() })
            .collect();
        let ttl = TtlConfig { keys_per_second, groups };
        let node = Node::new(&redis_config(redis), Duration::from_secs(1), clock);
        Watch { clock, node, sampler: Sampler::new(&ttl, clock) }
    }

    /// Polls and samples until the picture fits; every poll looks at it once.
    fn until(
        &mut self,
        what: &str,
        mut fits: impl FnMut(&Node, &TtlPicture) -> bool,
    ) -> TtlPicture {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let end = Instant::now() + PATIENCE;
            loop {
                let tick = Instant::now() + Duration::from_millis(200);
                // A server that is down or loads is polled again.
                let _ = self.node.poll().await;
                let picture = self.sampler.picture(self.clock.now());
                if let Some(picture) = picture.filter(|p| fits(&self.node, p)) {
                    return picture;
                }
                self.sampler.run(&mut self.node, tick).await;
                tokio::time::sleep_until(tick).await;
                assert!(Instant::now() < end, "in vain: {what}; {:?}", self.sampler);
            }
        })
    }

    fn whole_round(&mut self) -> TtlPicture {
        self.until("a whole round", |_, p| p.rounds.complete > 0)
    }
}

fn redis_config(redis: &Redis) -> RedisConfig {
    RedisConfig {
        address: RedisAddress::Tcp { host: "127.0.0.1".into(), port: redis.port },
        username: None,
        password: None,
        tls: None,
    }
}

/// Sends commands in one go, each a list of byte strings.
fn send(redis: &Redis, commands: &[Vec<Vec<u8>>]) {
    let mut cli = Command::new("redis-cli")
        .args(["-p", &redis.port.to_string(), "--pipe"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-cli");
    let mut wire = Vec::new();
    for command in commands {
        write!(wire, "*{}\r\n", command.len()).expect("memory");
        for word in command {
            write!(wire, "${}\r\n", word.len()).expect("memory");
            wire.extend_from_slice(word);
            wire.extend_from_slice(b"\r\n");
        }
    }
    cli.stdin.take().expect("its input").write_all(&wire).expect("the commands are sent");
    assert!(cli.wait().expect("its end").success());
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn own_only(node: &Node) -> bool {
    let totals = node.state().totals;
    totals.hits == 0.0 && totals.misses == 0.0
}

#[test]
fn a_whole_round_is_a_census_and_our_lookups_are_not_exported() {
    let redis = Redis::start();
    let mut commands = Vec::new();
    for i in 0..600 {
        commands.push(words(&format!("SET a:{i} v EX 1000")));
    }
    for i in 0..300 {
        commands.push(words(&format!("SET b:{i} v EX 250")));
    }
    for i in 0..100 {
        commands.push(words(&format!("SET c:{i} v")));
    }
    send(&redis, &commands);
    let mut watch = Watch::new(&redis, 1000, &[("a", "a:*"), ("b", "b:*")]);
    let picture = watch.whole_round();
    let groups: Vec<(&str, f64, f64, f64)> = picture
        .groups
        .iter()
        .map(|g| (&*g.name, g.buckets.iter().sum::<f64>().round(), g.due[3].round(), g.without_ttl))
        .collect();
    let expected = [("a", 600.0, 0.0, 0.0), ("b", 300.0, 300.0, 0.0), ("other", 0.0, 0.0, 100.0)];
    assert_eq!(groups, expected);
    assert_eq!(picture.keys, 1000.0);
    assert_eq!(picture.due[3].low.round(), 300.0);
    assert_eq!(picture.due[3].high.round(), 300.0);

    // Another poll takes in the lookups up to it.
    watch.until("another poll", |node, p| p.sampler_lookups > 1000 && own_only(node));
    let hits: f64 = redis.info("stats", "keyspace_hits").expect("hits").parse().expect("a number");
    assert!(hits >= 1000.0, "the server counted {hits}");
}

fn command_on(redis: &Redis, format: Format) -> (String, String) {
    let options = Options {
        redis: redis_config(redis),
        groups: vec![
            TtlGroup { name: "product".into(), pattern: "product:*".into() },
            TtlGroup { name: "session".into(), pattern: "session:*".into() },
        ],
        format,
    };
    let (mut out, mut progress) = (Vec::new(), Vec::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let run = ttl_command::run(&options, &mut out, &mut progress);
    runtime.expect("a runtime").block_on(run).expect("a look");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(out), text(progress))
}

#[test]
fn the_command_shows_groups_and_waves() {
    let redis = Redis::start();
    let mut commands = Vec::new();
    for i in 0..20_000 {
        commands.push(words(&format!("SET product:{i} v EX {}", 10 + i % 3590)));
    }
    for i in 0..2000 {
        commands.push(words(&format!("SET session:{i} v EX 900")));
    }
    for i in 0..1000 {
        commands.push(words(&format!("SET config:{i} v")));
    }
    send(&redis, &commands);
    let (text, progress) = command_on(&redis, Format::Text);
    for expected in [
        "23,000 keys: 22,000 with a TTL, 1,000 without (4.3 %)",
        "\nno TTL                1,000   4.3 % █",
        "\nExpiry waves ahead:\n  in 14m 5",
        " keys of session (100.0 % of it)\n",
    ] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
    assert!(progress.contains("asking keys for their TTL: ") && progress.contains(" of 23,000"));

    let (json, _) = command_on(&redis, Format::Json);
    assert_eq!(json.lines().count(), 1);
    let object: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let waves = object["waves"].as_array().expect("waves");
    assert_eq!(waves.len(), 1, "{json}");
    assert_eq!(waves[0]["group"], "session");
    let keys = |bound: &str| waves[0]["keys"][bound].as_f64().expect("a number");
    assert!(keys("low") <= 2000.0 && 2000.0 <= keys("high"), "{json}");
    assert_eq!(object["groups"][2]["without_ttl"].as_f64().map(f64::round), Some(1000.0));
}

#[test]
fn the_command_says_why_there_is_nothing_to_see() {
    let redis = Redis::start();
    let (text, _) = command_on(&redis, Format::Text);
    assert!(text.ends_with("\nNo keys: nothing expires.\n"), "{text}");

    send(&redis, &[words("SET a v EX 100")]);
    redis.cli(&["ACL", "SETUSER", "default", "-scan", "-randomkey"]);
    let options = Options { redis: redis_config(&redis), groups: Vec::new(), format: Format::Text };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let look = || {
        let (mut out, mut progress) = (Vec::new(), Vec::new());
        runtime.block_on(ttl_command::run(&options, &mut out, &mut progress))
    };
    let refused = look().expect_err("refused").to_string();
    assert!(refused.contains("it refuses scan, randomkey; grant +scan and +pttl"), "{refused}");
    drop(redis);
    assert!(matches!(look(), Err(TtlError::Unreachable(_))));
}
