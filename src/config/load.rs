//! From a file and flags to a [`Config`], or every problem.

use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::node::{Node, Value};
use super::problem::{ConfigError, Problems};
use super::redis::server;
use super::{
    Config, LogFormat, LogLevel, PageUrl, RedisConfig, TtlGroup, address, fields, file, ttl,
};

/// Flags that say the same as keys of the file; a flag wins.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--web.listen-address`.
    pub listen_address: Option<SocketAddr>,
    /// `--log.level`.
    pub log_level: Option<LogLevel>,
    /// `--log.format`.
    pub log_format: Option<LogFormat>,
    /// `--record.dir`.
    pub record_dir: Option<PathBuf>,
}

impl Config {
    /// Reads a file and everything that it names.
    ///
    /// # Errors
    ///
    /// Every problem of the file and the flags at once.
    pub fn from_file(path: &Path, flags: &Flags) -> Result<Config, ConfigError> {
        let source = path.display().to_string();
        let problems = Problems::default();
        let root = match read(path) {
            Ok(text) => Node::parse(&text, &source, &problems),
            Err(error) => {
                problems.add(source, format!("cannot be read: {error}"));
                None
            }
        };
        let config = root.map(|root| file::config(&root, &problems));
        flagged(config, flags, problems)
    }

    /// One cache named `default`, from `--redis.addr` and any number of `--app.url`.
    ///
    /// # Errors
    ///
    /// Every problem of the flags at once.
    pub fn from_addresses(
        redis: &str,
        apps: &[String],
        flags: &Flags,
    ) -> Result<Config, ConfigError> {
        let problems = Problems::default();
        let apps = app_names(apps).into_iter().zip(apps).map(|(name, url)| {
            map(vec![("name", text("--app.url", &name)), ("url", text("--app.url", url))])
        });
        let cache = map(vec![
            ("name", text("--redis.addr", "default")),
            ("redis", map(vec![("addr", text("--redis.addr", redis))])),
            ("apps", Node::given("--app.url", Value::List(apps.collect()))),
        ]);
        let root = map(vec![("caches", Node::given("", Value::List(vec![cache])))]);
        let config = file::config(&root, &problems);
        flagged(Some(config), flags, problems)
    }
}

/// One server and the key groups to tell apart on it, from `--redis.addr` and any number of
/// `--group NAME=PATTERN`.
///
/// # Errors
///
/// Every problem of the flags at once.
pub fn target(redis: &str, groups: &[String]) -> Result<(RedisConfig, Vec<TtlGroup>), ConfigError> {
    let problems = Problems::default();
    let groups = groups.iter().map(|group| {
        let (name, pattern) = group.split_once('=').unwrap_or_else(|| {
            problems.add("--group", "is not NAME=PATTERN; write a group such as product=product:*");
            ("-", "*")
        });
        map(vec![("name", text("--group", name)), ("match", text("--group", pattern))])
    });
    let ttl = map(vec![("groups", Node::given("--group", Value::List(groups.collect())))]);
    let ttl = ttl::ttl(&ttl, None, &problems);
    let redis = map(vec![("addr", text("--redis.addr", redis))]);
    let redis = server(&redis, &problems);
    problems.or(redis.map(|redis| (redis, ttl.groups)))
}

/// A Prometheus server, from the flag of this name.
///
/// # Errors
///
/// What is wrong with the address.
pub fn prometheus_server(flag: &str, url: &str) -> Result<PageUrl, ConfigError> {
    let problems = Problems::default();
    let url = address::web(url, address::PROMETHEUS_FORM, flag, &problems);
    problems.or(url)
}

/// What a flag says, as if a file had said it.
fn text(flag: &str, value: &str) -> Node {
    Node::given(flag, Value::Text(value.to_owned()))
}

fn map(entries: Vec<(&str, Node)>) -> Node {
    let entries = entries.into_iter().map(|(key, node)| (key.to_owned(), node)).collect();
    Node::given("", Value::Map(entries))
}

/// The text of a file, unless it is far too large for a configuration.
fn read(path: &Path) -> io::Result<String> {
    /// A thousand caches with all their keys take less.
    const LARGEST: u64 = 1 << 20;
    let mut text = String::new();
    File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(io::Error::other("larger than 1 MiB, which no configuration is"));
    }
    Ok(text)
}

/// Lets the flags win over the file.
fn flagged(
    config: Option<Config>,
    flags: &Flags,
    problems: Problems,
) -> Result<Config, ConfigError> {
    let record_dir = flags.record_dir.as_ref().and_then(|dir| {
        let node = Node::given("--record.dir", Value::Text(dir.display().to_string()));
        fields::directory(&node, &problems)
    });
    let config = config.map(|mut config| {
        config.web.listen_address = flags.listen_address.unwrap_or(config.web.listen_address);
        config.log.level = flags.log_level.unwrap_or(config.log.level);
        config.log.format = flags.log_format.unwrap_or(config.log.format);
        config.record_dir = record_dir.or(config.record_dir);
        config
    });
    problems.or(config)
}

/// `host:port` of each address, with a number where one comes again. A bad address is found when
/// it is read as one.
fn app_names(urls: &[String]) -> Vec<String> {
    let unheard = Problems::default();
    let mut names: Vec<String> = Vec::new();
    for url in urls {
        let page = address::web(url, address::PAGE_FORM, "", &unheard);
        let name = page.map_or_else(|| "app".to_owned(), |page| address::page_name(&page));
        let mut unique = name.clone();
        let mut number = 2;
        while names.contains(&unique) {
            unique = format!("{name}#{number}");
            number += 1;
        }
        names.push(unique);
    }
    names
}
