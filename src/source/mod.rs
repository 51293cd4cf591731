//! Where readings come from: one kept connection a Redis node, one page an application, and the
//! history that a Prometheus server has.

pub mod app;
pub mod prometheus;
pub mod redis;
