//! What the user asked for, valid and complete.
//!
//! YAML and flags become [`Config`] in one step that reports every problem at once; nothing after
//! this module sees a raw value.

mod address;
mod apps;
mod cache;
mod fields;
mod file;
mod load;
mod node;
mod problem;
mod redis;
mod secret;
mod ttl;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use fields::shown;
pub use file::LISTEN_FORM;
pub use load::{Flags, prometheus_server, target};
pub use problem::{ConfigError, Problem};
pub use secret::Secret;

use crate::detect::Thresholds;
use crate::reading::mapping::Mapping;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The HTTP side.
    pub web: Web,
    /// What is logged, and how.
    pub log: Log,
    /// The caches to watch, at least one, names unique.
    pub caches: Vec<CacheConfig>,
    /// Where to write what is seen as traces, one file a cache and start; made if it is missing.
    pub record_dir: Option<PathBuf>,
    /// What is kept over restarts, and where.
    pub state: Option<StateConfig>,
    /// Where incidents are appended, one JSON object a line.
    pub incidents_file: Option<PathBuf>,
    /// A server that scrapes this exporter: what it has stored is learned from at the start.
    pub warm_start: Option<PrometheusConfig>,
}

/// A Prometheus-compatible server.
#[derive(Debug, Clone, PartialEq)]
pub struct PrometheusConfig {
    /// `http` or `https`, without `/api`. May hold user and password: never shown.
    pub url: PageUrl,
    /// HTTP user, where the address has none.
    pub username: Option<String>,
    /// Where that user's password comes from.
    pub password: Option<Secret>,
}

/// What was learned is kept over restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateConfig {
    /// The directory, with one file a cache; made if it is missing.
    pub dir: PathBuf,
    /// The longest time between two saves. Default 30 s.
    pub save_interval: Duration,
}

/// The HTTP side.
#[derive(Debug, Clone, PartialEq)]
pub struct Web {
    /// Where to listen. Port 0 takes a free one.
    pub listen_address: SocketAddr,
}

impl Default for Web {
    /// Loopback only: the page has no password. The port lies beyond the range that Prometheus'
    /// exporters have shared out among themselves.
    fn default() -> Web {
        Web { listen_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 19121)) }
    }
}

/// What is logged, and how. Always to stderr.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Log {
    /// The least important level that is logged.
    pub level: LogLevel,
    /// How a line looks.
    pub format: LogFormat,
}

/// How important a line of the log is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// The exporter cannot do what it was asked to.
    Error,
    /// Something needs a look.
    Warn,
    /// What happens, in few lines.
    #[default]
    Info,
    /// What helps to find a fault.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// All levels, the most important first.
    pub const ALL: &[LogLevel] =
        &[LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace];

    /// As `log.level` and `--log.level` write it.
    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For a person.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// Both formats.
    pub const ALL: &[LogFormat] = &[LogFormat::Text, LogFormat::Json];

    /// As `log.format` and `--log.format` write it.
    pub fn as_str(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

/// One cache to watch.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheConfig {
    /// The `cache` label; not empty.
    pub name: Arc<str>,
    /// Time between polls, 100 ms to 60 s. Default 1 s.
    pub poll_interval: Duration,
    /// Total time for one poll of one source, connecting included. Default 1 s.
    pub poll_timeout: Duration,
    /// The sliding window of ratios and rates. Default 10 s, or two polls if
    /// they are longer; at least two polls.
    pub window: Duration,
    /// Lookups that the window must hold for a ratio to be defined. Default 20.
    pub min_lookups: u64,
    /// The server.
    pub redis: RedisConfig,
    /// The TTL sampler.
    pub ttl: TtlConfig,
    /// The applications; may be empty.
    pub apps: Vec<AppConfig>,
    /// Whether and how the keys to blame are found.
    pub culprits: CulpritsConfig,
    /// The detector's thresholds.
    pub detector: Thresholds,
    /// Past incidents kept in memory. Default 100.
    pub keep_incidents: usize,
}

/// Whether and how the keys to blame are found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CulpritsConfig {
    /// Where missed keys are learned from.
    pub source: CulpritsSource,
    /// Whether names of keys are shown.
    pub keys: KeyNames,
}

