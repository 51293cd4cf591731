//! Each protection keeps its promise, against a real Redis where Redis is part of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stampede_exporter::config::{RedisAddress, RedisConfig};
use stampede_exporter::drill::counters::LockTally;
use stampede_exporter::drill::protections::coalesce::{Flights, Seat};
use stampede_exporter::drill::protections::lease::{LeaseTimes, Leased, Leases};
use stampede_exporter::drill::protections::mutex::{Held, Mutex, MutexTimes};
use stampede_exporter::drill::protections::refresh_worker::WorkerShape;
use stampede_exporter::drill::protections::stale_while_revalidate::Revalidation;
use stampede_exporter::drill::protections::{lease, mutex_stale, refresh_worker};
use stampede_exporter::drill::store::{Store, Write};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::support::redis::Redis;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(30);

async fn store(redis: &Redis) -> Store {
    let address = RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port: redis.port };
    let server = RedisConfig { address, username: None, password: None, tls: None };
    Store::connect(&server, "test").await.unwrap()
}

fn write(key: &str, value: &str) -> Write {
    let (copy, index) = (None, None);
    Write { key: key.to_owned(), value: value.into(), ttl: LONG, copy, index }
}

fn times(lock_ttl: Duration, patience: Duration) -> MutexTimes {
    MutexTimes { lock_ttl, patience }
}

async fn text(store: &Store, key: &str) -> Option<String> {
    store.get(key).await.unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
}

/// Waits until a condition holds, in async code.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let limit = tokio::time::Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(tokio::time::Instant::now() < limit, "waited in vain");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_mutex_lets_one_load_at_a_time_and_the_others_find_its_value() {
    let redis = Redis::start();
    let (loads, now, peak) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let shared = Arc::new((loads, now, peak, LockTally::default()));
    let mut tasks = JoinSet::new();
    // Four processes with ten requests each.
    for _ in 0..4 {
        let store = store(&redis).await;
        for _ in 0..10 {
            let (store, shared) = (store.clone(), Arc::clone(&shared));
            tasks.spawn(async move {
                let (loads, now, peak, tally) = &*shared;
                let look = || async { text(&store, "k").await };
                let load = || async {
                    peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    loads.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(SHORT).await;
                    store.write(&write("k", "v")).await.unwrap();
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok::<_, ()>("v".to_owned())
                };
                let mutex = Mutex::new(store.clone(), times(LONG, LONG));
                mutex.load_once("k", tally, look, load).await
            });
        }
    }
    let all = tasks.join_all().await;
    let (loads, _, peak, tally) = &*shared;
    assert_eq!((loads.load(Ordering::SeqCst), peak.load(Ordering::SeqCst)), (1, 1));
    let loaded = all.iter().filter(|held| **held == Held::Loaded(Ok("v".to_owned()))).count();
    let found = all.iter().filter(|held| **held == Held::Found("v".to_owned())).count();
    assert_eq!((loaded, found), (1, 39));
    assert!(tally.acquired.get() >= 1 && tally.contended.get() >= 1);
    assert_eq!((tally.timeout.get(), tally.error.get()), (0, 0));
    assert_eq!(text(&store(&redis).await, "lock:k").await, None, "the lock is released");
}

#[tokio::test]
async fn a_mutex_is_released_only_by_its_owner() {
    let redis = Redis::start();
    let store = store(&redis).await;
    let slow = Mutex::new(store.clone(), times(SHORT, LONG));
    let next = Mutex::new(store.clone(), times(LONG, LONG));
    let late = slow.try_lock("k").await.unwrap().expect("nobody has it");
    assert!(next.try_lock("k").await.unwrap().is_none(), "it is held");
    // It runs out, and the next one takes it.
    let mut second = None;
    until(async || {
        second = next.try_lock("k").await.unwrap();
        second.is_some()
    })
    .await;
    assert!(!slow.release(late).await.unwrap(), "the late one must not free another one's lock");
    assert!(next.try_lock("k").await.unwrap().is_none(), "it is still held");
    assert!(next.release(second.unwrap()).await.unwrap());
    assert!(next.try_lock("k").await.unwrap().is_some(), "now it is free");
}

#[tokio::test]
async fn who_waits_for_a_mutex_gives_up() {
    let redis = Redis::start();
    let store = store(&redis).await;
    let mutex = Mutex::new(store.clone(), times(LONG, Duration::from_millis(100)));
    let _held = mutex.try_lock("k").await.unwrap().unwrap();
    let tally = LockTally::default();
    let look = || async { None };
    let load = || async { Ok::<(), ()>(()) };
    assert_eq!(mutex.load_once("k", &tally, look, load).await, Held::TimedOut);
    assert_eq!((tally.timeout.get(), tally.acquired.get()), (1, 0));
    assert!(tally.contended.get() >= 2, "it tried again before it gave up");
}

