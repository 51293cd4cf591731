//! The text of a configuration as a tree in which every value knows its path.
//!
//! Deserializing into structs stops at the first mistake. This tree takes any YAML, so that the
//! readers after it can report all of them, duplicate keys included.

use std::collections::HashSet;
use std::fmt;

use serde::de::{
    Deserialize, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::problem::{Problems, quoted};

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Such as `caches[0].redis.addr`; empty for the whole file.
    pub(super) path: String,
    /// What stands there.
    pub(super) value: Value,
}

/// What YAML can say.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Nothing after the key.
    Nothing,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys and values in the order of the file.
    Map(Vec<(String, Node)>),
    /// A value with a `!tag`, which no key takes.
    Tagged,
}

impl Node {
    /// Reads YAML. Broken syntax is one problem, noted at `source`, and gives `None`.
    pub(super) fn parse(text: &str, source: &str, problems: &Problems) -> Option<Node> {
        if nests_too_deeply(text) {
            problems
                .add(source, format!("not valid YAML: over {DEEPEST} brackets are open at once"));
            return None;
        }
        match serde_yaml::from_str::<Node>(text) {
            Ok(mut node) => {
                node.place(String::new(), problems);
                Some(node)
            }
            Err(error) => {
                problems.add(source, format!("not valid YAML: {error}"));
                None
            }
        }
    }

    /// A value that was not written in a file; `path` says where it comes from.
    pub(super) fn given(path: &str, value: Value) -> Node {
        Node { path: path.to_owned(), value }
    }

    /// This node with what `defaults` says about the keys it does not have, at any depth. Lists
    /// and single values are taken whole.
    pub(super) fn over(self, defaults: &Node) -> Node {
        match (self.value, &defaults.value) {
            (Value::Map(mut own), Value::Map(others)) => {
                for (key, other) in others {
                    match own.iter_mut().find(|(k, _)| k == key) {
                        Some((_, node)) => *node = node.clone().over(other),
                        None => own.push((key.clone(), other.clone())),
                    }
                }
                Node { path: self.path, value: Value::Map(own) }
            }
            (Value::Nothing, Value::Map(_)) => defaults.clone(),
            (value, _) => Node { path: self.path, value },
        }
    }

    /// What kind of value it is, as a message names it.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            Value::Nothing => "nothing",
            Value::Bool(_) => "true or false",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map of keys",
            Value::Tagged => "a tagged value",
        }
    }

    /// Writes paths into the whole tree and reports keys that stand there twice; the first counts.
    fn place(&mut self, path: String, problems: &Problems) {
        match &mut self.value {
            Value::List(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    item.place(format!("{path}[{i}]"), problems);
                }
            }
            Value::Map(entries) => {
                let mut seen = HashSet::new();
                entries.retain_mut(|(key, node)| {
                    node.place(below(&path, key), problems);
                    let first = seen.insert(key.clone());
                    if !first {
                        problems.add(&node.path, "given twice; keep one of them");
                    }
                    first
                });
            }
            _ => {}
        }
        self.path = path;
    }
}

/// Brackets that may be open at once; the configuration needs five.
const DEEPEST: usize = 100;

/// The YAML parser's time grows with the square of the brackets that are open, and it looks for
/// their end before it looks at their depth. Brackets in text and comments count here too.
fn nests_too_deeply(text: &str) -> bool {
    let mut open: usize = 0;
    text.bytes().any(|byte| {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        open > DEEPEST
    })
}

/// The path of a key below a path.
pub(super) fn below(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let key = if plain && key.len() <= 80 { key.to_owned() } else { quoted(key) };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

/// Takes whatever YAML says.
struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::given("", Value::Nothing))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::given("", Value::Nothing))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::given("", Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::given("", Value::Integer(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::given("", Value::Integer(value.into())))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
        Ok(Node::given("", Value::Integer(value)))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
        Ok(Node::given("", Value::Integer(i128::try_from(value).unwrap_or(i128::MAX))))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::given("", Value::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::given("", Value::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::given("", Value::List(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Node, Node>()? {
            let key = match key.value {
                Value::Text(text) => text,
                Value::Integer(number) => number.to_string(),
                Value::Float(number) => number.to_string(),
                Value::Bool(value) => value.to_string(),
                _ => key.kind().to_owned(),
            };
            entries.push((key, value));
        }
        Ok(Node::given("", Value::Map(entries)))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Node, A::Error> {
        let (_tag, content): (String, _) = tagged.variant()?;
        let _content: Node = content.newtype_variant()?;
        Ok(Node::given("", Value::Tagged))
    }
}
