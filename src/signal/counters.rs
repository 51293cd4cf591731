//! Counters that survive the world: restarts, resets, another server behind the address, gaps.
