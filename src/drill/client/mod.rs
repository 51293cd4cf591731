//! A process of the service: a cache-aside client that looks, and on a miss loads and writes, under
//! the protections.

mod look;
mod tuning;
mod way_down;

use std::sync::Arc;
use std::time::Duration;

use look::{Look, Seen};
use tuning::BLOOM_WRONG;
pub use tuning::Tuning;

use super::backend::{Backend, Edition, Key, LoadError};
use super::counters::Counters;
use super::entry::Entry;
use super::protections::background_refresh::{self, Refreshes};
use super::protections::bloom::Bloom;
use super::protections::bulkhead::Bulkhead;
use super::protections::coalesce::Flights;
use super::protections::lease::Leases;
use super::protections::mutex::Mutex;
use super::protections::near_cache::NearCache;
use super::protections::prewarm::Gate;
use super::protections::stale_while_revalidate::{Freshness, Revalidation};
use super::protections::{Protection, Protections, jitter, xfetch, xfetch_linear};
use super::store::{Store, StoreError};
use crate::clock::Clock;

/// What a request was answered with.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A value.
    Value(Vec<u8>),
    /// A value past its deadline.
    Stale(Vec<u8>),
    /// There is no such thing.
    NotFound,
}

/// Why a request was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The backend refused.
    #[error("{0}")]
    Backend(#[from] LoadError),
    /// Our own limit or breaker refused, and there is no older copy.
    #[error("refused to load, and there is no older copy")]
    Rejected,
    /// Somebody else's load took longer than we wanted to wait.
    #[error("waited too long for another one's load")]
    LockTimeout,
}

/// What all processes of a service share.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The cache.
    pub store: Store,
    /// What it protects.
    pub backend: Arc<Backend>,
    /// What is counted.
    pub counters: Arc<Counters>,
    /// The time.
    pub clock: Clock,
    /// Whether requests are let in.
    pub gate: Gate,
}

/// One process of the service.
#[derive(Debug)]
pub struct Client {
    around: Surroundings,
    tuning: Tuning,
    protections: Protections,
    lock: Option<Lock>,
    flights: Option<Flights<Key, Result<Answer, Failure>>>,
    refreshes: Refreshes<Key>,
    revalidation: Option<Revalidation>,
    bloom: Option<Bloom>,
    bulkhead: Option<Bulkhead>,
    near: Option<NearCache<Key, Entry>>,
}

/// Who may load, over all processes.
#[derive(Debug)]
enum Lock {
    Mutex(Mutex),
    MutexStale(Mutex),
    Lease(Leases),
}

/// What prompts a reload: the edition that is gone or old, and when it had been written if it was
/// seen, so that a newer one can be told from it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Prompt {
    edition: Edition,
    seen: Option<f64>,
}

impl Client {
    /// A process with these protections.
    pub fn new(around: Surroundings, tuning: Tuning, protections: Protections) -> Client {
        let store = &around.store;
        let has = |protection| protections.has(protection);
        let mutex = || Mutex::new(store.clone(), tuning.mutex);
        let lock = if has(Protection::Mutex) {
            Some(Lock::Mutex(mutex()))
        } else if has(Protection::MutexStale) {
            Some(Lock::MutexStale(mutex()))
        } else {
            has(Protection::Lease).then(|| Lock::Lease(Leases::new(store.clone(), tuning.lease)))
        };
        let revalidation = has(Protection::StaleWhileRevalidate)
            .then(|| Revalidation::new(store.clone(), tuning.claim_ttl));
        let bloom = has(Protection::Bloom).then(|| filter(around.backend.shape().keys));
        let bulkhead = has(Protection::Bulkhead).then(|| tuning.bulkhead());
        let near = has(Protection::NearCache).then(|| NearCache::new(tuning.near_cache));
        let flights = has(Protection::Coalesce).then(Flights::default);
        let refreshes = Refreshes::default();
        Client {
            around,
            tuning,
            protections,
            lock,
            flights,
            refreshes,
            revalidation,
            bloom,
            bulkhead,
            near,
        }
    }

