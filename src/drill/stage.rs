//! Everything a drill needs, put up before the load and taken down after it.

use std::f64::consts::GOLDEN_RATIO;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

use super::backend::postgres::Database;
use super::backend::{Backend, BackendShape, Key};
use super::client::{Client, Surroundings, Tuning, name};
use super::counters::Counters;
use super::entry::{self, Entry};
use super::error::DrillError;
use super::options::{ForeignData, Options, Target};
use super::page::Page;
use super::protections::prewarm::{self, Gate};
use super::protections::{Protection, Protections, lease};
use super::scenario::Scenario;
use super::server::PrivateServer;
use super::store::{Holding, MemoryLimit, Store, StoreError};
use super::watch::{Watch, WatchShape};
use super::workload::{Workload, WorkloadShape};
use super::zipf::weight;
use crate::clock::Clock;
use crate::config::{RedisAddress, RedisConfig};

/// Every second key belongs to the batch that was written together.
const BATCH_STRIDE: u64 = 2;
/// A purge leaves every fifth key: it is large, but no flush.
const PURGE_STRIDE: u64 = 5;
/// Under the memory limit half of the data has room.
const SQUEEZE: f64 = 0.5;
/// Share of the requests that ask for what exists nowhere, while somebody does so.
const NOWHERE_SHARE: f64 = 0.2;
/// Keys are warmed until they take this share of the requests together ...
const WARM_SHARE: f64 = 0.98;
/// ... and the service is ready when at least this share would hit.
const READY_SHARE: f64 = 0.95;

/// A cache, a backend and the counters between them. Dropping it ends what is private.
#[derive(Debug)]
pub struct Stage {
    options: Options,
    around: Surroundings,
    page: Page,
    address: RedisConfig,
    /// The memory limit to be put back.
    limit: Mutex<Option<MemoryLimit>>,
    private: Option<PrivateServer>,
}

/// The service: its processes, under the same protections.
#[derive(Debug)]
pub struct Service {
    protections: Protections,
    processes: Vec<Arc<Client>>,
}

/// The service under load; dropping it ends load and workers.
#[derive(Debug)]
pub struct Traffic {
    /// The load.
    pub workload: Workload,
    service: Service,
    tasks: JoinSet<()>,
}

impl Stage {
    /// Puts it up: the server, unless one is given, and an empty cache under a prefix of its own.
    ///
    /// # Errors
    /// When there is no server, it holds somebody else's data, or the database cannot be used.
    pub async fn open(options: &Options) -> Result<Stage, DrillError> {
        let (address, private) = match &options.target {
            Target::Given { server, .. } => (server.clone(), None),
            Target::Private => {
                let server = PrivateServer::start().await?;
                (loopback(server.port()), Some(server))
            }
        };
        let run = format!("{:08x}", rand::random::<u32>());
        let store = Store::connect(&address, &run).await?;
        if let Target::Given { foreign, .. } = &options.target {
            if let Some(what) = store.unfit().await? {
                let address = address.address.to_string();
                return Err(DrillError::Unfit { address, what });
            }
            let refuse = *foreign == ForeignData::Refuse;
            let limits_memory = options.scenario == Scenario::Eviction;
            if (refuse || limits_memory) && store.holding().await? == Holding::Foreign {
                let address = address.address.to_string();
                return Err(match refuse {
                    true => DrillError::ForeignData { address },
                    false => DrillError::WouldEvict { address },
                });
            }
        }
        let database = match &options.backend {
            Some(url) => Some(
                Database::open(url.clone())
                    .await
                    .map_err(|source| DrillError::Database { address: url.to_string(), source })?,
            ),
            None => None,
        };
        let counters = Arc::new(Counters::default());
        let shape = BackendShape {
            keys: options.keys,
            service: options.load_time,
            slow: hot_key(options).zip(options.hot_load_time),
            pool: options.pool,
            queue: options.queue,
            value_bytes: options.value_bytes,
        };
        let backend = Arc::new(Backend::new(shape, database, Arc::clone(&counters)));
        let page = Page::open(Arc::clone(&counters)).await?;
        let (clock, gate) = (Clock::start(), Gate::open());
        let around = Surroundings { store, backend, counters, clock, gate };
        let (options, limit) = (options.clone(), Mutex::default());
        Ok(Stage { options, around, page, address, limit, private })
    }

    /// The service with these protections in every process, as after a start.
    pub fn service(&self, protections: &Protections) -> Service {
        let count = self.options.processes.max(1);
        let processes = (0..count).map(|_| self.client(protections)).collect();
        Service { protections: protections.clone(), processes }
    }

