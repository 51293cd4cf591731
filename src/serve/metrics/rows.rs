//! The table: every metric of the page with its labels, its help and where its value comes from.
//!
//! To add a metric, add a row here and the lines it makes to `tests/golden/metrics.txt`.

use super::{Kind, Origin, Row};
use crate::detect::{Cause, SignalKind};
use crate::signal::ttl::{
    ALL_GROUP, DUE_WINDOWS, Forecast, Outcome, TTL_BOUNDS, TtlPicture, WatchedState,
};
use crate::snapshot::NodeState;

const CACHE: &[&str] = &["cache"];
const NODE: &[&str] = &["cache", "node"];
const APP: &[&str] = &["cache", "app"];
const SOURCE: &[&str] = &["cache", "source"];
const GROUP: &[&str] = &["cache", "group"];
const CAUSE: &[&str] = &["cache", "cause"];

#[rustfmt::skip] // one shape for every row: name, labels, help, then the value
pub(super) const ROWS: &[Row] = &[
    // The exporter itself.
    Row { name: "stampede_build_info", kind: Kind::Gauge, labels: &["version", "revision"],
        help: "1, with the version and the source revision of the exporter.",
        from: Origin::View(|_, build, out| out.add(&[build.version, build.revision], Some(1.0))) },
    gauge("stampede_config_reload_successful", &[],
        "Whether the last reload of the configuration worked (1) or the one before is still in use (0).",
        Origin::View(|view, _, out| out.add(&[], flag(view.reload_successful)))),

    // Redis, server by server.
    gauge("stampede_redis_up", NODE,
        "Whether the last poll of the server worked. The exporter polls on a timer of its own and not at a scrape, because a stampede can be over before the next scrape.",
        Origin::Node(|node, out| out.add(&[], flag(node.up)))),
    gauge("stampede_redis_info", &["cache", "node", "server", "version", "role", "mode"],
        "1, with what the server says about itself. Absent while it is down.",
        Origin::Node(|node, out| if node.up { out.add(&about(node), Some(1.0)) })),
    counter("stampede_redis_polls_total", CACHE,
        "Polls of the cache's servers, failed ones included.",
        Origin::Cache(|s, out| out.add(&[], count(s.polls)))),
    counter("stampede_redis_poll_errors_total", &["cache", "reason"],
        "Polls that failed, by reason. The error's text is in the log.",
        Origin::Cache(|s, out| for (reason, n) in &s.poll_errors {
            out.add(&[reason], count(*n));
        })),
    Row { name: "stampede_redis_poll_duration_seconds", kind: Kind::Histogram, labels: CACHE,
        help: "How long polls took, in seconds, connecting included.",
        from: Origin::Cache(|s, out| {
            let polls = &s.poll_duration;
            let counts = polls.counts.iter().map(|n| *n as f64);
            out.add_histogram(&[], &polls.bounds, counts, polls.sum);
        }) },
    gauge("stampede_redis_last_success_timestamp_seconds", NODE,
        "When a poll of the server last worked, in Unix seconds.",
        Origin::Node(|node, out| out.add(&[], node.last_success))),
    gauge("stampede_redis_capability", &["cache", "node", "command"],
        "Whether the server lets the exporter use the command (1) or not (0); keymiss stands for key-miss notifications, 0 until they were needed and worked.",
        Origin::Cache(|s, out| for node in s.nodes.iter().chain(&s.sampled) {
            for (command, usable) in &node.capabilities {
                out.add(&[&node.node, command], flag(*usable));
            }
        })),
    counter("stampede_redis_keyspace_hits_total", NODE,
        "Lookups that found a key, added up since the exporter started: survives restarts and CONFIG RESETSTAT, and leaves out the exporter's own lookups.",
        Origin::Node(|node, out| out.add(&[], Some(node.totals.hits)))),
    counter("stampede_redis_keyspace_misses_total", NODE,
        "Lookups that found no key, added up since the exporter started: survives restarts and CONFIG RESETSTAT, and leaves out the exporter's own lookups.",
        Origin::Node(|node, out| out.add(&[], Some(node.totals.misses)))),
    counter("stampede_redis_expired_keys_total", NODE,
        "Keys the server removed because their time was up, added up since the exporter started.",
        Origin::Node(|node, out| out.add(&[], Some(node.totals.expired)))),
    counter("stampede_redis_evicted_keys_total", NODE,
        "Keys the server removed for lack of memory, added up since the exporter started.",
        Origin::Node(|node, out| out.add(&[], Some(node.totals.evicted)))),
    gauge("stampede_redis_keys", NODE,
        "Keys in all databases of the server. Absent while it is down.",
        Origin::Node(|node, out| if node.up { out.add(&[], node.keys) })),
    gauge("stampede_redis_memory_used_bytes", NODE,
        "Memory that the server's data and buffers take, at most ten seconds ago. Absent while it is down.",
        Origin::Node(|node, out| if node.up { out.add(&[], node.memory_used) })),
    gauge("stampede_redis_memory_limit_bytes", NODE,
        "The server's memory limit, at which it evicts keys or refuses writes. Absent without a limit.",
        Origin::Node(|node, out| if node.up { out.add(&[], node.memory_limit) })),
    counter("stampede_redis_counter_resets_total", &["cache", "node", "reason"],
        "Times the server's counters began anew, by reason, since the exporter started. A reason is there from its first time on; for when it was, see stampede_redis_reset_timestamp_seconds.",
        Origin::Node(|node, out| for (reason, resets) in &node.resets {
            if resets.count > 0 {
                out.add(&[reason], count(resets.count));
            }
        })),
    gauge("stampede_redis_reset_timestamp_seconds", &["cache", "node", "reason"],
        "When the server's counters last began anew, by reason, in Unix seconds; 0 while they have not since the exporter started.",
        Origin::Node(|node, out| for (reason, resets) in &node.resets {
            out.add(&[reason], Some(resets.last.unwrap_or(0.0)));
        })),
    counter("stampede_info_problems_total", &["cache", "node", "kind"],
        "Fields of INFO that were missing or could not be read, by kind. Each costs that field only.",
        Origin::Node(|node, out| for (kind, n) in &node.info_problems {
            out.add(&[kind], count(*n));
        })),

    // The applications.
    gauge("stampede_app_up", APP,
        "Whether the last scrape of the application's counters worked.",
        Origin::App(|app, out| out.add(&[], flag(app.up)))),
    gauge("stampede_app_last_success_timestamp_seconds", APP,
        "When a scrape of the application's counters last worked, in Unix seconds.",
        Origin::App(|app, out| out.add(&[], app.last_success))),
    counter("stampede_app_scrape_errors_total", &["cache", "app", "reason"],
        "Scrapes of the application's counters that failed, by reason.",
        Origin::App(|app, out| for (reason, n) in &app.errors_by_reason {
            out.add(&[reason], count(*n));
        })),
    counter("stampede_app_hits_total", APP,
        "Cache hits the application counted, added up since the exporter started.",
        Origin::App(|app, out| out.add(&[], app.totals.hits))),
    counter("stampede_app_misses_total", APP,
        "Cache misses the application counted, added up since the exporter started.",
        Origin::App(|app, out| out.add(&[], app.totals.misses))),
    counter("stampede_app_loads_total", APP,
        "Queries to the backend (the database) that the application counted.",
        Origin::App(|app, out| out.add(&[], app.totals.loads))),
    counter("stampede_app_loads_coalesced_total", APP,
        "Requests that shared the load of another one instead of loading themselves.",
        Origin::App(|app, out| out.add(&[], app.totals.loads_coalesced))),
    counter("stampede_app_errors_total", APP,
        "Cache calls that failed at the application.",
        Origin::App(|app, out| out.add(&[], app.totals.errors))),
    counter("stampede_app_not_found_total", APP,
        "Loads that found that the value does not exist in the backend either.",
        Origin::App(|app, out| out.add(&[], app.totals.not_found))),
    counter("stampede_app_lock_attempts_total", &["cache", "app", "result"],
        "Attempts to take the lock around a load, by result.",
        Origin::App(|app, out| {
            out.add(&["acquired"], app.totals.lock_acquired);
            out.add(&["contended"], app.totals.lock_contended);
            out.add(&["timeout"], app.totals.lock_timeout);
            out.add(&["error"], app.totals.lock_error);
        })),

    // What a person watches, over the sliding window. Undefined is absent.
    gauge("stampede_hit_ratio", SOURCE,
        "Hits over lookups in the window, 0 to 1. Absent with too few lookups (see stampede_lookups_per_second) and while the source is down.",
        Origin::Source(|s, source, out| out.add(&[], *s.signals.hit_ratio.get(source)))),
    gauge("stampede_lookups_per_second", SOURCE,
        "Lookups a second over the window.",
        Origin::Source(|s, source, out| out.add(&[], *s.signals.lookups_per_second.get(source)))),
    gauge("stampede_misses_per_second", SOURCE,
        "Misses a second over the window.",
        Origin::Source(|s, source, out| out.add(&[], *s.signals.misses_per_second.get(source)))),
    gauge("stampede_miss_baseline_per_second", SOURCE,
        "Misses a second that would be normal at the present traffic.",
        Origin::Source(|s, source, out| {
            out.add(&[], *s.verdict.baseline_misses_per_second.get(source));
        })),
    gauge("stampede_miss_baseline_ready", CACHE,
        "Whether the baseline has seen enough to judge by (1) or still learns (0).",
        Origin::Cache(|s, out| out.add(&[], flag(s.verdict.ready)))),
    gauge("stampede_loads_per_second", CACHE,
        "Backend queries a second over the window: the database's QPS as the applications see it.",
        Origin::Apps(|s, out| out.add(&[], s.signals.loads_per_second))),
    gauge("stampede_lock_attempts_per_second", CACHE,
        "Lock attempts a second over the window, whatever their result.",
        Origin::Apps(|s, out| out.add(&[], s.signals.lock_attempts_per_second))),
    gauge("stampede_lock_contention_ratio", CACHE,
        "Refused over all lock attempts in the window, 0 to 1.",
        Origin::Apps(|s, out| out.add(&[], s.signals.lock_contention_ratio))),
    Row { name: "stampede_load_latency_seconds", kind: Kind::Untyped, labels: &["cache", "quantile"],
        help: "How long loads took at the applications over the window, in seconds: median and 99th percentile. A gauge.",
        from: Origin::Apps(|s, out| {
            out.add(&["0.5"], s.signals.load_latency_p50);
            out.add(&["0.99"], s.signals.load_latency_p99);
        }) },
    gauge("stampede_misses_per_expiry", CACHE,
        "Misses in the window per key that expired in it: far above 1 when many ask for the same expired entry.",
        Origin::Servers(|s, out| out.add(&[], s.signals.misses_per_expiry))),

    // What expires when.
    Row { name: "stampede_key_ttl_seconds", kind: Kind::Histogram, labels: GROUP,
        help: "Remaining TTL of the keys as they are now, in seconds, scaled from a sample to the whole key space. A snapshot: buckets go down as well as up, so read it as it is and never through rate().",
        from: Origin::Ttl(|ttl, out| for group in &ttl.groups {
            let counts = group.buckets.iter().copied();
            out.add_histogram(&[&group.name], &TTL_BOUNDS, counts, group.ttl_sum);
        }) },
    gauge("stampede_keys_without_ttl", GROUP,
        "Keys that never expire, scaled from a sample to the whole key space.",
        Origin::Ttl(|ttl, out| for group in &ttl.groups {
            out.add(&[&group.name], Some(group.without_ttl));
        })),
    gauge("stampede_keys_due", &["cache", "group", "window"],
        "Keys that run out within the window from now, scaled from a sample to the whole key space.",
        Origin::Ttl(|ttl, out| for group in &ttl.groups {
            for ((_, window), keys) in DUE_WINDOWS.iter().zip(group.due) {
                out.add(&[&group.name, window], Some(keys));
            }
        })),
    gauge("stampede_expiry_peak_keys_per_second", GROUP,
        "Keys that run out in the highest second ahead. The group \"all\" is the whole key space, because peaks do not add.",
        Origin::Ttl(|ttl, out| for (group, forecast) in forecasts(ttl) {
            out.add(&[group], forecast.peak_keys_per_second);
        })),
    gauge("stampede_expiry_peak_in_seconds", GROUP,
        "Seconds until the highest second of expiry ahead.",
        Origin::Ttl(|ttl, out| for (group, forecast) in forecasts(ttl) {
            out.add(&[group], forecast.peak_in);
        })),
    gauge("stampede_expiry_clustering_ratio", GROUP,
        "Keys that run out in the highest second ahead over the mean second: 1 is an even spread.",
        Origin::Ttl(|ttl, out| for (group, forecast) in forecasts(ttl) {
            out.add(&[group], forecast.clustering_ratio);
        })),
    gauge("stampede_expiry_waves", CACHE,
        "Coming expiry waves: many keys with one deadline, more than chance explains.",
        Origin::Ttl(|ttl, out| out.add(&[], Some(ttl.waves.len() as f64)))),
    gauge("stampede_expiry_wave_in_seconds", CACHE,
        "Seconds until the next expiry wave. Absent while none is seen.",
        Origin::Ttl(|ttl, out| {
            out.add(&[], ttl.waves.first().map(|wave| (wave.start - ttl.time).max(0.0)));
        })),
    gauge("stampede_expiry_wave_keys", &["cache", "bound"],
        "Keys that run out in the next expiry wave: the estimate and its 95 % interval.",
        Origin::Ttl(|ttl, out| if let Some(wave) = ttl.waves.first() {
            out.add_estimate(wave.keys);
        })),
    gauge("stampede_expiry_wave_extra_misses_per_second", &["cache", "bound"],
        "Misses a second that the costliest coming wave adds at its peak: the estimate and its 95 % interval. Lookups are weighed by OBJECT FREQ where the server has an LFU policy and allows it, and taken to fall evenly on the keys elsewhere.",
        Origin::Servers(|s, out| if let Some(cost) = s.costliest_wave() {
            out.add_estimate(cost);
        })),
    counter("stampede_expiry_wave_outcomes_total", &["cache", "outcome"],
        "Announced expiry waves that are over: expired, the server has counted their keys as expired; withdrawn, the keys were deleted or written again before; unseen, their time came and the server has expired hardly more keys than usual within a minute.",
        Origin::Cache(|s, out| for (outcome, n) in Outcome::ALL.iter().zip(s.sampler.waves) {
            out.add(&[outcome.as_str()], count(n));
        })),
    gauge("stampede_expired_keys_held", &["cache", "bound"],
        "Keys past their deadline that the server still holds and counts in its key space: the estimate and its 95 % interval. A read of one is a miss. Absent until enough was scanned, and where cursors do not tell how far a scan is.",
        Origin::Ttl(|ttl, out| if let Some(held) = ttl.held {
            out.add_estimate(held);
        })),
    gauge("stampede_watched_key_ttl_seconds", &["cache", "watch"],
        "Remaining TTL of a key of the watch list, in seconds. Absent where it does not exist or never expires.",
        Origin::Ttl(|ttl, out| for watched in &ttl.watched {
            if let Some(WatchedState::Due(at)) = watched.state {
                out.add(&[&watched.name], Some((at - ttl.time).max(0.0)));
            }
        })),
    gauge("stampede_watched_key_exists", &["cache", "watch"],
        "Whether a key of the watch list exists. Absent while unknown.",
        Origin::Ttl(|ttl, out| for watched in &ttl.watched {
            let exists = watched.state.and_then(|state| flag(state != WatchedState::Missing));
            out.add(&[&watched.name], exists);
        })),
    gauge("stampede_ttl_sample_keys", CACHE,
        "Keys in the sample that the TTL series rest on.",
        Origin::Ttl(|ttl, out| out.add(&[], count(ttl.sample_keys)))),
    gauge("stampede_ttl_sample_timestamp_seconds", CACHE,
        "When the newest key of the TTL sample was looked at, in Unix seconds.",
        Origin::Ttl(|ttl, out| out.add(&[], ttl.sample_time))),
    gauge("stampede_ttl_sampler_up", NODE,
        "Whether the server of ttl.sample_from, whose deadlines are sampled instead of those of the cache's own server, answered its last poll. Absent without that key.",
        Origin::Cache(|s, out| if let Some(node) = &s.sampled {
            out.add(&[&node.node], flag(node.up));
        })),
    counter("stampede_ttl_sampler_lookups_total", CACHE,
        "Lookups that the TTL sampler made at the servers. Those at a server of the cache are taken out of its hits and misses.",
        Origin::Cache(|s, out| out.add(&[], count(s.sampler.lookups)))),
    counter("stampede_ttl_sampler_rounds_total", CACHE,
        "Whole rounds of the TTL sampler over the key space. Before the first, the TTL series rest on a part of it.",
        Origin::Cache(|s, out| out.add(&[], count(s.sampler.rounds)))),
    counter("stampede_ttl_sampler_odd_keys_total", CACHE,
        "Keys that the server refused to look up one by one, or answered oddly.",
        Origin::Cache(|s, out| out.add(&[], count(s.sampler.odd_keys)))),
    gauge("stampede_ttl_sampler_server_ratio", CACHE,
        "Share of one core of the server that the TTL sampler takes, 0 to 1. Absent where the server does not show it.",
        Origin::Ttl(|ttl, out| out.add(&[], ttl.server_share))),

    // The verdict.
    gauge("stampede_active", CACHE,
        "Whether a stampede runs now.",
        Origin::Cache(|s, out| out.add(&[], flag(s.incidents.running.is_some())))),
    gauge("stampede_cause", CAUSE,
        "1 for the cause of the running stampede, 0 for every other cause.",
        Origin::Cache(|s, out| for cause in Cause::ALL {
            let running = s.incidents.running.as_ref().map(|incident| incident.cause);
            out.add(&[cause.as_str()], flag(running == Some(cause)));
        })),
    counter("stampede_incidents_total", CAUSE,
        "Stampedes so far, by cause; counted once the cause is settled, within seconds of the start.",
        Origin::Cache(|s, out| for (cause, n) in Cause::ALL.iter().zip(s.incidents.count) {
            out.add(&[cause.as_str()], count(n));
        })),
    counter("stampede_incident_seconds_total", CACHE,
        "Seconds spent in stampedes.",
        Origin::Cache(|s, out| out.add(&[], Some(s.incidents.seconds)))),
    counter("stampede_excess_misses_total", CACHE,
        "Misses beyond the baseline in stampedes.",
        Origin::Cache(|s, out| out.add(&[], Some(s.incidents.excess_misses)))),
    gauge("stampede_incident_start_timestamp_seconds", CACHE,
        "When the running stampede began, in Unix seconds. Absent while none runs.",
        Origin::Cache(|s, out| {
            out.add(&[], s.incidents.running.as_ref().map(|incident| incident.started_at));
        })),
    gauge("stampede_score", CACHE,
        "Evidence for a stampede over the threshold: 1 is the line.",
        Origin::Cache(|s, out| out.add(&[], Some(s.verdict.score)))),
    gauge("stampede_signal", &["cache", "signal"],
        "Evidence of each signal over its own threshold: 1 is the line, 0 is no evidence, also where the signal has no source.",
        Origin::Cache(|s, out| for (signal, score) in SignalKind::ALL.iter().zip(s.verdict.signals) {
            out.add(&[signal.as_str()], Some(score.unwrap_or(0.0)));
        })),
];

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    from: Origin,
) -> Row {
    Row { name, kind: Kind::Gauge, labels, help, from }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    from: Origin,
) -> Row {
    Row { name, kind: Kind::Counter, labels, help, from }
}

/// What a server says about itself, as label values; empty where it does not say.
fn about(node: &NodeState) -> [&str; 4] {
    [&node.server, &node.version, &node.role, &node.mode].map(|text| text.as_deref().unwrap_or(""))
}

/// The forecasts that are published, by group; those of the single groups come first.
fn forecasts(ttl: &TtlPicture) -> impl Iterator<Item = (&str, &Forecast)> {
    let groups = ttl.groups.iter().map(|group| (&*group.name, &group.forecast));
    groups.chain([(ALL_GROUP, &ttl.all)])
}

fn flag(value: bool) -> Option<f64> {
    Some(f64::from(u8::from(value)))
}

fn count(value: u64) -> Option<f64> {
    Some(value as f64)
}
