//! What a detector has learned, as plain values that outlive a process.

use crate::detect::Incident;
use crate::reading::BySource;

/// Everything that a restart would otherwise have to learn again. The detector checks each value
/// when it takes a state in, so a damaged one costs what it holds and no more.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// Unix seconds of the last sample.
    pub time: f64,
    /// What is normal, for each source that has said something.
    pub baselines: BySource<Option<Learned>>,
    /// The running incident, or the last one while it may still resume.
    pub incident: Option<Incident>,
    /// Whether that incident's cause is final and counted.
    pub settled: bool,
}

/// What is normal for one source.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Learned {
    /// Seconds of learning so far.
    pub seconds: f64,
    /// Normal miss ratio, 0 to 1.
    pub miss_ratio: f64,
    /// Lookups that the ratio rests on, faded with age.
    pub lookups: f64,
    /// Spread of the misses poll by poll.
    pub misses: Spread,
    /// Spread of the hits poll by poll.
    pub hits: Spread,
}

/// How much a count scatters about what is expected.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// Variance over mean from poll to poll; 1 is Poisson.
    pub dispersion: f64,
    /// Variance of the slow wander of the ratio, relative to its square.
    pub wander: f64,
}
