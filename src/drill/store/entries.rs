//! Reading and writing single keys, and the scripts that make two steps one.

use std::time::Duration;

use super::link::Voice;
use super::{BATCH, Store, StoreError, millis};

/// Removes the key only while it still holds the token, so that nobody frees another one's lock.
const DELETE_IF: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// Writes with a lease: only while the key of the lease holds the token, which is used up by it.
const WRITE_IF: &str = "\
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
redis.call('set', KEYS[2], ARGV[2], 'px', ARGV[3])
if KEYS[3] then redis.call('set', KEYS[3], ARGV[2], 'px', ARGV[4]) end
return 1";

/// Takes the lowest members off a sorted set, so that each goes to one taker.
const TAKE_LOWEST: &str = "\
local due = redis.call('zrangebyscore', KEYS[1], '-inf', ARGV[1], 'limit', 0, ARGV[2])
if #due > 0 then redis.call('zrem', KEYS[1], unpack(due)) end
return due";

/// Overwrites some bytes of a key that is there, and keeps its life.
const OVERWRITE: &str = "\
if redis.call('exists', KEYS[1]) == 1 then redis.call('setrange', KEYS[1], ARGV[1], ARGV[2]) end";

/// A key's bytes and what the server says of its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Its remaining life; `None` when it has no end.
    pub remaining: Option<Duration>,
}

/// One write of an entry, with what goes with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// The key.
    pub key: String,
    /// Its bytes.
    pub value: Vec<u8>,
    /// Its life.
    pub ttl: Duration,
    /// A second copy under another key, with its own life.
    pub copy: Option<(String, Duration)>,
    /// The sorted set in which the key's deadline is noted, and the deadline.
    pub index: Option<(&'static str, f64)>,
}

impl Store {
    /// The bytes of a key, if it is there.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.query(key, redis::cmd("GET").arg(self.name(key))).await
    }

    /// The same with its remaining life, which is a second lookup at the server.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn get_with_life(&self, key: &str) -> Result<Option<Found>, StoreError> {
        let mut commands = redis::pipe();
        commands.cmd("GET").arg(self.name(key)).cmd("PTTL").arg(self.name(key));
        let (bytes, life): (Option<Vec<u8>>, i64) =
            self.link(key)?.query_all(Voice::Service, &commands).await?;
        let remaining = u64::try_from(life).ok().map(Duration::from_millis);
        Ok(bytes.map(|bytes| Found { bytes, remaining }))
    }

    /// Writes an entry and what goes with it.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn write(&self, write: &Write) -> Result<(), StoreError> {
        let mut commands = redis::pipe();
        self.add(&mut commands, write);
        Ok(self.link(&write.key)?.query_all(Voice::Service, &commands).await?)
    }

    /// Writes many entries, in batches.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn write_all(
        &self,
        mut writes: impl Iterator<Item = Write>,
    ) -> Result<(), StoreError> {
        loop {
            let mut commands = redis::pipe();
            writes.by_ref().take(BATCH).for_each(|write| self.add(&mut commands, &write));
            if commands.is_empty() {
                return Ok(());
            }
            self.link("")?.query_all::<()>(Voice::Drill, &commands).await?;
        }
    }

    /// Writes an entry if `guard` still holds `token`, and uses the token up; whether it did.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn write_if(
        &self,
        guard: &str,
        token: &[u8],
        write: &Write,
    ) -> Result<bool, StoreError> {
        let mut command = redis::cmd("EVAL");
        let keys = if write.copy.is_some() { 3 } else { 2 };
        command.arg(WRITE_IF).arg(keys).arg(self.name(guard)).arg(self.name(&write.key));
        if let Some((copy, _)) = &write.copy {
            command.arg(self.name(copy));
        }
        command.arg(token).arg(&write.value).arg(millis(write.ttl));
        if let Some((_, life)) = &write.copy {
            command.arg(millis(*life));
        }
        let written: u64 = self.query(&write.key, &command).await?;
        if written > 0
            && let Some((index, deadline)) = write.index
        {
            let mut note = redis::cmd("ZADD");
            note.arg(self.name(index)).arg(deadline).arg(&write.key);
            self.query::<()>(&write.key, &note).await?;
        }
        Ok(written > 0)
    }

    /// Writes a key only if it is not there; whether it was written.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn set_if_absent(
        &self,
        key: &str,
        value: &[u8],
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let mut command = redis::cmd("SET");
        command.arg(self.name(key)).arg(value).arg("NX").arg("PX").arg(millis(ttl));
        let answer: Option<String> = self.query(key, &command).await?;
        Ok(answer.is_some())
    }

    /// Removes a key if it still holds `token`; whether it did.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn delete_if(&self, key: &str, token: &[u8]) -> Result<bool, StoreError> {
        let mut command = redis::cmd("EVAL");
        command.arg(DELETE_IF).arg(1).arg(self.name(key)).arg(token);
        Ok(self.query::<u64>(key, &command).await? > 0)
    }

    /// Removes keys at once; how many there were.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn delete(&self, keys: &[String]) -> Result<u64, StoreError> {
        let mut removed = 0;
        for batch in keys.chunks(BATCH) {
            let mut command = redis::cmd("UNLINK");
            batch.iter().for_each(|key| {
                command.arg(self.name(key));
            });
            removed += self.order::<u64>(&command).await?;
        }
        Ok(removed)
    }

    /// Overwrites bytes from `offset` on in those of the keys that are there; their lives stay.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn overwrite(
        &self,
        keys: &[String],
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        for batch in keys.chunks(BATCH) {
            let mut commands = redis::pipe();
            for key in batch {
                let script = commands.cmd("EVAL").arg(OVERWRITE).arg(1).arg(self.name(key));
                script.arg(offset).arg(bytes).ignore();
            }
            self.link("")?.query_all::<()>(Voice::Drill, &commands).await?;
        }
        Ok(())
    }

    /// Takes at most `limit` members with a score below `until` off a sorted set.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn take_lowest(
        &self,
        key: &str,
        until: f64,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let mut command = redis::cmd("EVAL");
        command.arg(TAKE_LOWEST).arg(1).arg(self.name(key)).arg(until).arg(limit.min(BATCH));
        self.query(key, &command).await
    }

    fn add(&self, commands: &mut redis::Pipeline, write: &Write) {
        let set = commands.cmd("SET").arg(self.name(&write.key)).arg(&write.value);
        set.arg("PX").arg(millis(write.ttl)).ignore();
        if let Some((copy, life)) = &write.copy {
            let set = commands.cmd("SET").arg(self.name(copy)).arg(&write.value);
            set.arg("PX").arg(millis(*life)).ignore();
        }
        if let Some((index, deadline)) = &write.index {
            let note = commands.cmd("ZADD").arg(self.name(index));
            note.arg(*deadline).arg(&write.key).ignore();
        }
    }
}
