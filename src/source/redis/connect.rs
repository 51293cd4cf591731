//! From an address to a connection that is logged in: resolve, connect, TLS, log in.

use std::time::Duration;

use redis::{Cmd, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use super::connection::Connection;
use super::error::{PollError, PollErrorKind};
use super::{probe, tls};
use crate::config::{RedisAddress, RedisConfig, Secret, Tls};

/// How far a poll has come; names what a deadline ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Looking up the host's name.
    #[default]
    Resolving,
    /// Opening the socket.
    Connecting,
    /// Agreeing on TLS.
    Securing,
    /// Awaiting the answer to `AUTH`.
    LoggingIn,
    /// Awaiting the answer to `INFO`.
    Asking,
}

impl Phase {
    /// The error of a poll that the deadline ended in this phase.
    pub(super) fn out_of_time(self, limit: Duration) -> PollError {
        let (kind, what) = match self {
            Phase::Resolving => (PollErrorKind::Dns, "the host's name was not resolved"),
            Phase::Connecting => (PollErrorKind::ConnectTimeout, "no connection was made"),
            Phase::Securing => (PollErrorKind::Timeout, "the server did not answer the TLS hello"),
            Phase::LoggingIn => (PollErrorKind::Timeout, "the server did not answer AUTH"),
            Phase::Asking => (PollErrorKind::Timeout, "the server did not answer INFO"),
        };
        PollError::new(kind, format!("{what} within {limit:?}"))
    }
}

/// Opens a connection and logs in.
pub(super) async fn connect(
    config: &RedisConfig,
    limit: Duration,
    phase: &mut Phase,
) -> Result<Connection, PollError> {
    let mut connection = Connection::over(stream(config, limit, phase).await?).await?;
    *phase = Phase::LoggingIn;
    log_in(&mut connection, config).await?;
    Ok(connection)
}

/// A stream to a server, whatever it runs over.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// Opens a stream on which nothing was said yet.
pub(super) async fn stream(
    config: &RedisConfig,
    limit: Duration,
    phase: &mut Phase,
) -> Result<Box<dyn Duplex>, PollError> {
    match &config.address {
        RedisAddress::Unix(path) => {
            *phase = Phase::Connecting;
            let place = path.display().to_string();
            let stream = UnixStream::connect(path).await;
            Ok(Box::new(stream.map_err(|e| PollError::connecting(&place, e))?))
        }
        RedisAddress::Tcp { host, port } => {
            let stream = open(host, *port, limit, phase).await?;
            let Some(tls) = &config.tls else { return Ok(Box::new(stream)) };
            *phase = Phase::Securing;
            Ok(Box::new(secure(stream, tls, host, limit).await?))
        }
    }
}

/// Agrees on TLS. A server that is asked on its plain port waits for the rest of what it takes for
/// a command, so after half of the time somebody else looks what is spoken there.
async fn secure(
    stream: TcpStream,
    tls: &Tls,
    host: &str,
    limit: Duration,
) -> Result<TlsStream<TcpStream>, PollError> {
    let address = stream.peer_addr();
    let plain_port = async {
        tokio::time::sleep(limit / 2).await;
        match address {
            Ok(address) if probe::answers_plain_text(address).await => {}
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        stream = tls::secure(stream, tls, host) => stream,
        () = plain_port => {
            let text = "the server speaks plain text on this port, use the redis scheme";
            Err(PollError::new(PollErrorKind::Tls, text))
        }
    }
}

/// Explains why a server closed a new connection: one that is asked in plain text on its TLS port
/// does so without a word.
pub(super) async fn explain_closed(
    config: &RedisConfig,
    limit: Duration,
    error: PollError,
) -> PollError {
    let RedisAddress::Tcp { host, port } = &config.address else { return error };
    if config.tls.is_some() {
        return error;
    }
    // What is left of the deadline is not known here; a look that takes long is not worth it.
    let look = tokio::time::timeout(limit / 4, probe::answers_tls(host, *port));
    if !matches!(look.await, Ok(true)) {
        return error;
    }
    PollError::new(
        PollErrorKind::Tls,
        "the server speaks TLS on this port and closed the plain connection, use the rediss scheme",
    )
}

/// Resolves the name and tries its addresses in turn, each for its share of the time.
async fn open(
    host: &str,
    port: u16,
    limit: Duration,
    phase: &mut Phase,
) -> Result<TcpStream, PollError> {
    *phase = Phase::Resolving;
    let no_name = |e| PollError::because(PollErrorKind::Dns, format!("cannot resolve {host}"), e);
    let addresses: Vec<_> = tokio::net::lookup_host((host, port)).await.map_err(no_name)?.collect();
    *phase = Phase::Connecting;
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = PollError::new(PollErrorKind::Dns, format!("{host} has no address"));
    for address in addresses {
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // One small question at a time: waiting for more to send only adds latency. A
                // socket that refuses the option works all the same.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last = PollError::connecting(&address.to_string(), error),
            Err(_) => {
                let text = format!("no connection to {address} within {share:?}");
                last = PollError::new(PollErrorKind::ConnectTimeout, text);
            }
        }
    }
    Err(last)
}

/// The `AUTH` that a server wants, when there is a user or a password.
pub(super) async fn auth(config: &RedisConfig) -> Result<Option<Cmd>, PollError> {
    if config.username.is_none() && config.password.is_none() {
        return Ok(None);
    }
    let mut auth = redis::cmd("AUTH");
    if let Some(user) = &config.username {
        auth.arg(user);
    }
    // A user without a password takes any, so the empty one will do.
    match &config.password {
        Some(secret) => auth.arg(read(secret).await?),
        None => auth.arg(""),
    };
    Ok(Some(auth))
}

async fn log_in(connection: &mut Connection, config: &RedisConfig) -> Result<(), PollError> {
    let Some(auth) = auth(config).await? else { return Ok(()) };
    match connection.ask(&auth).await? {
        Value::Okay => Ok(()),
        Value::ServerError(error) => Err(PollError::refused_login(&error)),
        _ => Err(PollError::new(
            PollErrorKind::Protocol,
            "the answer to AUTH is not what Redis would say",
        )),
    }
}

/// Reads a secret, without holding up the others when its file lies on a slow disk.
async fn read(secret: &Secret) -> Result<Vec<u8>, PollError> {
    let place = match secret {
        Secret::File(path) => format!("cannot read the password file {}", path.display()),
        Secret::Env(_) | Secret::Inline(_) => "cannot read the password".to_owned(),
    };
    let secret = secret.clone();
    let read = tokio::task::spawn_blocking(move || secret.read()).await;
    let bytes = read.unwrap_or_else(|stopped| Err(stopped.into()));
    bytes.map_err(|error| PollError::because(PollErrorKind::Auth, place, error))
}
