//! One cache: the banner, the figures, the curves, and what stands behind them.

use super::expiry;
use super::html::Html;
use super::incidents::suspects;
use super::words::{self, latency, maybe, number, percent};
use crate::detect::{Incident, SignalKind, advice};
use crate::serve::state::State;
use crate::serve::time::{short, span};
use crate::snapshot::Snapshot;

pub(super) fn article(
    page: &mut Html,
    place: usize,
    cache: &Snapshot,
    state: State,
    open: bool,
    now: f64,
) {
    page.raw("<article class=\"cache\" id=\"c").text(place);
    page.raw("\" data-state=\"").text(state.as_str()).raw("\">\n<div data-live=\"c").text(place);
    page.raw("-banner\">\n");
    banner(page, cache, state, now);
    figures(page, cache);
    page.raw("</div>\n<details class=\"charts\" data-cache=\"").text(&cache.cache);
    page.raw(if open { "\" open>\n" } else { "\">\n" });
    page.raw(PANELS).raw("</details>\n<div class=\"behind\" data-live=\"c").text(place);
    page.raw("-behind\">\n");
    signals(page, cache);
    if let Some(ttl) = cache.current_ttl() {
        expiry::section(page, cache, ttl);
    }
    nodes(page, cache);
    apps(page, cache);
    page.raw("</div>\n</article>\n");
}

/// The four panels, which the script fills; all share one time axis.
const PANELS: &str = "<summary>The last minutes, up to 15</summary>\n<div class=\"panels\">\n\
    <figure data-panel=\"ratio\"><figcaption>Hit ratio <output></output></figcaption><div class=\"plot\"></div></figure>\n\
    <figure data-panel=\"loads\"><figcaption>Database queries a second <output></output></figcaption><div class=\"plot\"></div></figure>\n\
    <figure data-panel=\"ttl\"><figcaption>Keys by remaining TTL (strong colour: many) <output></output></figcaption><div class=\"plot\"></div></figure>\n\
    <figure data-panel=\"locks\"><figcaption>Lock attempts and contention <output></output></figcaption><div class=\"plot\"></div></figure>\n\
    </div>\n<noscript><p>The curves need JavaScript; everything else on this page does not.</p></noscript>\n";

fn banner(page: &mut Html, cache: &Snapshot, state: State, now: f64) {
    page.raw("<div class=\"banner\"><h2>").name(&cache.cache).raw("</h2><p class=\"state\">");
    page.text(words::of_state(state));
    if let Some(incident) = &cache.incidents.running {
        page.raw(" <span class=\"cause\">").text(incident.cause.as_str()).raw("</span>");
    }
    page.raw("</p></div>\n");
    match (&cache.incidents.running, state) {
        (Some(incident), _) => stampede(page, incident, now),
        (None, State::Down) => {
            let last = cache.nodes.iter().filter_map(|node| node.last_success).reduce(f64::max);
            page.raw("<p class=\"say\">No server answers. ");
            match last {
                Some(last) => page.raw("The last answer came ").text(span(now - last)).raw(" ago."),
                None => page.raw("None has answered since the exporter started."),
            };
            page.raw(" The log and the failures below say why.</p>\n");
        }
        (None, State::Partial) => {
            page.raw("<p class=\"say\">Some targets do not answer: ");
            let nodes = cache.nodes.iter().filter(|node| !node.up).map(|node| &node.node);
            let apps = cache.apps.iter().filter(|app| !app.up).map(|app| &app.app);
            for (place, name) in nodes.chain(apps).enumerate() {
                page.raw(if place == 0 { "" } else { ", " }).name(name);
            }
            page.raw(".</p>\n");
        }
        (None, State::Waiting) => {
            page.raw("<p class=\"say\">Not polled yet.</p>\n");
        }
        (None, State::Learning) => {
            page.raw(
                "<p class=\"say\">Still learning what is normal; a restart, a flush or a failing \
                 cache is seen all the same.</p>\n",
            );
        }
        (None, State::Calm | State::Stampede) => {}
    }
}

fn stampede(page: &mut Html, incident: &Incident, now: f64) {
    page.raw("<p class=\"say\"><strong>");
    page.text(words::of_cause(incident.cause)).raw("</strong>, for ");
    page.text(span(now - incident.started_at)).raw(" (since ");
    page.text(short(incident.started_at)).raw(" UTC). ");
    page.text(number(incident.excess_misses)).raw(" misses beyond normal so far; peak ");
    page.text(number(incident.peak_misses_per_second)).raw("/s against ");
    page.text(number(incident.baseline_misses_per_second)).raw("/s.");
    if let Some(loads) = incident.excess_loads {
        page.raw(" The database took ").text(number(loads)).raw(" extra queries");
        if let Some(peak) = incident.peak_loads_per_second {
            page.raw(", ").text(number(peak)).raw("/s at the worst");
        }
        page.raw(".");
    }
    page.raw("</p>\n");
    suspects(page, &incident.suspects);
    page.raw("<div class=\"advice\">\n<p>").text(advice(incident)).raw("</p>\n");
    page.raw("<p><a class=\"runbook-link\" href=\"runbooks/");
    page.text(incident.cause.as_str()).raw("\">The runbook</a></p>\n</div>\n");
}

