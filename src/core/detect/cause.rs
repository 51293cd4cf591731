//! Why a stampede happens: a closed set, told apart by tell-tales.

use crate::detect::Thresholds;
use crate::detect::evidence::{Stream, Streams};
use crate::detect::history::Facts;

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

impl Cause {
    /// Whether many keys go with it, so that a sample of keys shows which.
    pub(crate) fn takes_many_keys(self) -> bool {
        match self {
            Cause::SynchronizedExpiry
            | Cause::ColdStart
            | Cause::Invalidation
            | Cause::Eviction
            | Cause::Unknown => true,
            Cause::HotKey | Cause::Penetration | Cause::Avalanche => false,
        }
    }
}

/// Something that happened to the server and explains misses by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A process started anew.
    Restart,
    /// A database was flushed.
    Flush,
    /// Nearly all keys, or many with no flush counter to ask, are gone.
    Collapse,
    /// Many keys were deleted with no flush.
    Purge,
}

impl Event {
    /// The cause that it is the sign of.
    pub(crate) fn cause(self) -> Cause {
        match self {
            Event::Restart | Event::Flush | Event::Collapse => Cause::ColdStart,
            Event::Purge => Cause::Invalidation,
        }
    }

    /// What the newest poll and the seconds before it show, if anything.
    pub(crate) fn seen(
        newest: &Facts,
        recent: impl FnOnce() -> Facts,
        thresholds: &Thresholds,
    ) -> Option<Event> {
        if newest.restarted {
            return Some(Event::Restart);
        }
        if newest.flushes.is_some_and(|flushes| flushes > 0.0) {
            return Some(Event::Flush);
        }
        let fell = newest.keys? < newest.keys_before? * (1.0 - thresholds.key_fall * KEY_FALL_POLL);
        if !fell {
            return None;
        }
        let recent = recent();
        // Over seconds, writes make up for expiries that seem to explain a fall; within a poll they
        // hardly do.
        let lost = recent.keys_lost()?.max(newest.keys_lost().unwrap_or(0.0));
        if lost >= NEARLY_ALL || (lost >= MOST && recent.flushes.is_none()) {
            return Some(Event::Collapse);
        }
        (lost >= thresholds.key_fall && recent.expired.is_some()).then_some(Event::Purge)
    }
}

/// Part of the least fall of the key count that one poll must show for the last seconds to be
/// looked at.
const KEY_FALL_POLL: f64 = 0.1;
/// Share of the keys whose loss is the loss of the cache, whatever caused it.
const NEARLY_ALL: f64 = 0.9;
/// Share of the keys whose loss is a flush if nobody counts flushes.
const MOST: f64 = 0.5;
/// Share of the usual hits that must still be there if the extra misses come on top of them.
const HITS_KEPT: f64 = 0.9;
/// Share of the lookups that one hot key takes at the least.
const NOTABLE_SHARE: f64 = 0.05;
/// Share of the misses below which the most-missed key is one of many.
const HARDLY_REPEATED: f64 = 0.05;
/// Seconds of misses after which the missed keys that are looked at are those of the stampede: a look
/// begins with the verdict, and a short burst is over by then.
const LASTING: f64 = 3.0;
/// The key count stands still within this.
const KEYS_STEADY: f64 = 0.02;

/// Expiries over extra misses from which on they account for them without more ado: four requests
/// ask for each key before it is back.
const PLENTY: f64 = 0.25;

/// Score of a forecast wave that needs no expired keys to be believed: what seems to be due in a
/// second of a small key space is four times its line by chance about once in ten minutes, and
/// within the seconds around another stampede hardly ever.
const CERTAIN_WAVE: f64 = 4.0;

/// A wave that the forecast had due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaveDue {
    /// When, on the detector's own clock.
    pub(crate) at: f64,
    /// How high over its line, at the highest of the last seconds.
    pub(crate) score: f64,
    /// Keys due over the mean, at the highest of the last seconds.
    pub(crate) ratio: f64,
}

/// A cause and how strong its sign is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The cause.
    pub(crate) cause: Cause,
    /// Place of its sign in the order of strength, 0 the strongest.
    pub(crate) rank: usize,
}

