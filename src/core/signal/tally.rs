//! An application's counters, added up from page to page.
//!
//! Each series is followed by itself. One that fell has restarted from zero, and the others have
//! not; one that the page lost is unknown, and so is its counter until it comes back or has been
//! away for [`FORGET_AFTER`](super::series::FORGET_AFTER). A series that is born on a page that
//! was read before counts from zero: libraries create a labelled series at its first event, and
//! that may be a stampede. (PromQL's `increase()` misses that first value.)
//!
//! What cannot have happened since the last page is not counted: when the page comes from another
//! process (`process_start_time_seconds` says so, or a series that is back where it fell from), or
//! when a restarted or newborn series is larger than
//! [`BELIEVABLE_RATE`](super::series::BELIEVABLE_RATE) allows, the poll is unknown. A short gap is
//! better than a spike.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use crate::reading::expression::{HistogramExpression, Selector, Term};
use crate::reading::mapping::{Counter, Mapping};
use crate::reading::page::{Page, Series};
use crate::signal::latency::Buckets;
use crate::signal::series::{Followed, Origin, Rise, Turn};

/// Seconds by which an application's clock may run behind ours when its process's start is
/// compared with the time of our last page.
const CLOCK_SLACK: f64 = 5.0;

/// Requests before they are compared with hits and misses: fewer prove nothing.
const CHECK_AFTER_REQUESTS: f64 = 50.0;

/// Hits and misses over requests from which on lookups are counted twice. A tenth is left for
/// pages that are not written at one instant; a library that errs, errs by the whole.
const CHECK_TOLERANCE: f64 = 1.1;

/// The start of the process in Unix seconds, as the official client libraries write it.
const PROCESS_START: &str = "process_start_time_seconds";

/// One value a counter.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ByCounter([Option<f64>; Counter::ALL.len()]);

impl ByCounter {
    /// A counter's value; `None` where it is unknown.
    pub fn get(&self, counter: Counter) -> Option<f64> {
        self.0.get(counter as usize).copied().flatten()
    }

    /// Sets a counter's value.
    pub fn set(&mut self, counter: Counter, value: Option<f64>) {
        if let Some(place) = self.0.get_mut(counter as usize) {
            *place = value;
        }
    }
}

/// What one page adds to the one before it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// How much each counter rose since the page before; `None` where that is not known.
    pub rises: ByCounter,
    /// What each counter has risen since the first page; `None` where this page does not tell.
    pub totals: ByCounter,
    /// The loads that ended in between, by how long they took.
    pub loads: Option<Buckets>,
    /// Misses in between by the mapping's group label; a series without it has an empty one, and
    /// a group may come several times.
    pub missed: Vec<(String, f64)>,
    /// What a person should look into, each once.
    pub warnings: Vec<Warning>,
}

/// Something about a page that is no error but makes its counters doubtful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Warning {
    /// Not one of the mapped series is on the page.
    #[error("the page has none of the mapped series")]
    NothingMapped,
    /// Series of other caches only.
    #[error("the page has the mapped series, but none of them for this cache")]
    OtherCachesOnly,
    /// Hits or misses alone say nothing.
    #[error("the page has no series for the hits or none for the misses")]
    NoLookups,
    /// The address answers for more than one process.
    #[error("the page comes from different processes in turn; give each its own address")]
    SeveralProcesses,
    /// Hits and misses exceed the requests.
    #[error("hits and misses exceed the requests: some lookups are counted twice")]
    CountedTwice,
    /// The same series more than once.
    #[error("the page has a mapped series twice; the first counts")]
    Duplicate,
    /// A counter that is negative, infinite or no number; it counts as absent.
    #[error("a mapped series has a value that no counter can have")]
    NotACount,
}

/// Follows the counters of one application. Memory is bounded by an hour of the page's series.
#[derive(Debug, Clone)]
pub struct Tally {
    mapping: Mapping,
    counters: Vec<(Counter, CounterTally)>,
    load_latency: Followed,
    hasher: RandomState,
    last_page: Option<f64>,
    process_start: Option<f64>,
    interrupted: bool,
}

#[derive(Debug, Clone, Default)]
struct CounterTally {
    terms: Vec<Followed>,
    /// Since the first page that had the counter.
    total: Option<f64>,
    /// Not yet in the total: below zero where a subtrahend ran ahead within a page, above zero
    /// where another part of the counter is unknown.
    pending: f64,
}

