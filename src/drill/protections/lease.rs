//! `lease`: the first that misses gets the right to write; the others get an older copy or wait.
//!
//! The lease is a token with a life. A write is accepted only with the token that is still the
//! key's, and uses it up; deleting the key takes the lease away with it, so that a writer that read
//! the database before the deletion cannot put its old value back. From R. Nishtala et al., "Scaling
//! Memcache at Facebook", NSDI 2013, section 3.2.1, where it is part of memcached; here three small
//! scripts do it on Redis.
//!
//! Fails when a load takes longer than the lease lives: its write is refused, although its caller
//! has an answer, and the next one loads again. Waiters without an older copy are as slow as with a
//! mutex.

use std::time::Duration;

use tokio::time::Instant;

use crate::drill::counters::LockTally;
use crate::drill::store::{Store, StoreError, Write};

/// "Wait a short time": the paper's clients try again after some milliseconds.
const WAIT: Duration = Duration::from_millis(10);

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    /// A lease is void after that; the paper gives one every 10 s a key.
    pub lease_ttl: Duration,
    /// Who waits gives up after that.
    pub patience: Duration,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Leased<V, E> {
    /// We had the lease, or there was none to be had because Redis failed, and loaded.
    Loaded(Result<V, E>),
    /// Somebody else had loaded it meanwhile.
    Found(V),
    /// Somebody else has the lease; this is an older copy.
    Stale(V),
    /// Somebody else had the lease until our patience ended.
    TimedOut,
}

/// The right to write one key once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    name: String,
    token: [u8; 16],
}

/// The leases of one cache.
#[derive(Debug, Clone)]
pub struct Leases {
    store: Store,
    times: LeaseTimes,
}

impl Leases {
    /// Leases in this store.
    pub fn new(store: Store, times: LeaseTimes) -> Leases {
        Leases { store, times }
    }

    /// Loads with the lease of `key`, or takes what `stale` finds, or waits. `look` reads the cache;
    /// `load` loads and writes with [`Leases::write`], or without a lease when there is none.
    pub async fn load_once<V, E, L, S, F>(
        &self,
        key: &str,
        tally: &LockTally,
        look: impl Fn() -> L,
        stale: impl Fn() -> S,
        load: impl FnOnce(Option<Lease>) -> F,
    ) -> Leased<V, E>
    where
        L: Future<Output = Option<V>>,
        S: Future<Output = Option<V>>,
        F: Future<Output = Result<V, E>>,
    {
        let give_up = Instant::now() + self.times.patience;
        loop {
            match self.take(key).await {
                Ok(Some(lease)) => {
                    tally.acquired.up();
                    return self.hold(lease, tally, look, load).await;
                }
                Ok(None) => tally.contended.up(),
                Err(_) => {
                    tally.error.up();
                    return Leased::Loaded(load(None).await);
                }
            }
            if let Some(value) = stale().await {
                return Leased::Stale(value);
            }
            if Instant::now() >= give_up {
                tally.timeout.up();
                return Leased::TimedOut;
            }
            tokio::time::sleep(WAIT).await;
            if let Some(value) = look().await {
                return Leased::Found(value);
            }
        }
    }

    /// What the holder of a lease does: look again, load if need be.
    pub async fn hold<V, E, L, F>(
        &self,
        lease: Lease,
        tally: &LockTally,
        look: impl Fn() -> L,
        load: impl FnOnce(Option<Lease>) -> F,
    ) -> Leased<V, E>
    where
        L: Future<Output = Option<V>>,
        F: Future<Output = Result<V, E>>,
    {
        // It may have come between the miss and the lease.
        let held = match look().await {
            Some(value) => Leased::Found(value),
            None => Leased::Loaded(load(Some(lease.clone())).await),
        };
        // A write has used it up; a load that failed or found nothing leaves it to the next.
        if self.give_back(&lease).await.is_err() {
            tally.error.up();
        }
        held
    }

    /// Takes the lease of a key if nobody has it.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn take(&self, key: &str) -> Result<Option<Lease>, StoreError> {
        let lease = Lease { name: name(key), token: rand::random() };
        let ours =
            self.store.set_if_absent(&lease.name, &lease.token, self.times.lease_ttl).await?;
        Ok(ours.then_some(lease))
    }

    /// Writes with a lease and uses it up; whether the lease was still good.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn write(&self, lease: &Lease, write: &Write) -> Result<bool, StoreError> {
        self.store.write_if(&lease.name, &lease.token, write).await
    }

    /// Frees a lease that was not used.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn give_back(&self, lease: &Lease) -> Result<bool, StoreError> {
        self.store.delete_if(&lease.name, &lease.token).await
    }
}

/// Removes keys, and with them everybody's right to write what they have read before.
///
/// # Errors
/// When Redis does not answer or refuses.
pub async fn invalidate(store: &Store, keys: &[String]) -> Result<(), StoreError> {
    // The lease goes first: who still has one must not write between the two.
    let both: Vec<String> = keys.iter().flat_map(|key| [name(key), key.clone()]).collect();
    store.delete(&both).await.map(|_| ())
}

/// The key that holds the token.
fn name(key: &str) -> String {
    format!("lease:{key}")
}
