//! The decision: is this a stampede, since when, why, and how much does it cost.
//!
//! Pure: a [`Sample`](crate::signal::sample::Sample) in, a [`Verdict`] out. Live polling, `backtest`
//! and the tests use the same [`detector::Detector`].

pub mod advice;
mod baseline;
pub mod cause;
mod chart;
mod course;
pub mod detector;
mod episode;
pub mod evidence;
mod history;
pub mod incident;
mod ladder;
mod reloads;
pub mod state;
mod statistic;
pub mod thresholds;

pub use advice::advice;
pub use cause::Cause;
pub use detector::{Detector, Verdict};
pub use evidence::SignalKind;
pub use incident::{Change, Incident, IncidentLog, Suspect, SuspectSource};
pub use state::State;
pub use thresholds::Thresholds;
