//! The metric page: a pure function of what hangs on the board, from one table of [`rows`].
//!
//! Nothing is ever incremented here. Each page is built anew, so that a series that is undefined
//! now is simply not there, and a family without series leaves no trace.

pub(super) mod process;
mod rows;

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};
use prometheus::{Encoder, TextEncoder};

use crate::board::View;
use crate::reading::Source;
use crate::signal::ttl::{Estimate, TtlPicture};
use crate::snapshot::{AppState, NodeState, Snapshot};

/// The content type of the page, whatever the client asked for: Prometheus reads this form too
/// when it would rather have OpenMetrics or protobuf.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Which build is running, for `stampede_build_info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Build<'a> {
    /// The package's version.
    pub version: &'a str,
    /// The commit it was built from, or `unknown`.
    pub revision: &'a str,
}

impl Build<'static> {
    /// The running one. The revision comes from `STAMPEDE_REVISION` at build time.
    pub fn this() -> Build<'static> {
        Build {
            version: env!("CARGO_PKG_VERSION"),
            revision: option_env!("STAMPEDE_REVISION").unwrap_or("unknown"),
        }
    }
}

/// The page in the Prometheus text format 0.0.4, of all caches of the view.
pub fn render(view: &View, build: &Build<'_>) -> String {
    let mut page = String::new();
    for row in rows::ROWS {
        let mut series = Series::new(row.labels, row.kind);
        if let Origin::View(fill) = row.from {
            fill(view, build, &mut series);
        }
        for cache in &view.caches {
            fill_from_cache(row.from, cache, &mut series);
        }
        write_family(&mut page, row.name, row.help, row.kind, series.metrics);
    }
    page
}

/// One metric: everything there is to say about it.
struct Row {
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
    from: Origin,
}

/// What a metric is, as the `TYPE` line says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
    /// A gauge that must not say so: `promtool check metrics` objects to a `quantile` label on a
    /// gauge. It has no objection without a type, and PromQL does not look at the type.
    Untyped,
}