/// What is known about the first seconds of a stampede.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    /// What happened from shortly before the onset on.
    pub(crate) facts: &'a Facts,
    /// Misses in it beyond the baseline.
    pub(crate) excess_misses: f64,
    /// What happened to the server around the onset.
    pub(crate) event: Option<Event>,
    /// The wave that the forecast had due at the onset.
    pub(crate) wave: Option<WaveDue>,
    /// Whether a server does not answer now.
    pub(crate) failing: bool,
    /// Levels to hold the facts against.
    pub(crate) streams: &'a Streams,
}

impl Scene<'_> {
    /// The first cause whose tell-tale is there. What names a cause by itself comes before what
    /// only fits it.
    pub(crate) fn finding(&self, thresholds: &Thresholds) -> Finding {
        let happened = |cause: Cause| self.event.is_some_and(|event| event.cause() == cause);
        let share = self.facts.hot_key_share;
        let few = thresholds.expiries_per_miss;
        let signs: [(Cause, &dyn Fn() -> bool); 11] = [
            (Cause::Avalanche, &|| {
                self.explains(Stream::Errors, thresholds.error_share, thresholds)
                    || (self.failing && self.event.is_none())
            }),
            (Cause::ColdStart, &|| happened(Cause::ColdStart)),
            (Cause::Penetration, &|| {
                self.explains(Stream::NotFound, thresholds.not_found_share, thresholds)
            }),
            (Cause::HotKey, &|| self.one_key_misses(thresholds.hot_key_share)),
            (Cause::SynchronizedExpiry, &|| self.wave_came(few)),
            (Cause::Invalidation, &|| happened(Cause::Invalidation)),
            (Cause::Eviction, &|| self.explains(Stream::Evicted, few, thresholds)),
            (Cause::SynchronizedExpiry, &|| {
                self.explains(Stream::Expired, few, thresholds) && self.many_ran_out(few)
            }),
            (Cause::Penetration, &|| self.misses_come_on_top(thresholds)),
            (Cause::Penetration, &|| {
                self.facts.not_found.is_none()
                    && self.facts.seconds >= LASTING
                    && share.is_some_and(|share| share < HARDLY_REPEATED)
                    && self.nothing_went(few)
            }),
            (Cause::HotKey, &|| {
                share.is_none() && (self.locks_refused(thresholds) || self.nothing_went(few))
            }),
        ];
        let first = signs.iter().position(|(_, there)| there());
        match first.and_then(|rank| Some((rank, signs.get(rank)?.0))) {
            Some((rank, cause)) => Finding { cause, rank },
            None => Finding { cause: Cause::Unknown, rank: signs.len() },
        }
    }

    /// The figures behind it, most telling first; what nobody counts is left out.
    pub(crate) fn figures(&self) -> Vec<(&'static str, f64)> {
        let facts = self.facts;
        let found = [
            ("scene_seconds", Some(facts.seconds)),
            ("errors", facts.errors.filter(|errors| *errors > 0.0)),
            ("flushes", facts.flushes.filter(|flushes| *flushes > 0.0)),
            ("restarted", facts.restarted.then_some(1.0)),
            ("keys_lost_share", facts.keys_lost().filter(|lost| *lost > KEYS_STEADY)),
            ("not_found", facts.not_found),
            ("hot_key_share", facts.hot_key_share),
            ("due_ratio", self.due_ratio()),
            ("expired", facts.expired),
            ("evicted", facts.evicted),
            ("misses_per_expiry", self.misses_per_expiry()),
            ("lock_failed", facts.lock_failed),
            ("lock_acquired", facts.lock_acquired),
            ("coalesced", facts.coalesced),
            ("loads", facts.loads),
            ("tail_ratio", facts.tail),
        ];
        found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Keys due over the mean: of the wave that was due at the onset, which is over in a second
    /// and seen to break by the poll before the misses, or else of the scene itself.
    fn due_ratio(&self) -> Option<f64> {
        let of_wave = self.wave.map(|wave| wave.ratio);
        [self.facts.due_ratio, of_wave].into_iter().flatten().reduce(f64::max)
    }

    fn misses_per_expiry(&self) -> Option<f64> {
        let misses = self.facts.best_lookups()?.misses;
        self.facts.expired.filter(|expired| *expired > 0.0).map(|expired| misses / expired)
    }

    /// Whether a stream stands out and its rise is at least `share` of the extra misses.
    fn explains(&self, stream: Stream, share: f64, thresholds: &Thresholds) -> bool {
        self.streams.explains(stream, self.facts, thresholds)
            && self
                .streams
                .excess(stream, self.facts)
                .is_some_and(|excess| excess >= share * self.excess_misses)
    }

    /// Whether somebody asks for more than usual, gets nothing, and nobody else loses anything. A
    /// counter of loads that find nothing would have spoken before.
    fn misses_come_on_top(&self, thresholds: &Thresholds) -> bool {
        let (Some(lookups), None) = (self.facts.best_lookups(), self.facts.not_found) else {
            return false;
        };
        let Some(usual) = self.streams.usual(Stream::Traffic, self.facts) else { return false };
        let extra = lookups.total() - usual;
        let usual_hits =
            usual * (1.0 - (lookups.misses - self.excess_misses).max(0.0) / usual.max(1.0));
        self.streams.explains(Stream::Traffic, self.facts, thresholds)
            && extra >= 0.5 * self.excess_misses
            && lookups.hits >= HITS_KEPT * usual_hits
    }

    /// Whether the wave that was due is what came: keys ran out in numbers that fit the misses, or it
    /// is too high to be chance. Keys are expired when somebody asks for them, so those that are
    /// missed count as expired; many keys that nobody asks for may linger.
    fn wave_came(&self, expiries_per_miss: f64) -> bool {
        let expired = self.streams.excess(Stream::Expired, self.facts);
        self.wave.is_some_and(|wave| {
            wave.score >= CERTAIN_WAVE
                || expired.is_none_or(|expired| expired >= expiries_per_miss * self.excess_misses)
        })
    }

    /// Whether keys ran out in numbers that account for the extra misses: for a good part of them, or
    /// for some while far more than usual ran out. What a server reaps scatters by itself.
    fn many_ran_out(&self, expiries_per_miss: f64) -> bool {
        let of = |figure: fn(&Streams, Stream, &Facts) -> Option<f64>| {
            figure(self.streams, Stream::Expired, self.facts)
        };
        let (Some(excess), Some(usual)) = (of(Streams::excess), of(Streams::usual)) else {
            return false;
        };
        excess >= expiries_per_miss * self.excess_misses
            && (excess >= PLENTY * self.excess_misses || excess >= usual)
    }

    fn locks_refused(&self, thresholds: &Thresholds) -> bool {
        self.streams.explains(Stream::Refused, self.facts, thresholds)
    }

    /// Whether one key takes so large a share of the misses, or of those that are extra.
    fn one_key_misses(&self, least: f64) -> bool {
        let (Some(share), Some(lookups)) = (self.facts.hot_key_share, self.facts.best_lookups())
        else {
            return false;
        };
        let usual = self.streams.usual_share().unwrap_or(share);
        let extra = share * lookups.misses - usual * (lookups.misses - self.excess_misses);
        let stands_out = self.streams.share_score(self.facts).is_some_and(|score| score >= 1.0);
        share >= least || (stands_out && extra >= least * self.excess_misses)
    }

    /// Whether many misses are of keys that did not go: hardly any key expired or was evicted, none is
    /// gone, and too many lookups miss for it to be something that a few absent keys more could do.
    /// Then they fall on few keys that went, or on keys that never were.
    fn nothing_went(&self, expiries_per_miss: f64) -> bool {
        let few = expiries_per_miss * self.excess_misses;
        let lookups = self.facts.best_lookups().map_or(0.0, |lookups| lookups.total());
        self.excess_misses >= NOTABLE_SHARE * lookups
            && self.facts.expired.is_some()
            && !self.many_ran_out(expiries_per_miss)
            && self.streams.excess(Stream::Evicted, self.facts).is_none_or(|evicted| evicted < few)
            && self.facts.keys_lost().is_some_and(|lost| lost < KEYS_STEADY)
    }
}
