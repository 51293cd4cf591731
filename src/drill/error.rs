//! Why a drill did not take place.

use std::path::PathBuf;

use super::backend::postgres::DatabaseError;
use super::server::ServerError;
use super::store::StoreError;
use crate::source::app::AppError;

/// Why a drill did not take place or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum DrillError {
    /// A number that makes no drill.
    #[error("the {name} must be {legal}")]
    Option {
        /// Which one.
        name: &'static str,
        /// What it may be.
        legal: &'static str,
    },
    /// No private server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// No way to the real database.
    #[error("cannot use the database at {address}: {source}")]
    Database {
        /// The database, without secrets.
        address: String,
        /// What is in the way.
        source: DatabaseError,
    },
    /// No way to the server of the drill, or it went away, or refused to do what the scenario needs.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A server on which no drill can be held.
    #[error("the server at {address} is {what}; name a standalone server that takes writes")]
    Unfit {
        /// The server.
        address: String,
        /// What it is.
        what: &'static str,
    },
    /// Somebody else's data.
    #[error(
        "the server at {address} holds keys that no drill wrote; the drill would load it beside \
         them. Name an empty server, or say --yes-this-server"
    )]
    ForeignData {
        /// The server.
        address: String,
    },
    /// The scenario would push out somebody else's data.
    #[error(
        "the scenario eviction limits the server's memory, and the one at {address} holds keys that \
         no drill wrote, which could be pushed out; name an empty server"
    )]
    WouldEvict {
        /// The server.
        address: String,
    },
    /// No place for traces.
    #[error("cannot record in {}", dir.display())]
    Record {
        /// The place.
        dir: PathBuf,
        /// What is in the way.
        source: std::io::Error,
    },
    /// The exporter cannot watch the drill.
    #[error("cannot watch the drill: {0}")]
    Watch(#[source] AppError),
    /// No page, or the result cannot be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
