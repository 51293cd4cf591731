//! Unix seconds as people read them.

const DAY: f64 = 86_400.0;

/// The last second of the year 9999, where four digits for the year end.
const END_OF_FORMAT: f64 = 253_402_300_799.0;

/// `2026-11-30T12:00:00.250Z`: RFC 3339 in UTC with milliseconds. Times outside the years 1970 to
/// 9999 are moved to the nearer end.
pub(super) fn rfc3339(unix: f64) -> String {
    let millis = (clamped(unix) * 1000.0).round();
    let seconds = (millis / 1000.0).floor();
    let (year, month, day) = civil((seconds / DAY).floor() as i64);
    let (hour, minute, second) = clock_of_day(seconds);
    let milli = (millis - seconds * 1000.0) as u32;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// `11-30 12:00:00`: for a table whose head says UTC.
pub(super) fn short(unix: f64) -> String {
    let seconds = clamped(unix).floor();
    let (_, month, day) = civil((seconds / DAY).floor() as i64);
    let (hour, minute, second) = clock_of_day(seconds);
    format!("{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// `1 h 02 min`, `2 min 05 s`, `9 s`: the two largest units.
pub(super) fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, _) => format!("{minutes} min {:02} s", whole % 60),
        (0, _, _) => format!("{hours} h {minutes:02} min"),
        _ => format!("{days} d {hours:02} h"),
    }
}

fn clamped(unix: f64) -> f64 {
    if unix.is_nan() { 0.0 } else { unix.clamp(0.0, END_OF_FORMAT) }
}

fn clock_of_day(seconds: f64) -> (u32, u32, u32) {
    let of_day = seconds.rem_euclid(DAY) as u32;
    (of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// Year, month and day of a count of days since 1970-01-01, not negative.
///
/// Counts in 400-year eras of 146 097 days that begin on 1 March, so that the leap day is the last
/// of its year (the `civil_from_days` of Howard Hinnant's "chrono-Compatible Low-Level Date
/// Algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected values: `date -u -d @N +%FT%T`.
    #[test]
    fn dates_around_leap_days() {
        assert_eq!(rfc3339(0.0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400.0), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(951_868_799.5), "2000-02-29T23:59:59.500Z");
        assert_eq!(rfc3339(951_868_800.0), "2000-03-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_796_040_000.25), "2026-11-30T12:00:00.250Z");
        assert_eq!(rfc3339(4_107_542_400.0), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn a_fraction_that_rounds_up_carries() {
        assert_eq!(rfc3339(1_796_039_999.999_9), "2026-11-30T12:00:00.000Z");
    }

    #[test]
    fn odd_numbers_have_a_date_too() {
        assert_eq!(rfc3339(f64::NAN), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(-5.0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(f64::INFINITY), "9999-12-31T23:59:59.000Z");
    }

    #[test]
    fn spans_show_two_units() {
        assert_eq!(span(9.4), "9 s");
        assert_eq!(span(125.0), "2 min 05 s");
        assert_eq!(span(3725.0), "1 h 02 min");
        assert_eq!(span(90_000.0), "1 d 01 h");
        assert_eq!(span(-1.0), "0 s");
    }
}
