//! Readers of single values and of maps with known keys. Each notes what is wrong and gives what
//! it can, so that one mistake hides no other.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::node::{Node, Value, below};
use super::problem::{Problems, quoted};

/// The keys of one map. [`Fields::end`] reports those that nobody asked for.
pub(super) struct Fields<'a> {
    path: &'a str,
    entries: &'a [(String, Node)],
    known: Vec<&'static str>,
    problems: &'a Problems,
}

impl<'a> Fields<'a> {
    /// The keys of a node; nothing counts as no keys.
    pub(super) fn of(node: &'a Node, problems: &'a Problems) -> Fields<'a> {
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            Value::Nothing => &[],
            _ => {
                let path = if node.path.is_empty() { "the file" } else { &node.path };
                problems.add(path, format!("{}; write keys and values below it", is(node)));
                &[]
            }
        };
        Fields { path: &node.path, entries, known: Vec::new(), problems }
    }

    /// The value of a key, if it is there.
    pub(super) fn get(&mut self, key: &'static str) -> Option<&'a Node> {
        self.known.push(key);
        self.entries.iter().find(|(k, _)| k == key).map(|(_, node)| node)
    }

    /// The value of a key as `reader` understands it.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        reader: impl FnOnce(&'a Node, &'a Problems) -> Option<T>,
    ) -> Option<T> {
        let node = self.get(key)?;
        reader(node, self.problems)
    }

    /// As [`Fields::read`]; a missing key is a problem, `form` says what to write.
    pub(super) fn require<T>(
        &mut self,
        key: &'static str,
        form: &str,
        reader: impl FnOnce(&'a Node, &'a Problems) -> Option<T>,
    ) -> Option<T> {
        match self.get(key) {
            Some(node) => reader(node, self.problems),
            None => {
                self.problems.add(below(self.path, key), format!("missing; write {form}"));
                None
            }
        }
    }

    /// How many keys there are.
    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Reports the keys that nobody asked for, with the nearest known one.
    pub(super) fn end(self) {
        for (key, node) in self.entries {
            if !self.known.contains(&key.as_str()) {
                self.problems.add(&node.path, unknown("key", key, &self.known));
            }
        }
    }
}

/// Says that a name is not known, and the nearest one or all that are.
pub(super) fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    /// Jaro-Winkler similarity from which a name is taken for a misspelling.
    const ALIKE: f64 = 0.8;
    let nearest = known
        .iter()
        .map(|k| (strsim::jaro_winkler(k, name), *k))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, key)) => format!("unknown {what}; did you mean {key}?"),
        None => format!("unknown {what}; known here: {}", known.join(", ")),
    }
}

/// Text that is not empty. `form` says what to write.
pub(super) fn text(node: &Node, problems: &Problems, form: &str) -> Option<String> {
    match &node.value {
        Value::Text(text) if !text.is_empty() => Some(text.clone()),
        Value::Text(_) => {
            problems.add(&node.path, format!("empty; write {form}"));
            None
        }
        Value::Integer(_) | Value::Float(_) | Value::Bool(_) => {
            problems.add(&node.path, format!("{}; write {form}, in quotes", is(node)));
            None
        }
        _ => {
            problems.add(&node.path, format!("{}; write {form}", is(node)));
            None
        }
    }
}

/// A name that becomes a label value.
pub(super) struct Name {
    pub(super) text: Arc<str>,
    path: String,
}

/// Reads a [`Name`].
pub(super) fn name(node: &Node, problems: &Problems) -> Option<Name> {
    /// Longer names make pages and panels unreadable.
    const LONGEST: usize = 100;
    let text = text(node, problems, "a name")?;
    if text.chars().any(char::is_control) || text.trim() != text {
        problems.add(&node.path, "a name has no control characters and no space at its ends");
        return None;
    }
    if text.chars().count() > LONGEST {
        problems.add(&node.path, format!("a name has at most {LONGEST} characters"));
        return None;
    }
    Some(Name { text: text.into(), path: node.path.clone() })
}

/// A duration with its unit, within limits.
pub(super) fn duration(
    node: &Node,
    problems: &Problems,
    limits: RangeInclusive<Duration>,
) -> Option<Duration> {
    let (from, to) = (shown(*limits.start()), shown(*limits.end()));
    let form = format!("write a duration such as 1s or 250ms, from {from} to {to}");
    let refuse = |what: String| {
        problems.add(&node.path, format!("{what}; {form}"));
        None
    };
    let text = match &node.value {
        Value::Text(text) => text.trim(),
        Value::Integer(number) => return refuse(format!("\"{number}\" has no unit")),
        Value::Float(number) => return refuse(format!("\"{number}\" has no unit")),
        _ => return refuse(is(node)),
    };
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return refuse(format!("{} has no unit", quoted(text)));
    }
    match humantime::parse_duration(text) {
        Ok(duration) if limits.contains(&duration) => Some(duration),
        Ok(_) => refuse(format!("{} is out of range", quoted(text))),
        Err(_) => refuse(format!("{} is not a duration", quoted(text))),
    }
}

