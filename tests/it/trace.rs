//! Traces that are recorded, and read back.

use stampede_exporter::reading::{BySource, Lookups, Reach, Reading};
use stampede_exporter::trace::{Recorder, Row, TraceReader};

use super::support::exporter::Exporter;
use super::support::page::Page;
use super::support::redis::Redis;
use super::support::wait_for;

#[test]
fn what_is_recorded_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let lookups = |n| Some(Lookups { hits: n, misses: n / 8.0 });
    let known = Reading {
        time: 1_700_000_000.125,
        lookups: BySource { redis: lookups(1e9), app: lookups(123.0) },
        expired: Some(1.0),
        evicted: Some(2.0),
        errors: Some(3.0),
        not_found: Some(4.0),
        loads: Some(5.0),
        coalesced: Some(6.0),
        lock_acquired: Some(7.0),
        lock_failed: Some(8.0),
        flushes: Some(9.0),
        keys: Some(1e16),
        uptime: Some(11.0),
        latency_p50: Some(0.0125),
        latency_p99: Some(1.0 / 3.0),
        due_ratio: Some(14.5),
        hot_key_share: Some(0.75),
        reach: Reach::Loading,
    };
    let unknown = Reading { time: 1_700_000_001.0, ..Reading::default() };
    for apps in [true, false] {
        let start = if apps { 1.0 } else { 2.0 };
        let mut recorder = Recorder::create(dir.path(), "a/b", start, apps).unwrap();
        recorder.record(&known).unwrap();
        recorder.record(&unknown).unwrap();
        let mut reader = TraceReader::open(recorder.path()).unwrap();
        let mut right = known.clone();
        if !apps {
            right.lookups.app = None;
        }
        let mut read = Reading::default();
        assert_eq!(reader.read(&mut read).unwrap(), Row::Read);
        assert_eq!(read, right);
        assert_eq!(reader.read(&mut read).unwrap(), Row::Read);
        assert_eq!(read, unknown);
        assert_eq!(reader.read(&mut read).unwrap(), Row::End);
    }
}

#[test]
fn no_recording_is_overwritten_or_leaves_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let first = Recorder::create(dir.path(), "../x y", 7.5, false).unwrap();
    assert_eq!(first.path(), dir.path().join("-x-y-7.csv"));
    let second = Recorder::create(dir.path(), "../x y", 7.9, false).unwrap();
    assert_eq!(second.path(), dir.path().join("-x-y-7-2.csv"));
}

#[test]
fn the_exporter_records_what_it_sees() {
    let redis = Redis::start();
    let page = Page::start("cache_hits_total 90\ncache_misses_total 10\n");
    let dir = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(&[
        "--redis.addr",
        &redis.url(),
        "--app.url",
        &page.url(),
        "--record.dir",
        &dir.path().display().to_string(),
    ]);
    redis.cli(&["SET", "key", "value"]);
    redis.cli(&["GET", "key"]);
    page.set("cache_hits_total 93\ncache_misses_total 14\n");
    let rows = wait_for("a row with both sources' lookups", || {
        let file = std::fs::read_dir(dir.path()).ok()?.next()?.ok()?.path();
        let mut reader = TraceReader::open(&file).ok()?;
        let (mut rows, mut reading) = (Vec::new(), Reading::default());
        while reader.read(&mut reading).ok()? == Row::Read {
            rows.push(reading.clone());
        }
        let last = rows.last()?.lookups;
        let seen = last.app == Some(Lookups { hits: 3.0, misses: 4.0 });
        (seen && last.redis.is_some_and(|l| l.hits >= 1.0)).then_some(rows)
    });
    assert!(rows.iter().all(|row| row.reach == Reach::Answering && row.keys.is_some()));
    assert!(exporter.log().contains("recording"), "{}", exporter.log());
}
