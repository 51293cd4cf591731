//! Figures and states as people say them.

use crate::detect::Cause;
use crate::serve::state::State;

/// The state in a banner or a chip.
pub(super) fn of_state(state: State) -> &'static str {
    match state {
        State::Stampede => "STAMPEDE",
        State::Down => "NO ANSWER",
        State::Partial => "PARTLY BLIND",
        State::Waiting => "WAITING",
        State::Learning => "LEARNING",
        State::Calm => "OK",
    }
}

/// What a cause means, in a line.
pub(super) fn of_cause(cause: Cause) -> &'static str {
    match cause {
        Cause::HotKey => "One popular entry ran out and everyone recomputes it",
        Cause::SynchronizedExpiry => "Many entries with the same deadline ran out together",
        Cause::ColdStart => "The cache is empty: restart, failover, flush or a lost shard",
        Cause::Invalidation => "Many live entries were deleted at once",
        Cause::Eviction => "The memory limit pushes live entries out",
        Cause::Penetration => "Keys are asked for that exist nowhere",
        Cause::Avalanche => "The cache itself fails and requests fall through",
        Cause::Unknown => "The evidence names no single cause",
    }
}

/// A count or rate with three figures at least and thousands set apart: `4,600`, `12.5`, `0.93`.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".to_owned();
    }
    if size >= 100.0 || value == 0.0 {
        return thousands(value);
    }
    if size < 0.001 {
        return format!("{value:.1e}");
    }
    let decimals = if size >= 10.0 { 1 } else { 2 };
    let decimals = if size < 0.1 { 4 } else { decimals };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A score, of which 1 is the line: what is far below it is nothing.
pub(super) fn score(value: f64) -> String {
    if value < 0.005 { "0".to_owned() } else { number(value) }
}

/// So many keys.
pub(super) fn keys(count: f64) -> String {
    let count = count.round();
    format!("{} {}", number(count), if count == 1.0 { "key" } else { "keys" })
}

/// A ratio in percent with one decimal: `97.3 %`.
pub(super) fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

/// Seconds with a unit that fits: `25 ms`, `3.1 s`.
pub(super) fn latency(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{} ms", number(seconds * 1000.0))
    } else {
        format!("{} s", number(seconds))
    }
}

/// A figure of the evidence: what it is and how much.
pub(super) fn evidence(name: &str, value: f64) -> (String, String) {
    let label = match name {
        "baseline_miss_ratio" => "normal miss ratio",
        "window_seconds" => "measured over",
        "hot_key_share" => "misses on the top key",
        "keys_lost_share" => "keys lost",
        "due_ratio" => "keys due against the mean",
        "tail_ratio" => "load p99 against p50",
        "not_found" => "loads that found nothing",
        "lock_failed" => "locks refused",
        "lock_acquired" => "locks acquired",
        _ => return (name.replace('_', " "), quantity(name, value)),
    };
    (label.to_owned(), quantity(name, value))
}

fn quantity(name: &str, value: f64) -> String {
    match name {
        "window_seconds" => latency(value),
        "due_ratio" | "tail_ratio" => format!("{} times", number(value)),
        "restarted" => "yes".to_owned(),
        _ if name.ends_with("_ratio") || name.ends_with("_share") => percent(value),
        _ => number(value),
    }
}

/// What is unknown.
pub(super) const UNKNOWN: &str = "–";

/// A figure, or the sign for an unknown one.
pub(super) fn maybe(value: Option<f64>, form: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), form)
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if value < 0.0 { format!("-{grouped}") } else { grouped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_figures_that_matter() {
        for (value, expected) in [
            (0.0, "0"),
            (0.93, "0.93"),
            (0.0123, "0.0123"),
            (1e-9, "1.0e-9"),
            (1.0, "1"),
            (12.54, "12.5"),
            (999.6, "1,000"),
            (1_234_567.0, "1,234,567"),
            (-4600.0, "-4,600"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn ratios_and_latencies_have_units() {
        assert_eq!(percent(0.9725), "97.2 %");
        assert_eq!(latency(0.025), "25 ms");
        assert_eq!(latency(3.1), "3.1 s");
        assert_eq!(maybe(None, percent), "–");
        let of = |name, value| {
            let (label, quantity) = evidence(name, value);
            format!("{label}: {quantity}")
        };
        assert_eq!(of("hot_key_share", 0.93), "misses on the top key: 93.0 %");
        assert_eq!(of("due_ratio", 7.878), "keys due against the mean: 7.88 times");
        assert_eq!(of("misses_per_expiry", 120.0), "misses per expiry: 120");
    }
}
