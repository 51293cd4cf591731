//! Sees a cache stampede on Redis in seconds, explains it, and publishes it for Prometheus.
//!
//! # Bird's-eye view
//!
//! ```text
//! source/redis ─┐ what one server or one
//! source/app  ──┤ application said, once a poll
//!               ▼
//!            Reading   cumulative, one instant, one cache      (reading/)
//!               ▼
//!            Sample    what happened between two readings      (signal/)
//!               ▼
//!            Detector  the decision, with cause and evidence   (detect/)
//!               ▼
//!            Snapshot  all that may be said about a cache now  (snapshot.rs)
//!               ▼
//!            /metrics, the API and the page                    (serve/)
//! ```
//!
//! One task a cache (`monitor`) drives that line: tick, read, observe, publish. `backtest` drives
//! the same detector from a file instead, and `drill` makes the stampede that it should see.
//!
//! # Invariants
//!
//! * `reading`, `signal`, `detect` and `snapshot` are pure: no IO, no clock, no async, no logging,
//!   no serde. Time comes in as an argument, in Unix seconds as `f64`.
//! * The edges know the core, never the reverse.
//! * A metric page is rendered from snapshots; nothing increments a metric.
//! * Serving a page never talks to Redis or to an application.
//! * A key name is bytes, and never a label.
//! * Each outside crate is imported in one file or folder (`tests/it/tidy.rs` holds the table).

pub mod backtest;
pub mod board;
pub mod cli;
pub mod clock;
pub mod config;
pub mod demo;
pub mod detect;
pub mod drill;
pub mod monitor;
pub mod one_line;
pub mod reading;
pub mod run;
pub mod serve;
pub mod shipped;
pub mod signal;
pub mod signals;
pub mod snapshot;
pub mod source;
pub mod trace;
pub mod ttl_command;
