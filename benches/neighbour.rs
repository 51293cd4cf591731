//! What watching costs, side by side with Debian's prometheus-redis-exporter on one server, in one
//! run: time of a scrape, resident memory, and the server's own time.
//!
//! `cargo bench --bench neighbour` prints the table. Scrapes of the two take turns, so that a
//! machine that slows down slows both; each goes over a kept connection, as Prometheus' do.
//!
//! `cargo bench --bench neighbour -- long` takes a quarter of an hour and prints what both have in
//! memory once everything that ours keeps is full, all settings as they are by default.
#![allow(
    missing_docs,
    unreachable_pub,
    unused,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

#[path = "../tests/it/support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::exporter::Exporter;
use support::redis::{Redis, free_port};
use support::{get, wait_for, wait_for_within};

/// Scrapes of each exporter.
const SCRAPES: usize = 2000;
/// Scrapes in one turn: enough that a turn does not measure what the other one left in the caches.
const TURN: usize = 20;
/// Keys of the server, each with an hour to live: as many as five minutes of sampling at the usual
/// pace ask for.
const KEYS: u64 = 30_000;
/// The pace of the exporter whose sample is to be full, keys a second: half a minute for all of them.
const FAST: u32 = 1000;
/// Polls after which a full sample has been looked at more than once.
const LOOKS: u64 = 12;
/// Polls over which the server's own time is measured.
const POLLS: u64 = 30;

/// Time between two scrapes of a long run.
const SCRAPE_EVERY: Duration = Duration::from_secs(15);
/// In a long run the page is opened every so many scrapes.
const PAGE_EVERY: u32 = 16;
/// Points of a full history of the page, one a second.
const HISTORY: usize = 900;
/// Scrapes after which it is full, on a machine that is not late for many polls.
const LONGEST: u32 = 100;

fn main() {
    let redis = filled();
    let (ours, theirs) = both(&redis);
    if std::env::args().any(|argument| argument == "long") {
        return long(&ours, &theirs);
    }

    let mut times = [Vec::new(), Vec::new()];
    let mut scrapers = [Scraper::connect(ours.port), Scraper::connect(theirs.port)];
    for _ in 0..SCRAPES / TURN {
        for (scraper, times) in scrapers.iter_mut().zip(&mut times) {
            for _ in 0..TURN {
                let start = Instant::now();
                scraper.scrape();
                times.push(start.elapsed());
                scraper.assert_page();
            }
        }
    }
    let [our_times, their_times] = &mut times;
    println!(
        "machine: {} cores; redis-server {}",
        cores(),
        redis.info("server", "redis_version").unwrap()
    );
    println!("{:<34} {:>14} {:>24}", "", "stampede", "prometheus-redis-exporter");
    for (name, q) in [("scrape p50", 0.50), ("scrape p99", 0.99)] {
        let (a, b) = (quantile(our_times, q), quantile(their_times, q));
        let ratio = b.as_secs_f64() / a.as_secs_f64();
        println!("{name:<34} {a:>14.1?} {b:>24.1?}   {ratio:.1} times");
    }
    let their_memory = resident(theirs.child.id());
    tell_memory("resident memory", resident(ours.pid()), their_memory);
    tell_memory("the same, 30,000 keys sampled", resident_when_full(), their_memory);
    drop(theirs);

    println!("clients of the server: {}", connections(&redis));
    redis.cli(&["CONFIG", "RESETSTAT"]);
    let polls = || ours.metric("stampede_redis_polls_total{cache=\"default\"}");
    let before = polls().expect("polls are counted");
    wait_for_within(Duration::from_secs(3 * POLLS), "the polls of the measurement", || {
        polls().filter(|now| *now >= before + POLLS as f64)
    });
    let (calls, usec) = command_stats(&redis, "info").expect("INFO was called");
    println!(
        "server time of one poll (INFO): {:.1} us, mean of {calls}",
        usec as f64 / calls as f64
    );
    for command in ["scan", "pttl"] {
        if let Some((calls, usec)) = command_stats(&redis, command) {
            println!(
                "server time of {command}: {usec} us in {calls} calls, while {POLLS} s passed"
            );
        }
    }
    let node = format!("127.0.0.1:{}", redis.port);
    let hits = ours.metric(&format!(
        "stampede_redis_keyspace_hits_total{{cache=\"default\",node=\"{node}\"}}"
    ));
    println!("exported hits while nobody else talks to the server: {hits:?}");
}

/// Both exporters at work on one server.
fn both(redis: &Redis) -> (Exporter, Neighbour) {
    let ours = Exporter::start(&["--redis.addr", &redis.url()]);
    let theirs = Neighbour::start(redis);
    ours.wait_for_metric(
        "stampede_redis_up{cache=\"default\",node=\"127.0.0.1:PORT\"}"
            .replace("PORT", &redis.port.to_string())
            .as_str(),
        |v| v == 1.0,
    );
    wait_for("prometheus-redis-exporter answers", || {
        get(theirs.port, "/metrics").filter(|a| a.body.contains("redis_up 1"))
    });
    (ours, theirs)
}

