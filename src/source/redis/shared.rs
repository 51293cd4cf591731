//! A connection for many that ask at once, as a service has it.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, Value};

use super::connect::{self, Phase};
use super::error::{PollError, PollErrorKind};
use crate::config::RedisConfig;

/// Connects, logs in and sees that the server answers, within `limit`. The connection closes with
/// its last clone; what is asked on it has no deadline.
///
/// # Errors
/// When there is no way in.
pub async fn shared(
    config: &RedisConfig,
    limit: Duration,
) -> Result<MultiplexedConnection, PollError> {
    let mut phase = Phase::default();
    match tokio::time::timeout(limit, open(config, limit, &mut phase)).await {
        Ok(Err(error)) if error.kind() == PollErrorKind::Closed => {
            Err(connect::explain_closed(config, limit, error).await)
        }
        Ok(result) => result,
        Err(_) => Err(phase.out_of_time(limit)),
    }
}

async fn open(
    config: &RedisConfig,
    limit: Duration,
    phase: &mut Phase,
) -> Result<MultiplexedConnection, PollError> {
    let stream = connect::stream(config, limit, phase).await?;
    // As in a poll: logging in is ours to do, and so are deadlines.
    let login = RedisConnectionInfo::default().set_skip_set_lib_name();
    let settings = AsyncConnectionConfig::new().set_response_timeout(None);
    let connected = MultiplexedConnection::new_with_config(&login, stream, settings).await;
    let (mut connection, driver) = connected.map_err(closed)?;
    tokio::spawn(driver);
    *phase = Phase::LoggingIn;
    if let Some(auth) = connect::auth(config).await? {
        ask(&mut connection, &auth, |error| PollError::refused_login(&error)).await?;
    }
    *phase = Phase::Asking;
    ask(&mut connection, redis::cmd("INFO").arg("server"), PollError::replied).await?;
    Ok(connection)
}

async fn ask(
    connection: &mut MultiplexedConnection,
    question: &Cmd,
    refused: impl FnOnce(redis::ServerError) -> PollError,
) -> Result<(), PollError> {
    match connection.send_packed_command(question).await.map_err(closed)? {
        Value::ServerError(error) => Err(refused(error)),
        _ => Ok(()),
    }
}

fn closed(error: RedisError) -> PollError {
    PollError::because(PollErrorKind::Closed, "the server closed the connection", error)
}
