//! Servers that are away, silent, slow, full, or back again.

use std::collections::HashSet;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use stampede_exporter::clock::Clock;
use stampede_exporter::config::{RedisAddress, RedisConfig};
use stampede_exporter::one_line::one_line;
use stampede_exporter::reading::Reach;
use stampede_exporter::source::redis::{Node, PollErrorKind};

use super::{config, failure, lookups, node, resets};
use crate::support::PATIENCE;
use crate::support::fake::{Fake, bulk};
use crate::support::redis::{Redis, free_port};

/// A deadline that is meant to pass.
const SOON: Duration = Duration::from_secs(1);

fn impatient(config: &RedisConfig) -> Node {
    Node::new(config, SOON, Clock::start())
}

/// Polls until the server is tried again after the pause, and gives that poll's result.
async fn next_attempt(node: &mut Node) -> Result<(), PollErrorKind> {
    let attempt = async {
        loop {
            match node.poll().await {
                Err(error) if one_line(&error).contains("not tried again yet") => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                result => return result.map_err(|error| error.kind()),
            }
        }
    };
    tokio::time::timeout(PATIENCE, attempt).await.expect("the pause ends")
}

#[tokio::test]
async fn nobody_listens() {
    let mut node = node(&config(free_port()));
    let kinds: HashSet<_> = {
        let mut kinds = HashSet::new();
        for _ in 0..1000 {
            kinds.insert(node.poll().await.unwrap_err().kind());
        }
        kinds
    };
    assert_eq!(kinds, HashSet::from([PollErrorKind::ConnectRefused]));
    assert!(!node.state().up);
    assert_eq!(node.reach(), Reach::Failing);
    let socket = RedisAddress::Unix("/nowhere/redis.sock".into());
    let (kind, text) = failure(&RedisConfig { address: socket, ..config(0) }).await;
    assert_eq!(kind, PollErrorKind::ConnectRefused, "{text}");
}

#[tokio::test]
async fn a_name_that_does_not_resolve() {
    let address = RedisAddress::Tcp { host: "no-such-host.invalid".to_owned(), port: 6379 };
    let config = RedisConfig { address, ..config(0) };
    assert_eq!(impatient(&config).poll().await.unwrap_err().kind(), PollErrorKind::Dns);
}

#[tokio::test]
async fn nobody_accepts() {
    // The kernel drops further connections once its queue for the listener is full.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let waiting: Vec<TcpStream> =
        std::iter::from_fn(|| TcpStream::connect_timeout(&address, SOON).ok()).collect();
    assert!(!waiting.is_empty());
    let error = impatient(&config(address.port())).poll().await.unwrap_err();
    assert_eq!(error.kind(), PollErrorKind::ConnectTimeout, "{}", one_line(&error));
}

