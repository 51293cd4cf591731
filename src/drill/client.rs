//! A service's cache-aside client: look, and on a miss load and write, under the protections.

use std::sync::Arc;
use std::time::Duration;

use super::backend::{Backend, Edition, Key, LoadError};
use super::counters::Counters;
use super::entry::Entry;
use super::protections::coalesce::{Flights, Seat};
use super::protections::mutex::{Held, Mutex, MutexTimes};
use super::protections::{Protection, Protections};
use super::store::{Store, StoreError};
use crate::clock::Clock;

/// What a request was answered with.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A value.
    Value(Vec<u8>),
    /// There is no such thing.
    NotFound,
}

/// Why a request was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The backend refused.
    #[error("{0}")]
    Backend(#[from] LoadError),
    /// Somebody else's load took longer than we wanted to wait.
    #[error("waited too long for another one's load")]
    LockTimeout,
}

/// Times and sizes of the protections.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientShape {
    /// Life of an entry.
    pub ttl: Duration,
    /// See [`MutexTimes`].
    pub mutex: MutexTimes,
}

/// One process of the service.
#[derive(Debug)]
pub struct Client {
    store: Store,
    backend: Arc<Backend>,
    counters: Arc<Counters>,
    clock: Clock,
    shape: ClientShape,
    flights: Option<Flights<Key, Result<Answer, Failure>>>,
    mutex: Option<Mutex>,
}

impl Client {
    /// A process with these protections.
    pub fn new(
        store: Store,
        backend: Arc<Backend>,
        counters: Arc<Counters>,
        clock: Clock,
        shape: ClientShape,
        protections: &Protections,
    ) -> Client {
        let flights = protections.has(Protection::Coalesce).then(Flights::default);
        let mutex =
            protections.has(Protection::Mutex).then(|| Mutex::new(store.clone(), shape.mutex));
        Client { store, backend, counters, clock, shape, flights, mutex }
    }

    /// Answers one request.
    ///
    /// # Errors
    /// When there is neither a cached value nor a load that works.
    pub async fn get(&self, key: Key) -> Result<Answer, Failure> {
        let edition = self.backend.newest(key);
        match self.store.get(&name(key)).await.map(|bytes| Entry::decode(&bytes?)) {
            Ok(Some(entry)) => {
                self.counters.hits.up();
                Ok(answer(entry.value))
            }
            Ok(None) => {
                self.counters.misses.up();
                self.reload(key, edition).await
            }
            // A cache that fails is neither hit nor miss; the request falls through.
            Err(_) => {
                self.counters.cache_errors.up();
                self.reload(key, edition).await
            }
        }
    }

    /// Fills the cache with keys, each with its own remaining life, as if it had run for a while.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn fill(
        &self,
        keys: impl Iterator<Item = (Key, Duration)>,
    ) -> Result<(), StoreError> {
        let took = self.backend.shape().service;
        let entries: Vec<_> = keys
            .map(|(key, life)| {
                let entry = self.entry(self.backend.value(key), took, life);
                (name(key), entry.encode(), life)
            })
            .collect();
        self.store.set_all(&entries).await
    }

    fn entry(&self, value: Option<Vec<u8>>, took: Duration, ttl: Duration) -> Entry {
        let now = self.clock.now();
        let deadline = now + ttl.as_secs_f64();
        Entry { value, written_at: now, deadline, load_seconds: took.as_secs_f64() }
    }

    async fn look(&self, key: Key) -> Option<Entry> {
        match self.store.get(&name(key)).await {
            Ok(bytes) => Entry::decode(&bytes?),
            Err(_) => {
                self.counters.cache_errors.up();
                None
            }
        }
    }

    /// The way down after a miss: one flight in this process, one lock over all, then the backend.
    async fn reload(&self, key: Key, edition: Edition) -> Result<Answer, Failure> {
        let Some(flights) = &self.flights else {
            return self.reload_locked(key, edition).await;
        };
        let flight = || async {
            // It may have landed between our miss and now.
            match self.look(key).await {
                Some(entry) => Ok(answer(entry.value)),
                None => self.reload_locked(key, edition).await,
            }
        };
        let (result, seat) = flights.share(&key, flight).await;
        if seat == Seat::Passenger {
            self.counters.coalesced.up();
        }
        result
    }

    async fn reload_locked(&self, key: Key, edition: Edition) -> Result<Answer, Failure> {
        let Some(mutex) = &self.mutex else {
            return self.load(key, edition).await;
        };
        let look = || async { self.look(key).await.map(|entry| answer(entry.value)) };
        let load = || self.load(key, edition);
        match mutex.load_once(&name(key), &self.counters.locks, look, load).await {
            Held::Loaded(result) => result,
            Held::Found(answer) => Ok(answer),
            Held::TimedOut => Err(Failure::LockTimeout),
        }
    }

    async fn load(&self, key: Key, edition: Edition) -> Result<Answer, Failure> {
        let loaded = self.backend.load(key, edition).await?;
        // Without a negative cache, "there is no such thing" is not kept.
        if loaded.value.is_some() {
            let entry = self.entry(loaded.value.clone(), loaded.took, self.shape.ttl);
            match self.store.set(&name(key), &entry.encode(), self.shape.ttl).await {
                Ok(()) => self.backend.written(key, edition),
                Err(_) => self.counters.cache_errors.up(),
            }
        }
        Ok(answer(loaded.value))
    }
}

/// An entry's key below the prefix.
pub fn name(key: Key) -> String {
    format!("item:{key}")
}

fn answer(value: Option<Vec<u8>>) -> Answer {
    value.map_or(Answer::NotFound, Answer::Value)
}