impl Tally {
    /// A tally that has seen no page.
    pub fn new(mapping: Mapping) -> Tally {
        let counters = Counter::ALL.into_iter().filter_map(|counter| {
            let terms = vec![Followed::default(); mapping.counter(counter)?.terms().len()];
            Some((counter, CounterTally { terms, ..CounterTally::default() }))
        });
        Tally {
            counters: counters.collect(),
            mapping,
            load_latency: Followed::default(),
            hasher: RandomState::new(),
            last_page: None,
            process_start: None,
            interrupted: false,
        }
    }

    /// The names of the series that [`Tally::take`] looks at.
    pub fn wanted(&self) -> impl Iterator<Item = String> {
        std::iter::once(PROCESS_START.to_owned()).chain(self.mapping.series_names())
    }

    /// Notes a page that could not be read: what rises until the next one counts in the totals,
    /// but not as the rise of one poll.
    pub fn interrupt(&mut self) {
        self.interrupted = true;
    }

    /// What each counter has risen since the first page; `None` until a page has it.
    pub fn totals(&self) -> ByCounter {
        let mut totals = ByCounter::default();
        for (counter, tally) in &self.counters {
            totals.set(*counter, tally.total);
        }
        totals
    }

    /// Takes in a page read at `now`, Unix seconds, later than the one before.
    pub fn take(&mut self, now: f64, page: &Page<'_>) -> Step {
        let turn = Turn { now, before: self.last_page, origin: self.origin(page) };
        let gap = std::mem::take(&mut self.interrupted);
        let mut look = Look::new(page, &self.mapping, &self.hasher, turn);
        let (mut rises, mut totals) = (ByCounter::default(), ByCounter::default());
        for (counter, tally) in &mut self.counters {
            let Some(expression) = self.mapping.counter(*counter) else { continue };
            if let Some(rise) = tally.take(*counter, expression.terms(), &mut look) {
                rises.set(*counter, rise.filter(|_| !gap));
                totals.set(*counter, tally.total);
            }
        }
        let histogram = self.mapping.load_latency();
        let loads = histogram.and_then(|h| look.histogram(h, &mut self.load_latency));
        let mut warnings = look.warnings(&self.mapping);
        let missed = look.missed;
        self.last_page = Some(now);
        if self.counted_twice() {
            warnings.push(Warning::CountedTwice);
        }
        Step { rises, totals, loads: loads.filter(|_| !gap), missed, warnings }
    }

    fn origin(&mut self, page: &Page<'_>) -> Origin {
        // A page that gathers several processes says nothing about which of them it comes from.
        let mut starts = page.named(PROCESS_START).map(|series| series.value);
        let (Some(start), None) = (starts.next(), starts.next()) else { return Origin::Same };
        if !start.is_finite() {
            return Origin::Same;
        }
        match (self.process_start.replace(start), self.last_page) {
            (Some(known), Some(last)) if known != start => {
                if start > last - CLOCK_SLACK {
                    Origin::Restarted
                } else {
                    Origin::Other
                }
            }
            _ => Origin::Same,
        }
    }

    fn counted_twice(&self) -> bool {
        let totals = self.totals();
        let [hits, misses, requests] = [Counter::Hits, Counter::Misses, Counter::Requests]
            .map(|counter| totals.get(counter).unwrap_or(0.0));
        requests >= CHECK_AFTER_REQUESTS && hits + misses > requests * CHECK_TOLERANCE
    }
}

impl CounterTally {
    /// Adds what its terms rose. `None` where the page does not tell; within, the rise when all of
    /// it belongs to this turn.
    fn take(
        &mut self,
        counter: Counter,
        recipe: &[Term],
        look: &mut Look<'_>,
    ) -> Option<Option<f64>> {
        let held_back = self.pending > 0.0;
        let (mut gross, mut known, mut timely) = (0.0, true, true);
        for (term, followed) in recipe.iter().zip(&mut self.terms) {
            let moved = look.term(counter, term, followed);
            self.pending += term.factor * moved.amount;
            gross += (term.factor * moved.amount).abs();
            known &= moved.known;
            timely &= moved.timely;
        }
        if !known {
            return None;
        }
        let rise = self.pending.max(0.0);
        // A page is not written at one instant, so one part may be ahead of another by what happens
        // in one poll; more than that is a mapping that does not fit, and no debt to work off.
        self.pending = (self.pending - rise).max(-gross);
        self.total = Some(self.total.unwrap_or(0.0) + rise);
        Some((timely && !held_back).then_some(rise))
    }
}

