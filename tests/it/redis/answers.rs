//! What a server may answer to `INFO`, and what it may not.

use std::sync::{Arc, Mutex};

use stampede_exporter::reading::Reach;
use stampede_exporter::source::redis::PollErrorKind;

use super::{config, failure, lookups, node, resets};
use crate::support::fake::{Client, Fake, bulk};

const TEXT: &str = "# Server\r\nredis_version:7.0.0\r\n# Stats\r\nkeyspace_hits:7\r\n";

#[tokio::test]
async fn bulk_verbatim_and_simple_strings_are_texts() {
    let verbatim = format!("={}\r\ntxt:{TEXT}\r\n", TEXT.len() + 4).into_bytes();
    for answer in [bulk(TEXT), verbatim, b"+keyspace_hits:7\r\n".to_vec()] {
        let server = Fake::start(move |mut client| client.always_say(&answer));
        let mut node = node(&config(server.port));
        node.poll().await.unwrap();
        assert_eq!(node.info().and_then(|info| info.counters.hits), Some(7.0));
    }
}

#[tokio::test]
async fn anything_else_is_not_the_protocol() {
    let answers: [&[u8]; 6] = [
        b"*1\r\n$4\r\ntext\r\n",
        b":1\r\n",
        b"$-1\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"-ERR unknown command\r\n",
        b"$999999999999999999999\r\n",
    ];
    for answer in answers {
        let server = Fake::saying(answer);
        let (kind, text) = failure(&config(server.port)).await;
        assert_eq!(kind, PollErrorKind::Protocol, "{text}");
    }
}

#[tokio::test]
async fn an_answer_without_end_does_not_fill_the_memory() {
    let server = Fake::start(|mut client| {
        client.say(b"$999999999999\r\n");
        while client.says(&[b'x'; 1 << 20]) {}
    });
    let (kind, text) = failure(&config(server.port)).await;
    assert_eq!(kind, PollErrorKind::Protocol, "{text}");
    assert!(text.contains("longer"), "{text}");
}

#[tokio::test]
async fn error_replies_have_reasons_of_their_own() {
    let answers: [(&[u8], PollErrorKind); 7] = [
        (b"-LOADING Redis is loading the dataset in memory\r\n", PollErrorKind::Loading),
        (b"-BUSY Redis is busy running a script.\r\n", PollErrorKind::Busy),
        (b"-NOPERM this user has no permissions to run 'info'\r\n", PollErrorKind::NoPermission),
        (b"-DENIED Redis is running in protected mode\r\n", PollErrorKind::NoPermission),
        (b"-NOAUTH Authentication required.\r\n", PollErrorKind::Auth),
        (b"-ERR operation not permitted\r\n", PollErrorKind::Auth),
        (b"-ERR max number of clients reached\r\n", PollErrorKind::MaxClients),
    ];
    for (answer, expected) in answers {
        let server = Fake::saying(answer);
        let (kind, text) = failure(&config(server.port)).await;
        assert_eq!(kind, expected, "{text}");
    }
}

#[tokio::test]
async fn an_error_line_without_being_asked_is_the_reason() {
    let server = Fake::start(|mut client| client.say(b"-ERR max number of clients reached\r\n"));
    let (kind, text) = failure(&config(server.port)).await;
    assert_eq!(kind, PollErrorKind::MaxClients, "{text}");
}

/// Answers `INFO` as a server does that takes at most one section.
fn one_section_only(mut client: Client) {
    while let Some(command) = client.command() {
        match command.len() {
            1 => client.say(&bulk(TEXT)),
            2 => client.say(&bulk(&format!("{TEXT}# Commandstats\r\n"))),
            _ => client.say(b"-ERR syntax error\r\n"),
        }
    }
}

#[tokio::test]
async fn a_server_that_takes_one_section_is_asked_for_everything() {
    let server = Fake::start(one_section_only);
    let mut node = node(&config(server.port));
    node.poll().await.unwrap();
    assert!(node.info().is_some_and(|info| info.commands.is_some()));
    assert_eq!(server.connections(), 1, "an error reply costs no connection");
}

#[tokio::test]
async fn a_server_that_takes_no_section_is_asked_for_none() {
    let server = Fake::start(|mut client| {
        while let Some(command) = client.command() {
            client.say(&if command.len() == 1 { bulk(TEXT) } else { bulk("") });
        }
    });
    let mut node = node(&config(server.port));
    node.poll().await.unwrap();
    assert_eq!(node.info().and_then(|info| info.counters.hits), Some(7.0));
    assert_eq!(node.reach(), Reach::Answering);
}

#[tokio::test]
async fn costly_sections_are_asked_for_seldom() {
    let questions = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&questions);
    let server = Fake::start(move |mut client| {
        while let Some(command) = client.command() {
            let full = command.iter().any(|word| word == "commandstats");
            asked.lock().unwrap().push(full);
            let counters = "keyspace_hits:7\r\nkeyspace_misses:3\r\ntotal_commands_processed:9\r\n";
            let loading = if full { "loading:0\r\nmaxmemory:5\r\n# Commandstats\r\n" } else { "" };
            client.say(&bulk(&format!("{counters}{loading}")));
        }
    });
    let mut node = node(&config(server.port));
    for _ in 0..33 {
        node.poll().await.unwrap();
        assert_eq!(node.info().and_then(|info| info.maxmemory), Some(5.0));
    }
    // The first poll of a connection is a full one. The second has no usual pace to compare with,
    // so it asks again in full. Twenty-nine quiet ones later it is time for the next full one.
    let [full, short] = [true, false];
    let mut expected = vec![full, short, full];
    expected.extend([short; 29]);
    expected.extend([full, short]);
    assert_eq!(*questions.lock().unwrap(), expected);
}

#[tokio::test]
async fn odd_fields_are_counted_once_and_cost_nothing_else() {
    let text = "keyspace_hits:5\r\nkeyspace_misses:x\r\ndb0:keys=1,new=2\r\ndb1:\r\n";
    let server = Fake::start(|mut client| client.always_say(&bulk(text)));
    let mut node = node(&config(server.port));
    for _ in 0..5 {
        node.poll().await.unwrap();
    }
    let state = node.state();
    // Not there: run_id and the uptime. Odd: the misses' number, `new`, and `db1`.
    let problems = [("missing", 2), ("number", 1), ("line", 1), ("ttl", 0), ("unknown_name", 1)];
    assert_eq!(state.info_problems, problems);
    assert_eq!((state.up, state.keys), (true, Some(1.0)));
}

#[tokio::test]
async fn the_first_text_of_a_busy_server_is_no_rate() {
    let server = Fake::start(|mut client| {
        client.command();
        client.say(&bulk("keyspace_hits:5000000\r\nkeyspace_misses:0\r\n"));
        client.always_say(&bulk("keyspace_hits:5000010\r\nkeyspace_misses:0\r\n"));
    });
    let mut node = node(&config(server.port));
    node.poll().await.unwrap();
    assert_eq!(lookups(&node), (0.0, 0.0));
    node.poll().await.unwrap();
    assert_eq!((lookups(&node), resets(&node)), ((10.0, 0.0), [0; 4]));
}
