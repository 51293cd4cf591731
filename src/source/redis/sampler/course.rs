//! The way of the sampler through all databases of one server.

use std::collections::BTreeMap;

use super::slice::Slice;
use super::walk::Walk;
use crate::reading::info::{Database, Info};
use crate::signal::ttl::Rounds;

/// The servers whose cursors tell how much of the table lies before them, and which scan in the same
/// order each time, outside of a cluster.
const ORDERLY: [&str; 3] = ["redis", "valkey", "keydb"];

/// The command that gives keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum KeySource {
    #[default]
    Scan,
    /// Where `SCAN` is refused.
    RandomKey,
}

/// Which keys come next.
#[derive(Debug, Default)]
pub(super) struct Course {
    walks: BTreeMap<u64, Walk>,
    databases: Vec<Database>,
    /// Whether the last poll said what the databases hold.
    observed: bool,
    /// Whether cursors tell how far a scan is.
    orderly: bool,
    source: KeySource,
    /// When `SCAN` is tried again after it was refused, Unix seconds.
    scan_again: f64,
}

impl Course {
    /// Takes in what the last poll said.
    pub(super) fn observe(&mut self, info: &Info) {
        self.databases.clear();
        self.observed = false;
        // While it loads, the server refuses to look at keys and counts only those loaded so far.
        if info.loading != Some(true)
            && let Some(keyspace) = &info.keyspace
        {
            self.databases.extend(&keyspace.databases);
            self.observed = keyspace.keys().is_some();
        }
        self.walks.retain(|index, _| self.databases.iter().any(|d| d.index == *index));
        self.orderly = info.mode.as_deref() != Some("cluster")
            && info.server.as_ref().is_some_and(|server| ORDERLY.contains(&server.as_str()));
    }

    /// Begins anew, as at another process.
    pub(super) fn restart(&mut self) {
        self.walks.clear();
    }

    /// The databases as last observed.
    pub(super) fn databases(&self) -> &[Database] {
        &self.databases
    }

    /// All keys, as last observed.
    pub(super) fn keys(&self) -> f64 {
        self.databases.iter().map(|d| d.keys).sum()
    }

    /// Whether there is nothing to ask for.
    pub(super) fn is_empty(&self) -> bool {
        self.observed && self.keys() == 0.0
    }

    /// Whether cursors tell how far a scan is.
    pub(super) fn is_orderly(&self) -> bool {
        self.orderly
    }

    /// The next question: to the database that is furthest behind its share of the keys.
    pub(super) fn next(&mut self, now: f64, keys: usize) -> Option<Slice> {
        if now >= self.scan_again {
            self.source = KeySource::Scan;
        }
        let all = self.keys();
        let asked: f64 = self.walks.values().map(Walk::asked).sum();
        let behind = |d: &Database| {
            let asked_here = self.walks.get(&d.index).map_or(0.0, Walk::asked);
            d.keys / all - asked_here / asked.max(1.0)
        };
        let database = self
            .databases
            .iter()
            .filter(|d| d.keys > 0.0 && self.walks.get(&d.index).is_none_or(|w| w.is_open(now)))
            .max_by(|a, b| behind(a).total_cmp(&behind(b)))?
            .index;
        let source = self.source;
        let slice = self.walks.entry(database).or_default().slice(database, keys, source);
        let in_order = self.orderly && source == KeySource::Scan;
        Some(Slice { round: slice.round.filter(|_| in_order), ..slice })
    }

    /// The way through one database.
    pub(super) fn walk(&mut self, database: u64) -> Option<&mut Walk> {
        self.walks.get_mut(&database)
    }

    /// Does without `SCAN` until a time, Unix seconds.
    pub(super) fn leave_scan(&mut self, until: f64) {
        self.source = KeySource::RandomKey;
        self.scan_again = until;
    }

    /// How far the rounds have got.
    pub(super) fn rounds(&self) -> Rounds {
        let holding = self.databases.iter().filter(|d| d.keys > 0.0);
        let walks = || holding.clone().map(|d| self.walks.get(&d.index));
        Rounds {
            complete: walks().map(|w| w.map_or(0, Walk::rounds)).min().unwrap_or(0),
            keys_in_round: walks().flatten().map(Walk::keys_in_round).sum(),
        }
    }
}
