//! Series followed from page to page, each by itself.

use std::collections::HashMap;

/// Seconds after which a series that is gone no longer holds up the sum of its sisters. Long
/// enough for a hiccup of the page, short enough that a removed worker does not blind the cache.
pub const FORGET_AFTER: f64 = 30.0;

/// Seconds after which a series that is gone is not even remembered; should it come back then, it
/// counts as newborn. An hour bounds the memory of pages whose labels change all the time.
const DROP_AFTER: f64 = 3600.0;

/// Seconds after a fall in which a series that is back where it was may be another process's.
const TURN_WITHIN: f64 = 30.0;

/// Seconds for which a fall is a turn and no restart, once processes were seen to take turns.
const TURNS_LAST: f64 = 3600.0;

/// Events a second that one series may have counted since the last page when it starts from zero.
/// One application process rarely serves more, and a page behind a load balancer that shows
/// another process has totals of millions.
pub const BELIEVABLE_RATE: f64 = 10_000.0;

/// How the process behind a page relates to the one behind the page before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The same one, or nothing says otherwise.
    Same,
    /// One that started since the page before.
    Restarted,
    /// One that ran beside it.
    Other,
}

/// The page being taken in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// Unix seconds of the page.
    pub(super) now: f64,
    /// Unix seconds of the page before.
    pub(super) before: Option<f64>,
    pub(super) origin: Origin,
}

/// What one page says about a followed series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rise {
    /// What was added since the page before.
    Timely(f64),
    /// What was added since an older page; the ones between did not have the series.
    Late(f64),
    /// Nothing to compare with.
    Unknown,
    /// Another process's count: the page comes from several in turn.
    Foreign,
    /// The page had it already.
    Duplicate,
}

/// Series that are added up together.
#[derive(Debug, Clone, Default)]
pub(super) struct Followed {
    tracks: HashMap<u64, Track>,
    /// Whether some series fell on this page.
    fell: bool,
    /// Whether the page before gave the sum a value, zero included.
    pub(super) known_before: bool,
}

#[derive(Debug, Clone, Copy)]
struct Track {
    value: f64,
    /// Unix seconds of the last page that had it.
    seen: f64,
    /// What it last fell from, and when, Unix seconds.
    fell: Option<(f64, f64)>,
    /// Until when a fall is another process's turn, Unix seconds.
    turns_until: f64,
}

impl Track {
    fn new(value: f64, seen: f64) -> Track {
        Track { value, seen, fell: None, turns_until: 0.0 }
    }

    /// The track with a newer value, and whether that is another process's. A series that fell did
    /// not restart when it is back where it was sooner than it can have counted.
    fn moved_to(self, value: f64, now: f64) -> (Track, bool) {
        let fell = value < self.value;
        let back = !believable(value - self.value, now - self.seen)
            && self.fell.is_some_and(|(from, at)| value >= from && now - at < TURN_WITHIN);
        let moved = Track {
            value,
            seen: now,
            fell: if fell { Some((self.value, now)) } else { self.fell },
            turns_until: if back { now + TURNS_LAST } else { self.turns_until },
        };
        (moved, back || (fell && now < self.turns_until))
    }
}

impl Followed {
    /// Takes in the value of one series, known by a hash of its name and labels.
    pub(super) fn take(&mut self, turn: Turn, series: u64, value: f64) -> Rise {
        let track = self.tracks.insert(series, Track::new(value, turn.now));
        let Some(before) = turn.before else {
            return if track.is_some() { self.put_back(series, track) } else { Rise::Unknown };
        };
        let Some(track) = track else {
            let born = turn.origin == Origin::Restarted
                || (turn.origin == Origin::Same && self.known_before);
            return if born && believable(value, turn.now - before) {
                Rise::Timely(value)
            } else {
                Rise::Unknown
            };
        };
        if track.seen == turn.now {
            return self.put_back(series, Some(track));
        }
        let (moved, foreign) = track.moved_to(value, turn.now);
        self.tracks.insert(series, moved);
        self.fell |= value < track.value;
        if foreign && turn.origin == Origin::Same {
            return Rise::Foreign;
        }
        let restarted = turn.origin == Origin::Restarted || value < track.value;
        if turn.origin == Origin::Other || (restarted && !believable(value, turn.now - track.seen))
        {
            return Rise::Unknown;
        }
        let amount = if restarted { value } else { value - track.value };
        if track.seen == before { Rise::Timely(amount) } else { Rise::Late(amount) }
    }

    /// Ends a page: whether a series is missing without an explanation.
    pub(super) fn settle(&mut self, turn: Turn) -> bool {
        // After a restart the labelled series are born again one by one.
        let explained = turn.origin != Origin::Same || std::mem::take(&mut self.fell);
        let mut missing = false;
        self.tracks.retain(|_, track| {
            let away = turn.now - track.seen;
            let keep = away == 0.0 || (!explained && away < DROP_AFTER);
            missing |= keep && away > 0.0 && away < FORGET_AFTER;
            keep
        });
        missing
    }

    fn put_back(&mut self, series: u64, track: Option<Track>) -> Rise {
        if let Some(track) = track {
            self.tracks.insert(series, track);
        }
        Rise::Duplicate
    }
}

/// Whether a series can have come from zero to this value in so many seconds.
fn believable(value: f64, seconds: f64) -> bool {
    value <= BELIEVABLE_RATE * seconds.max(1.0)
}
