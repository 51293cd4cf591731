//! What ships beside the binary, inside it: whoever has the program has its rules, dashboard
//! and runbooks.

/// The recording rules and alerts, as a rule file of Prometheus: what `rules` prints.
pub const RULES: &str = include_str!("../alerts/stampede.yml");

/// The dashboard, as JSON for Grafana, to provision or to import: what `dashboard` prints.
pub const DASHBOARD: &str = include_str!("../dashboards/stampede.json");

/// The runbook of an alert or of a cause, Markdown: what the last part of an alert's `runbook_url`
/// names, without `.md`.
pub fn runbook(name: &str) -> Option<&'static str> {
    RUNBOOKS.iter().find(|(own, _)| *own == name).map(|(_, text)| *text)
}

/// Each runbook's name and text: first those of the alerts, then those of the causes.
pub const RUNBOOKS: [(&str, &str); 18] = [
    ("CacheAppSourceDown", include_str!("../alerts/runbooks/CacheAppSourceDown.md")),
    ("CacheExpiryWaveAhead", include_str!("../alerts/runbooks/CacheExpiryWaveAhead.md")),
    ("CacheHitRatioLow", include_str!("../alerts/runbooks/CacheHitRatioLow.md")),
    ("CacheLockContention", include_str!("../alerts/runbooks/CacheLockContention.md")),
    ("CacheRedisDown", include_str!("../alerts/runbooks/CacheRedisDown.md")),
    ("CacheStampede", include_str!("../alerts/runbooks/CacheStampede.md")),
    ("CacheStampedeDetected", include_str!("../alerts/runbooks/CacheStampedeDetected.md")),
    ("CacheTtlClustering", include_str!("../alerts/runbooks/CacheTtlClustering.md")),
    (
        "StampedeConfigReloadFailed",
        include_str!("../alerts/runbooks/StampedeConfigReloadFailed.md"),
    ),
    ("StampedeExporterAbsent", include_str!("../alerts/runbooks/StampedeExporterAbsent.md")),
    ("avalanche", include_str!("../alerts/runbooks/avalanche.md")),
    ("cold_start", include_str!("../alerts/runbooks/cold_start.md")),
    ("eviction", include_str!("../alerts/runbooks/eviction.md")),
    ("hot_key", include_str!("../alerts/runbooks/hot_key.md")),
    ("invalidation", include_str!("../alerts/runbooks/invalidation.md")),
    ("penetration", include_str!("../alerts/runbooks/penetration.md")),
    ("synchronized_expiry", include_str!("../alerts/runbooks/synchronized_expiry.md")),
    ("unknown", include_str!("../alerts/runbooks/unknown.md")),
];
