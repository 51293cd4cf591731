//! The rules of the code base that a compiler does not hold, over the sources as they are.

use std::fs;
use std::path::Path;

/// Where each outside crate may be named: its one door. A path ending in `/` is a folder.
const DOORS: [(&str, &[&str]); 21] = [
    ("anyhow", &["src/main.rs", "src/cli.rs"]),
    ("axum", &["src/serve/"]),
    ("clap", &["src/cli"]),
    ("flate2", &["src/trace/"]),
    ("humantime", &["src/config/", "src/cli", "src/backtest/"]),
    ("libm", &["src/core/elementary.rs"]),
    ("memchr", &["src/trace/"]),
    ("prometheus", &["src/serve/metrics"]),
    ("quick_cache", &["src/drill/protections/near_cache.rs"]),
    ("redis", &["src/source/redis/", "src/drill/"]),
    ("regex_lite", &["src/core/reading/"]),
    ("reqwest", &["src/source/app.rs", "src/source/prometheus/"]),
    ("ring", &["src/culprits/"]),
    ("rustls", &["src/source/"]),
    ("serde_yaml", &["src/config/"]),
    ("statrs", &["src/core/detect/", "src/core/signal/ttl/"]),
    ("strsim", &["src/config/"]),
    ("tempfile", &["src/drill/"]),
    ("tokio_postgres", &["src/drill/backend/"]),
    ("tokio_rustls", &["src/source/redis/"]),
    ("tracing_subscriber", &["src/main.rs"]),
];

/// The package without IO, clock, async, logging and serde.
const CORE: &str = "src/core";

/// What the core may not name although its few dependencies would let it.
const NOT_IN_CORE: [&str; 7] = [
    "std::time::Instant",
    "std::time::SystemTime",
    "std::fs",
    "std::net",
    "std::thread",
    "std::env",
    "std::process",
];

/// All that the core may depend on.
const CORE_DEPENDENCIES: [&str; 4] = ["libm", "regex_lite", "statrs", "thiserror"];

/// Lines of a file without its tests: a file is one room, and beyond this it wants a wall.
const LONGEST_FILE: usize = 450;

struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is_in(&self, place: &str) -> bool {
        self.path.starts_with(place)
    }

    /// The lines that are code, numbered from 1: no comments, no unit tests.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        let product = lines.take_while(|(_, line)| *line != "#[cfg(test)]");
        product.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(folder).to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).expect("a source");
                found.push(Source { path: path.display().to_string(), text });
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has sources");
    found
}

/// Whether `line` names the path `name`, alone or with more after it: `redis` is in `redis::Value`
/// and `use redis;`, not in `config::redis::x`, `mod redis;` or `redis_up`.
fn names(line: &str, name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = line.split_at(at);
        let after = after.get(name.len()..).unwrap_or_default();
        let starts = !before.ends_with(|c: char| word(c) || c == ':' || c == '"');
        let a_path = after.starts_with("::") || (name.contains("::") && !after.starts_with(word));
        let a_use = before.trim_start().starts_with("use ") && !after.starts_with(word);
        starts && (a_path || a_use)
    })
}

