//! Misses that share a load or find its lock taken are no stampede, unless loads rise all the same.

use stampede_exporter::detect::{Detector, Thresholds};
use stampede_exporter::reading::{BySource, Lookups};
use stampede_exporter::signal::sample::Sample;

/// Ten minutes of 2000 lookups a second with 20 misses, then one second with 600 misses more of
/// which so many shared a load, found a lock taken, and loaded; whether that is a stampede.
fn is_stampede(coalesced: f64, lock_failed: f64, loads: f64) -> bool {
    let mut detector = Detector::new(Thresholds::default());
    let sample = |second: u32, misses: f64| Sample {
        time: 1e9 + f64::from(second),
        dt: 1.0,
        lookups: BySource { redis: None, app: Some(Lookups { hits: 2000.0 - misses, misses }) },
        loads: Some(misses),
        coalesced: Some(0.0),
        lock_failed: Some(0.0),
        lock_acquired: Some(0.0),
        ..Sample::default()
    };
    for second in 0..600 {
        let wobble = f64::from(second % 5) - 2.0;
        assert!(detector.observe(&sample(second, 20.0 + wobble)).running.is_none());
    }
    let (coalesced, lock_failed) = (Some(coalesced), Some(lock_failed));
    let struck = Sample { coalesced, lock_failed, loads: Some(loads), ..sample(600, 620.0) };
    let verdict = detector.observe(&struck);
    assert_eq!(verdict.running.is_some(), verdict.score >= 1.0, "{}", verdict.score);
    verdict.running.is_some()
}

#[test]
fn shared_loads_are_silent_and_bare_ones_are_not() {
    assert!(is_stampede(0.0, 0.0, 620.0), "nobody shares");
    assert!(!is_stampede(599.0, 0.0, 21.0), "all share one load");
    assert!(!is_stampede(0.0, 599.0, 21.0), "all find one lock taken");
    assert!(!is_stampede(0.0, 5000.0, 21.0), "waiters try the lock many times");
}

#[test]
fn sharing_a_little_hides_nothing() {
    assert!(is_stampede(300.0, 0.0, 320.0), "half share, half load");
    assert!(is_stampede(0.0, 5000.0, 620.0), "a lock that protects nothing");
}
