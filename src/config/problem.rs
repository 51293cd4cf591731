//! Everything that is wrong with a configuration, collected before anything is said.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

/// One problem: where it is and how the value should look.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Where: a path such as `caches[0].poll_interval`, a flag, or a file name.
    pub path: String,
    /// What is wrong, with the legal form. Never holds a secret.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Why a configuration was refused: every problem. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct ConfigError(pub Vec<Problem>);

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// The problems found so far. Readers share it and go on after each one.
#[derive(Debug, Default)]
pub(super) struct Problems {
    found: RefCell<Vec<Problem>>,
}

impl Problems {
    /// Notes a problem.
    pub(super) fn add(&self, path: impl Into<String>, message: impl Into<String>) {
        let problem = Problem { path: path.into(), message: message.into() };
        self.found.borrow_mut().push(problem);
    }

    /// The value, if nothing was wrong. What `defaults` says wrongly was found once for every
    /// cache, and is told once.
    pub(super) fn or<T>(self, value: Option<T>) -> Result<T, ConfigError> {
        let mut found = self.found.into_inner();
        let mut told = HashSet::new();
        found.retain(|problem| told.insert(problem.clone()));
        match value {
            Some(value) if found.is_empty() => Ok(value),
            _ => Err(ConfigError(found)),
        }
    }
}

/// A value as a message shows it: quoted, on one line, not endless, and without the login of an
/// address that was written in the wrong place.
pub(super) fn quoted(value: &str) -> String {
    /// Enough to recognise a value by; a whole file pasted by mistake does not fill the terminal.
    const LONGEST: usize = 80;
    let value = without_login(value);
    let shown: String = value.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    let more = if value.chars().nth(LONGEST).is_some() { "…" } else { "" };
    format!("\"{shown}{more}\"")
}

fn without_login(value: &str) -> Cow<'_, str> {
    let login = value.split_once("://").and_then(|(scheme, rest)| {
        let (_, host) = rest.rsplit_once('@')?;
        Some(format!("{scheme}://***@{host}"))
    });
    login.map_or(Cow::Borrowed(value), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn what_is_quoted_holds_no_login_and_no_line_end() {
        let cases = [
            ("redis://me:CANARY@h:1", "\"redis://***@h:1\""),
            ("x redis://:CAN@ARY@", "\"x redis://***@\""),
            ("a@b", "\"a@b\""),
            ("http://h/a\nb", "\"http://h/a\\nb\""),
        ];
        for (value, shown) in cases {
            assert_eq!(quoted(value), shown);
        }
        let long = format!("redis://me:{}@h", "CANARY".repeat(100));
        assert_eq!(quoted(&long), "\"redis://***@h\"");
    }
}