#[tokio::test]
async fn without_redis_a_mutex_loads_unlocked() {
    let mut redis = Redis::start();
    let store = store(&redis).await;
    redis.kill();
    let mutex = Mutex::new(store, times(LONG, LONG));
    let tally = LockTally::default();
    let load = || async { Ok::<_, ()>(7) };
    let held = mutex.load_once("k", &tally, || async { None }, load).await;
    assert_eq!(held, Held::Loaded(Ok(7)));
    assert_eq!(tally.error.get(), 1);
}

#[tokio::test]
async fn losers_of_a_stale_mutex_take_the_copy_and_wait_only_without_one() {
    let redis = Redis::start();
    let store = store(&redis).await;
    let mutex = Mutex::new(store.clone(), times(LONG, Duration::ZERO));
    let _held = mutex.try_lock("k").await.unwrap().unwrap();
    for (copy, expected) in [(Some("old"), Held::Stale("old")), (None, Held::TimedOut)] {
        let tally = LockTally::default();
        let stale = || async { copy };
        let load = || async { Ok::<_, ()>("new") };
        let held = mutex_stale::load_once(&mutex, "k", &tally, || async { None }, stale, load);
        assert_eq!(held.await, expected);
        assert!(tally.contended.get() >= 1);
    }
}

#[tokio::test]
async fn one_flight_for_all_whether_it_ends_well_or_not() {
    for result in [Ok(7), Err("no")] {
        let flights = Arc::new(Flights::<u8, Result<u8, &str>>::default());
        let (loads, boarding) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
        let boarded = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..50 {
            let (flights, loads) = (Arc::clone(&flights), Arc::clone(&loads));
            let (boarding, boarded) = (Arc::clone(&boarding), Arc::clone(&boarded));
            tasks.spawn(async move {
                let load = || async {
                    loads.fetch_add(1, Ordering::SeqCst);
                    boarding.wait().await;
                    result
                };
                let boards = || {
                    boarded.fetch_add(1, Ordering::SeqCst);
                };
                flights.share(&1, boards, load).await
            });
        }
        // One runtime thread: after this all have boarded.
        tokio::task::yield_now().await;
        until(async || flights.len() == 1).await;
        assert_eq!(boarded.load(Ordering::SeqCst), 49, "counted before the landing");
        boarding.wait().await;
        let all = tasks.join_all().await;
        assert_eq!(loads.load(Ordering::SeqCst), 1);
        assert!(all.iter().all(|(shared, _)| *shared == result));
        assert_eq!(all.iter().filter(|(_, seat)| *seat == Seat::Pilot).count(), 1);
        assert!(flights.is_empty(), "the flight is off the list");
        assert_eq!(flights.share(&1, || (), || async { Ok(8) }).await, (Ok(8), Seat::Pilot));
    }
}

#[tokio::test]
async fn a_passenger_takes_over_from_a_pilot_that_is_cancelled() {
    let flights = Arc::new(Flights::<u8, u8>::default());
    let pilot = tokio::spawn({
        let flights = Arc::clone(&flights);
        async move { flights.share(&1, || (), std::future::pending::<u8>).await }
    });
    until(async || flights.len() == 1).await;
    let passenger = tokio::spawn({
        let flights = Arc::clone(&flights);
        async move { flights.share(&1, || (), || async { 7 }).await }
    });
    tokio::task::yield_now().await;
    pilot.abort();
    assert_eq!(passenger.await.unwrap(), (7, Seat::Pilot));
    assert!(flights.is_empty());
}

fn lease_times(lease_ttl: Duration) -> LeaseTimes {
    LeaseTimes { lease_ttl, patience: Duration::ZERO }
}

#[tokio::test]
async fn a_write_needs_the_lease_and_uses_it_up() {
    let redis = Redis::start();
    let store = store(&redis).await;
    let leases = Leases::new(store.clone(), lease_times(LONG));
    let lease = leases.take("k").await.unwrap().expect("the first gets it");
    assert!(leases.take("k").await.unwrap().is_none(), "the second does not");
    assert!(leases.write(&lease, &write("k", "first")).await.unwrap());
    assert_eq!(text(&store, "k").await.as_deref(), Some("first"));
    assert!(!leases.write(&lease, &write("k", "again")).await.unwrap(), "it is used up");
    assert_eq!(text(&store, "k").await.as_deref(), Some("first"));
}

#[tokio::test]
async fn a_late_writer_with_a_dead_token_is_refused() {
    let redis = Redis::start();
    let store = store(&redis).await;
    let leases = Leases::new(store.clone(), lease_times(LONG));
    // The entry is deleted while it loads: what it has read may be old.
    let deleted = leases.take("k").await.unwrap().unwrap();
    lease::invalidate(&store, &["k".to_owned()]).await.unwrap();
    assert!(!leases.write(&deleted, &write("k", "old")).await.unwrap());
    assert_eq!(text(&store, "k").await, None);
    // The lease runs out while it loads, and the next one takes it.
    let hasty = Leases::new(store.clone(), lease_times(SHORT));
    let late = hasty.take("k").await.unwrap().unwrap();
    let mut next = None;
    until(async || {
        next = leases.take("k").await.unwrap();
        next.is_some()
    })
    .await;
    assert!(!hasty.write(&late, &write("k", "late")).await.unwrap());
    assert!(leases.write(&next.unwrap(), &write("k", "next")).await.unwrap());
    assert_eq!(text(&store, "k").await.as_deref(), Some("next"));
}

