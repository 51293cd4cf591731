//! From a miss to the backend and back: one flight in a process, one lock over all of them, the
//! limit, the load, the write.

use std::sync::Arc;
use std::time::Duration;

use super::{Answer, Client, Failure, Lock, Prompt, answer, copy_name, key_of, name};
use crate::drill::backend::Key;
use crate::drill::entry::Entry;
use crate::drill::protections::lease::{Lease, Leased};
use crate::drill::protections::mutex::Held;
use crate::drill::protections::{Protection, mutex_stale, negative_cache, refresh_worker};
use crate::drill::store::{StoreError, Write};

/// What comes of making an entry anew while there still is one; `None` when somebody else is at it.
type Refreshed = Option<Result<Answer, Failure>>;

impl Client {
    /// Answers a request that found nothing.
    pub(super) async fn reload(&self, key: Key, prompt: Prompt) -> Result<Answer, Failure> {
        let Some(flights) = &self.flights else {
            return self.reload_locked(key, prompt).await;
        };
        let flight = || async {
            // Another flight may have landed between our miss and now.
            match self.newer(key, prompt).await {
                Some(answer) => Ok(answer),
                None => self.reload_locked(key, prompt).await,
            }
        };
        // Counted while they wait: afterwards is too late to know misses that share from others.
        let boarded = || self.around.counters.coalesced.up();
        flights.share(&key, boarded, flight).await.0
    }

    async fn reload_locked(&self, key: Key, prompt: Prompt) -> Result<Answer, Failure> {
        let (name, tally) = (name(key), &self.around.counters.locks);
        let look = || self.newer(key, prompt);
        let copy = || self.copy(key);
        let load = || self.load(key, prompt, None);
        match &self.lock {
            None => load().await,
            Some(Lock::Mutex(mutex)) => mutex.load_once(&name, tally, look, load).await.into(),
            Some(Lock::MutexStale(mutex)) => {
                mutex_stale::load_once(mutex, &name, tally, look, copy, load).await.into()
            }
            Some(Lock::Lease(leases)) => {
                let load = |lease| self.load(key, prompt, lease);
                leases.load_once(&name, tally, look, copy, load).await.into()
            }
        }
    }

    /// Makes an entry anew at once, as one of the requests for it. With shared flights, one at a
    /// time in this process; the others keep to the entry that is there.
    pub(super) async fn refresh_once(&self, key: Key, prompt: Prompt) -> Refreshed {
        let _alone = match self.flights {
            Some(_) => Some(self.refreshes.begin(&key)?),
            None => None,
        };
        self.refresh(key, prompt).await
    }

    /// Makes an entry anew in the background, once at a time in this process.
    pub(super) fn refresh_behind(self: &Arc<Client>, key: Key, prompt: Prompt) {
        if let Some(refresh) = self.refreshes.begin(&key) {
            let client = Arc::clone(self);
            tokio::spawn(async move {
                let _refresh = refresh;
                client.refresh(key, prompt).await;
            });
        }
    }

    /// Makes an entry anew in the background, once at a time over all processes.
    pub(super) fn revalidate_behind(self: &Arc<Client>, key: Key, prompt: Prompt) {
        if let Some(refresh) = self.refreshes.begin(&key) {
            let client = Arc::clone(self);
            tokio::spawn(async move {
                let _refresh = refresh;
                if client.revalidate(key, prompt).await.is_err() {
                    client.around.counters.cache_errors.up();
                }
            });
        }
    }

    async fn revalidate(&self, key: Key, prompt: Prompt) -> Result<(), StoreError> {
        let Some(revalidation) = &self.revalidation else { return Ok(()) };
        let Some(claim) = revalidation.claim(&name(key)).await? else { return Ok(()) };
        // Another process may have done it between our look and our claim.
        if self.newer(key, prompt).await.is_none() {
            self.refresh(key, prompt).await;
        }
        revalidation.done(claim).await
    }

    /// The loop of the refresh worker; it never ends by itself.
    pub async fn work(self: Arc<Client>) {
        let (now_client, client) = (Arc::clone(&self), Arc::clone(&self));
        let refresh = move |due: String| {
            let client = Arc::clone(&client);
            async move {
                let Some(key) = key_of(&due) else { return };
                let edition = client.around.backend.newest(key);
                let seen = Some(client.around.clock.now());
                client.refresh(key, Prompt { edition, seen }).await;
            }
        };
        let now = move || now_client.around.clock.now();
        let failed = || self.around.counters.cache_errors.up();
        let store = self.around.store.clone();
        refresh_worker::work(store, self.tuning.worker, now, refresh, failed).await;
    }

    /// Loads a key that is not in the cache, as for warming it.
    pub async fn warm(&self, key: Key) {
        let edition = self.around.backend.newest(key);
        // A load that the backend refuses leaves the key cold; readiness tells.
        let _ = self.load(key, Prompt { edition, seen: None }, None).await;
    }

