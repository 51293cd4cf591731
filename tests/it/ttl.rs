use std::io::Write;
use std::process::{Command, Stdio};
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use stampede_exporter::clock::Clock;
use stampede_exporter::config::{RedisAddress, RedisConfig, TtlConfig, TtlGroup, TtlWatch};
use stampede_exporter::signal::ttl::{Outcome, TtlPicture, WatchedState};
use stampede_exporter::source::redis::{Node, Sampler};
use stampede_exporter::ttl_command::{self, Format, Options, TtlError};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::support::exporter::Exporter;
use crate::support::fake::{Fake, bulk};
use crate::support::redis::Redis;
use crate::support::{PATIENCE, runtime, wait_for};

/// A sampler at work on one server, with a poll every 200 ms.
struct Watch {
    runtime: Runtime,
    clock: Clock,
    began: f64,
    node: Node,
    sampler: Sampler,
}

impl Watch {
    fn new(redis: &Redis, keys_per_second: u32, groups: &[(&str, &str)]) -> Watch {
        Watch::on_port(redis.port, keys_per_second, groups)
    }

    fn on_port(port: u16, keys_per_second: u32, groups: &[(&str, &str)]) -> Watch {
        let groups = groups
            .iter()
            .map(|(name, glob)| TtlGroup { name: Arc::from(*name), pattern: (*glob).into() })
            .collect();
        let ttl = TtlConfig { keys_per_second, groups, ..TtlConfig::default() };
        Watch::with(port, &ttl)
    }

    fn with(port: u16, ttl: &TtlConfig) -> Watch {
        let clock = Clock::start();
        let node = Node::new(&at_port(port), Duration::from_secs(1), clock);
        let runtime = runtime();
        Watch { runtime, clock, began: clock.now(), node, sampler: Sampler::new(ttl, clock) }
    }

    /// Polls and samples until the picture fits; every poll looks at it once.
    fn until(
        &mut self,
        what: &str,
        mut fits: impl FnMut(&Node, &TtlPicture) -> bool,
    ) -> TtlPicture {
        self.runtime.block_on(async {
            let end = Instant::now() + PATIENCE;
            loop {
                let tick = Instant::now() + Duration::from_millis(200);
                // A server that is down or loads is polled again.
                let _ = self.node.poll().await;
                self.sampler.observe_expired(self.node.counters().totals().expired);
                let picture = self.sampler.picture(self.clock.now());
                if let Some(picture) = picture.filter(|p| fits(&self.node, p)) {
                    return picture;
                }
                self.sampler.run(&mut self.node, tick).await;
                tokio::time::sleep_until(tick).await;
                assert!(Instant::now() < end, "in vain: {what}; {:?}", self.sampler.rounds());
            }
        })
    }

    /// Polls and samples until the server is in a state, whatever the picture.
    fn poll_until(&mut self, what: &str, mut fits: impl FnMut(&Node) -> bool) {
        self.runtime.block_on(async {
            let end = Instant::now() + PATIENCE;
            loop {
                let tick = Instant::now() + Duration::from_millis(200);
                let _ = self.node.poll().await;
                self.sampler.run(&mut self.node, tick).await;
                if fits(&self.node) {
                    return;
                }
                tokio::time::sleep_until(tick).await;
                assert!(Instant::now() < end, "in vain: {what}; {:?}", self.sampler.rounds());
            }
        });
    }

    fn whole_round(&mut self) -> TtlPicture {
        self.until("a whole round", |_, p| p.rounds.complete > 0)
    }
}

fn at_port(port: u16) -> RedisConfig {
    RedisConfig {
        address: RedisAddress::Tcp { host: "127.0.0.1".into(), port },
        username: None,
        password: None,
        tls: None,
    }
}

