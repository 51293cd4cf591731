//! Why a poll failed.

use std::error::Error;
use std::io;

use redis::{ServerError, ServerErrorKind};

/// The `reason` of a failed poll: a closed set, since it is a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PollErrorKind {
    /// The host name did not resolve.
    Dns,
    /// Nobody listens at the address, or the socket's file is not there.
    ConnectRefused,
    /// No connection within the deadline.
    ConnectTimeout,
    /// Connecting failed in another way.
    Connect,
    /// TLS could not be agreed on: certificates, versions, or one side speaks plain text.
    Tls,
    /// The server refused the user or password, or asks for one, or none could be read.
    Auth,
    /// The user may not call `INFO`, or the server refuses clients from here.
    NoPermission,
    /// Connected, but no answer within the deadline.
    Timeout,
    /// The server closed the connection.
    Closed,
    /// The server has as many clients as it takes.
    MaxClients,
    /// The server is busy with a script.
    Busy,
    /// The server refused even `INFO` because it is loading.
    Loading,
    /// The answer is not what Redis answers to `INFO`.
    Protocol,
}

impl PollErrorKind {
    /// Every kind, in label order.
    pub const ALL: [PollErrorKind; 13] = [
        PollErrorKind::Dns,
        PollErrorKind::ConnectRefused,
        PollErrorKind::ConnectTimeout,
        PollErrorKind::Connect,
        PollErrorKind::Tls,
        PollErrorKind::Auth,
        PollErrorKind::NoPermission,
        PollErrorKind::Timeout,
        PollErrorKind::Closed,
        PollErrorKind::MaxClients,
        PollErrorKind::Busy,
        PollErrorKind::Loading,
        PollErrorKind::Protocol,
    ];

    /// The value of the `reason` label.
    pub fn as_str(self) -> &'static str {
        match self {
            PollErrorKind::Dns => "dns",
            PollErrorKind::ConnectRefused => "connect_refused",
            PollErrorKind::ConnectTimeout => "connect_timeout",
            PollErrorKind::Connect => "connect",
            PollErrorKind::Tls => "tls",
            PollErrorKind::Auth => "auth",
            PollErrorKind::NoPermission => "no_permission",
            PollErrorKind::Timeout => "timeout",
            PollErrorKind::Closed => "closed",
            PollErrorKind::MaxClients => "max_clients",
            PollErrorKind::Busy => "busy",
            PollErrorKind::Loading => "loading",
            PollErrorKind::Protocol => "protocol",
        }
    }
}

/// A poll that failed: the reason for the label, and a text for the log that holds no secret.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct PollError {
    kind: PollErrorKind,
    text: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl PollError {
    /// The reason.
    pub fn kind(&self) -> PollErrorKind {
        self.kind
    }

    pub(super) fn new(kind: PollErrorKind, text: impl Into<String>) -> PollError {
        PollError { kind, text: text.into(), source: None }
    }

    pub(super) fn because(
        kind: PollErrorKind,
        text: impl Into<String>,
        source: impl Error + Send + Sync + 'static,
    ) -> PollError {
        PollError { kind, text: text.into(), source: Some(Box::new(source)) }
    }

    /// An error of connecting a socket to `place`.
    pub(super) fn connecting(place: &str, error: io::Error) -> PollError {
        let kind = match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                PollErrorKind::ConnectRefused
            }
            io::ErrorKind::TimedOut => PollErrorKind::ConnectTimeout,
            _ => PollErrorKind::Connect,
        };
        PollError::because(kind, format!("cannot connect to {place}"), error)
    }

    /// An error reply to `INFO`.
    pub(super) fn replied(error: ServerError) -> PollError {
        let kind = reply_kind(&error).unwrap_or(PollErrorKind::Protocol);
        PollError::because(kind, "the server refused INFO", error)
    }

    /// An error reply to `AUTH`. Servers repeat the arguments of commands that they do not know, so
    /// nothing of its text is kept.
    pub(super) fn refused_login(error: &ServerError) -> PollError {
        match reply_kind(error) {
            Some(PollErrorKind::MaxClients) => {
                PollError::new(PollErrorKind::MaxClients, "the server takes no more clients")
            }
            Some(PollErrorKind::Busy) => {
                PollError::new(PollErrorKind::Busy, "the server is busy with a script")
            }
            _ => {
                let details = error.details().unwrap_or_default();
                let why = if details.contains("without any password configured") {
                    "the server has no password for the default user, so leave it out"
                } else if details.starts_with("unknown command") {
                    "the server does not know AUTH"
                } else {
                    "wrong user name or password, or the user is disabled"
                };
                PollError::new(PollErrorKind::Auth, format!("cannot log in: {why}"))
            }
        }
    }
}

/// What an error reply means, if it means anything of its own.
fn reply_kind(error: &ServerError) -> Option<PollErrorKind> {
    match error.kind() {
        Some(ServerErrorKind::NoPerm) => return Some(PollErrorKind::NoPermission),
        Some(ServerErrorKind::BusyLoading) => return Some(PollErrorKind::Loading),
        _ => {}
    }
    let details = error.details().unwrap_or_default();
    match error.code() {
        "NOAUTH" | "WRONGPASS" => Some(PollErrorKind::Auth),
        "DENIED" => Some(PollErrorKind::NoPermission),
        "BUSY" => Some(PollErrorKind::Busy),
        "ERR" if details.starts_with("max number of clients") => Some(PollErrorKind::MaxClients),
        "ERR" if details.starts_with("operation not permitted") => Some(PollErrorKind::Auth),
        _ => None,
    }
}
