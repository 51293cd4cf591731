//! The keys of the file, section by section, as the configuration that they mean.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::address::{self, REDIS_FORM, Security};
use super::fields::{self, Fields, is, unknown};
use super::node::{Node, Value, below};
use super::problem::{Problems, quoted};
use super::{
    AppConfig, CacheConfig, ClientCertificate, Config, Log, LogFormat, LogLevel, RedisConfig,
    Secret, Tls, TtlConfig, TtlGroup, Web,
};
use crate::detect::Thresholds;
use crate::reading::mapping::Mapping;

/// Polls more often than this cost the server more than they tell.
const POLL_INTERVAL: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(60);
/// A shorter time is less than a round trip to another site; a longer one hides an outage.
const POLL_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(60);
/// Longer windows hide a stampede of a few seconds.
const WINDOW: RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(600);
/// What a window is when nothing is said.
const DEFAULT_WINDOW: Duration = Duration::from_secs(10);
/// Key groups of one cache: each is a set of series.
const MOST_GROUPS: usize = 50;

/// Reads the whole file.
pub(super) fn config(root: &Node, problems: &Problems) -> Config {
    let mut fields = Fields::of(root, problems);
    let web = fields.read("web", |node, problems| Some(web(node, problems)));
    let log = fields.read("log", |node, problems| Some(log(node, problems)));
    let record_dir = fields.read("record", record_dir);
    let defaults = fields.get("defaults");
    let caches = fields
        .require("caches", "a list with a name and redis.addr for each cache", |node, problems| {
            Some(caches(node, defaults, problems))
        })
        .unwrap_or_default();
    fields.end();
    Config { web: web.unwrap_or_default(), log: log.unwrap_or_default(), caches, record_dir }
}

/// Reads a listen address, from the file or from a flag.
pub(super) fn listen_address(node: &Node, problems: &Problems) -> Option<SocketAddr> {
    const FORM: &str = "IP:PORT such as 127.0.0.1:19121 or [::]:19121, port 0 for a free one";
    let text = fields::text(node, problems, FORM)?;
    text.parse()
        .map_err(|_| {
            let shown = quoted(&text);
            problems.add(&node.path, format!("{shown} is not an address; write {FORM}"));
        })
        .ok()
}

fn web(node: &Node, problems: &Problems) -> Web {
    let mut fields = Fields::of(node, problems);
    let listen_address = fields.read("listen_address", listen_address);
    fields.end();
    listen_address.map_or_else(Web::default, |listen_address| Web { listen_address })
}

fn log(node: &Node, problems: &Problems) -> Log {
    let mut fields = Fields::of(node, problems);
    let level = fields.read("level", |n, p| choice(n, p, LogLevel::ALL, LogLevel::as_str));
    let format = fields.read("format", |n, p| choice(n, p, LogFormat::ALL, LogFormat::as_str));
    fields.end();
    Log { level: level.unwrap_or_default(), format: format.unwrap_or_default() }
}

fn record_dir(node: &Node, problems: &Problems) -> Option<PathBuf> {
    let mut fields = Fields::of(node, problems);
    let dir = fields.read("dir", fields::directory);
    fields.end();
    dir
}

fn caches(node: &Node, defaults: Option<&Node>, problems: &Problems) -> Vec<CacheConfig> {
    let list = fields::items(node, problems, "a list, each cache after a dash");
    if list.is_empty() {
        problems.add(&node.path, "names no cache; write at least one with name and redis.addr");
    }
    let mut caches = Vec::new();
    let mut names = Vec::new();
    for item in list {
        let merged = defaults.map(|defaults| item.clone().over(defaults));
        let (name, cache) = cache(merged.as_ref().unwrap_or(item), problems);
        names.extend(name.map(|name| (name, item.path.clone())));
        if let Some(cache) = cache {
            window_holds_two_polls(&cache, &below(&item.path, "window"), problems);
            caches.push(cache);
        }
    }
    unique(&names, problems, "each cache needs a name of its own");
    if let Some(defaults) = defaults {
        check_defaults(defaults, problems);
    }
    caches
}

