//! `bulkhead`: a limit on the loads at once, and a breaker that stops them when they fail.
//!
//! M. T. Nygard, "Release It!", 2007, has both patterns. The limit keeps the backend below its pool
//! whatever the cache does; what exceeds it is answered at once with an older copy or an error,
//! instead of waiting. The breaker opens when too large a share of the last loads failed, lets
//! nothing through for a while, then a few probes (half open): if they work it closes, if one fails
//! it opens again.
//!
//! Fails when the limit is set by guess: too low refuses healthy load, above the pool it protects
//! nothing. Each process has its own, so the limits of all of them together must fit the pool.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Loads that the breaker judges by.
const WINDOW: usize = 20;
/// It judges only when it knows that many.
const ENOUGH: usize = 10;
/// Probes while half open; all must work.
const PROBES: usize = 3;

/// Limit and breaker of one process.
#[derive(Debug)]
pub struct Bulkhead {
    places: Arc<Semaphore>,
    breaker: Arc<Mutex<Breaker>>,
}

/// Why a load may not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// As many as allowed are under way.
    Full,
    /// Too many have failed.
    Open,
}

/// The right to one load. Dropped without a result, as when a task is cancelled, it counts as
/// failed.
#[derive(Debug)]
pub struct Permit {
    breaker: Arc<Mutex<Breaker>>,
    _place: OwnedSemaphorePermit,
    probe: bool,
    now: f64,
    told: bool,
}

impl Bulkhead {
    /// At most `limit` loads at once; an open breaker stays so for `cool_down` seconds.
    pub fn new(limit: usize, cool_down: f64) -> Bulkhead {
        Bulkhead {
            places: Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS))),
            breaker: Arc::new(Mutex::new(Breaker::new(cool_down))),
        }
    }

    /// Begins a load, at `now` in seconds of any clock that does not step back.
    ///
    /// # Errors
    /// When it may not begin.
    pub fn enter(&self, now: f64) -> Result<Permit, Rejection> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Rejection::Full)?;
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let probe = breaker.let_through(now).ok_or(Rejection::Open)?;
        let breaker = Arc::clone(&self.breaker);
        Ok(Permit { breaker, _place: place, probe, now, told: false })
    }
}

impl Permit {
    /// Ends the load at `now`.
    pub fn done(mut self, worked: bool, now: f64) {
        self.told = true;
        self.now = now;
        self.tell(worked);
    }

    fn tell(&self, worked: bool) {
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        breaker.learn(worked, self.probe, self.now);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.told {
            self.tell(false);
        }
    }
}

/// The breaker; time is an argument.
#[derive(Debug)]
struct Breaker {
    cool_down: f64,
    /// Whether each of the last loads worked, the newest last.
    last: VecDeque<bool>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Closed,
    Open { until: f64 },
    HalfOpen { begun: usize, worked: usize },
}

impl Breaker {
    fn new(cool_down: f64) -> Breaker {
        Breaker { cool_down, last: VecDeque::with_capacity(WINDOW), state: State::Closed }
    }

    /// Whether a load may begin, and if so whether it is a probe.
    fn let_through(&mut self, now: f64) -> Option<bool> {
        match &mut self.state {
            State::Closed => Some(false),
            State::Open { until } if now < *until => None,
            State::Open { .. } => {
                self.state = State::HalfOpen { begun: 1, worked: 0 };
                Some(true)
            }
            State::HalfOpen { begun, .. } if *begun < PROBES => {
                *begun += 1;
                Some(true)
            }
            State::HalfOpen { .. } => None,
        }
    }

    fn learn(&mut self, load_worked: bool, probe: bool, now: f64) {
        match (&mut self.state, probe) {
            (State::HalfOpen { worked, .. }, true) if load_worked => {
                *worked += 1;
                if *worked == PROBES {
                    self.last.clear();
                    self.state = State::Closed;
                }
            }
            (State::HalfOpen { .. }, true) => self.open(now),
            (State::Closed, _) => {
                if self.last.len() == WINDOW {
                    self.last.pop_front();
                }
                self.last.push_back(load_worked);
                let failed = self.last.iter().filter(|worked| !**worked).count();
                if self.last.len() >= ENOUGH && failed * 2 >= self.last.len() {
                    self.open(now);
                }
            }
            // A load that began before the breaker opened says nothing about the probes.
            _ => {}
        }
    }

    fn open(&mut self, now: f64) {
        self.last.clear();
        self.state = State::Open { until: now + self.cool_down };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(bulkhead: &Bulkhead, times: usize, now: f64) {
        (0..times).for_each(|_| bulkhead.enter(now).unwrap().done(false, now));
    }

    fn rejection(bulkhead: &Bulkhead, now: f64) -> Option<Rejection> {
        bulkhead.enter(now).map(|permit| permit.done(true, now)).err()
    }

    #[test]
    fn never_more_than_the_limit() {
        let bulkhead = Bulkhead::new(2, 1.0);
        let first = bulkhead.enter(0.0).unwrap();
        let second = bulkhead.enter(0.0).unwrap();
        assert_eq!(bulkhead.enter(0.0).unwrap_err(), Rejection::Full);
        first.done(true, 0.0);
        let third = bulkhead.enter(0.0).unwrap();
        assert_eq!(bulkhead.enter(0.0).unwrap_err(), Rejection::Full);
        drop((second, third));
        assert!(bulkhead.enter(0.0).is_ok());
    }

    #[test]
    fn a_few_failures_do_not_open_it() {
        let bulkhead = Bulkhead::new(100, 1.0);
        fail(&bulkhead, 9, 0.0);
        assert_eq!(rejection(&bulkhead, 0.0), None, "nine are not enough to judge by");
        // Now 9 of 10 have failed.
        assert_eq!(rejection(&bulkhead, 0.0), Some(Rejection::Open));
    }

    #[test]
    fn failures_below_half_do_not_open_it() {
        let bulkhead = Bulkhead::new(100, 1.0);
        for _ in 0..50 {
            fail(&bulkhead, 1, 0.0);
            assert_eq!(rejection(&bulkhead, 0.0), None);
            assert_eq!(rejection(&bulkhead, 0.0), None);
        }
    }

    #[test]
    fn open_then_three_probes_then_closed() {
        let bulkhead = Bulkhead::new(100, 1.0);
        fail(&bulkhead, 10, 5.0);
        assert_eq!(rejection(&bulkhead, 5.9), Some(Rejection::Open));
        let probes: Vec<Permit> = (0..3).map(|_| bulkhead.enter(6.0).unwrap()).collect();
        assert_eq!(rejection(&bulkhead, 6.0), Some(Rejection::Open), "three probes, no more");
        probes.into_iter().for_each(|probe| probe.done(true, 6.1));
        assert_eq!(rejection(&bulkhead, 6.1), None);
        fail(&bulkhead, 8, 6.2);
        assert_eq!(rejection(&bulkhead, 6.2), None, "the old failures are forgotten");
    }

    #[test]
    fn a_probe_that_fails_or_is_cancelled_opens_it_again() {
        for cancelled in [false, true] {
            let bulkhead = Bulkhead::new(100, 1.0);
            fail(&bulkhead, 10, 5.0);
            let probe = bulkhead.enter(6.0).unwrap();
            if cancelled {
                drop(probe)
            } else {
                probe.done(false, 6.0)
            }
            assert_eq!(rejection(&bulkhead, 6.9), Some(Rejection::Open), "{cancelled}");
            assert_eq!(rejection(&bulkhead, 7.0), None, "{cancelled}");
        }
    }
}
