//! Users and passwords.

use std::path::Path;

use stampede_exporter::config::{RedisConfig, Secret};
use stampede_exporter::one_line::one_line;
use stampede_exporter::source::redis::PollErrorKind;

use super::{config, failure, node};
use crate::support::fake::Fake;
use crate::support::redis::{Redis, free_port};

/// What the log, errors and states must never hold.
const CANARY: &str = "CANARY-1";

fn with(port: u16, user: Option<&str>, password: Option<Secret>) -> RedisConfig {
    RedisConfig { username: user.map(str::to_owned), password, ..config(port) }
}

fn inline(password: &[u8]) -> Option<Secret> {
    Some(Secret::Inline(password.to_vec()))
}

/// Makes a user that may call `INFO` and nothing else.
async fn add_user(redis: &Redis, name: &str, password: &[u8]) {
    let mut admin = node(&config(redis.port));
    admin.poll().await.unwrap();
    let secret = [b">", password].concat();
    let command =
        redis::cmd("ACL").arg(&["SETUSER", name, "on", "~*", "+info"]).arg(secret).to_owned();
    let answer = admin.connection().unwrap().ask(&command).await.unwrap();
    assert_eq!(answer, redis::Value::Okay);
}

fn file(dir: &Path, bytes: &[u8]) -> Option<Secret> {
    let path = dir.join("password");
    std::fs::write(&path, bytes).unwrap();
    Some(Secret::File(path))
}

#[tokio::test]
async fn passwords_are_bytes() {
    let redis = Redis::start();
    let dir = tempfile::tempdir().unwrap();
    let odd: [&[u8]; 6] = [
        b"p@ss:w/rd%41#?",
        b"",
        b"trailing ",
        "p\u{e4}ss".as_bytes(),
        b"latin-\xe4-\xff",
        b"two\r\nlines\n",
    ];
    for (number, password) in odd.into_iter().enumerate() {
        let user = format!("m@n:/%41#?{number}");
        add_user(&redis, &user, password).await;
        let line = [password, b"\n"].concat();
        let windows_line = [password, b"\r\n"].concat();
        let mut secrets =
            vec![inline(password), file(dir.path(), &line), file(dir.path(), &windows_line)];
        if !password.ends_with(b"\n") {
            secrets.push(file(dir.path(), password));
        }
        for secret in secrets {
            // The file is written anew for each case, and read when the connection is made.
            if let Some(Secret::File(path)) = &secret {
                let bytes = if password.ends_with(b"\n") { &line } else { &windows_line };
                std::fs::write(path, bytes).unwrap();
            }
            node(&with(redis.port, Some(&user), secret)).poll().await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_password_of_the_default_user() {
    let redis = Redis::start_with(&["--requirepass", CANARY]);
    node(&with(redis.port, None, inline(CANARY.as_bytes()))).poll().await.unwrap();
    let (kind, text) = failure(&config(redis.port)).await;
    assert_eq!(kind, PollErrorKind::Auth, "{text}");
}

#[tokio::test]
async fn a_password_from_the_environment() {
    let path = std::env::var("PATH").unwrap();
    let redis = Redis::start();
    add_user(&redis, "monitor", path.as_bytes()).await;
    let secret = |name: &str| Some(Secret::Env(name.to_owned()));
    node(&with(redis.port, Some("monitor"), secret("PATH"))).poll().await.unwrap();
    let unset = with(redis.port, Some("monitor"), secret("STAMPEDE_NOT_SET"));
    let (kind, text) = failure(&unset).await;
    assert_eq!(kind, PollErrorKind::Auth);
    assert!(text.contains("STAMPEDE_NOT_SET"), "{text}");
}

#[tokio::test]
async fn a_user_who_may_only_call_info_is_enough() {
    let redis = Redis::start();
    add_user(&redis, "monitor", b"pw").await;
    let mut node = node(&with(redis.port, Some("monitor"), inline(b"pw")));
    node.poll().await.unwrap();
    assert!(node.state().up);
    assert_eq!(redis.info("stats", "total_error_replies").as_deref(), Some("0"));
    assert_eq!(redis.cli(&["ACL", "LOG"]), "", "nothing was refused");

    redis.cli(&["ACL", "SETUSER", "monitor", "-info"]);
    let error = node.poll().await.unwrap_err();
    assert_eq!(error.kind(), PollErrorKind::NoPermission, "{}", one_line(&error));
    assert_eq!(node.state().capabilities, [("info", false)]);
    redis.cli(&["ACL", "SETUSER", "monitor", "+info"]);
    node.poll().await.expect("a right that is given back is noticed");
    assert_eq!(node.state().capabilities, [("info", true)]);

    redis.cli(&["ACL", "DELUSER", "monitor"]);
    assert_eq!(node.poll().await.unwrap_err().kind(), PollErrorKind::Auth);
}

#[tokio::test]
async fn commands_that_a_service_renames_are_not_needed() {
    let renamed = ["--rename-command", "CONFIG", "", "--rename-command", "SLOWLOG", ""];
    let redis = Redis::start_with(&renamed);
    node(&config(redis.port)).poll().await.unwrap();
}

#[tokio::test]
async fn a_new_password_is_read_at_the_next_connect() {
    let redis = Redis::start();
    add_user(&redis, "monitor", b"old").await;
    let dir = tempfile::tempdir().unwrap();
    let mut node = node(&with(redis.port, Some("monitor"), file(dir.path(), b"old\n")));
    node.poll().await.unwrap();
    redis.cli(&["ACL", "SETUSER", "monitor", "<old", ">new"]);
    file(dir.path(), b"new\n");
    redis.cli(&["CLIENT", "KILL", "USER", "monitor"]);
    node.poll().await.unwrap();
}

#[tokio::test]
async fn no_failure_shows_the_password() {
    let log = super::log::capture();
    let redis = Redis::start();
    let no_auth = Redis::start_with(&["--rename-command", "AUTH", ""]);
    let echo = Fake::start(|mut client| {
        while let Some(command) = client.command() {
            client.say(format!("-ERR unknown command, with args: {command:?}\r\n").as_bytes());
        }
    });
    let code = Fake::start(|mut client| {
        while let Some(command) = client.command() {
            client.say(format!("-{} no such\r\n", command.concat()).as_bytes());
        }
    });
    let parrot = Fake::start(|mut client| {
        while let Some(command) = client.command() {
            client.say(format!("+{}\r\n", command.join(" ")).as_bytes());
        }
    });
    let junk = Fake::start(|mut client| {
        while let Some(command) = client.command() {
            client.say(format!("{}\r\n", command.concat()).as_bytes());
        }
    });
    let ports = [
        (redis.port, PollErrorKind::Auth),
        (no_auth.port, PollErrorKind::Auth),
        (free_port(), PollErrorKind::ConnectRefused),
        (echo.port, PollErrorKind::Auth),
        (code.port, PollErrorKind::Auth),
        (parrot.port, PollErrorKind::Protocol),
        (junk.port, PollErrorKind::Protocol),
    ];
    for (port, expected) in ports {
        for user in [None, Some("monitor")] {
            let config = with(port, user, inline(CANARY.as_bytes()));
            let mut node = node(&config);
            let error = node.poll().await.unwrap_err();
            assert_eq!(error.kind(), expected, "{}", one_line(&error));
            let shown = format!(
                "{config:?} {node:?} {:?} {error} {error:?} {}",
                node.state(),
                one_line(&error)
            );
            assert!(!shown.contains(CANARY), "{shown}");
        }
    }
    assert!(log.lines("stampede_exporter").len() >= ports.len());
    assert!(!log.text().contains(CANARY), "{}", log.text());
}
