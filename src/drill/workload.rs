//! Open-loop load: requests arrive when they are due, whether or not earlier ones were answered.
//!
//! A loop that waits for answers slows down exactly when the service does, and its latencies leave
//! out the requests that it did not send (G. Tene's "coordinated omission"). So a thread of its own
//! keeps the time, and latency counts from the planned arrival.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rand::distr::Distribution;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::backend::Key;
use super::client::Client;
use super::counters::Counters;
use super::zipf::{Zipf, weight};
use crate::elementary::ln;

/// The thread sleeps at least that long, so that at high rates one waking serves several arrivals.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);
/// Requests under way at once; each takes some kilobytes. An arrival above that is not sent and
/// counted as such: the machine's memory is not part of the drill.
const MOST_UNDER_WAY: usize = 100_000;
/// Keys above this one exist nowhere.
const NOWHERE: Key = 1 << 40;
/// One for ten real keys: so many that none is hot, so few that each is asked for again.
const KEYS_A_GHOST: u32 = 10;

/// Two arrivals that are further apart, seconds: the second one is after the end of every drill.
const LONGEST_GAP: f64 = 86_400.0;

/// How requests are spread over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Independent of each other, as those of many users.
    Poisson,
    /// Evenly.
    Constant,
}

/// What the load looks like.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadShape {
    /// Requests a second; above zero.
    pub rate: f64,
    /// How they are spread.
    pub arrivals: Arrivals,
    /// Keys asked for.
    pub keys: u32,
    /// Exponent of Zipf's law over the keys.
    pub zipf: f64,
    /// Share of the requests that ask for key 0, 0 to 1; the others then share the rest by Zipf's
    /// law. `None` when key 0 is a key like the others.
    pub hot_share: Option<f64>,
    /// Seed of times and keys.
    pub seed: u64,
}

impl WorkloadShape {
    /// Requests a second for each key, in the order of the keys.
    pub fn rates(&self) -> impl Iterator<Item = f64> {
        let hot = self.hot_share.map(|share| share * self.rate);
        let ranks = 0..self.ranks();
        let total: f64 = ranks.clone().map(|rank| weight(rank, self.zipf)).sum();
        let others = (self.rate - hot.unwrap_or(0.0)) / total;
        hot.into_iter().chain(ranks.map(move |rank| others * weight(rank, self.zipf)))
    }

    /// Keys that Zipf's law is over.
    fn ranks(&self) -> u32 {
        self.keys.saturating_sub(self.hot_share.is_some().into())
    }
}

/// The load while it runs; dropping it ends it.
#[derive(Debug)]
pub struct Workload {
    shared: Arc<Shared>,
    pacer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    /// Share of the requests for keys that exist nowhere, as the bits of an `f64`.
    nowhere_share: AtomicU64,
    under_way: AtomicUsize,
    planned: AtomicU64,
    not_sent: AtomicU64,
}

/// One request to be sent.
struct Arrival {
    due: Instant,
    key: Key,
}

