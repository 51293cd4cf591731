//! What a server's setting was before it was changed, on disk from before until after.

use serde::{Deserialize, Serialize};

use super::Trouble;
use crate::state::{Place, PlaceError};

/// The form below.
const VERSION: u32 = 1;

/// One cache's journal.
#[derive(Debug, Clone)]
pub(super) struct Journal(pub(super) Place);

/// A setting that was or is about to be changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    version: u32,
    /// The server.
    pub(super) node: String,
    /// The setting before, as the server wrote it.
    pub(super) previous: String,
    /// What was asked for.
    pub(super) wanted: String,
    /// What the server made of it; unknown until it has said so.
    pub(super) set: Option<String>,
}

impl Entry {
    pub(super) fn new(node: &str, previous: &str, wanted: &str) -> Entry {
        Entry {
            version: VERSION,
            node: node.to_owned(),
            previous: previous.to_owned(),
            wanted: wanted.to_owned(),
            set: None,
        }
    }
}

impl Journal {
    /// The entry, if a change was not taken back yet.
    pub(super) fn entry(&self) -> Result<Option<Entry>, PlaceError> {
        self.0.read()
    }

    /// Whether there may be an entry.
    pub(super) fn is_there(&self) -> bool {
        self.0.path().exists()
    }

    /// Notes a change; on the disk when it returns.
    pub(super) fn note(&self, entry: &Entry) -> Result<(), Trouble> {
        self.0.write(entry).map_err(Trouble::Journal)
    }

    /// Notes that nothing is left to take back.
    pub(super) fn clear(&self) -> Result<(), Trouble> {
        self.0.remove().map_err(Trouble::Journal)
    }
}
