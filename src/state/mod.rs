//! What outlives the process: one directory, a few small files a cache.
//!
//! A file is written beside its place and moved there, so that it is always whole. What is read
//! back is checked, and what cannot be used is left aside with one line in the log.

mod keeper;
mod place;
mod wire;

pub use keeper::Keeper;
pub use place::{Place, PlaceError};
