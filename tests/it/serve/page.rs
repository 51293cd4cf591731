//! The page for a person, in a real browser.

use stampede_exporter::board::View;

use super::server::Server;
use super::world;
use crate::support::run;

/// The page after its script has run for some seconds of the browser's own time.
fn dom(server: &Server) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = run(
        "chromium",
        &[
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            &format!("--user-data-dir={}", profile.path().display()),
            "--virtual-time-budget=5000",
            "--dump-dom",
            &format!("http://127.0.0.1:{}/", server.port),
        ],
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_browser_draws_four_panels_a_cache_and_runs_no_foreign_script() {
    let server = Server::start(&world::view());
    let mut next = world::catalog();
    next.time += 1.0;
    server.board.publish(next);
    let dom = dom(&server);
    for panel in ["ratio", "loads", "ttl", "locks"] {
        assert_eq!(dom.matches(&format!("data-panel=\"{panel}\"")).count(), 3, "{panel}:\n{dom}");
    }
    // Drawn by the script: twelve panels, the lines at 0.95 and 0.80 in three of them, the
    // stampede's shade, the newest value.
    assert_eq!(dom.matches("<svg").count(), 12);
    assert_eq!(dom.matches("class=\"limit\"").count(), 6);
    assert!(dom.contains(">0.95<") && dom.contains(">0.80<"));
    assert!(dom.contains("class=\"curve one\"") && dom.contains("class=\"heat\""));
    assert!(dom.contains("class=\"shade\""));
    assert!(dom.contains("applications 75.0 %"), "{dom}");
    // Who hears the page is told what each drawing and each bar is.
    assert_eq!(dom.matches("role=\"img\" aria-label=\"Lock attempts and contention\"").count(), 3);
    let bars: Vec<&str> =
        dom.split("<meter").skip(1).filter_map(|bar| bar.split('>').next()).collect();
    assert!(!bars.is_empty() && bars.iter().all(|bar| bar.contains("aria-label=\"")), "{bars:?}");
    // A browser writes `<` and `>` in text and attributes as it pleases, but a script that came
    // in by a name would be an element: ours is the only one.
    assert_eq!(dom.matches("<script").count() - dom.matches("\\<script").count(), 1);
    assert!(dom.contains("id=\"stale\" role=\"alert\" hidden"), "the script met an error:\n{dom}");
}

#[test]
fn without_scripts_the_page_says_what_is_wrong_since_when_and_what_it_costs() {
    let server = Server::start(&world::view());
    let answer = server.get("/");
    assert!(answer.headers.contains("default-src 'none'"));
    assert!(!answer.headers.contains("unsafe"));
    let page = answer.body;
    for word in [
        "STAMPEDE <span class=\"cause\">hot_key</span>",
        "One popular entry ran out and everyone recomputes it",
        "since 11-30 11:59:50 UTC",
        "4,600 misses beyond normal so far; peak 640/s against 40/s",
        "<dt>Hit ratio</dt><dd>75.0 %</dd>",
        "misses on the top key <b>93.0 %</b>",
        "<span class=\"cause\">cold_start</span> 1 min 23 s",
        "<bdi>10.0.0.2:6379</bdi></td><td><span class=\"down\">down</span>",
        "<b>Wave in 1 min 30 s</b> (11-30 12:01:30 UTC): 120 keys of <bdi>product</bdi> (100 to 141)",
        "60.0 % of the group, within 2 s; expected cost 80 more misses/s at its peak (70 to 96).",
        "<tr><td><bdi>front</bdi></td><td>in 13 s</td></tr>",
        "<tr><td><bdi>menu</bdi></td><td><span class=\"down\">missing</span></td></tr>",
        "Suspects: <code><bdi>front</bdi></code> 93.0 % of the misses, <code><bdi>user:*</bdi></code> 5.0 % of the sampled keys that went just then",
        "(as <code><bdi>user:&lt;i&gt;\\xff</bdi></code>)",
        // Three times the p99 of 3.1 s.
        "hold a lock across processes with a TTL of at least 9.3 s",
        "NO ANSWER",
        "Not polled yet",
    ] {
        assert!(page.contains(word), "{word}:\n{page}");
    }
}

#[test]
fn a_hostile_name_is_text() {
    let server = Server::start(&world::view());
    let page = server.get("/").body;
    assert!(!page.contains("<script>alert"));
    assert!(page.contains("we&quot;ird\\&lt;script&gt;alert(1)&lt;/script&gt;&amp;\n&#39;"));
}

#[test]
fn a_calm_page_is_calm() {
    let mut calm = world::catalog();
    calm.nodes.iter_mut().for_each(|node| node.up = true);
    calm.apps.iter_mut().for_each(|app| app.up = true);
    calm.incidents = Default::default();
    calm.verdict.running = None;
    let server = Server::start(&View { caches: vec![calm.into()], reload_successful: true });
    let page = server.get("/").body;
    assert!(page.contains("<p class=\"state\">OK</p>"));
    assert!(page.contains("None since the exporter started."));
    assert!(!page.contains("STAMPEDE"));
}

#[test]
fn every_cause_has_its_runbook_one_link_away() {
    let server = Server::start(&world::view());
    assert!(server.get("/").body.contains("<a class=\"runbook-link\" href=\"runbooks/hot_key\">"));
    for cause in stampede_exporter::detect::Cause::ALL {
        let answer = server.get(&format!("/runbooks/{}", cause.as_str()));
        assert_eq!(answer.status, 200);
        assert!(answer.headers.contains("text/html"));
        assert!(answer.body.contains(&format!("<h1>Cause: {}</h1>", cause.as_str())));
    }
    assert!(server.get("/").body.contains("<a href=\"runbooks\">"));
    let all = server.get("/runbooks").body;
    for (name, _) in stampede_exporter::shipped::RUNBOOKS {
        assert!(all.contains(&format!("<a href=\"runbooks/{name}\">{name}</a>")), "{name}");
    }
    let answer = server.get("/runbooks/..%2Fsecret");
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("there are: CacheAppSourceDown, "));
}
