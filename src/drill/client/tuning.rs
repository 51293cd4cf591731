//! Times and sizes of the protections, each with the reason for its default.

use std::time::Duration;

use crate::drill::options::Options;
use crate::drill::protections::bulkhead::Bulkhead;
use crate::drill::protections::lease::LeaseTimes;
use crate::drill::protections::mutex::MutexTimes;
use crate::drill::protections::near_cache::NearShape;
use crate::drill::protections::refresh_worker::WorkerShape;

/// Locks, leases and claims live three loads: the usual guidance is three times the load's p99, and
/// the loads here differ only by their waiting.
const LOADS_A_LOCK: u32 = 3;
/// Who waits for another one's load gives up after ten loads, but not within two seconds.
const LOADS_OF_PATIENCE: u32 = 10;
const LEAST_PATIENCE: Duration = Duration::from_secs(2);
/// The second copy outlives the entry ten times over.
const COPY_LIVES: u32 = 10;
/// The last fifth of the life is near the deadline: enough for a load, late enough to use the entry.
const NEAR: f64 = 0.2;
/// A process looks for what is due ten times a second.
const LOOK: Duration = Duration::from_millis(100);
/// A breaker that opened tries again after a second.
const COOL_DOWN: f64 = 1.0;
/// A Redis that has failed is left alone for as long as a call to it takes to time out.
const PAUSE: Duration = Duration::from_secs(1);
/// Of the keys that exist nowhere, the filter lets one in a hundred through.
pub(super) const BLOOM_WRONG: f64 = 0.01;

/// What a process needs to know of times and sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// Life of an entry.
    pub ttl: Duration,
    /// Life of its second copy.
    pub copy_ttl: Duration,
    /// Lock and patience of a mutex.
    pub mutex: MutexTimes,
    /// Life and patience of a lease.
    pub lease: LeaseTimes,
    /// Life of the right to revalidate.
    pub claim_ttl: Duration,
    /// `beta` of early recomputation.
    pub beta: f64,
    /// Share by which lives may differ either way.
    pub spread: f64,
    /// Share of the life below which a hit starts a reload.
    pub near: f64,
    /// How long an old value may be served.
    pub grace: Duration,
    /// How the refresh worker works.
    pub worker: WorkerShape,
    /// Loads at once in this process.
    pub limit: usize,
    /// Sizes and times of its near cache.
    pub near_cache: NearShape,
}

impl Tuning {
    /// The tuning of one of the drill's processes.
    pub fn new(options: &Options) -> Tuning {
        let load = options.hot_load_time.unwrap_or_default().max(options.load_time);
        let lock_ttl = options.lock_ttl.unwrap_or(load * LOADS_A_LOCK);
        let patience = (load * LOADS_OF_PATIENCE).max(LEAST_PATIENCE);
        // Half of the pool is for what the worker does, whatever the number of processes.
        let at_once = (options.pool / 2 / options.processes.max(1)).max(1);
        Tuning {
            ttl: options.ttl,
            copy_ttl: options.ttl * COPY_LIVES,
            mutex: MutexTimes { lock_ttl, patience },
            lease: LeaseTimes { lease_ttl: lock_ttl, patience },
            claim_ttl: lock_ttl,
            beta: options.beta,
            spread: options.jitter,
            near: NEAR,
            grace: options.grace,
            worker: WorkerShape {
                horizon: options.ttl.mul_f64(NEAR).max(load * LOADS_A_LOCK),
                interval: LOOK,
                at_once,
            },
            near_cache: NearShape {
                entries: options.near_keys(),
                life: options.near_life,
                grace: options.grace,
                pause: PAUSE,
            },
            limit: options.bulkhead.unwrap_or(options.pool / options.processes.max(1)).max(1),
        }
    }

    pub(super) fn bulkhead(&self) -> Bulkhead {
        Bulkhead::new(self.limit, COOL_DOWN)
    }
}
