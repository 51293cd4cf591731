//! Tells the result: tables for a person, or JSON lines.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use super::comparison::{Beside, Comparison};
use super::replay::{Replayed, Summary};
use super::variants::Outcome;
use super::{BacktestError, Format};
use crate::detect::Thresholds;
use crate::detect::thresholds::Unit;

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// The result as it is written.
pub(super) struct Report<'a> {
    out: &'a mut dyn Write,
    format: Format,
    incidents: u64,
}

/// One incident on a line of JSON.
#[derive(Serialize)]
struct IncidentLine {
    start: f64,
    end: Option<f64>,
    cause: &'static str,
    excess_misses: f64,
    peak_misses_per_second: f64,
    baseline_misses_per_second: f64,
}

/// The last line of JSON.
#[derive(Serialize)]
struct SummaryLine {
    summary: SummaryFields,
}

#[derive(Serialize)]
struct SummaryFields {
    rows: u64,
    seconds: f64,
    incidents: u64,
}

impl<'a> Report<'a> {
    pub(super) fn new(out: &'a mut dyn Write, format: Format) -> Report<'a> {
        Report { out, format, incidents: 0 }
    }

    /// Writes an incident, for a person with what the usual rule made of it.
    pub(super) fn incident(
        &mut self,
        replayed: &Replayed,
        comparison: Option<&mut Comparison>,
    ) -> Result<(), BacktestError> {
        self.incidents += 1;
        let written = match self.format {
            Format::Text => {
                let start = replayed.incident.started_at;
                let usual = comparison.and_then(|comparison| comparison.of_incident(start));
                self.row(replayed, usual)
            }
            Format::Json => self.json_incident(replayed),
        };
        written.and_then(|()| self.out.flush()).map_err(BacktestError::Output)
    }

    /// Writes what sums it up.
    pub(super) fn finish(
        mut self,
        summary: &Summary,
        beside: Beside,
        variants: Vec<Outcome>,
    ) -> Result<(), BacktestError> {
        let written = match self.format {
            Format::Text => self
                .summary(summary)
                .and_then(|()| self.beside(summary, &beside))
                .and_then(|()| self.variants(summary, &variants)),
            Format::Json => {
                let fields = SummaryFields {
                    rows: summary.rows,
                    seconds: summary.seconds(),
                    incidents: summary.incidents,
                };
                self.json_line(&SummaryLine { summary: fields })
            }
        };
        written.and_then(|()| self.out.flush()).map_err(BacktestError::Output)
    }

    fn json_incident(&mut self, replayed: &Replayed) -> io::Result<()> {
        let incident = &replayed.incident;
        self.json_line(&IncidentLine {
            start: incident.started_at,
            end: incident.ended_at,
            cause: incident.cause.as_str(),
            excess_misses: incident.excess_misses,
            peak_misses_per_second: incident.peak_misses_per_second,
            baseline_misses_per_second: incident.baseline_misses_per_second,
        })
    }

    fn json_line(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut *self.out, line)?;
        writeln!(self.out)
    }

    fn row(&mut self, replayed: &Replayed, usual: Option<f64>) -> io::Result<()> {
        if self.incidents == 1 {
            writeln!(
                self.out,
                "{:<20}  {:>9}  {:<19}  {:>12}  {:>12}  {:>12}  {:>6}  {:<15}  usual rule",
                "start (UTC)",
                "lasted",
                "cause",
                "misses/s",
                "usual/s",
                "excess",
                "score",
                "rests on",
            )?;
        }
        let incident = &replayed.incident;
        let lasted =
            incident.ended_at.map_or("runs on".to_owned(), |end| span(end - incident.started_at));
        writeln!(
            self.out,
            "{:<20}  {:>9}  {:<19}  {:>12}  {:>12}  {:>12}  {:>6.1}  {:<15}  {}",
            date(incident.started_at),
            lasted,
            incident.cause.as_str(),
            number(incident.peak_misses_per_second),
            number(incident.baseline_misses_per_second),
            number(incident.excess_misses),
            replayed.peak_score,
            if replayed.corroborated { "misses and more" } else { "misses alone" },
            match usual {
                None => "silent".to_owned(),
                Some(after) if after < 0.0 => format!("{} before", span(-after)),
                Some(after) => format!("{} later", span(after)),
            },
        )
    }

