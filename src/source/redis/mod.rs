//! One Redis server: connect, poll, sample.
