//! What a request finds: a copy in its own process, the entry in Redis, an older copy there.

use std::time::Duration;

use super::{Answer, Client, Prompt, answer, copy_name, name};
use crate::drill::backend::Key;
use crate::drill::entry::Entry;
use crate::drill::protections::Protection;
use crate::drill::protections::near_cache::{Copy, NearCache};
use crate::drill::protections::stale_while_revalidate::{self, Freshness};
use crate::drill::store::StoreError;

/// What came of a lookup.
pub(super) enum Look {
    /// An entry that may be worth a successor.
    Found(Seen),
    /// A copy in place of an entry that could not be had.
    StandIn(Answer),
    /// There is none.
    Nothing,
    /// Redis did not say.
    Failed,
}

/// An entry, and what is left of its life if that is to be known.
pub(super) struct Seen {
    pub(super) entry: Entry,
    pub(super) remaining: Option<Duration>,
}

impl Client {
    /// Looks for an entry: in this process if it keeps copies, then in Redis.
    pub(super) async fn look(&self, key: Key) -> Look {
        let Some(near) = &self.near else {
            return match self.read(key).await {
                Ok(seen) => seen.map_or(Look::Nothing, Look::Found),
                Err(_) => Look::Failed,
            };
        };
        let now = self.around.clock.now();
        if let Some(copy) = near.get(&key, now) {
            self.around.counters.near_hits.up();
            return self.near_hit(copy, now);
        }
        let Some(call) = near.call(now) else {
            let copy = self.stand_in(key).inspect(|_| self.around.counters.near_hits.up());
            return copy.map_or(Look::Nothing, Look::StandIn);
        };
        let read = self.read(key).await;
        call.done(read.is_ok(), self.around.clock.now());
        match read {
            Ok(seen) => seen.map_or(Look::Nothing, Look::Found),
            Err(_) => self.stand_in(key).map_or(Look::Failed, Look::StandIn),
        }
    }

    fn near_hit(&self, copy: Copy<Entry>, now: f64) -> Look {
        if copy.stale {
            return Look::StandIn(old(copy.value));
        }
        let left = Duration::try_from_secs_f64(copy.value.deadline - now).ok();
        let remaining = left.filter(|_| self.protections.has(Protection::BackgroundRefresh));
        Look::Found(Seen { entry: copy.value, remaining })
    }

    /// The copy of this process, where asking for another one has failed.
    pub(super) fn stand_in(&self, key: Key) -> Option<Answer> {
        let copy = self.near.as_ref()?.stand_in(&key, self.around.clock.now(), rand::random())?;
        Some(if copy.stale { old(copy.value) } else { answer(copy.value.value) })
    }

    /// Keeps a copy in this process, if it keeps any.
    pub(super) fn keep(&self, key: Key, entry: &Entry) {
        if let Some(near) = &self.near {
            near.keep(key, entry.clone(), entry.deadline, self.around.clock.now());
        }
    }

    /// Whether Redis has failed and is not to be bothered.
    pub(super) fn leaves_redis_alone(&self) -> bool {
        self.near.as_ref().is_some_and(NearCache::leaves_redis_alone)
    }

    /// Reads an entry; one past its grace is none.
    async fn read(&self, key: Key) -> Result<Option<Seen>, StoreError> {
        let store = &self.around.store;
        let read = if self.protections.has(Protection::BackgroundRefresh) {
            store.get_with_life(&name(key)).await.map(|found| {
                let found = found?;
                Some(Seen { entry: Entry::decode(&found.bytes)?, remaining: found.remaining })
            })
        } else {
            let read = store.get(&name(key)).await;
            read.map(|bytes| Some(Seen { entry: Entry::decode(&bytes?)?, remaining: None }))
        };
        let seen = read.inspect_err(|_| self.around.counters.cache_errors.up())?;
        Ok(seen
            .filter(|seen| self.freshness(&seen.entry) != Freshness::Gone)
            .inspect(|seen| self.keep(key, &seen.entry)))
    }

    pub(super) fn freshness(&self, entry: &Entry) -> Freshness {
        match self.revalidation {
            Some(_) => stale_while_revalidate::freshness(
                self.around.clock.now(),
                entry.deadline,
                self.tuning.grace,
            ),
            // The server's own TTL decides.
            None => Freshness::Fresh,
        }
    }

    /// The entry that has come since the prompt.
    pub(super) async fn newer(&self, key: Key, prompt: Prompt) -> Option<Answer> {
        let now = self.around.clock.now();
        let near = self.near.as_ref().and_then(|near| near.get(&key, now));
        let entry = match near {
            Some(copy) => copy.value,
            None => self.fetch(&name(key)).await.inspect(|entry| self.keep(key, entry))?,
        };
        prompt.seen.is_none_or(|seen| entry.written_at > seen).then(|| answer(entry.value))
    }

    /// The second copy in Redis.
    pub(super) async fn copy(&self, key: Key) -> Option<Answer> {
        self.fetch(&copy_name(&name(key))).await?.value.map(Answer::Stale)
    }

    /// An entry in Redis that a request is no worse off without.
    async fn fetch(&self, name: &str) -> Option<Entry> {
        if self.leaves_redis_alone() {
            return None;
        }
        match self.around.store.get(name).await {
            Ok(bytes) => Entry::decode(&bytes?),
            Err(_) => {
                self.around.counters.cache_errors.up();
                None
            }
        }
    }
}

fn old(entry: Entry) -> Answer {
    entry.value.map_or(Answer::NotFound, Answer::Stale)
}
