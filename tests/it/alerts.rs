//! The shipped rules: accepted by promtool, proved by its unit tests, each with text and runbook.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_yaml::Value;
use stampede_exporter::detect::Cause;
use stampede_exporter::shipped::{DASHBOARD, RULES, RUNBOOKS, runbook};
use stampede_exporter::source::redis::PollErrorKind;

use crate::support::run;

#[derive(Deserialize)]
struct RuleFile {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Rule {
    Alert { alert: String, expr: String, labels: Value, annotations: Value },
    Record { record: String, expr: String },
}

/// One case of a promtool unit test, as far as these tests look into it.
#[derive(Deserialize)]
struct UnitTests {
    tests: Vec<UnitTest>,
}

#[derive(Deserialize)]
struct UnitTest {
    #[serde(default)]
    alert_rule_test: Vec<AlertTest>,
}

#[derive(Deserialize)]
struct AlertTest {
    alertname: String,
    exp_alerts: Vec<Value>,
}

fn rules() -> Vec<Rule> {
    let file: RuleFile = serde_yaml::from_str(RULES).expect("the rule file parses");
    file.groups.into_iter().flat_map(|group| group.rules).collect()
}

fn alert_names() -> BTreeSet<String> {
    let name = |rule| match rule {
        Rule::Alert { alert, .. } => Some(alert),
        Rule::Record { .. } => None,
    };
    rules().into_iter().filter_map(name).collect()
}

fn files(dir: &str, extension: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
    let entries = root.read_dir().expect("the directory is there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .collect();
    files.sort();
    files
}

fn promtool(arguments: &[&str], files: &[PathBuf]) {
    let files: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    let all: Vec<&str> =
        arguments.iter().copied().chain(files.iter().map(String::as_str)).collect();
    let output = run("promtool", &all);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {arguments:?}:\n{text}\n{errors}");
}

#[test]
fn the_program_prints_what_it_ships() {
    for (verb, text) in [("rules", RULES), ("dashboard", DASHBOARD)] {
        let output = run(env!("CARGO_BIN_EXE_stampede-exporter"), &[verb]);
        assert!(output.status.success(), "{verb}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), text, "{verb}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{verb}");
    }
}

#[test]
fn promtool_accepts_the_rules() {
    promtool(&["check", "rules", "--lint=all", "--lint-fatal"], &files("alerts", "yml"));
}

#[test]
fn promtool_accepts_the_scrape_configuration() {
    promtool(&["check", "config", "--syntax-only"], &files("deploy", "yml"));
}

#[test]
fn the_unit_tests_of_the_rules_pass() {
    promtool(&["test", "rules"], &files("tests/alerts", "yml"));
}

#[test]
fn every_alert_is_shown_to_fire_with_its_text_and_to_stay_silent() {
    let (mut fires, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for file in files("tests/alerts", "yml") {
        let text = std::fs::read_to_string(&file).expect("the unit tests are read");
        assert!(!text.contains("<no value>"), "{}", file.display());
        let tests: UnitTests = serde_yaml::from_str(&text).expect("the unit tests parse");
        for case in tests.tests.into_iter().flat_map(|test| test.alert_rule_test) {
            for alert in &case.exp_alerts {
                let annotations = alert.get("exp_annotations").expect("the text is expected, too");
                for field in ["summary", "description", "runbook_url"] {
                    assert!(annotations.get(field).is_some(), "{}: no {field}", case.alertname);
                }
            }
            let seen = if case.exp_alerts.is_empty() { &mut silent } else { &mut fires };
            seen.insert(case.alertname);
        }
    }
    assert_eq!(fires, alert_names(), "shown to fire");
    assert_eq!(silent, alert_names(), "shown to stay silent");
}

#[test]
fn every_alert_says_what_where_and_what_to_do() {
    for rule in rules() {
        let Rule::Alert { alert, labels, annotations, .. } = rule else { continue };
        let severity = labels.get("severity").and_then(Value::as_str);
        assert!(matches!(severity, Some("critical" | "warning" | "info")), "{alert}: {severity:?}");
        for field in ["summary", "description"] {
            let text = annotations.get(field).and_then(Value::as_str).unwrap_or_default();
            assert!(text.contains("{{"), "{alert}: the {field} names nothing");
        }
        let link = annotations.get("runbook_url").and_then(Value::as_str);
        let path = format!("alerts/runbooks/{alert}.md");
        assert_eq!(link, Some(path.as_str()), "{alert}");
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(&path).is_file(), "{path}");
    }
}

#[test]
fn every_alert_and_every_cause_has_a_runbook_and_nothing_else_has() {
    let causes = Cause::ALL.iter().map(|cause| cause.as_str().to_owned());
    let wanted: BTreeSet<String> = alert_names().into_iter().chain(causes).collect();
    let stem = |path: &PathBuf| path.file_stem().map(|s| s.to_string_lossy().into_owned());
    let on_disk: BTreeSet<String> =
        files("alerts/runbooks", "md").iter().filter_map(stem).collect();
    let inside: BTreeSet<String> = RUNBOOKS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(on_disk, wanted);
    assert_eq!(inside, wanted);
    assert_eq!(runbook("no_such_page"), None);
}

#[test]
fn every_runbook_can_be_followed() {
    for (name, text) in RUNBOOKS {
        assert_eq!(runbook(name), Some(text));
        assert!(text.lines().next().is_some_and(|title| title.contains(name)), "{name}: title");
        for part in ["**Means:**", "## First look", "## Now", "## So that", "## False alarm?"] {
            assert!(text.contains(part), "{name}: no {part:?}");
        }
        let lines = text.lines().count();
        assert!(lines <= 40, "{name}: {lines} lines are too many at 3 a.m.");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let page = link.strip_suffix(".md").unwrap_or(link);
            assert!(runbook(page).is_some(), "{name} links to {link}");
        }
    }
}

#[test]
fn the_runbook_of_a_dead_server_knows_every_reason() {
    let text = runbook("CacheRedisDown").expect("the runbook");
    let table: String = text.lines().filter(|line| line.starts_with("| `")).collect();
    for kind in PollErrorKind::ALL {
        assert!(table.contains(&format!("`{}`", kind.as_str())), "{}", kind.as_str());
    }
}

/// A rule that adds up over exporters, or depends on what a role or a scrape is called, breaks as
/// soon as a second exporter or another role comes.
#[test]
fn no_rule_rests_on_labels_that_change() {
    for rule in rules() {
        let (name, expr) = match rule {
            Rule::Alert { alert, expr, .. } => (alert, expr),
            Rule::Record { record, expr } => (record, expr),
        };
        for label in ["instance", "job", "role", "mode", "version", "pod"] {
            let named = expr.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == label);
            assert!(!named, "{name} rests on {label}");
        }
        assert!(!expr.contains("sum by"), "{name} adds up over exporters");
        assert!(!expr.contains("sum("), "{name} adds up over exporters");
    }
}
