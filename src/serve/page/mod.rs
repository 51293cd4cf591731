//! The page for a person on call at three in the morning: what is wrong, since when, what it costs
//! and what to do, readable on a phone and without scripts; the curves come with the script.
//!
//! Rendered here from the same view as everything else. The script only fetches this page again
//! and draws, so that words and escaping have one home.

mod cache;
mod expiry;
mod html;
mod incidents;
mod markdown;
mod words;

use crate::board::View;
use crate::shipped;

use super::metrics::Build;
use super::state::State;
use super::time::rfc3339;
use html::Html;

/// The style sheet, served beside the page.
pub(super) const STYLE: &str = include_str!("page.css");

/// The script, served beside the page.
pub(super) const SCRIPT: &str = include_str!("page.js");

/// The icon of the tab.
pub(super) const ICON: &str = include_str!("icon.svg");

/// What the page may load: its own style, script and API, nothing from anywhere else.
pub(super) const SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; \
     style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// Above so many caches, the curves of the calm ones are folded away.
const OPEN_CHARTS: usize = 3;

/// The whole page at `now`, Unix seconds.
pub(super) fn render(view: &View, build: &Build<'_>, now: f64) -> String {
    let mut page = Html::default();
    page.raw(HEAD).raw(
        "<link rel=\"icon\" href=\"assets/icon.svg\" type=\"image/svg+xml\">\n\
         <link rel=\"stylesheet\" href=\"assets/page.css\">\n\
         <script src=\"assets/page.js\" defer></script>\n<title>",
    );
    page.text(title(view)).raw("</title>\n</head>\n<body>\n");
    header(&mut page, view, now);
    page.raw("<main>\n");
    for (place, snapshot) in view.caches.iter().enumerate() {
        let state = State::of(snapshot);
        let open = view.caches.len() <= OPEN_CHARTS || state == State::Stampede;
        cache::article(&mut page, place, snapshot, state, open, now);
    }
    incidents::section(&mut page, view, now);
    page.raw("</main>\n<footer>stampede-exporter ").text(build.version);
    page.raw(
        " · <a href=\"metrics\">metrics</a> · <a href=\"api/v1/caches\">caches</a> · \
         <a href=\"api/v1/incidents\">incidents</a> · <a href=\"runbooks\">runbooks</a> · all times are UTC</footer>\n</body>\n</html>\n",
    );
    page.into_string()
}

/// A runbook as a page of its own, without a script.
pub(super) fn runbook(name: &str, markdown: &str) -> String {
    let mut page = Html::default();
    page.raw(HEAD).raw(
        "<link rel=\"icon\" href=\"../assets/icon.svg\" type=\"image/svg+xml\">\n\
         <link rel=\"stylesheet\" href=\"../assets/page.css\">\n<title>",
    );
    page.text(name).raw(" · runbook</title>\n</head>\n<body class=\"runbook\">\n");
    page.raw("<p><a href=\"../\">← all caches</a></p>\n");
    markdown::render(&mut page, markdown);
    page.raw("</body>\n</html>\n");
    page.into_string()
}

/// The list of all runbooks.
pub(super) fn runbooks() -> String {
    let mut page = Html::default();
    page.raw(HEAD).raw(
        "<link rel=\"icon\" href=\"assets/icon.svg\" type=\"image/svg+xml\">\n\
         <link rel=\"stylesheet\" href=\"assets/page.css\">\n<title>Runbooks</title>\n</head>\n\
         <body class=\"runbook\">\n<p><a href=\"./\">← all caches</a></p>\n<h1>Runbooks</h1>\n<ul>\n",
    );
    for (name, _) in shipped::RUNBOOKS {
        page.raw("<li><a href=\"runbooks/").text(name).raw("\">").text(name).raw("</a></li>\n");
    }
    page.raw("</ul>\n</body>\n</html>\n");
    page.into_string()
}

/// What every page begins with.
const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n";

fn stampedes(view: &View) -> usize {
    view.caches.iter().filter(|cache| cache.incidents.running.is_some()).count()
}

/// What the tab says: a stampede is seen in a row of tabs too.
fn title(view: &View) -> String {
    match stampedes(view) {
        0 => "stampede-exporter".to_owned(),
        running => format!("({running}) STAMPEDE · stampede-exporter"),
    }
}

fn header(page: &mut Html, view: &View, now: f64) {
    page.raw("<header>\n<h1>Cache stampedes</h1>\n<p data-live=\"now\">");
    page.raw("<time datetime=\"").text(rfc3339(now)).raw("\">");
    page.text(super::time::short(now)).raw(" UTC</time>");
    if !view.reload_successful {
        page.raw(
            " <strong class=\"warning\">The last reload of the configuration failed; the one \
             before is in use. The log says why.</strong>",
        );
    }
    page.raw("</p>\n<nav data-live=\"nav\" aria-label=\"Caches\">");
    for (place, cache) in view.caches.iter().enumerate() {
        let state = State::of(cache);
        page.raw("<a class=\"chip\" href=\"#c").text(place);
        page.raw("\" data-state=\"").text(state.as_str()).raw("\">");
        page.name(&cache.cache).raw(" <b>").text(words::of_state(state)).raw("</b></a>");
    }
    page.raw("<a class=\"chip\" href=\"#incidents\">incidents</a></nav>\n<p class=\"stale\" id=\"stale\" role=\"alert\" hidden></p>\n</header>\n");
}