/// Sends commands in one go, each a list of byte strings.
pub fn send(redis: &Redis, commands: &[Vec<Vec<u8>>]) {
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

pub fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Nobody but us has looked anything up, so nothing may be exported.
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

pub fn command_on(redis: &Redis, format: Format) -> (String, String) {
    let options = Options {
        redis: at_port(redis.port),
        groups: vec![
            TtlGroup { name: "product".into(), pattern: "product:*".into() },
            TtlGroup { name: "session".into(), pattern: "session:*".into() },
        ],
        format,
    };
    let (mut out, mut progress) = (Vec::new(), Vec::new());
    let run = ttl_command::run(&options, &mut out, &mut progress);
    runtime().block_on(run).expect("a look");
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
    ] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
    // Where writing them takes more than a second, a few are beside the wave.
    let (_, share) = text.split_once(" keys of session (").expect("the wave's group");
    assert!(share.starts_with("99.") || share.starts_with("100.0 % of it)\n"), "{text}");
    assert!(progress.contains("asking keys for their TTL: ") && progress.contains(" of 23,000"));

    let (json, _) = command_on(&redis, Format::Json);
    assert_eq!(json.lines().count(), 1);
    let object: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let waves = object["waves"].as_array().expect("waves");
    assert_eq!(waves.len(), 1, "{json}");
    assert_eq!(waves[0]["group"], "session");
    // The interval holds the truth in 19 of 20 looks (`ttl_command.rs` counts them), one of twice its
    // width in all but one of ten thousand.
    let keys = |bound: &str| waves[0]["keys"][bound].as_f64().expect("a number");
    let (low, value, high) = (keys("low"), keys("value"), keys("high"));
    assert!(2.0 * low - value <= 2000.0 && 2000.0 <= 2.0 * high - value, "{json}");
    assert_eq!(object["groups"][2]["without_ttl"].as_f64().map(f64::round), Some(1000.0));
}

#[test]
fn the_command_says_why_there_is_nothing_to_see() {
    let redis = Redis::start();
    let (text, _) = command_on(&redis, Format::Text);
    assert!(text.ends_with("\nNo keys: nothing expires.\n"), "{text}");

    send(&redis, &[words("SET a v EX 100")]);
    redis.cli(&["ACL", "SETUSER", "default", "-scan", "-randomkey"]);
    let options = Options { redis: at_port(redis.port), groups: Vec::new(), format: Format::Text };
    let runtime = runtime();
    let look = || {
        let (mut out, mut progress) = (Vec::new(), Vec::new());
        runtime.block_on(ttl_command::run(&options, &mut out, &mut progress))
    };
    let refused = look().expect_err("refused").to_string();
    assert!(refused.contains("it refuses scan, randomkey; grant +scan and +pttl"), "{refused}");
    drop(redis);
    assert!(matches!(look(), Err(TtlError::Unreachable(_))));
}

/// 30 000 keys with one TTL, written at once, are announced two minutes before; with 10 % of jitter
/// they are not.
#[test]
fn keys_written_together_are_announced_and_jittered_ones_are_not() {
    let filled = |ttl: &dyn Fn(u32) -> u32| {
        let redis = Redis::start();
        let set = |i| words(&format!("SET p:{i} v PX {}", ttl(i)));
        send(&redis, &(0..30_000).map(set).collect::<Vec<_>>());
        redis
    };
    let together = filled(&|_| 120_000);
    let picture = Watch::new(&together, 500, &[("p", "p:*")])
        .until("a sample of 500", |_, p| p.sample_keys >= 500);
    assert_eq!(picture.waves.len(), 1, "{:?}", picture.waves);
    let wave = &picture.waves[0];
    assert_eq!(&*wave.group, "p");
    let lead = wave.start - picture.time;
    assert!((60.0..=120.0).contains(&lead), "{wave:?}");
    // Written within a second or two on a busy machine; all of them, or as many as the sample says are
    // not held past their deadline: its interval holds the truth in 39 of 40 looks, and one of twice
    // its width always.
    let most = 2.0 * wave.keys.high - wave.keys.value;
    assert!(most >= 30_000.0 && wave.keys.high <= 30_001.0, "{wave:?}");
    assert!(wave.keys.value > 24_000.0, "{wave:?}");
    assert!(wave.clustering_ratio > 20.0, "{wave:?}");

    let jittered = filled(&|i| 108_000 + i * 7919 % 24_000);
    let picture = Watch::new(&jittered, 500, &[("p", "p:*")])
        .until("a sample of 500", |_, p| p.sample_keys >= 500);
    assert_eq!(picture.waves, []);
}

