//! Real requests: Twitter's cluster 52, replayed through caches that were flushed.

use stampede_exporter::detect::Incident;
use stampede_exporter::reading::{BySource, Lookups};
use stampede_exporter::signal::sample::Sample;

use super::traffic::Traffic;

/// The flush, and the first echo one TTL later.
const FLUSH: f64 = 1800.0;
const ECHO: f64 = 2100.0;
const COLD_START: f64 = 600.0;

/// Columns of the trace.
const REQUESTS: usize = 0;
const LRU: usize = 1;
const LRU_FLUSH: usize = 2;
const TTL_FLUSH: usize = 3;
const TTL_EXPIRIES: usize = 4;

fn rows() -> Vec<Vec<f64>> {
    let text = include_str!("../../traces/twitter_cluster52.csv");
    text.lines()
        .skip(1)
        .map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect())
        .collect()
}

/// Seconds at which incidents started after the cold start. `forecast` tells for each second how
/// many times the mean number of keys runs out in it.
fn starts(misses: usize, forecast: impl Fn(usize) -> Option<f64>) -> Vec<f64> {
    let mut traffic = Traffic::new(0.0, 0.0);
    for (second, row) in rows().iter().enumerate() {
        let lookups = Lookups { hits: row[REQUESTS] - row[misses], misses: row[misses] };
        traffic.observe(&Sample {
            time: second as f64,
            dt: 1.0,
            lookups: BySource { redis: Some(lookups), app: None },
            due_ratio: forecast(second),
            ..Sample::default()
        });
    }
    let all: Vec<Incident> = traffic.log.running.into_iter().chain(traffic.log.past).collect();
    let mut starts: Vec<f64> = all.iter().map(|incident| incident.started_at).collect();
    starts.retain(|start| *start >= COLD_START);
    starts.sort_by(f64::total_cmp);
    starts
}

#[test]
fn a_warm_cache_is_silent() {
    assert_eq!(starts(LRU, |_| None), Vec::<f64>::new());
}

#[test]
fn the_flush_is_seen_within_two_seconds_and_nothing_else() {
    let found = starts(LRU_FLUSH, |_| None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!((FLUSH..=FLUSH + 2.0).contains(&found[0]), "{found:?}");
}

#[test]
fn the_first_echo_is_seen_with_the_forecast() {
    let rows = rows();
    let mean = rows[1000..1800].iter().map(|row| row[TTL_EXPIRIES]).sum::<f64>() / 800.0;
    // What is due in the coming second, known one second ahead.
    let forecast = |second: usize| rows.get(second + 1).map(|row| row[TTL_EXPIRIES] / mean);
    let found = starts(TTL_FLUSH, forecast);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!((FLUSH..=FLUSH + 2.0).contains(&found[0]), "{found:?}");
    assert!((ECHO..=ECHO + 3.0).contains(&found[1]), "{found:?}");
}

#[test]
fn without_the_forecast_only_the_flush() {
    let found = starts(TTL_FLUSH, |_| None);
    assert!((FLUSH..=FLUSH + 2.0).contains(&found[0]), "{found:?}");
    assert!(found.iter().all(|start| *start < FLUSH + 2.5 || *start >= ECHO), "{found:?}");
}
