//! What must be seen, how soon, and how it ends.

use stampede_exporter::detect::{Cause, Change, Detector, Thresholds};
use stampede_exporter::reading::{BySource, Reach, Source};

use super::traffic::{Traffic, lose};

#[test]
fn a_hot_key_is_declared_within_two_polls_and_ends_within_half_a_minute() {
    let mut traffic = Traffic::new(2000.0, 0.02);
    traffic.run(600.0);
    let start = traffic.now;
    traffic.run_with(3.0, |_, sample| lose(sample, 0.30));
    traffic.run(600.0);
    let incident = traffic.only().clone();
    assert!(incident.started_at <= start + 2.0, "{}", incident.started_at - start);
    assert!(incident.ended_at.unwrap() <= start + 30.0, "{:?}", incident.ended_at);
    assert!(matches!(incident.cause, Cause::HotKey | Cause::Unknown), "{:?}", incident.cause);
    // 30 % of 1960 hits a second for three seconds, give or take the scatter of the baseline.
    assert!((1500.0..2100.0).contains(&incident.excess_misses), "{}", incident.excess_misses);
    assert!((550.0..750.0).contains(&incident.peak_misses_per_second));
    assert!((30.0..50.0).contains(&incident.baseline_misses_per_second));
    assert!(incident.p_value.unwrap() < 1e-9);
    assert_eq!(traffic.log.count.iter().sum::<u64>(), 1);
    assert!(traffic.log.excess_misses >= incident.excess_misses - 1e-6);
}

#[test]
fn changes_come_in_order_and_the_count_moves_before_the_end() {
    let mut traffic = Traffic::new(2000.0, 0.02);
    traffic.run(300.0);
    traffic.run_with(3.0, |_, sample| lose(sample, 0.30));
    traffic.run(60.0);
    let names: Vec<&str> = traffic
        .changes
        .iter()
        .map(|change| match change {
            Change::Started(_) => "started",
            Change::CauseChanged { .. } => "cause",
            Change::Settled(_) => "settled",
            Change::Ended(_) => "ended",
            Change::Resumed(_) => "resumed",
        })
        .filter(|name| *name != "cause")
        .collect();
    assert_eq!(names, ["started", "settled", "ended"]);
}

#[test]
fn a_pulse_each_minute_is_one_incident() {
    let mut traffic = Traffic::new(1500.0, 0.03);
    traffic.run(600.0);
    for _ in 0..8 {
        traffic.run_with(2.0, |_, sample| lose(sample, 0.15));
        traffic.run(58.0);
    }
    traffic.run(120.0);
    traffic.only();
    assert_eq!(traffic.log.count.iter().sum::<u64>(), 1);
    assert!(traffic.changes.iter().any(|change| matches!(change, Change::Resumed(_))));
}

#[test]
fn two_far_apart_are_two() {
    let mut traffic = Traffic::new(2000.0, 0.02);
    traffic.run(600.0);
    for _ in 0..2 {
        traffic.run_with(3.0, |_, sample| lose(sample, 0.30));
        traffic.run(300.0);
    }
    assert_eq!(traffic.log.count.iter().sum::<u64>(), 2);
}

#[test]
fn every_poll_interval_sees_a_lasting_one() {
    for (poll, within) in [(0.1, 1.0), (0.5, 1.5), (5.0, 10.0), (15.0, 30.0), (60.0, 120.0)] {
        let mut traffic = Traffic::new(1000.0, 0.03).polled_every(poll);
        traffic.run(1200.0);
        traffic.assert_silent();
        let start = traffic.now;
        traffic.run_with(120.0, |_, sample| lose(sample, 0.30));
        traffic.run(600.0);
        let incident = traffic.only();
        assert!(incident.started_at <= start + within, "{poll}: {}", incident.started_at - start);
        let end = incident.ended_at.unwrap_or(f64::INFINITY);
        assert!(end <= start + 120.0 + 30.0_f64.max(2.0 * poll), "{poll}: {}", end - start);
    }
}

#[test]
fn a_cache_that_misses_half_of_the_time_can_lose_its_hits() {
    let mut traffic = Traffic::new(1300.0, 0.5);
    traffic.run(900.0);
    traffic.assert_silent();
    let start = traffic.now;
    traffic.run_with(30.0, |seconds, sample| lose(sample, 0.7 * (-seconds / 20.0).exp()));
    traffic.run(300.0);
    assert!(traffic.only_start() <= start + 2.0);
}

#[test]
fn a_third_of_the_hits_is_enough_where_the_ratio_is_steady() {
    let mut traffic = Traffic::new(2400.0, 0.42);
    traffic.run(1800.0);
    traffic.assert_silent();
    let start = traffic.now;
    traffic.run_with(30.0, |seconds, sample| lose(sample, 0.36 * (-seconds / 12.0).exp()));
    traffic.run(300.0);
    assert!(traffic.only_start() <= start + 3.0);
}

#[test]
fn what_lasts_for_half_an_hour_is_the_new_normal() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run(600.0);
    let start = traffic.now;
    traffic.ratio = 0.20;
    traffic.run(3.0 * 3600.0);
    let incident = traffic.only();
    let lasted = incident.ended_at.unwrap() - start;
    assert!((1800.0..1830.0).contains(&lasted), "{lasted}");
    let baseline = traffic.last.baseline_misses_per_second.redis.unwrap();
    assert!((170.0..230.0).contains(&baseline), "{baseline}");
}

#[test]
fn a_small_slow_rise_at_little_traffic_is_seen_in_time() {
    // The reference rule needs 72 s for this one and finds it.
    let mut traffic = Traffic::new(50.0, 0.02);
    traffic.run(3600.0);
    traffic.assert_silent();
    let start = traffic.now;
    traffic.ratio = 0.05;
    traffic.run(120.0);
    assert!(traffic.only_start() <= start + 72.0, "{}", traffic.only_start() - start);
}