/// Bytes that are no text, a name of a megabyte, an empty one, one like a glob, keys that are gone
/// before they are asked: each is one key, in its own group, and no more.
#[test]
fn odd_keys_are_keys() {
    let redis = Redis::start();
    let mut names: Vec<Vec<u8>> = vec![
        b"a:\xff".to_vec(),
        b"a:\xfe".to_vec(),
        b"".to_vec(),
        b"\x00".to_vec(),
        b"line\r\nend".to_vec(),
        b"quote\"back\\slash".to_vec(),
        b"a*[b]?".to_vec(),
        vec![b'x'; 1_000_000],
    ];
    names.extend((0..200).map(|i| format!("k{i}").into_bytes()));
    let set =
        |name: &Vec<u8>| [&words("SET")[..], from_ref(name), &words("v EX 1000")[..]].concat();
    send(&redis, &names.iter().map(set).collect::<Vec<_>>());
    let short = |i| words(&format!("SET short:{i} v PX {}", 1 + i * 13 % 500));
    send(&redis, &(0..300).map(short).collect::<Vec<_>>());

    let groups = [("a", "a:?"), ("x", "xxxx*"), ("short", "short:*")];
    let mut watch = Watch::new(&redis, 500, &groups);
    let picture = watch.until("a whole round of those that stay", |node, p| {
        p.rounds.complete > 1 && node.info().is_some_and(|i| i.keys() == Some(208.0))
    });
    let keys = |name: &str| {
        let group = picture.groups.iter().find(|g| &*g.name == name).expect("the group");
        group.buckets.iter().sum::<f64>().round()
    };
    assert_eq!((keys("a"), keys("x"), keys("short"), keys("other")), (2.0, 1.0, 0.0, 205.0));
    watch.until("another poll", |node, _| own_only(node));
}

/// What no server should say: each answer costs its own key only.
#[test]
fn odd_answers_cost_their_own_key_only() {
    const INFO: &str = "# Server\r\nredis_version:7.0.0\r\nrun_id:a\r\nuptime_in_seconds:5\r\n\
        # Stats\r\nkeyspace_hits:0\r\nkeyspace_misses:0\r\n\
        # Keyspace\r\ndb0:keys=800,expires=500,avg_ttl=0\r\n";
    let fake = Fake::start(|mut client| {
        while let Some(command) = client.command() {
            match command[0].to_ascii_uppercase().as_str() {
                "INFO" => client.say(&bulk(INFO)),
                // Always the same batch, twice each key, and a cursor that goes round.
                "SCAN" => {
                    let cursor = if command[1] == "7" { "9" } else { "7" };
                    let names = ["gone", "nil", "never", "error", "huge", "text", "low", "good"];
                    let mut reply = format!("*2\r\n${}\r\n{cursor}\r\n*16\r\n", cursor.len());
                    for name in names.iter().chain(&names) {
                        reply.push_str(&format!("${}\r\n{name}\r\n", name.len()));
                    }
                    client.say(reply.as_bytes());
                }
                "PTTL" => client.say(match command[1].as_str() {
                    "gone" => b":-2\r\n",
                    "nil" => b"$-1\r\n",
                    "never" => b":-1\r\n",
                    "error" => b"-ERR no luck with this key\r\n",
                    "huge" => b":9223372036854775807\r\n",
                    "text" => b"$3\r\nabc\r\n",
                    "low" => b":-77\r\n",
                    _ => b":60000\r\n",
                }),
                _ => client.say(b"-ERR unknown command\r\n"),
            }
        }
    });
    let mut watch = Watch::on_port(fake.port, 1000, &[]);
    let picture = watch.until("many answers", |_, p| p.odd_keys >= 40);
    assert_eq!(picture.sample_keys, 3, "never, huge and good");
    assert_eq!(picture.rounds.complete, 0, "a scan that goes round never ends");
    // 500 with a deadline, of the two kinds seen.
    assert_eq!(picture.groups[0].buckets[16], 250.0, "huge");
    assert_eq!(picture.groups[0].buckets[6], 250.0, "good");
    assert_eq!(picture.groups[0].without_ttl, 300.0);
    assert!(picture.groups[0].ttl_sum.is_finite());
}

