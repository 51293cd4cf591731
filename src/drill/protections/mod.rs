//! The known protections against a stampede, one a file: the algorithm, where it is from, how it
//! fails. Each stands by itself, so that a service can take it over.

use std::fmt;
use std::str::FromStr;

pub mod background_refresh;
pub mod bloom;
pub mod bulkhead;
pub mod coalesce;
pub mod jitter;
pub mod lease;
pub mod mutex;
pub mod mutex_stale;
pub mod near_cache;
pub mod negative_cache;
pub mod prewarm;
pub mod refresh_worker;
pub mod stale_while_revalidate;
pub mod xfetch;
pub mod xfetch_linear;

/// A protection by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// One load at a time for a key, over all processes, by a lock in Redis.
    Mutex,
    /// The same, and who does not get the lock is answered with an older copy.
    MutexStale,
    /// Early recomputation by chance, the likelier the nearer the deadline and the longer the load.
    XFetch,
    /// Early recomputation by chance, by the share of the life that is over.
    XFetchLinear,
    /// One load at a time for a key in a process.
    Coalesce,
    /// A hit near the deadline, by the server's own count, starts a reload in the background.
    BackgroundRefresh,
    /// The same by a time inside the value, which saves asking the server.
    RefreshAt,
    /// The right to write, given to the first that misses.
    Lease,
    /// Old values are served for a grace time while one process reloads.
    StaleWhileRevalidate,
    /// Lives are spread by chance.
    Jitter,
    /// Popular keys are loaded before traffic comes.
    Prewarm,
    /// A worker reloads what expires soon.
    RefreshWorker,
    /// "There is no such thing" is cached.
    NegativeCache,
    /// Keys that were never written are refused by a Bloom filter.
    Bloom,
    /// A limit on loads, and a breaker when they fail.
    Bulkhead,
    /// A bounded copy of the popular entries in each process.
    NearCache,
}

impl Protection {
    /// Every protection, in the order of the documentation.
    pub const ALL: [Protection; 16] = [
        Protection::Mutex,
        Protection::MutexStale,
        Protection::XFetch,
        Protection::XFetchLinear,
        Protection::Coalesce,
        Protection::BackgroundRefresh,
        Protection::RefreshAt,
        Protection::Lease,
        Protection::StaleWhileRevalidate,
        Protection::Jitter,
        Protection::Prewarm,
        Protection::RefreshWorker,
        Protection::NegativeCache,
        Protection::Bloom,
        Protection::Bulkhead,
        Protection::NearCache,
    ];

    /// Those of which a run has one at most, because they decide the same thing.
    const RIVALS: [&[Protection]; 3] = [
        &[Protection::Mutex, Protection::MutexStale, Protection::Lease],
        &[Protection::XFetch, Protection::XFetchLinear],
        &[Protection::BackgroundRefresh, Protection::RefreshAt],
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Protection::Mutex => "mutex",
            Protection::MutexStale => "mutex_stale",
            Protection::XFetch => "xfetch",
            Protection::XFetchLinear => "xfetch_linear",
            Protection::Coalesce => "coalesce",
            Protection::BackgroundRefresh => "background_refresh",
            Protection::RefreshAt => "refresh_at",
            Protection::Lease => "lease",
            Protection::StaleWhileRevalidate => "stale_while_revalidate",
            Protection::Jitter => "jitter",
            Protection::Prewarm => "prewarm",
            Protection::RefreshWorker => "refresh_worker",
            Protection::NegativeCache => "negative_cache",
            Protection::Bloom => "bloom",
            Protection::Bulkhead => "bulkhead",
            Protection::NearCache => "near_cache",
        }
    }
}

/// The protections of one run, in a fixed order, none twice; written `a+b`, or `none`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protections(Vec<Protection>);

impl Protections {
    /// None, and each one by itself.
    pub fn each() -> Vec<Protections> {
        let one = |protection| Protections(vec![protection]);
        std::iter::once(Protections::default()).chain(Protection::ALL.map(one)).collect()
    }

    /// Whether this one is among them.
    pub fn has(&self, protection: Protection) -> bool {
        self.0.contains(&protection)
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
    /// Two that decide the same thing.
    #[error("{first} and {second} decide the same thing: choose one")]
    Rivals {
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
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
        let mut protections: Vec<Protection> =
            text.split('+').map(one).collect::<Result<_, _>>()?;
        protections.sort_unstable();
        protections.dedup();
        for rivals in Protection::RIVALS {
            let mut chosen = protections.iter().filter(|p| rivals.contains(p));
            if let (Some(first), Some(second)) = (chosen.next(), chosen.next()) {
                let (first, second) = (first.as_str(), second.as_str());
                return Err(ProtectionsError::Rivals { first, second });
            }
        }
        Ok(Protections(protections))
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
    fn every_protection_is_read_by_its_name() {
        for protection in Protection::ALL {
            let read: Protections = protection.as_str().parse().unwrap();
            assert!(read.has(protection));
            assert_eq!(read.to_string(), protection.as_str());
        }
    }

    #[test]
    fn what_is_no_protection_is_refused_by_name() {
        let error = |text: &str| text.parse::<Protections>().unwrap_err();
        assert_eq!(error("prayer"), ProtectionsError::Unknown { name: "prayer".to_owned() });
        assert_eq!(error("mutex+"), ProtectionsError::Unknown { name: String::new() });
        assert_eq!(error("mutex+none"), ProtectionsError::NoneJoined);
        assert_eq!(
            error("lease+jitter+mutex").to_string(),
            "mutex and lease decide the same thing: choose one"
        );
        assert!(error("prayer").to_string().starts_with("\"prayer\" is no protection; there are"));
    }
}
