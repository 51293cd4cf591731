//! Each cause by its tell-tales.

use stampede_exporter::detect::incident::figure;
use stampede_exporter::detect::{Cause, Change};
use stampede_exporter::reading::{BySource, Lookups, Reach};
use stampede_exporter::signal::sample::Sample;

use super::traffic::{Traffic, lose};

/// A cache whose server and applications count everything.
fn counted(sample: &mut Sample) {
    let misses = sample.lookups.redis.unwrap().misses;
    sample.loads = Some(misses);
    sample.not_found = Some((misses * 0.05).round());
    sample.expired = Some((misses * 0.5).round());
    sample.evicted = Some(0.0);
    sample.errors = Some(0.0);
    sample.flushes = Some(0.0);
    sample.lock_acquired = Some((misses * 0.5).round());
    sample.lock_failed = Some(0.0);
    (sample.keys_before, sample.keys) = (Some(100_000.0), Some(100_000.0));
    sample.due_ratio = Some(1.0);
}

/// Ten quiet minutes, then a stampede that `edit` makes; the only incident's cause must be `cause`,
/// declared within three polls.
fn check(cause: Cause, seconds: f64, edit: impl FnMut(f64, &mut Sample)) {
    let mut edit = edit;
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run_with(600.0, |_, sample| counted(sample));
    traffic.assert_silent();
    let start = traffic.now;
    traffic.run_with(seconds, |at, sample| {
        counted(sample);
        edit(at, sample);
    });
    traffic.run_with(300.0, |_, sample| counted(sample));
    let incident = traffic.only();
    assert_eq!(incident.cause, cause, "{incident:?}");
    assert!(incident.started_at <= start + 3.0, "{}", incident.started_at - start);
    assert_eq!(traffic.log.count[cause as usize], 1);
    assert!(incident.ended_at.is_some());
    let kept = incident.evidence.iter().filter(|(name, _)| figure(name) == Some(*name)).count();
    assert_eq!(kept, incident.evidence.len(), "a restart keeps them all: {:?}", incident.evidence);
}

#[test]
fn hot_key_by_the_share_of_one_key() {
    check(Cause::HotKey, 4.0, |_, sample| {
        lose(sample, 0.3);
        sample.hot_key_share = Some(0.9);
    });
}

#[test]
fn hot_key_by_misses_of_keys_that_did_not_expire() {
    check(Cause::HotKey, 4.0, |_, sample| {
        lose(sample, 0.3);
        sample.loads = Some(sample.lookups.redis.unwrap().misses);
    });
}

/// A server alone, whose absent keys are asked for in place of others: at first it looks like a hot
/// key, until the missed keys are known to be many.
#[test]
fn penetration_by_missed_keys_that_hardly_repeat() {
    let alone = |sample: &mut Sample| {
        counted(sample);
        (sample.loads, sample.not_found) = (None, None);
        (sample.lock_acquired, sample.lock_failed) = (None, None);
    };
    for (share, cause) in [(0.01, Cause::Penetration), (0.9, Cause::HotKey), (0.2, Cause::Unknown)]
    {
        let mut traffic = Traffic::new(1000.0, 0.02);
        traffic.run_with(600.0, |_, sample| alone(sample));
        traffic.run_with(30.0, |at, sample| {
            alone(sample);
            lose(sample, 0.2);
            sample.expired = Some(10.0);
            sample.hot_key_share = (at > 0.5).then_some(share);
        });
        assert_eq!(traffic.only().cause, cause, "{share}");
        assert_eq!(traffic.log.count[cause as usize], 1);
    }
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run_with(600.0, |_, sample| alone(sample));
    traffic.run_with(30.0, |at, sample| {
        alone(sample);
        lose(sample, 0.2);
        sample.expired = Some(10.0);
        sample.hot_key_share = (at > 2.5).then_some(0.01);
    });
    assert_eq!(traffic.only().cause, Cause::Penetration);
    let changes = traffic.changes.iter().filter(|c| matches!(c, Change::CauseChanged { .. }));
    assert_eq!(changes.count(), 1, "from a hot key");

    // A burst of two polls is nearly over when somebody looks, and what is seen is what always misses.
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run_with(600.0, |_, sample| alone(sample));
    traffic.run_with(30.0, |at, sample| {
        alone(sample);
        lose(sample, if at < 2.5 { 0.2 } else { 0.0 });
        sample.expired = Some(10.0);
        sample.hot_key_share = (at > 1.5).then_some(0.01);
    });
    assert_eq!(traffic.only().cause, Cause::HotKey);
}

