//! Exponentials and logarithms, from the Rust project's own library: a verdict is the same to the last
//! bit on every machine, and the system's library of mathematics, half a megabyte, stays out of memory.

pub use libm::{exp, exp2, expm1 as exp_m1, log as ln, pow};