fn figures(page: &mut Html, cache: &Snapshot) {
    let signals = cache.current_signals();
    let misses = signals.misses_per_second.nearest();
    let normal = cache.current(&cache.verdict.baseline_misses_per_second).nearest();
    page.raw("<dl class=\"figures\">");
    figure(page, "Hit ratio", maybe(signals.hit_ratio.nearest(), percent));
    figure(page, "Lookups/s", maybe(signals.lookups_per_second.nearest(), number));
    figure(page, "Misses/s", maybe(misses, number));
    figure(page, "Normal misses/s", maybe(normal, number));
    figure(page, "Database queries/s", maybe(signals.loads_per_second, number));
    figure(page, "Lock contention", maybe(signals.lock_contention_ratio, percent));
    figure(page, "Load p50", maybe(signals.load_latency_p50, latency));
    figure(page, "Load p99", maybe(signals.load_latency_p99, latency));
    figure(page, "Misses per expiry", maybe(signals.misses_per_expiry, number));
    page.raw("</dl>\n");
}

fn figure(page: &mut Html, name: &'static str, value: String) {
    page.raw("<div><dt>").raw(name).raw("</dt><dd>").text(value).raw("</dd></div>");
}

fn signals(page: &mut Html, cache: &Snapshot) {
    page.raw("<section><h3>Evidence</h3>\n<table><thead><tr><th>Signal</th>");
    page.raw("<th class=\"n\">Score</th><th>1 is the line</th></tr></thead><tbody>\n");
    let all = SignalKind::ALL.iter().map(|kind| kind.as_str()).zip(cache.verdict.signals);
    for (name, score) in [("all together", Some(cache.verdict.score))].into_iter().chain(all) {
        let name = name.replace('_', " ");
        page.raw("<tr><td>").text(&name).raw("</td><td class=\"n\">");
        page.text(maybe(score, words::score)).raw("</td><td>");
        if let Some(score) = score {
            // The scale ends at twice the line.
            page.raw("<meter min=\"0\" max=\"2\" low=\"0.5\" high=\"1\" optimum=\"0\" value=\"");
            page.text(score.clamp(0.0, 2.0)).raw("\" aria-label=\"").text(&name).raw("\"></meter>");
        }
        page.raw("</td></tr>\n");
    }
    page.raw("</tbody></table></section>\n");
}

fn nodes(page: &mut Html, cache: &Snapshot) {
    if cache.nodes.is_empty() {
        return;
    }
    page.raw("<section><h3>Servers</h3>\n<div class=\"wide\"><table><thead><tr><th>Server</th>");
    page.raw("<th>State</th><th>Software</th><th>Role</th><th class=\"n\">Keys</th>");
    page.raw("<th>Last answer</th></tr></thead><tbody>\n");
    for node in &cache.nodes {
        page.raw("<tr><td>").name(&node.node).raw("</td><td>");
        up_or_down(page, node.up);
        page.raw("</td><td>").text(node.server.as_deref().unwrap_or(words::UNKNOWN)).raw(" ");
        page.text(node.version.as_deref().unwrap_or_default()).raw("</td><td>");
        page.text(node.role.as_deref().unwrap_or(words::UNKNOWN)).raw("</td><td class=\"n\">");
        page.text(maybe(node.keys.filter(|_| node.up), number)).raw("</td><td>");
        page.text(maybe(node.last_success, short)).raw("</td></tr>\n");
    }
    page.raw("</tbody></table></div>\n");
    failures(page, &cache.poll_errors);
    page.raw("</section>\n");
}

fn apps(page: &mut Html, cache: &Snapshot) {
    if cache.apps.is_empty() {
        return;
    }
    page.raw("<section><h3>Applications</h3>\n");
    for app in &cache.apps {
        page.raw("<p>").name(&app.app).raw(" ");
        up_or_down(page, app.up);
        page.raw(" last answer ").text(maybe(app.last_success, short)).raw("</p>\n");
        failures(page, &app.errors_by_reason);
    }
    page.raw("</section>\n");
}

fn up_or_down(page: &mut Html, up: bool) {
    page.raw(if up { "<span class=\"up\">up</span>" } else { "<span class=\"down\">down</span>" });
}

/// Failures so far by reason, those that happened.
fn failures(page: &mut Html, by_reason: &[(&'static str, u64)]) {
    let happened: Vec<_> = by_reason.iter().filter(|(_, count)| *count > 0).collect();
    if happened.is_empty() {
        return;
    }
    page.raw("<p class=\"note\">Failures so far: ");
    for (place, (reason, count)) in happened.into_iter().enumerate() {
        page.raw(if place == 0 { "" } else { ", " }).text(reason).raw(" ").text(count);
    }
    page.raw("</p>\n");
}
