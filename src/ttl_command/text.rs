//! The look for a person at a terminal.

use std::io::{self, Write};

use super::Look;
use crate::signal::ttl::{
    ALL_GROUP, DUE_WINDOWS, Estimate, GroupTtl, TTL_BOUNDS, TtlPicture, Wave,
};

/// Cells of the longest bar.
const BAR: f64 = 40.0;

/// Group names longer than this are cut.
const NAME: usize = 24;

pub(super) fn write(look: &Look, out: &mut dyn Write) -> io::Result<()> {
    let picture = &look.picture;
    writeln!(out, "{}  {}", look.server, look.software)?;
    if picture.keys == 0.0 {
        return writeln!(out, "No keys: nothing expires.");
    }
    summary(look, out)?;
    writeln!(out)?;
    histogram(picture, out)?;
    writeln!(out)?;
    if picture.groups.len() > 1 {
        groups(picture, out)?;
        writeln!(out)?;
    }
    due(picture, out)?;
    writeln!(out)?;
    waves(picture, out)
}

fn summary(look: &Look, out: &mut dyn Write) -> io::Result<()> {
    let picture = &look.picture;
    let with = picture.keys - picture.without_ttl;
    writeln!(
        out,
        "{} keys: {} with a TTL, {} without ({})",
        count(picture.keys),
        count(with),
        count(picture.without_ttl),
        percent(picture.without_ttl / picture.keys),
    )?;
    let extent = if picture.rounds.complete > 0 {
        "every key was asked".to_owned()
    } else {
        format!("{} of all keys", percent(picture.sample_keys as f64 / picture.keys))
    };
    let cut = if look.interrupted { ", interrupted" } else { "" };
    writeln!(
        out,
        "Sample: {} keys in {:.1} s, {extent}{cut}",
        count(picture.sample_keys as f64),
        look.seconds,
    )?;
    if let Some(held) = picture.held.filter(|held| held.low >= 1.0) {
        writeln!(out, "Past their deadline and still held: {} keys", with_interval(held))?;
    }
    if picture.odd_keys > 0 {
        writeln!(out, "{} keys could not be asked", count(picture.odd_keys as f64))?;
    }
    Ok(())
}

fn histogram(picture: &TtlPicture, out: &mut dyn Write) -> io::Result<()> {
    let mut rows: Vec<(String, f64)> = Vec::new();
    let mut from = 0.0;
    for (place, bound) in TTL_BOUNDS.iter().map(Some).chain([None]).enumerate() {
        let keys = |g: &GroupTtl| g.buckets.get(place).copied().unwrap_or(0.0);
        let label = match bound {
            Some(bound) => format!("{} - {}", span(from), span(*bound)),
            None => format!("over {}", span(from)),
        };
        rows.push((label, picture.groups.iter().map(keys).sum()));
        from = bound.copied().unwrap_or(from);
    }
    // Nothing is lost by leaving out what is empty before the first and after the last.
    while rows.last().is_some_and(|(_, keys)| *keys < 0.5) {
        rows.pop();
    }
    let first = rows.iter().position(|(_, keys)| *keys >= 0.5).unwrap_or(0);
    let mut rows = rows.split_off(first);
    rows.push(("no TTL".to_owned(), picture.without_ttl));
    let highest = rows.iter().map(|(_, keys)| *keys).fold(0.0, f64::max);
    writeln!(out, "{:<14} {:>12}", "Time left", "keys")?;
    for (label, keys) in rows {
        let share = percent(keys / picture.keys);
        writeln!(out, "{label:<14} {:>12} {share:>7} {}", count(keys), bar(keys / highest))?;
    }
    Ok(())
}

