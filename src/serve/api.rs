//! The JSON of `/api/v1`: wire types of their own, so that the core may change its shape without
//! changing what scripts read. Names and units are part of the contract; `null` is unknown.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::keys;
use super::state::State;
use super::time::rfc3339;
use crate::detect::{Incident, SignalKind, Suspect, advice};
use crate::reading::BySource;
use crate::signal::ttl::{
    DUE_WINDOWS, Estimate, Forecast, PastWave, TTL_BOUNDS, TtlPicture, Watched, WatchedState, Wave,
};
use crate::snapshot::{AppState, NodeState, Snapshot};

/// One cache in `/api/v1/caches`.
#[derive(Debug, Serialize)]
pub(super) struct CacheJson<'a> {
    cache: &'a str,
    state: &'static str,
    updated_at: Option<String>,
    updated_timestamp: Option<f64>,
    active: bool,
    incident: Option<IncidentJson<'a>>,
    score: f64,
    signals: BTreeMap<&'static str, Option<f64>>,
    baseline_ready: bool,
    hit_ratio: SourcesJson,
    lookups_per_second: SourcesJson,
    misses_per_second: SourcesJson,
    miss_baseline_per_second: SourcesJson,
    loads_per_second: Option<f64>,
    lock_attempts_per_second: Option<f64>,
    lock_contention_ratio: Option<f64>,
    load_latency_p50_seconds: Option<f64>,
    load_latency_p99_seconds: Option<f64>,
    misses_per_expiry: Option<f64>,
    nodes: Vec<NodeJson<'a>>,
    /// The server whose deadlines are sampled, where it is none of `nodes`.
    sampled_node: Option<NodeJson<'a>>,
    apps: Vec<AppJson<'a>>,
    ttl: Option<TtlJson<'a>>,
}

/// A figure of each source.
#[derive(Debug, Serialize)]
struct SourcesJson {
    redis: Option<f64>,
    app: Option<f64>,
}

#[derive(Debug, Serialize)]
struct NodeJson<'a> {
    node: &'a str,
    up: bool,
    last_success_at: Option<String>,
    server: Option<&'a str>,
    version: Option<&'a str>,
    role: Option<&'a str>,
    mode: Option<&'a str>,
    keys: Option<f64>,
    hits: f64,
    misses: f64,
    expired_keys: f64,
    evicted_keys: f64,
    counter_resets: BTreeMap<&'static str, u64>,
    capabilities: BTreeMap<&'static str, bool>,
}

#[derive(Debug, Serialize)]
struct AppJson<'a> {
    app: &'a str,
    up: bool,
    last_success_at: Option<String>,
    scrape_errors: BTreeMap<&'static str, u64>,
    hits: Option<f64>,
    misses: Option<f64>,
    loads: Option<f64>,
    loads_coalesced: Option<f64>,
    errors: Option<f64>,
    not_found: Option<f64>,
}

#[derive(Debug, Serialize)]
struct TtlJson<'a> {
    sample_keys: u64,
    sampled_at: Option<String>,
    /// Upper bounds of `keys_by_ttl`, seconds; one more count follows for those above.
    bounds: &'static [f64],
    all: ForecastJson,
    groups: Vec<GroupJson<'a>>,
    /// Soonest first.
    waves: Vec<WaveJson<'a>>,
    /// The last ones, newest first.
    past_waves: Vec<PastWaveJson<'a>>,
    /// Keys past their deadline that the server still holds.
    expired_keys_held: Option<EstimateJson>,
    watched: Vec<WatchedJson<'a>>,
}

#[derive(Debug, Serialize)]
struct WaveJson<'a> {
    group: &'a str,
    starts_at: String,
    starts_timestamp: f64,
    ends_at: String,
    ends_timestamp: f64,
    announced_at: String,
    keys: EstimateJson,
    peak_keys_per_second: EstimateJson,
    /// Share of the group's keys that have a deadline, 0 to 1.
    group_share: f64,
    extra_misses_per_second: Option<EstimateJson>,
    /// Share of the lookups that its highest second has by `OBJECT FREQ`, 0 to 1; `null` where the
    /// server does not count them, and then they are taken to fall evenly on the keys.
    lookup_share: Option<EstimateJson>,
}

/// A wave that is over.
#[derive(Debug, Serialize)]
struct PastWaveJson<'a> {
    group: &'a str,
    started_at: String,
    started_timestamp: f64,
    announced_at: String,
    keys: EstimateJson,
    outcome: &'static str,
    /// Beyond the usual, from its first deadline on.
    expired_keys: f64,
}

/// A number with its 95 % interval.
#[derive(Debug, Serialize)]
struct EstimateJson {
    value: f64,
    low: f64,
    high: f64,
}

#[derive(Debug, Serialize)]
struct WatchedJson<'a> {
    watch: &'a str,
    /// `null` while unknown.
    exists: Option<bool>,
    expires_at: Option<String>,
    expires_timestamp: Option<f64>,
}

