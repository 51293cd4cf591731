//! `coalesce`: one flight per key and process; whoever comes later shares its result.
//!
//! The first caller of a key loads, the others wait for what it gets, value or error. The flight is
//! removed either way, and a caller that vanishes in the middle hands over to one that waits.
//! Known as "single-flight" from Go's `golang.org/x/sync/singleflight`.
//!
//! Fails when there are many processes: each has a flight of its own, so a fleet of a hundred still
//! sends a hundred loads. A slow load makes everyone wait, and an error reaches everyone at once.
//! The load must look into the cache again first: a caller may have missed just before a flight
//! landed and come just after.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// What flies: a slot that is filled on landing.
type Slot<T> = watch::Receiver<Option<T>>;

/// The flights of one process.
#[derive(Debug)]
pub struct Flights<K, T> {
    aloft: Mutex<HashMap<K, Slot<T>>>,
}

/// How a caller came to its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// It flew itself.
    Pilot,
    /// It shared another one's flight.
    Passenger,
}

enum Boarding<T> {
    Fly(watch::Sender<Option<T>>),
    Ride(Slot<T>),
}

impl<K, T> Default for Flights<K, T> {
    fn default() -> Flights<K, T> {
        Flights { aloft: Mutex::default() }
    }
}

impl<K: Eq + Hash + Clone, T: Clone> Flights<K, T> {
    /// The result of the flight for `key` that is under way, or of `load`. Who has to wait for
    /// another one's flight calls `boarded` first, so that it can be counted while it waits.
    pub async fn share<F: Future<Output = T>>(
        &self,
        key: &K,
        boarded: impl FnOnce(),
        load: impl FnOnce() -> F,
    ) -> (T, Seat) {
        let mut boarded = Some(boarded);
        loop {
            match self.board(key) {
                Boarding::Fly(landing) => {
                    let seat = Removal { flights: self, key };
                    let result = load().await;
                    // First off the list, then the news: who comes now flies anew.
                    drop(seat);
                    landing.send_replace(Some(result.clone()));
                    return (result, Seat::Pilot);
                }
                Boarding::Ride(mut slot) => {
                    if let Some(boarded) = boarded.take() {
                        boarded();
                    }
                    let landed = slot.wait_for(Option::is_some).await;
                    if let Some(result) = landed.ok().and_then(|result| result.clone()) {
                        return (result, Seat::Passenger);
                    }
                    // The pilot was cancelled before it landed: board again.
                }
            }
        }
    }

    /// Flights under way.
    pub fn len(&self) -> usize {
        self.aloft.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn board(&self, key: &K) -> Boarding<T> {
        let mut aloft = self.aloft.lock().unwrap_or_else(PoisonError::into_inner);
        match aloft.get(key) {
            Some(slot) => Boarding::Ride(slot.clone()),
            None => {
                let (landing, slot) = watch::channel(None);
                aloft.insert(key.clone(), slot);
                Boarding::Fly(landing)
            }
        }
    }
}

/// Takes the flight off the list, also when the pilot is cancelled.
struct Removal<'a, K: Eq + Hash, T> {
    flights: &'a Flights<K, T>,
    key: &'a K,
}

impl<K: Eq + Hash, T> Drop for Removal<'_, K, T> {
    fn drop(&mut self) {
        self.flights.aloft.lock().unwrap_or_else(PoisonError::into_inner).remove(self.key);
    }
}
