//! What befalls the cache while the load runs.

use std::str::FromStr;

/// A scenario by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Nothing befalls it.
    Steady,
    /// The entry that most requests ask for runs out.
    HotKey,
    /// Entries written together, with one life, run out together.
    SynchronizedExpiry,
    /// The cache is empty of a sudden, as after a restart or `FLUSHALL`.
    ColdStart,
    /// Many live entries are purged at once, as a deploy or a CDN does.
    Invalidation,
    /// The memory limit falls below the working set.
    Eviction,
    /// A fifth of the requests ask for keys that exist nowhere.
    Penetration,
    /// The server stops answering, and comes back.
    Avalanche,
}

impl Scenario {
    /// Every scenario, in the order of the documentation.
    pub const ALL: [Scenario; 8] = [
        Scenario::Steady,
        Scenario::HotKey,
        Scenario::SynchronizedExpiry,
        Scenario::ColdStart,
        Scenario::Invalidation,
        Scenario::Eviction,
        Scenario::Penetration,
        Scenario::Avalanche,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Scenario::Steady => "steady",
            Scenario::HotKey => "hot_key",
            Scenario::SynchronizedExpiry => "synchronized_expiry",
            Scenario::ColdStart => "cold_start",
            Scenario::Invalidation => "invalidation",
            Scenario::Eviction => "eviction",
            Scenario::Penetration => "penetration",
            Scenario::Avalanche => "avalanche",
        }
    }
}

/// A text that names no scenario.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no scenario; there are {}", Scenario::ALL.map(Scenario::as_str).join(", "))]
pub struct ScenarioError {
    name: String,
}

impl FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(name: &str) -> Result<Scenario, ScenarioError> {
        let known = Scenario::ALL.into_iter().find(|scenario| scenario.as_str() == name);
        known.ok_or_else(|| ScenarioError { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_again() {
        for scenario in Scenario::ALL {
            assert_eq!(scenario.as_str().parse(), Ok(scenario));
        }
        let error = "meteorite".parse::<Scenario>().unwrap_err();
        assert!(error.to_string().starts_with("\"meteorite\" is no scenario; there are steady,"));
    }
}
