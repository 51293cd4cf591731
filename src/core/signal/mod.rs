//! What a person watches: differences, rates, ratios and the TTL picture.

pub mod counters;
pub mod culprits;
pub mod fleet;
pub mod latency;
pub mod sample;
pub mod series;
pub mod tally;
pub mod ttl;
pub mod window;