/// Finds what is wrong with defaults that every cache overrides: they are read as a cache that
/// has all it needs otherwise.
fn check_defaults(defaults: &Node, problems: &Problems) {
    let text = |text: &str| Node::given("", Value::Text(text.to_owned()));
    let redis = Value::Map(vec![("addr".to_owned(), text("rediss://any"))]);
    let rest = vec![("name".to_owned(), text("any")), ("redis".to_owned(), Node::given("", redis))];
    cache(&defaults.clone().over(&Node::given("", Value::Map(rest))), problems);
}

fn window_holds_two_polls(cache: &CacheConfig, path: &str, problems: &Problems) {
    let least = cache.poll_interval * 2;
    if cache.window < least {
        let (poll, least) = (fields::shown(cache.poll_interval), fields::shown(least));
        let message = format!("holds less than two polls of {poll}; write {least} or more");
        problems.add(path, message);
    }
}

/// The cache's name, and the cache unless something that it cannot do without is missing.
fn cache(node: &Node, problems: &Problems) -> (Option<Arc<str>>, Option<CacheConfig>) {
    let mut fields = Fields::of(node, problems);
    let name = fields.require("name", "the name of the cache", fields::name);
    let interval = fields.read("poll_interval", |n, p| fields::duration(n, p, POLL_INTERVAL));
    let timeout = fields.read("poll_timeout", |n, p| fields::duration(n, p, POLL_TIMEOUT));
    let window = fields.read("window", |n, p| fields::duration(n, p, WINDOW));
    let min_lookups = fields.read("min_lookups", |n, p| fields::integer(n, p, 1..=1_000_000));
    let keep = fields.read("keep_incidents", |n, p| fields::integer(n, p, 1..=10_000));
    let redis = fields.require("redis", "addr and what else the server needs", redis);
    let ttl = fields.read("ttl", |n, p| Some(ttl(n, p)));
    let apps = fields.read("apps", |n, p| Some(apps(n, p)));
    let detector = fields.read("detector", |n, p| Some(detector(n, p)));
    fields.end();
    let name: Option<Arc<str>> = name.map(Into::into);
    let poll_interval = interval.unwrap_or(Duration::from_secs(1));
    let cache = name.clone().zip(redis).map(|(name, redis)| CacheConfig {
        name,
        poll_interval,
        poll_timeout: timeout.unwrap_or(Duration::from_secs(1)),
        window: window.unwrap_or(DEFAULT_WINDOW.max(poll_interval * 2)),
        min_lookups: min_lookups.unwrap_or(20),
        redis,
        ttl: ttl.unwrap_or_default(),
        apps: apps.unwrap_or_default(),
        detector: detector.unwrap_or_default(),
        keep_incidents: keep.unwrap_or(100),
    });
    (name, cache)
}

fn redis(node: &Node, problems: &Problems) -> Option<RedisConfig> {
    let mut fields = Fields::of(node, problems);
    let addr = fields.require("addr", REDIS_FORM, |node, problems| {
        let text = fields::text(node, problems, REDIS_FORM)?;
        address::redis(&text, &node.path, problems)
    });
    fields.read("mode", mode);
    let username = fields.get("username");
    let (file, env) = (fields.get("password_file"), fields.get("password_env"));
    let tls_node = fields.get("tls");
    let tls = tls_node.map(|node| tls(node, problems));
    fields.end();
    let given = password(file, env, problems);
    let username = username.and_then(|n| Some((fields::text(n, problems, "a user name")?, n)));

    let url = addr?;
    if let (Some(_), Some((_, node))) = (&url.username, &username) {
        problems.add(&node.path, "is in addr already; keep one of them");
    }
    if let (Some(_), Some(node)) = (&url.password, file.or(env)) {
        problems.add(&node.path, "addr holds a password already; keep one of them");
    }
    let tls = match (url.security, tls, tls_node) {
        (Security::Tls, tls, _) => Some(tls.unwrap_or_default()),
        (Security::Plain, Some(_), Some(node)) => {
            problems.add(&node.path, "addr asks for no TLS; write rediss:// or valkeys:// there");
            None
        }
        (Security::Plain, _, _) => None,
    };
    Some(RedisConfig {
        address: url.address,
        username: url.username.or(username.map(|(name, _)| name)),
        password: url.password.or(given),
        tls,
    })
}