/// Hits, misses and expired keys of consecutive seconds, as recorded in a drill at 1000 requests a
/// second over keys of 20 s: the server reaps in its own time.
const RECORDED: [(f64, f64, f64); 16] = [
    (1136.0, 15.0, 86.0),
    (1136.0, 20.0, 82.0),
    (1111.0, 16.0, 106.0),
    (1173.0, 30.0, 121.0),
    (1129.0, 22.0, 129.0),
    (1137.0, 25.0, 92.0),
    (1185.0, 33.0, 87.0),
    (1180.0, 35.0, 91.0),
    (1110.0, 40.0, 100.0),
    (1123.0, 30.0, 137.0),
    (1169.0, 41.0, 103.0),
    (1161.0, 39.0, 111.0),
    (1121.0, 36.0, 105.0),
    (1142.0, 43.0, 105.0),
    (1161.0, 46.0, 113.0),
    (1155.0, 48.0, 92.0),
];

/// What was recorded as the hot key of that drill ran out: 30 keys more than usual did by chance, for
/// 180 more misses. This was taken for an expiry of many.
#[test]
fn hot_key_while_the_server_reaps_as_it_likes() {
    let set = |sample: &mut Sample, (hits, misses, expired): (f64, f64, f64)| {
        sample.lookups.redis = Some(Lookups { hits, misses });
        (sample.expired, sample.evicted, sample.flushes) = (Some(expired), Some(0.0), Some(0.0));
        (sample.keys_before, sample.keys) = (Some(750.0), Some(750.0));
    };
    for known in [false, true] {
        let mut traffic = Traffic::new(1000.0, 0.02);
        traffic.run_with(600.0, |at, sample| {
            set(sample, RECORDED[at as usize % RECORDED.len()]);
            sample.not_found = known.then_some(0.0);
        });
        traffic.assert_silent();
        traffic.run_with(1.0, |_, sample| {
            set(sample, (918.0, 219.0, 131.0));
            sample.not_found = known.then_some(0.0);
        });
        traffic.run_with(60.0, |at, sample| {
            set(sample, RECORDED[at as usize % RECORDED.len()]);
            sample.not_found = known.then_some(0.0);
        });
        assert_eq!(traffic.only().cause, Cause::HotKey, "{known}: {:?}", traffic.only());
        assert_eq!(traffic.log.count[Cause::HotKey as usize], 1);
    }
}

/// A burst of one poll; what follows misses a little more than usual and expires more keys, as after
/// every burst the entries of that second run out by themselves. It adds nothing to what was known.
#[test]
fn hot_key_whatever_its_aftermath_looks_like() {
    check(Cause::HotKey, 11.0, |at, sample| {
        let misses = sample.lookups.redis.unwrap().misses;
        if at < 1.5 {
            lose(sample, 0.3);
        } else {
            lose(sample, 0.02);
            sample.expired = Some(2.5 * misses);
        }
    });
}

#[test]
fn hot_key_by_refused_locks() {
    check(Cause::HotKey, 4.0, |_, sample| {
        lose(sample, 0.3);
        // The lock runs out before the load ends, so it is refused and everything is loaded too.
        sample.loads = Some(sample.lookups.redis.unwrap().misses);
        sample.expired = None;
        sample.lock_failed = Some(290.0);
    });
}

#[test]
fn synchronized_expiry_by_the_forecast() {
    check(Cause::SynchronizedExpiry, 30.0, |at, sample| {
        lose(sample, 0.38 * (-at / 20.0).exp());
        sample.due_ratio = Some(if at < 1.5 { 40.0 } else { 1.0 });
    });
}

