//! What speaks for a stampede besides the misses, each stream against its own past.

/// The streams that are scored, as the `signal` label of `stampede_signal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SignalKind {
    /// Misses given requests.
    MissRatio,
    /// Backend queries given requests.
    LoadRate,
    /// Refused locks given lock attempts.
    LockContention,
    /// p99 over p50 of the load latency.
    TailLatency,
    /// Keys due now over the mean, as forecast.
    Expiry,
    /// Evicted keys.
    Eviction,
    /// Failed cache calls given requests.
    Errors,
}

impl SignalKind {
    /// Every signal, in label order.
    pub const ALL: [SignalKind; 7] = [
        SignalKind::MissRatio,
        SignalKind::LoadRate,
        SignalKind::LockContention,
        SignalKind::TailLatency,
        SignalKind::Expiry,
        SignalKind::Eviction,
        SignalKind::Errors,
    ];

    /// The value of the `signal` label.
    pub fn as_str(self) -> &'static str {
        match self {
            SignalKind::MissRatio => "miss_ratio",
            SignalKind::LoadRate => "load_rate",
            SignalKind::LockContention => "lock_contention",
            SignalKind::TailLatency => "tail_latency",
            SignalKind::Expiry => "expiry",
            SignalKind::Eviction => "eviction",
            SignalKind::Errors => "errors",
        }
    }
}
