//! A real PostgreSQL as the backend: each load is a query that takes the time of a load.
//!
//! Connections are opened when they are needed and kept, as the pool of a service does it. Whether
//! the server takes that many is for the server to say: beyond its `max_connections` it refuses
//! with SQLSTATE 53300. Nothing is written there.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{CancelToken, Client, Config, NoTls, SimpleQueryMessage};

use super::{Key, LoadError};
use crate::one_line::one_line;

/// Opening a connection takes milliseconds; a server that needs longer is not there.
const OPEN_LIMIT: Duration = Duration::from_secs(5);
/// Between two attempts at a server that is full.
const PAUSE: Duration = Duration::from_millis(100);
/// Queries that are still under way at the end are ended within that.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);
/// What the server's administrator sees us as.
const NAME: &str = "stampede-drill";
const PORT: u16 = 5432;

/// Where a database is and who we are there. Neither `Display` nor `Debug` shows the password.
#[derive(Debug, Clone, PartialEq)]
pub struct DatabaseUrl(Box<Config>);

/// Why a text is no address of a database. It does not repeat the text, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseUrlError {
    /// Not the form of one.
    #[error(
        "is no address of a database; write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with / in \
         a password or in the path of a socket as %2F"
    )]
    Form,
    /// It insists on TLS.
    #[error("asks for TLS, which the drill does not speak with a database; leave out sslmode")]
    Tls,
}

/// Why a database cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// It refused, or a query failed.
    #[error("{text} (SQLSTATE {code})")]
    Refused {
        /// What it said.
        text: String,
        /// Its code for that.
        code: String,
    },
    /// No connection, or it broke.
    #[error("{0}")]
    Broken(String),
    /// It accepted a connection and then was silent.
    #[error("no answer within {OPEN_LIMIT:?}")]
    Silent,
}

/// A pool of connections to one database.
pub struct Database {
    url: DatabaseUrl,
    idle: Mutex<Vec<Client>>,
    /// For every connection that was opened.
    cancels: Mutex<Vec<CancelToken>>,
    /// Why the last query failed that did.
    said: Mutex<Option<DatabaseError>>,
}

impl Database {
    /// Opens the first connection, so that what is wrong shows before there is load.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses us.
    pub async fn open(url: DatabaseUrl) -> Result<Database, DatabaseError> {
        let (idle, cancels, said) = Default::default();
        let database = Database { url, idle, cancels, said };
        let give_up = Instant::now() + OPEN_LIMIT;
        loop {
            match database.connect().await {
                Ok(client) => {
                    locked(&database.idle).push(client);
                    return Ok(database);
                }
                // The connections of a drill before this one may still be on their way out.
                Err(error) if error.is_exhaustion() && Instant::now() < give_up => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The value of a key of the first `keys`, after `service`.
    pub(super) async fn query(
        &self,
        key: Key,
        keys: u32,
        value_bytes: usize,
        service: Duration,
    ) -> Result<Option<Vec<u8>>, LoadError> {
        let result = self.try_query(key, keys, value_bytes, service).await;
        result.map_err(|error| {
            let kind = if error.is_exhaustion() { LoadError::Exhausted } else { LoadError::Failed };
            *locked(&self.said) = Some(error);
            kind
        })
    }

    /// What it said to the last query that failed.
    pub(super) fn said(&self) -> Option<DatabaseError> {
        locked(&self.said).clone()
    }

    /// Ends the queries that are still under way.
    pub(super) async fn cancel(&self) {
        let tokens = std::mem::take(&mut *locked(&self.cancels));
        let all = async {
            for token in tokens {
                // One that has ended, or a server that is gone, has nothing to be ended.
                let _ = token.cancel_query(NoTls).await;
            }
        };
        let _ = timeout(CANCEL_LIMIT, all).await;
    }

    async fn try_query(
        &self,
        key: Key,
        keys: u32,
        value_bytes: usize,
        service: Duration,
    ) -> Result<Option<Vec<u8>>, DatabaseError> {
        let client = match self.take_idle() {
            Some(client) => client,
            None => self.connect().await?,
        };
        let answer = client.simple_query(&query(key, keys, value_bytes, service)).await?;
        // One on which a query has failed is not used again.
        locked(&self.idle).push(client);
        Ok(answer.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(|value| value.as_bytes().to_vec()),
            _ => None,
        }))
    }

    fn take_idle(&self) -> Option<Client> {
        let mut idle = locked(&self.idle);
        std::iter::from_fn(|| idle.pop()).find(|client| !client.is_closed())
    }

    async fn connect(&self) -> Result<Client, DatabaseError> {
        let opened = timeout(OPEN_LIMIT, self.url.0.connect(NoTls)).await;
        let (client, connection) = opened.map_err(|_| DatabaseError::Silent)??;
        // It ends with its client; what breaks it, the client reports.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        locked(&self.cancels).push(client.cancel_token());
        Ok(client)
    }
}

/// The value of a key of the first `keys`, after `service`. There are only numbers to be put in, so
/// one message to the server does, and a pooler between us may give us another session each time.
fn query(key: Key, keys: u32, value_bytes: usize, service: Duration) -> String {
    let seconds = service.as_secs_f64();
    format!(
        "SELECT CASE WHEN {key} < {keys} THEN rpad(name, greatest({value_bytes}, length(name)), '.') \
         END FROM (SELECT 'value of {key} '::text AS name) named, pg_sleep({seconds})"
    )
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("url", &self.url).finish_non_exhaustive()
    }
}

