//! `mutex_stale`: as [`mutex`](super::mutex), but who does not get the lock is answered at once with
//! an older copy.
//!
//! Each write leaves a second copy with a longer life. A loser takes it; only without one does it
//! wait. So the waiters' latency does not rise, at the price of memory for two copies and of answers
//! that are older than the entry's life allows. Several large sites are known to do it; Redis'
//! documentation has no name for it.
//!
//! Fails when the second copy is gone as well (a flush, eviction, the first request ever): then it
//! is a plain mutex. And nobody notices a load that fails for hours while old copies are served,
//! unless stale answers are counted.

use super::mutex::{Held, Mutex};
use crate::drill::counters::LockTally;

/// Loads under the lock of `key`; the others get what `stale` finds, or wait. `look` reads the
/// cache; `load` loads and writes.
pub async fn load_once<V, E, L, S, F>(
    mutex: &Mutex,
    key: &str,
    tally: &LockTally,
    look: impl Fn() -> L,
    stale: impl FnOnce() -> S,
    load: impl FnOnce() -> F,
) -> Held<V, E>
where
    L: Future<Output = Option<V>>,
    S: Future<Output = Option<V>>,
    F: Future<Output = Result<V, E>>,
{
    match mutex.try_lock(key).await {
        Ok(Some(token)) => {
            tally.acquired.up();
            mutex.hold(token, tally, look, load).await
        }
        Ok(None) => {
            tally.contended.up();
            match stale().await {
                Some(value) => Held::Stale(value),
                None => mutex.load_once(key, tally, look, load).await,
            }
        }
        Err(_) => {
            tally.error.up();
            Held::Loaded(load().await)
        }
    }
}
