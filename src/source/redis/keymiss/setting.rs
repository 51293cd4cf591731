//! `notify-keyspace-events`, read and written.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::{Cmd, Value};

use super::Trouble;
use crate::source::redis::connection::Connection;
use crate::source::redis::error::{PollError, PollErrorKind};

const NAME: &str = "notify-keyspace-events";

/// What key misses need: channels by event, and the event.
const NEEDED: [char; 2] = ['E', 'm'];

/// What `A` stands for, and `n`, which servers leave out beside it.
const ALL: &str = "g$lshzxetdn";

/// The setting with what key misses need; as it is where nothing is missing.
pub(super) fn extended(setting: &str) -> String {
    let missing = NEEDED.into_iter().filter(|flag| !setting.contains(*flag));
    setting.chars().chain(missing).collect()
}

/// Where events of new keys show, if they are announced although the setting does not say so: `A`
/// does not stand for `n`, and servers leave `n` out where they write `A`.
pub(super) fn where_new_keys_may_show(setting: &str) -> Option<&'static str> {
    let hidden = setting.contains('A') && !setting.contains('n');
    if !hidden {
        None
    } else if setting.contains('E') {
        Some("__keyevent@*__:new")
    } else {
        setting.contains('K').then_some("__keyspace@*__:*")
    }
}

/// Whether two ways of writing it mean the same.
pub(super) fn mean_the_same(a: &str, b: &str) -> bool {
    let flags = |setting: &str| -> BTreeSet<char> {
        let all = if setting.contains('A') { ALL } else { "" };
        setting.chars().filter(|flag| *flag != 'A').chain(all.chars()).collect()
    };
    flags(a) == flags(b)
}

/// Reads it as the server writes it.
pub(super) async fn read(connection: &mut Connection, limit: Duration) -> Result<String, Trouble> {
    match ask(connection, redis::cmd("CONFIG").arg("GET").arg(NAME), limit).await? {
        Value::ServerError(error) => Err(Trouble::refused("CONFIG GET", error.code().as_bytes())),
        Value::Array(mut parts) if parts.len() == 2 => match parts.pop() {
            Some(Value::BulkString(text)) => {
                String::from_utf8(text).map_err(|_| Trouble::refused("CONFIG GET", b"odd answer"))
            }
            _ => Err(Trouble::refused("CONFIG GET", b"odd answer")),
        },
        _ => Err(Trouble::refused("CONFIG GET", b"unknown setting")),
    }
}

/// Sets it.
pub(super) async fn write(
    connection: &mut Connection,
    setting: &str,
    limit: Duration,
) -> Result<(), Trouble> {
    let mut command = redis::cmd("CONFIG");
    match ask(connection, command.arg("SET").arg(NAME).arg(setting), limit).await? {
        Value::Okay => Ok(()),
        Value::ServerError(error) => Err(Trouble::refused("CONFIG SET", error.code().as_bytes())),
        _ => Err(Trouble::refused("CONFIG SET", b"odd answer")),
    }
}

async fn ask(
    connection: &mut Connection,
    command: &Cmd,
    limit: Duration,
) -> Result<Value, PollError> {
    tokio::time::timeout(limit, connection.ask(command)).await.unwrap_or_else(|_| {
        let text = "the server did not answer CONFIG in time";
        Err(PollError::new(PollErrorKind::Timeout, text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_added() {
        let cases = [("", "Em"), ("Ex", "Exm"), ("Kg", "KgEm"), ("AKE", "AKEm"), ("xEm", "xEm")];
        for (before, after) in cases {
            assert_eq!(extended(before), after);
            assert_eq!(extended(after), after);
        }
    }

    #[test]
    fn new_keys_may_hide_behind_all() {
        assert_eq!(where_new_keys_may_show("AKE"), Some("__keyevent@*__:new"));
        assert_eq!(where_new_keys_may_show("AK"), Some("__keyspace@*__:*"));
        for known in ["", "A", "AKEn", "KEg$lshzxetd", "KEn"] {
            assert_eq!(where_new_keys_may_show(known), None, "{known}");
        }
    }

    #[test]
    fn order_and_the_letter_for_all_do_not_matter() {
        assert!(mean_the_same("Emx", "xEm") && mean_the_same("AKEnm", "AKEm"));
        assert!(!mean_the_same("Em", "Emx") && !mean_the_same("AKE", "AKEm"));
    }
}