impl DatabaseError {
    fn is_exhaustion(&self) -> bool {
        let exhausted = SqlState::TOO_MANY_CONNECTIONS.code();
        matches!(self, DatabaseError::Refused { code, .. } if code == exhausted)
    }
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> DatabaseError {
        match error.as_db_error() {
            Some(refusal) => DatabaseError::Refused {
                text: refusal.message().to_owned(),
                code: refusal.code().code().to_owned(),
            },
            None => DatabaseError::Broken(one_line(&error)),
        }
    }
}

impl FromStr for DatabaseUrl {
    type Err = DatabaseUrlError;

    fn from_str(text: &str) -> Result<DatabaseUrl, DatabaseUrlError> {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        if !matches!(scheme, Some("postgres" | "postgresql")) {
            return Err(DatabaseUrlError::Form);
        }
        let mut config: Config = text.parse().map_err(|_| DatabaseUrlError::Form)?;
        if config.get_hosts().is_empty() {
            return Err(DatabaseUrlError::Form);
        }
        if config.get_ssl_mode() == SslMode::Require {
            return Err(DatabaseUrlError::Tls);
        }
        if config.get_application_name().is_none() {
            config.application_name(NAME);
        }
        Ok(DatabaseUrl(Box::new(config)))
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = self.0.get_ports();
        for (place, host) in self.0.get_hosts().iter().enumerate() {
            let port = ports.get(place).or(ports.first()).unwrap_or(&PORT);
            let comma = if place > 0 { "," } else { "" };
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}:{port}")?,
                Host::Unix(path) => write!(f, "{comma}{}:{port}", path.display())?,
            }
        }
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        for (text, shown) in [
            ("postgres://me:CANARY@db.example:5433/shop", "db.example:5433"),
            ("postgresql://me:CANARY@db.example/shop?connect_timeout=3", "db.example:5432"),
            ("postgres://me@%2Frun%2Fpostgresql/shop?password=CANARY", "/run/postgresql:5432"),
            ("postgres://me:CANARY@one:1,two:2/shop", "one:1,two:2"),
        ] {
            let url: DatabaseUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("CANARY"), "{url:?}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        for (text, error) in [
            ("", DatabaseUrlError::Form),
            ("CANARY", DatabaseUrlError::Form),
            ("host=CANARY user=me", DatabaseUrlError::Form),
            ("mysql://CANARY@h/d", DatabaseUrlError::Form),
            ("postgres://", DatabaseUrlError::Form),
            ("postgres:///shop", DatabaseUrlError::Form),
            ("postgres://me:CANARY@h:port/d", DatabaseUrlError::Form),
            ("postgres://me:CANARY@h/d?CANARY=1", DatabaseUrlError::Form),
            ("postgres://me:CANARY@h/d?sslmode=require", DatabaseUrlError::Tls),
        ] {
            assert_eq!(text.parse::<DatabaseUrl>(), Err(error), "{text}");
            assert!(!error.to_string().contains("CANARY"));
        }
    }
}
