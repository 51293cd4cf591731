//! The core: what a source said becomes a verdict.
//!
//! Pure, and it cannot fail: no IO, no clock, no async, no logging, no serde. Time comes in as an
//! argument, in Unix seconds as `f64`. That it is a package of its own holds this, for its
//! dependencies are few; and it is compiled for speed, since a replay of history runs through it
//! millions of times, while the program around it is compiled small.

pub mod detect;
pub mod elementary;
pub mod reading;
pub mod signal;
pub mod snapshot;
