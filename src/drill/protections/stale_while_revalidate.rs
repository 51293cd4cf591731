//! `stale_while_revalidate`: after the deadline the old value is served for a grace time, while
//! exactly one process makes it anew.
//!
//! M. Nottingham, "HTTP Cache-Control Extensions for Stale Content", RFC 5861, section 3. The server
//! keeps the entry for its life and the grace; the deadline is inside the value. The one that
//! revalidates is found by a key that only one can set. Past the grace it is a true miss.
//!
//! A soft purge fits it: an entry is marked as old instead of removed, so a purge of everything is
//! no cold start.
//!
//! Fails for keys that nobody asked for during the grace, and for readers who must not see old
//! values. When the one that revalidates dies, the others go on with the old value until its claim
//! runs out.

use std::time::Duration;

use crate::drill::store::{Store, StoreError};

/// What a value is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Before its deadline.
    Fresh,
    /// After it, but good enough while somebody makes it anew.
    Stale,
    /// Past the grace: as if it were not there.
    Gone,
}

/// What a value with this deadline is worth now; Unix seconds.
pub fn freshness(now: f64, deadline: f64, grace: Duration) -> Freshness {
    if now < deadline {
        Freshness::Fresh
    } else if now < deadline + grace.as_secs_f64() {
        Freshness::Stale
    } else {
        Freshness::Gone
    }
}

/// Who revalidates.
#[derive(Debug, Clone)]
pub struct Revalidation {
    store: Store,
    claim_ttl: Duration,
}

/// The right to revalidate one key.
#[derive(Debug)]
pub struct Claim {
    name: String,
    token: [u8; 16],
}

impl Revalidation {
    /// Claims in this store; one runs out after `claim_ttl`, which should be longer than a load.
    pub fn new(store: Store, claim_ttl: Duration) -> Revalidation {
        Revalidation { store, claim_ttl }
    }

    /// Claims a key, unless somebody has it.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn claim(&self, key: &str) -> Result<Option<Claim>, StoreError> {
        let claim = Claim { name: format!("revalidate:{key}"), token: rand::random() };
        let ours = self.store.set_if_absent(&claim.name, &claim.token, self.claim_ttl).await?;
        Ok(ours.then_some(claim))
    }

    /// Frees a claim.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn done(&self, claim: Claim) -> Result<(), StoreError> {
        self.store.delete_if(&claim.name, &claim.token).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grace_begins_at_the_deadline_and_ends() {
        let grace = Duration::from_secs(30);
        for (now, worth) in [
            (99.9, Freshness::Fresh),
            (100.0, Freshness::Stale),
            (129.9, Freshness::Stale),
            (130.0, Freshness::Gone),
        ] {
            assert_eq!(freshness(now, 100.0, grace), worth, "{now}");
        }
        assert_eq!(freshness(100.0, 100.0, Duration::ZERO), Freshness::Gone);
    }
}
