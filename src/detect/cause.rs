//! Why a stampede happens: a closed set, told apart by tell-tales.

/// The cause of an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// One popular entry ran out and everyone recomputes it.
    HotKey,
    /// Many entries with one deadline ran out together.
    SynchronizedExpiry,
    /// Restart, failover to an empty node, flush, lost shard.
    ColdStart,
    /// Many live entries deleted or purged at once, no flush.
    Invalidation,
    /// The memory limit pushes live entries out.
    Eviction,
    /// Keys that exist nowhere are asked for.
    Penetration,
    /// The cache itself fails or times out and requests fall through.
    Avalanche,
    /// The evidence names none of the others.
    Unknown,
}

impl Cause {
    /// Every cause, in label order.
    pub const ALL: [Cause; 8] = [
        Cause::HotKey,
        Cause::SynchronizedExpiry,
        Cause::ColdStart,
        Cause::Invalidation,
        Cause::Eviction,
        Cause::Penetration,
        Cause::Avalanche,
        Cause::Unknown,
    ];

    /// The value of the `cause` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::HotKey => "hot_key",
            Cause::SynchronizedExpiry => "synchronized_expiry",
            Cause::ColdStart => "cold_start",
            Cause::Invalidation => "invalidation",
            Cause::Eviction => "eviction",
            Cause::Penetration => "penetration",
            Cause::Avalanche => "avalanche",
            Cause::Unknown => "unknown",
        }
    }
}
