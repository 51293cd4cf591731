//! History replayed: incidents in the form that was promised, on traces and on a real Prometheus.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use stampede_exporter::backtest::{BacktestError, Format, History, Options, Range, run};
use stampede_exporter::config::PageUrl;
use stampede_exporter::detect::Thresholds;
use stampede_exporter::trace::{Column, TraceError};

use super::support::page::Page;
use super::support::prometheus::Prometheus;

/// A round time, from which the traces count.
const START: f64 = 1_700_000_000.0;

/// Lookups a second of every trace here.
const RATE: f64 = 1000.0;

/// The calm miss ratio.
const CALM: f64 = 0.02;

/// Cumulative hits and misses, second by second, for the miss ratio of each second. Between one
/// second and the next the misses are off by up to three standard deviations of a Poisson count.
fn counts(seconds: u32, ratio: impl Fn(u32) -> f64) -> Vec<(f64, f64)> {
    let (mut hits, mut misses) = (1e9, 1e6);
    let mut counts = Vec::new();
    for second in 0..seconds {
        let mean = RATE * ratio(second);
        let off = f64::from(second.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 23) - 1.0;
        let missed = (mean + 3.0 * off * mean.sqrt() / 3.0_f64.sqrt()).round().clamp(0.0, RATE);
        misses += missed;
        hits += RATE - missed;
        counts.push((hits, misses));
    }
    counts
}

fn trace(counts: &[(f64, f64)]) -> String {
    let mut text = "time,hits,misses\n".to_owned();
    for (second, (hits, misses)) in counts.iter().enumerate() {
        writeln!(text, "{},{hits},{misses}", START + second as f64).unwrap();
    }
    text
}

/// Ten calm minutes, three seconds in which 40 % miss, five calm minutes.
fn burst(second: u32) -> f64 {
    if (600..603).contains(&second) { 0.4 } else { CALM }
}

struct Outcome {
    result: Result<(), BacktestError>,
    out: String,
    notes: String,
}

impl Outcome {
    /// The lines of JSON, the summary last.
    fn json(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }
}

fn replay(history: History, format: Format) -> Outcome {
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let options = Options { history, detector: Thresholds::default(), format };
    let result = run(&options, &mut out, &mut notes);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Outcome { result, out: text(out), notes: text(notes) }
}

fn replay_text(text: &str, format: Format) -> Outcome {
    let dir = tempfile::tempdir().expect("a temporary directory");
    replay(History::File(write(dir.path(), text.as_bytes())), format)
}

fn write(dir: &Path, bytes: &[u8]) -> PathBuf {
    let path = dir.join("trace");
    std::fs::write(&path, bytes).expect("the trace is written");
    path
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_burst_is_one_incident_of_the_promised_form() {
    let outcome = replay_text(&trace(&counts(900, burst)), Format::Json);
    outcome.result.as_ref().expect("a whole replay");
    let [incident, summary] = &outcome.json()[..] else { panic!("{}", outcome.out) };
    let keys: Vec<&String> = incident.as_object().expect("an object").keys().collect();
    let promised = [
        "baseline_misses_per_second",
        "cause",
        "end",
        "excess_misses",
        "peak_misses_per_second",
        "start",
    ];
    assert_eq!(keys, promised);
    let after = number(&incident["start"]) - START;
    assert!((600.0..=602.0).contains(&after), "declared within two rows: {after}");
    assert!(number(&incident["end"]) > number(&incident["start"]));
    // 3 s of 1000 lookups, of which 40 % instead of 2 % miss: 1140, give or take their noise.
    assert!((900.0..1300.0).contains(&number(&incident["excess_misses"])), "{incident}");
    assert!((350.0..450.0).contains(&number(&incident["peak_misses_per_second"])), "{incident}");
    assert!((15.0..25.0).contains(&number(&incident["baseline_misses_per_second"])), "{incident}");
    let right = serde_json::json!({"summary": {"rows": 900, "seconds": 899.0, "incidents": 1}});
    assert_eq!(*summary, right);
}

#[test]
fn calm_is_no_incident() {
    let outcome = replay_text(&trace(&counts(3600, |_| CALM)), Format::Json);
    assert_eq!(outcome.json()[0]["summary"]["incidents"], 0);
    assert_eq!(outcome.json().len(), 1);
}

#[test]
fn bursts_within_two_minutes_are_one_incident_and_later_ones_are_not() {
    let pulses = |second: u32| match second {
        600..603 | 660..663 | 1200..1203 => 0.4,
        _ => CALM,
    };
    let json = replay_text(&trace(&counts(1600, pulses)), Format::Json).json();
    assert_eq!(json.len(), 3);
    assert_eq!(json[2]["summary"]["incidents"], 2);
    assert!(number(&json[0]["end"]) >= START + 662.0, "{}", json[0]);
    assert!(number(&json[1]["start"]) >= START + 1200.0, "{}", json[1]);
}

#[test]
fn an_incident_that_outlasts_the_trace_has_no_end() {
    let json = replay_text(&trace(&counts(603, burst)), Format::Json).json();
    assert_eq!((json.len(), &json[0]["end"]), (2, &Value::Null));
}

#[test]
fn gzip_is_told_by_its_first_bytes() {
    let text = trace(&counts(900, burst));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).expect("gzip into memory");
    let bytes = gzip.finish().expect("gzip into memory");
    let zipped = replay(History::File(write(dir.path(), &bytes)), Format::Json);
    assert_eq!(zipped.out, replay_text(&text, Format::Json).out);
    let cut = replay(History::File(write(dir.path(), &bytes[..bytes.len() / 2])), Format::Json);
    assert!(
        matches!(cut.result, Err(BacktestError::Trace { error: TraceError::Io { .. }, .. })),
        "damaged"
    );
}