/// Only one mode exists so far; the others are refused rather than watched as something else.
fn mode(node: &Node, problems: &Problems) -> Option<()> {
    let text = fields::text(node, problems, "standalone")?;
    let message = match text.as_str() {
        "standalone" => return Some(()),
        "sentinel" | "cluster" => {
            format!("{text} is not supported yet; write standalone and the address of one server")
        }
        other => format!("{} is not a mode; write standalone", quoted(other)),
    };
    problems.add(&node.path, message);
    None
}

fn password(file: Option<&Node>, env: Option<&Node>, problems: &Problems) -> Option<Secret> {
    if let (Some(_), Some(env)) = (file, env) {
        problems.add(&env.path, "password_file is given already; keep one of them");
    }
    let from_file = file.and_then(|node| fields::secret_file(node, problems)).map(Secret::File);
    let from_env = env.and_then(|node| {
        let name = fields::text(node, problems, "the name of an environment variable")?;
        if std::env::var_os(&name).is_none() {
            // Not repeated: some write the password itself here.
            problems.add(&node.path, "is not the name of an environment variable that is set");
            return None;
        }
        Some(Secret::Env(name))
    });
    from_file.or(from_env)
}

fn tls(node: &Node, problems: &Problems) -> Tls {
    let mut fields = Fields::of(node, problems);
    let ca_file = fields.read("ca_file", fields::file);
    let (cert, key) = (fields.get("cert_file"), fields.get("key_file"));
    let server_name = fields.read("server_name", |n, p| fields::text(n, p, "a host name"));
    fields.end();
    let cert_file = cert.and_then(|n| fields::file(n, problems));
    let key_file = key.and_then(|n| fields::file(n, problems));
    match (cert, key) {
        (Some(node), None) => problems.add(&node.path, "needs key_file beside it"),
        (None, Some(node)) => problems.add(&node.path, "needs cert_file beside it"),
        _ => {}
    }
    let client = cert_file
        .zip(key_file)
        .map(|(cert_file, key_file)| ClientCertificate { cert_file, key_file });
    Tls { server_name, ca_file, client }
}

fn ttl(node: &Node, problems: &Problems) -> TtlConfig {
    let mut fields = Fields::of(node, problems);
    let rate = fields.read("keys_per_second", |n, p| fields::integer(n, p, 0..=100_000));
    let groups = fields.read("groups", |n, p| Some(groups(n, p)));
    fields.end();
    let defaults = TtlConfig::default();
    TtlConfig {
        keys_per_second: rate.unwrap_or(defaults.keys_per_second),
        groups: groups.unwrap_or(defaults.groups),
    }
}

fn groups(node: &Node, problems: &Problems) -> Vec<TtlGroup> {
    let list =
        fields::items(node, problems, "a list such as - { name: product, match: \"product:*\" }");
    if list.len() > MOST_GROUPS {
        problems.add(&node.path, format!("{} groups; write at most {MOST_GROUPS}", list.len()));
    }
    let mut groups = Vec::new();
    let mut names = Vec::new();
    for item in list {
        let mut fields = Fields::of(item, problems);
        let name = fields.require("name", "the name of the group", group_name);
        let pattern = fields.require("match", "a glob such as \"product:*\"", glob);
        fields.end();
        if let Some(name) = name {
            let name: Arc<str> = name.into();
            names.push((Arc::clone(&name), item.path.clone()));
            groups.extend(pattern.map(|pattern| TtlGroup { name, pattern }));
        }
    }
    unique(&names, problems, "each group needs a name of its own");
    groups
}

