//! Where readings come from: one kept connection a Redis node, one page an application.

pub mod app;
pub mod redis;