#[test]
fn bad_rows_are_named_and_the_replay_goes_on() {
    let mut lines: Vec<String> = trace(&counts(900, burst)).lines().map(str::to_owned).collect();
    lines[100] = "rubbish".to_owned();
    for line in &mut lines[200..230] {
        line.push_str(",1");
    }
    let outcome = replay_text(&lines.join("\n"), Format::Json);
    outcome.result.as_ref().expect("a whole replay");
    let json = outcome.json();
    assert_eq!((json.len(), &json[1]["summary"]["rows"]), (2, &Value::from(869)));
    assert!(outcome.notes.contains("line 101: "), "{}", outcome.notes);
    assert!(outcome.notes.contains("line 201: 4 cells, not the header's 3"), "{}", outcome.notes);
    assert!(outcome.notes.contains("31 bad rows in all"), "{}", outcome.notes);
    assert!(!outcome.notes.contains("line 230: "), "the first twenty are enough");
}

#[test]
fn a_trace_of_bad_rows_is_no_calm_one() {
    let text = "time,hits,misses\n2023-11-14T22:13:20Z,1,1\n2023-11-14T22:13:21Z,2,2\n";
    let outcome = replay_text(text, Format::Json);
    let error = outcome.result.as_ref().expect_err("nothing was read").to_string();
    assert!(error.ends_with("none of the 2 rows can be read"), "{error}");
    assert!(outcome.notes.contains("line 2: `time` is not Unix seconds"), "{}", outcome.notes);
}

#[test]
fn time_that_does_not_move_on_is_an_error_with_its_line() {
    let mut lines: Vec<String> = trace(&counts(900, burst)).lines().map(str::to_owned).collect();
    lines.swap(880, 881);
    let outcome = replay_text(&lines.join("\n"), Format::Json);
    let error = outcome.result.as_ref().expect_err("unsorted").to_string();
    assert!(error.contains("line 882: time 1700000879 does not come after 1700000880"), "{error}");
    assert_eq!(outcome.json().len(), 1, "what was over before stands");
}

#[test]
fn tables_for_a_person() {
    let outcome = replay_text(&trace(&counts(900, burst)), Format::Text);
    let line = |start: &str| {
        let found = outcome.out.lines().find(|line| line.trim_start().starts_with(start));
        found.unwrap_or_else(|| panic!("no `{start}` in\n{}", outcome.out)).to_owned()
    };
    assert!(line("start (UTC)").contains("cause"));
    // START + 600 is 22:23:20.
    assert!(line("2023-11-14T22:23:2").contains("misses alone"));
    assert!(line("900 rows").contains("14m 59s from 2023-11-14T22:13:20Z"));
    assert!(line("1 incident, ").contains("% of the time"));
    assert!(line("1 of 1 rest on the misses alone").contains("lock"));
    assert!(line("(as it is)").contains('1'));
    for key in ["rise", "least_excess", "merge_within"] {
        line(key);
    }
}

