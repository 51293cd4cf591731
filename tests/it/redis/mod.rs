//! One Redis server, polled through `Node`.

mod answers;
mod failures;
mod log;
mod login;
mod tls;

use stampede_exporter::clock::Clock;
use stampede_exporter::config::{RedisAddress, RedisConfig};
use stampede_exporter::one_line::one_line;
use stampede_exporter::reading::Reach;
use stampede_exporter::signal::counters::{Interval, OwnLookups, ResetReason};
use stampede_exporter::snapshot::Resets;
use stampede_exporter::source::redis::{Node, PollErrorKind};

use crate::support::PATIENCE;
use crate::support::fake::Fake;
use crate::support::redis::Redis;

/// Polls whose result does not depend on the deadline have as long as a slow machine needs.
fn node(config: &RedisConfig) -> Node {
    Node::new(config, PATIENCE, Clock::start())
}

fn config(port: u16) -> RedisConfig {
    RedisConfig {
        address: RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port },
        username: None,
        password: None,
        tls: None,
    }
}

/// The reason for which a first poll fails, and the log's text for it.
async fn failure(config: &RedisConfig) -> (PollErrorKind, String) {
    let error = node(config).poll().await.expect_err("the poll should fail");
    (error.kind(), one_line(&error))
}

fn resets(node: &Node) -> [u64; 4] {
    ResetReason::ALL.map(|reason| node.counters().resets(reason).count)
}

fn lookups(node: &Node) -> (f64, f64) {
    (node.state().totals.hits, node.state().totals.misses)
}

#[tokio::test]
async fn counts_what_happens_after_the_first_poll() {
    let redis = Redis::start();
    redis.cli(&["SET", "a", "1"]);
    redis.cli(&["GET", "a"]);
    let mut node = node(&config(redis.port));
    assert_eq!((node.reach(), node.state().up), (Reach::Unknown, false));
    node.poll().await.unwrap();
    assert_eq!(lookups(&node), (0.0, 0.0), "what was before is not ours");
    redis.cli(&["GET", "a"]);
    redis.cli(&["MGET", "a", "b", "c"]);
    redis.cli(&["FLUSHALL"]);
    node.poll().await.unwrap();
    let state = node.state();
    assert_eq!(lookups(&node), (2.0, 2.0));
    assert_eq!(node.counters().flushes(), Some(1.0));
    assert_eq!(state.keys, Some(0.0));
    assert_eq!((node.reach(), state.up), (Reach::Answering, true));
    assert_eq!(state.node.as_ref(), format!("127.0.0.1:{}", redis.port));
    assert_eq!(state.server.as_deref(), Some("redis"));
    assert_eq!(state.role.as_deref(), Some("master"));
    assert_eq!(state.mode.as_deref(), Some("standalone"));
    assert_eq!(state.capabilities, [("info", true)]);
    let none = Resets::default();
    assert_eq!(
        state.resets,
        [("restart", none), ("resetstat", none), ("node_change", none), ("role_change", none)]
    );
    assert!(state.info_problems.iter().all(|(_, n)| *n == 0), "{:?}", state.info_problems);
    assert!(state.memory_used.is_some_and(|bytes| bytes > 0.0));
    assert_eq!(state.memory_limit, None, "no limit is not a limit of nothing");
    assert_eq!(redis.info("stats", "total_error_replies").as_deref(), Some("0"));
}

#[tokio::test]
async fn one_connection_serves_all_polls() {
    let redis = Redis::start();
    let mut node = node(&config(redis.port));
    node.poll().await.unwrap();
    let connections = redis.info("stats", "total_connections_received");
    for _ in 0..20 {
        node.poll().await.unwrap();
    }
    let after = redis.info("stats", "total_connections_received");
    let number = |text: Option<String>| text.unwrap().parse::<u64>().unwrap();
    assert_eq!(number(after), number(connections) + 1, "redis-cli's own");
    assert_eq!(lookups(&node), (0.0, 0.0), "polling is no lookup");
}

#[tokio::test]
async fn resetstat_is_no_spike_and_no_gap() {
    let redis = Redis::start();
    redis.cli(&["SET", "a", "1"]);
    for _ in 0..5 {
        redis.cli(&["GET", "a"]);
    }
    let mut node = node(&config(redis.port));
    node.poll().await.unwrap();
    redis.cli(&["CONFIG", "RESETSTAT"]);
    redis.cli(&["GET", "a"]);
    node.poll().await.unwrap();
    assert_eq!((lookups(&node), resets(&node)), ((1.0, 0.0), [0, 1, 0, 0]));
    // Reset again, and past the old values before the next poll: seen at once or, since nothing fell,
    // the next time that the command statistics are asked for. Before 7.0 only the calls of INFO
    // bear witness to it, so there have to be some.
    for _ in 0..3 {
        node.poll().await.unwrap();
    }
    redis.cli(&["CONFIG", "RESETSTAT"]);
    redis.cli(&["MGET", "a", "a", "a", "a", "b", "c"]);
    for _ in 0..30 {
        node.poll().await.unwrap();
    }
    assert_eq!(resets(&node), [0, 2, 0, 0]);
    let (hits, misses) = lookups(&node);
    assert!((4.0..=5.0).contains(&hits) && misses == 2.0, "{hits} hits, {misses} misses");
    redis.cli(&["GET", "a"]);
    node.poll().await.unwrap();
    assert_eq!((lookups(&node), resets(&node)), ((hits + 1.0, misses), [0, 2, 0, 0]));
}

