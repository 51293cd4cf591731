//! `mutex`: one load at a time for a key over all processes, by a lock in Redis.
//!
//! `SET lock:<key> <token> NX PX <ttl>`. The winner looks into the cache again (the value may have
//! come since it missed), loads, writes, and releases by a script that compares the token first, so
//! that a winner whose lock has run out does not free the next one's. Losers wait with exponential
//! backoff and full jitter (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
//! 2015), look again, and give up after a bound. The lock is the single-instance one of the Redis
//! documentation, "Distributed Locks with Redis".
//!
//! Fails when the lock lives shorter than the load takes: it runs out first, the next one loads as
//! well, and the duplicates are back. At least three times the load's p99 is the usual guidance. The
//! other way round, a winner that dies leaves everyone waiting until the lock runs out. Redis itself
//! failing leaves no lock: then the load goes on without one, rather than not at all.

use std::time::Duration;

use tokio::time::Instant;

use crate::drill::counters::LockTally;
use crate::drill::store::{Store, StoreError};

/// The first wait of a loser, before jitter; about ten lookups.
const FIRST_WAIT: Duration = Duration::from_millis(10);
/// No wait is longer than that, so that a value is found soon after it came.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MutexTimes {
    /// The lock runs out by itself after that.
    pub lock_ttl: Duration,
    /// A loser gives up after that.
    pub patience: Duration,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Held<V, E> {
    /// We held the lock, or there was none to be had because Redis failed, and loaded.
    Loaded(Result<V, E>),
    /// Somebody else had loaded it meanwhile.
    Found(V),
    /// Somebody else loads it; this is an older copy.
    Stale(V),
    /// Somebody else held the lock until our patience ended.
    TimedOut,
}

/// The lock of the entries of one cache.
#[derive(Debug, Clone)]
pub struct Mutex {
    store: Store,
    times: MutexTimes,
}

/// A lock that is ours until it is released or runs out.
#[derive(Debug)]
pub struct Token {
    name: String,
    secret: [u8; 16],
}

impl Mutex {
    /// Locks in this store.
    pub fn new(store: Store, times: MutexTimes) -> Mutex {
        Mutex { store, times }
    }

    /// Loads under the lock of `key`, or waits for the one that does. `look` reads the cache;
    /// `load` loads and writes.
    pub async fn load_once<V, E, L, F>(
        &self,
        key: &str,
        tally: &LockTally,
        look: impl Fn() -> L,
        load: impl FnOnce() -> F,
    ) -> Held<V, E>
    where
        L: Future<Output = Option<V>>,
        F: Future<Output = Result<V, E>>,
    {
        let give_up = Instant::now() + self.times.patience;
        let mut wait = FIRST_WAIT;
        loop {
            match self.try_lock(key).await {
                Ok(Some(token)) => {
                    tally.acquired.up();
                    return self.hold(token, tally, look, load).await;
                }
                Ok(None) => tally.contended.up(),
                Err(_) => {
                    tally.error.up();
                    return Held::Loaded(load().await);
                }
            }
            if Instant::now() >= give_up {
                tally.timeout.up();
                return Held::TimedOut;
            }
            let part: f64 = rand::random();
            tokio::time::sleep(wait.mul_f64(part)).await;
            if let Some(value) = look().await {
                return Held::Found(value);
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// What the winner does: look again, load if need be, release.
    pub async fn hold<V, E, L, F>(
        &self,
        token: Token,
        tally: &LockTally,
        look: impl Fn() -> L,
        load: impl FnOnce() -> F,
    ) -> Held<V, E>
    where
        L: Future<Output = Option<V>>,
        F: Future<Output = Result<V, E>>,
    {
        let held = match look().await {
            Some(value) => Held::Found(value),
            None => Held::Loaded(load().await),
        };
        if self.release(token).await.is_err() {
            tally.error.up();
        }
        held
    }

    /// Takes the lock if nobody holds it.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn try_lock(&self, key: &str) -> Result<Option<Token>, StoreError> {
        let token = Token { name: format!("lock:{key}"), secret: rand::random() };
        let ours =
            self.store.set_if_absent(&token.name, &token.secret, self.times.lock_ttl).await?;
        Ok(ours.then_some(token))
    }

    /// Frees the lock if it is still ours; whether it was.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn release(&self, token: Token) -> Result<bool, StoreError> {
        self.store.delete_if(&token.name, &token.secret).await
    }
}
