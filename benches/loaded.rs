//! What the TTL sampler costs a busy server's clients: the p99 of an open-loop load that keeps the
//! server half busy, with the sampler on and off, in pairs of turns within one run.
//!
//! `cargo bench --bench loaded` prints the table, `-- 220` of so many pairs. Two exporters watch the server, one of which
//! samples nothing; in each turn one of them is stopped, so that all else stays the same. The
//! server has one core and the load another; the exporters run on either, with the priority that
//! the shipped unit gives them.
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
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use support::exporter::Exporter;
use support::redis::Redis;

/// Pairs of turns, each with the sampler on and off in alternating order, where no number is given.
const PAIRS: usize = 80;
/// One turn.
const TURN: Duration = Duration::from_millis(2500);
/// What is left out at the start of a turn: the exporter that wakes up catches up with its poll.
const SETTLE: Duration = Duration::from_millis(500);
/// Keys of the server, all with a TTL of an hour.
const KEYS: u64 = 200_000;
/// `Nice=` of `deploy/stampede-exporter.service`.
const NICE: &str = "10";
/// Connections of the load.
const CONNECTIONS: usize = 8;
/// The share of a core that the server is to be busy.
const BUSY: f64 = 0.5;
/// How finely waits are told apart, seconds, and up to which one.
const STEP: f64 = 0.5e-6;
const STEPS: usize = 20_000;
/// Draws of the bootstrap.
const DRAWS: usize = 1000;

fn main() {
    let pairs = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(PAIRS);
    let redis = Redis::start();
    let fill = "for i = ARGV[1], ARGV[1] + 999 do redis.call('SET', 'k:' .. i, i, 'EX', 3600) end";
    for i in (0..KEYS).step_by(1000) {
        redis.cli(&["EVAL", fill, "0", &i.to_string()]);
    }
    let samples = watch(&redis, "");
    let does_not = watch(&redis, "    ttl: { keys_per_second: 0 }\n");
    let exporters = [&samples, &does_not];

    pin(redis.pid(), "1");
    pin(std::process::id(), "0");

    signal(&samples, "STOP");
    let mut rate = 20_000.0;
    for _ in 0..4 {
        let busy = Turn::run(&redis, rate, TURN / 2).busy;
        rate *= (BUSY / busy).clamp(0.5, 2.0);
    }
    println!("{KEYS} keys; {rate:.0} requests a second on {CONNECTIONS} connections");

    let mut turns = [Vec::new(), Vec::new()];
    for pair in 0..pairs {
        for which in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
            signal(exporters[which], "CONT");
            signal(exporters[1 - which], "STOP");
            turns[which].push(Turn::run(&redis, rate, TURN));
        }
    }
    println!("{:<12} {:>10} {:>10} {:>12}", "", "p50", "p99", "server busy");
    for (name, turns) in ["sampler on", "sampler off"].iter().zip(&turns) {
        let busy: f64 = turns.iter().map(|turn| turn.busy).sum();
        println!(
            "{name:<12} {:>7.1} us {:>7.1} us {:>11.1} %",
            quantile(turns, 0.5),
            quantile(turns, 0.99),
            100.0 * busy / pairs as f64,
        );
    }
    let [on, off] = &turns;
    for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
        let ratio = quantile(on, q) / quantile(off, q);
        let (low, high) = interval(on, off, q);
        println!("{name}, on over off: {ratio:.3} (95 % interval {low:.3} to {high:.3})");
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

/// Holds a process to one core: where the scheduler moves server and load about, the same turn
/// twice differs by more than what is measured.
fn pin(pid: u32, core: &str) {
    let pinned = support::run("taskset", &["-pc", core, &pid.to_string()]);
    assert!(pinned.status.success(), "{pinned:?}");
}

fn signal(exporter: &Exporter, name: &str) {
    let sent = support::run("kill", &[&format!("-{name}"), &exporter.pid().to_string()]);
    assert!(sent.status.success());
}

/// What one turn showed.
struct Turn {
    /// How many requests waited this long for their answer, in steps of [`STEP`];
    /// longer ones are counted last.
    waits: Vec<u32>,
    /// Share of one core that the server's process took.
    busy: f64,
}

