//! Readings from what a Prometheus-compatible server has stored, over `query_range`.
//!
//! A counter's query may give several series, one a server or an application: each is followed by
//! itself, so that one that restarts or was not scraped for a while is neither a fall nor a burst of
//! the sum.

mod client;

use std::collections::{BTreeMap, HashMap};

pub use client::{Limits, PrometheusError};

use self::client::{Client, Grid, Series};
use crate::config::PrometheusConfig;
use crate::reading::Reading;
use crate::trace::{Column, RowLookups, take};

/// Readings asked for at once. Prometheus refuses more than 11 000 points a series.
const POINTS: usize = 10_000;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Questions {
    /// Unix seconds of the first reading.
    pub start: f64,
    /// Unix seconds of the last reading.
    pub end: f64,
    /// Seconds between readings; above 0.
    pub step: f64,
    /// Queries by the column that they fill.
    pub columns: Vec<(Column, String)>,
    /// The newest value's time of scrape: points between two scrapes repeat the one before, and are
    /// left out.
    pub scraped: Option<String>,
}

/// Reads history, some thousand readings at a time.
pub struct PrometheusReader {
    client: Client,
    questions: Questions,
    /// Readings asked for so far.
    asked: usize,
    counters: HashMap<Column, Added>,
    last_time: f64,
}

/// A counter added up over its series.
#[derive(Default)]
struct Added {
    total: f64,
    before: HashMap<usize, f64>,
    /// Each series' number, by its labels.
    known: HashMap<BTreeMap<String, String>, usize>,
}

/// One query's values: for each point, the number of the series and its value.
type Points = Vec<Vec<(usize, f64)>>;

impl PrometheusReader {
    /// A reader that has asked nothing yet.
    ///
    /// # Errors
    /// When the server's address or password, or the system's TLS, is of no use.
    pub fn open(
        server: &PrometheusConfig,
        limits: Limits,
        questions: Questions,
    ) -> Result<PrometheusReader, PrometheusError> {
        Ok(PrometheusReader {
            client: Client::new(server, limits)?,
            questions,
            asked: 0,
            counters: HashMap::new(),
            last_time: f64::NEG_INFINITY,
        })
    }

    /// The next readings, which may be none where nothing was scraped; `None` at the end.
    ///
    /// # Errors
    /// When the server does not answer, or not as a Prometheus does.
    pub async fn next(&mut self) -> Result<Option<Vec<Reading>>, PrometheusError> {
        let Questions { start, end, step, .. } = self.questions;
        let steps = ((end - start) / step).floor() as usize;
        // The first reading is before the first step.
        let left = steps.saturating_add(1).saturating_sub(self.asked);
        if left == 0 {
            return Ok(None);
        }
        let count = POINTS.min(left);
        let start = start + self.asked as f64 * step;
        let readings = self.ask(Grid { start, step, count }).await?;
        self.asked += count;
        Ok(Some(readings))
    }

    /// Asks every query for the next points and makes readings of them.
    async fn ask(&mut self, grid: Grid) -> Result<Vec<Reading>, PrometheusError> {
        let time = |point: usize| grid.start + point as f64 * grid.step;
        let mut rows: Vec<(Reading, RowLookups)> = (0..grid.count)
            .map(|point| (Reading { time: time(point), ..Reading::default() }, <_>::default()))
            .collect();
        for (column, query) in &self.questions.columns {
            let series = self.client.ask(query, grid).await?;
            let added = self.counters.entry(*column).or_default();
            for ((reading, lookups), values) in rows.iter_mut().zip(points(added, series, grid)) {
                if let Some(value) = value(*column, added, &values) {
                    take(*column, value, reading, lookups);
                }
            }
        }
        if let Some(query) = &self.questions.scraped {
            let series = self.client.ask(query, grid).await?;
            let points = points(&mut Added::default(), series, grid);
            for ((reading, _), values) in rows.iter_mut().zip(points) {
                if let Some((_, time)) = values.first() {
                    reading.time = *time;
                }
            }
        }
        let apart = self.questions.columns.iter().any(|(column, _)| *column == Column::RedisHits);
        let mut readings = Vec::with_capacity(rows.len());
        for (mut reading, lookups) in rows {
            lookups.fill(&mut reading, apart);
            if reading.time > self.last_time {
                self.last_time = reading.time;
                readings.push(reading);
            }
        }
        Ok(readings)
    }
}

/// Sorts the values of a query by point; numbers series as [`Added`] knows them.
fn points(added: &mut Added, series: Vec<Series>, grid: Grid) -> Points {
    let mut points: Points = vec![Vec::new(); grid.count];
    for series in series {
        let next = added.known.len();
        let number = *added.known.entry(series.metric).or_insert(next);
        for (time, value) in series.values {
            let index = ((time - grid.start) / grid.step).round();
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

/// What one point of a column says, over all its series.
fn value(column: Column, added: &mut Added, values: &[(usize, f64)]) -> Option<f64> {
    let all = values.iter().map(|(_, value)| *value);
    match column {
        Column::Time => None,
        Column::Keys => all.reduce(|a, b| a + b),
        Column::Uptime => all.reduce(f64::min),
        // One server that does not answer is enough.
        Column::Up => all.reduce(f64::min).map(|up| if up >= 1.0 { 1.0 } else { 0.0 }),
        Column::LatencyP50 | Column::LatencyP99 | Column::DueRatio | Column::HotKeyShare => {
            all.reduce(f64::max)
        }
        Column::Hits
        | Column::Misses
        | Column::Expired
        | Column::Evicted
        | Column::Errors
        | Column::NotFound
        | Column::Loads
        | Column::Coalesced
        | Column::LockAcquired
        | Column::LockFailed
        | Column::Flushes
        | Column::RedisHits
        | Column::RedisMisses => added.add(values),
    }
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
}