#[derive(Debug, Serialize)]
struct GroupJson<'a> {
    group: &'a str,
    keys_by_ttl: &'a [f64],
    keys_without_ttl: f64,
    keys_due: BTreeMap<&'static str, f64>,
    forecast: ForecastJson,
}

#[derive(Debug, Serialize)]
struct ForecastJson {
    peak_keys_per_second: Option<f64>,
    peak_in_seconds: Option<f64>,
    clustering_ratio: Option<f64>,
}

/// One incident in `/api/v1/incidents`.
#[derive(Debug, Serialize)]
pub(super) struct IncidentJson<'a> {
    cache: &'a str,
    cause: &'static str,
    source: &'static str,
    started_at: String,
    started_timestamp: f64,
    ended_at: Option<String>,
    ended_timestamp: Option<f64>,
    baseline_misses_per_second: f64,
    peak_misses_per_second: f64,
    excess_misses: f64,
    baseline_loads_per_second: Option<f64>,
    peak_loads_per_second: Option<f64>,
    excess_loads: Option<f64>,
    load_latency_p50_seconds: Option<f64>,
    load_latency_p99_seconds: Option<f64>,
    score: f64,
    p_value: Option<f64>,
    evidence: Figures<'a>,
    suspects: Vec<SuspectJson>,
    /// What to do, with the numbers that were measured; the runbook says more.
    advice: String,
    /// The path of the cause's runbook on this server.
    runbook: String,
}

#[derive(Debug, Serialize)]
struct SuspectJson {
    pattern: String,
    share: f64,
    example: Option<String>,
    source: &'static str,
}

/// Figures by name, in the order they have: the most telling first.
#[derive(Debug)]
struct Figures<'a>(&'a [(&'static str, f64)]);

impl Serialize for Figures<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

impl<'a> CacheJson<'a> {
    pub(super) fn of(cache: &'a Snapshot) -> CacheJson<'a> {
        let signals = cache.current_signals();
        let polled = (cache.time > 0.0).then_some(cache.time);
        CacheJson {
            cache: &cache.cache,
            state: State::of(cache).as_str(),
            updated_at: polled.map(rfc3339),
            updated_timestamp: polled,
            active: cache.incidents.running.is_some(),
            incident: cache.incidents.running.as_ref().map(|i| IncidentJson::of(&cache.cache, i)),
            score: cache.verdict.score,
            signals: SignalKind::ALL
                .map(SignalKind::as_str)
                .into_iter()
                .zip(cache.verdict.signals)
                .collect(),
            baseline_ready: cache.verdict.ready,
            hit_ratio: sources(signals.hit_ratio),
            lookups_per_second: sources(signals.lookups_per_second),
            misses_per_second: sources(signals.misses_per_second),
            miss_baseline_per_second: sources(
                cache.current(&cache.verdict.baseline_misses_per_second),
            ),
            loads_per_second: signals.loads_per_second,
            lock_attempts_per_second: signals.lock_attempts_per_second,
            lock_contention_ratio: signals.lock_contention_ratio,
            load_latency_p50_seconds: signals.load_latency_p50,
            load_latency_p99_seconds: signals.load_latency_p99,
            misses_per_expiry: signals.misses_per_expiry,
            nodes: cache.nodes.iter().map(node).collect(),
            sampled_node: cache.sampled.as_ref().map(node),
            apps: cache.apps.iter().map(app).collect(),
            ttl: cache.current_ttl().map(|ttl| picture(ttl, cache.nearest_lookups_per_second())),
        }
    }
}

impl<'a> IncidentJson<'a> {
    pub(super) fn of(cache: &'a str, incident: &'a Incident) -> IncidentJson<'a> {
        IncidentJson {
            cache,
            cause: incident.cause.as_str(),
            source: incident.source.as_str(),
            started_at: rfc3339(incident.started_at),
            started_timestamp: incident.started_at,
            ended_at: incident.ended_at.map(rfc3339),
            ended_timestamp: incident.ended_at,
            baseline_misses_per_second: incident.baseline_misses_per_second,
            peak_misses_per_second: incident.peak_misses_per_second,
            excess_misses: incident.excess_misses,
            baseline_loads_per_second: incident.baseline_loads_per_second,
            peak_loads_per_second: incident.peak_loads_per_second,
            excess_loads: incident.excess_loads,
            load_latency_p50_seconds: incident.latency_p50,
            load_latency_p99_seconds: incident.latency_p99,
            score: incident.score,
            p_value: incident.p_value,
            evidence: Figures(&incident.evidence),
            suspects: incident.suspects.iter().map(suspect).collect(),
            advice: advice(incident),
            runbook: format!("/runbooks/{}", incident.cause.as_str()),
        }
    }
}

/// An incident as one line of JSON: what happened to it, then what the API says.
pub fn incident_line(event: &'static str, cache: &str, incident: &Incident) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        event: &'static str,
        #[serde(flatten)]
        incident: IncidentJson<'a>,
    }
    // Names and numbers: nothing in it can fail to be JSON.
    serde_json::to_string(&Line { event, incident: IncidentJson::of(cache, incident) })
        .unwrap_or_default()
}

/// The incidents of these caches with their cache, newest first.
pub(super) fn newest_first<'a>(
    caches: impl IntoIterator<Item = &'a Snapshot>,
) -> Vec<(&'a Snapshot, &'a Incident)> {
    let of_cache = |cache: &'a Snapshot| {
        let log = &cache.incidents;
        log.running.iter().chain(&log.past).map(move |incident| (cache, incident))
    };
    let mut all: Vec<_> = caches.into_iter().flat_map(of_cache).collect();
    all.sort_by(|(_, a), (_, b)| b.started_at.total_cmp(&a.started_at));
    all
}

