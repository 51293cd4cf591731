//! The known protections against a stampede, one a file: the algorithm, where it is from, how it
//! fails. Each stands by itself, so that a service can take it over.

use std::fmt;
use std::str::FromStr;

pub mod coalesce;
pub mod mutex;

/// A protection by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// One load at a time for a key, over all processes, by a lock in Redis.
    Mutex,
    /// One load at a time for a key in a process.
    Coalesce,
}

impl Protection {
    /// Every protection, in the order of the documentation.
    pub const ALL: [Protection; 2] = [Protection::Mutex, Protection::Coalesce];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Protection::Mutex => "mutex",
            Protection::Coalesce => "coalesce",
        }
    }
}

/// The protections of one run, in a fixed order, none twice; written `a+b`, or `none`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protections(Vec<Protection>);

impl Protections {
    /// Whether this one is among them.
    pub fn has(&self, protection: Protection) -> bool {
        self.0.contains(&protection)
    }
}

impl FromIterator<Protection> for Protections {
    fn from_iter<T: IntoIterator<Item = Protection>>(protections: T) -> Protections {
        let mut protections: Vec<Protection> = protections.into_iter().collect();
        protections.sort_unstable();
        protections.dedup();
        Protections(protections)
    }
}

impl fmt::Display for Protections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let names: Vec<&str> = self.0.iter().map(|protection| protection.as_str()).collect();
        f.write_str(&names.join("+"))
    }
}

/// Why a text names no protections.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtectionsError {
    /// No such name.
    #[error("{name:?} is no protection; there are none, {}", names())]
    Unknown {
        /// What was written.
        name: String,
    },
    /// `none` with something else.
    #[error("none cannot be joined with other protections")]
    NoneJoined,
}

impl FromStr for Protections {
    type Err = ProtectionsError;

    fn from_str(text: &str) -> Result<Protections, ProtectionsError> {
        if text == "none" {
            return Ok(Protections::default());
        }
        let one = |name: &str| {
            if name == "none" {
                return Err(ProtectionsError::NoneJoined);
            }
            let known = Protection::ALL.into_iter().find(|p| p.as_str() == name);
            known.ok_or_else(|| ProtectionsError::Unknown { name: name.to_owned() })
        };
        text.split('+').map(one).collect()
    }
}

fn names() -> String {
    Protection::ALL.map(Protection::as_str).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_names_are_read_and_written_in_one_order() {
        let both: Protections = "coalesce+mutex+coalesce".parse().unwrap();
        assert!(both.has(Protection::Mutex) && both.has(Protection::Coalesce));
        assert_eq!(both.to_string(), "mutex+coalesce");
        let none: Protections = "none".parse().unwrap();
        assert!(!none.has(Protection::Mutex));
        assert_eq!(none.to_string(), "none");
    }

    #[test]
    fn what_is_no_protection_is_refused_by_name() {
        let error = |text: &str| text.parse::<Protections>().unwrap_err();
        assert_eq!(error("prayer"), ProtectionsError::Unknown { name: "prayer".to_owned() });
        assert_eq!(error("mutex+"), ProtectionsError::Unknown { name: String::new() });
        assert_eq!(error("mutex+none"), ProtectionsError::NoneJoined);
        assert!(error("prayer").to_string().starts_with("\"prayer\" is no protection; there are"));
    }
}