    /// Fills the cache as a service that has run for a while would have it, and what its processes keep of
    /// it. The hot key and the batch that was written together run out when the scenario strikes.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn fill(&self, service: &Service) -> Result<(), StoreError> {
        let Some(first) = service.processes.first() else { return Ok(()) };
        let (options, lead) = (&self.options, self.options.lead());
        let left = |key: Key, rate: f64| match options.scenario {
            Scenario::HotKey if key == 0 => Some(lead),
            // It was written a while ago, with lives as this service gives them; what has run out
            // since was written again.
            Scenario::SynchronizedExpiry if key.is_multiple_of(BATCH_STRIDE) => {
                let left = (lead + first.life(options.ttl)).saturating_sub(options.ttl);
                Some(if left.is_zero() { first.life(options.ttl) } else { left })
            }
            _ => left_of_cycle(key, rate, options.ttl),
        };
        let shape = self.workload_shape();
        let entries =
            (0..).zip(shape.rates()).filter_map(|(key, rate)| Some((key, left(key, rate)?)));
        let entries = entries.map(|(key, left)| first.entry(key, left));
        let remember = |(key, entry): &(Key, Entry)| {
            service.processes.iter().for_each(|process| process.remember(*key, entry));
        };
        first.fill(entries.inspect(remember)).await
    }

    /// Writes entries that are or will be asked for, each with its own remaining life.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn write(
        &self,
        entries: impl Iterator<Item = (Key, Duration)>,
    ) -> Result<(), StoreError> {
        let client = self.client(&Protections::default());
        client.fill(entries.map(|(key, left)| client.entry(key, left))).await
    }

    /// Starts the load on a service.
    ///
    /// # Errors
    /// When the thread that keeps the time cannot be made.
    pub fn load(&self, service: Service) -> std::io::Result<Traffic> {
        let mut tasks = JoinSet::new();
        if service.protections.has(Protection::RefreshWorker) {
            service.processes.iter().for_each(|process| {
                tasks.spawn(Arc::clone(process).work());
            });
        }
        let counters = Arc::clone(&self.around.counters);
        let processes = service.processes.clone();
        let workload = Workload::start(self.workload_shape(), processes, counters)?;
        Ok(Traffic { workload, service, tasks })
    }

    /// Lets the scenario strike.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn strike(&self, traffic: &mut Traffic) -> Result<(), DrillError> {
        match self.options.scenario {
            // Nothing befalls it, or what was filled runs out by itself.
            Scenario::Steady | Scenario::HotKey | Scenario::SynchronizedExpiry => {}
            Scenario::ColdStart => self.empty(traffic).await?,
            Scenario::Invalidation => self.purge(&traffic.service.protections).await?,
            Scenario::Eviction => {
                let before = self.around.store.squeeze(SQUEEZE).await?;
                *self.limit.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
            }
            Scenario::Penetration => traffic.workload.ask_for_nothing(NOWHERE_SHARE),
            Scenario::Avalanche => match &self.private {
                Some(server) => server.freeze()?,
                None => self.around.store.cut(true),
            },
        }
        Ok(())
    }

    /// Ends what the scenario does, if it does not end by itself.
    ///
    /// # Errors
    /// When the server cannot be woken.
    pub fn relent(&self, traffic: &Traffic) -> Result<(), DrillError> {
        match (self.options.scenario, &self.private) {
            (Scenario::Avalanche, Some(server)) => server.wake()?,
            (Scenario::Avalanche, None) => self.around.store.cut(false),
            (Scenario::Penetration, _) => traffic.workload.ask_for_nothing(0.0),
            _ => {}
        }
        Ok(())
    }

    /// What the service has counted.
    pub fn counters(&self) -> &Counters {
        &self.around.counters
    }

    /// The backend.
    pub fn backend(&self) -> &Backend {
        &self.around.backend
    }

    /// The time.
    pub fn clock(&self) -> Clock {
        self.around.clock
    }

    /// Starts to watch it as the exporter does.
    ///
    /// # Errors
    /// When the client for the page cannot be built.
    pub fn watch(&self, shape: WatchShape) -> Result<Watch, DrillError> {
        Watch::start(shape, &self.address, self.page_url(), self.around.clock)
    }

    /// The counters' page.
    pub fn page_url(&self) -> String {
        self.page.url()
    }

    /// The server.
    pub fn address(&self) -> &RedisConfig {
        &self.address
    }

    /// Takes it down: our keys and settings, or the whole private server.
    ///
    /// # Errors
    /// When the given server does not let our keys be removed; they run out by themselves then.
    pub async fn close(self) -> Result<(), StoreError> {
        self.around.backend.end().await;
        if self.private.is_none() {
            let limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(limit) = limit {
                self.around.store.limit_memory(&limit).await?;
            }
            self.around.store.end().await?;
        }
        Ok(())
    }

    fn workload_shape(&self) -> WorkloadShape {
        WorkloadShape {
            rate: self.options.rate,
            arrivals: self.options.arrivals,
            keys: self.options.keys,
            zipf: self.options.zipf,
            hot_share: hot_key(&self.options).map(|_| self.options.hot_share),
            seed: self.options.seed,
        }
    }

    fn client(&self, protections: &Protections) -> Arc<Client> {
        let tuning = Tuning::new(&self.options);
        Arc::new(Client::new(self.around.clone(), tuning, protections.clone()))
    }

    /// Empties the cache; with prewarming, requests are let in again when it is warm.
    async fn empty(&self, traffic: &mut Traffic) -> Result<(), StoreError> {
        let prewarm = traffic.service.protections.has(Protection::Prewarm);
        if prewarm {
            self.around.gate.shut();
        }
        match self.private {
            Some(_) => self.around.store.flush_all().await?,
            None => self.around.store.clear().await.map(|_| ())?,
        }
        if prewarm && let Some(process) = traffic.service.processes.first() {
            let (process, around) = (Arc::clone(process), self.around.clone());
            let (keys, zipf, pool) = (self.options.keys, self.options.zipf, self.options.pool);
            traffic
                .tasks
                .spawn(async move { while !warm_up(&process, &around, keys, zipf, pool).await {} });
        }
        Ok(())
    }

    /// Purges most keys: removes them, or marks them as old where old ones may be served.
    async fn purge(&self, protections: &Protections) -> Result<(), StoreError> {
        let keys =
            (0..u64::from(self.options.keys)).filter(|key| !key.is_multiple_of(PURGE_STRIDE));
        let names: Vec<String> = keys.map(name).collect();
        if protections.has(Protection::StaleWhileRevalidate) {
            let now = self.around.clock.now();
            let (offset, bytes) = entry::new_deadline(now);
            return self.around.store.overwrite(&names, offset, &bytes).await;
        }
        if protections.has(Protection::Lease) {
            return lease::invalidate(&self.around.store, &names).await;
        }
        self.around.store.delete(&names).await.map(|_| ())
    }
}