/// The wave is due in the poll before its misses are counted; the incident tells its height all the
/// same, and not the calm that followed.
#[test]
fn the_evidence_tells_the_wave_that_broke_before_the_misses() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run_with(600.0, |_, sample| counted(sample));
    traffic.run_with(20.0, |at, sample| {
        counted(sample);
        sample.due_ratio = Some(if at < 1.5 { 40.0 } else { 1.0 });
        if at > 1.5 {
            lose(sample, 0.4);
        }
    });
    assert_eq!(traffic.only().cause, Cause::SynchronizedExpiry);
    assert_eq!(traffic.only().figure("due_ratio"), Some(40.0));
}

#[test]
fn a_forecast_wave_in_which_nothing_ran_out_is_not_the_cause() {
    // 500 keys of which 0.8 are due a second: two at once are 2.4 times the mean, by chance.
    let small = |sample: &mut Sample| {
        counted(sample);
        sample.expired = Some(1.0);
        (sample.keys_before, sample.keys) = (Some(500.0), Some(500.0));
    };
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run_with(600.0, |_, sample| small(sample));
    traffic.run_with(4.0, |_, sample| {
        small(sample);
        lose(sample, 0.12);
        sample.loads = Some(sample.lookups.redis.unwrap().misses);
        sample.expired = Some(4.0);
        sample.due_ratio = Some(2.44);
    });
    traffic.run_with(60.0, |_, sample| small(sample));
    assert_eq!(traffic.only().cause, Cause::HotKey);
    assert!(!traffic.changes.iter().any(|change| matches!(change, Change::CauseChanged { .. })));
}

#[test]
fn a_small_forecast_wave_is_the_cause_once_its_keys_run_out() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run_with(600.0, |_, sample| counted(sample));
    traffic.run_with(20.0, |at, sample| {
        counted(sample);
        lose(sample, 0.3 * (-at / 10.0).exp());
        sample.loads = Some(sample.lookups.redis.unwrap().misses);
        sample.due_ratio = Some(if at < 1.5 { 2.44 } else { 1.0 });
        // A poll later than the misses.
        sample.expired = Some(if at < 1.5 { 10.0 } else { 200.0 * (-at / 10.0).exp() });
    });
    assert_eq!(traffic.only().cause, Cause::SynchronizedExpiry);
    assert_eq!(traffic.log.count[Cause::SynchronizedExpiry as usize], 1);
}

#[test]
fn a_settled_cause_stays_whatever_shows_up_later() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run_with(600.0, |_, sample| counted(sample));
    traffic.run_with(60.0, |at, sample| {
        counted(sample);
        lose(sample, 0.3);
        sample.hot_key_share = Some(0.9);
        // Weaker from the third second on, stronger after it has settled.
        sample.due_ratio = Some(if at > 2.5 { 40.0 } else { 1.0 });
        sample.expired = Some(if at > 2.5 { 300.0 } else { 5.0 });
        sample.not_found = Some(if at > 20.5 { 300.0 } else { 1.0 });
    });
    assert_eq!(traffic.only().cause, Cause::HotKey);
    assert!(!traffic.changes.iter().any(|change| matches!(change, Change::CauseChanged { .. })));
}

#[test]
fn synchronized_expiry_by_the_expired_keys() {
    check(Cause::SynchronizedExpiry, 30.0, |at, sample| {
        lose(sample, 0.38 * (-at / 20.0).exp());
        sample.due_ratio = None;
        sample.expired = Some(400.0 * (-at / 20.0).exp());
    });
}

#[test]
fn cold_start_by_a_flush() {
    check(Cause::ColdStart, 60.0, |at, sample| {
        lose(sample, 0.97 * (-at / 30.0).exp());
        if at < 1.5 {
            sample.flushes = Some(1.0);
            sample.keys = Some(10.0);
        }
    });
}

#[test]
fn cold_start_by_a_restart() {
    check(Cause::ColdStart, 60.0, |at, sample| {
        lose(sample, 0.16 * (-at / 60.0).exp());
        sample.restarted = at < 1.5;
    });
}

