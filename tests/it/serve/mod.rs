//! What people and Prometheus see, from boards made by hand and through a real listener.

mod api;
mod http;
mod live;
mod metrics;
mod page;
mod server;
mod world;