#[test]
fn every_database_is_sampled_and_the_connection_stays_in_the_first() {
    let redis = Redis::start();
    let mut commands = Vec::new();
    for (database, keys, ttl) in [(0, 300, 50), (3, 200, 500), (12, 100, 5000)] {
        commands.push(words(&format!("SELECT {database}")));
        // The same names in each: they are different keys.
        commands.extend((0..keys).map(|i| words(&format!("SET k:{i} v EX {ttl}"))));
    }
    send(&redis, &commands);
    let mut watch = Watch::new(&redis, 1000, &[]);
    let picture = watch.whole_round();
    let buckets = &picture.groups[0].buckets;
    let of = |place: usize| buckets[place].round();
    assert_eq!((of(6), of(9), of(12)), (300.0, 200.0, 100.0), "{buckets:?}");
    watch.until("another poll", |node, _| own_only(node));
    let clients = redis.cli(&["CLIENT", "LIST"]);
    let ours = clients.lines().filter(|line| line.contains("cmd=info")).collect::<Vec<_>>();
    assert!(ours.len() == 1 && ours[0].contains(" db=0 "), "{clients}");
}

fn allowed(node: &Node, command: &str) -> Option<bool> {
    let capabilities = node.state().capabilities;
    capabilities.iter().find(|(name, _)| *name == command).map(|(_, allowed)| *allowed)
}

#[test]
fn what_may_be_asked_is_noticed_as_it_changes() {
    let redis = Redis::start();
    send(&redis, &(0..500).map(|i| words(&format!("SET k:{i} v EX 500"))).collect::<Vec<_>>());
    redis.cli(&["ACL", "SETUSER", "default", "-scan"]);
    let mut watch = Watch::new(&redis, 1000, &[]);
    let picture = watch.until("keys drawn at random", |node, p| {
        p.sample_keys >= 100 && allowed(node, "scan") == Some(false)
    });
    assert_eq!((picture.rounds.complete, picture.keys), (0, 500.0));
    assert_eq!(allowed(&watch.node, "randomkey"), Some(true));

    redis.cli(&["ACL", "SETUSER", "default", "+scan"]);
    watch.until("scan again", |node, _| allowed(node, "scan") == Some(true));

    redis.cli(&["ACL", "SETUSER", "default", "-pttl"]);
    watch.until("no pttl", |node, _| allowed(node, "pttl") == Some(false));
    assert!(watch.node.state().up);
    redis.cli(&["ACL", "SETUSER", "default", "+pttl"]);
    watch.until("pttl again", |node, _| allowed(node, "pttl") == Some(true) && own_only(node));

    // Some keys only: the others are passed over.
    redis.cli(&["ACL", "SETUSER", "default", "resetkeys", "~k:1*"]);
    let before = watch.until("odd keys", |_, p| p.odd_keys > 0).odd_keys;
    watch.until("more of them, and pttl", |node, p| {
        p.odd_keys > before + 50 && allowed(node, "pttl") == Some(true)
    });
}

/// A server that stops answering in the middle of a question: the connection is given up, and what
/// the server counted of it is never taken for somebody else's.
#[test]
fn a_question_that_is_cut_off_is_not_counted_as_traffic() {
    let redis = Redis::start();
    send(&redis, &(0..5000).map(|i| words(&format!("SET k:{i} v EX 500"))).collect::<Vec<_>>());
    let mut watch = Watch::new(&redis, 1000, &[]);
    for _ in 0..3 {
        let before = watch.until("some answers", |n, p| n.state().up && p.sample_keys >= 100);
        redis.stop();
        watch.until("a failed poll", |node, _| !node.state().up);
        redis.cont();
        watch.until("more answers", |node, p| {
            node.state().up && p.sampler_lookups > before.sampler_lookups + 200
        });
    }
    watch.until("another poll", |node, _| own_only(node));
}

