//! One pipelined connection to the server that many requests share, made anew when it breaks.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Pipeline, RedisError};

use crate::config::RedisConfig;
use crate::source::redis::{PollError, shared};

/// Between two attempts to connect again; a server on the same machine is back within that.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// A command of the service that takes longer has failed. A service that has a database to fall back
/// on waits no longer, and on a busy machine a healthy answer does not take that long.
const COMMAND_LIMIT: Duration = Duration::from_secs(1);
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// What the drill itself asks for, such as filling the cache, may take that long on a busy machine.
const ORDER_LIMIT: Duration = Duration::from_secs(10);

/// A connection. Commands of concurrent requests travel together.
#[derive(Debug)]
pub(super) struct Link {
    server: RedisConfig,
    current: RwLock<MultiplexedConnection>,
    reconnecting: AtomicBool,
    way: AtomicU8,
}

/// Whether the service's commands get through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// They do.
    Open = 0,
    /// They wait in vain.
    Cut = 1,
    /// They are refused at once: the drill is over.
    Closed = 2,
}

/// Whose command it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// The service's, on behalf of a request.
    Service,
    /// The drill's own, which gets through whatever befalls the service.
    Drill,
}

impl Link {
    /// Connects.
    pub(super) async fn connect(server: RedisConfig) -> Result<Arc<Link>, PollError> {
        let connection = open(&server).await?;
        let current = RwLock::new(connection);
        let (reconnecting, way) = (AtomicBool::default(), AtomicU8::new(Way::Open as u8));
        Ok(Arc::new(Link { server, current, reconnecting, way }))
    }

    /// Sends one command.
    pub(super) async fn query<T: FromRedisValue>(
        self: &Arc<Link>,
        voice: Voice,
        command: &Cmd,
    ) -> Result<T, RedisError> {
        let mut connection = self.connection(voice).await?;
        let answer = command.query_async(&mut connection).await;
        answer.inspect_err(|error| self.note(error))
    }

    /// Sends several commands at once.
    pub(super) async fn query_all<T: FromRedisValue>(
        self: &Arc<Link>,
        voice: Voice,
        commands: &Pipeline,
    ) -> Result<T, RedisError> {
        let mut connection = self.connection(voice).await?;
        let answer = commands.query_async(&mut connection).await;
        answer.inspect_err(|error| self.note(error))
    }

    /// Opens, cuts or closes the way for the service.
    pub(super) fn set_way(&self, way: Way) {
        self.way.store(way as u8, Ordering::Release);
    }

    async fn connection(&self, voice: Voice) -> Result<MultiplexedConnection, RedisError> {
        let way = self.way.load(Ordering::Acquire);
        let mut connection = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        if voice == Voice::Drill {
            connection.set_response_timeout(ORDER_LIMIT);
        } else if way == Way::Cut as u8 {
            tokio::time::sleep(COMMAND_LIMIT).await;
            return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        } else if way == Way::Closed as u8 {
            return Err(std::io::Error::from(std::io::ErrorKind::NotConnected).into());
        }
        Ok(connection)
    }

    /// Starts to connect again when the error says that the connection is gone.
    fn note(self: &Arc<Link>, error: &RedisError) {
        let closed = self.way.load(Ordering::Acquire) == Way::Closed as u8;
        let dead = error.is_unrecoverable_error() && !error.is_timeout() && !closed;
        if dead && !self.reconnecting.swap(true, Ordering::AcqRel) {
            tokio::spawn(reconnect(Arc::downgrade(self), self.server.clone()));
        }
    }
}

/// Tries until it works or nobody needs the link any more.
async fn reconnect(link: std::sync::Weak<Link>, server: RedisConfig) {
    loop {
        let opened = open(&server).await;
        let Some(link) = link.upgrade() else { return };
        if let Ok(connection) = opened {
            *link.current.write().unwrap_or_else(PoisonError::into_inner) = connection;
            link.reconnecting.store(false, Ordering::Release);
            return;
        }
        drop(link);
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

async fn open(server: &RedisConfig) -> Result<MultiplexedConnection, PollError> {
    let mut connection = shared(server, CONNECT_LIMIT).await?;
    connection.set_response_timeout(COMMAND_LIMIT);
    Ok(connection)
}
