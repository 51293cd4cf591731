//! The counters of known libraries: one file a library in `presets/`, lines of
//! `counter = expression`, `load_latency = histogram` and `cache_label = label`.

use crate::reading::expression::{Expression, ExpressionError, HistogramExpression};
use crate::reading::mapping::{Counter, Mapping};

/// Every preset, by name.
const PRESETS: [(&str, &str); 22] = [
    ("native", include_str!("presets/native.txt")),
    ("bentocache", include_str!("presets/bentocache.txt")),
    ("caffeine", include_str!("presets/caffeine.txt")),
    ("cashews", include_str!("presets/cashews.txt")),
    ("django", include_str!("presets/django.txt")),
    ("dskit", include_str!("presets/dskit.txt")),
    ("foyer", include_str!("presets/foyer.txt")),
    ("foyer-hybrid", include_str!("presets/foyer-hybrid.txt")),
    ("fusioncache", include_str!("presets/fusioncache.txt")),
    ("gitlab", include_str!("presets/gitlab.txt")),
    ("gocache", include_str!("presets/gocache.txt")),
    ("groupcache", include_str!("presets/groupcache.txt")),
    ("guava", include_str!("presets/guava.txt")),
    ("memcached", include_str!("presets/memcached.txt")),
    ("micrometer", include_str!("presets/micrometer.txt")),
    ("ncps-lock", include_str!("presets/ncps-lock.txt")),
    ("nginx-vts", include_str!("presets/nginx-vts.txt")),
    ("opencti-lock", include_str!("presets/opencti-lock.txt")),
    ("opik-lock", include_str!("presets/opik-lock.txt")),
    ("souin", include_str!("presets/souin.txt")),
    ("spring-redis", include_str!("presets/spring-redis.txt")),
    ("varnish", include_str!("presets/varnish.txt")),
];

/// The names that `preset:` takes in the configuration.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The mapping of a known library.
pub fn preset(name: &str) -> Option<Mapping> {
    let (_, text) = PRESETS.iter().find(|(known, _)| *known == name)?;
    read(text).ok()
}

/// What is wrong in a preset file: its line and why. A test holds that no file has any.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum PresetError {
    #[error("line {0}: legal: `counter = expression`")]
    Form(usize),
    #[error("line {0}: {1}")]
    Expression(usize, ExpressionError),
}

fn read(text: &str) -> Result<Mapping, PresetError> {
    let mut mapping = Mapping::default();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').ok_or(PresetError::Form(number))?;
        let wrong = |e| PresetError::Expression(number, e);
        match (key.trim(), Counter::from_key(key.trim())) {
            (_, Some(counter)) => mapping.set(counter, Expression::parse(value).map_err(wrong)?),
            ("load_latency", None) => {
                mapping.set_load_latency(HistogramExpression::parse(value).map_err(wrong)?);
            }
            ("cache_label", None) => mapping.set_cache_label(value.trim()),
            _ => return Err(PresetError::Form(number)),
        }
    }
    Ok(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_read_and_counts_something() {
        for (name, text) in PRESETS {
            let mapping = read(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(!mapping.is_empty(), "{name}");
        }
    }
}
