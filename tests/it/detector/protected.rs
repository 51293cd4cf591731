//! Misses that something spares the backend are no stampede; loads are.

use stampede_exporter::detect::SignalKind;
use stampede_exporter::reading::{BySource, Lookups};
use stampede_exporter::signal::sample::Sample;

use super::traffic::Traffic;

const TEN_MINUTES: f64 = 600.0;
/// How long the hot key is away.
const AWAY: f64 = 3.0;

/// 2000 requests a second, of which 30 % are for one key.
struct Service {
    traffic: Traffic,
    /// What it does in quiet times.
    edit: fn(&mut Sample),
}

impl Service {
    /// Ten quiet minutes in which `edit` is what it does.
    fn start(edit: fn(&mut Sample)) -> Service {
        let mut traffic = Traffic::new(2000.0, 0.02);
        traffic.run_with(TEN_MINUTES, |_, sample| {
            application(sample);
            edit(sample);
        });
        traffic.assert_silent();
        Service { traffic, edit }
    }

    /// The hot key is away, 600 requests a second miss it, and `edit` is what becomes of them; then
    /// ten quiet minutes.
    fn strike(&mut self, mut edit: impl FnMut(f64, &mut Sample)) {
        self.traffic.run_with(AWAY, |at, sample| {
            application(sample);
            app(sample).hits -= 600.0;
            app(sample).misses += 600.0;
            edit(at, sample);
        });
        self.traffic.run_with(TEN_MINUTES, |_, sample| {
            application(sample);
            (self.edit)(sample);
        });
    }

    fn assert_declared_at_once(&self) {
        let incident = self.traffic.only();
        let struck = self.traffic.now - TEN_MINUTES - AWAY;
        assert!(incident.started_at <= struck + 2.0, "{}", incident.started_at - struck);
        assert!(incident.ended_at.is_some());
    }
}

/// Jobs that have nothing to do with the cache wait for a lock all day.
fn spin(sample: &mut Sample) {
    (sample.lock_acquired, sample.lock_failed) = (Some(100.0), Some(1000.0));
}

/// The same in an application that does not count its loads.
fn spin_uncounted(sample: &mut Sample) {
    spin(sample);
    sample.loads = None;
}

/// The misses are the application's own; each takes the lock and loads.
fn application(sample: &mut Sample) {
    sample.lookups = BySource { redis: None, app: sample.lookups.redis };
    sample.loads = Some(app(sample).misses);
    sample.coalesced = Some(0.0);
    (sample.lock_acquired, sample.lock_failed) = (sample.loads, Some(0.0));
}

fn app(sample: &mut Sample) -> &mut Lookups {
    sample.lookups.app.as_mut().unwrap()
}

fn loads(sample: &mut Sample) -> &mut f64 {
    sample.loads.as_mut().unwrap()
}

#[test]
fn a_hot_key_that_everyone_loads() {
    let mut service = Service::start(|_| {});
    service.strike(|_, sample| *loads(sample) += 600.0);
    service.assert_declared_at_once();
}

#[test]
fn a_hot_key_with_one_flight() {
    let mut service = Service::start(|_| {});
    service.strike(|at, sample| {
        let first = f64::from(u8::from(at < 1.5));
        *loads(sample) += first;
        sample.coalesced = Some(600.0 - first);
    });
    service.traffic.assert_silent();
}

#[test]
fn one_flight_of_an_application_that_counts_no_loads() {
    let mut service = Service::start(|sample| sample.loads = None);
    service.strike(|at, sample| {
        sample.loads = None;
        sample.coalesced = Some(if at < 1.5 { 599.0 } else { 600.0 });
    });
    service.traffic.assert_silent();
}

#[test]
fn a_lock_whose_waiters_look_again_is_contention() {
    let mut service = Service::start(|_| {});
    let mut contention: f64 = 0.0;
    for _ in 0..5 {
        service.traffic.run_with(1.0, |_, sample| {
            application(sample);
            app(sample).hits -= 600.0;
            // Each waiter looks ten times a second, misses and is refused.
            app(sample).misses += 6000.0;
            *loads(sample) += 1.0;
            (sample.lock_acquired, sample.lock_failed) = (sample.loads, Some(5999.0));
        });
        let signal = service.traffic.last.signals[SignalKind::LockContention as usize];
        contention = contention.max(signal.unwrap_or(0.0));
    }
    service.traffic.run_with(TEN_MINUTES, |_, sample| application(sample));
    service.traffic.assert_silent();
    assert!(contention >= 1.0, "{contention}");
}

#[test]
fn a_lock_whose_waiters_only_try_the_lock_again() {
    let mut service = Service::start(|_| {});
    service.strike(|_, sample| {
        *loads(sample) += 1.0;
        (sample.lock_acquired, sample.lock_failed) = (sample.loads, Some(5999.0));
    });
    service.traffic.assert_silent();
}

#[test]
fn a_lock_that_runs_out_before_the_load_does_not_help() {
    let mut service = Service::start(|_| {});
    service.strike(|_, sample| {
        // A load every 5 ms, while all others wait and look again.
        app(sample).misses += 5400.0;
        *loads(sample) += 200.0;
        (sample.lock_acquired, sample.lock_failed) = (sample.loads, Some(5800.0));
    });
    service.assert_declared_at_once();
}

#[test]
fn a_lock_that_everyone_ignores_does_not_help() {
    let mut service = Service::start(|_| {});
    service.strike(|_, sample| {
        *loads(sample) += 600.0;
        sample.lock_failed = Some(5000.0);
    });
    service.assert_declared_at_once();
}

#[test]
fn locks_that_are_refused_all_day_hide_nothing() {
    for counts_loads in [true, false] {
        let spin: fn(&mut Sample) = if counts_loads { spin } else { spin_uncounted };
        let mut service = Service::start(spin);
        service.strike(|_, sample| {
            *loads(sample) += 600.0;
            spin(sample);
        });
        service.assert_declared_at_once();
    }
}

#[test]
fn loads_that_are_counted_at_their_end_hide_nothing() {
    let mut service = Service::start(|_| {});
    // Nothing is counted while the key is away, 1800 loads when it is back.
    service.strike(|_, _| {});
    service.assert_declared_at_once();
}

#[test]
fn half_of_the_flights_shared_is_still_a_stampede() {
    let mut service = Service::start(|_| {});
    service.strike(|_, sample| {
        *loads(sample) += 300.0;
        sample.coalesced = Some(300.0);
    });
    service.assert_declared_at_once();
}

#[test]
fn a_stampede_ends_when_a_lock_holds_it() {
    let mut service = Service::start(|_| {});
    let struck = service.traffic.now;
    let misses = |sample: &mut Sample| {
        application(sample);
        app(sample).hits -= 600.0;
        app(sample).misses += 600.0;
    };
    service.traffic.run_with(5.0, |_, sample| {
        misses(sample);
        *loads(sample) += 600.0;
    });
    assert!(service.traffic.log.running.is_some());
    // The misses go on, since the load fails, but one request at a time tries it.
    service.traffic.run_with(TEN_MINUTES, |_, sample| {
        misses(sample);
        *loads(sample) += 1.0;
        (sample.lock_acquired, sample.lock_failed) = (sample.loads, Some(599.0));
    });
    let ended = service.traffic.only().ended_at.unwrap();
    assert!(ended <= struck + 30.0, "{}", ended - struck);
    assert_eq!(service.traffic.log.count.iter().sum::<u64>(), 1);
}
