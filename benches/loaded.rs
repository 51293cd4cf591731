//! What the TTL sampler costs a busy server's clients: the p99 of an open-loop load that keeps the
//! server half busy, with the sampler on and off, in pairs of turns within one run.
//!
//! `cargo bench --bench loaded` prints the table. Two exporters watch the server, one of which
//! samples nothing; in each turn one of them is stopped, so that all else stays the same. They run
//! with the priority that the shipped unit gives them, for server, clients and exporter share the
//! machine here.
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

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use support::exporter::Exporter;
use support::redis::Redis;

/// Pairs of turns, each with the sampler on and off in alternating order.
const PAIRS: usize = 40;
/// One turn.
const TURN: Duration = Duration::from_secs(4);
/// What is left out at the start of a turn: the exporter that wakes up catches up with its poll.
const SETTLE: Duration = Duration::from_secs(1);
/// Keys of the server, all with a TTL of an hour.
const KEYS: u64 = 200_000;
/// `Nice=` of `deploy/stampede-exporter.service`.
const NICE: &str = "10";
/// Connections of the load.
const CONNECTIONS: usize = 8;
/// The share of a core that the server is to be busy.
const BUSY: f64 = 0.5;

fn main() {
    let redis = Redis::start();
    let fill = "for i = ARGV[1], ARGV[1] + 999 do redis.call('SET', 'k:' .. i, i, 'EX', 3600) end";
    for i in (0..KEYS).step_by(1000) {
        redis.cli(&["EVAL", fill, "0", &i.to_string()]);
    }
    let samples = watch(&redis, "");
    let does_not = watch(&redis, "    ttl: { keys_per_second: 0 }\n");
    let exporters = [&samples, &does_not];

    signal(&samples, "STOP");
    let mut rate = 20_000.0;
    for _ in 0..4 {
        let busy = Turn::run(&redis, rate, TURN / 2).busy;
        rate *= (BUSY / busy).clamp(0.5, 2.0);
    }
    println!("{KEYS} keys; {rate:.0} requests a second on {CONNECTIONS} connections");

    let mut turns = [Vec::new(), Vec::new()];
    for pair in 0..PAIRS {
        for which in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
            signal(exporters[which], "CONT");
            signal(exporters[1 - which], "STOP");
            turns[which].push(Turn::run(&redis, rate, TURN));
        }
    }
    println!("{:<22} {:>10} {:>10} {:>12}", "medians of the turns", "p50", "p99", "server busy");
    for (name, turns) in ["sampler on", "sampler off"].iter().zip(&turns) {
        println!(
            "{name:<22} {:>7.1} us {:>7.1} us {:>11.1} %",
            median(turns.iter().map(|t| t.p50)) * 1e6,
            median(turns.iter().map(|t| t.p99)) * 1e6,
            100.0 * median(turns.iter().map(|t| t.busy)),
        );
    }
    let ratio = |of: fn(&Turn) -> f64| {
        let mut ratios: Vec<f64> =
            turns[0].iter().zip(&turns[1]).map(|(on, off)| of(on) / of(off)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    };
    for (name, of) in [("p50", (|t: &Turn| t.p50) as fn(&Turn) -> f64), ("p99", |t| t.p99)] {
        let ratios = ratio(of);
        let (low, high) = median_interval(ratios.len());
        println!(
            "{name}, on over off, median of {PAIRS} pairs: {:.3} (95 % interval {:.3} to {:.3})",
            ratios[ratios.len() / 2],
            ratios[low],
            ratios[high]
        );
    }
    signal(&samples, "CONT");
    signal(&does_not, "CONT");
}

/// An exporter with these further lines below its cache.
fn watch(redis: &Redis, lines: &str) -> Exporter {
    let file = redis.dir.path().join(format!("exporter-{}.yml", lines.len()));
    let text = format!("caches:\n  - name: c\n    redis: {{ addr: \"{}\" }}\n{lines}", redis.url());
    std::fs::write(&file, text).expect("the configuration");
    let exporter = Exporter::start(&["--config.file", file.to_str().expect("a path")]);
    let up = format!("stampede_redis_up{{cache=\"c\",node=\"127.0.0.1:{}\"}}", redis.port);
    exporter.wait_for_metric(&up, |up| up == 1.0);
    let niced = support::run("renice", &["-n", NICE, "-p", &exporter.pid().to_string()]);
    assert!(niced.status.success());
    exporter
}