/// How far a term moved.
#[derive(Debug, Clone, Copy)]
struct Moved {
    amount: f64,
    /// Whether the page gives the term a value.
    known: bool,
    /// Whether the amount is all that was added since the page before, no less and no more.
    timely: bool,
}

/// One page, looked at counter by counter.
struct Look<'a> {
    page: &'a Page<'a>,
    mapping: &'a Mapping,
    hasher: &'a RandomState,
    turn: Turn,
    /// The counters with series of this cache.
    found: Vec<Counter>,
    /// Misses by group; see [`Step::missed`].
    missed: Vec<(String, f64)>,
    /// Whether a mapped name is there, for whatever cache.
    named: bool,
    duplicate: bool,
    /// Whether a series shows another process's count.
    foreign: bool,
    not_a_count: bool,
}

impl<'a> Look<'a> {
    fn new(page: &'a Page<'a>, mapping: &'a Mapping, hasher: &'a RandomState, turn: Turn) -> Self {
        Look {
            page,
            mapping,
            hasher,
            turn,
            found: Vec::new(),
            missed: Vec::new(),
            named: false,
            duplicate: false,
            foreign: false,
            not_a_count: false,
        }
    }

    fn term(&mut self, counter: Counter, term: &Term, followed: &mut Followed) -> Moved {
        let mut moved = Moved { amount: 0.0, known: false, timely: self.turn.before.is_some() };
        for choice in &term.choices {
            let name = &choice.name;
            // A name without the labelled series that is meant: it is not born, nothing happened.
            moved.known |= self.page.declares(name) || self.page.named(name).next().is_some();
            self.named |= moved.known;
            let label = self.mapping.group_label().filter(|_| counter == Counter::Misses);
            let mut missed = std::mem::take(&mut self.missed);
            let add = |series: &Series<'_>, amount| {
                moved.amount += amount;
                if let Some(label) = label {
                    missed.push((series.label(label).to_owned(), term.factor * amount));
                }
            };
            let found = self.follow(choice, name, followed, add, &mut moved.timely);
            self.missed = missed;
            if found {
                self.found.push(counter);
                break;
            }
        }
        moved.known |= term.zero_if_absent;
        self.settle(followed, moved)
    }

    /// The loads that ended between the two pages.
    fn histogram(
        &mut self,
        histogram: &HistogramExpression,
        followed: &mut Followed,
    ) -> Option<Buckets> {
        let name = format!("{}_bucket", histogram.selector.name);
        let mut cumulative: Vec<(f64, f64)> = Vec::new();
        let mut timely = self.turn.before.is_some();
        let add = |series: &Series<'_>, amount| {
            if let Ok(bound) = series.label("le").parse::<f64>() {
                cumulative.push((bound * histogram.scale, amount));
            }
        };
        let known = self.follow(&histogram.selector, &name, followed, add, &mut timely);
        let moved = self.settle(followed, Moved { amount: 0.0, known, timely });
        if moved.timely { Buckets::from_cumulative(cumulative) } else { None }
    }

    /// Follows a selector's series under a name and adds up their rises; whether there are any.
    fn follow(
        &mut self,
        selector: &Selector,
        name: &str,
        followed: &mut Followed,
        mut add: impl FnMut(&Series<'_>, f64),
        timely: &mut bool,
    ) -> bool {
        let mut found = false;
        for series in self.page.named(name) {
            if !self.mapping.takes(&series) || !selector.fits(&series) {
                continue;
            }
            found = true;
            if !(series.value.is_finite() && series.value >= 0.0) {
                self.not_a_count = true;
                continue;
            }
            match followed.take(self.turn, self.identity(&series), series.value) {
                Rise::Timely(amount) => add(&series, amount),
                Rise::Late(amount) => {
                    add(&series, amount);
                    *timely = false;
                }
                Rise::Unknown => *timely = false,
                Rise::Foreign => (*timely, self.foreign) = (false, true),
                Rise::Duplicate => self.duplicate = true,
            }
        }
        found
    }

    /// Ends a sum for this page.
    fn settle(&self, followed: &mut Followed, mut moved: Moved) -> Moved {
        moved.known &= !followed.settle(self.turn);
        moved.timely &= moved.known && followed.known_before;
        followed.known_before = moved.known;
        moved
    }

    /// The same for the same name and labels, in whatever order they are written.
    fn identity(&self, series: &Series<'_>) -> u64 {
        let labels = series.labels.iter().map(|label| self.hasher.hash_one(label));
        labels.fold(self.hasher.hash_one(series.name), u64::wrapping_add)
    }

    fn warnings(&self, mapping: &Mapping) -> Vec<Warning> {
        let found = |counter| self.found.contains(&counter);
        let absence = if mapping.is_empty() || !self.found.is_empty() {
            let incomplete = !(found(Counter::Hits) && found(Counter::Misses));
            (mapping.has_lookups() && incomplete).then_some(Warning::NoLookups)
        } else if self.named && mapping.cache_label().is_some() {
            Some(Warning::OtherCachesOnly)
        } else {
            Some(Warning::NothingMapped)
        };
        let several = self.foreign || self.turn.origin == Origin::Other;
        let several = several.then_some(Warning::SeveralProcesses);
        let duplicate = self.duplicate.then_some(Warning::Duplicate);
        let not_a_count = self.not_a_count.then_some(Warning::NotACount);
        [absence, several, duplicate, not_a_count].into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::expression::Expression;
    use crate::reading::mapping;
    use crate::reading::page;

    /// Pages one second apart, from second 1000 on, read as one counter.
    fn rises(expression: &str, pages: &[&str]) -> Vec<Option<f64>> {
        let mut tally = tally(Counter::Misses, expression);
        pages.iter().enumerate().map(|(i, text)| take(&mut tally, 1000 + i, text)).collect()
    }

    fn tally(counter: Counter, expression: &str) -> Tally {
        let mut mapping = Mapping::default();
        mapping.set(counter, Expression::parse(expression).unwrap());
        Tally::new(mapping)
    }

    fn take(tally: &mut Tally, second: usize, text: &str) -> Option<f64> {
        step(tally, second, text).rises.get(Counter::Misses)
    }

    fn step(tally: &mut Tally, second: usize, text: &str) -> Step {
        let text = format!("{text}\n");
        let (page, problems) = page::parse(text.as_bytes(), |_| true);
        assert_eq!(problems, []);
        tally.take(second as f64, &page)
    }

    #[test]
    fn misses_are_told_apart_by_the_group_label() {
        let mut mapping = Mapping::default();
        mapping.set(Counter::Misses, Expression::parse("asked - found").unwrap());
        let mut tally = Tally::new(mapping.grouped_by("g"));
        let first = "asked{g=\"a\"} 100\nfound{g=\"a\"} 90\nasked 7";
        let second = "asked{g=\"a\"} 150\nfound{g=\"a\"} 120\nasked{g=\"b\"} 5\nasked 9";
        assert_eq!(step(&mut tally, 1000, first).missed, []);
        let mut sums = std::collections::BTreeMap::new();
        for (group, missed) in step(&mut tally, 1001, second).missed {
            *sums.entry(group).or_insert(0.0) += missed;
        }
        let right = [("", 2.0), ("a", 20.0), ("b", 5.0)];
        assert_eq!(sums.iter().map(|(g, m)| (g.as_str(), *m)).collect::<Vec<_>>(), right);
    }

    #[test]
    fn the_first_page_has_no_rise() {
        assert_eq!(rises("m", &["m 5000000", "m 5000007"]), [None, Some(7.0)]);
    }

    #[test]
    fn a_series_that_fell_restarts_from_zero_and_the_other_does_not() {
        let pages = ["m{a=\"1\"} 500\nm{a=\"2\"} 70", "m{a=\"1\"} 30\nm{a=\"2\"} 75"];
        assert_eq!(rises("m", &pages), [None, Some(35.0)]);
    }

    #[test]
    fn a_new_process_restarts_also_the_series_that_did_not_fall() {
        let pages =
            ["process_start_time_seconds 500\nm 10", "process_start_time_seconds 1000.5\nm 12"];
        assert_eq!(rises("m", &pages), [None, Some(12.0)]);
    }

    #[test]
    fn another_process_in_turn_is_unknown() {
        let [a, b] =
            ["process_start_time_seconds 500\nm 900", "process_start_time_seconds 600\nm 40"];
        assert_eq!(rises("m", &[a, b, a, b]), [None; 4]);
        let mut tally = tally(Counter::Misses, "m");
        step(&mut tally, 1000, a);
        assert_eq!(step(&mut tally, 1001, b).warnings, [Warning::SeveralProcesses]);
    }

    #[test]
    fn processes_in_turn_are_found_out_without_their_start() {
        let mut tally = tally(Counter::Misses, "m");
        let mut look = |second, value: u32| {
            let step = step(&mut tally, second, &format!("m {value}"));
            (step.rises.get(Counter::Misses), step.warnings.contains(&Warning::SeveralProcesses))
        };
        assert_eq!(look(1000, 1_000_000), (None, false));
        // A restart would look like this, and has nothing that tells it apart.
        assert_eq!(look(1001, 5000), (Some(5000.0), false));
        assert_eq!(look(1002, 1_000_010), (None, true));
        assert_eq!(look(1003, 5007), (None, true));
        assert_eq!(look(1004, 1_000_030), (None, true));
        assert_eq!(look(1005, 1_000_041), (Some(11.0), false));
        // An hour later only one is left, and restarts.
        assert_eq!(look(4700, 1_000_100), (Some(59.0), false));
        assert_eq!(look(4701, 40), (Some(40.0), false));
    }

    #[test]
    fn a_restarted_series_may_grow_past_what_it_was() {
        // In a cold start, and at a rate that is not believed of a newborn series.
        assert_eq!(rises("m", &["m 900", "m 5", "m 905"]), [None, Some(5.0), Some(900.0)]);
        let mut tally = tally(Counter::Misses, "m");
        for (second, value) in [(1000, 90_000), (1001, 100), (1040, 30_100)] {
            take(&mut tally, second, &format!("m {value}"));
        }
        assert_eq!(take(&mut tally, 1041, "m 95000"), Some(64_900.0));
    }

    #[test]
    fn a_page_that_gathers_processes_has_no_start_of_its_own() {
        let start = |p, at| format!("process_start_time_seconds{{p=\"{p}\"}} {at}\n");
        let before = format!("{}{}m 10", start("a", 500), start("b", 600));
        let after = format!("{}{}m 12", start("b", 600), start("a", 500));
        assert_eq!(rises("m", &[&before, &after]), [None, Some(2.0)]);
    }

    #[test]
    fn a_fall_to_a_total_of_millions_is_no_restart() {
        assert_eq!(rises("m", &["m 9000000", "m 8000000", "m 8000003"]), [None, None, Some(3.0)]);
    }

    #[test]
    fn a_vanished_series_is_unknown_and_resumes() {
        let (both, one) = ("m{a=\"1\"} 5\nm{a=\"2\"} 7", "m{a=\"1\"} 6");
        let back = "m{a=\"1\"} 6\nm{a=\"2\"} 9";
        assert_eq!(rises("m", &[both, one, back, back]), [None, None, None, Some(0.0)]);
    }

    #[test]
    fn the_total_has_what_a_gap_hid() {
        let mut tally = tally(Counter::Misses, "m");
        for (second, page) in [(1000, "m 5"), (1001, "x 1"), (1003, "m 9")] {
            assert_eq!(take(&mut tally, second, page), None);
        }
        assert_eq!(tally.totals().get(Counter::Misses), Some(4.0));
        tally.interrupt();
        assert_eq!(take(&mut tally, 1009, "m 10"), None);
        assert_eq!(tally.totals().get(Counter::Misses), Some(5.0));
    }

    #[test]
    fn a_series_that_stays_away_is_forgotten() {
        let mut tally = tally(Counter::Misses, "m");
        take(&mut tally, 1000, "m{a=\"1\"} 5\nm{a=\"2\"} 7");
        assert_eq!(take(&mut tally, 1029, "m{a=\"1\"} 6"), None);
        assert_eq!(take(&mut tally, 1030, "m{a=\"1\"} 7"), None, "known again, after a gap");
        assert_eq!(take(&mut tally, 1031, "m{a=\"1\"} 8"), Some(1.0));
        assert_eq!(take(&mut tally, 1032, "m{a=\"1\"} 9\nm{a=\"2\"} 700"), None, "no spike");
    }

    #[test]
    fn a_series_born_on_a_known_page_counts_from_zero() {
        let pages = ["m{r=\"a\"} 5", "m{r=\"a\"} 5\nm{r=\"b\"} 40"];
        assert_eq!(rises("m", &pages), [None, Some(40.0)]);
        assert_eq!(rises("m{r=\"b\"}", &pages), [None, Some(40.0)], "the name was there");
        assert_eq!(rises("m", &["# TYPE m counter", "m{r=\"b\"} 3"]), [None, Some(3.0)]);
        assert_eq!(rises("m", &["x 1", "m 40"]), [None, None], "the name was not");
    }

    #[test]
    fn differences_sums_scales_and_alternatives() {
        let pages = ["r 100\nh 90", "r 110\nh 94"];
        assert_eq!(rises("r - h", &pages), [None, Some(6.0)]);
        assert_eq!(rises("r + 0.5 * h", &pages), [None, Some(12.0)]);
        assert_eq!(rises("(other or r) - (other or 0)", &pages), [None, Some(10.0)]);
        assert_eq!(rises("r - other", &pages), [None, None]);
    }

    #[test]
    fn a_part_that_runs_ahead_is_made_up_for() {
        // The hits of second 1001 were read late: 3 requests, 5 hits; then 7 and 3.
        let pages = ["r 0\nh 0", "r 3\nh 5", "r 10\nh 8"];
        assert_eq!(rises("r - h", &pages), [None, Some(0.0), Some(2.0)]);
    }

    #[test]
    fn odd_values_and_duplicates() {
        let mut tally = tally(Counter::Misses, "m");
        step(&mut tally, 1000, "m 5");
        let odd = step(&mut tally, 1001, "m NaN");
        assert_eq!(
            (odd.rises.get(Counter::Misses), odd.warnings),
            (None, vec![Warning::NotACount])
        );
        step(&mut tally, 1002, "m 5");
        let twice = step(&mut tally, 1003, "m 6\nm 900");
        assert_eq!(
            (twice.rises.get(Counter::Misses), twice.warnings),
            (Some(1.0), vec![Warning::Duplicate])
        );
        assert_eq!(take(&mut tally, 1004, "m 8"), Some(2.0));
    }

    #[test]
    fn only_the_configured_cache_counts() {
        let native = mapping::preset("native").unwrap().for_cache("web");
        let page = |n| {
            format!(
                "cache_hits_total{{cache=\"web\"}} {n}\ncache_hits_total{{cache=\"x\"}} {n}0\ncache_misses_total {n}"
            )
        };
        let mut tally = Tally::new(native.clone());
        step(&mut tally, 1000, &page(1));
        let rises = step(&mut tally, 1001, &page(4)).rises;
        assert_eq!([Counter::Hits, Counter::Misses].map(|c| rises.get(c)), [Some(3.0); 2]);
        let mut tally = Tally::new(native);
        let other = "cache_hits_total{cache=\"x\"} 1\ncache_misses_total{cache=\"x\"} 1";
        assert_eq!(step(&mut tally, 1000, other).warnings, [Warning::OtherCachesOnly]);
        assert_eq!(step(&mut tally, 1001, "unrelated 1").warnings, [Warning::NothingMapped]);
    }

    #[test]
    fn misses_that_are_counted_twice_are_noticed() {
        let mut mapping = Mapping::default();
        for (counter, name) in
            [(Counter::Hits, "h"), (Counter::Misses, "m"), (Counter::Requests, "r")]
        {
            mapping.set(counter, Expression::parse(name).unwrap());
        }
        let mut tally = Tally::new(mapping);
        assert_eq!(step(&mut tally, 1000, "h 0\nm 0\nr 0").warnings, []);
        assert_eq!(step(&mut tally, 1001, "h 100\nm 200\nr 200").warnings, [Warning::CountedTwice]);
    }

    #[test]
    fn loads_by_latency() {
        let mut tally = Tally::new(mapping::preset("native").unwrap());
        let page = |a, b| {
            let bucket = "cache_load_duration_seconds_bucket";
            format!(
                "{bucket}{{le=\"0.1\"}} {a}\n{bucket}{{le=\"+Inf\"}} {b}\ncache_load_duration_seconds_count {b}"
            )
        };
        assert_eq!(step(&mut tally, 1000, &page(10, 20)).loads, None);
        let loads = Buckets::from_cumulative(vec![(0.1, 3.0), (f64::INFINITY, 5.0)]);
        assert_eq!(step(&mut tally, 1001, &page(13, 25)).loads, loads);
    }
}
