//! Which of the extra misses reach the backend.
//!
//! Many requests that miss one entry are no stampede as long as one of them loads it: the others
//! share its flight or wait for its lock, and are counted for it. So where most of the extra misses
//! were spared the backend, what is judged is the rest: the misses that nothing spared, or the loads
//! beyond the usual ones if those are more. Each count is held against its own level, so locks that
//! are refused all day spare nothing, and loads that are counted seconds late hide nothing, as long
//! as nothing claims to have spared them.

use crate::detect::evidence::{Stream, Streams};
use crate::detect::ladder::Rung;

/// Share of the extra misses that has to be spared before the rest is judged alone.
const MOSTLY: f64 = 0.5;
/// Scatter that loads may show before they count as extra, standard deviations.
const LOADS_DEVIATIONS: f64 = 2.0;

/// What is usual for the counts that tell which misses reach the backend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Relief<'a> {
    streams: &'a Streams,
    /// Misses spared in a lookup.
    spared: f64,
}

impl Streams {
    /// What is usual now.
    pub(crate) fn relief(&self) -> Relief<'_> {
        Relief { streams: self, spared: self.level(Stream::Spared).ratio() }
    }
}

impl Relief<'_> {
    /// What a stretch comes to without the misses that were spared the backend, where those are
    /// most of what it has beyond `ratio`; `None` where every miss counts.
    pub(crate) fn unspared(&self, stretch: &Rung, ratio: f64) -> Option<Rung> {
        if stretch.spared <= 0.0 {
            return None;
        }
        let excess = stretch.misses - ratio * stretch.lookups;
        let spared = stretch.spared - self.spared * stretch.lookups;
        if spared <= 0.0 || excess <= 0.0 || spared < MOSTLY * excess {
            return None;
        }
        // Who waits for a lock looks again and again, which are no requests.
        let usual = self.streams.level(Stream::Traffic).mean(stretch.seconds);
        let lookups = if usual > 0.0 {
            usual.max(stretch.lookups - spared).min(stretch.lookups)
        } else {
            stretch.lookups
        };
        let mean = ratio * lookups;
        let loads = self.streams.level(Stream::Loads);
        // What is not known yet is one load a miss.
        let usual_loads = if loads.exposure() > 0.0 { loads.mean(lookups) } else { mean };
        let certain =
            stretch.loads - usual_loads - LOADS_DEVIATIONS * loads.variance(usual_loads).sqrt();
        let rest = (stretch.misses - spared - mean).max(certain).min(excess);
        Some(Rung { lookups, misses: (mean + rest).max(0.0), ..*stretch })
    }
}