/// An hour of calm, a burst that the rule is too slow for, a minute that both see, and traffic
/// that triples, which is nothing.
#[test]
fn the_usual_rule_is_told_beside_ours() {
    let mut counts = counts(7200, |second| match second {
        3600..3603 => 0.3,
        4500..4560 => 0.3,
        _ => CALM,
    });
    let (mut hits, mut misses) = *counts.last().expect("a count");
    for second in 0..1200_u32 {
        let missed = 60.0 + f64::from(second % 7);
        (hits, misses) = (hits + 3000.0 - missed, misses + missed);
        counts.push((hits, misses));
    }
    let outcome = replay_text(&trace(&counts), Format::Text);
    let lines: Vec<&str> = outcome.out.lines().collect();
    let incidents: Vec<&&str> = lines.iter().filter(|line| line.starts_with("2023-")).collect();
    let [burst, both] = incidents[..] else { panic!("{}", outcome.out) };
    assert!(burst.ends_with("silent"), "{burst}");
    // Twice the hourly 20 a second is reached within 4 s of 300 a second; then it waits for 30 s.
    let later = both.split_whitespace().rev().nth(1).expect("how much later");
    let later: f64 = later.strip_suffix('s').expect("seconds").parse().expect("a number");
    assert!(both.ends_with(" later") && (30.0..50.0).contains(&later), "{both}");
    let told = lines.iter().position(|line| line.contains("usual rule would")).expect("the view");
    assert!(
        lines[told + 2].contains(
            "fired 2 times: 1 with an incident above, 1 without. Of 2 above it was silent on 1."
        ),
        "{}",
        outcome.out
    );
    // From START + 7200 s on: 00:13:20 of the next day, and the better part of a minute later.
    assert!(lines[told + 4].trim_start().starts_with("2023-11-15T00:14:"), "{}", outcome.out);
    assert!(!replay_text(&trace(&counts), Format::Json).out.contains("usual"));

    // A real Prometheus says the same of the same counter, scraped every five seconds.
    let ours = [seconds_of_day(both) + later, seconds_of_day(lines[told + 4].trim_start())];
    let theirs = fired_in_prometheus(&counts);
    assert_eq!(theirs.len(), ours.len(), "{theirs:?}");
    for (theirs, ours) in theirs.iter().zip(ours) {
        // Of the day that begins an hour and 46 minutes after the start, or of the one before.
        assert!(((theirs - ours) % 86_400.0).abs() <= 5.0, "{theirs} {ours}");
    }
}

/// The time in a line that begins with a date.
fn seconds_of_day(line: &str) -> f64 {
    let time = line.get(11..19).expect("a time").split(':').map(|part| part.parse::<f64>());
    time.fold(0.0, |sum, part| sum * 60.0 + part.expect("a number"))
}

/// When the usual rule begins to fire, Unix seconds: its condition as Prometheus computes it every
/// five seconds, once it has held for thirty.
fn fired_in_prometheus(counts: &[(f64, f64)]) -> Vec<f64> {
    let mut text = "# TYPE m counter\n".to_owned();
    for (second, (_, misses)) in counts.iter().enumerate().step_by(5) {
        writeln!(text, "m_total {misses} {}", START + second as f64).unwrap();
    }
    let prometheus = Prometheus::with_history(&(text + "# EOF\n"));
    let rule = "rate(m_total[1m]) > 2 * avg_over_time(rate(m_total[1m])[1h:1m])";
    let series = prometheus.query_range(rule, START, START + counts.len() as f64 - 1.0);
    let points = series.first().expect("it holds at some time")["values"].as_array().unwrap();
    let times = points.iter().map(|point| number(&point[0])).filter(|time| time % 5.0 == 0.0);
    let (mut since, mut before, mut fired) = (0.0, 0.0, Vec::new());
    for time in times {
        if time - before > 5.0 {
            since = time;
        }
        if time - since == 30.0 {
            fired.push(time);
        }
        before = time;
    }
    fired
}

#[test]
fn an_empty_history_is_no_error() {
    let outcome = replay_text("time,hits,misses\n", Format::Json);
    assert_eq!(outcome.out, "{\"summary\":{\"rows\":0,\"seconds\":0.0,\"incidents\":0}}\n");
    assert!(replay_text("time,hits,misses\n", Format::Text).out.contains("no rows"));
    let missing = replay(History::File("/nowhere/trace.csv".into()), Format::Json).result;
    assert!(missing.expect_err("no file").to_string().contains("No such file"));
}