#[test]
fn misses_that_grow_sixfold_in_minutes_are_a_stampede_of_unknown_cause() {
    // The backend gets six times its queries, whatever made them. Doubling takes hours in a drift.
    let mut traffic = Traffic::new(1000.0, 0.05);
    traffic.run(1200.0);
    let start = traffic.now;
    for second in 0..300 {
        traffic.ratio = 0.05 + 0.25 * f64::from(second) / 300.0;
        traffic.run(1.0);
    }
    // The least effect, 1.8 times the usual ratio, is reached after 48 seconds.
    let seen = traffic.only_start() - start;
    assert!((48.0..120.0).contains(&seen), "{seen}");
    assert_eq!(traffic.only().cause, Cause::Unknown);
}

#[test]
fn the_application_decides_when_it_says_something() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run_with(600.0, |_, sample| sample.lookups.app = sample.lookups.redis);
    // The server loses hits that no application asked for.
    traffic.run_with(20.0, |_, sample| {
        sample.lookups.app = sample.lookups.redis;
        lose(sample, 0.5);
    });
    traffic.assert_silent();
    traffic.run_with(200.0, |_, sample| sample.lookups.app = sample.lookups.redis);
    let start = traffic.now;
    traffic.run_with(5.0, |_, sample| {
        lose(sample, 0.5);
        sample.lookups = BySource { redis: None, app: sample.lookups.redis };
    });
    assert_eq!(traffic.only().source, Source::App);
    assert!(traffic.only_start() <= start + 2.0);
}

#[test]
fn both_baselines_are_shown_and_absent_without_their_source() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run_with(300.0, |_, sample| sample.lookups.app = sample.lookups.redis);
    let shown = traffic.last.baseline_misses_per_second;
    assert!(
        (15.0..25.0).contains(&shown.redis.unwrap()) && (15.0..25.0).contains(&shown.app.unwrap())
    );
    assert!(traffic.last.ready);
    traffic.run_with(1.0, |_, sample| sample.lookups = BySource::default());
    assert_eq!(traffic.last.baseline_misses_per_second, BySource::default());
}

#[test]
fn an_incident_ends_when_its_source_vanishes() {
    for reach in [Reach::Failing, Reach::Unknown, Reach::Loading] {
        let mut traffic = Traffic::new(2000.0, 0.02);
        traffic.run(300.0);
        traffic.run_with(5.0, |_, sample| lose(sample, 0.5));
        assert!(traffic.log.running.is_some());
        traffic.run_with(90.0, |_, sample| {
            sample.lookups = BySource::default();
            sample.reach = reach;
        });
        assert!(traffic.log.running.is_none(), "{reach:?}");
        assert_eq!(traffic.log.count.iter().sum::<u64>(), 1);
    }
}

#[test]
fn what_was_learned_and_what_runs_outlives_the_process() {
    let mut traffic = Traffic::new(2000.0, 0.02);
    traffic.run(900.0);
    let calm = traffic.detector.state();
    let learned = calm.baselines.redis.unwrap();
    assert!((0.018..0.022).contains(&learned.miss_ratio), "{learned:?}");
    assert!(calm.incident.is_none());
    traffic.detector = Detector::resume(Thresholds::default(), calm, traffic.now + 20.0);
    traffic.now += 20.0;
    let start = traffic.now;
    traffic.run_with(3.0, |_, sample| lose(sample, 0.3));
    assert!(traffic.only_start() <= start + 2.0, "no warm-up after a restart");

    let during = traffic.detector.state();
    assert_eq!(during.incident.as_ref().unwrap().started_at, traffic.only_start());
    traffic.detector = Detector::resume(Thresholds::default(), during, traffic.now);
    traffic.run(60.0);
    assert!(traffic.only().ended_at.unwrap() <= start + 40.0);
    assert_eq!(traffic.log.count.iter().sum::<u64>(), 1);
}

/// Nothing is known for so many polls of a second; the next one spans them all.
fn gap(traffic: &mut Traffic, seconds: f64) {
    traffic.run_with(seconds, |_, sample| sample.lookups = BySource::default());
    traffic.run_with(1.0, |_, sample| {
        sample.dt = seconds + 1.0;
        let lookups = sample.lookups.redis.as_mut().unwrap();
        (lookups.hits, lookups.misses) = (lookups.hits * sample.dt, lookups.misses * sample.dt);
    });
}

#[test]
fn a_gap_in_an_incident_counts_once() {
    let mut traffic = Traffic::new(2000.0, 0.02);
    traffic.run(600.0);
    traffic.run_with(5.0, |_, sample| lose(sample, 0.5));
    gap(&mut traffic, 40.0);
    traffic.run(60.0);
    let incident = traffic.only();
    let lasted = incident.ended_at.unwrap() - incident.started_at;
    // The poll at which it was declared is part of it.
    assert!((traffic.log.seconds - lasted - 1.0).abs() < 1e-3, "{} {lasted}", traffic.log.seconds);
}

#[test]
fn a_gap_between_two_pulses_counts_once() {
    let mut traffic = Traffic::new(2000.0, 0.02);
    traffic.run(600.0);
    traffic.run_with(3.0, |_, sample| lose(sample, 0.3));
    traffic.run(25.0);
    assert!(traffic.log.running.is_none());
    gap(&mut traffic, 70.0);
    // Less than two minutes after the end, so it goes on.
    traffic.run_with(3.0, |_, sample| lose(sample, 0.3));
    traffic.only();
    assert!(traffic.changes.iter().any(|change| matches!(change, Change::Resumed(_))));
}
