//! Which series of an application's page are a cache's counters.
//!
//! A [`Mapping`] is data: one [`Expression`] a counter. It comes from a preset, one file a library
//! in `presets/`, from the configuration's `counters:`, or from both.

use crate::reading::expression::{Expression, HistogramExpression, Matcher, Test};
use crate::reading::page::Series;

pub use crate::reading::expression::ExpressionError;
pub use crate::reading::presets::{preset, preset_names};

/// What an application counts; the keys of `counters:` in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counter {
    /// Lookups that found a value.
    Hits,
    /// Lookups that found none.
    Misses,
    /// Queries to the backend.
    Loads,
    /// Requests that shared another one's load.
    LoadsCoalesced,
    /// Cache calls that failed.
    Errors,
    /// Loads that found that the value exists nowhere.
    NotFound,
    /// Lock attempts that got the lock.
    LockAcquired,
    /// Lock attempts that found it held.
    LockContended,
    /// Lock waits that gave up.
    LockTimeout,
    /// Lock attempts that failed.
    LockError,
    /// All lookups, as the library counts them itself. Only compared with hits and misses: when
    /// those add up to more, the library counts some lookup twice.
    Requests,
}

impl Counter {
    /// Every counter, in the order of the configuration's documentation.
    pub const ALL: [Counter; 11] = [
        Counter::Hits,
        Counter::Misses,
        Counter::Loads,
        Counter::LoadsCoalesced,
        Counter::Errors,
        Counter::NotFound,
        Counter::LockAcquired,
        Counter::LockContended,
        Counter::LockTimeout,
        Counter::LockError,
        Counter::Requests,
    ];

    /// The key in the configuration and in a preset file.
    pub fn as_str(self) -> &'static str {
        match self {
            Counter::Hits => "hits",
            Counter::Misses => "misses",
            Counter::Loads => "loads",
            Counter::LoadsCoalesced => "loads_coalesced",
            Counter::Errors => "errors",
            Counter::NotFound => "not_found",
            Counter::LockAcquired => "lock_acquired",
            Counter::LockContended => "lock_contended",
            Counter::LockTimeout => "lock_timeout",
            Counter::LockError => "lock_error",
            Counter::Requests => "requests",
        }
    }

    /// The counter of a key.
    pub fn from_key(key: &str) -> Option<Counter> {
        Counter::ALL.into_iter().find(|counter| counter.as_str() == key)
    }
}

/// A mapping from a page's series to the counters of an application.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mapping {
    /// In the order of [`Counter::ALL`].
    counters: [Option<Expression>; Counter::ALL.len()],
    load_latency: Option<HistogramExpression>,
    cache: Option<CacheLabel>,
    group_label: Option<String>,
}

/// Which of several caches on one page is meant. Series without the label all count.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheLabel {
    /// The label that tells caches apart.
    pub label: String,
    /// The configured cache; `None` takes all.
    pub cache: Option<String>,
}

impl Mapping {
    /// How a counter is read, if the mapping has it.
    pub fn counter(&self, counter: Counter) -> Option<&Expression> {
        self.counters.get(counter as usize)?.as_ref()
    }

    /// The load-latency histogram, if the mapping has one.
    pub fn load_latency(&self) -> Option<&HistogramExpression> {
        self.load_latency.as_ref()
    }

    /// Sets or replaces a counter.
    pub fn set(&mut self, counter: Counter, expression: Expression) {
        if let Some(place) = self.counters.get_mut(counter as usize) {
            *place = Some(expression);
        }
    }

    /// Sets or replaces the load-latency histogram.
    pub fn set_load_latency(&mut self, histogram: HistogramExpression) {
        self.load_latency = Some(histogram);
    }

    /// Names the label that tells the caches of one page apart.
    pub fn set_cache_label(&mut self, label: &str) {
        self.cache = Some(CacheLabel { label: label.to_owned(), cache: None });
    }

    /// Names the label whose values tell groups of keys apart, in the series of the misses.
    #[must_use]
    pub fn grouped_by(mut self, label: &str) -> Mapping {
        self.group_label = Some(label.to_owned());
        self
    }

    /// The label that tells groups of keys apart, if there is one.
    pub fn group_label(&self) -> Option<&str> {
        self.group_label.as_deref()
    }

    /// Takes from `other` what this mapping lacks, as in a lock library beside a cache library.
    #[must_use]
    pub fn or(mut self, other: Mapping) -> Mapping {
        for (mine, theirs) in self.counters.iter_mut().zip(other.counters) {
            if mine.is_none() {
                *mine = theirs;
            }
        }
        self.load_latency = self.load_latency.or(other.load_latency);
        self.cache = self.cache.or(other.cache);
        self.group_label = self.group_label.or(other.group_label);
        self
    }

    /// Where the mapping has a cache label, only series of this cache count from now on; series
    /// without the label all count.
    #[must_use]
    pub fn for_cache(mut self, name: &str) -> Mapping {
        if let Some(cache) = &mut self.cache {
            cache.cache = Some(name.to_owned());
        }
        self
    }

    /// Only series with this label value count, in every counter and the histogram.
    #[must_use]
    pub fn only(mut self, label: &str, value: &str) -> Mapping {
        let matcher = Matcher { label: label.to_owned(), test: Test::Is(value.to_owned()) };
        for expression in self.counters.iter_mut().flatten() {
            expression.restrict(&matcher);
        }
        if let Some(histogram) = &mut self.load_latency {
            histogram.selector.matchers.push(matcher);
        }
        self
    }

    /// Whether hits and misses are both there: without them the source says nothing on lookups.
    pub fn has_lookups(&self) -> bool {
        self.counter(Counter::Hits).is_some() && self.counter(Counter::Misses).is_some()
    }

    /// Whether nothing at all would be read.
    pub fn is_empty(&self) -> bool {
        self.counters.iter().all(Option::is_none) && self.load_latency.is_none()
    }

    /// The label that tells the caches of one page apart, if the mapping has one.
    pub fn cache_label(&self) -> Option<&CacheLabel> {
        self.cache.as_ref()
    }

    /// Whether a series belongs to the cache.
    pub fn takes(&self, series: &Series<'_>) -> bool {
        let Some(CacheLabel { label, cache: Some(cache) }) = &self.cache else { return true };
        let value = series.label(label);
        value.is_empty() || value == cache
    }

    /// The names of all series it may read.
    pub fn series_names(&self) -> impl Iterator<Item = String> {
        let terms = self.counters.iter().flatten().flat_map(Expression::terms);
        let names = terms.flat_map(|term| &term.choices).map(|choice| choice.name.clone());
        let bucket =
            |histogram: &HistogramExpression| format!("{}_bucket", histogram.selector.name);
        names.chain(self.load_latency.iter().map(bucket))
    }
}
