//! The cache under the drill: Redis, seen through one key prefix that nothing leaves.

use std::sync::Arc;
use std::time::Duration;

use redis::{Client, Cmd, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, RedisError};

use super::link::Link;
use crate::config::{RedisAddress, RedisConfig, Secret};

/// What every key of every drill begins with.
pub const KEY_SPACE: &str = "stampede-drill:";

/// Connections that share the load; one would be enough up to some ten thousand commands a second.
const CONNECTIONS: usize = 2;
/// Keys looked at, or removed, in one command.
const BATCH: usize = 500;

/// Removes the key only while it still holds the token, so that nobody frees another one's lock.
const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// Why the cache did not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Not within the time for one command.
    #[error("redis did not answer in time")]
    Timeout,
    /// No connection, or it broke.
    #[error("no connection to redis: {0}")]
    Connection(#[source] RedisError),
    /// The server refused the command.
    #[error("redis refused a command: {0}")]
    Refused(#[source] RedisError),
    /// The password cannot be read.
    #[error("the password cannot be read: {0}")]
    Password(String),
    /// The drill has no TLS.
    #[error("the drill does not speak TLS: name a redis:// or unix:// address")]
    Tls,
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> StoreError {
        match error {
            error if error.is_timeout() => StoreError::Timeout,
            error if error.is_io_error() || error.is_unrecoverable_error() => {
                StoreError::Connection(error)
            }
            error => StoreError::Refused(error),
        }
    }
}

/// Keys by whom they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// No key, or only what drills left behind.
    OnlyOurs,
    /// At least one key of somebody else.
    Foreign,
}

/// A handle to the cache; clones share the connections.
#[derive(Debug, Clone)]
pub struct Store {
    links: Arc<[Arc<Link>]>,
    prefix: Arc<str>,
}

impl Store {
    /// Connects to the server. Every key of this store begins with [`KEY_SPACE`] and `run`.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses us.
    pub async fn connect(server: &RedisConfig, run: &str) -> Result<Store, StoreError> {
        let client = client(server)?;
        let mut links = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            links.push(Link::connect(client.clone()).await?);
        }
        Ok(Store { links: links.into(), prefix: format!("{KEY_SPACE}{run}:").into() })
    }

    /// What all keys of this store begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The bytes of a key, if it is there.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.query(key, redis::cmd("GET").arg(self.name(key))).await
    }

    /// Writes a key that lives for `ttl`.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn set(&self, key: &str, value: &[u8], ttl: Duration) -> Result<(), StoreError> {
        let mut command = redis::cmd("SET");
        command.arg(self.name(key)).arg(value).arg("PX").arg(millis(ttl));
        self.query(key, &command).await
    }

    /// Writes many keys, in batches.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn set_all(&self, keys: &[(String, Vec<u8>, Duration)]) -> Result<(), StoreError> {
        for batch in keys.chunks(BATCH) {
            let mut commands = redis::pipe();
            for (key, value, ttl) in batch {
                let command = commands.cmd("SET").arg(self.name(key)).arg(value);
                command.arg("PX").arg(millis(*ttl)).ignore();
            }
            if let Some(link) = self.links.first() {
                link.query_all::<()>(&commands).await?;
            }
        }
        Ok(())
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
        command.arg(COMPARE_AND_DELETE).arg(1).arg(self.name(key)).arg(token);
        let removed: u64 = self.query(key, &command).await?;
        Ok(removed > 0)
    }

    /// Lets a key run out in a moment, as if its time were up; so it counts as expired, where a
    /// deadline in the past would count as deleted.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn expire_now(&self, key: &str) -> Result<(), StoreError> {
        self.query(key, redis::cmd("PEXPIRE").arg(self.name(key)).arg(1)).await
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
            removed += self.query::<u64>("", &command).await?;
        }
        Ok(removed)
    }

    /// Removes everything under our prefix, whoever wrote it; how many keys there were.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn clear(&self) -> Result<u64, StoreError> {
        let (mut cursor, mut removed) = (0_u64, 0);
        loop {
            let (next, found) = self.scan(cursor, Some(&self.prefix)).await?;
            if !found.is_empty() {
                removed += self.query::<u64>("", redis::cmd("UNLINK").arg(&found)).await?;
            }
            if next == 0 {
                return Ok(removed);
            }
            cursor = next;
        }
    }

    /// Removes everything on the server, as `FLUSHALL` does. Only for a private server.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub(super) async fn flush_all(&self) -> Result<(), StoreError> {
        self.query("", &redis::cmd("FLUSHALL")).await
    }

    /// Whether the server holds keys that no drill wrote. Looks until it finds one.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn holding(&self) -> Result<Holding, StoreError> {
        let info: String = self.query("", redis::cmd("INFO").arg("keyspace")).await?;
        let other_database = |line: &str| line.starts_with("db") && !line.starts_with("db0:");
        if info.lines().any(other_database) {
            return Ok(Holding::Foreign);
        }
        let mut cursor = 0;
        loop {
            let (next, found) = self.scan(cursor, None).await?;
            if found.iter().any(|key| !key.starts_with(KEY_SPACE.as_bytes())) {
                return Ok(Holding::Foreign);
            }
            if next == 0 {
                return Ok(Holding::OnlyOurs);
            }
            cursor = next;
        }
    }

    async fn scan(
        &self,
        cursor: u64,
        prefix: Option<&str>,
    ) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let mut command = redis::cmd("SCAN");
        command.arg(cursor).arg("COUNT").arg(BATCH);
        if let Some(prefix) = prefix {
            command.arg("MATCH").arg(format!("{prefix}*"));
        }
        self.query("", &command).await
    }

    fn name(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Commands on one key keep their order: they take the same connection.
    async fn query<T: redis::FromRedisValue>(
        &self,
        key: &str,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        let place = key.bytes().fold(0_usize, |sum, byte| sum.wrapping_add(usize::from(byte)));
        let link = self.links.get(place % self.links.len().max(1));
        match link {
            Some(link) => Ok(link.query(command).await?),
            None => Err(StoreError::Timeout),
        }
    }
}

/// Redis takes whole milliseconds above zero.
fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64 / 4)
}

fn client(server: &RedisConfig) -> Result<Client, StoreError> {
    if server.tls.is_some() {
        return Err(StoreError::Tls);
    }
    let address = match &server.address {
        RedisAddress::Tcp { host, port } => ConnectionAddr::Tcp(host.clone(), *port),
        RedisAddress::Unix(path) => ConnectionAddr::Unix(path.clone()),
    };
    let mut settings = RedisConnectionInfo::default();
    if let Some(username) = &server.username {
        settings = settings.set_username(username);
    }
    if let Some(secret) = &server.password {
        settings = settings.set_password(password(secret)?);
    }
    Ok(Client::open(address.into_connection_info()?.set_redis_settings(settings))?)
}

fn password(secret: &Secret) -> Result<String, StoreError> {
    let problem = |text: &dyn std::fmt::Display| StoreError::Password(text.to_string());
    let text = match secret {
        Secret::File(path) => std::fs::read_to_string(path).map_err(|error| problem(&error))?,
        Secret::Env(name) => std::env::var(name).map_err(|error| problem(&error))?,
        Secret::Inline(bytes) => {
            String::from_utf8(bytes.clone()).map_err(|_| problem(&"it is not valid UTF-8"))?
        }
    };
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}
