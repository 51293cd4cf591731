//! Nothing that comes in makes it fail or cry.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use stampede_exporter::detect::state::{Learned, Spread};
use stampede_exporter::detect::{Cause, Detector, Incident, State, Thresholds};
use stampede_exporter::reading::{BySource, Lookups, Reach, Reading, Source};
use stampede_exporter::signal::sample::Sample;

use super::traffic::{Traffic, lose};

const STRANGE: [f64; 8] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e-300, 1e300, f64::MAX];

#[test]
fn what_is_no_count_never_flags() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run(300.0);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -5.0] {
        traffic.run_with(10.0, |_, sample| {
            sample.lookups.app = Some(Lookups { hits: bad, misses: 1000.0 });
            sample.errors = Some(bad);
            sample.due_ratio = Some(bad);
            sample.hot_key_share = Some(bad);
            sample.latency_p50 = Some(bad);
            sample.keys = Some(bad);
        });
        traffic.run_with(10.0, |_, sample| {
            sample.lookups.redis = Some(Lookups { hits: 1.0, misses: bad });
        });
    }
    traffic.run(300.0);
    traffic.assert_silent();
}

#[test]
fn a_sample_without_time_says_nothing() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run(300.0);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut sample = traffic.sample();
        lose(&mut sample, 0.9);
        sample.dt = bad;
        traffic.observe(&sample);
    }
    traffic.assert_silent();
}

#[test]
fn a_clock_that_jumps_changes_nothing_but_the_times() {
    for jump in [-86_400.0, -1.5, 3.0, 86_400.0] {
        let mut traffic = Traffic::new(1000.0, 0.02);
        traffic.run(300.0);
        traffic.now += jump;
        traffic.run(300.0);
        traffic.assert_silent();
        let start = traffic.now;
        traffic.run_with(5.0, |_, sample| lose(sample, 0.3));
        assert!(traffic.only_start() <= start + 2.0);
    }
}

#[test]
fn random_garbage_never_panics_and_numbers_stay_numbers() {
    for seed in 0..200 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut detector = Detector::new(Thresholds::default());
        let mut before = reading(&mut random);
        for _ in 0..300 {
            let after = reading(&mut random);
            let mut sample = Sample::between(&before, &after).unwrap_or_default();
            if random.random_bool(0.3) {
                sample = raw(&mut random);
            }
            let verdict = detector.observe(&sample);
            assert!(verdict.score >= 0.0 && !verdict.score.is_nan(), "{verdict:?}");
            assert!(verdict.excess_misses >= 0.0 && verdict.incident_seconds >= 0.0);
            for shown in verdict.signals.iter().flatten() {
                assert!(*shown >= 0.0, "{verdict:?}");
            }
            if let Some(incident) = &verdict.running {
                assert!(incident.excess_misses >= 0.0, "{incident:?}");
            }
            if random.random_bool(0.02) {
                let state = detector.state();
                detector = Detector::resume(Thresholds::default(), state, after.time);
            }
            before = after;
        }
    }
}

#[test]
fn a_damaged_state_costs_what_it_holds_and_no_more() {
    for bad in STRANGE {
        let spread = Spread { dispersion: bad, wander: bad };
        let learned =
            Learned { seconds: bad, miss_ratio: bad, lookups: bad, misses: spread, hits: spread };
        let state = State {
            time: bad,
            baselines: BySource { redis: Some(learned), app: Some(learned) },
            incident: Some(Incident::new(Cause::Unknown, Source::Redis, bad)),
            settled: false,
        };
        let mut traffic = Traffic::new(1000.0, 0.02);
        traffic.detector = Detector::resume(Thresholds::default(), state, traffic.now);
        traffic.run(1200.0);
        let before = traffic.log.count.iter().sum::<u64>();
        assert!(traffic.log.running.is_none() && before <= 1, "{bad}");
        traffic.run_with(5.0, |_, sample| lose(sample, 0.3));
        assert!(traffic.log.running.is_some(), "{bad}");
    }
}

fn value(random: &mut SmallRng) -> f64 {
    if random.random_bool(0.2) {
        STRANGE[random.random_range(0..STRANGE.len())]
    } else {
        10.0_f64.powf(random.random_range(-3.0..6.0))
    }
}

fn maybe(random: &mut SmallRng) -> Option<f64> {
    random.random_bool(0.7).then(|| value(random))
}

fn lookups(random: &mut SmallRng) -> Option<Lookups> {
    random.random_bool(0.8).then(|| Lookups { hits: value(random), misses: value(random) })
}

fn reach(random: &mut SmallRng) -> Reach {
    [Reach::Unknown, Reach::Answering, Reach::Failing, Reach::Loading][random.random_range(0..4)]
}

fn reading(random: &mut SmallRng) -> Reading {
    Reading {
        time: value(random),
        lookups: BySource { redis: lookups(random), app: lookups(random) },
        expired: maybe(random),
        evicted: maybe(random),
        errors: maybe(random),
        not_found: maybe(random),
        loads: maybe(random),
        coalesced: maybe(random),
        lock_acquired: maybe(random),
        lock_failed: maybe(random),
        flushes: maybe(random),
        keys: maybe(random),
        uptime: maybe(random),
        latency_p50: maybe(random),
        latency_p99: maybe(random),
        due_ratio: maybe(random),
        hot_key_share: maybe(random),
        reach: reach(random),
    }
}

fn raw(random: &mut SmallRng) -> Sample {
    Sample {
        time: value(random),
        dt: value(random),
        lookups: BySource { redis: lookups(random), app: lookups(random) },
        expired: maybe(random),
        evicted: maybe(random),
        errors: maybe(random),
        not_found: maybe(random),
        lock_acquired: maybe(random),
        lock_failed: maybe(random),
        flushes: maybe(random),
        keys: maybe(random),
        keys_before: maybe(random),
        restarted: random.random_bool(0.1),
        latency_p50: maybe(random),
        latency_p99: maybe(random),
        due_ratio: maybe(random),
        hot_key_share: maybe(random),
        reach: reach(random),
        ..Sample::default()
    }
}