fn report(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

#[test]
fn each_dependency_has_one_door() {
    let mut broken = Vec::new();
    for source in sources("src") {
        for (name, doors) in DOORS {
            // A module of our own may have a crate's name; then paths to it start with it.
            if doors.iter().any(|door| source.is_in(door)) || declares(&source, name) {
                continue;
            }
            let through = source.code().filter(|(_, line)| names(line, name));
            broken.extend(through.map(|(n, line)| format!("{}:{n}: {line}", source.path)));
        }
    }
    report("a crate is named outside its place in DOORS", &broken);
}

fn declares(source: &Source, name: &str) -> bool {
    source.code().any(|(_, line)| line.trim_end().ends_with(&format!("mod {name};")))
}

#[test]
fn the_core_is_pure() {
    let mut broken = Vec::new();
    for source in sources(CORE) {
        for name in NOT_IN_CORE {
            let named = source.code().filter(|(_, line)| names(line, name));
            broken.extend(named.map(|(n, line)| format!("{}:{n}: {line}", source.path)));
        }
    }
    let known = dependencies(&format!("{CORE}/Cargo.toml"), "[dependencies]");
    broken.extend(known.into_iter().filter(|name| !CORE_DEPENDENCIES.contains(&name.as_str())));
    report("the core names what it may not know", &broken);
}

#[test]
fn files_are_rooms() {
    let long: Vec<String> = sources("src")
        .iter()
        .map(|source| (source.text.lines().take_while(|l| *l != "#[cfg(test)]").count(), source))
        .filter(|(lines, _)| *lines > LONGEST_FILE)
        .map(|(lines, source)| format!("{}: {lines} lines", source.path))
        .collect();
    report("longer than a room", &long);
}

#[test]
fn nothing_is_left_for_later() {
    const LEFTOVERS: [&str; 6] =
        ["TODO", "FIXME", "XXX", "#[ignore", "allow(dead_code)", "unimplemented!"];
    let mut broken = Vec::new();
    for source in sources("src").iter().chain(&sources("tests")) {
        // This file names them, and fixtures serve modules that do not use all of them.
        if source.path.ends_with("tidy.rs") || source.is_in("tests/it/support/") {
            continue;
        }
        for (index, line) in source.text.lines().enumerate() {
            if LEFTOVERS.iter().any(|leftover| line.contains(leftover)) {
                broken.push(format!("{}:{}: {line}", source.path, index + 1));
            }
        }
    }
    report("left for later", &broken);
}

#[test]
fn every_dependency_is_used() {
    let mut unused = Vec::new();
    for (manifest, section, folders) in [
        ("Cargo.toml", "[dependencies]", &["src"][..]),
        ("Cargo.toml", "[dev-dependencies]", &["tests", "benches"]),
        ("src/core/Cargo.toml", "[dependencies]", &[CORE]),
    ] {
        let users: Vec<Source> = folders
            .iter()
            .filter(|folder| Path::new(folder).is_dir())
            .flat_map(|f| sources(f))
            .collect();
        for name in dependencies(manifest, section) {
            if !users.iter().any(|s| s.code().any(|(_, line)| names(line, &name))) {
                unused.push(name);
            }
        }
    }
    report("a dependency that nothing names", &unused);
}

/// The names in a section of a manifest, as code spells them.
fn dependencies(manifest: &str, section: &str) -> Vec<String> {
    let manifest = fs::read_to_string(manifest).expect("the manifest");
    let rest = manifest.split_once(&format!("\n{section}\n")).expect("the section").1;
    let lines = rest.lines().take_while(|line| !line.starts_with('['));
    let named = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    named.map(|(name, _)| name.trim().replace('-', "_")).collect()
}

/// Half a megabyte of every process that loads it. The functions are in `core/elementary.rs`: a call of
/// `f64::ln` or its like, here or in a dependency, would bring it back.
#[test]
fn the_systems_mathematics_stay_out() {
    let program = fs::read(env!("CARGO_BIN_EXE_stampede-exporter")).expect("the program");
    let names = |library: &str| memchr::memmem::find(&program, library.as_bytes()).is_some();
    assert!(names("libc.so.6"), "not how a library is named");
    assert!(!names("libm.so.6"));
}

#[test]
fn the_rules_see_what_they_look_for() {
    for line in ["use redis::Value;", "    redis::cmd(\"GET\")", "x: redis::Value", "use redis;"] {
        assert!(names(line, "redis"), "{line}");
    }
    for line in ["use crate::source::redis::Node;", "mod redis;", "redis_up::x", "\"redis://h\""] {
        assert!(!names(line, "redis"), "{line}");
    }
    assert!(names("use std::time::Instant;", "std::time::Instant"));
    assert!(!names("use std::time::InstantLike;", "std::time::Instant"));
}