fn range(port: u16, seconds: f64, step: f64) -> Range {
    Range {
        url: PageUrl(format!("http://127.0.0.1:{port}/")),
        start: START,
        end: START + seconds,
        step,
        selector: String::new(),
        queries: Vec::new(),
    }
}

/// The counters as redis_exporter names them, scraped every 5 s from two servers: one has the
/// burst, the other is calm, and is not scraped for a minute.
fn history(seconds: u32) -> String {
    let (hot, calm) = (counts(seconds, burst), counts(seconds, |_| CALM));
    let mut text = String::new();
    for (name, of) in [("hits", 0), ("misses", 1)] {
        writeln!(text, "# TYPE redis_keyspace_{name} counter").unwrap();
        for (instance, counts) in [("a:6379", &hot), ("b:6379", &calm)] {
            for second in (0..seconds as usize).step_by(5) {
                if instance == "b:6379" && (200..260).contains(&second) {
                    continue;
                }
                let value = [counts[second].0, counts[second].1][of];
                let time = START + second as f64;
                let labels = format!("instance=\"{instance}\"");
                writeln!(text, "redis_keyspace_{name}_total{{{labels}}} {value} {time}").unwrap();
            }
        }
    }
    text + "# EOF\n"
}

#[test]
fn the_history_of_a_real_prometheus_is_replayed() {
    let prometheus = Prometheus::with_history(&history(1200));
    // A step shorter than the scrape interval repeats values, which must not count as calm.
    let outcome = replay(History::Prometheus(range(prometheus.port, 1195.0, 1.0)), Format::Json);
    outcome.result.as_ref().expect("a whole replay");
    let json = outcome.json();
    let [incident, summary] = &json[..] else { panic!("{}", outcome.out) };
    let after = number(&incident["start"]) - START;
    assert!((600.0..=605.0).contains(&after), "the scrape that saw it: {after}");
    // 3 s of 1000 lookups at 40 % instead of 2 %, as the scrapes of 5 s show them.
    assert!((800.0..1400.0).contains(&number(&incident["excess_misses"])), "{incident}");
    assert_eq!(summary["summary"]["rows"], 240, "one a scrape");
    assert!(outcome.notes.contains("hits: redis_keyspace_hits_total{}"), "{}", outcome.notes);

    let mut calm = range(prometheus.port, 1195.0, 5.0);
    calm.selector = "instance=\"b:6379\"".to_owned();
    let outcome = replay(History::Prometheus(calm), Format::Json);
    assert_eq!(outcome.json()[0]["summary"]["incidents"], 0, "{}", outcome.out);
}

#[test]
fn queries_of_a_prometheus_can_be_replaced_and_its_refusals_are_told() {
    let prometheus = Prometheus::with_history(&history(300));
    let asked = |queries: &[(Column, &str)], seconds| {
        let mut range = range(prometheus.port, seconds, 5.0);
        range.queries = queries.iter().map(|(c, q)| (*c, (*q).to_owned())).collect();
        replay(History::Prometheus(range), Format::Json)
    };
    let sums = [
        (Column::Hits, "sum(redis_keyspace_hits_total)"),
        (Column::Misses, "sum(redis_keyspace_misses_total)"),
        (Column::Keys, ""),
    ];
    let outcome = asked(&sums, 295.0);
    assert_eq!(outcome.json()[0]["summary"]["rows"], 60);
    assert!(!outcome.notes.contains("keys: "), "{}", outcome.notes);
    let error = |outcome: Outcome| outcome.result.expect_err("an error").to_string();
    let refused = error(asked(&[(Column::Loads, "sum(")], 295.0));
    assert!(refused.starts_with("the Prometheus server refused `sum(`: "), "{refused}");
    let nothing = error(asked(&[(Column::Hits, "no_such_series")], 295.0));
    assert!(nothing.starts_with("`no_such_series` gave nothing"), "{nothing}");
}

#[test]
fn what_is_no_prometheus_is_told_without_secrets() {
    let page = Page::start("<html></html>");
    let mut range = range(page.port, 10.0, 1.0);
    let error = |range: &Range| {
        let outcome = replay(History::Prometheus(range.clone()), Format::Json);
        outcome.result.expect_err("an error").to_string()
    };
    assert_eq!(error(&range), "no answer of a Prometheus server (HTTP status 200)");
    range.url = PageUrl("http://user:CANARY-1@127.0.0.1:1/?token=CANARY-1".to_owned());
    let refused = error(&range);
    assert!(refused.contains("Connection refused") && !refused.contains("CANARY"), "{refused}");
}
