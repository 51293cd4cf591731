//! One task per cache: tick, read, observe, publish.