#[tokio::test]
async fn a_restart_between_two_polls_is_seen_and_does_no_harm() {
    let mut redis = Redis::start();
    redis.cli(&["MGET", "a", "b"]);
    let mut node = node(&config(redis.port));
    node.poll().await.unwrap();
    redis.start_again();
    redis.cli(&["GET", "a"]);
    node.poll().await.expect("a closed connection is no failure while the server is there");
    assert_eq!((lookups(&node), resets(&node)), ((0.0, 1.0), [1, 0, 0, 0]));
}

#[tokio::test]
async fn a_promotion_keeps_the_counters() {
    let primary = Redis::start();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    let mut node = node(&config(replica.port));
    node.poll().await.unwrap();
    assert_eq!(node.state().role.as_deref(), Some("slave"));
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    replica.cli(&["GET", "a"]);
    node.poll().await.unwrap();
    assert_eq!(node.state().role.as_deref(), Some("master"));
    assert_eq!((lookups(&node), resets(&node)), ((0.0, 1.0), [0, 0, 0, 1]));
}

#[tokio::test]
async fn two_servers_behind_one_address_are_noticed_and_make_no_spike() {
    let (few, many) = (Redis::start(), Redis::start());
    for _ in 0..50 {
        many.cli(&["MGET", "a", "b", "c", "d"]);
    }
    // Both are old enough that neither can have started between two polls.
    for redis in [&few, &many] {
        crate::support::wait_for("an uptime", || {
            (redis.info("server", "uptime_in_seconds")?.parse::<u64>().ok()? >= 2).then_some(())
        });
    }
    let log = log::capture();
    let proxy = Fake::in_turn(vec![few.port, many.port], 1);
    let mut node = node(&config(proxy.port));
    for _ in 0..6 {
        node.poll().await.unwrap();
    }
    let lines = log.lines("stampede_exporter");
    let warnings = lines.iter().filter(|line| line.contains("different servers answer"));
    assert_eq!(warnings.count(), 1, "{lines:#?}");
    drop(log);
    assert_eq!((lookups(&node), resets(&node)), ((0.0, 0.0), [0, 0, 5, 0]));
    assert_eq!(node.counters().interval(), Interval::Dropped);
    // A proxy that keeps the connection for a while: polls of one server in a row count.
    let proxy = Fake::in_turn(vec![few.port, many.port], 6);
    let mut node = self::node(&config(proxy.port));
    for _ in 0..10 {
        node.poll().await.unwrap();
        few.cli(&["GET", "a"]);
    }
    let ([restarts, resetstats, node_changes, _], (hits, misses)) = (resets(&node), lookups(&node));
    assert_eq!((restarts, resetstats, hits), (0, 0, 0.0));
    assert!(node_changes >= 1 && (1.0..=9.0).contains(&misses), "{node_changes}, {misses}");
}

#[tokio::test]
async fn a_loading_server_is_up() {
    let redis = Redis::start_with(&["--enable-debug-command", "local"]);
    redis.cli(&["DEBUG", "POPULATE", "20000"]);
    redis.cli(&["SAVE"]);
    redis.cli(&["CONFIG", "SET", "key-load-delay", "500"]);
    redis.cli(&["CONFIG", "SET", "loading-process-events-interval-bytes", "1024"]);
    // The data set is read again in the same process, which answers INFO meanwhile.
    let port = redis.port;
    let reload = std::thread::spawn(move || {
        crate::support::run("redis-cli", &["-p", &port.to_string(), "DEBUG", "RELOAD", "NOSAVE"])
    });
    let mut node = node(&config(redis.port));
    loop {
        node.poll().await.expect("INFO is answered while loading");
        assert!(node.state().up);
        if node.reach() == Reach::Loading {
            break;
        }
        assert!(!reload.is_finished(), "the server loaded before it could be seen");
    }
    assert!(node.state().keys.is_some_and(|keys| keys < 20000.0), "{:?}", node.state().keys);
    drop(redis);
    reload.join().expect("redis-cli ends with its server");
}

#[tokio::test]
async fn what_our_own_commands_did_is_taken_out() {
    let redis = Redis::start();
    redis.cli(&["SET", "a", "1"]);
    let mut node = node(&config(redis.port));
    node.poll().await.unwrap();
    let ask = |key: &str| redis::cmd("PTTL").arg(key).to_owned();
    let connection = node.connection().expect("a connection after a poll");
    for key in ["a", "a", "b"] {
        connection.ask(&ask(key)).await.unwrap();
    }
    node.note_own(OwnLookups { hits: 2.0, misses: 1.0 });
    redis.cli(&["GET", "a"]);
    node.poll().await.unwrap();
    assert_eq!(lookups(&node), (1.0, 0.0));
    // Cut off in the middle: the interval is a gap, and the next connection starts clean.
    redis.cli(&["GET", "a"]);
    node.poison();
    assert!(node.connection().is_none());
    node.poll().await.unwrap();
    assert_eq!((lookups(&node), node.counters().interval()), ((1.0, 0.0), Interval::Dropped));
    redis.cli(&["GET", "a"]);
    node.poll().await.unwrap();
    assert_eq!(lookups(&node), (2.0, 0.0));
}
