//! What expires next: the coming waves, the groups and the watch list.

use super::html::Html;
use super::words::{self, maybe, number, percent};
use crate::serve::time::{short, span};
use crate::signal::ttl::{DUE_WINDOWS, Outcome, TtlPicture, WatchedState};
use crate::snapshot::Snapshot;

pub(super) fn section(page: &mut Html, cache: &Snapshot, ttl: &TtlPicture) {
    page.raw("<section><h3>What expires next</h3>\n");
    waves(page, cache, ttl);
    if let (Some(peak), Some(ahead)) = (ttl.all.peak_keys_per_second, ttl.all.peak_in) {
        page.raw("<p>The highest second comes in <b>").text(span(ahead)).raw("</b>: ");
        page.text(words::keys(peak));
        if let Some(ratio) = ttl.all.clustering_ratio {
            page.raw(", ").text(number(ratio)).raw(" times the mean");
        }
        page.raw(".</p>\n");
    }
    page.raw("<div class=\"wide\"><table><thead><tr><th>Group</th>");
    for (_, window) in DUE_WINDOWS {
        page.raw("<th class=\"n\">due in ").text(window).raw("</th>");
    }
    page.raw("<th class=\"n\">no TTL</th><th class=\"n\">peak/s</th><th>peak in</th>");
    page.raw("</tr></thead><tbody>\n");
    for group in &ttl.groups {
        page.raw("<tr><td>").name(&group.name).raw("</td>");
        for due in group.due {
            page.raw("<td class=\"n\">").text(number(due.round())).raw("</td>");
        }
        page.raw("<td class=\"n\">").text(number(group.without_ttl.round())).raw("</td>");
        let forecast = &group.forecast;
        page.raw("<td class=\"n\">").text(maybe(forecast.peak_keys_per_second, number));
        page.raw("</td><td>").text(maybe(forecast.peak_in, span)).raw("</td></tr>\n");
    }
    page.raw("</tbody></table></div>\n<p class=\"note\">Estimated from ");
    page.text(number(ttl.sample_keys as f64)).raw(" sampled keys");
    if let Some(sampled) = &cache.sampled {
        page.raw(" of ").name(&sampled.node);
        page.raw(if sampled.up { "" } else { ", which does not answer" });
    }
    page.raw(if ttl.rounds.complete == 0 { ", the first round is not complete" } else { "" });
    page.raw(".</p>\n");
    held(page, ttl);
    past(page, ttl);
    watched(page, ttl);
    page.raw("</section>\n");
}

fn waves(page: &mut Html, cache: &Snapshot, ttl: &TtlPicture) {
    let lookups = cache.nearest_lookups_per_second();
    for wave in &ttl.waves {
        page.raw("<p class=\"wave\"><b>Wave in ").text(span(wave.start - ttl.time));
        page.raw("</b> (").text(short(wave.start)).raw(" UTC): ");
        page.text(number(wave.keys.value.round())).raw(" keys of ").name(&wave.group);
        page.raw(" (").text(number(wave.keys.low.round())).raw(" to ");
        page.text(number(wave.keys.high.round())).raw("), ").text(percent(wave.group_share));
        page.raw(" of the group, within ").text(span((wave.end - wave.start).max(1.0)));
        if let Some(lookups) = lookups {
            let cost = wave.extra_misses_per_second(lookups);
            page.raw("; expected cost ").text(number(cost.value.round()));
            page.raw(" more misses/s at its peak (").text(number(cost.low.round())).raw(" to ");
            page.text(number(cost.high.round())).raw(")");
            if wave.lookup_share.is_some() {
                page.raw(", by how often the server sees these keys used");
            }
        }
        page.raw(".</p>\n");
    }
}

/// Says how many keys the server holds past their deadline, where that is more than chance.
fn held(page: &mut Html, ttl: &TtlPicture) {
    if let Some(held) = ttl.held.filter(|held| held.low >= 1.0) {
        page.raw("<p class=\"note\">The server still holds about ")
            .text(number(held.value.round()));
        page.raw(" keys past their deadline (").text(number(held.low.round())).raw(" to ");
        page.text(number(held.high.round())).raw("): who reads one misses.</p>\n");
    }
}

fn past(page: &mut Html, ttl: &TtlPicture) {
    if ttl.past_waves.is_empty() {
        return;
    }
    page.raw("<table><thead><tr><th>Past wave</th><th>Group</th><th class=\"n\">keys</th>");
    page.raw("<th>what became of it</th></tr></thead><tbody>\n");
    for past in &ttl.past_waves {
        page.raw("<tr><td>").text(short(past.wave.start)).raw(" UTC</td><td>");
        page.name(&past.wave.group).raw("</td><td class=\"n\">");
        page.text(number(past.wave.keys.value.round())).raw("</td><td>").text(match past.outcome {
            Outcome::Expired => "the server has expired them",
            Outcome::Withdrawn => "deleted or written again before",
            Outcome::Unseen => "the server has expired hardly any yet",
        });
        page.raw("</td></tr>\n");
    }
    page.raw("</tbody></table>\n");
}

fn watched(page: &mut Html, ttl: &TtlPicture) {
    if ttl.watched.is_empty() {
        return;
    }
    page.raw("<table><thead><tr><th>Watched key</th><th>Expires</th></tr></thead><tbody>\n");
    for key in &ttl.watched {
        page.raw("<tr><td>").name(&key.name).raw("</td><td>");
        match key.state {
            Some(WatchedState::Due(at)) => page.raw("in ").text(span(at - ttl.time)),
            Some(WatchedState::NoTtl) => page.raw("never"),
            Some(WatchedState::Missing) => page.raw("<span class=\"down\">missing</span>"),
            None => page.raw("unknown"),
        };
        page.raw("</td></tr>\n");
    }
    page.raw("</tbody></table>\n");
}
