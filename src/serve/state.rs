//! The one word that a person gets for a cache.

use crate::reading::Source;
use crate::snapshot::Snapshot;

/// How a cache is, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// A stampede runs.
    Stampede,
    /// No server answers: nothing is known about the cache.
    Down,
    /// Some server or application does not answer, so part of the picture is missing.
    Partial,
    /// Not polled yet.
    Waiting,
    /// The baseline still learns what is normal.
    Learning,
    /// Nothing to see.
    Calm,
}

impl State {
    pub(super) fn of(cache: &Snapshot) -> State {
        let missing = cache.nodes.iter().any(|n| !n.up) || cache.apps.iter().any(|a| !a.up);
        if cache.incidents.running.is_some() {
            State::Stampede
        } else if cache.polls == 0 {
            State::Waiting
        } else if !cache.answers(Source::Redis) {
            State::Down
        } else if missing {
            State::Partial
        } else if !cache.verdict.ready {
            State::Learning
        } else {
            State::Calm
        }
    }

    /// The word in the API and in the page's markup.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            State::Stampede => "stampede",
            State::Down => "down",
            State::Partial => "partial",
            State::Waiting => "waiting",
            State::Learning => "learning",
            State::Calm => "calm",
        }
    }
}
