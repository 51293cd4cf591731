//! What the cache protects: a database behind a bounded pool of connections, played by the drill or
//! a real one.

pub mod postgres;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::counters::Counters;
use postgres::{Database, DatabaseError};

/// The number of a key; keys beyond the backend's own exist nowhere.
pub type Key = u64;

/// How a backend behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendShape {
    /// Keys that exist: 0 to `keys - 1`.
    pub keys: u32,
    /// Time of one query.
    pub service: Duration,
    /// Keys with a service time of their own, such as a report that takes seconds.
    pub slow: Option<(Key, Duration)>,
    /// Connections: queries at once.
    pub pool: usize,
    /// Queries that may wait for a connection; more are refused at once.
    pub queue: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
}

/// Why a load gave nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// As a database with `too many connections`.
    #[error("the backend has no connection left")]
    Exhausted,
    /// A real database failed in another way.
    #[error("the backend failed")]
    Failed,
}

/// A load's result.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The value; `None` when the key exists nowhere.
    pub value: Option<Vec<u8>>,
    /// How long the load took, waiting included.
    pub took: Duration,
}

/// Which edition of an entry a request saw: how often it had been written. Two reloads prompted by
/// the same edition are one too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edition(u32);

/// The backend.
#[derive(Debug)]
pub struct Backend {
    shape: BackendShape,
    /// The real one; without it the drill plays one.
    database: Option<Database>,
    connections: Semaphore,
    waiting: AtomicUsize,
    running: AtomicUsize,
    peak: AtomicUsize,
    books: Vec<Book>,
    counters: Arc<Counters>,
}

/// One key's history.
#[derive(Debug, Default)]
struct Book {
    /// Editions written so far.
    written: AtomicU32,
    /// Editions whose successor somebody has begun to load.
    claimed: AtomicU32,
    /// Loads begun.
    loads: AtomicU64,
}

impl Backend {
    /// A backend that counts its loads, before a real database or before none.
    pub fn new(
        shape: BackendShape,
        database: Option<Database>,
        counters: Arc<Counters>,
    ) -> Backend {
        let connections = Semaphore::new(shape.pool.min(Semaphore::MAX_PERMITS));
        let books = (0..shape.keys).map(|_| Book::default()).collect();
        let zero = || AtomicUsize::new(0);
        let (waiting, running, peak) = (zero(), zero(), zero());
        Backend { shape, database, connections, waiting, running, peak, books, counters }
    }

    /// How it behaves.
    pub fn shape(&self) -> &BackendShape {
        &self.shape
    }

    /// The most loads that ran or waited at once so far.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// What a real database said to the last load that failed there.
    pub fn said(&self) -> Option<DatabaseError> {
        self.database.as_ref().and_then(Database::said)
    }

    /// From now on every load is refused, and what a real database still does for us is ended.
    pub async fn end(&self) {
        self.connections.close();
        if let Some(database) = &self.database
            && self.running.load(Ordering::Relaxed) > 0
        {
            database.cancel().await;
        }
    }

    /// How often a key was loaded so far.
    pub fn loads_of(&self, key: Key) -> u64 {
        self.book(key).map_or(0, |book| book.loads.load(Ordering::Relaxed))
    }

    /// Which edition of a key is the newest now; to be asked before the cache is.
    pub fn newest(&self, key: Key) -> Edition {
        Edition(self.book(key).map_or(0, |book| book.written.load(Ordering::Acquire)))
    }

    /// Notes that the successor of `edition` is in the cache.
    pub fn written(&self, key: Key, edition: Edition) {
        if let Some(book) = self.book(key) {
            book.written.fetch_max(edition.0.saturating_add(1), Ordering::AcqRel);
        }
    }

    /// Queries one key, prompted by the absence or age of `edition`.
    ///
    /// # Errors
    /// When all connections are busy and the queue is full, or a real database refuses or fails.
    pub async fn load(&self, key: Key, edition: Edition) -> Result<Loaded, LoadError> {
        let start = Instant::now();
        let _running = Running::begin(self);
        self.counters.loads.up();
        if let Some(book) = self.book(key) {
            book.loads.fetch_add(1, Ordering::Relaxed);
        }
        let first = self.claim(key, edition);
        let result = self.query(key).await;
        let took = start.elapsed();
        self.counters.load_ended(took);
        match result {
            Ok(value) => {
                if value.is_none() {
                    self.counters.not_found.up();
                }
                Ok(Loaded { value, took })
            }
            Err(error) => {
                self.counters.backend_errors.up();
                if first {
                    self.unclaim(key, edition);
                }
                Err(error)
            }
        }
    }

    /// The value of a key as the backend knows it.
    pub fn value(&self, key: Key) -> Option<Vec<u8>> {
        (key < u64::from(self.shape.keys)).then(|| {
            let mut value = format!("value of {key} ").into_bytes();
            value.resize(self.shape.value_bytes.max(value.len()), b'.');
            value
        })
    }

    async fn query(&self, key: Key) -> Result<Option<Vec<u8>>, LoadError> {
        let _connection = match self.connections.try_acquire() {
            Ok(connection) => connection,
            Err(_) => {
                let _place = Waiting::begin(self)?;
                self.connections.acquire().await.map_err(|_| LoadError::Exhausted)?
            }
        };
        let service = match self.shape.slow {
            Some((slow, service)) if slow == key => service,
            _ => self.shape.service,
        };
        match &self.database {
            Some(database) => {
                let BackendShape { keys, value_bytes, .. } = self.shape;
                database.query(key, keys, value_bytes, service).await
            }
            None => {
                tokio::time::sleep(service).await;
                Ok(self.value(key))
            }
        }
    }

    /// Claims the one load that `edition` is worth; counts a duplicate when somebody else has it.
    fn claim(&self, key: Key, edition: Edition) -> bool {
        let next = edition.0.saturating_add(1);
        let first =
            self.book(key).is_none_or(|book| book.claimed.fetch_max(next, Ordering::AcqRel) < next);
        if !first {
            self.counters.duplicate_loads.up();
        }
        first
    }

    /// A load that failed leaves its work to the next one.
    fn unclaim(&self, key: Key, edition: Edition) {
        if let Some(book) = self.book(key) {
            let next = edition.0.saturating_add(1);
            // Somebody may have claimed a later edition meanwhile; that claim stands.
            let _ =
                book.claimed.compare_exchange(next, edition.0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    fn book(&self, key: Key) -> Option<&Book> {
        self.books.get(usize::try_from(key).ok()?)
    }
}

/// One load that runs or waits.
struct Running<'a>(&'a Backend);

impl<'a> Running<'a> {
    fn begin(backend: &'a Backend) -> Running<'a> {
        let now = backend.running.fetch_add(1, Ordering::Relaxed) + 1;
        backend.peak.fetch_max(now, Ordering::Relaxed);
        Running(backend)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One place in the queue for a connection.
struct Waiting<'a>(&'a Backend);

impl<'a> Waiting<'a> {
    fn begin(backend: &'a Backend) -> Result<Waiting<'a>, LoadError> {
        let place = Waiting(backend);
        let before = backend.waiting.fetch_add(1, Ordering::Relaxed);
        (before < backend.shape.queue).then_some(place).ok_or(LoadError::Exhausted)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
