//! One Redis server: connect, poll, sample.
//!
//! A [`Node`] keeps one connection and asks `INFO` at every poll, the one command that servers
//! answer while they load, with a data set out of date, and to users who may do nothing else.

mod connect;
mod connection;
mod error;
mod keymiss;
mod node;
mod probe;
mod questions;
mod retry;
mod sampler;
mod shared;
mod tls;

pub use connection::Connection;
pub use error::{PollError, PollErrorKind};
pub use keymiss::{Report, Tracker};
pub use node::Node;
pub use sampler::Sampler;
pub use shared::shared;