impl Turn {
    /// Sends Poisson arrivals, whether or not earlier ones were answered. So a wait counts from the
    /// sending and leaves nothing out, and a pause of the load itself is not taken for the server's.
    fn run(redis: &Redis, rate: f64, length: Duration) -> Turn {
        let mut lanes: Vec<Lane> = (0..CONNECTIONS).map(|_| Lane::open(redis.port)).collect();
        let (start, cpu) = (Instant::now(), cpu_seconds(redis.pid()));
        let mut random = SmallRng::from_rng(&mut rand::rng());
        let (mut due, mut asked, mut waits) = (0.0, 0usize, vec![0; STEPS]);
        while due < length.as_secs_f64() || lanes.iter().any(|lane| !lane.sent.is_empty()) {
            let now = start.elapsed().as_secs_f64();
            while due <= now && due < length.as_secs_f64() {
                lanes[asked % CONNECTIONS].ask(random.random_range(0..KEYS), now);
                asked += 1;
                due -= (1.0 - random.random::<f64>()).ln() / rate;
            }
            for lane in &mut lanes {
                lane.send();
                lane.receive(start, &mut waits);
            }
            // The exporter may have this core, as it may have the server's.
            thread::yield_now();
        }
        let busy = (cpu_seconds(redis.pid()) - cpu) / start.elapsed().as_secs_f64();
        Turn { waits, busy }
    }
}

/// The wait that this share of the requests of all turns did not exceed, microseconds. All waits are
/// taken together: the p99 of one turn hangs on whether the machine stood still once for a moment.
fn quantile<'a>(turns: impl IntoIterator<Item = &'a Turn>, q: f64) -> f64 {
    let mut waits = vec![0u64; STEPS];
    for turn in turns {
        waits.iter_mut().zip(&turn.waits).for_each(|(sum, n)| *sum += u64::from(*n));
    }
    let rank = (waits.iter().sum::<u64>() as f64 * q) as u64;
    let mut seen = 0;
    let step = waits.iter().position(|n| {
        seen += n;
        seen > rank
    });
    step.expect("a request") as f64 * STEP * 1e6
}

/// Between which the ratio of the quantiles lies with 95 %: the bootstrap, which draws pairs of turns.
fn interval(on: &[Turn], off: &[Turn], q: f64) -> (f64, f64) {
    let mut random = SmallRng::seed_from_u64(1);
    let mut ratios: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let pairs: Vec<usize> = on.iter().map(|_| random.random_range(0..on.len())).collect();
            let of = |turns: &[Turn]| quantile(pairs.iter().map(|pair| &turns[*pair]), q);
            of(on) / of(off)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    (ratios[DRAWS / 40], ratios[DRAWS - 1 - DRAWS / 40])
}

/// One connection of the load, which waits neither to send nor to receive.
struct Lane {
    stream: TcpStream,
    /// When the requests were sent that have no answer yet, seconds from the start.
    sent: VecDeque<f64>,
    batch: Vec<u8>,
    buffer: Box<[u8]>,
    /// Line ends seen of the answer that is not whole yet.
    ends: usize,
}

impl Lane {
    fn open(port: u16) -> Lane {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        stream.set_nonblocking(true).expect("no waiting");
        let buffer = vec![0; 1 << 16].into();
        Lane { stream, sent: VecDeque::new(), batch: Vec::new(), buffer, ends: 0 }
    }

    fn ask(&mut self, key: u64, now: f64) {
        let key = format!("k:{key}");
        write!(self.batch, "*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()).expect("memory");
        self.sent.push_back(now);
    }

    fn send(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        match self.stream.write(&self.batch) {
            Ok(n) => drop(self.batch.drain(..n)),
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
    }

    /// Counts the waits of the answers that are there.
    fn receive(&mut self, start: Instant, waits: &mut [u32]) {
        if self.sent.is_empty() {
            return;
        }
        match self.stream.read(&mut self.buffer) {
            Ok(n) => {
                assert_ne!(n, 0, "the server hung up");
                let now = start.elapsed().as_secs_f64();
                // An answer that found its key has two line ends.
                self.ends += self.buffer[..n].iter().filter(|byte| **byte == b'\n').count();
                for at in self.sent.drain(..self.ends / 2) {
                    if at >= SETTLE.as_secs_f64() {
                        waits[(((now - at) / STEP) as usize).min(STEPS - 1)] += 1;
                    }
                }
                self.ends %= 2;
            }
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
    }
}

/// Processor time of a process so far, seconds.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("its state");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<f64>().expect("clock ticks");
    (ticks(11) + ticks(12)) / 100.0
}
