//! Running and past incidents of all caches, newest first.

use super::html::Html;
use super::words::{self, latency, maybe, number};
use crate::board::View;
use crate::detect::{Incident, Suspect, SuspectSource, advice};
use crate::serve::api::newest_first;
use crate::serve::keys;
use crate::serve::time::{short, span};
use crate::snapshot::Snapshot;

/// So many are on the page; the API has them all.
const SHOWN: usize = 50;

pub(super) fn section(page: &mut Html, view: &View, now: f64) {
    page.raw("<section class=\"incidents\" id=\"incidents\" data-live=\"incidents\">\n<h2>Incidents</h2>\n");
    let all = newest_first(view.caches.iter().map(AsRef::as_ref));
    if all.is_empty() {
        page.raw("<p>None since the exporter started.</p>\n");
    }
    for (cache, incident) in all.iter().take(SHOWN) {
        entry(page, cache, incident, now);
    }
    if all.len() > SHOWN {
        page.raw("<p><a href=\"api/v1/incidents\">").text(all.len() - SHOWN);
        page.raw(" more</a></p>\n");
    }
    page.raw("</section>\n");
}

fn entry(page: &mut Html, cache: &Snapshot, incident: &Incident, now: f64) {
    let end = incident.ended_at.unwrap_or(now);
    page.raw("<details class=\"incident\" data-key=\"").text(incident.started_at);
    page.raw(" ").text(&cache.cache).raw("\"");
    page.raw(if incident.ended_at.is_none() { " open" } else { "" });
    page.raw("><summary><span>").text(short(incident.started_at)).raw("</span> <b>");
    page.name(&cache.cache).raw("</b> <span class=\"cause\">").text(incident.cause.as_str());
    page.raw("</span> ").text(span(end - incident.started_at));
    page.raw(if incident.ended_at.is_none() { " and running" } else { "" });
    page.raw(" <span class=\"cost\">").text(number(incident.excess_misses));
    page.raw(" excess misses</span></summary>\n<p>").text(words::of_cause(incident.cause));
    page.raw("</p>\n<dl class=\"figures\">");
    let figures = [
        ("Peak misses/s", number(incident.peak_misses_per_second)),
        ("Normal misses/s", number(incident.baseline_misses_per_second)),
        ("Peak database queries/s", maybe(incident.peak_loads_per_second, number)),
        ("Normal database queries/s", maybe(incident.baseline_loads_per_second, number)),
        ("Excess database queries", maybe(incident.excess_loads, number)),
        ("Load p50", maybe(incident.latency_p50, latency)),
        ("Load p99", maybe(incident.latency_p99, latency)),
        ("Score at the start", number(incident.score)),
    ];
    for (name, value) in figures.into_iter().filter(|(_, value)| value != words::UNKNOWN) {
        page.raw("<div><dt>").raw(name).raw("</dt><dd>").text(value).raw("</dd></div>");
    }
    page.raw("</dl>\n<p class=\"evidence\">Evidence: ");
    page.raw("misses seen by ").text(incident.source.as_str());
    for (name, value) in &incident.evidence {
        let (label, quantity) = words::evidence(name, *value);
        page.raw(" · ").text(label).raw(" <b>").text(quantity).raw("</b>");
    }
    page.raw(" · <a href=\"runbooks/").text(incident.cause.as_str());
    page.raw("\">runbook</a></p>\n");
    suspects(page, &incident.suspects);
    if incident.ended_at.is_some() {
        // What to do about the running one is at the top of its cache.
        page.raw("<p class=\"advice\">").text(advice(incident)).raw("</p>\n");
    }
    page.raw("</details>\n");
}

/// The keys to blame, worst first.
pub(super) fn suspects(page: &mut Html, suspects: &[Suspect]) {
    if suspects.is_empty() {
        return;
    }
    page.raw("<p class=\"suspects\">Suspects: ");
    for (place, suspect) in suspects.iter().enumerate() {
        page.raw(if place == 0 { "<code>" } else { ", <code>" });
        page.name(keys::text(&suspect.pattern)).raw("</code> ");
        page.text(words::percent(suspect.share)).raw(match suspect.source {
            SuspectSource::Missed => " of the misses",
            SuspectSource::App => " of the extra misses, as the applications count them",
            SuspectSource::Sampled => " of the sampled keys that went just then",
        });
        if let Some(example) = &suspect.example {
            page.raw(" (as <code>").name(keys::text(example)).raw("</code>)");
        }
    }
    page.raw("</p>\n");
}