fn group_name(node: &Node, problems: &Problems) -> Option<String> {
    let name = fields::name(node, problems)?;
    if matches!(name.as_str(), "all" | "other") {
        let message = format!("{name} is taken: it stands for the keys of every or of no group");
        problems.add(&node.path, message);
        return None;
    }
    Some(name)
}

fn glob(node: &Node, problems: &Problems) -> Option<String> {
    let glob = fields::text(node, problems, "a glob such as \"product:*\"")?;
    if let Err(problem) = glob_is_whole(&glob) {
        let shown = quoted(&glob);
        problems.add(&node.path, format!("{shown} {problem}"));
        return None;
    }
    Some(glob)
}

/// Redis accepts any pattern and matches an unfinished one by rules of its own; nobody means that.
fn glob_is_whole(glob: &str) -> Result<(), &'static str> {
    let mut chars = glob.chars();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next().is_none() => {
                return Err("ends in a backslash; write \\\\ for a backslash itself");
            }
            '[' if !in_class => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
    }
    if in_class { Err("has a [ without its ]; write \\[ for a bracket itself") } else { Ok(()) }
}

fn apps(node: &Node, problems: &Problems) -> Vec<AppConfig> {
    let list = fields::items(node, problems, "a list, each application after a dash");
    let mut apps = Vec::new();
    let mut names = Vec::new();
    for item in list {
        let (name, app) = app(item, problems);
        names.extend(name.map(|name| (name, item.path.clone())));
        apps.extend(app);
    }
    unique(&names, problems, "each application of a cache needs a name of its own");
    apps
}

fn app(node: &Node, problems: &Problems) -> (Option<Arc<str>>, Option<AppConfig>) {
    let mut fields = Fields::of(node, problems);
    let name = fields.require("name", "the name of the application", fields::name);
    let url = fields.require("url", "the address of its page", |node, problems| {
        let text = fields::text(node, problems, "the address of its page")?;
        address::page(&text, &node.path, problems)
    });
    fields.read("preset", preset);
    fields.end();
    let name: Option<Arc<str>> = name.map(Into::into);
    let app = name.clone().zip(url).map(|(name, url)| AppConfig {
        name,
        url,
        mapping: Mapping::default(),
    });
    (name, app)
}

fn preset(node: &Node, problems: &Problems) -> Option<()> {
    const PRESETS: &[&str] = &["native"];
    let text = fields::text(node, problems, "the name of a preset")?;
    if PRESETS.contains(&text.as_str()) {
        return Some(());
    }
    problems.add(&node.path, unknown("preset", &text, PRESETS));
    None
}

fn detector(node: &Node, problems: &Problems) -> Thresholds {
    Fields::of(node, problems).end();
    Thresholds::default()
}

/// A value out of a closed set.
fn choice<T: Copy>(
    node: &Node,
    problems: &Problems,
    all: &[T],
    as_str: impl Fn(T) -> &'static str,
) -> Option<T> {
    let legal: Vec<&str> = all.iter().map(|v| as_str(*v)).collect();
    let form = format!("write one of {}", legal.join(", "));
    let what = match &node.value {
        Value::Text(text) => match all.iter().find(|v| as_str(**v) == text) {
            Some(value) => return Some(*value),
            None => format!("{} is not known", quoted(text)),
        },
        _ => is(node),
    };
    problems.add(&node.path, format!("{what}; {form}"));
    None
}

fn unique(names: &[(Arc<str>, String)], problems: &Problems, cure: &str) {
    for (i, (name, path)) in names.iter().enumerate() {
        if let Some((_, first)) = names.iter().take(i).find(|(n, _)| n == name) {
            let path = below(path, "name");
            let name = quoted(name);
            problems.add(path, format!("{name} is the name of {first} too; {cure}"));
        }
    }
}