    fn summary(&mut self, summary: &Summary) -> io::Result<()> {
        if summary.rows == 0 {
            return writeln!(self.out, "The history has no rows.");
        }
        let blank = if self.incidents > 0 { "\n" } else { "" };
        let (first, last) = (date(summary.first), date(summary.last));
        let length = span(summary.seconds());
        writeln!(self.out, "{blank}{} rows, {length} from {first} to {last}", summary.rows)?;
        let Some(weakest) = summary.weakest else {
            return writeln!(self.out, "No stampede.");
        };
        let days = summary.seconds() / DAY;
        let share = 100.0 * summary.incident_seconds / summary.seconds().max(f64::MIN_POSITIVE);
        let plural = if summary.incidents == 1 { "" } else { "s" };
        // A rate a day from less than a day is no figure to remember.
        let daily = if days >= 1.0 {
            format!(" ({:.2} a day)", summary.incidents as f64 / days)
        } else {
            String::new()
        };
        writeln!(
            self.out,
            "{} incident{plural}{daily}, {} in all ({share:.2} % of the time), {} misses beyond the usual",
            summary.incidents,
            span(summary.incident_seconds),
            number(summary.excess_misses),
        )?;
        writeln!(self.out, "\nCould any of them be false alarms?")?;
        writeln!(
            self.out,
            "  {} of {} rest on the misses alone: no lock, load, latency, expiry, eviction or error\n  \
             stream moved with them, or the history has none. Look at those first.",
            summary.uncorroborated, summary.incidents
        )?;
        writeln!(
            self.out,
            "  The weakest reached {weakest:.1} times the line; chance alone reaches the line about once in\n  \
             a month of calm."
        )
    }

    fn beside(&mut self, summary: &Summary, beside: &Beside) -> io::Result<()> {
        if summary.rows == 0 {
            return Ok(());
        }
        let all = beside.with_ours + beside.alone;
        writeln!(
            self.out,
            "\nWhat the usual rule would have said (the misses of a minute over twice their hourly\n\
             average, for 30 s: `CacheStampedeDetected`)"
        )?;
        let count = if all == 1 { "once".to_owned() } else { format!("{all} times") };
        writeln!(
            self.out,
            "  It fired {count}: {} with an incident above, {} without. Of {} above it was silent on {}.",
            beside.with_ours, beside.alone, summary.incidents, beside.silent
        )?;
        if beside.told.is_empty() {
            return Ok(());
        }
        writeln!(
            self.out,
            "  {:<20}  {:>9}  {:>12}  {:>12}",
            "alone at (UTC)", "lasted", "misses/s", "average/s"
        )?;
        for (alarm, end) in &beside.told {
            writeln!(
                self.out,
                "  {:<20}  {:>9}  {:>12}  {:>12}",
                date(alarm.start),
                span(end - alarm.start),
                number(alarm.misses_per_second),
                number(alarm.average)
            )?;
        }
        let more = beside.alone - beside.told.len() as u64;
        if more > 0 { writeln!(self.out, "  and {more} more") } else { Ok(()) }
    }

    fn variants(&mut self, summary: &Summary, variants: &[Outcome]) -> io::Result<()> {
        if summary.rows == 0 || variants.is_empty() {
            return Ok(());
        }
        writeln!(
            self.out,
            "\nWhat another threshold would have made of it (one key below `detector:` moved at a time)"
        )?;
        writeln!(
            self.out,
            "  {:<22}  {:>12}  {:>9}  {:>12}",
            "key", "value", "incidents", "time in them"
        )?;
        let incident_seconds = summary.incident_seconds;
        writeln!(
            self.out,
            "  {:<22}  {:>12}  {:>9}  {:>12}",
            "(as it is)",
            "",
            summary.incidents,
            span(incident_seconds)
        )?;
        for outcome in variants {
            let seconds =
                Thresholds::key(outcome.variant.key).is_some_and(|key| key.unit == Unit::Seconds);
            let value = outcome.variant.value;
            let value = if seconds { span(value) } else { value.to_string() };
            let time = span(outcome.incident_seconds);
            writeln!(
                self.out,
                "  {:<22}  {value:>12}  {:>9}  {time:>12}",
                outcome.variant.key, outcome.incidents
            )?;
        }
        Ok(())
    }
}

/// A time for people, UTC; the number itself where it is no date.
pub(super) fn date(unix: f64) -> String {
    // RFC 3339 has years of four digits.
    const LAST_DATE: f64 = 253_402_300_799.0;
    if !(0.0..=LAST_DATE).contains(&unix) {
        return unix.to_string();
    }
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs_f64(unix)).to_string()
}

/// A length of time in its two largest units.
fn span(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{seconds:.1}s"),
        60..3600 => format!("{}m {:02}s", whole / 60, whole % 60),
        3600..86_400 => format!("{}h {:02}m", whole / 3600, whole / 60 % 60),
        _ => format!("{}d {:02}h", whole / 86_400, whole / 3600 % 24),
    }
}

/// A count or rate with as many digits as tell something.
fn number(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_for_people() {
        assert_eq!(date(1_700_000_000.9), "2023-11-14T22:13:20Z");
        assert_eq!(date(-1.0), "-1");
        assert_eq!(
            [0.25, 59.4, 61.0, 3660.0, 90_000.0].map(span),
            ["0.2s", "59.4s", "1m 01s", "1h 01m", "1d 01h"]
        );
        assert_eq!([0.04, 12.34, 1234.5].map(number), ["0.0", "12.3", "1234"]);
    }
}