    /// Makes an entry anew unless somebody else over all processes is at it; nobody waits.
    async fn refresh(&self, key: Key, prompt: Prompt) -> Refreshed {
        let (name, tally) = (name(key), &self.around.counters.locks);
        match &self.lock {
            None => Some(self.load(key, prompt, None).await),
            Some(Lock::Mutex(mutex) | Lock::MutexStale(mutex)) => {
                match mutex.try_lock(&name).await {
                    Ok(Some(token)) => {
                        tally.acquired.up();
                        let look = || self.newer(key, prompt);
                        let load = || self.load(key, prompt, None);
                        Some(mutex.hold(token, tally, look, load).await.into())
                    }
                    Ok(None) => {
                        tally.contended.up();
                        None
                    }
                    Err(_) => {
                        tally.error.up();
                        Some(self.load(key, prompt, None).await)
                    }
                }
            }
            Some(Lock::Lease(leases)) => match leases.take(&name).await {
                Ok(Some(lease)) => {
                    tally.acquired.up();
                    let look = || self.newer(key, prompt);
                    let load = |lease| self.load(key, prompt, lease);
                    Some(leases.hold(lease, tally, look, load).await.into())
                }
                Ok(None) => {
                    tally.contended.up();
                    None
                }
                Err(_) => {
                    tally.error.up();
                    Some(self.load(key, prompt, None).await)
                }
            },
        }
    }

    /// Loads and writes, within the limit.
    async fn load(
        &self,
        key: Key,
        prompt: Prompt,
        lease: Option<Lease>,
    ) -> Result<Answer, Failure> {
        let clock = self.around.clock;
        let permit = match self.bulkhead.as_ref().map(|bulkhead| bulkhead.enter(clock.now())) {
            Some(Err(_)) => return self.copy(key).await.ok_or(Failure::Rejected),
            Some(Ok(permit)) => Some(permit),
            None => None,
        };
        let result = self.around.backend.load(key, prompt.edition).await;
        if let Some(permit) = permit {
            permit.done(result.is_ok(), clock.now());
        }
        let loaded = result?;
        let life = match loaded.value {
            Some(_) => Some(self.life(self.tuning.ttl)),
            None if self.protections.has(Protection::NegativeCache) => {
                Some(negative_cache::life(self.tuning.ttl))
            }
            None => None,
        };
        if let Some(life) = life {
            let written_at = clock.now();
            let deadline = written_at + life.as_secs_f64();
            let load_seconds = loaded.took.as_secs_f64();
            let value = loaded.value.clone();
            let entry = Entry { value, written_at, deadline, load_seconds };
            if self.send(key, prompt, lease, &entry).await {
                self.keep(key, &entry);
            }
        }
        Ok(answer(loaded.value))
    }

    /// Writes to Redis, if it takes writes; whether nobody there knows better.
    async fn send(&self, key: Key, prompt: Prompt, lease: Option<Lease>, entry: &Entry) -> bool {
        if self.leaves_redis_alone() {
            return true;
        }
        let write = self.write(key, entry);
        let accepted = match (&self.lock, lease) {
            (Some(Lock::Lease(leases)), Some(lease)) => leases.write(&lease, &write).await,
            _ => self.around.store.write(&write).await.map(|()| true),
        };
        match accepted {
            Ok(true) => self.around.backend.written(key, prompt.edition),
            Ok(false) => return false,
            Err(_) => self.around.counters.cache_errors.up(),
        }
        true
    }

    /// What goes to the server for an entry.
    pub(super) fn write(&self, key: Key, entry: &Entry) -> Write {
        let has = |protection| self.protections.has(protection);
        let name = name(key);
        let life = (entry.deadline - self.around.clock.now()).max(0.0);
        let grace = if self.revalidation.is_some() { self.tuning.grace } else { Duration::ZERO };
        let copies =
            has(Protection::MutexStale) || has(Protection::Lease) || has(Protection::Bulkhead);
        // A denial is not worth a second copy, nor a worker's time.
        let (copies, index) = (
            copies && entry.value.is_some(),
            has(Protection::RefreshWorker) && entry.value.is_some(),
        );
        Write {
            copy: copies.then(|| (copy_name(&name), self.tuning.copy_ttl)),
            index: index.then_some((refresh_worker::INDEX, entry.deadline)),
            ttl: Duration::from_secs_f64(life) + grace,
            value: entry.encode(),
            key: name,
        }
    }
}

impl From<Held<Answer, Failure>> for Result<Answer, Failure> {
    fn from(held: Held<Answer, Failure>) -> Result<Answer, Failure> {
        match held {
            Held::Loaded(result) => result,
            Held::Found(answer) | Held::Stale(answer) => Ok(answer),
            Held::TimedOut => Err(Failure::LockTimeout),
        }
    }
}

impl From<Leased<Answer, Failure>> for Result<Answer, Failure> {
    fn from(leased: Leased<Answer, Failure>) -> Result<Answer, Failure> {
        match leased {
            Leased::Loaded(result) => result,
            Leased::Found(answer) | Leased::Stale(answer) => Ok(answer),
            Leased::TimedOut => Err(Failure::LockTimeout),
        }
    }
}