/// A whole number within limits.
pub(super) fn integer<T>(node: &Node, problems: &Problems, limits: RangeInclusive<T>) -> Option<T>
where
    T: TryFrom<i128> + PartialOrd + Display,
{
    let form = format!("write a whole number from {} to {}", limits.start(), limits.end());
    let what = match &node.value {
        Value::Integer(number) => match T::try_from(*number) {
            Ok(value) if limits.contains(&value) => return Some(value),
            _ => format!("{number} is out of range"),
        },
        Value::Float(number) => format!("{number:?} is not a whole number"),
        Value::Text(text) => format!("{} is not a number", quoted(text)),
        _ => is(node),
    };
    problems.add(&node.path, format!("{what}; {form}"));
    None
}

/// A file that can be read now.
pub(super) fn file(node: &Node, problems: &Problems) -> Option<PathBuf> {
    readable(node, problems, |path| quoted(&path.display().to_string()) + " ")
}

/// As [`file()`], for a secret's file: what stands there is not repeated, since some write the
/// secret itself.
pub(super) fn secret_file(node: &Node, problems: &Problems) -> Option<PathBuf> {
    readable(node, problems, |_| String::new())
}

fn readable(node: &Node, problems: &Problems, shown: impl Fn(&Path) -> String) -> Option<PathBuf> {
    let path = PathBuf::from(text(node, problems, "the path of a file")?);
    // A directory can be opened but not read, so one byte is read.
    let read = std::fs::File::open(&path).and_then(|mut file| file.read(&mut [0]));
    match read {
        Ok(_) => Some(path),
        Err(error) => {
            problems.add(&node.path, format!("{}cannot be read: {error}", shown(&path)));
            None
        }
    }
}

/// A directory; one that is missing is made when something is to be written.
pub(super) fn directory(node: &Node, problems: &Problems) -> Option<PathBuf> {
    let path = PathBuf::from(text(node, problems, "the path of a directory")?);
    if std::fs::metadata(&path).is_ok_and(|found| !found.is_dir()) {
        let shown = quoted(&path.display().to_string());
        problems.add(&node.path, format!("{shown} is a file; write the path of a directory"));
        return None;
    }
    Some(path)
}

/// A file that is made when something is to be appended.
pub(super) fn appendable(node: &Node, problems: &Problems) -> Option<PathBuf> {
    let path = PathBuf::from(text(node, problems, "the path of a file")?);
    if std::fs::metadata(&path).is_ok_and(|found| found.is_dir()) {
        let shown = quoted(&path.display().to_string());
        problems.add(&node.path, format!("{shown} is a directory; write the path of a file"));
        return None;
    }
    Some(path)
}

/// The items of a list; nothing counts as an empty one.
pub(super) fn items<'a>(node: &'a Node, problems: &Problems, form: &str) -> &'a [Node] {
    match &node.value {
        Value::List(items) => items,
        Value::Nothing => &[],
        _ => {
            problems.add(&node.path, format!("{}; write {form}", is(node)));
            &[]
        }
    }
}

/// `true` or `false`.
pub(super) fn switch(node: &Node, problems: &Problems) -> Option<bool> {
    match &node.value {
        Value::Bool(on) => Some(*on),
        _ => {
            problems.add(&node.path, format!("{}; write true or false", is(node)));
            None
        }
    }
}

/// A number within limits, whole or not.
pub(super) fn number(node: &Node, problems: &Problems, limits: RangeInclusive<f64>) -> Option<f64> {
    let form = format!("write a number from {} to {}", limits.start(), limits.end());
    let what = match &node.value {
        Value::Integer(number) if limits.contains(&(*number as f64)) => {
            return Some(*number as f64);
        }
        Value::Float(number) if limits.contains(number) => return Some(*number),
        Value::Integer(number) => format!("{number} is out of range"),
        Value::Float(number) => format!("{number:?} is out of range"),
        Value::Text(text) => format!("{} is not a number", quoted(text)),
        _ => is(node),
    };
    problems.add(&node.path, format!("{what}; {form}"));
    None
}

/// A value out of a closed set.
pub(super) fn choice<T: Copy>(
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

/// Reports every name that stood before.
pub(super) fn unique(names: &[Name], problems: &Problems, cure: &str) {
    let mut first: HashMap<&str, &str> = HashMap::new();
    for name in names {
        if let Some(other) = first.get(&*name.text) {
            let text = quoted(&name.text);
            problems.add(&name.path, format!("{text} is given at {other} too; {cure}"));
        } else {
            first.insert(&name.text, &name.path);
        }
    }
}

/// "is a list", for a value of the wrong type.
pub(super) fn is(node: &Node) -> String {
    format!("is {}", node.kind())
}

/// A duration as people write it: whole seconds or milliseconds.
pub(crate) fn shown(duration: Duration) -> String {
    match duration.as_millis() {
        millis if millis % 1000 == 0 => format!("{}s", millis / 1000),
        millis => format!("{millis}ms"),
    }
}
