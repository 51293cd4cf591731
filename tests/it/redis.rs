//! `Node` against real servers.

use std::time::Duration;

use stampede_exporter::clock::Clock;
use stampede_exporter::config::{RedisAddress, RedisConfig};
use stampede_exporter::reading::Reach;
use stampede_exporter::source::redis::{Node, PollErrorKind};

use crate::support::redis::{Redis, free_port};

/// The default time for one poll.
const TIMEOUT: Duration = Duration::from_secs(1);

fn config(port: u16) -> RedisConfig {
    RedisConfig {
        address: RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port },
        username: None,
        password: None,
        tls: None,
    }
}

fn node(config: &RedisConfig) -> Node {
    Node::new(config, TIMEOUT, Clock::start())
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_what_happens_after_the_first_poll() {
    let redis = Redis::start();
    redis.cli(&["SET", "a", "1"]);
    redis.cli(&["GET", "a"]);
    let mut node = node(&config(redis.port));
    assert_eq!(node.reach(), Reach::Unknown);
    node.poll().await.unwrap();
    assert_eq!(node.counters().totals().hits, 0.0, "what was before is not ours");
    redis.cli(&["GET", "a"]);
    redis.cli(&["MGET", "a", "b", "c"]);
    redis.cli(&["FLUSHALL"]);
    node.poll().await.unwrap();
    let state = node.state();
    assert_eq!((state.totals.hits, state.totals.misses), (2.0, 2.0));
    assert_eq!(node.counters().flushes(), Some(1.0));
    assert_eq!(state.keys, Some(0.0));
    assert_eq!(node.reach(), Reach::Answering);
    assert!(state.up);
    assert_eq!(state.node.as_ref(), format!("127.0.0.1:{}", redis.port));
    assert_eq!(state.server.as_deref(), Some("redis"));
    assert_eq!(state.role.as_deref(), Some("master"));
    assert_eq!(state.mode.as_deref(), Some("standalone"));
    assert_eq!(state.capabilities, [("info", true)]);
    assert!(state.resets.iter().all(|(_, n)| *n == 0), "{:?}", state.resets);
    assert!(state.info_problems.iter().all(|(_, n)| *n == 0), "{:?}", state.info_problems);
}

#[tokio::test]
async fn nobody_listens() {
    let mut node = node(&config(free_port()));
    let error = node.poll().await.unwrap_err();
    assert_eq!(error.kind(), PollErrorKind::ConnectRefused);
    assert!(!node.state().up);
    assert_eq!(node.reach(), Reach::Failing);
}