fn groups(picture: &TtlPicture, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<NAME$} {:>12} {:>12} {:>10} {:>12} {:>9} {:>9}",
        "Group", "with TTL", "no TTL", "due in 60s", "peak keys/s", "in", "peak/mean"
    )?;
    for group in &picture.groups {
        let name: String = group.name.chars().take(NAME).collect();
        let forecast = group.forecast;
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        writeln!(
            out,
            "{name:<NAME$} {:>12} {:>12} {:>10} {:>12} {:>9} {:>9}",
            count(group.buckets.iter().sum()),
            count(group.without_ttl),
            count(group.due.get(2).copied().unwrap_or(0.0)),
            or_dash(forecast.peak_keys_per_second.map(count)),
            or_dash(forecast.peak_in.map(span)),
            or_dash(forecast.clustering_ratio.map(|ratio| format!("{ratio:.1}"))),
        )?;
    }
    Ok(())
}

fn due(picture: &TtlPicture, out: &mut dyn Write) -> io::Result<()> {
    for ((window, _), estimate) in DUE_WINDOWS.iter().zip(picture.due) {
        writeln!(out, "Due within {:>4}: {}", span(*window), with_interval(estimate))?;
    }
    Ok(())
}

fn waves(picture: &TtlPicture, out: &mut dyn Write) -> io::Result<()> {
    if picture.waves.is_empty() {
        writeln!(out, "No expiry wave ahead.")?;
    } else {
        writeln!(out, "Expiry waves ahead:")?;
    }
    for wave in &picture.waves {
        writeln!(out, "  {}", sentence(wave, picture.time))?;
    }
    match picture.smallest_wave {
        Some(keys) => {
            let keys = count(keys);
            writeln!(out, "A wave of {keys} keys in one second would be seen in 9 of 10 looks.")
        }
        None => Ok(()),
    }
}

fn sentence(wave: &Wave, now: f64) -> String {
    let whose = match &*wave.group {
        ALL_GROUP => "of all groups together".to_owned(),
        group => format!("of {group} ({} of it)", percent(wave.group_share)),
    };
    let lookups = match wave.lookup_share {
        Some(share) => format!("; {} of the lookups", percent(share.value)),
        None => String::new(),
    };
    format!(
        "in {} (at {} UTC, within {}): {} keys {whose}{lookups}",
        span((wave.start - now).max(0.0)),
        time_of_day(wave.start),
        span((wave.end - wave.start).max(1.0)),
        with_interval(wave.keys),
    )
}

fn with_interval(estimate: Estimate) -> String {
    if estimate.high - estimate.low < 1.0 {
        return count(estimate.value);
    }
    format!("{} ({} to {})", count(estimate.value), count(estimate.low), count(estimate.high))
}

/// A number of keys, whole, in groups of three digits.
pub(super) fn count(keys: f64) -> String {
    let digits = format!("{:.0}", keys.max(0.0));
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.1 { "<0.1 %".to_owned() } else { format!("{percent:.1} %") }
}

/// A length of time in its two largest units.
fn span(seconds: f64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let whole = seconds.round() as u64;
    let mut parts = Vec::new();
    let mut rest = whole;
    for (size, unit) in UNITS {
        if rest >= size && parts.len() < 2 {
            parts.push(format!("{}{unit}", rest / size));
            rest %= size;
        } else if !parts.is_empty() {
            break;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

fn time_of_day(unix: f64) -> String {
    let second = unix.max(0.0) as u64 % 86_400;
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if share.is_nan() || share <= 0.0 {
        return String::new();
    }
    let eighths = (share.min(1.0) * BAR * 8.0).ceil() as usize;
    let rest = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    "█".repeat(eighths / 8) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(
            [0.0, 999.4, 1000.0, 1_234_567.0].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [0.0, 59.0, 60.0, 90.0, 3605.0, 86_400.0, 93_600.0].map(span),
            ["0s", "59s", "1m", "1m 30s", "1h", "1d", "1d 2h"]
        );
        assert_eq!([0.0, 0.0004, 0.5].map(percent), ["0.0 %", "<0.1 %", "50.0 %"]);
        assert_eq!([0.0, 0.5, 1.0].map(|s| bar(s).chars().count()), [0, 20, 40]);
        assert_eq!(time_of_day(1_700_000_000.0), "22:13:20");
    }
}
