//! `refresh_worker`: a worker lists the keys that expire soon and makes them anew, a few at a time.
//!
//! Each write notes the key's deadline in a sorted set, so that listing what is due costs one range
//! query instead of a scan. Whoever removes a key from the list makes it anew: with several workers
//! each key is still done once. A bound on the loads at once keeps the worker from being a stampede
//! of its own.
//!
//! Fails when the bound is too low for what is due, which then runs out after all; and it keeps
//! alive what nobody asks for any more, so it suits a known set of keys. A worker that dies between
//! listing and writing leaves its keys to run out.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::drill::store::{Store, StoreError};

/// The sorted set of the deadlines.
pub const INDEX: &str = "deadlines";

/// How the worker works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerShape {
    /// What runs out within that is made anew.
    pub horizon: Duration,
    /// Time between two looks at the list.
    pub interval: Duration,
    /// Loads at once.
    pub at_once: usize,
}

/// Makes keys anew for ever; `refresh` loads and writes one. Errors of the list are counted with
/// `failed` and tried again at the next look.
pub async fn work<F>(
    store: Store,
    shape: WorkerShape,
    now: impl Fn() -> f64,
    refresh: impl Fn(String) -> F,
    failed: impl Fn(),
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut loads = JoinSet::new();
    let mut looks = tokio::time::interval(shape.interval);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some(_) = loads.join_next() => {}
            _ = looks.tick() => {
                let room = shape.at_once.saturating_sub(loads.len());
                let until = now() + shape.horizon.as_secs_f64();
                match take_due(&store, until, room).await {
                    Ok(keys) => keys.into_iter().for_each(|key| {
                        loads.spawn(refresh(key));
                    }),
                    Err(_) => failed(),
                }
            }
        }
    }
}

/// Takes at most `limit` keys off the list whose deadline is before `until`; nobody else gets them.
///
/// # Errors
/// When Redis does not answer or refuses.
pub async fn take_due(store: &Store, until: f64, limit: usize) -> Result<Vec<String>, StoreError> {
    match limit {
        0 => Ok(Vec::new()),
        limit => store.take_lowest(INDEX, until, limit).await,
    }
}
