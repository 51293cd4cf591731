//! Sees a cache stampede on Redis in seconds, explains it, and publishes it for Prometheus.
//!
//! # Bird's-eye view
//!
//! ```text
//! source/redis ─┐ what one server or one
//! source/app  ──┤ application said, once a poll
//!               ▼
//!            Reading   cumulative, one instant, one cache      (core/reading/)
//!               ▼
//!            Sample    what happened between two readings      (core/signal/)
//!               ▼
//!            Detector  the decision, with cause and evidence   (core/detect/)
//!               ▼
//!            Snapshot  all that may be said about a cache now  (core/snapshot.rs)
//!               ▼
//!            /metrics, the API and the page                    (serve/)
//! ```
//!
//! # The rooms
//!
//! The core, `core/`, is a package of its own: pure, it cannot fail, and it is compiled for speed:
//! * [`reading`]: what a source said at one instant. `INFO` texts, application pages, and which of
//!   a page's series are a cache's counters.
//! * [`signal`]: what a person watches. Counters that survive resets, differences, rates and ratios
//!   over a window, load latency, and the picture of what expires when.
//! * [`detect`]: the decision. Baseline, likelihood-ratio chart, evidence, cause, incident.
//! * [`snapshot`]: all that may be said about a cache now.
//! * [`elementary`]: exponentials and logarithms, the same everywhere.
//!
//! The edges do the IO:
//! * [`cli`] and [`config`]: what was typed or written becomes what is meant, or every problem.
//! * [`source`]: one kept connection a server, one page an application, the TTL sampler.
//! * [`monitor`]: one task a cache; it drives the line above: tick, read, observe, publish.
//! * [`culprits`]: which keys are missed, looked at when there is reason to.
//! * [`board`]: where monitors hang snapshots and the server takes them from.
//! * [`serve`]: the routes, the metric page, the API, the page for a person.
//! * [`state`] and [`incident_file`]: what outlives the process, on disk; [`warm_start`]: what a
//!   Prometheus has kept of it.
//! * [`run`]: the process, from its first log line to its last. [`signals`] and [`clock`] are its
//!   doors to the system, [`one_line`] is how an error is told there.
//! * [`trace`] and [`backtest`]: readings recorded, and the same detector over them or over the
//!   history of a Prometheus server.
//! * [`ttl_command`]: a few seconds' look at a server. [`drill`]: the stampede that all this
//!   should see. [`demo`]: all of it together, shown from nothing.
//! * [`shipped`]: rules, dashboard and runbooks inside the binary.
//!
//! # Invariants
//!
//! * The core has no IO, no clock, no async, no logging, no serde. Time comes in as an argument, in
//!   Unix seconds as `f64`. The edges know the core, never the reverse.
//! * The exporter polls on its own timer; serving a page never talks to Redis or an application.
//! * A metric page is rendered from snapshots; nothing increments a metric.
//! * Undefined is `None` and an absent series; no number stands for it.
//! * A key name is bytes, and never a label. A secret is read where it is used and shown nowhere.
//! * Each outside crate is imported in one file or folder (`tests/it/tidy.rs` holds the table).
//!
//! # To add a …
//!
//! * **metric**: a row in `serve/metrics/rows.rs` and its line in `tests/golden/metrics.txt`.
//! * **threshold**: a row in `core/detect/thresholds.rs`; the configuration follows.
//! * **signal or cause**: a variant in `core/detect/evidence.rs` or `core/detect/cause.rs`, a case in
//!   `tests/it/detector/`, and for a cause its runbook in `alerts/runbooks/`.
//! * **library's counters**: a file in `core/reading/presets/` and a page of it in `tests/presets/`.
//! * **configuration key**: a field in `config/mod.rs`, its reader beside it, and a file in
//!   `tests/config/bad/` with what is said about a wrong value.
//! * **column of a trace**: a row in `trace/columns.rs`.
//! * **protection of the drill**: a file in `drill/protections/` and a case in
//!   `tests/it/protections.rs`.
//! * **alert**: a rule in `alerts/`, its test in `tests/alerts/`, its runbook.

pub use stampede_core::{detect, elementary, reading, signal, snapshot};

pub mod backtest;
pub mod board;
pub mod cli;
pub mod clock;
pub mod config;
pub mod culprits;
pub mod demo;
pub mod drill;
pub mod incident_file;
pub mod monitor;
pub mod one_line;
pub mod run;
pub mod serve;
pub mod shipped;
pub mod signals;
pub mod source;
pub mod state;
pub mod trace;
pub mod ttl_command;
pub mod warm_start;
