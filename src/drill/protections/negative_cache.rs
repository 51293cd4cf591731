//! `negative_cache`: "there is no such thing" is an answer too, and is kept for a short time.
//!
//! M. Andrews, "Negative Caching of DNS Queries", RFC 2308, is the best-known use. Its life is
//! short, because a thing may come into being.
//!
//! Fails against requests for ever new keys: each is asked for once, so nothing is gained and the
//! cache fills with denials, which push out what is useful. The Bloom filter of
//! [`bloom`](super::bloom) helps there.

use std::time::Duration;

/// The longest life of a denial: what comes into being is seen after that at the latest.
const LONGEST: Duration = Duration::from_secs(30);

/// The life of a denial: as that of a value, but never long.
pub fn life(ttl: Duration) -> Duration {
    ttl.min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denials_never_live_long() {
        for (ttl, seconds) in [(3600, 30), (10, 10)] {
            assert_eq!(life(Duration::from_secs(ttl)), Duration::from_secs(seconds));
        }
    }
}