fn suspect(suspect: &Suspect) -> SuspectJson {
    SuspectJson {
        pattern: keys::text(&suspect.pattern),
        share: suspect.share,
        example: suspect.example.as_deref().map(keys::text),
        source: suspect.source.as_str(),
    }
}

fn sources(figure: BySource<Option<f64>>) -> SourcesJson {
    SourcesJson { redis: figure.redis, app: figure.app }
}

fn node(node: &NodeState) -> NodeJson<'_> {
    NodeJson {
        node: &node.node,
        up: node.up,
        last_success_at: node.last_success.map(rfc3339),
        server: node.server.as_deref(),
        version: node.version.as_deref(),
        role: node.role.as_deref(),
        mode: node.mode.as_deref(),
        keys: node.keys.filter(|_| node.up),
        hits: node.totals.hits,
        misses: node.totals.misses,
        expired_keys: node.totals.expired,
        evicted_keys: node.totals.evicted,
        counter_resets: node.resets.iter().map(|(reason, r)| (*reason, r.count)).collect(),
        capabilities: node.capabilities.iter().copied().collect(),
    }
}

fn app(app: &AppState) -> AppJson<'_> {
    AppJson {
        app: &app.app,
        up: app.up,
        last_success_at: app.last_success.map(rfc3339),
        scrape_errors: app.errors_by_reason.iter().copied().collect(),
        hits: app.totals.hits,
        misses: app.totals.misses,
        loads: app.totals.loads,
        loads_coalesced: app.totals.loads_coalesced,
        errors: app.totals.errors,
        not_found: app.totals.not_found,
    }
}

fn picture(picture: &TtlPicture, lookups_per_second: Option<f64>) -> TtlJson<'_> {
    TtlJson {
        sample_keys: picture.sample_keys,
        sampled_at: picture.sample_time.map(rfc3339),
        bounds: &TTL_BOUNDS,
        all: forecast(&picture.all),
        groups: picture
            .groups
            .iter()
            .map(|g| GroupJson {
                group: &g.name,
                keys_by_ttl: &g.buckets,
                keys_without_ttl: g.without_ttl,
                keys_due: DUE_WINDOWS.iter().map(|(_, window)| *window).zip(g.due).collect(),
                forecast: forecast(&g.forecast),
            })
            .collect(),
        waves: picture.waves.iter().map(|one| wave(one, lookups_per_second)).collect(),
        past_waves: picture.past_waves.iter().map(past_wave).collect(),
        expired_keys_held: picture.held.map(estimate),
        watched: picture.watched.iter().map(watched).collect(),
    }
}

fn wave(wave: &Wave, lookups_per_second: Option<f64>) -> WaveJson<'_> {
    WaveJson {
        group: &wave.group,
        starts_at: rfc3339(wave.start),
        starts_timestamp: wave.start,
        ends_at: rfc3339(wave.end),
        ends_timestamp: wave.end,
        announced_at: rfc3339(wave.announced),
        keys: estimate(wave.keys),
        peak_keys_per_second: estimate(wave.peak_keys_per_second),
        group_share: wave.group_share,
        extra_misses_per_second: lookups_per_second
            .map(|lookups| estimate(wave.extra_misses_per_second(lookups))),
        lookup_share: wave.lookup_share.map(estimate),
    }
}

fn past_wave(past: &PastWave) -> PastWaveJson<'_> {
    let wave = &past.wave;
    PastWaveJson {
        group: &wave.group,
        started_at: rfc3339(wave.start),
        started_timestamp: wave.start,
        announced_at: rfc3339(wave.announced),
        keys: estimate(wave.keys),
        outcome: past.outcome.as_str(),
        expired_keys: past.expired,
    }
}

fn estimate(estimate: Estimate) -> EstimateJson {
    EstimateJson { value: estimate.value, low: estimate.low, high: estimate.high }
}

fn watched(watched: &Watched) -> WatchedJson<'_> {
    let due = match watched.state {
        Some(WatchedState::Due(at)) => Some(at),
        _ => None,
    };
    WatchedJson {
        watch: &watched.name,
        exists: watched.state.map(|state| state != WatchedState::Missing),
        expires_at: due.map(rfc3339),
        expires_timestamp: due,
    }
}

fn forecast(forecast: &Forecast) -> ForecastJson {
    ForecastJson {
        peak_keys_per_second: forecast.peak_keys_per_second,
        peak_in_seconds: forecast.peak_in,
        clustering_ratio: forecast.clustering_ratio,
    }
}
