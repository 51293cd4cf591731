//! `ttl:`: the sampler and the key groups.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::fields::{self, Fields, Name, unique};
use super::node::Node;
use super::problem::{Problems, quoted};
use super::redis::further;
use super::{RedisConfig, TtlConfig, TtlGroup, TtlWatch};
use crate::signal::ttl::{ALL_GROUP, OTHER_GROUP};

/// Key groups of one cache: each is a set of series.
const MOST_GROUPS: usize = 50;

/// Watched keys of one cache: each is a lookup at every poll.
const MOST_WATCHED: usize = 20;

/// Shares of one core. With less even one key a second is too much; nobody who watches should take
/// more.
const SERVER_BUDGET: RangeInclusive<f64> = 0.0001..=0.1;

/// Reads the sampler's settings; `own` is the cache's server.
pub(super) fn ttl(node: &Node, own: Option<&RedisConfig>, problems: &Problems) -> TtlConfig {
    let mut fields = Fields::of(node, problems);
    let rate = fields.read("keys_per_second", |n, p| fields::integer(n, p, 0..=100_000));
    let budget = fields.read("server_budget", |n, p| fields::number(n, p, SERVER_BUDGET));
    let sample_from = fields.read("sample_from", |n, p| further(n, own, p));
    let groups = fields.read("groups", |n, p| Some(groups(n, p)));
    let watch = fields.read("watch", |n, p| Some(watch(n, p)));
    fields.end();
    let defaults = TtlConfig::default();
    TtlConfig {
        keys_per_second: rate.unwrap_or(defaults.keys_per_second),
        server_budget: budget.unwrap_or(defaults.server_budget),
        sample_from,
        groups: groups.unwrap_or(defaults.groups),
        watch: watch.unwrap_or(defaults.watch),
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
        if let (Some(name), Some(pattern)) = (&name, pattern) {
            groups.push(TtlGroup { name: Arc::clone(&name.text), pattern });
        }
        names.extend(name);
    }
    unique(&names, problems, "each group needs a name of its own");
    groups
}

fn watch(node: &Node, problems: &Problems) -> Vec<TtlWatch> {
    let list =
        fields::items(node, problems, "a list such as - { name: front, key: \"page:front\" }");
    if list.len() > MOST_WATCHED {
        let message = format!("{} watched keys; write at most {MOST_WATCHED}", list.len());
        problems.add(&node.path, message);
    }
    let mut watch = Vec::new();
    let mut names = Vec::new();
    for item in list {
        let mut fields = Fields::of(item, problems);
        let name = fields.require("name", "the name to show for the key", fields::name);
        let key = fields
            .require("key", "the key", |n, p| fields::text(n, p, "a key such as \"page:front\""));
        fields.end();
        if let (Some(name), Some(key)) = (&name, key) {
            watch.push(TtlWatch { name: Arc::clone(&name.text), key });
        }
        names.extend(name);
    }
    unique(&names, problems, "each watched key needs a name of its own");
    watch
}

fn group_name(node: &Node, problems: &Problems) -> Option<Name> {
    let name = fields::name(node, problems)?;
    if [ALL_GROUP, OTHER_GROUP].contains(&&*name.text) {
        let message =
            format!("{} is taken: it stands for the keys of every or of no group", name.text);
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