impl Workload {
    /// Starts the load: the requests are dealt to the processes in turn.
    ///
    /// # Errors
    /// When the thread that keeps the time cannot be made.
    pub fn start(
        shape: WorkloadShape,
        processes: Vec<Arc<Client>>,
        counters: Arc<Counters>,
    ) -> std::io::Result<Workload> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            nowhere_share: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            planned: AtomicU64::new(0),
            not_sent: AtomicU64::new(0),
        });
        let pacer =
            Pacer { processes, counters, shared: Arc::clone(&shared), runtime: Handle::current() };
        let thread = std::thread::Builder::new().name("pacer".to_owned());
        let pacer = thread.spawn(move || pacer.run(&shape))?;
        Ok(Workload { shared, pacer: Some(pacer) })
    }

    /// From now on this share (0 to 1) of the requests asks for keys that exist nowhere.
    pub fn ask_for_nothing(&self, share: f64) {
        self.shared.nowhere_share.store(share.to_bits(), Ordering::Relaxed);
    }

    /// Requests that were due so far, sent or not.
    pub fn planned(&self) -> u64 {
        self.shared.planned.load(Ordering::Relaxed)
    }

    /// Requests that were due but not sent, because too many were under way.
    pub fn not_sent(&self) -> u64 {
        self.shared.not_sent.load(Ordering::Relaxed)
    }

    /// Ends the load and waits for the answers that are still out, at most for `limit`; how many
    /// were then given up.
    pub async fn finish(&self, limit: Duration) -> usize {
        self.shared.stop.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + limit;
        loop {
            let under_way = self.shared.under_way.load(Ordering::Acquire);
            if under_way == 0 || Instant::now() >= deadline {
                return under_way;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(pacer) = self.pacer.take() {
            pacer.thread().unpark();
            // It has no result, and a panic in it was already told by the hook.
            let _ = pacer.join();
        }
    }
}

/// The thread that keeps the time.
struct Pacer {
    processes: Vec<Arc<Client>>,
    counters: Arc<Counters>,
    shared: Arc<Shared>,
    runtime: Handle,
}

impl Pacer {
    fn run(self, shape: &WorkloadShape) {
        let mut rng = StdRng::seed_from_u64(shape.seed);
        let zipf = Zipf::new(shape.ranks(), shape.zipf);
        let mut due = Instant::now();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let mut batch = Vec::new();
            while due <= now {
                let key = self.key(shape, &zipf, &mut rng);
                batch.push(Arrival { due, key });
                due += gap(shape, &mut rng);
            }
            self.send(batch);
            std::thread::park_timeout(due.saturating_duration_since(now).max(SHORTEST_SLEEP));
        }
    }

    fn key(&self, shape: &WorkloadShape, zipf: &Zipf, rng: &mut StdRng) -> Key {
        let nowhere_share = f64::from_bits(self.shared.nowhere_share.load(Ordering::Relaxed));
        let dice: f64 = rng.random();
        if dice < nowhere_share {
            return NOWHERE + Key::from(rng.random_range(0..(shape.keys / KEYS_A_GHOST).max(1)));
        }
        match shape.hot_share {
            Some(share) if rng.random::<f64>() < share => 0,
            Some(_) => (Key::from(zipf.sample(rng)) + 1).min(Key::from(shape.keys.max(1)) - 1),
            None => Key::from(zipf.sample(rng)),
        }
    }

    /// Hands a batch to the runtime, where each request becomes a task of its own.
    fn send(&self, mut batch: Vec<Arrival>) {
        let first = self.shared.planned.fetch_add(batch.len() as u64, Ordering::Relaxed);
        let under_way = self.shared.under_way.load(Ordering::Relaxed);
        let room = MOST_UNDER_WAY.saturating_sub(under_way);
        if batch.len() > room {
            self.shared.not_sent.fetch_add((batch.len() - room) as u64, Ordering::Relaxed);
            batch.truncate(room);
        }
        if batch.is_empty() {
            return;
        }
        self.shared.under_way.fetch_add(batch.len(), Ordering::Relaxed);
        let processes = self.processes.clone();
        let (counters, shared) = (Arc::clone(&self.counters), Arc::clone(&self.shared));
        self.runtime.spawn(async move {
            for (turn, arrival) in (first as usize..).zip(batch) {
                let Some(process) = processes.get(turn % processes.len().max(1)) else { return };
                let (counters, shared) = (Arc::clone(&counters), Arc::clone(&shared));
                tokio::spawn(request(arrival, Arc::clone(process), counters, shared));
            }
        });
    }
}

async fn request(
    arrival: Arrival,
    process: Arc<Client>,
    counters: Arc<Counters>,
    shared: Arc<Shared>,
) {
    counters.requests.up();
    counters.lateness.record(arrival.due.elapsed());
    if process.get(arrival.key).await.is_err() {
        counters.failed.up();
    }
    counters.latency.record(arrival.due.elapsed());
    shared.under_way.fetch_sub(1, Ordering::Release);
}

/// The time to the next arrival.
fn gap(shape: &WorkloadShape, rng: &mut StdRng) -> Duration {
    let mean = 1.0 / shape.rate;
    let seconds = match shape.arrivals {
        Arrivals::Constant => mean,
        // 1 - u lies in (0, 1], so the logarithm is finite.
        Arrivals::Poisson => -mean * ln(1.0 - rng.random::<f64>()),
    };
    Duration::from_secs_f64(seconds.min(LONGEST_GAP))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(arrivals: Arrivals) -> WorkloadShape {
        WorkloadShape { rate: 500.0, arrivals, keys: 10, zipf: 1.0, hot_share: None, seed: 1 }
    }

    fn gaps(arrivals: Arrivals, count: usize) -> Vec<f64> {
        let mut rng = StdRng::seed_from_u64(3);
        let shape = shape(arrivals);
        (0..count).map(|_| gap(&shape, &mut rng).as_secs_f64()).collect()
    }

    #[test]
    fn constant_arrivals_are_even() {
        assert_eq!(gaps(Arrivals::Constant, 3), [0.002; 3]);
    }

    #[test]
    fn gaps_of_poisson_arrivals_are_exponential() {
        let count = 100_000;
        let gaps = gaps(Arrivals::Poisson, count);
        let mean = gaps.iter().sum::<f64>() / count as f64;
        // The mean of n exponentials has a standard deviation of 1/(rate sqrt n).
        assert!((mean - 0.002).abs() < 4.0 * 0.002 / (count as f64).sqrt(), "{mean}");
        // Half of them are below ln(2)/rate.
        let median = std::f64::consts::LN_2 * 0.002;
        let below = gaps.iter().filter(|gap| **gap < median).count() as f64 / count as f64;
        assert!((below - 0.5).abs() < 4.0 * 0.5 / (count as f64).sqrt(), "{below}");
    }
    /// Four keys by `1 / rank`; then the first with half of the load, and the rest of it over three.
    #[test]
    fn rates_of_keys_are_shares_of_the_load() {
        let rates = |hot_share| {
            let shape = WorkloadShape { keys: 4, hot_share, ..shape(Arrivals::Poisson) };
            shape.rates().map(f64::round).collect::<Vec<_>>()
        };
        assert_eq!(rates(None), [240.0, 120.0, 80.0, 60.0]);
        assert_eq!(rates(Some(0.5)), [250.0, 136.0, 68.0, 45.0]);
    }
}
