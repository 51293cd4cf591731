//! What became of the waves that were announced.
//!
//! A wave is confirmed by the server's own count of expired keys, beyond what expires anyway. It
//! need not be refuted where that count stays low: a server comes late to keys that nobody asks
//! for (see `held.rs`), and keys may be written again in the last second.

use std::collections::VecDeque;

use super::Wave;
use crate::elementary::exp;

/// Past waves that are kept.
const KEPT: usize = 10;

/// A wave that is not found any more for so long has been withdrawn, seconds: one at the line may
/// come and go.
const GONE: f64 = 10.0;

/// How long after its last deadline a wave's keys are waited for, seconds.
const WAIT: f64 = 60.0;

/// Two waves that are no further apart are one, seconds: its edges move as more of it is sampled.
const SLACK: f64 = 1.0;

/// The share of the least number of keys that must have expired; the rest may be held still.
const ENOUGH: f64 = 0.5;

/// What expires anyway is a mean with this time constant, seconds.
const USUAL: f64 = 30.0;

/// What became of a wave: a closed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The server has counted at least half of the least number of its keys as expired.
    Expired,
    /// Its keys were deleted, or written with other deadlines, before its time.
    Withdrawn,
    /// Its time came and hardly more keys than usual were counted as expired within a minute: the
    /// server still holds them, or they were written again in the last second.
    Unseen,
}

impl Outcome {
    /// All of them, in label order.
    pub const ALL: [Outcome; 3] = [Outcome::Expired, Outcome::Withdrawn, Outcome::Unseen];

    /// The value of the `outcome` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Expired => "expired",
            Outcome::Withdrawn => "withdrawn",
            Outcome::Unseen => "unseen",
        }
    }
}

/// A wave that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct PastWave {
    /// As it was seen last.
    pub wave: Wave,
    /// What became of it.
    pub outcome: Outcome,
    /// Keys that expired from its first deadline on beyond the usual, as far as was waited.
    pub expired: f64,
}

/// Follows announced waves to their end.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcomes {
    open: Vec<Open>,
    past: VecDeque<PastWave>,
    counts: [u64; Outcome::ALL.len()],
    /// When the waves were last followed.
    followed: f64,
    /// Time and count of expired keys at the last observation.
    last: Option<(f64, f64)>,
    /// Keys that expire a second while no wave breaks.
    usual: f64,
}

/// A wave that is not over.
#[derive(Debug, Clone)]
struct Open {
    /// As it was seen last before it broke.
    wave: Wave,
    /// When it was last found.
    found: f64,
    /// Since it breaks: time, expired keys and the usual rate at the last observation before.
    before: Option<(f64, f64, f64)>,
}

impl Outcomes {
    /// Takes in how many keys the server has counted as expired so far.
    pub(super) fn observe(&mut self, now: f64, expired: f64) {
        let (then, before) = self.last.replace((now, expired)).unwrap_or((now, expired));
        let (usual, followed) = (self.usual, self.followed);
        for open in &mut self.open {
            // What was gone from the picture did not break.
            if open.before.is_none() && open.wave.start <= now && open.found >= followed {
                open.before = Some((then, before, usual));
            }
        }
        let seconds = now - then;
        if seconds > 0.0 && self.open.iter().all(|open| open.before.is_none()) {
            let weight = 1.0 - exp(-seconds / USUAL);
            self.usual += weight * ((expired - before) / seconds - self.usual);
        }
        self.settle(now, expired);
    }

    /// Takes in the waves that are announced at `now`.
    pub(super) fn follow(&mut self, now: f64, waves: &[Wave]) {
        self.followed = now;
        for wave in waves {
            let same = |open: &&mut Open| {
                open.wave.start <= wave.end + SLACK && open.wave.end >= wave.start - SLACK
            };
            match self.open.iter_mut().find(same) {
                Some(open) if open.before.is_none() => {
                    (open.wave, open.found) = (wave.clone(), now);
                }
                None if wave.start > now => {
                    self.open.push(Open { wave: wave.clone(), found: now, before: None });
                }
                // It breaks: what is left of it is not what was announced.
                _ => {}
            }
        }
    }

    /// The last waves that are over, newest first.
    pub(super) fn past(&self) -> impl Iterator<Item = &PastWave> {
        self.past.iter()
    }

    /// How many came to each end, in the order of [`Outcome::ALL`].
    pub(super) fn counts(&self) -> [u64; Outcome::ALL.len()] {
        self.counts
    }

