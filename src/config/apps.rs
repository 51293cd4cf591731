//! `apps:`: the pages of the applications and which of their series count.

use std::sync::Arc;

use super::AppConfig;
use super::address::{self, PAGE_FORM};
use super::fields::{self, Fields, Name, is, unique, unknown};
use super::node::{Node, Value};
use super::problem::Problems;
use crate::reading::expression::{Expression, HistogramExpression};
use crate::reading::mapping::{Counter, Mapping, preset, preset_names};

/// What is taken when neither `preset:` nor `counters:` is given.
const DEFAULT_PRESET: &str = "native";

/// Reads the applications of the cache with this name.
pub(super) fn apps(node: &Node, cache: &str, problems: &Problems) -> Vec<AppConfig> {
    let list = fields::items(node, problems, "a list, each application after a dash");
    let mut apps = Vec::new();
    let mut names = Vec::new();
    for item in list {
        let (name, app) = app(item, cache, problems);
        names.extend(name);
        apps.extend(app);
    }
    unique(&names, problems, "each application of a cache needs a name of its own");
    apps
}

fn app(node: &Node, cache: &str, problems: &Problems) -> (Option<Name>, Option<AppConfig>) {
    let mut fields = Fields::of(node, problems);
    let name = fields.require("name", "the name of the application", fields::name);
    let url = fields.require("url", "the address of its page", |node, problems| {
        let text = fields::text(node, problems, "the address of its page")?;
        address::web(&text, PAGE_FORM, &node.path, problems)
    });
    let presets = fields.read("preset", |n, p| Some(presets(n, p)));
    let counters = fields.read("counters", |n, p| Some(counters(n, p)));
    let labels = fields.read("labels", |n, p| Some(labels(n, p)));
    let group_label = fields.read("group_label", label);
    let called = fields.read("cache", fields::name);
    fields.end();

    let mapping = match (counters, presets) {
        (Some(counters), presets) => counters.or(presets.unwrap_or_default()),
        (None, Some(presets)) => presets,
        (None, None) => preset(DEFAULT_PRESET).unwrap_or_default(),
    };
    let mapping = labels
        .unwrap_or_default()
        .into_iter()
        .fold(mapping, |mapping, (label, value)| mapping.only(&label, &value))
        .for_cache(called.as_ref().map_or(cache, |name| &name.text));
    let mapping = match group_label {
        Some(label) => mapping.grouped_by(&label),
        None => mapping,
    };
    let app = name.as_ref().zip(url).map(|(name, url)| AppConfig {
        name: Arc::clone(&name.text),
        url,
        mapping,
    });
    (name, app)
}

/// One name, or several of which the first that has a counter gives it.
fn presets(node: &Node, problems: &Problems) -> Mapping {
    let single = std::slice::from_ref(node);
    let list = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => single,
    };
    let mut mapping = Mapping::default();
    for item in list {
        let known: Vec<&str> = preset_names().collect();
        let Some(name) = fields::text(item, problems, "the name of a preset") else { continue };
        match preset(&name) {
            Some(preset) => mapping = mapping.or(preset),
            None => problems.add(&item.path, unknown("preset", &name, &known)),
        }
    }
    mapping
}

fn counters(node: &Node, problems: &Problems) -> Mapping {
    let mut fields = Fields::of(node, problems);
    let mut mapping = Mapping::default();
    for counter in Counter::ALL {
        let expression = fields
            .read(counter.as_str(), |node, problems| recipe(node, problems, Expression::parse));
        if let Some(expression) = expression {
            mapping.set(counter, expression);
        }
    }
    let histogram =
        |node: &Node, problems: &Problems| recipe(node, problems, HistogramExpression::parse);
    if let Some(histogram) = fields.read("load_latency", histogram) {
        mapping.set_load_latency(histogram);
    }
    if let Some(label) = fields.read("cache_label", label) {
        mapping.set_cache_label(&label);
    }
    let named = fields.entries();
    fields.end();
    if named == 0 {
        let known: Vec<&str> = Counter::ALL.iter().map(|counter| counter.as_str()).collect();
        problems.add(&node.path, format!("names no counter; known: {}", known.join(", ")));
    }
    mapping
}

fn recipe<T, E: std::fmt::Display>(
    node: &Node,
    problems: &Problems,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Option<T> {
    let text = fields::text(node, problems, "the name of a series, such as cache_hits_total")?;
    parse(&text).map_err(|error| problems.add(&node.path, error.to_string())).ok()
}

fn label(node: &Node, problems: &Problems) -> Option<String> {
    let text = fields::text(node, problems, "the name of a label")?;
    if is_label(&text) {
        return Some(text);
    }
    problems.add(&node.path, NOT_A_LABEL);
    None
}

/// Labels that a series must have to count.
fn labels(node: &Node, problems: &Problems) -> Vec<(String, String)> {
    let entries = match &node.value {
        Value::Map(entries) => entries.as_slice(),
        Value::Nothing => &[],
        _ => {
            problems.add(&node.path, format!("{}; write label: value below it", is(node)));
            &[]
        }
    };
    let mut labels = Vec::new();
    for (name, value) in entries {
        if !is_label(name) {
            problems.add(&value.path, NOT_A_LABEL);
        }
        let value = fields::text(value, problems, "the value that the label must have");
        labels.extend(value.map(|value| (name.clone(), value)));
    }
    labels
}

const NOT_A_LABEL: &str = "not the name of a label; write letters, digits and _, no digit first";

fn is_label(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.chars().all(legal) && !text.starts_with(|c: char| c.is_ascii_digit()) && !text.is_empty()
}