#[test]
fn a_loading_server_is_left_alone() {
    let mut redis = Redis::start_with(&[
        "--enable-debug-command",
        "local",
        "--key-load-delay",
        "500",
        "--loading-process-events-interval-bytes",
        "1024",
    ]);
    redis.cli(&["DEBUG", "POPULATE", "10000"]);
    redis.cli(&["SAVE"]);
    let mut watch = Watch::new(&redis, 1000, &[]);
    watch.until("a sample", |_, p| p.sample_keys > 0);
    redis.start_again();
    let loading = |node: &Node| node.info().is_some_and(|i| i.loading == Some(true));
    watch.poll_until("loading", loading);
    assert!(watch.sampler.picture(watch.clock.now()).is_none(), "the sample of the old process");
    watch.until("a new sample", |node, p| !loading(node) && p.sample_keys > 100);
    watch.until("another poll", |node, _| own_only(node));
    assert_eq!(allowed(&watch.node, "scan"), Some(true));
}

#[test]
fn a_flush_empties_the_picture() {
    let redis = Redis::start();
    send(&redis, &(0..500).map(|i| words(&format!("SET k:{i} v EX 50"))).collect::<Vec<_>>());
    let mut watch = Watch::new(&redis, 1000, &[]);
    watch.until("a sample", |_, p| p.due[2].value > 400.0);
    redis.cli(&["FLUSHALL"]);
    let picture = watch.until("nothing", |_, p| p.keys == 0.0);
    assert_eq!((picture.sample_keys, picture.due[3].value, picture.waves.len()), (0, 0.0, 0));
}

/// Watched keys are asked at every poll, also where nothing is sampled, and it is not exported.
#[test]
fn watched_keys_are_asked_at_every_poll() {
    let redis = Redis::start();
    redis.cli(&["SET", "page:front", "v", "EX", "100"]);
    redis.cli(&["SET", "page:menu", "v"]);
    let watch = ["page:front", "page:menu", "page:none"]
        .map(|key| TtlWatch { name: key[5..].into(), key: key.into() })
        .to_vec();
    let mut watch =
        Watch::with(redis.port, &TtlConfig { keys_per_second: 0, watch, ..TtlConfig::default() });
    let state = |p: &TtlPicture, place: usize| p.watched[place].state;
    let picture = watch.until("answers", |_, p| p.sampler_lookups >= 6);
    let Some(WatchedState::Due(at)) = state(&picture, 0) else { panic!("{picture:?}") };
    assert!((90.0..=100.0).contains(&(at - picture.time)), "{picture:?}");
    let others = (state(&picture, 1), state(&picture, 2));
    assert_eq!(others, (Some(WatchedState::NoTtl), Some(WatchedState::Missing)));
    assert_eq!((picture.groups.len(), picture.sample_keys), (0, 0));
    redis.cli(&["EXPIRE", "page:menu", "5000"]);
    watch.until("the new deadline", |_, p| matches!(state(p, 1), Some(WatchedState::Due(_))));
    watch.until("another poll", |node, _| own_only(node));
}

/// Who may no more ask for a key's TTL knows nothing of the keys that are watched, and shows no old
/// deadline; they are asked again once that is allowed.
#[test]
fn watched_keys_are_not_shown_while_they_cannot_be_asked() {
    let redis = Redis::start();
    redis.cli(&["SET", "page:front", "v", "EX", "100"]);
    let watch = vec![TtlWatch { name: "front".into(), key: "page:front".into() }];
    let mut watch =
        Watch::with(redis.port, &TtlConfig { keys_per_second: 0, watch, ..TtlConfig::default() });
    let due = |p: &TtlPicture| {
        p.watched.first().is_some_and(|key| matches!(key.state, Some(WatchedState::Due(_))))
    };
    watch.until("a deadline", |_, p| due(p));
    redis.cli(&["ACL", "SETUSER", "default", "-pttl"]);
    let picture = watch.until("a refusal", |node, _| allowed(node, "pttl") == Some(false));
    assert!(picture.watched.iter().all(|watched| watched.state.is_none()), "{picture:?}");
    redis.cli(&["ACL", "SETUSER", "default", "+pttl"]);
    watch.until("a deadline again", |_, p| due(p));
}

