//! What must stay silent, for ten minutes each.

use stampede_exporter::detect::SignalKind;
use stampede_exporter::reading::{BySource, Reading};
use stampede_exporter::signal::sample::Sample;

use super::traffic::{Traffic, lose};

const TEN_MINUTES: f64 = 600.0;

#[test]
fn steady_load() {
    for poll in [0.1, 1.0, 5.0, 15.0] {
        let mut traffic = Traffic::new(2000.0, 0.02).polled_every(poll);
        traffic.run(4.0 * TEN_MINUTES);
        traffic.assert_silent();
        assert!(traffic.last.ready);
    }
}

#[test]
fn one_reload_at_a_time_on_a_hot_key() {
    let mut traffic = Traffic::new(2000.0, 0.02);
    traffic.run(TEN_MINUTES);
    traffic.run_with(3.0, |_, sample| sample.lookups.redis.as_mut().unwrap().misses += 1.0);
    traffic.run(TEN_MINUTES);
    traffic.assert_silent();
}

#[test]
fn five_times_the_load_in_a_minute() {
    let mut traffic = Traffic::new(400.0, 0.03);
    traffic.run(TEN_MINUTES);
    for second in 0..60 {
        traffic.rate = 400.0 + 1600.0 * f64::from(second) / 60.0;
        traffic.run(1.0);
    }
    traffic.run(TEN_MINUTES);
    traffic.assert_silent();
}

#[test]
fn eight_times_the_load_at_once_and_back() {
    let mut traffic = Traffic::new(200.0, 0.03);
    traffic.run(TEN_MINUTES);
    traffic.rate = 1600.0;
    traffic.run(TEN_MINUTES);
    traffic.rate = 200.0;
    traffic.run(TEN_MINUTES);
    traffic.assert_silent();
}

#[test]
fn an_idle_server_restarts() {
    let mut traffic = Traffic::new(0.0, 0.0);
    traffic.run(TEN_MINUTES);
    traffic.run_with(1.0, |_, sample| {
        sample.restarted = true;
        sample.lookups = BySource::default();
        (sample.keys_before, sample.keys) = (Some(1000.0), Some(0.0));
    });
    traffic.run(TEN_MINUTES);
    traffic.assert_silent();
}

#[test]
fn counters_are_reset_under_load() {
    let mut traffic = Traffic::new(1000.0, 0.05);
    traffic.run(TEN_MINUTES);
    let mut before = Reading {
        time: traffic.now,
        lookups: BySource { redis: Some(Default::default()), app: None },
        flushes: Some(3.0),
        uptime: Some(5000.0),
        ..Reading::default()
    };
    for poll in 0..600 {
        let drawn = traffic.sample().lookups.redis.unwrap();
        let mut after = before.clone();
        after.time = traffic.now;
        let total = after.lookups.redis.as_mut().unwrap();
        if poll == 300 {
            (*total, after.flushes) = (drawn, Some(0.0));
        } else {
            total.hits += drawn.hits;
            total.misses += drawn.misses;
        }
        traffic.observe(&Sample::between(&before, &after).unwrap());
        before = after;
    }
    traffic.assert_silent();
}

#[test]
fn an_idle_cache_that_misses_half_of_the_time() {
    let mut traffic = Traffic::new(0.2, 0.5);
    traffic.run(24.0 * TEN_MINUTES);
    traffic.assert_silent();
}

#[test]
fn a_cold_exporter_on_a_cold_cache() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run_with(4.0 * TEN_MINUTES, |seconds, sample| {
        lose(sample, 0.9 * (-seconds / 120.0).exp());
    });
    traffic.assert_silent();
}

#[test]
fn a_long_gap_between_polls() {
    let mut traffic = Traffic::new(1000.0, 0.03);
    traffic.run(TEN_MINUTES);
    traffic.poll = 90.0;
    traffic.run(90.0);
    traffic.poll = 1.0;
    traffic.run(TEN_MINUTES);
    traffic.assert_silent();
}

#[test]
fn small_pulses_and_a_slow_drift() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run(TEN_MINUTES);
    traffic.run_with(TEN_MINUTES, |seconds, sample| {
        if seconds % 60.0 < 20.0 {
            lose(sample, 0.012);
        }
    });
    traffic.run(TEN_MINUTES);
    for step in 0..720 {
        traffic.ratio = 0.02 + 0.02 * f64::from(step) / 720.0;
        traffic.run(10.0);
    }
    traffic.assert_silent();
}

#[test]
fn an_application_is_deployed() {
    let mut traffic = Traffic::new(1000.0, 0.03);
    let twin = |sample: &mut Sample| sample.lookups.app = sample.lookups.redis;
    traffic.run_with(TEN_MINUTES, |_, sample| twin(sample));
    // Its counters begin anew and it is away for a while; the server goes on.
    traffic.run_with(20.0, |_, sample| sample.lookups.app = None);
    traffic.run_with(TEN_MINUTES, |_, sample| twin(sample));
    traffic.assert_silent();
}

#[test]
fn locks_are_refused_and_the_backend_is_slow_but_nothing_is_missing() {
    let mut traffic = Traffic::new(1000.0, 0.03);
    let calm = |sample: &mut Sample| {
        (sample.lock_acquired, sample.lock_failed) = (Some(25.0), Some(1.0));
        (sample.latency_p50, sample.latency_p99) = (Some(0.01), Some(0.05));
    };
    traffic.run_with(TEN_MINUTES, |_, sample| calm(sample));
    let trouble = |sample: &mut Sample| {
        calm(sample);
        sample.lock_failed = Some(60.0);
        sample.latency_p99 = Some(0.5);
    };
    traffic.run_with(5.0, |_, sample| trouble(sample));
    let shown = |kind: SignalKind| traffic.last.signals[kind as usize].unwrap();
    assert!(shown(SignalKind::LockContention) >= 1.0 && shown(SignalKind::TailLatency) >= 1.0);
    assert!(shown(SignalKind::MissRatio) < 1.0);
    traffic.run_with(TEN_MINUTES, |_, sample| trouble(sample));
    traffic.assert_silent();
}
