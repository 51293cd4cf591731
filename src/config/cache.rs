//! `caches:` and `defaults:`: one cache after the other.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::apps::apps;
use super::fields::{self, Fields, Name, unique};
use super::node::{Node, Value, below};
use super::problem::Problems;
use super::redis::server;
use super::ttl::ttl;
use super::{CacheConfig, CulpritsConfig, CulpritsSource, KeyNames, Secret};
use crate::detect::Thresholds;
use crate::detect::thresholds::Unit;

/// Polls more often than this cost the server more than they tell.
const POLL_INTERVAL: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(60);
/// A shorter time is less than a round trip to another site; a longer one hides an outage.
const POLL_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(60);
/// Longer windows hide a stampede of a few seconds.
const WINDOW: RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(600);
/// What a window is when nothing is said.
const DEFAULT_WINDOW: Duration = Duration::from_secs(10);

/// Bytes of a salt: fewer can be guessed, and with it the names.
const LEAST_SALT: usize = 16;

/// Whether anything is kept over restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    OnDisk,
    Nowhere,
}

/// Reads the list of caches, each over the defaults.
pub(super) fn caches(
    node: &Node,
    defaults: Option<&Node>,
    kept: Kept,
    problems: &Problems,
) -> Vec<CacheConfig> {
    let list = fields::items(node, problems, "a list, each cache after a dash");
    if list.is_empty() {
        problems.add(&node.path, "names no cache; write at least one with name and redis.addr");
    }
    let mut caches = Vec::new();
    let mut names = Vec::new();
    for item in list {
        let merged = defaults.map(|defaults| item.clone().over(defaults));
        let (name, cache) = cache(merged.as_ref().unwrap_or(item), problems);
        names.extend(name);
        if let Some(cache) = cache {
            window_holds_two_polls(&cache, &below(&item.path, "window"), problems);
            if cache.culprits.source == CulpritsSource::Notifications && kept == Kept::Nowhere {
                let path = below(&below(&item.path, "culprits"), "notifications");
                problems.add(
                    path,
                    "needs state.dir, where the server's setting is kept until it \
                     is put back; write state: { dir: DIRECTORY } at the top",
                );
            }
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
fn cache(node: &Node, problems: &Problems) -> (Option<Name>, Option<CacheConfig>) {
    let mut fields = Fields::of(node, problems);
    let name = fields.require("name", "the name of the cache", fields::name);
    let interval = fields.read("poll_interval", |n, p| fields::duration(n, p, POLL_INTERVAL));
    let timeout = fields.read("poll_timeout", |n, p| fields::duration(n, p, POLL_TIMEOUT));
    let window = fields.read("window", |n, p| fields::duration(n, p, WINDOW));
    let min_lookups = fields.read("min_lookups", |n, p| fields::integer(n, p, 1..=1_000_000));
    let keep = fields.read("keep_incidents", |n, p| fields::integer(n, p, 1..=10_000));
    let redis = fields.require("redis", "addr and what else the server needs", server);
    let ttl = fields.read("ttl", |n, p| Some(ttl(n, redis.as_ref(), p)));
    let called = name.as_ref().map_or("", |name| &name.text);
    let apps = fields.read("apps", |n, p| Some(apps(n, called, p)));
    let culprits = fields.read("culprits", |n, p| Some(culprits(n, p)));
    let detector = fields.read("detector", |n, p| Some(detector(n, p)));
    fields.end();
    let poll_interval = interval.unwrap_or(Duration::from_secs(1));
    let cache = name.as_ref().zip(redis).map(|(name, redis)| CacheConfig {
        name: Arc::clone(&name.text),
        poll_interval,
        poll_timeout: timeout.unwrap_or(Duration::from_secs(1)),
        window: window.unwrap_or(DEFAULT_WINDOW.max(poll_interval * 2)),
        min_lookups: min_lookups.unwrap_or(20),
        redis,
        ttl: ttl.unwrap_or_default(),
        apps: apps.unwrap_or_default(),
        culprits: culprits.unwrap_or_default(),
        detector: detector.unwrap_or_default(),
        keep_incidents: keep.unwrap_or(100),
    });
    (name, cache)
}

fn culprits(node: &Node, problems: &Problems) -> CulpritsConfig {
    let mut fields = Fields::of(node, problems);
    let notifications = fields.read("notifications", fields::switch).unwrap_or_default();
    let hash_keys = fields.read("hash_keys", fields::switch).unwrap_or_default();
    let salt_node = fields.get("hash_salt_file");
    fields.end();
    let salt = salt_node.and_then(|node| {
        if !hash_keys {
            problems.add(&node.path, "needs hash_keys: true beside it");
        }
        salt(node, problems)
    });
    CulpritsConfig {
        source: if notifications { CulpritsSource::Notifications } else { CulpritsSource::Nowhere },
        keys: if hash_keys { KeyNames::Hashed { salt } } else { KeyNames::Shown },
    }
}

/// The place of a salt that cannot be guessed.
fn salt(node: &Node, problems: &Problems) -> Option<Secret> {
    let salt = Secret::File(fields::secret_file(node, problems)?);
    if salt.read().is_ok_and(|bytes| bytes.len() < LEAST_SALT) {
        problems.add(&node.path, format!("holds fewer than {LEAST_SALT} bytes; make it random"));
        return None;
    }
    Some(salt)
}

/// Reads the thresholds that are given; the table of thresholds knows their units and ranges.
fn detector(node: &Node, problems: &Problems) -> Thresholds {
    let mut fields = Fields::of(node, problems);
    let mut thresholds = Thresholds::default();
    for key in Thresholds::KEYS {
        let value = fields.read(key.name, |node, problems| match key.unit {
            Unit::Seconds => {
                let limits = Duration::from_secs_f64(key.low)..=Duration::from_secs_f64(key.high);
                Some(fields::duration(node, problems, limits)?.as_secs_f64())
            }
            Unit::Ratio | Unit::Count | Unit::Nats => {
                fields::number(node, problems, key.low..=key.high)
            }
        });
        if let Some(value) = value {
            (key.set)(&mut thresholds, value);
        }
    }
    fields.end();
    for pair in thresholds.check() {
        problems.add(below(&node.path, pair.low), format!("must not exceed {}", pair.high));
    }
    thresholds
}