    /// Forgets the waves under way, as after a restart of the server.
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.last = None;
    }

    fn settle(&mut self, now: f64, expired: f64) {
        let mut over = Vec::new();
        let followed = self.followed;
        self.open.retain(|Open { wave, found, before }| {
            let came = before.map_or(0.0, |(then, count, usual)| {
                (expired - count - usual * (now - then)).max(0.0)
            });
            let outcome = match before {
                None if followed - found > GONE || wave.start <= now => Some(Outcome::Withdrawn),
                Some(_) if came >= ENOUGH * wave.keys.low => Some(Outcome::Expired),
                Some(_) if now > wave.end + WAIT => Some(Outcome::Unseen),
                _ => None,
            };
            let past = |outcome| PastWave { wave: wave.clone(), outcome, expired: came };
            over.extend(outcome.map(past));
            outcome.is_none()
        });
        for past in over {
            if let Some(count) = self.counts.get_mut(past.outcome as usize) {
                *count += 1;
            }
            self.past.push_front(past);
        }
        self.past.truncate(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Estimate;
    use super::*;

    fn wave(start: f64, keys: f64) -> Wave {
        let keys = Estimate { value: keys, low: keys * 0.9, high: keys * 1.1 };
        Wave { start, end: start + 1.0, keys, ..Wave::default() }
    }

    /// A second at a time: `expired(t)` keys so far, `waves(t)` in the picture.
    fn run(
        until: u32,
        expired: impl Fn(f64) -> f64,
        waves: impl Fn(f64) -> Vec<Wave>,
    ) -> Vec<PastWave> {
        let mut outcomes = Outcomes::default();
        for second in 0..until {
            let now = f64::from(second);
            outcomes.observe(now, expired(now));
            outcomes.follow(now, &waves(now));
        }
        let past: Vec<PastWave> = outcomes.past().cloned().collect();
        assert_eq!(outcomes.counts().iter().sum::<u64>(), past.len() as u64);
        past
    }

    fn until_it_broke(now: f64) -> Vec<Wave> {
        if now < 101.0 { vec![wave(100.5, 1000.0)] } else { Vec::new() }
    }

    /// 20 keys a second as ever, and 900 of 1000 more within ten seconds after the deadline: 450 are
    /// enough, which are there after five.
    #[test]
    fn a_wave_is_confirmed_by_what_expires_beyond_the_usual() {
        let expired = |now: f64| 20.0 * now + 90.0 * (now - 100.0).clamp(0.0, 10.0);
        let past = run(120, expired, until_it_broke);
        assert_eq!(past.len(), 1);
        assert_eq!(past[0].outcome, Outcome::Expired);
        assert!((450.0..560.0).contains(&past[0].expired), "{past:?}");
    }

    /// The usual 20 a second alone are 1200 in a minute, more than half of the wave.
    #[test]
    fn what_expires_anyway_confirms_nothing() {
        let past = run(170, |now| 20.0 * now, until_it_broke);
        assert_eq!(past.iter().map(|p| p.outcome).collect::<Vec<_>>(), [Outcome::Unseen]);
        assert!(past[0].expired < 100.0, "{past:?}");
        assert_eq!(run(160, |now| 20.0 * now, until_it_broke), []);
    }

    /// Written again half a minute before its time, or just before it. One that is away for a few
    /// seconds only has not gone.
    #[test]
    fn a_wave_that_is_gone_from_the_picture_was_withdrawn() {
        for end in [70.0, 99.0] {
            let gone = |now: f64| if now < end { vec![wave(100.5, 1000.0)] } else { Vec::new() };
            let past = run(110, |_| 0.0, gone);
            assert_eq!(past.iter().map(|p| p.outcome).collect::<Vec<_>>(), [Outcome::Withdrawn]);
        }
        let flickering =
            |now: f64| if now % 7.0 < 4.0 { vec![wave(200.5, 1000.0)] } else { Vec::new() };
        assert_eq!(run(150, |_| 0.0, flickering), []);
    }

    /// Two waves, and one whose edges move as more of it is sampled.
    #[test]
    fn each_wave_counts_once() {
        let waves = |now: f64| {
            let moving = wave(50.5 - now / 100.0, 1000.0);
            let all = [moving, wave(80.5, 500.0)];
            all.into_iter().filter(|w| w.end > now).collect()
        };
        let expired = |now: f64| {
            (if now > 50.0 { 1000.0 } else { 0.0 }) + if now > 80.0 { 500.0 } else { 0.0 }
        };
        let past = run(100, expired, waves);
        assert_eq!(past.iter().map(|p| p.outcome).collect::<Vec<_>>(), [Outcome::Expired; 2]);
    }
}
