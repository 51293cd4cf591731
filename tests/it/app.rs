//! An application's page over HTTP: what is read, and what must not be.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flate2::write::GzEncoder;
use stampede_exporter::clock::Clock;
use stampede_exporter::config::{AppConfig, PageUrl};
use stampede_exporter::reading::mapping::{Counter, preset};
use stampede_exporter::signal::tally::Warning;
use stampede_exporter::source::app::{AppErrorKind, AppSource, MAX_PAGE_BYTES};

use super::support::exporter::Exporter;
use super::support::page::Page;
use super::support::redis::Redis;
use super::support::{PATIENCE, wait_for};

/// A server that answers every connection in its own way, after it has read the request.
struct Odd {
    port: u16,
    requests: Arc<AtomicUsize>,
}

impl Odd {
    fn start(answer: impl Fn(&mut TcpStream, &str) + Send + Sync + 'static) -> Odd {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let requests = Arc::new(AtomicUsize::new(0));
        let (answer, seen) = (Arc::new(answer), Arc::clone(&requests));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                std::thread::spawn(move || {
                    let lines = BufReader::new(stream.try_clone().expect("a handle")).lines();
                    let head: Vec<String> =
                        lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                    seen.fetch_add(1, Ordering::SeqCst);
                    answer(&mut stream, &head.join("\n"));
                });
            }
        });
        Odd { port, requests }
    }

    /// One whole answer with these header lines, closed after it.
    fn saying(headers: &'static str, body: impl Into<Vec<u8>>) -> Odd {
        let body = body.into();
        Odd::start(move |stream, _| {
            let head = format!("HTTP/1.1 {headers}\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        })
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.port)
    }
}

fn source(url: &str) -> AppSource {
    source_within(url, PATIENCE)
}

fn source_within(url: &str, timeout: Duration) -> AppSource {
    let mapping = preset("native").expect("the preset").for_cache("catalog");
    let config = AppConfig { name: "web".into(), url: PageUrl(url.to_owned()), mapping };
    AppSource::new(&config, timeout, Clock::start()).expect("a source")
}

fn counters(hits: u64, misses: u64) -> String {
    format!("cache_hits_total {hits}\ncache_misses_total {misses}\n")
}

/// The outcome of one read of a page with these header lines.
async fn outcome(headers: &'static str, body: impl Into<Vec<u8>>) -> Result<(), AppErrorKind> {
    source(&Odd::saying(headers, body).url()).read().await
}

#[tokio::test]
async fn counters_are_added_up_from_the_first_page_on() {
    let page = Page::start(&counters(5_000_000, 70));
    let mut app = source(&page.url());
    assert!(!app.state().up);
    app.read().await.expect("a page");
    assert_eq!(app.step().rises.get(Counter::Hits), None);
    page.set(&counters(5_000_090, 80));
    app.read().await.expect("a page");
    page.set(&counters(3, 81));
    app.read().await.expect("a page after a restart");
    let state = app.state();
    assert!(state.up && state.last_success.is_some());
    assert_eq!(
        (state.totals.hits, state.totals.misses, state.totals.loads),
        (Some(93.0), Some(11.0), None)
    );
}

#[tokio::test]
async fn a_failure_is_counted_by_reason_and_ends() {
    let page = Page::start(&counters(1, 1));
    let mut app = source(&page.url());
    app.read().await.expect("a page");
    page.set("<html>\n<body>Welcome</body>\n</html>\n");
    assert_eq!(app.read().await, Err(AppErrorKind::Parse));
    assert!(!app.state().up);
    assert_eq!(app.step().totals.get(Counter::Hits), None);
    page.set(&counters(4, 2));
    app.read().await.expect("a page again");
    let state = app.state();
    assert!(state.up);
    assert_eq!(state.totals.hits, Some(3.0), "what the gap hid");
    assert_eq!(app.step().rises.get(Counter::Hits), None, "but not as one poll's rise");
    let counted: u64 = state.errors_by_reason.iter().map(|(_, count)| count).sum();
    assert_eq!((state.errors_by_reason.len(), counted), (AppErrorKind::ALL.len(), 1));
    assert!(state.errors_by_reason.contains(&("parse", 1)));
}

#[tokio::test]
async fn open_metrics_must_end() {
    let open = "200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(outcome(open, counters(1, 1) + "# EOF\n").await, Ok(()));
    assert_eq!(outcome(open, counters(1, 1)).await, Err(AppErrorKind::Parse));
}

#[tokio::test]
async fn a_last_line_without_its_end_counts_when_the_body_came_whole() {
    let whole = Odd::saying("200 OK", "cache_hits_total 1\ncache_misses_total 12");
    let mut app = source(&whole.url());
    app.read().await.expect("a page");
    assert_eq!(app.state().totals.misses, Some(0.0));

    let cut = Odd::start(|stream, _| {
        let _ =
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\ncache_hits_total 1\ncache_misses_total 12");
    });
    let mut app = source(&cut.url());
    app.read().await.expect("half a page");
    assert_eq!((app.state().totals.hits, app.state().totals.misses), (Some(0.0), None));
}

#[tokio::test]
async fn a_body_shorter_than_announced_is_no_page() {
    let short = Odd::start(|stream, _| {
        let _ =
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\ncache_hits_total 1\n");
    });
    assert_eq!(source(&short.url()).read().await, Err(AppErrorKind::Http));
}

#[tokio::test]
async fn a_status_other_than_200_is_no_page() {
    assert_eq!(outcome("500 Oops", counters(1, 1)).await, Err(AppErrorKind::Status));
    assert_eq!(outcome("204 No Content", "").await, Err(AppErrorKind::Status));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Odd::saying("200 OK", counters(1, 1));
    let to = elsewhere.url();
    let redirect = Odd::start(move |stream, _| {
        let head = format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.write_all(head.as_bytes());
    });
    assert_eq!(source(&redirect.url()).read().await, Err(AppErrorKind::Status));
    assert_eq!(redirect.requests.load(Ordering::SeqCst), 1);
    assert_eq!(elsewhere.requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_body_that_never_comes_is_given_up() {
    let slow = Odd::start(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\ncache_hits");
        // Held open until the other side gives up.
        let _ = std::io::copy(stream, &mut std::io::sink());
    });
    let mut app = source_within(&slow.url(), Duration::from_millis(300));
    assert_eq!(app.read().await, Err(AppErrorKind::Timeout));
    assert_eq!(app.read().await, Err(AppErrorKind::Timeout));
    let connected = || Some(()).filter(|()| slow.requests.load(Ordering::SeqCst) == 2);
    wait_for("each read on a connection of its own", connected);
}

#[tokio::test]
async fn an_endless_body_is_cut_off() {
    let endless = Odd::start(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        let line = counters(1, 1).repeat(1000);
        while stream.write_all(line.as_bytes()).is_ok() {}
    });
    assert_eq!(source(&endless.url()).read().await, Err(AppErrorKind::TooLarge));
}

#[tokio::test]
async fn compressed_pages_are_read_and_bombs_are_not() {
    let zipped = |text: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(text).and_then(|()| encoder.finish()).expect("gzip into memory")
    };
    let gzip = "200 OK\r\nContent-Encoding: gzip";
    assert_eq!(outcome(gzip, zipped(counters(1, 1).as_bytes())).await, Ok(()));
    let bomb = zipped(&vec![b'\n'; 4 * MAX_PAGE_BYTES]);
    assert!(bomb.len() < MAX_PAGE_BYTES / 100);
    assert_eq!(outcome(gzip, bomb).await, Err(AppErrorKind::TooLarge));
    let half = zipped(counters(1, 1).as_bytes());
    assert_eq!(outcome(gzip, &half[..half.len() / 2]).await, Err(AppErrorKind::Http));
}