#[test]
fn invalidation_by_keys_that_are_gone() {
    check(Cause::Invalidation, 60.0, |at, sample| {
        lose(sample, 0.4 * (-at / 30.0).exp());
        if at < 1.5 {
            sample.keys = Some(60_000.0);
        }
    });
}

#[test]
fn invalidation_among_keys_that_live_for_seconds() {
    // 650 keys that live 10 s: 65 expire a second and are written again, so ten seconds of expiries
    // are as many as there are keys, and yet they explain nothing of a fall to 107 in one poll.
    let short_lived = |sample: &mut Sample, before: f64, now: f64| {
        counted(sample);
        sample.expired = Some(65.0);
        (sample.keys_before, sample.keys) = (Some(before), Some(now));
    };
    let mut traffic = Traffic::new(500.0, 0.13);
    traffic.run_with(600.0, |_, sample| short_lived(sample, 650.0, 650.0));
    traffic.assert_silent();
    traffic.run_with(1.0, |_, sample| {
        short_lived(sample, 650.0, 107.0);
        lose(sample, 0.4);
    });
    let mut keys = 107.0;
    traffic.run_with(5.0, |_, sample| {
        short_lived(sample, keys, keys + 100.0);
        keys += 100.0;
        lose(sample, 0.3);
    });
    traffic.run_with(60.0, |_, sample| short_lived(sample, 650.0, 650.0));
    assert_eq!(traffic.only().cause, Cause::Invalidation, "{:?}", traffic.only());
}

#[test]
fn eviction_by_evicted_keys() {
    check(Cause::Eviction, 60.0, |_, sample| {
        lose(sample, 0.13);
        sample.evicted = Some(4000.0);
    });
}

#[test]
fn penetration_by_loads_that_find_nothing() {
    check(Cause::Penetration, 60.0, |_, sample| {
        sample.lookups.redis.as_mut().unwrap().misses += 800.0;
        sample.not_found = Some(801.0);
        sample.loads = Some(820.0);
    });
}

#[test]
fn penetration_by_lookups_that_come_on_top() {
    let mut traffic = Traffic::new(1000.0, 0.03);
    traffic.run(600.0);
    traffic.run_with(60.0, |_, sample| sample.lookups.redis.as_mut().unwrap().misses += 800.0);
    assert_eq!(traffic.only().cause, Cause::Penetration);
}

#[test]
fn avalanche_by_failing_calls() {
    check(Cause::Avalanche, 60.0, |_, sample| {
        sample.lookups = BySource { redis: None, app: Some(Lookups { hits: 0.0, misses: 1000.0 }) };
        sample.errors = Some(1000.0);
    });
}

#[test]
fn avalanche_when_failed_calls_are_not_even_counted_as_misses() {
    check(Cause::Avalanche, 60.0, |_, sample| {
        sample.lookups.redis = Some(Lookups::default());
        sample.errors = Some(1000.0);
    });
}

#[test]
fn avalanche_stays_while_the_server_is_away() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    let app = |sample: &mut Sample, misses: f64| {
        let hits = 1000.0 - misses;
        sample.lookups = BySource { redis: None, app: Some(Lookups { hits, misses }) };
        sample.errors = Some(if misses > 500.0 { misses } else { 0.0 });
    };
    traffic.run_with(600.0, |_, sample| app(sample, 20.0));
    traffic.run_with(10.0, |_, sample| {
        app(sample, 1000.0);
        sample.reach = Reach::Failing;
    });
    assert_eq!(traffic.only().cause, Cause::Avalanche);
    // The applications fall silent too.
    traffic.run_with(300.0, |_, sample| {
        sample.lookups = BySource::default();
        sample.reach = Reach::Failing;
    });
    assert!(traffic.log.running.is_some());
    traffic.run_with(60.0, |_, sample| {
        app(sample, 20.0);
        sample.reach = Reach::Answering;
    });
    assert!(traffic.log.running.is_none());
}

#[test]
fn a_server_that_is_away_alone_is_no_stampede() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run(600.0);
    traffic.run_with(300.0, |_, sample| {
        sample.lookups = BySource::default();
        sample.reach = Reach::Failing;
    });
    traffic.run(300.0);
    traffic.assert_silent();
}

