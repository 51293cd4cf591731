//! A range of a Prometheus-compatible server's history, asked for as redis_exporter names things.

use std::collections::VecDeque;
use std::time::Duration;

use super::{BacktestError, Range};
use crate::config::PrometheusConfig;
use crate::reading::Reading;
use crate::source::prometheus::{Limits, PrometheusReader, Questions};
use crate::trace::Column;

/// One answer may have ten thousand points of a few hundred series. Servers give a query two
/// minutes unless told otherwise.
const LIMITS: Limits = Limits { time: Duration::from_secs(120), bytes: 64 * 1024 * 1024 };

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

/// Reads a range, reading by reading.
pub(super) struct RangeReader {
    runtime: tokio::runtime::Runtime,
    reader: PrometheusReader,
    queries: Vec<(Column, String)>,
    ready: VecDeque<Reading>,
    lookups_seen: bool,
}

impl RangeReader {
    pub(super) fn open(range: &Range) -> Result<RangeReader, BacktestError> {
        let questions = questions(range);
        let server = PrometheusConfig { url: range.url.clone(), username: None, password: None };
        Ok(RangeReader {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(BacktestError::Runtime)?,
            queries: questions.columns.clone(),
            reader: PrometheusReader::open(&server, LIMITS, questions)?,
            ready: VecDeque::new(),
            lookups_seen: false,
        })
    }

    /// What is asked, for a person.
    pub(super) fn notes(&self) -> Vec<String> {
        let column = |(column, query): &(Column, String)| format!("{}: {query}", column.as_str());
        self.queries.iter().map(column).collect()
    }

    pub(super) fn next(&mut self) -> Result<Option<Reading>, BacktestError> {
        while self.ready.is_empty() {
            let Some(readings) = self.runtime.block_on(self.reader.next())? else { break };
            self.ready.extend(readings);
        }
        match self.ready.pop_front() {
            Some(reading) => {
                self.lookups_seen |= reading.lookups.nearest().is_some();
                Ok(Some(reading))
            }
            None if self.lookups_seen => Ok(None),
            None => {
                let hits = self.queries.iter().find(|(column, _)| *column == Column::Hits);
                Err(BacktestError::Nothing(hits.map_or(String::new(), |(_, query)| query.clone())))
            }
        }
    }
}

fn questions(range: &Range) -> Questions {
    let replaced = |column| range.queries.iter().any(|(other, _)| *other == column);
    let defaults = DEFAULTS.iter().filter(|(column, ..)| !replaced(*column));
    let defaults =
        defaults.map(|(column, name, own)| (*column, series(name, own, &range.selector)));
    let given = range.queries.iter().filter(|(_, query)| !query.trim().is_empty()).cloned();
    let scraped = (!replaced(Column::Hits)).then(|| {
        format!("max(timestamp({}))", series("redis_keyspace_hits_total", "", &range.selector))
    });
    Questions {
        start: range.start,
        end: range.end,
        step: range.step,
        columns: defaults.chain(given).collect(),
        scraped,
    }
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
    fn selectors_are_joined() {
        assert_eq!(series("a", "", ""), "a{}");
        assert_eq!(series("a", "x=\"1\"", " y=\"2\" "), "a{x=\"1\",y=\"2\"}");
    }
}
