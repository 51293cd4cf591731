//! The one integration binary. Each module is one boundary of the product.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

// The applications' pages over HTTP.
mod app;
// The presets against pages of the libraries they are for.
mod presets;
// Recorded traces, written and read back.
mod trace;
// History replayed through the detector.
mod backtest;
// Helpers: real servers, real processes, waiting for conditions.
mod support;
// Configuration files: what good ones mean, what is said about bad ones.
mod config;
// Arguments, exit codes, signals, reload.
mod cli;
// The keys to blame, and the server's setting put back whatever happens.
mod culprits;
// Restarts: learned baselines, the running incident, the file of incidents.
mod restart;
// What a Prometheus has stored, learned from at the start.
mod warm_start;
// One Redis server: counters, failures, credentials.
mod redis;

// The fire drill: load, scenarios, protections, and nothing left behind.
mod drill;
// Its near cache: what it spares Redis and the database, and what it hides.
mod near_cache;
// The drill before a real database.
mod database;
// INFO texts of many servers, read without one.
mod info;
// Counters over resets, restarts and other servers at the same address.
mod counters;
// The shipped rules and runbooks.
mod alerts;
// The shipped dashboard.
mod dashboard;
// The whole chain, from Redis and an application to the panels and to whoever is on call.
mod chain;

// What people and Prometheus see: the metric page, the API, the page for a person.
mod serve;

// What expires when: the sampler on real servers, the forecast against the truth.
mod ttl;
// The ttl command: its intervals against a full scan, and cut short.
mod ttl_command;
// The rules of the sources themselves.
mod tidy;

// The decision, on hand-made traffic: what must be seen, what must stay silent.
mod detector;
// Each protection of the drill against its promise.
mod protections;
// The whole product under real load.
mod live;
// What expires when, in a model: rates of coverage, false waves and waves found, over seeds.
mod ttl_model;
// The demo as a process: it succeeds, and leaves nothing behind.
mod demo;