/// Where a metric's series come from, and with that which labels they begin with. What rests on a
/// target that is down is left out by the variant, so that no row can forget it.
#[derive(Clone, Copy)]
enum Origin {
    /// The page as a whole.
    View(fn(&View, &Build<'_>, &mut Series<'_>)),
    /// A cache, whatever its targets do.
    Cache(fn(&Snapshot, &mut Series<'_>)),
    /// A cache while one of its servers answers.
    Servers(fn(&Snapshot, &mut Series<'_>)),
    /// A cache while one of its applications answers.
    Apps(fn(&Snapshot, &mut Series<'_>)),
    /// Each server, up or down; adds the node.
    Node(fn(&NodeState, &mut Series<'_>)),
    /// Each application, up or down; adds its name.
    App(fn(&AppState, &mut Series<'_>)),
    /// Each source of counts that answers; adds its name.
    Source(fn(&Snapshot, Source, &mut Series<'_>)),
    /// What expires when, while one of the servers answers.
    Ttl(fn(&TtlPicture, &mut Series<'_>)),
}

fn fill_from_cache<'a>(from: Origin, cache: &'a Snapshot, series: &mut Series<'a>) {
    series.begin(&[&cache.cache]);
    match from {
        Origin::View(_) => {}
        Origin::Cache(fill) => fill(cache, series),
        Origin::Servers(fill) if cache.answers(Source::Redis) => fill(cache, series),
        Origin::Apps(fill) if cache.answers(Source::App) => fill(cache, series),
        Origin::Ttl(fill) => {
            if let Some(ttl) = cache.current_ttl() {
                fill(ttl, series);
            }
        }
        Origin::Servers(_) | Origin::Apps(_) => {}
        Origin::Node(fill) => {
            for node in &cache.nodes {
                series.begin(&[&cache.cache, &node.node]);
                fill(node, series);
            }
        }
        Origin::App(fill) => {
            for app in &cache.apps {
                series.begin(&[&cache.cache, &app.app]);
                fill(app, series);
            }
        }
        Origin::Source(fill) => {
            for source in Source::ALL.into_iter().filter(|source| cache.answers(*source)) {
                series.begin(&[&cache.cache, source.as_str()]);
                fill(cache, source, series);
            }
        }
    }
}

/// The series of one metric while they are collected.
struct Series<'a> {
    names: &'static [&'static str],
    kind: Kind,
    /// The values of the first labels, the same for all series of one target.
    target: Vec<&'a str>,
    metrics: Vec<Metric>,
}

impl<'a> Series<'a> {
    fn new(names: &'static [&'static str], kind: Kind) -> Series<'a> {
        Series { names, kind, target: Vec::new(), metrics: Vec::new() }
    }

    /// From here on the series belong to this target.
    fn begin(&mut self, target: &[&'a str]) {
        self.target.clear();
        self.target.extend_from_slice(target);
    }

    /// Adds a series with these values of the labels after the target's. What is undefined or not
    /// a number is left out.
    fn add(&mut self, values: &[&str], value: Option<f64>) {
        let Some(value) = value.filter(|v| v.is_finite()) else { return };
        let mut metric = Metric::from_label(self.labels(values));
        if self.kind == Kind::Counter {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.metrics.push(metric);
    }

    /// Adds an estimate and its interval, told apart by the last label.
    fn add_estimate(&mut self, estimate: Estimate) {
        self.add(&["low"], Some(estimate.low));
        self.add(&["estimate"], Some(estimate.value));
        self.add(&["high"], Some(estimate.high));
    }

    /// Adds a histogram: `counts` has one count a bound, not added up, then those above the last.
    fn add_histogram(
        &mut self,
        values: &[&str],
        bounds: &[f64],
        counts: impl Iterator<Item = f64>,
        sum: f64,
    ) {
        let mut total = 0.0;
        let mut running = counts.map(|count| {
            total += count;
            total.round() as u64
        });
        let mut buckets = Vec::with_capacity(bounds.len());
        for (bound, count) in bounds.iter().zip(running.by_ref()) {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(count);
            buckets.push(bucket);
        }
        let below = buckets.last().map_or(0, Bucket::cumulative_count);
        let mut histogram = Histogram::default();
        histogram.set_sample_count(running.last().unwrap_or(below));
        histogram.set_sample_sum(sum);
        histogram.set_bucket(buckets);
        let mut metric = Metric::from_label(self.labels(values));
        metric.set_histogram(histogram);
        self.metrics.push(metric);
    }

    fn labels(&self, values: &[&str]) -> Vec<LabelPair> {
        debug_assert_eq!(self.names.len(), self.target.len() + values.len(), "{:?}", self.names);
        let pair = |(name, value): (&&str, &&str)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        };
        self.names.iter().zip(self.target.iter().chain(values)).map(pair).collect()
    }
}

/// Appends a family to the page; one without series adds nothing.
fn write_family(page: &mut String, name: &str, help: &str, kind: Kind, metrics: Vec<Metric>) {
    if metrics.is_empty() {
        return;
    }
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(match kind {
        Kind::Counter => MetricType::COUNTER,
        Kind::Gauge | Kind::Untyped => MetricType::GAUGE,
        Kind::Histogram => MetricType::HISTOGRAM,
    });
    family.set_metric(metrics);
    let mut bytes = Vec::new();
    // A family with a name and series, written to memory, has no way to fail.
    if TextEncoder::new().encode(&[family], &mut bytes).is_err() {
        return;
    }
    let text = String::from_utf8_lossy(&bytes);
    if kind == Kind::Untyped {
        // The encoder has no form for it.
        let line = |kind| format!("# TYPE {name} {kind}\n");
        page.push_str(&text.replacen(&line("gauge"), &line("untyped"), 1));
    } else {
        page.push_str(&text);
    }
}
