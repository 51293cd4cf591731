//! The routes, through a real listener.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use stampede_exporter::board::View;
use stampede_exporter::snapshot::Snapshot;

use super::server::Server;
use super::world;
use crate::support::wait_for;

fn one(cache: Snapshot) -> View {
    View { caches: vec![Arc::new(cache)], reload_successful: true }
}

/// Sends a request as it is and gives the whole answer.
fn raw(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_are_text_0_0_4_whatever_is_asked_for() {
    let server = Server::start(&world::view());
    for accept in [
        "Accept: text/plain;version=0.0.4",
        "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
        "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily",
        "Accept-Encoding: gzip",
    ] {
        let answer = server.get_with("/metrics", &[accept]);
        assert_eq!(answer.status, 200, "{accept}");
        let head = answer.headers.to_lowercase();
        assert!(
            head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"),
            "{accept}: {head}"
        );
        assert!(answer.body.starts_with("# HELP stampede_build_info "), "{accept}");
        assert!(answer.body.ends_with('\n'), "{accept}");
    }
}

#[test]
fn the_page_of_a_process_says_how_the_process_is() {
    let server = Server::start(&world::view());
    let page = server.get("/metrics").body;
    let value = |name: &str| -> f64 {
        let line = page.lines().find(|l| l.starts_with(&format!("{name} "))).unwrap();
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    // More than a megabyte and less than 10 GB; stdin, stdout, stderr and the listener.
    assert!((1e6..1e10).contains(&value("process_resident_memory_bytes")));
    assert!(value("process_open_fds") >= 4.0);
    assert!(value("process_start_time_seconds") > 1.7e9);
    assert!(value("process_cpu_seconds_total") >= 0.0);
}

#[test]
fn a_new_snapshot_is_on_the_next_page() {
    let server = Server::start(&one(world::catalog()));
    let hits = r#"stampede_redis_keyspace_hits_total{cache="catalog",node="10.0.0.1:6379"}"#;
    assert!(server.get("/metrics").body.contains(&format!("{hits} 9000\n")));
    let mut newer = world::catalog();
    newer.nodes[0].totals.hits = 9001.0;
    server.board.publish(newer);
    assert!(server.get("/metrics").body.contains(&format!("{hits} 9001\n")));
    server.board.reload_failed();
    assert!(server.get("/metrics").body.contains("\nstampede_config_reload_successful 0\n"));
}

#[test]
fn a_cache_can_be_asked_for_by_name() {
    let server = Server::start(&world::view());
    let page = server.get("/metrics?cache=catalog").body;
    assert!(page.contains(r#"stampede_active{cache="catalog"} 1"#));
    assert!(!page.contains(r#"cache="fresh""#));
    let page = server.get("/metrics?cache=catalog&cache=fresh").body;
    assert!(page.contains(r#"stampede_active{cache="catalog"} 1"#));
    assert!(page.contains(r#"stampede_active{cache="fresh"} 0"#));
}

#[test]
fn wrong_requests_are_told_what_is_right() {
    let server = Server::start(&world::view());
    for (target, status, word) in [
        ("/metrics?cache=nope", 404, "no cache named \"nope\"; configured: \"catalog\""),
        ("/metrics?target=redis://10.0.0.9:6379", 400, "unknown query key \"target\"; legal"),
        ("/metrics?limit=1", 400, "unknown query key \"limit\"; legal here: cache"),
        ("/api/v1/incidents?limit=many", 400, "limit is \"many\"; legal: a whole number"),
        ("/api/v1/history?since=noon", 400, "since is \"noon\"; legal: Unix seconds"),
        ("/api/v1/history?since=inf", 400, "since is \"inf\"; legal: Unix seconds"),
        ("/api/v1/caches?cache=", 404, "no cache named \"\""),
        ("/-/healthy?x", 400, "unknown query key \"x\"; legal here: none"),
        ("/metricz", 404, "no such page"),
    ] {
        let answer = server.get(target);
        assert_eq!(answer.status, status, "{target}");
        assert!(answer.body.contains(word), "{target}: {}", answer.body);
    }
}

#[test]
fn head_works_and_other_methods_are_refused() {
    let server = Server::start(&world::view());
    let answer = raw(server.port, "HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "a HEAD answer has no body");
    for method in ["POST", "PUT", "DELETE"] {
        let request = format!(
            "{method} /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        assert!(raw(server.port, &request).starts_with("HTTP/1.1 405 "), "{method}");
    }
}

#[test]
fn healthy_always_and_ready_once_every_cache_was_polled() {
    let fresh = Snapshot { cache: "slow \"one\"".into(), ..Snapshot::default() };
    let server = Server::start(&View {
        caches: vec![world::catalog().into(), fresh.clone().into()],
        reload_successful: true,
    });
    assert_eq!(server.get("/-/healthy").status, 200);
    let answer = server.get("/-/ready");
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (503, "not polled yet: \"slow \\\"one\\\"\"\n")
    );
    // A poll that failed is a poll.
    server.board.publish(Snapshot { polls: 1, poll_errors: vec![("timeout", 1)], ..fresh });
    assert_eq!(server.get("/-/ready").status, 200);
}

#[test]
fn clients_that_are_stuck_block_nobody_and_no_shutdown() {
    let mut server = Server::start(&world::view());
    let half_a_request: Vec<_> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
            stream
        })
        .collect();
    let never_reading: Vec<_> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            stream.write_all(&b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100)).unwrap();
            stream
        })
        .collect();
    assert_eq!(server.get("/metrics").status, 200);
    server.stop().unwrap();
    drop((half_a_request, never_reading));
    wait_for("the port is closed", || TcpStream::connect(("127.0.0.1", server.port)).err());
}

#[test]
fn no_page_can_be_kept_or_taken_for_something_else() {
    let server = Server::start(&world::view());
    for target in ["/", "/metrics", "/api/v1/caches", "/-/ready", "/nothing", "/assets/page.js"] {
        let head = server.get(target).headers.to_lowercase();
        assert!(head.contains("x-content-type-options: nosniff"), "{target}");
        assert!(head.contains("cache-control: no-store"), "{target}");
    }
}
