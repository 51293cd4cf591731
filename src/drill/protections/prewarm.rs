//! `prewarm`: the most popular keys are loaded before traffic comes; the service is ready only when
//! enough of its requests would hit.
//!
//! Readiness is what an orchestrator asks before it sends traffic. The estimate weighs each key by
//! how often it is asked for, because half of the keys may be a tenth of the traffic, or all of it.
//!
//! Fails when popularity is not known or has changed, and when the cache is emptied under a service
//! that is already ready: it must become unready for that. Warming takes as long as the backend
//! needs for it; until then requests wait.

use std::collections::VecDeque;

use tokio::sync::watch;
use tokio::task::JoinSet;

/// Whether a service takes traffic; clones are handles to the same gate.
#[derive(Debug, Clone)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    /// An open gate: the cache was warm from the start.
    pub fn open() -> Gate {
        Gate(watch::Sender::new(true))
    }

    /// From now on requests wait.
    pub fn shut(&self) {
        self.0.send_replace(false);
    }

    /// Lets requests in if at least `threshold` of them would hit; whether it does.
    pub fn admit(&self, hit_ratio: f64, threshold: f64) -> bool {
        let ready = hit_ratio >= threshold;
        self.0.send_replace(ready);
        ready
    }

    /// Waits until requests are let in; at once when they are.
    pub async fn pass(&self) {
        if !*self.0.borrow() {
            // The sender is ours, so the channel cannot be closed.
            let _ = self.0.subscribe().wait_for(|ready| *ready).await;
        }
    }
}

/// Loads keys, the first ones first, at most `at_once` at a time.
pub async fn warm<K, F>(keys: impl IntoIterator<Item = K>, at_once: usize, load: impl Fn(K) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut waiting: VecDeque<K> = keys.into_iter().collect();
    let mut loads = JoinSet::new();
    loop {
        while loads.len() < at_once.max(1)
            && let Some(key) = waiting.pop_front()
        {
            loads.spawn(load(key));
        }
        if loads.join_next().await.is_none() {
            return;
        }
    }
}

/// The hit ratio to be expected: keys with their popularity, and whether each is in the cache.
/// `None` when nothing is ever asked for.
pub fn expected_hit_ratio(keys: impl IntoIterator<Item = (f64, bool)>) -> Option<f64> {
    let (hits, all) = keys.into_iter().fold((0.0, 0.0), |(hits, all), (popularity, cached)| {
        (if cached { hits + popularity } else { hits }, all + popularity)
    });
    (all > 0.0).then(|| hits / all)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn popularity_weighs() {
        // 1 of 2 keys, but three quarters of the requests.
        assert_eq!(expected_hit_ratio([(3.0, true), (1.0, false)]), Some(0.75));
        assert_eq!(expected_hit_ratio([]), None);
    }

    #[tokio::test]
    async fn below_the_threshold_nobody_passes() {
        let gate = Gate::open();
        gate.pass().await;
        gate.shut();
        assert!(!gate.admit(0.94, 0.95));
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.pass().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        assert!(gate.admit(0.95, 0.95));
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn warming_is_bounded_and_complete() {
        let (now, peak, all) = <(AtomicUsize, AtomicUsize, AtomicUsize)>::default();
        let shared = Arc::new((now, peak, all));
        warm(0..100, 7, |_| {
            let shared = Arc::clone(&shared);
            async move {
                let (now, peak, all) = &*shared;
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                all.fetch_add(1, Ordering::SeqCst);
            }
        })
        .await;
        assert_eq!(shared.2.load(Ordering::SeqCst), 100);
        assert!((1..=7).contains(&shared.1.load(Ordering::SeqCst)));
    }
}
