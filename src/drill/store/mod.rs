//! The cache under the drill: Redis, seen through one key prefix that nothing leaves.

mod admin;
mod entries;
mod link;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, RedisError};

pub use admin::Holding;
pub(super) use admin::MemoryLimit;
pub use entries::{Found, Write};
use link::{Link, Voice, Way};

use crate::config::RedisConfig;
use crate::source::redis::PollError;

/// What every key of every drill begins with.
pub const KEY_SPACE: &str = "stampede-drill:";

/// Connections that share the load; one would be enough up to some ten thousand commands a second.
const CONNECTIONS: usize = 2;
/// Keys looked at, written or removed in one go.
const BATCH: usize = 500;

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
    /// No way in: address, TLS, or login.
    #[error(transparent)]
    Connect(#[from] PollError),
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
        let mut links = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            links.push(Link::connect(server.clone()).await?);
        }
        Ok(Store { links: links.into(), prefix: format!("{KEY_SPACE}{run}:").into() })
    }

    /// What all keys of this store begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether the way to the server is cut: every command then fails as if it were not answered.
    /// For a server that is not ours to stop.
    pub fn cut(&self, cut: bool) {
        let way = if cut { Way::Cut } else { Way::Open };
        self.links.iter().for_each(|link| link.set_way(way));
    }

    /// Ends the service's use of the store: what is still under way can write no more. Then removes
    /// everything under our prefix.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn end(&self) -> Result<(), StoreError> {
        for link in self.links.iter() {
            link.set_way(Way::Closed);
            // Commands keep their order: with this answered, those before it have been carried out.
            link.query::<()>(Voice::Drill, &redis::cmd("PING")).await?;
        }
        self.clear().await.map(|_| ())
    }

    fn name(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// The link that serves a key: always the same one, so that commands on it keep their order.
    fn link(&self, key: &str) -> Result<&Arc<Link>, StoreError> {
        let place = key.bytes().fold(0_usize, |sum, byte| sum.wrapping_add(usize::from(byte)));
        self.links.get(place % self.links.len().max(1)).ok_or(StoreError::Timeout)
    }

    async fn query<T: redis::FromRedisValue>(
        &self,
        key: &str,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        Ok(self.link(key)?.query(Voice::Service, command).await?)
    }

    /// The drill's own command.
    async fn order<T: redis::FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        Ok(self.link("")?.query(Voice::Drill, command).await?)
    }
}

/// Redis takes whole milliseconds above zero.
fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64 / 4)
}