#[test]
fn a_server_that_loads_its_data_says_nothing() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run(600.0);
    traffic.run_with(60.0, |at, sample| {
        sample.restarted = at < 1.5;
        sample.lookups.redis = Some(Lookups { hits: 0.0, misses: 1000.0 });
        sample.reach = Reach::Loading;
    });
    traffic.run(300.0);
    traffic.assert_silent();
    let baseline = traffic.last.baseline_misses_per_second.redis.unwrap();
    assert!((15.0..25.0).contains(&baseline), "{baseline}");
}

#[test]
fn a_flush_during_warm_up_is_a_cold_start() {
    for warm in [5.0, 20.0, 60.0] {
        let mut traffic = Traffic::new(1000.0, 0.02);
        traffic.run_with(warm, |_, sample| counted(sample));
        let start = traffic.now;
        traffic.run_with(60.0, |at, sample| {
            counted(sample);
            lose(sample, 0.97 * (-at / 60.0).exp());
            if at < 1.5 {
                sample.flushes = Some(1.0);
            }
        });
        assert_eq!(traffic.only().cause, Cause::ColdStart);
        assert!(traffic.only_start() <= start + 2.0);
    }
}

#[test]
fn without_a_flush_counter_a_collapse_is_a_cold_start() {
    let mut traffic = Traffic::new(20.0, 0.05);
    let keys = |sample: &mut Sample, before, after| {
        (sample.keys_before, sample.keys) = (Some(before), Some(after));
    };
    traffic.run_with(600.0, |_, sample| keys(sample, 50_000.0, 50_000.0));
    let start = traffic.now;
    traffic.run_with(60.0, |at, sample| {
        lose(sample, 0.97);
        keys(sample, if at < 1.5 { 50_000.0 } else { 20.0 * at }, 20.0 * at);
    });
    assert_eq!(traffic.only().cause, Cause::ColdStart);
    assert!(traffic.only_start() <= start + 2.0);
}

#[test]
fn a_late_witness_changes_the_cause_before_it_settles() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run_with(600.0, |_, sample| counted(sample));
    traffic.run_with(30.0, |at, sample| {
        counted(sample);
        lose(sample, 0.3);
        sample.expired = Some(10.0);
        if at > 4.5 {
            sample.evicted = Some(4000.0);
        }
    });
    assert_eq!(traffic.only().cause, Cause::Eviction);
    let changed = traffic.changes.iter().any(|change| {
        matches!(change, Change::CauseChanged { incident, .. } if incident.cause == Cause::Eviction)
    });
    assert!(changed);
    assert_eq!(traffic.log.count[Cause::Eviction as usize], 1);
}

#[test]
fn two_causes_in_a_row_are_two_incidents() {
    let mut traffic = Traffic::new(1000.0, 0.02);
    traffic.run_with(600.0, |_, sample| counted(sample));
    let hot = |traffic: &mut Traffic| {
        traffic.run_with(30.0, |_, sample| {
            counted(sample);
            lose(sample, 0.2);
            sample.hot_key_share = Some(0.9);
        });
    };
    let flush = |traffic: &mut Traffic| {
        traffic.run_with(60.0, |at, sample| {
            counted(sample);
            lose(sample, 0.97 * (-at / 20.0).exp());
            if at < 1.5 {
                sample.flushes = Some(1.0);
            }
        });
    };
    // One right after the other, while the first still runs.
    hot(&mut traffic);
    flush(&mut traffic);
    traffic.run_with(600.0, |_, sample| counted(sample));
    let counts = |traffic: &Traffic| {
        [Cause::HotKey, Cause::ColdStart].map(|cause| traffic.log.count[cause as usize])
    };
    assert_eq!(counts(&traffic), [1, 1]);
    // And with a pause that would make it one incident, were it of one kind.
    hot(&mut traffic);
    traffic.run_with(60.0, |_, sample| counted(sample));
    flush(&mut traffic);
    traffic.run_with(600.0, |_, sample| counted(sample));
    assert_eq!(counts(&traffic), [2, 2]);
    assert_eq!(traffic.log.count.iter().sum::<u64>(), 4);
}
