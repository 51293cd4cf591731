//! The sections of the file.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::address::{self, PROMETHEUS_FORM};
use super::cache::{Kept, caches};
use super::fields::{self, Fields};
use super::node::Node;
use super::problem::{Problems, quoted};
use super::redis::password;
use super::{Config, Log, LogFormat, LogLevel, PrometheusConfig, StateConfig, Web};

/// More often wears out the disk; more rarely forgets too much in a crash.
const SAVE_INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);
/// A crash costs at most half a minute of what was learned over ten.
const DEFAULT_SAVE_INTERVAL: Duration = Duration::from_secs(30);

/// Reads the whole file.
pub(super) fn config(root: &Node, problems: &Problems) -> Config {
    let mut fields = Fields::of(root, problems);
    let web = fields.read("web", |node, problems| Some(web(node, problems)));
    let log = fields.read("log", |node, problems| Some(log(node, problems)));
    let record_dir = fields.read("record", record_dir);
    let state_node = fields.get("state");
    // A directory that is given and wrong is a problem of its own.
    let kept = if state_node.is_some() { Kept::OnDisk } else { Kept::Nowhere };
    let state = state_node.and_then(|node| state(node, problems));
    let incidents_file = fields.read("incidents", incidents_file);
    let warm_start = fields.read("warm_start", warm_start);
    let defaults = fields.get("defaults");
    let caches = fields
        .require("caches", "a list with a name and redis.addr for each cache", |node, problems| {
            Some(caches(node, defaults, kept, problems))
        })
        .unwrap_or_default();
    fields.end();
    Config {
        web: web.unwrap_or_default(),
        log: log.unwrap_or_default(),
        caches,
        record_dir,
        state,
        incidents_file,
        warm_start,
    }
}

/// What a listen address looks like, in the file and as a flag.
pub const LISTEN_FORM: &str =
    "IP:PORT such as 127.0.0.1:19121 or [::]:19121, port 0 for a free one";

/// Reads a listen address.
pub(super) fn listen_address(node: &Node, problems: &Problems) -> Option<SocketAddr> {
    let text = fields::text(node, problems, LISTEN_FORM)?;
    text.parse()
        .map_err(|_| {
            let shown = quoted(&text);
            problems.add(&node.path, format!("{shown} is not an address; write {LISTEN_FORM}"));
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
    let level = fields.read("level", |n, p| fields::choice(n, p, LogLevel::ALL, LogLevel::as_str));
    let format =
        fields.read("format", |n, p| fields::choice(n, p, LogFormat::ALL, LogFormat::as_str));
    fields.end();
    Log { level: level.unwrap_or_default(), format: format.unwrap_or_default() }
}

fn record_dir(node: &Node, problems: &Problems) -> Option<PathBuf> {
    let mut fields = Fields::of(node, problems);
    let dir = fields.read("dir", fields::directory);
    fields.end();
    dir
}

fn state(node: &Node, problems: &Problems) -> Option<StateConfig> {
    let mut fields = Fields::of(node, problems);
    let dir = fields.require("dir", "the path of a directory", fields::directory);
    let interval = fields.read("save_interval", |n, p| fields::duration(n, p, SAVE_INTERVAL));
    fields.end();
    Some(StateConfig { dir: dir?, save_interval: interval.unwrap_or(DEFAULT_SAVE_INTERVAL) })
}

fn incidents_file(node: &Node, problems: &Problems) -> Option<PathBuf> {
    let mut fields = Fields::of(node, problems);
    let file = fields.require("file", "the path of a file", fields::appendable);
    fields.end();
    file
}

fn warm_start(node: &Node, problems: &Problems) -> Option<PrometheusConfig> {
    let mut fields = Fields::of(node, problems);
    let url = fields.require("prometheus", PROMETHEUS_FORM, |node, problems| {
        let text = fields::text(node, problems, PROMETHEUS_FORM)?;
        address::web(&text, PROMETHEUS_FORM, &node.path, problems)
    });
    let username = fields.read("username", |n, p| fields::text(n, p, "a user name"));
    let (file, env) = (fields.get("password_file"), fields.get("password_env"));
    fields.end();
    if let (None, Some(node)) = (&username, file.or(env)) {
        problems.add(&node.path, "needs username beside it");
    }
    let password = password(file, env, problems);
    Some(PrometheusConfig { url: url?, username, password })
}
