//! What a Prometheus that scrapes this exporter has stored of a cache, learned from at the start, so
//! that the first start on a new machine is not blind until it has warmed up.
//!
//! It is the exporter's own counters that are asked for, without the times in which it saw a
//! stampede. Watching does not wait for the answer.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::config::PrometheusConfig;
use crate::detect::{Detector, State, Thresholds};
use crate::one_line::one_line;
use crate::signal::sample::Samples;
use crate::source::prometheus::{Limits, PrometheusError, PrometheusReader, Questions};
use crate::trace::Column;

/// How far back it asks, seconds: what is older says little, as of a saved state.
const BACK: f64 = 3600.0;

/// Seconds between two points, the interval at which the exporter is meant to be scraped.
const STEP: f64 = 5.0;

/// Each answer must be there by then, and takes some hundred kilobytes for a few servers and
/// applications.
const LIMITS: Limits = Limits { time: Duration::from_secs(10), bytes: 4 * 1024 * 1024 };

/// Seconds after which it does not ask once more: a Prometheus that starts together with the exporter
/// needs a while.
const LAST_TRY: f64 = 20.0;

/// The pause before it asks again a server that gave no answer.
const PAUSE: Duration = Duration::from_secs(2);

/// A look at the history of one cache, under way.
#[derive(Debug)]
pub struct WarmStart {
    /// At most one; it ends with this.
    look: JoinSet<Option<State>>,
}

impl WarmStart {
    /// Begins to ask. That nothing came of it is said in the log.
    pub fn begin(
        server: PrometheusConfig,
        cache: String,
        thresholds: Thresholds,
        clock: Clock,
    ) -> WarmStart {
        let mut look = JoinSet::new();
        look.spawn(async move {
            let begun = clock.now();
            loop {
                let found = learn(&server, &cache, &thresholds, clock.now()).await;
                let url = &server.url;
                match found {
                    Ok(Some(state)) => return Some(state),
                    Ok(None) => info!(%cache, %url, "Prometheus has nothing to learn from yet"),
                    Err(error) if error.is_passing() && clock.now() - begun < LAST_TRY => {
                        sleep(PAUSE).await;
                        continue;
                    }
                    Err(error) => warn!(%cache, %url, "no warm start: {}", one_line(&error)),
                }
                return None;
            }
        });
        WarmStart { look }
    }

    /// What was learned, once, when it is there.
    pub fn learned(&mut self) -> Option<State> {
        self.look.try_join_next()?.ok()?
    }
}

/// Learns from the history of a cache up to `now`, Unix seconds; `None` where there is none.
async fn learn(
    server: &PrometheusConfig,
    cache: &str,
    thresholds: &Thresholds,
    now: f64,
) -> Result<Option<State>, PrometheusError> {
    let mut reader = PrometheusReader::open(server, LIMITS, questions(cache, now))?;
    let (mut samples, mut detector) = (Samples::default(), Detector::new(thresholds.clone()));
    while let Some(readings) = reader.next().await? {
        for reading in readings {
            if let Some(sample) = samples.next(&reading) {
                detector.observe(&sample);
            }
        }
    }
    let state = detector.state();
    let learned = state.baselines.redis.or(state.baselines.app).is_some();
    Ok(learned.then_some(state))
}

/// Our own counters of a cache, without what they counted in a stampede. A name is unique in one
/// Prometheus, so it is all that is needed to find them.
fn questions(cache: &str, now: f64) -> Questions {
    // PromQL's quotes are as JSON's.
    let selector = format!("{{cache={}}}", serde_json::Value::from(cache));
    let calm =
        |name: &str| format!("{name}{selector} unless on (cache) (stampede_active{selector} == 1)");
    let columns = [
        (Column::RedisHits, "stampede_redis_keyspace_hits_total"),
        (Column::RedisMisses, "stampede_redis_keyspace_misses_total"),
        (Column::Hits, "stampede_app_hits_total"),
        (Column::Misses, "stampede_app_misses_total"),
    ];
    Questions {
        start: now - BACK,
        end: now,
        step: STEP,
        columns: columns.map(|(column, name)| (column, calm(name))).into(),
        scraped: Some(format!("max(timestamp(stampede_redis_keyspace_hits_total{selector}))")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_quotes_stays_one_text() {
        let questions = questions(r#"a"b\c"#, 7200.0);
        assert_eq!((questions.start, questions.end), (3600.0, 7200.0));
        let (column, query) = &questions.columns[1];
        assert_eq!(*column, Column::RedisMisses);
        assert_eq!(
            query,
            r#"stampede_redis_keyspace_misses_total{cache="a\"b\\c"} unless on (cache) (stampede_active{cache="a\"b\\c"} == 1)"#
        );
    }
}