/// Warms the popular keys and opens the gate if enough of the requests would hit; whether it does.
async fn warm_up(
    process: &Arc<Client>,
    around: &Surroundings,
    keys: u32,
    zipf: f64,
    pool: usize,
) -> bool {
    let weights: Vec<f64> = (0..keys).map(|rank| weight(rank, zipf)).collect();
    let enough = WARM_SHARE * weights.iter().sum::<f64>();
    let mut covered = 0.0;
    let popular = (0..).zip(&weights).take_while(|(_, weight)| {
        covered += *weight;
        covered - *weight < enough
    });
    let popular: Vec<Key> = popular.map(|(key, _)| key).collect();
    prewarm::warm(popular, pool, |key| {
        let process = Arc::clone(process);
        async move { process.warm(key).await }
    })
    .await;
    let mut cached = Vec::with_capacity(weights.len());
    for (key, weight) in (0..).zip(&weights) {
        let found = around.store.get(&name(key)).await;
        cached.push((*weight, found.is_ok_and(|bytes| bytes.is_some())));
    }
    let ratio = prewarm::expected_hit_ratio(cached).unwrap_or(1.0);
    around.gate.admit(ratio, READY_SHARE)
}

/// The key that has a share of its own.
fn hot_key(options: &Options) -> Option<Key> {
    (options.scenario == Scenario::HotKey).then_some(0)
}

/// The life that an entry has left in a service that has run for a while, which asks for it so many times
/// a second; `None` while there is none. An entry lives, then is gone until somebody asks: that cycle's
/// moments are equally likely. What the drill never asks for is other services' data, and there.
fn left_of_cycle(key: Key, rate: f64, ttl: Duration) -> Option<Duration> {
    let ttl = ttl.as_secs_f64();
    let gone = if rate > 0.0 { 1.0 / rate } else { 0.0 };
    let left = ttl - evenly(key) * (ttl + gone);
    (left > 0.0).then(|| Duration::from_secs_f64(left))
}

/// A share of a whole, above 0 and below 1. Multiples of the golden ratio fall evenly, however many there
/// are, and neighbours in popularity fall far apart.
fn evenly(key: Key) -> f64 {
    ((key + 1) as f64 / GOLDEN_RATIO).fract()
}

fn loopback(port: u16) -> RedisConfig {
    RedisConfig {
        address: RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port },
        username: None,
        password: None,
        tls: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the most popular keys, and of all, each tenth holds a tenth, to within two.
    #[test]
    fn keys_are_spread_evenly_however_many_there_are() {
        for count in [20, 1000, 7919] {
            let mut tenths = [0_u64; 10];
            for key in 0..count {
                let share = evenly(key);
                assert!(share > 0.0 && share < 1.0, "key {key}: {share}");
                tenths[(share * 10.0) as usize] += 1;
            }
            assert!(tenths.iter().all(|n| n.abs_diff(count / 10) <= 2), "{count} keys: {tenths:?}");
        }
    }
    /// Lives of 10 s, and each asked for again after 10 s on average: half of them are there, each for half
    /// of its life on average. What is always asked for is there, and what is never asked for.
    #[test]
    fn entries_are_there_as_often_as_they_are_asked_for() {
        let ttl = Duration::from_secs(10);
        let left: Vec<_> = (0..1000).filter_map(|key| left_of_cycle(key, 0.1, ttl)).collect();
        assert!(left.len().abs_diff(500) <= 2, "{}", left.len());
        let mean = left.iter().sum::<Duration>().as_secs_f64() / left.len() as f64;
        assert!((mean - 5.0).abs() < 0.1, "{mean}");
        for rate in [1e9, 0.0] {
            assert_eq!((0..1000).filter_map(|key| left_of_cycle(key, rate, ttl)).count(), 1000);
        }
    }
}
