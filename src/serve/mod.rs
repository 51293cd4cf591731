//! What people and Prometheus see, from memory.