/// Who may not list keys may still ask for those that are known by name, at every poll.
#[test]
fn watched_keys_are_asked_where_no_others_can_be_found() {
    let redis = Redis::start();
    redis.cli(&["SET", "page:front", "v", "EX", "100"]);
    redis.cli(&["ACL", "SETUSER", "default", "-scan", "-randomkey"]);
    let watch = vec![TtlWatch { name: "front".into(), key: "page:front".into() }];
    let mut watch = Watch::with(redis.port, &TtlConfig { watch, ..TtlConfig::default() });
    watch.until("a refusal", |node, _| allowed(node, "randomkey") == Some(false));
    let mut asked = 0;
    watch.until("five polls with an answer", |_, p| {
        assert!(p.sampler_lookups > asked && p.watched[0].state.is_some(), "{p:?}");
        asked = p.sampler_lookups;
        asked > 5
    });
    redis.cli(&["ACL", "SETUSER", "default", "-pttl"]);
    watch.until("nothing of what was known", |_, p| p.watched.is_empty());
}

/// At 2000 keys a second a server needs some thousandths of a core; it is given a ten-thousandth. The
/// server's own books say what it took, on a machine that is busy a multiple for a while.
#[test]
fn the_budget_of_the_servers_time_is_kept() {
    let redis = Redis::start();
    send(&redis, &(0..20_000).map(|i| words(&format!("SET k:{i} v EX 5000"))).collect::<Vec<_>>());
    let ttl = TtlConfig { keys_per_second: 2000, server_budget: 0.0001, ..TtlConfig::default() };
    let mut watch = Watch::with(redis.port, &ttl);
    let kept = |share: f64| share > 0.0 && share < 0.0005;
    let picture = watch.until("the budget kept", |_, p| p.server_share.is_some_and(kept));
    let seconds = watch.clock.now() - watch.began;
    let pace = picture.sampler_lookups as f64 / seconds;
    assert!(pace < 400.0, "{pace} keys a second");
}