/// Both as Prometheus and a person would have them for a quarter of an hour.
fn long(ours: &Exporter, theirs: &Neighbour) {
    println!("{:<34} {:>14} {:>24}", "", "stampede", "prometheus-redis-exporter");
    let mut scrapers = [Scraper::connect(ours.port), Scraper::connect(theirs.port)];
    let full = |points: usize| {
        let sampled = ours.metric("stampede_ttl_sample_keys{cache=\"default\"}");
        points == HISTORY && sampled >= Some(KEYS as f64)
    };
    for scrape in 1.. {
        assert!(scrape <= LONGEST, "sample and history do not fill");
        std::thread::sleep(SCRAPE_EVERY);
        for scraper in &mut scrapers {
            scraper.scrape();
            scraper.assert_page();
        }
        if scrape % PAGE_EVERY == 0 {
            for part in ["/", "/assets/page.css", "/assets/page.js", "/api/v1/caches"] {
                assert!(get(ours.port, part).is_some_and(|answer| answer.status == 200), "{part}");
            }
        }
        let after = SCRAPE_EVERY * scrape;
        if scrape % PAGE_EVERY == 0 || after >= Duration::from_secs(HISTORY as u64) {
            let points = history(ours);
            let name = format!("resident, {} s, {points} points", after.as_secs());
            tell_memory(&name, resident(ours.pid()), resident(theirs.child.id()));
            if full(points) {
                return;
            }
        }
    }
}

/// Points in the history that the page asks for.
fn history(exporter: &Exporter) -> usize {
    let answer = get(exporter.port, "/api/v1/history").expect("a history");
    let json: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
    json.pointer("/0/time").and_then(serde_json::Value::as_array).map_or(0, Vec::len)
}

fn tell_memory(name: &str, ours: u64, theirs: u64) {
    let ratio = ours as f64 / theirs as f64;
    println!("{name:<34} {ours:>11} kB {theirs:>21} kB   {ratio:.2} of it");
}

/// A server with its keys.
fn filled() -> Redis {
    let redis = Redis::start();
    let fill = "for i = ARGV[1], ARGV[1] + 999 do redis.call('SET', 'k:' .. i, i, 'EX', 3600) end";
    for i in (0..KEYS).step_by(1000) {
        redis.cli(&["EVAL", fill, "0", &i.to_string()]);
    }
    redis
}

/// Resident memory of an exporter that has sampled every key and gone on for a while, scraped each time
/// that it is asked how far it is. It has a server of its own: the two would count each other's
/// lookups.
fn resident_when_full() -> u64 {
    let redis = filled();
    let exporter = Exporter::start_configured(&format!(
        "caches:\n  - name: c\n    redis: {{ addr: \"{}\" }}\n    ttl: {{ keys_per_second: {FAST} }}\n",
        redis.url()
    ));
    let of = |name: &str| exporter.metric(&format!("{name}{{cache=\"c\"}}"));
    let (mut scraper, patience) = (Scraper::connect(exporter.port), Duration::from_secs(120));
    wait_for_within(patience, "a full sample", || {
        scraper.scrape();
        of("stampede_ttl_sample_keys").filter(|keys| *keys >= KEYS as f64)
    });
    let polls = of("stampede_redis_polls_total").expect("polls are counted");
    wait_for_within(patience, "some looks at it", || {
        scraper.scrape();
        of("stampede_redis_polls_total").filter(|now| *now >= polls + LOOKS as f64)
    });
    resident(exporter.pid())
}

/// A kept connection. It does as little as a client can, for it is measured too.
struct Scraper {
    stream: TcpStream,
    answer: Vec<u8>,
    length: usize,
}

impl Scraper {
    fn connect(port: u16) -> Scraper {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        Scraper { stream, answer: vec![0; 1 << 20], length: 0 }
    }

    /// One scrape, to the last byte of the answer.
    fn scrape(&mut self) {
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n";
        self.stream.write_all(request.as_bytes()).expect("the request is sent");
        self.length = 0;
        while !complete(&self.answer[..self.length]) {
            let n = self.stream.read(&mut self.answer[self.length..]).expect("an answer");
            assert!(n > 0, "the connection was closed");
            self.length += n;
        }
    }

    fn assert_page(&self) {
        let page = String::from_utf8_lossy(&self.answer[..self.length]);
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("# HELP"), "{page}");
    }
}

/// Whether an answer is whole, with a length or in chunks.
fn complete(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|w| w == b"\r\n\r\n") else { return false };
    let Ok(head) = std::str::from_utf8(&answer[..end]) else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    match length {
        Some(length) => answer.len() - end - 4 >= length,
        None => answer.ends_with(b"\r\n0\r\n\r\n"),
    }
}

fn quantile(times: &mut [Duration], q: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * q) as usize]
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}

/// `VmRSS` of a process, kB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number of kB")
}

fn connections(redis: &Redis) -> usize {
    let list = redis.cli(&["CLIENT", "LIST"]);
    // The one that asks is redis-cli's own.
    list.lines().filter(|l| !l.contains("cmd=client|list")).count()
}

/// Calls and microseconds of a command since the last RESETSTAT, by one INFO of our own.
fn command_stats(redis: &Redis, command: &str) -> Option<(u64, u64)> {
    let text = redis.info("commandstats", &format!("cmdstat_{command}"))?;
    let field = |name: &str| {
        let part = text.split(',').find(|p| p.split('=').next() == Some(name))?;
        part.split_once('=')?.1.parse().ok()
    };
    Some((field("calls")?, field("usec")?))
}

/// Debian's redis exporter on a port of its own.
struct Neighbour {
    child: Child,
    port: u16,
}

impl Neighbour {
    fn start(redis: &Redis) -> Neighbour {
        let port = free_port();
        let child = Command::new("prometheus-redis-exporter")
            .args([
                "-redis.addr",
                &redis.url(),
                "-web.listen-address",
                &format!("127.0.0.1:{port}"),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus-redis-exporter; `make tools` installs it");
        Neighbour { child, port }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