    /// Answers one request.
    ///
    /// # Errors
    /// When there is neither a cached value nor a load that works.
    pub async fn get(self: &Arc<Client>, key: Key) -> Result<Answer, Failure> {
        self.around.gate.pass().await;
        if self.bloom.as_ref().is_some_and(|bloom| !bloom.perhaps(&key)) {
            return Ok(Answer::NotFound);
        }
        let counters = &self.around.counters;
        let edition = self.around.backend.newest(key);
        let answer = match self.look(key).await {
            Look::Found(seen) => {
                counters.hits.up();
                Ok(self.hit(key, edition, seen).await)
            }
            Look::StandIn(answer) => {
                counters.hits.up();
                Ok(answer)
            }
            Look::Nothing => {
                counters.misses.up();
                self.reload(key, Prompt { edition, seen: None }).await
            }
            // A cache that fails is neither hit nor miss; the request falls through.
            Look::Failed => self.reload(key, Prompt { edition, seen: None }).await,
        };
        // Where the backend fails, an old value is better than none.
        let answer = answer.or_else(|failure| self.stand_in(key).ok_or(failure));
        if matches!(answer, Ok(Answer::Stale(_))) {
            counters.stale_served.up();
        }
        answer
    }

    /// An entry with this remaining life, as if it had been loaded a while ago.
    pub fn entry(&self, key: Key, left: Duration) -> (Key, Entry) {
        let now = self.around.clock.now();
        let deadline = now + left.as_secs_f64();
        let written_at = (deadline - self.tuning.ttl.as_secs_f64()).min(now);
        let load_seconds = self.around.backend.shape().service.as_secs_f64();
        (key, Entry { value: self.around.backend.value(key), written_at, deadline, load_seconds })
    }

    /// Fills the cache with entries.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn fill(
        &self,
        entries: impl Iterator<Item = (Key, Entry)>,
    ) -> Result<(), StoreError> {
        let writes = entries.map(|(key, entry)| self.write(key, &entry));
        self.around.store.write_all(writes).await
    }

    /// Keeps a copy of an entry, as a process that has run for a while does of the most popular ones: the
    /// number of a key is its rank.
    pub fn remember(&self, key: Key, entry: &Entry) {
        if key < self.tuning.near_cache.entries as u64 {
            self.keep(key, entry);
        }
    }

    /// The life of an entry that is written now.
    pub fn life(&self, base: Duration) -> Duration {
        match self.protections.has(Protection::Jitter) {
            true => jitter::life(base, self.tuning.spread, rand::random()),
            false => base,
        }
    }

    /// Answers with an entry, and sees to its successor if it is time.
    async fn hit(self: &Arc<Client>, key: Key, edition: Edition, seen: Seen) -> Answer {
        let prompt = Prompt { edition, seen: Some(seen.entry.written_at) };
        let freshness = self.freshness(&seen.entry);
        if freshness == Freshness::Stale {
            self.revalidate_behind(key, prompt);
        } else if self.recomputes(&seen.entry) {
            // What is there is better than an older copy.
            let refreshed = self.refresh_once(key, prompt).await;
            if let Some(Ok(answer @ (Answer::Value(_) | Answer::NotFound))) = refreshed {
                return answer;
            }
        } else if self.is_near_its_end(&seen) {
            self.refresh_behind(key, prompt);
        }
        match seen.entry.value {
            Some(value) if freshness == Freshness::Stale => Answer::Stale(value),
            value => answer(value),
        }
    }

    /// Whether this request is the one that recomputes early.
    fn recomputes(&self, entry: &Entry) -> bool {
        let now = self.around.clock.now();
        let u = 1.0 - rand::random::<f64>();
        if self.protections.has(Protection::XFetch) {
            xfetch::recomputes(now, entry.deadline, entry.load_seconds, self.tuning.beta, u)
        } else if self.protections.has(Protection::XFetchLinear) {
            let age = now - entry.written_at;
            xfetch_linear::recomputes(age, self.tuning.ttl, self.tuning.beta, u)
        } else {
            false
        }
    }

    fn is_near_its_end(&self, seen: &Seen) -> bool {
        let remaining = if self.protections.has(Protection::RefreshAt) {
            let seconds = seen.entry.deadline - self.around.clock.now();
            Duration::try_from_secs_f64(seconds).ok()
        } else {
            seen.remaining
        };
        remaining.is_some_and(|r| background_refresh::is_due(r, self.tuning.ttl, self.tuning.near))
    }
}

/// An entry's key below the prefix.
pub fn name(key: Key) -> String {
    format!("item:{key}")
}

/// The key of a name, if it is an entry's.
fn key_of(name: &str) -> Option<Key> {
    name.strip_prefix("item:")?.parse().ok()
}

/// The name of an entry's second copy.
fn copy_name(name: &str) -> String {
    format!("stale:{name}")
}

fn answer(value: Option<Vec<u8>>) -> Answer {
    value.map_or(Answer::NotFound, Answer::Value)
}

fn filter(keys: u32) -> Bloom {
    let bloom = Bloom::new(u64::from(keys), BLOOM_WRONG);
    (0..Key::from(keys)).for_each(|key| bloom.insert(&key));
    bloom
}
