//! Readings from the history of a Prometheus-compatible server, over `query_range`.
//!
//! A counter's query may give several series, one a Redis server: each is followed by itself, so
//! that one that restarts or was not scraped for a while is neither a fall nor a burst of the sum.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use serde::Deserialize;

use super::Range;
use crate::reading::{Lookups, Reach, Reading};
use crate::source::app::{AppError, http_client};
use crate::trace::Column;

/// Readings asked for at once. Prometheus refuses more than 11 000 points a series.
const POINTS: usize = 10_000;

/// Bytes of one answer: [`POINTS`] of a few hundred series.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// Time for one answer. Servers give a query two minutes unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(120);

/// What redis_exporter calls the columns, without the braces.
const DEFAULTS: [(Column, &str, &str); 8] = [
    (Column::Hits, "redis_keyspace_hits_total", ""),
    (Column::Misses, "redis_keyspace_misses_total", ""),
    (Column::Expired, "redis_expired_keys_total", ""),
    (Column::Evicted, "redis_evicted_keys_total", ""),
    (Column::Keys, "redis_db_keys", ""),
    (Column::Uptime, "redis_uptime_in_seconds", ""),
    (Column::Flushes, "redis_commands_total", r#"cmd=~"flushall|flushdb""#),
    (Column::Up, "redis_up", ""),
];

/// Why history could not be read from a server.
#[derive(Debug, thiserror::Error)]
pub enum PrometheusError {
    /// No answer.
    #[error("the Prometheus server does not answer: {0}")]
    Request(#[from] AppError),
    /// The threads or timers of the system.
    #[error("cannot wait for the Prometheus server: {0}")]
    Runtime(#[from] std::io::Error),
    /// The address is none.
    #[error("the address of the Prometheus server is not a URL")]
    Address,
    /// The server said no.
    #[error("the Prometheus server refused `{query}`: {message}")]
    Refused {
        /// What was asked.
        query: String,
        /// What it said.
        message: String,
    },
    /// Something else than the answer of a Prometheus server.
    #[error("no answer of a Prometheus server (HTTP status {0})")]
    NoAnswer(u16),
    /// Too many bytes.
    #[error("the answer to `{0}` has more than {MAX_ANSWER} bytes; narrow the query")]
    TooLarge(String),
    /// There is nothing to replay.
    #[error(
        "`{0}` gave nothing in the whole range; see --query.hits, --query.misses and the range"
    )]
    Nothing(String),
}

/// Reads a range, some thousand readings at a time.
pub(super) struct PrometheusReader {
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    url: reqwest::Url,
    range: Range,
    queries: Vec<(Column, String)>,
    /// When the newest value was scraped: rows between two scrapes repeat the one before.
    scraped: Option<String>,
    /// Readings asked for so far.
    asked: usize,
    ready: VecDeque<Reading>,
    counters: HashMap<Column, Added>,
    last_time: f64,
    lookups_seen: bool,
}

/// A counter added up over its series.
#[derive(Default)]
struct Added {
    total: f64,
    before: HashMap<usize, f64>,
    /// Each series' number, by its labels.
    known: HashMap<BTreeMap<String, String>, usize>,
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    error: Option<String>,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    values: Vec<(f64, String)>,
}

/// One query's values: for each point, the number of the series and its value.
type Points = Vec<Vec<(usize, f64)>>;

impl PrometheusReader {
    pub(super) fn open(range: &Range) -> Result<PrometheusReader, PrometheusError> {
        let replaced = |column| range.queries.iter().any(|(other, _)| *other == column);
        let defaults = DEFAULTS.iter().filter(|(column, ..)| !replaced(*column));
        let defaults =
            defaults.map(|(column, name, own)| (*column, series(name, own, &range.selector)));
        let given = range.queries.iter().filter(|(_, query)| !query.trim().is_empty()).cloned();
        let scraped = (!replaced(Column::Hits)).then(|| {
            format!("max(timestamp({}))", series("redis_keyspace_hits_total", "", &range.selector))
        });
        Ok(PrometheusReader {
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            client: http_client(&range.url, TIMEOUT)?,
            url: query_range(range).ok_or(PrometheusError::Address)?,
            queries: defaults.chain(given).collect(),
            range: range.clone(),
            scraped,
            asked: 0,
            ready: VecDeque::new(),
            counters: HashMap::new(),
            last_time: f64::NEG_INFINITY,
            lookups_seen: false,
        })
    }

    /// What is asked, for a person.
    pub(super) fn notes(&self) -> Vec<String> {
        let column = |(column, query): &(Column, String)| format!("{}: {query}", column.as_str());
        self.queries.iter().map(column).collect()
    }

    pub(super) fn next(&mut self) -> Result<Option<Reading>, PrometheusError> {
        let steps = ((self.range.end - self.range.start) / self.range.step).floor() as usize;
        // The first reading is before the first step.
        let points = steps.saturating_add(1);
        while self.ready.is_empty() && self.asked < points {
            let count = POINTS.min(points - self.asked);
            self.ask(count)?;
            self.asked += count;
        }
        match self.ready.pop_front() {
            Some(reading) => Ok(Some(reading)),
            None if self.lookups_seen => Ok(None),
            None => {
                let hits = self.queries.iter().find(|(column, _)| *column == Column::Hits);
                Err(PrometheusError::Nothing(
                    hits.map_or(String::new(), |(_, query)| query.clone()),
                ))
            }
        }
    }

    /// Asks every query for the next points and makes readings of them.
    fn ask(&mut self, count: usize) -> Result<(), PrometheusError> {
        let start = self.range.start + self.asked as f64 * self.range.step;
        let mut readings: Vec<Reading> = (0..count)
            .map(|i| Reading { time: start + i as f64 * self.range.step, ..Reading::default() })
            .collect();
        let mut lookups: Vec<(Option<f64>, Option<f64>)> = vec![(None, None); count];
        for (column, query) in self.queries.clone() {
            let series = self.query(&query, start, count)?;
            let added = self.counters.entry(column).or_default();
            let points = self.range.points(added, series, start, count);
            for ((reading, lookups), values) in readings.iter_mut().zip(&mut lookups).zip(points) {
                fill(column, added, &values, reading, lookups);
            }
        }
        if let Some(query) = self.scraped.clone() {
            let mut none = Added::default();
            let series = self.query(&query, start, count)?;
            let points = self.range.points(&mut none, series, start, count);
            for (reading, values) in readings.iter_mut().zip(points) {
                if let Some((_, time)) = values.first() {
                    reading.time = *time;
                }
            }
        }
        for (mut reading, (hits, misses)) in readings.into_iter().zip(lookups) {
            reading.lookups.redis = hits.zip(misses).map(|(hits, misses)| Lookups { hits, misses });
            self.lookups_seen |= reading.lookups.redis.is_some();
            if reading.time > self.last_time {
                self.last_time = reading.time;
                self.ready.push_back(reading);
            }
        }
        Ok(())
    }

    fn query(&self, query: &str, start: f64, count: usize) -> Result<Vec<Series>, PrometheusError> {
        let end = start + (count - 1) as f64 * self.range.step;
        let mut url = self.url.clone();
        url.query_pairs_mut()
            .append_pair("query", query)
            .append_pair("start", &start.to_string())
            .append_pair("end", &end.to_string())
            .append_pair("step", &self.range.step.to_string());
        let (status, body) = self.runtime.block_on(async {
            let mut response = self.client.get(url).send().await.map_err(AppError::from)?;
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(AppError::from)? {
                if body.len() + chunk.len() > MAX_ANSWER {
                    return Err(PrometheusError::TooLarge(query.to_owned()));
                }
                body.extend_from_slice(&chunk);
            }
            Ok((response.status().as_u16(), body))
        })?;
        let Ok(answer) = serde_json::from_slice::<Answer>(&body) else {
            return Err(PrometheusError::NoAnswer(status));
        };
        match answer.data {
            Some(data) if answer.status == "success" => Ok(data.result),
            _ => {
                let message = answer.error.unwrap_or(answer.status);
                Err(PrometheusError::Refused { query: query.to_owned(), message })
            }
        }
    }
}

impl Range {
    /// Sorts the values of a query by point; numbers series as [`Added`] knows them.
    fn points(&self, added: &mut Added, series: Vec<Series>, start: f64, count: usize) -> Points {
        let mut points: Points = vec![Vec::new(); count];
        for series in series {
            let next = added.known.len();
            let number = *added.known.entry(series.metric).or_insert(next);
            for (time, value) in series.values {
                let index = ((time - start) / self.step).round();
                if index < 0.0 {
                    // From before the range, which nobody asked for.
                    continue;
                }
                let value = value.parse::<f64>().ok().filter(|value| value.is_finite());
                if let (Some(point), Some(value)) = (points.get_mut(index as usize), value) {
                    point.push((number, value));
                }
            }
        }
        points
    }
}

impl Added {
    /// Adds what each series rose since the point before; `None` when no series has a value.
    fn add(&mut self, values: &[(usize, f64)]) -> Option<f64> {
        let before = std::mem::take(&mut self.before);
        for (series, value) in values {
            if let Some(before) = before.get(series) {
                self.total += (value - before).max(0.0);
            }
        }
        self.before = values.iter().copied().collect();
        (!values.is_empty()).then_some(self.total)
    }
}

/// Takes one point of a column into its reading.
fn fill(
    column: Column,
    added: &mut Added,
    values: &[(usize, f64)],
    reading: &mut Reading,
    lookups: &mut (Option<f64>, Option<f64>),
) {
    let all = || values.iter().map(|(_, value)| *value);
    let lowest = || all().reduce(f64::min);
    let highest = || all().reduce(f64::max);
    match column {
        Column::Hits => lookups.0 = added.add(values),
        Column::Misses => lookups.1 = added.add(values),
        Column::Expired => reading.expired = added.add(values),
        Column::Evicted => reading.evicted = added.add(values),
        Column::Errors => reading.errors = added.add(values),
        Column::NotFound => reading.not_found = added.add(values),
        Column::Loads => reading.loads = added.add(values),
        Column::Coalesced => reading.coalesced = added.add(values),
        Column::LockAcquired => reading.lock_acquired = added.add(values),
        Column::LockFailed => reading.lock_failed = added.add(values),
        Column::Flushes => reading.flushes = added.add(values),
        Column::Keys => reading.keys = all().reduce(|a, b| a + b),
        Column::Uptime => reading.uptime = lowest(),
        Column::LatencyP50 => reading.latency_p50 = highest(),
        Column::LatencyP99 => reading.latency_p99 = highest(),
        Column::DueRatio => reading.due_ratio = highest(),
        Column::HotKeyShare => reading.hot_key_share = highest(),
        Column::Up => {
            reading.reach = match lowest() {
                None => Reach::Unknown,
                Some(up) if up >= 1.0 => Reach::Answering,
                Some(_) => Reach::Failing,
            };
        }
        // The time is the point's own, and the lookups of a server are the only ones here.
        Column::Time | Column::RedisHits | Column::RedisMisses => {}
    }
}

/// The address of the queries below the server's own, which may have a path and a query.
fn query_range(range: &Range) -> Option<reqwest::Url> {
    let mut url = reqwest::Url::parse(&range.url.0).ok()?;
    url.path_segments_mut().ok()?.pop_if_empty().extend(["api", "v1", "query_range"]);
    Some(url)
}

/// A series by its name, with its own matchers and the user's.
fn series(name: &str, own: &str, selector: &str) -> String {
    let matchers = [own, selector.trim()].into_iter().filter(|matchers| !matchers.is_empty());
    let matchers: Vec<&str> = matchers.collect();
    format!("{name}{{{}}}", matchers.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_series_is_followed_by_itself() {
        let mut added = Added::default();
        let totals = [
            vec![(0, 1000.0), (1, 70.0)],
            vec![(0, 1010.0), (1, 75.0)],
            vec![(1, 80.0)],              // one was not scraped
            vec![(0, 1050.0), (1, 85.0)], // and is back: no burst
            vec![(0, 3.0), (1, 90.0)],    // it restarted
            vec![],
            vec![(0, 9.0), (1, 95.0)],
        ]
        .map(|values| added.add(&values));
        let right = [Some(0.0), Some(15.0), Some(20.0), Some(25.0), Some(30.0), None, Some(30.0)];
        assert_eq!(totals, right);
    }

    #[test]
    fn selectors_are_joined() {
        assert_eq!(series("a", "", ""), "a{}");
        assert_eq!(series("a", "x=\"1\"", " y=\"2\" "), "a{x=\"1\",y=\"2\"}");
    }
}