/// A quarter of the keys is past its deadline and the server does not look for them by itself: they
/// are found missing in the scan. What the sampler removes by scanning, a hundredth in a second, is
/// part of the tolerance of four standard errors.
#[test]
fn keys_that_are_held_past_their_deadline_are_noticed() {
    let redis = Redis::start_with(&["--enable-debug-command", "local"]);
    redis.cli(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    let set = |i: u32| {
        let ttl = if i.is_multiple_of(4) { 1 } else { 1_000_000 };
        words(&format!("SET k:{i} v PX {ttl}"))
    };
    send(&redis, &(0..100_000).map(set).collect::<Vec<_>>());
    let mut watch = Watch::new(&redis, 1000, &[]);
    let picture = watch.until("3000 keys", |_, p| p.sample_keys >= 3000);
    let counted: f64 = redis.cli(&["DBSIZE"]).parse().expect("a number");
    let held = picture.held.expect("an estimate");
    let error = (held.high - held.low) / (2.0 * 1.96);
    let truth = counted - 75_000.0;
    assert!((held.value - truth).abs() <= 4.0 * error, "{held:?}, truth {truth}");
    // The forecast is about those that are there.
    let with_ttl: f64 = picture.groups[0].buckets.iter().sum();
    assert!((with_ttl - 75_000.0).abs() <= 4.0 * error, "{with_ttl} +- {error}");

    // Without any, chance explains what is missing.
    redis.cli(&["FLUSHALL"]);
    let set = |i: u32| words(&format!("SET k:{i} v PX 1000000"));
    send(&redis, &(0..100_000).map(set).collect::<Vec<_>>());
    let picture = Watch::new(&redis, 1000, &[]).until("a sample", |_, p| p.sample_keys >= 3000);
    let held = picture.held.expect("an estimate");
    assert!(held.value <= 4.0 * (held.high - held.low) / (2.0 * 1.96), "{held:?}");
}

/// One wave breaks, and the server's own count says so; the keys of the other are deleted before.
#[test]
fn it_is_told_what_became_of_a_wave() {
    let redis = Redis::start();
    let set = |i: u32| words(&format!("SET k:{i} v PX 8000"));
    send(&redis, &(0..20_000).map(set).collect::<Vec<_>>());
    let mut watch = Watch::new(&redis, 1000, &[]);
    watch.until("an announced wave", |_, p| p.waves.len() == 1);
    let picture = watch.until("its end", |_, p| !p.past_waves.is_empty());
    let past = &picture.past_waves[0];
    assert_eq!((past.outcome, picture.past_waves.len()), (Outcome::Expired, 1));
    assert!(past.wave.keys.low > 15_000.0 && past.expired >= past.wave.keys.low / 2.0, "{past:?}");

    let set = |i: u32| words(&format!("SET k:{i} v PX 100000"));
    send(&redis, &(0..20_000).map(set).collect::<Vec<_>>());
    watch.until("another announced wave", |_, p| p.waves.len() == 1);
    redis.cli(&["FLUSHALL"]);
    let picture = watch.until("its end", |_, p| p.past_waves.len() == 2);
    assert_eq!(picture.past_waves[0].outcome, Outcome::Withdrawn);
    assert_eq!(watch.sampler.totals().waves, [1, 1, 0]);
}

/// 200 of 20 000 keys, read 500 times each, run out together: one in a hundred of the keys and nearly
/// all of the lookups. The counters start at one for the write, so 100 200 of 120 000 is what they
/// tell; one of them is off by a quarter, the sum of 200 by 2 %. The hits that asking costs are ours.
#[test]
fn a_wave_of_popular_keys_costs_what_they_are_used() {
    let lfu =
        ["--maxmemory", "200mb", "--maxmemory-policy", "allkeys-lfu", "--lfu-decay-time", "0"];
    let redis = Redis::start_with(&lfu);
    let set = |i: u32| {
        let ttl = if i < 200 { 120_000 } else { 20_000 + u64::from(i) * 7919 % 3_600_000 };
        words(&format!("SET k:{i} v PX {ttl}"))
    };
    send(&redis, &(0..20_000).map(set).collect::<Vec<_>>());
    let get = |i: u32| words(&format!("GET k:{}", i % 200));
    send(&redis, &(0..100_000).map(get).collect::<Vec<_>>());
    let mut watch = Watch::new(&redis, 2000, &[]);
    let weighed = |_: &Node, p: &TtlPicture| p.waves.len() == 1 && p.rounds.complete > 0;
    let picture = watch.until("a wave and a whole round", weighed);
    let wave = &picture.waves[0];
    let share = wave.lookup_share.expect("a share of the lookups");
    assert!((0.76..0.90).contains(&share.value), "{share:?}");
    assert!(share.low < share.value && share.value < share.high, "{share:?}");
    assert!((0.005..0.02).contains(&wave.space_share.value), "{wave:?}");
    assert_eq!(wave.extra_misses_per_second(1000.0), share.times(1000.0));
    assert_eq!(allowed(&watch.node, "object"), Some(true));

    // Keys that are gone when asked are misses of ours. Nothing else is exported.
    let short = |i| words(&format!("SET short:{i} v PX {}", 1 + i * 13 % 500));
    send(&redis, &(0..300).map(short).collect::<Vec<_>>());
    let lookups = watch.until("a poll", |node, _| own_only(node)).sampler_lookups;
    watch.until("more lookups", |node, p| p.sampler_lookups > lookups + 2000 && own_only(node));

    // Without the right to ask, lookups are taken to fall evenly; the rest goes on.
    redis.cli(&["ACL", "SETUSER", "default", "-object"]);
    watch.until("a refusal", |node, _| allowed(node, "object") == Some(false));
    let mut watch = Watch::new(&redis, 2000, &[]);
    let picture = watch.until("a wave and a whole round", weighed);
    assert_eq!(picture.waves[0].lookup_share, None);
    assert_eq!(allowed(&watch.node, "pttl"), Some(true));

    // A policy that does not count: a server of whose policy we learn too late looks up all the same.
    redis.cli(&["ACL", "SETUSER", "default", "+object"]);
    watch.until("the right", |node, _| allowed(node, "object") == Some(true));
    redis.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let lookups = watch.until("a poll", |node, _| own_only(node)).sampler_lookups;
    watch.until("more lookups", |node, p| p.sampler_lookups > lookups + 2000 && own_only(node));
}

pub fn calls(redis: &Redis, command: &str) -> f64 {
    let stat = redis.info("commandstats", &format!("cmdstat_{command}"));
    let calls = stat.and_then(|s| s.split_once(',')?.0.strip_prefix("calls=")?.parse().ok());
    calls.unwrap_or(0.0)
}

/// The replica is asked, the primary is not; what runs out on a replica stays there until the primary
/// says so, and is not taken for alive. Without the replica the cache is watched all the same.
#[test]
fn a_replica_is_sampled_in_place_of_its_primary() {
    let primary = Redis::start_with(&["--enable-debug-command", "local"]);
    primary.cli(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    let mut commands: Vec<_> = (0..3000).map(|i| words(&format!("SET k:{i} v EX 5000"))).collect();
    commands.extend((0..1000).map(|i| words(&format!("SET short:{i} v PX 1"))));
    send(&primary, &commands);
    let mut replica = Redis::start_with(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    wait_for("the keys on the replica", || (replica.cli(&["DBSIZE"]) == "4000").then_some(()));
    let yaml = format!(
        "caches:\n- name: shop\n  poll_interval: 200ms\n  redis: {{ addr: \"{}\" }}\n  ttl:\n    \
         keys_per_second: 1000\n    sample_from: \"{}\"\n    groups: [{{ name: short, match: \"short:*\" }}]\n",
        primary.url(),
        replica.url()
    );
    let exporter = Exporter::start_configured(&yaml);
    exporter.wait_for_metric("stampede_ttl_sample_keys{cache=\"shop\"}", |keys| keys == 3000.0);
    let count = |group: &str| {
        let name = format!("stampede_key_ttl_seconds_count{{cache=\"shop\",group=\"{group}\"}}");
        exporter.metric(&name)
    };
    wait_for("a whole round", || {
        let counts = (count("short")?, count("other")?.round());
        (counts == (0.0, 3000.0)).then_some(())
    });
    assert!(calls(&replica, "pttl") >= 3000.0 && calls(&replica, "scan") > 0.0);
    assert_eq!((calls(&primary, "pttl"), calls(&primary, "scan")), (0.0, 0.0));
    assert_eq!(primary.info("stats", "keyspace_hits").as_deref(), Some("0"));
    assert_eq!(
        (primary.cli(&["DBSIZE"]), replica.cli(&["DBSIZE"])),
        ("4000".into(), "4000".into())
    );
    let node = |name: &str, redis: &Redis| {
        format!("{name}{{cache=\"shop\",node=\"127.0.0.1:{}\"}}", redis.port)
    };
    let sampler_up = node("stampede_ttl_sampler_up", &replica);
    assert_eq!(exporter.metric(&sampler_up), Some(1.0));
    assert_eq!(exporter.metric(&node("stampede_redis_keyspace_hits_total", &primary)), Some(0.0));
    assert_eq!(exporter.metric(&node("stampede_redis_keys", &replica)), None);

    replica.kill();
    exporter.wait_for_metric(&sampler_up, |up| up == 0.0);
    assert_eq!(exporter.metric(&node("stampede_redis_up", &primary)), Some(1.0));
    replica.start_again();
    exporter.wait_for_metric(&sampler_up, |up| up == 1.0);
    let lookups = calls(&replica, "pttl");
    wait_for("more questions", || (calls(&replica, "pttl") > lookups + 100.0).then_some(()));
}
