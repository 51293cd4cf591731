//! The reports of several runs side by side, for people.

use std::io::{Result, Write};

use super::report::Report;

const HEAD: [&str; 14] = [
    "protection",
    "requests",
    "hit ratio",
    "misses",
    "loads",
    "duplicate",
    "coalesced",
    "stale",
    "contended",
    "errors",
    "p50",
    "p99",
    "peak",
    "verdict",
];

/// Writes a table with aligned columns, and below it what has to be said beside it.
pub(super) fn text(reports: &[Report], out: &mut dyn Write) -> Result<()> {
    let width = reports.iter().map(|r| r.protection.len()).max().unwrap_or(0).max(HEAD[0].len());
    for line in std::iter::once(HEAD.map(str::to_owned)).chain(reports.iter().map(cells)) {
        let [protection, .., verdict] = &line;
        write!(out, "{protection:width$}")?;
        for (cell, head) in line.iter().zip(HEAD).take(HEAD.len() - 1).skip(1) {
            write!(out, " {cell:>0$}", head.len().max(7))?;
        }
        writeln!(out, "  {verdict}")?;
    }
    notes(reports, "", out)
}

/// Writes the same as Markdown, under the scenario's name.
pub(super) fn markdown(reports: &[Report], out: &mut dyn Write) -> Result<()> {
    let Some(report) = reports.first() else { return Ok(()) };
    writeln!(out, "## {}\n", report.scenario)?;
    writeln!(out, "| {} |", HEAD.join(" | "))?;
    writeln!(out, "|---|{}---|", "--:|".repeat(HEAD.len() - 2))?;
    for report in reports {
        writeln!(out, "| {} |", cells(report).join(" | "))?;
    }
    writeln!(out)?;
    notes(reports, "* ", out)
}

fn cells(report: &Report) -> [String; HEAD.len()] {
    let lookups = (report.hits + report.misses) as f64;
    let ratio = if lookups > 0.0 { report.hits as f64 / lookups } else { 0.0 };
    [
        report.protection.clone(),
        report.requests.to_string(),
        format!("{ratio:.4}"),
        report.misses.to_string(),
        report.loads.to_string(),
        report.duplicate_loads.to_string(),
        report.coalesced.to_string(),
        report.stale_served.to_string(),
        report.lock_contended.to_string(),
        report.errors.to_string(),
        time(report.latency_p50_seconds),
        time(report.latency_p99_seconds),
        report.peak_concurrent_loads.to_string(),
        verdict(report),
    ]
}

/// What a reader of the figures has to know, a line each.
fn notes(reports: &[Report], bullet: &str, out: &mut dyn Write) -> Result<()> {
    for report in reports {
        if let Some(said) = &report.backend_said {
            let (protection, errors) = (&report.protection, report.backend_errors);
            writeln!(out, "{bullet}{protection}: {errors} loads failed, the last with: {said}")?;
        }
        if !report.rate_held {
            writeln!(
                out,
                "{bullet}{}: this machine did not hold {:.0} requests a second: {:.0} were \
                 reached, and 1 in 100 began more than {} late",
                report.protection,
                report.rate_asked,
                report.rate_reached,
                time(report.lateness_p99_seconds),
            )?;
        }
    }
    Ok(())
}

/// What the exporter said, and how long after the strike.
fn verdict(report: &Report) -> String {
    let said = report.incidents.iter().map(|incident| match report.struck_at {
        Some(struck) => format!("{} at {:+.1} s", incident.cause, incident.start - struck),
        None => incident.cause.to_owned(),
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() { "calm".to_owned() } else { said.join(", ") }
}

/// A time for people: `240 µs`, `1.2 ms`, `3.10 s`.
fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds < 0.001 => format!("{:.0} µs", seconds * 1e6),
        Some(seconds) if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.2} s"),
    }
}
