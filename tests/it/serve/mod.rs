//! What people and Prometheus see, from boards made by hand and through a real listener.

mod metrics;
mod world;