fn signal(exporter: &Exporter, name: &str) {
    let sent = support::run("kill", &[&format!("-{name}"), &exporter.pid().to_string()]);
    assert!(sent.status.success());
}

/// What one turn showed.
struct Turn {
    /// Seconds from a request's due time to its answer.
    p50: f64,
    p99: f64,
    /// Share of one core that the server's process took.
    busy: f64,
}

impl Turn {
    /// Sends Poisson arrivals, whether or not earlier ones were answered.
    fn run(redis: &Redis, rate: f64, length: Duration) -> Turn {
        let start = Instant::now();
        let lanes: Vec<Lane> = (0..CONNECTIONS).map(|_| Lane::open(redis.port, start)).collect();
        let mut random = SmallRng::seed_from_u64(start.elapsed().as_nanos() as u64);
        let (cpu, mut due, mut sent) = (cpu_seconds(redis.pid()), 0.0, 0usize);
        let mut batches = vec![Vec::new(); CONNECTIONS];
        while due < length.as_secs_f64() {
            let now = start.elapsed().as_secs_f64();
            while due <= now {
                let lane = sent % CONNECTIONS;
                let key = format!("k:{}", random.random_range(0..KEYS));
                let command = format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
                lanes[lane].due.lock().unwrap().push_back(due);
                batches[lane].extend_from_slice(command.as_bytes());
                sent += 1;
                due -= (1.0 - random.random::<f64>()).ln() / rate;
            }
            for (lane, batch) in lanes.iter().zip(&mut batches) {
                (&lane.stream).write_all(batch).expect("requests are sent");
                batch.clear();
            }
            thread::sleep(Duration::from_micros(50));
        }
        let busy = (cpu_seconds(redis.pid()) - cpu) / start.elapsed().as_secs_f64();
        let mut waits: Vec<f64> = lanes.into_iter().flat_map(Lane::close).collect();
        waits.sort_by(f64::total_cmp);
        let quantile = |q: f64| waits[((waits.len() - 1) as f64 * q) as usize];
        Turn { p50: quantile(0.5), p99: quantile(0.99), busy }
    }
}

/// One connection and the thread that reads its answers.
struct Lane {
    stream: TcpStream,
    due: Arc<Mutex<VecDeque<f64>>>,
    reader: thread::JoinHandle<Vec<f64>>,
}

impl Lane {
    fn open(port: u16, start: Instant) -> Lane {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        let due: Arc<Mutex<VecDeque<f64>>> = Arc::default();
        let reader = {
            let (mut stream, due) =
                (stream.try_clone().expect("a second handle"), Arc::clone(&due));
            thread::spawn(move || {
                let (mut waits, mut buffer, mut ends) = (Vec::new(), [0; 1 << 16], 0usize);
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    let now = start.elapsed().as_secs_f64();
                    // An answer that found its key has two line ends.
                    ends += buffer[..n].iter().filter(|byte| **byte == b'\n').count();
                    let mut due = due.lock().unwrap();
                    for at in due.drain(..ends / 2) {
                        if at >= SETTLE.as_secs_f64() {
                            waits.push(now - at);
                        }
                    }
                    ends %= 2;
                }
                waits
            })
        };
        Lane { stream, due, reader }
    }

    /// Waits for the last answers and gives the waits, seconds.
    fn close(self) -> Vec<f64> {
        self.stream.shutdown(std::net::Shutdown::Write).expect("the end of the requests");
        self.reader.join().expect("the reader")
    }
}

/// Processor time of a process so far, seconds.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("its state");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<f64>().expect("clock ticks");
    (ticks(11) + ticks(12)) / 100.0
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The ranks of sorted values between which their median lies with 95 %, by the sign test.
fn median_interval(n: usize) -> (usize, usize) {
    let half = 1.96 * (n as f64).sqrt() / 2.0;
    let low = (n as f64 / 2.0 - half).floor().max(0.0) as usize;
    (low, n - 1 - low)
}