#[tokio::test]
async fn a_second_address_of_a_name_is_tried() {
    // `localhost` is ::1 and 127.0.0.1 on most machines; the server has only the latter.
    let redis = Redis::start();
    let address = RedisAddress::Tcp { host: "localhost".to_owned(), port: redis.port };
    node(&RedisConfig { address, ..config(0) }).poll().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_silent_or_slow_or_hangs_up() {
    let silent = Fake::start(|mut client| client.wait_for_end());
    let slow = Fake::start(|mut client| {
        for byte in bulk(&"keyspace_hits:1\r\n".repeat(1000)) {
            client.say(&[byte]);
            if client.ends_within(Duration::from_millis(20)) {
                break;
            }
        }
    });
    for server in [&silent, &slow] {
        let error = impatient(&config(server.port)).poll().await.unwrap_err();
        assert_eq!(error.kind(), PollErrorKind::Timeout, "{}", one_line(&error));
    }
    for last_words in [b"".as_slice(), b"$100\r\nkeyspace_hi"] {
        let server = Fake::start(move |mut client| {
            client.command();
            client.say(last_words);
        });
        let (kind, text) = failure(&config(server.port)).await;
        assert_eq!(kind, PollErrorKind::Closed, "{text}");
    }
}

#[tokio::test]
async fn a_late_answer_is_not_taken_for_the_next_one() {
    let server = Fake::start(|mut client| {
        client.command();
        if client.number == 0 {
            client.wait_for_end();
        }
        let hits = if client.number == 0 { 111 } else { 222 };
        client.say(&bulk(&format!("keyspace_hits:{hits}\r\n")));
        client.wait_for_end();
    });
    let mut node = impatient(&config(server.port));
    assert_eq!(node.poll().await.unwrap_err().kind(), PollErrorKind::Timeout);
    next_attempt(&mut node).await.unwrap();
    assert_eq!(node.info().and_then(|info| info.counters.hits), Some(222.0));
}

#[tokio::test]
async fn a_frozen_server_is_down_at_the_deadline_and_up_at_the_next_attempt() {
    let redis = Redis::start();
    let mut node = impatient(&config(redis.port));
    node.poll().await.unwrap();
    redis.cli(&["GET", "a"]);
    redis.stop();
    for _ in 0..3 {
        assert_eq!(next_attempt(&mut node).await, Err(PollErrorKind::Timeout));
        assert_eq!((node.state().up, node.state().keys), (false, None));
        assert!(node.state().last_success.is_some());
    }
    redis.cont();
    assert_eq!(next_attempt(&mut node).await, Ok(()));
    assert!(node.state().up);
    assert_eq!((lookups(&node), resets(&node)), ((0.0, 1.0), [0; 4]), "a gap loses nothing");
}

#[tokio::test]
async fn a_server_that_comes_back_is_up_at_once_fifty_times_over() {
    let mut redis = Redis::start();
    let mut node = node(&config(redis.port));
    for _ in 0..50 {
        node.poll().await.unwrap();
        sockets_become(redis.port, 1).await;
        redis.kill();
        let error = node.poll().await.unwrap_err();
        assert_eq!(error.kind(), PollErrorKind::ConnectRefused, "{}", one_line(&error));
        redis.start_again();
    }
    node.poll().await.unwrap();
    assert_eq!(resets(&node), [50, 0, 0, 0]);
    sockets_become(redis.port, 1).await;
    drop(node);
    let driver_is_gone = async {
        while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, driver_is_gone).await.expect("no task is left");
    sockets_become(redis.port, 0).await;
}

#[tokio::test]
async fn a_full_server_says_so() {
    let redis = Redis::start_with(&["--maxclients", "2"]);
    let mut node = node(&config(redis.port));
    let hold = || {
        // The fixture's own first connection may still be closing.
        crate::support::wait_for("a free place", || {
            use std::io::{Read, Write};
            let mut stream = TcpStream::connect(("127.0.0.1", redis.port)).ok()?;
            stream.write_all(b"PING\r\n").ok()?;
            let mut answer = [0; 7];
            stream.read_exact(&mut answer).ok()?;
            (&answer == b"+PONG\r\n").then_some(stream)
        })
    };
    let held = [hold(), hold()];
    assert_eq!(node.poll().await.unwrap_err().kind(), PollErrorKind::MaxClients);
    assert_eq!(next_attempt(&mut node).await, Err(PollErrorKind::MaxClients));
    drop(held);
    let up = async { while next_attempt(&mut node).await.is_err() {} };
    tokio::time::timeout(PATIENCE, up).await.expect("it is up when places are free");
}

#[tokio::test]
async fn a_server_that_runs_a_long_script_says_so() {
    let redis = Redis::start_with(&["--busy-reply-threshold", "100"]);
    let mut node = node(&config(redis.port));
    node.poll().await.unwrap();
    let port = redis.port.to_string();
    let script = std::thread::spawn(move || {
        crate::support::run("redis-cli", &["-p", &port, "EVAL", "while true do end", "0"])
    });
    let busy = async {
        loop {
            match next_attempt(&mut node).await {
                Ok(()) => tokio::task::yield_now().await,
                Err(kind) => break kind,
            }
        }
    };
    let kind = tokio::time::timeout(PATIENCE, busy).await.expect("the script runs at last");
    assert_eq!(kind, PollErrorKind::Busy);
    assert_eq!(redis.cli(&["SCRIPT", "KILL"]), "OK");
    script.join().unwrap();
    assert_eq!(next_attempt(&mut node).await, Ok(()));
}

#[tokio::test]
async fn a_change_is_logged_once() {
    let log = super::log::capture();
    let mut redis = Redis::start();
    let mut node = node(&config(redis.port));
    node.poll().await.unwrap();
    redis.kill();
    for _ in 0..20 {
        node.poll().await.unwrap_err();
    }
    redis.start_again();
    next_attempt(&mut node).await.unwrap();
    node.poll().await.unwrap();
    let lines: Vec<String> = log.lines("stampede_exporter");
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[0].contains("INFO") && lines[0].contains("answers"), "{}", lines[0]);
    assert!(lines[1].contains("WARN") && lines[1].contains("connect_refused"), "{}", lines[1]);
    assert!(lines[1].contains("Connection refused"), "the cause: {}", lines[1]);
    assert!(lines[2].contains("INFO") && lines[2].contains("again"), "{}", lines[2]);
}

#[tokio::test]
async fn a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("redis.sock");
    let _redis = Redis::start_with(&["--unixsocket", &path.display().to_string()]);
    let address = RedisAddress::Unix(path.clone());
    let mut node = node(&RedisConfig { address, ..config(0) });
    node.poll().await.unwrap();
    assert_eq!(node.label().as_ref(), path.display().to_string());
}

/// Waits until so many sockets are connected to a local port; connections that were given up close
/// when the runtime gets to it.
async fn sockets_become(port: u16, expected: usize) {
    let reached = async {
        while sockets_to(port) != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = tokio::time::timeout(PATIENCE, reached).await;
    assert!(limit.is_ok(), "{} sockets instead of {expected}", sockets_to(port));
}

/// The sockets of this machine that are connected to a local port and still belong to a process.
fn sockets_to(port: u16) -> usize {
    const REMOTE: usize = 2;
    const INODE: usize = 9;
    let remote = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let columns = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    columns.filter(|c| c[REMOTE].ends_with(&remote) && c[INODE] != "0").count()
}
