//! One pipelined connection to the server that many requests share, made anew when it breaks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisError};

/// Between two attempts to connect again; a server on the same machine is back within that.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// A command that takes longer has failed. Short, as in a service that has its database to fall
/// back on.
const COMMAND_LIMIT: Duration = Duration::from_millis(250);
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// A connection. Commands of concurrent requests travel together.
#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    current: RwLock<MultiplexedConnection>,
    reconnecting: AtomicBool,
    cut: AtomicBool,
}

impl Link {
    /// Connects.
    pub(super) async fn connect(client: Client) -> Result<Arc<Link>, RedisError> {
        let connection = open(&client).await?;
        let current = RwLock::new(connection);
        Ok(Arc::new(Link {
            client,
            current,
            reconnecting: AtomicBool::default(),
            cut: AtomicBool::default(),
        }))
    }

    /// Sends one command.
    pub(super) async fn query<T: FromRedisValue>(
        self: &Arc<Link>,
        command: &Cmd,
    ) -> Result<T, RedisError> {
        self.pass().await?;
        let mut connection = self.current();
        let answer = command.query_async(&mut connection).await;
        answer.inspect_err(|error| self.note(error))
    }

    /// Sends several commands at once.
    pub(super) async fn query_all<T: FromRedisValue>(
        self: &Arc<Link>,
        commands: &Pipeline,
    ) -> Result<T, RedisError> {
        self.pass().await?;
        self.pass().await?;
        let mut connection = self.current();
        let answer = commands.query_async(&mut connection).await;
        answer.inspect_err(|error| self.note(error))
    }

    /// Cuts the way to the server, or opens it again.
    pub(super) fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }

    /// While the way is cut, a command waits in vain.
    async fn pass(&self) -> Result<(), RedisError> {
        if self.cut.load(Ordering::Relaxed) {
            tokio::time::sleep(COMMAND_LIMIT).await;
            return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        }
        Ok(())
    }

    fn current(&self) -> MultiplexedConnection {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts to connect again when the error says that the connection is gone.
    fn note(self: &Arc<Link>, error: &RedisError) {
        let dead = error.is_unrecoverable_error() && !error.is_timeout();
        if dead && !self.reconnecting.swap(true, Ordering::AcqRel) {
            tokio::spawn(reconnect(Arc::downgrade(self), self.client.clone()));
        }
    }
}

/// Tries until it works or nobody needs the link any more.
async fn reconnect(link: std::sync::Weak<Link>, client: Client) {
    loop {
        let opened = open(&client).await;
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

async fn open(client: &Client) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_LIMIT))
        .set_response_timeout(Some(COMMAND_LIMIT));
    client.get_multiplexed_async_connection_with_config(&config).await
}