#[tokio::test]
async fn a_large_page_is_read_for_what_is_wanted() {
    let other: String =
        (0..100_000).map(|i| format!("http_requests_total{{path=\"/{i}\"}} {i}\n")).collect();
    assert_eq!(outcome("200 OK", other.clone() + &counters(1, 1)).await, Ok(()));
    let wanted = other.replace("http_requests", "cache_hits") + &counters(1, 1);
    assert_eq!(outcome("200 OK", wanted).await, Err(AppErrorKind::TooLarge));
}

#[tokio::test]
async fn junk_is_no_page_and_junk_within_a_page_costs_its_lines() {
    let junk: Vec<u8> =
        (0..50_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_eq!(outcome("200 OK", junk.clone()).await, Err(AppErrorKind::Parse));
    let mut mixed = counters(1, 1).into_bytes();
    mixed.extend(junk);
    assert_eq!(outcome("200 OK", mixed).await, Ok(()));
}

#[tokio::test]
async fn a_page_without_the_counters_is_up_and_says_so() {
    let page = Page::start("up 1\n");
    let mut app = source(&page.url());
    app.read().await.expect("a page");
    assert_eq!(app.step().warnings, [Warning::NothingMapped]);
    assert!(app.state().up);
    assert_eq!(app.state().totals.hits, None, "not there is not zero");
}

#[tokio::test]
async fn where_nothing_answers() {
    let closed =
        TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port");
    assert_eq!(source(&format!("http://{closed}/")).read().await, Err(AppErrorKind::Connect));
    // A name with a label of more than 63 characters has no address anywhere.
    let nowhere = format!("http://{}.test/", "a".repeat(64));
    assert_eq!(source(&nowhere).read().await, Err(AppErrorKind::Dns));
    let closing = Page::start(&counters(1, 1)).url().replace("http:", "https:");
    assert_eq!(source(&closing).read().await, Err(AppErrorKind::Tls));
    let plain = Odd::saying("400 Bad Request", "").url().replace("http:", "https:");
    assert_eq!(source(&plain).read().await, Err(AppErrorKind::Tls));
}

#[tokio::test]
async fn user_and_password_of_the_url_are_sent_and_not_shown() {
    let guarded = Odd::start(|stream, head| {
        // user:pa:ss in Base64
        let known = head.contains("Basic dXNlcjpwYTpzcw==");
        let status = if known { "200 OK" } else { "401 Unauthorized" };
        let body = counters(1, 1);
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let _ = stream.write_all(head.as_bytes());
    });
    let url = guarded.url().replace("127.0.0.1", "user:pa%3Ass@127.0.0.1");
    let mut app = source(&url);
    assert_eq!(app.read().await, Ok(()));
    assert!(!format!("{app:?}").contains("pa%3Ass"));
}

#[test]
fn the_exporter_says_once_that_a_page_cannot_be_read_and_no_secret() {
    let redis = Redis::start();
    let url = "http://user:CANARY-1@127.0.0.1:1/metrics?token=CANARY-1";
    let exporter = Exporter::start(&["--redis.addr", &redis.url(), "--app.url", url]);
    let failed = |log: &str| log.matches("the application's page cannot be read").count();
    wait_for("three polls", || {
        exporter.metric("stampede_redis_polls_total{cache=\"default\"}").filter(|n| *n >= 3.0)
    });
    let log = exporter.log();
    assert_eq!(failed(&log), 1, "{log}");
    assert!(log.contains("http://127.0.0.1:1/metrics") && log.contains("connect"), "{log}");
    for page in ["/metrics", "/", "/api/v1/caches"] {
        assert!(!exporter.get(page).body.contains("CANARY"), "{page}");
    }
    assert!(!exporter.log().contains("CANARY"), "{log}");
}
