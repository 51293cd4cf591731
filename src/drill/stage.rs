//! Everything a drill needs, put up before the load and taken down after it.

use std::sync::Arc;
use std::time::Duration;

use super::backend::{Backend, BackendShape, Key};
use super::client::{Client, ClientShape, name};
use super::counters::Counters;
use super::error::DrillError;
use super::options::{ForeignData, Options, Target};
use super::page::Page;
use super::protections::Protections;
use super::protections::mutex::MutexTimes;
use super::scenario::Scenario;
use super::server::PrivateServer;
use super::store::{Holding, Store, StoreError};
use super::workload::{Workload, WorkloadShape};
use crate::clock::Clock;
use crate::config::{RedisAddress, RedisConfig};

/// Every second key belongs to the batch that was written together.
const BATCH_STRIDE: u64 = 2;

/// A cache, a backend and the counters between them. Dropping it ends what is private.
#[derive(Debug)]
pub struct Stage {
    options: Options,
    page: Page,
    store: Store,
    backend: Arc<Backend>,
    counters: Arc<Counters>,
    clock: Clock,
    address: RedisConfig,
    private: Option<PrivateServer>,
}

impl Stage {
    /// Puts it up: the server, unless one is given, and an empty cache under a prefix of its own.
    ///
    /// # Errors
    /// When there is no server, or it holds somebody else's data.
    pub async fn open(options: &Options) -> Result<Stage, DrillError> {
        let private = match &options.target {
            Target::Private => Some(PrivateServer::start().await?),
            Target::Given { .. } => None,
        };
        let address = match (&options.target, &private) {
            (Target::Given { server, .. }, _) => server.clone(),
            (Target::Private, server) => loopback(server.as_ref().map_or(0, PrivateServer::port)),
        };
        let run = format!("{:08x}", rand::random::<u32>());
        let store = Store::connect(&address, &run).await?;
        if let Target::Given { foreign: ForeignData::Refuse, .. } = &options.target
            && store.holding().await? == Holding::Foreign
        {
            return Err(DrillError::ForeignData { address: address.address.to_string() });
        }
        let counters = Arc::new(Counters::default());
        let shape = BackendShape {
            keys: options.keys,
            service: options.load_time,
            slow: hot_key(options).zip(options.hot_load_time),
            pool: options.pool,
            queue: options.queue,
            value_bytes: options.value_bytes,
        };
        let backend = Arc::new(Backend::new(shape, Arc::clone(&counters)));
        let page = Page::open(Arc::clone(&counters)).await?;
        let (options, clock) = (options.clone(), Clock::start());
        Ok(Stage { options, page, store, backend, counters, clock, address, private })
    }

    /// One process of the service.
    pub fn client(&self, protections: &Protections) -> Arc<Client> {
        let longest = self.options.hot_load_time.unwrap_or_default().max(self.options.load_time);
        // Guidance: three times the p99 of the load; the loads here take their mean and wait.
        let lock_ttl = self.options.lock_ttl.unwrap_or(longest * 3);
        let patience = (longest * 10).max(Duration::from_secs(2));
        let shape = ClientShape { ttl: self.options.ttl, mutex: MutexTimes { lock_ttl, patience } };
        Arc::new(Client::new(
            self.store.clone(),
            Arc::clone(&self.backend),
            Arc::clone(&self.counters),
            self.clock,
            shape,
            protections,
        ))
    }

    /// Fills the cache as a service that has run for a while would have it: lives spread evenly.
    /// The hot key outlives the calm, and a batch written together runs out together after it.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn fill(&self, client: &Client) -> Result<(), StoreError> {
        let options = &self.options;
        let count = u64::from(options.keys);
        let life = |key: Key| match options.scenario {
            Scenario::HotKey if key == 0 => options.ttl + options.duration,
            Scenario::SynchronizedExpiry if key.is_multiple_of(BATCH_STRIDE) => options.lead(),
            // A step that is coprime to most counts mixes popular and unpopular keys.
            _ => options.ttl.mul_f64(((key * 7919) % count + 1) as f64 / count as f64),
        };
        client.fill((0..count).map(|key| (key, life(key)))).await
    }

    /// Starts the load with these protections in every process.
    ///
    /// # Errors
    /// When the thread that keeps the time cannot be made.
    pub fn load(&self, protections: &Protections) -> std::io::Result<Workload> {
        let processes = (0..self.options.processes.max(1)).map(|_| self.client(protections));
        let shape = WorkloadShape {
            rate: self.options.rate,
            arrivals: self.options.arrivals,
            keys: self.options.keys,
            zipf: self.options.zipf,
            hot_share: hot_key(&self.options).map(|_| self.options.hot_share),
            seed: self.options.seed,
        };
        Workload::start(shape, processes.collect(), Arc::clone(&self.counters))
    }

    /// Lets the scenario strike.
    ///
    /// # Errors
    /// When Redis does not answer or refuses.
    pub async fn strike(&self) -> Result<(), StoreError> {
        match self.options.scenario {
            Scenario::Steady => Ok(()),
            // The batch runs out by itself.
            Scenario::SynchronizedExpiry => Ok(()),
            Scenario::HotKey => self.store.expire_now(&name(0)).await,
            Scenario::ColdStart if self.private.is_some() => self.store.flush_all().await,
            Scenario::ColdStart => self.store.clear().await.map(|_| ()),
        }
    }

    /// What the service has counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The backend.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The counters' page.
    pub fn page_url(&self) -> String {
        self.page.url()
    }

    /// The server.
    pub fn address(&self) -> &RedisConfig {
        &self.address
    }

    /// Takes it down: our keys, or the whole private server.
    ///
    /// # Errors
    /// When the given server does not let our keys be removed; they run out by themselves then.
    pub async fn close(self) -> Result<(), StoreError> {
        if self.private.is_none() {
            self.store.clear().await?;
        }
        Ok(())
    }
}

/// The key that has a share of its own.
fn hot_key(options: &Options) -> Option<Key> {
    (options.scenario == Scenario::HotKey).then_some(0)
}

fn loopback(port: u16) -> RedisConfig {
    RedisConfig {
        address: RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port },
        username: None,
        password: None,
        tls: None,
    }
}
