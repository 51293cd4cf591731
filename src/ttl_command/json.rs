//! The look as one JSON object.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::Look;
use crate::signal::ttl::{DUE_WINDOWS, Estimate, Forecast, GroupTtl, TTL_BOUNDS, Wave};

pub(super) fn write(look: &Look, out: &mut dyn Write) -> io::Result<()> {
    let picture = &look.picture;
    let object = json!({
        "server": look.server,
        "software": look.software,
        "time": picture.time,
        "keys": picture.keys,
        "without_ttl": picture.without_ttl,
        "without_ttl_share": estimate(picture.without_ttl_share),
        "expired_keys_held": picture.held.map(estimate),
        "due": due(picture.due),
        "peak": peak(&picture.all),
        "groups": picture.groups.iter().map(group).collect::<Vec<_>>(),
        "waves": picture.waves.iter().map(|w| wave(w, picture.time)).collect::<Vec<_>>(),
        "sample": {
            "keys": picture.sample_keys,
            "whole_round": picture.rounds.complete > 0,
            "lookups": picture.sampler_lookups,
            "odd_keys": picture.odd_keys,
            "seconds": look.seconds,
            "smallest_wave_keys": picture.smallest_wave,
            "interrupted": look.interrupted,
        },
    });
    writeln!(out, "{object}")
}

fn group(group: &GroupTtl) -> Value {
    let bounds = TTL_BOUNDS.iter().map(|bound| json!(bound)).chain([json!("+Inf")]);
    let buckets = bounds.zip(&group.buckets).map(|(le, keys)| json!({"le": le, "keys": keys}));
    let intervals = group.due.iter().zip(group.due_intervals);
    let due_estimates: Vec<Estimate> =
        intervals.map(|(value, (low, high))| Estimate { value: *value, low, high }).collect();
    json!({
        "name": &*group.name,
        "with_ttl": group.buckets.iter().sum::<f64>(),
        "without_ttl": group.without_ttl,
        "without_ttl_interval": group.without_ttl_interval,
        "ttl_sum_seconds": group.ttl_sum,
        "buckets": buckets.collect::<Vec<_>>(),
        "due": due(due_estimates),
        "peak": peak(&group.forecast),
    })
}

fn due(estimates: impl IntoIterator<Item = Estimate>) -> Value {
    let windows = DUE_WINDOWS.iter().map(|(_, name)| (*name).to_owned());
    Value::Object(windows.zip(estimates.into_iter().map(estimate)).collect::<Map<_, _>>())
}

fn peak(forecast: &Forecast) -> Value {
    json!({
        "keys_per_second": forecast.peak_keys_per_second,
        "interval": forecast.peak_interval,
        "in_seconds": forecast.peak_in,
        "clustering_ratio": forecast.clustering_ratio,
    })
}

fn wave(wave: &Wave, now: f64) -> Value {
    json!({
        "group": &*wave.group,
        "start": wave.start,
        "in_seconds": wave.start - now,
        "width_seconds": wave.end - wave.start,
        "keys": estimate(wave.keys),
        "peak_keys_per_second": estimate(wave.peak_keys_per_second),
        "group_share": wave.group_share,
        "space_share": estimate(wave.space_share),
        "lookup_share": wave.lookup_share.map(estimate),
    })
}

fn estimate(estimate: Estimate) -> Value {
    json!({"value": estimate.value, "low": estimate.low, "high": estimate.high})
}