#[tokio::test]
async fn a_lease_writes_the_second_copy_and_the_deadline_too() {
    let redis = Redis::start();
    let store = store(&redis).await;
    let leases = Leases::new(store.clone(), lease_times(LONG));
    let lease = leases.take("k").await.unwrap().unwrap();
    let copy = Some(("stale:k".to_owned(), LONG * 10));
    let index = Some((refresh_worker::INDEX, 5.0));
    assert!(leases.write(&lease, &Write { copy, index, ..write("k", "v") }).await.unwrap());
    assert_eq!(text(&store, "stale:k").await.as_deref(), Some("v"));
    let life = store.get_with_life("stale:k").await.unwrap().unwrap().remaining.unwrap();
    assert!(life > LONG * 9 && life <= LONG * 10, "{life:?}");
    assert_eq!(refresh_worker::take_due(&store, 6.0, 10).await.unwrap(), ["k"]);
}

#[tokio::test]
async fn who_gets_no_lease_takes_the_copy_or_gives_up() {
    let redis = Redis::start();
    let leases = Leases::new(store(&redis).await, lease_times(LONG));
    let _taken = leases.take("k").await.unwrap().unwrap();
    for (copy, expected) in [(Some("old"), Leased::Stale("old")), (None, Leased::TimedOut)] {
        let tally = LockTally::default();
        let load = |_| async { Ok::<_, ()>("new") };
        let leased = leases.load_once("k", &tally, || async { None }, || async { copy }, load);
        assert_eq!(leased.await, expected);
    }
}

#[tokio::test]
async fn a_load_that_fails_leaves_the_lease_to_the_next() {
    let redis = Redis::start();
    let leases = Leases::new(store(&redis).await, lease_times(LONG));
    let tally = LockTally::default();
    let look = || async { None::<()> };
    let leased = leases.load_once("k", &tally, look, look, |_| async { Err("no") }).await;
    assert_eq!(leased, Leased::Loaded(Err("no")));
    assert!(leases.take("k").await.unwrap().is_some());
}

#[tokio::test]
async fn exactly_one_revalidates() {
    let redis = Redis::start();
    let mut claims = Vec::new();
    for _ in 0..5 {
        let revalidation = Revalidation::new(store(&redis).await, LONG);
        claims.push((revalidation.claim("k").await.unwrap(), revalidation));
    }
    let held: Vec<bool> = claims.iter().map(|(claim, _)| claim.is_some()).collect();
    assert_eq!(held, [true, false, false, false, false]);
    let (first, revalidation) = claims.remove(0);
    revalidation.done(first.unwrap()).await.unwrap();
    assert!(revalidation.claim("k").await.unwrap().is_some(), "it is free again");
}

#[tokio::test]
async fn each_due_key_goes_to_one_worker() {
    let redis = Redis::start();
    let store = store(&redis).await;
    for key in 0..100 {
        let index = Some((refresh_worker::INDEX, f64::from(key)));
        store.write(&Write { index, ..write(&format!("item:{key}"), "v") }).await.unwrap();
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let (one, other) = tokio::join!(
            refresh_worker::take_due(&store, 69.5, 10),
            refresh_worker::take_due(&store, 69.5, 10)
        );
        first.extend(one.unwrap());
        second.extend(other.unwrap());
    }
    let mut all: Vec<String> = first.into_iter().chain(second).collect();
    assert_eq!(all.len(), 70, "those due before 69.5, and none twice");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 70);
    assert!(!all.contains(&"item:70".to_owned()));
}

#[tokio::test]
async fn a_worker_loads_no_more_at_once_than_it_may_and_leaves_nothing_out() {
    let redis = Redis::start();
    let store = store(&redis).await;
    for key in 0..20 {
        let index = Some((refresh_worker::INDEX, 100.0));
        store.write(&Write { index, ..write(&format!("item:{key}"), "v") }).await.unwrap();
    }
    let (now, peak, done) = <(AtomicUsize, AtomicUsize, AtomicUsize)>::default();
    let shared = Arc::new((now, peak, done));
    let shape = WorkerShape {
        horizon: Duration::from_secs(50),
        interval: Duration::from_millis(1),
        at_once: 3,
    };
    let refresh = {
        let shared = Arc::clone(&shared);
        move |_| {
            let shared = Arc::clone(&shared);
            async move {
                let (now, peak, done) = &*shared;
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Longer than many looks at the list.
                tokio::time::sleep(SHORT).await;
                now.fetch_sub(1, Ordering::SeqCst);
                done.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    // Their deadline is 40 seconds away, within the horizon.
    let worker = tokio::spawn(refresh_worker::work(store, shape, || 60.0, refresh, || ()));
    until(async || shared.2.load(Ordering::SeqCst) >= 20).await;
    worker.abort();
    assert_eq!(shared.2.load(Ordering::SeqCst), 20, "each once");
    assert_eq!(shared.1.load(Ordering::SeqCst), 3);
}