/// Where missed keys are learned from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CulpritsSource {
    /// Nowhere: nobody is blamed.
    #[default]
    Nowhere,
    /// The server's key-miss notifications, switched on for a while; needs [`Config::state`].
    Notifications,
}

/// Whether names of keys are shown in the API, on the page, in the log and in files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum KeyNames {
    /// As they are.
    #[default]
    Shown,
    /// As a hash.
    Hashed {
        /// What makes the hashes the same in every process; without it each has its own.
        salt: Option<Secret>,
    },
}

/// How to reach a server.
#[derive(Debug, Clone, PartialEq)]
pub struct RedisConfig {
    /// Where it is.
    pub address: RedisAddress,
    /// ACL user.
    pub username: Option<String>,
    /// Where the password comes from; read again at every connect, so that it can rotate.
    pub password: Option<Secret>,
    /// TLS, when the scheme asks for it.
    pub tls: Option<Tls>,
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisAddress {
    /// A host name or address and a port; the name is resolved at every connect.
    Tcp {
        /// Host name, IPv4, or IPv6 without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// A unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for RedisAddress {
    /// The `node` label: `host:port`, `[v6]:port` or the socket's path.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RedisAddress::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            RedisAddress::Tcp { host, port } => write!(f, "{host}:{port}"),
            RedisAddress::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// TLS of a connection to Redis. Files are read again at every connect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// The name to verify in the server's certificate, instead of the address's host.
    pub server_name: Option<String>,
    /// Own CA bundle (PEM) instead of the system's roots.
    pub ca_file: Option<PathBuf>,
    /// Client certificate chain and key (PEM).
    pub client: Option<ClientCertificate>,
}

/// A client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Certificate chain, PEM.
    pub cert_file: PathBuf,
    /// Private key, PEM.
    pub key_file: PathBuf,
}

/// The TTL sampler.
#[derive(Debug, Clone, PartialEq)]
pub struct TtlConfig {
    /// Keys asked for their TTL, a second. Default 100; 0 turns the sampler off.
    pub keys_per_second: u32,
    /// Share of one core of the server that sampling may take, 0.0001 to 0.1. Default 0.005. Above
    /// it the pace is lowered, down to one key a second.
    pub server_budget: f64,
    /// The server to sample instead of the cache's own, such as a replica. Its own counters, not
    /// the cache's, hold the lookups then.
    pub sample_from: Option<RedisConfig>,
    /// Key groups: the first that matches counts.
    pub groups: Vec<TtlGroup>,
    /// Keys asked at every poll.
    pub watch: Vec<TtlWatch>,
}

impl Default for TtlConfig {
    fn default() -> TtlConfig {
        TtlConfig {
            keys_per_second: 100,
            server_budget: 0.005,
            sample_from: None,
            groups: Vec::new(),
            watch: Vec::new(),
        }
    }
}

/// A key whose deadline is asked at every poll.
#[derive(Debug, Clone, PartialEq)]
pub struct TtlWatch {
    /// The `watch` label.
    pub name: Arc<str>,
    /// The key, in database 0.
    pub key: String,
}

/// Keys that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct TtlGroup {
    /// The `group` label; not `all` or `other`.
    pub name: Arc<str>,
    /// A glob over the key's bytes, as Redis' `KEYS` understands it.
    pub pattern: String,
}

/// One application source.
#[derive(Debug, Clone, PartialEq)]
pub struct AppConfig {
    /// The `app` label, unique in the cache.
    pub name: Arc<str>,
    /// `http` or `https` URL of the page. May hold user and password: never shown.
    pub url: PageUrl,
    /// Which of the page's series are the cache's counters.
    pub mapping: Mapping,
}

/// An application page's URL; `Debug` and `Display` leave out user, password and query.
#[derive(Clone, PartialEq, Eq)]
pub struct PageUrl(pub String);

impl std::fmt::Display for PageUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rest = self.0.split_once("://").map_or(self.0.as_str(), |(_, rest)| rest);
        let scheme = self.0.split_once("://").map_or("", |(scheme, _)| scheme);
        let without_query = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = match without_query.split_once('/') {
            Some((authority, path)) => (authority, format!("/{path}")),
            None => (without_query, String::new()),
        };
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        write!(f, "{scheme}://{host}{path}")
    }
}

impl std::fmt::Debug for PageUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}
