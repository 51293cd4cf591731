//! The applications' own word on which groups of keys are missed: their counters of misses by the
//! values of a label.

use std::collections::{BTreeMap, VecDeque};

use super::{LEAST_SHARE, MOST_NAMED};
use crate::elementary::exp2;

/// Seconds before a suspicion that count as its beginning.
const LEAD: f64 = 3.0;

/// Seconds in which what is usual fades to half.
const HALF_LIFE: f64 = 60.0;

/// Extra misses from which on shares mean something.
const LEAST_EXTRA: f64 = 10.0;

/// Groups that are told apart; the rest counts as extra misses of no group.
const GROUPS: usize = 256;

/// Misses of one cache's applications by group.
#[derive(Debug, Clone, Default)]
pub struct GroupedMisses {
    /// The newest pages, from before a look.
    recent: VecDeque<Pages>,
    /// Misses a second while nobody looks, and the seconds that they rest on, both faded.
    usual: BTreeMap<String, f64>,
    usual_seconds: f64,
    /// What was missed in the look that is under way.
    look: Option<Pages>,
}

/// What the pages of some time added.
#[derive(Debug, Clone, Default)]
struct Pages {
    end: f64,
    seconds: f64,
    missed: BTreeMap<String, f64>,
}

impl GroupedMisses {
    /// Takes in what the pages added in the `seconds` before `now`, Unix seconds: misses by group;
    /// the same group may come several times.
    pub fn take<'a>(
        &mut self,
        now: f64,
        seconds: f64,
        missed: impl Iterator<Item = (&'a str, f64)>,
    ) {
        if let Some(look) = &mut self.look {
            look.add(now, seconds, missed);
            return;
        }
        let mut pages = Pages::default();
        pages.add(now, seconds, missed);
        self.recent.push_back(pages);
        while let Some(pages) = self.recent.pop_front_if(|pages| pages.end < now - LEAD) {
            self.learn(&pages);
        }
    }

    /// Looks at what is missed from a few seconds ago on; goes on where a look is under way.
    pub fn look(&mut self) {
        if self.look.is_none() {
            let mut look = Pages::default();
            for pages in self.recent.drain(..) {
                look.add(pages.end, pages.seconds, pages.named());
            }
            self.look = Some(look);
        }
    }

    /// Ends the look. What it has seen is forgotten.
    pub fn rest(&mut self) {
        self.look = None;
    }

    /// The groups whose misses rose in the look, with their shares of the extra misses, the largest
    /// first; none while too few are extra.
    pub fn culprits(&self) -> Vec<(String, f64)> {
        let Some(look) = &self.look else { return Vec::new() };
        let extra = |(group, missed): (&String, &f64)| {
            let usual = self.usual.get(group).copied().unwrap_or(0.0);
            let expected = usual / self.usual_seconds.max(f64::MIN_POSITIVE) * look.seconds;
            (group.clone(), (missed - expected).max(0.0))
        };
        let mut found: Vec<(String, f64)> = look.missed.iter().map(extra).collect();
        let all: f64 = found.iter().map(|(_, extra)| extra).sum();
        if all < LEAST_EXTRA {
            return Vec::new();
        }
        found.iter_mut().for_each(|(_, extra)| *extra /= all);
        found.retain(|(group, share)| !group.is_empty() && *share >= LEAST_SHARE);
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        found.truncate(MOST_NAMED);
        found
    }

    fn learn(&mut self, pages: &Pages) {
        let fade = exp2(-pages.seconds / HALF_LIFE);
        self.usual_seconds = self.usual_seconds * fade + pages.seconds;
        for missed in self.usual.values_mut() {
            *missed *= fade;
        }
        // A group that has not been missed for some minutes is not remembered.
        self.usual.retain(|_, missed| *missed > 0.01);
        add(&mut self.usual, pages.named());
    }
}

impl Pages {
    fn add<'a>(&mut self, end: f64, seconds: f64, missed: impl Iterator<Item = (&'a str, f64)>) {
        self.end = end;
        self.seconds += seconds;
        add(&mut self.missed, missed);
    }

    fn named(&self) -> impl Iterator<Item = (&str, f64)> {
        self.missed.iter().map(|(group, missed)| (group.as_str(), *missed))
    }
}

/// Adds misses to their groups, as far as those are told apart.
fn add<'a>(sums: &mut BTreeMap<String, f64>, missed: impl Iterator<Item = (&'a str, f64)>) {
    for (group, missed) in missed {
        let known = sums.len() < GROUPS || sums.contains_key(group);
        let group = if known { group } else { "" };
        *sums.entry(group.to_owned()).or_default() += missed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five minutes of calm: 20 misses a second of sessions, 2 of products.
    fn calm() -> GroupedMisses {
        let mut groups = GroupedMisses::default();
        for second in 0..300 {
            groups.take(f64::from(second), 1.0, [("session", 20.0), ("product", 2.0)].into_iter());
        }
        groups
    }

    #[test]
    fn the_group_whose_misses_rose_is_named_not_the_one_that_always_misses() {
        let mut groups = calm();
        assert_eq!(groups.culprits(), [], "nobody looks");
        // The first second is over before anybody suspects anything.
        groups.take(300.0, 1.0, [("session", 20.0), ("product", 42.0)].into_iter());
        groups.look();
        assert_eq!(groups.culprits(), [("product".to_owned(), 1.0)]);
        groups.take(301.0, 1.0, [("session", 20.0), ("product", 42.0), ("news", 40.0)].into_iter());
        groups.look();
        let found = groups.culprits();
        // 80 of 120 extra misses, and 40 of a group that is new.
        assert_eq!(
            found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["product", "news"]
        );
        assert!((found[0].1 - 2.0 / 3.0).abs() < 0.01, "{found:?}");
        groups.rest();
        assert_eq!(groups.culprits(), []);
    }

    #[test]
    fn few_extra_misses_and_none_without_a_label_name_nobody() {
        let mut groups = calm();
        groups.take(300.0, 1.0, [("session", 20.0), ("product", 9.0)].into_iter());
        groups.look();
        assert_eq!(groups.culprits(), [], "seven are too few");
        groups.take(301.0, 1.0, [("", 1000.0)].into_iter());
        assert_eq!(groups.culprits(), [], "whose they are is not known");
    }

    #[test]
    fn memory_is_bounded_whatever_the_labels_are() {
        let mut groups = GroupedMisses::default();
        for second in 0..2000 {
            let names: Vec<String> = (0..1000).map(|n| format!("{second}-{n}")).collect();
            groups.take(f64::from(second), 1.0, names.iter().map(|name| (name.as_str(), 1.0)));
        }
        assert!(groups.usual.len() <= GROUPS + 1, "{}", groups.usual.len());
        assert!(groups.recent.len() <= 5);
    }
}
