//! Numbers in cells, read without looking at a byte twice.

/// Powers of ten that a float holds exactly.
const POWERS: [f64; 20] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19,
];

/// The largest whole number below which every one is a float: 2 to the 53.
const EXACT: u64 = 1 << 53;

/// Digits that fit any 64-bit number.
const DIGITS: usize = 19;

/// Reads a plain decimal such as `1700000000.25` from the start of `bytes`, and how many of them
/// it took. `None` when it starts with anything else, or when the number does not fit a float
/// exactly: then the slow way is right and this one might not be.
///
/// Both the digits and the power of ten are exact, so one division rounds as it should (Clinger,
/// "How to read floating point numbers accurately", 1990).
#[inline]
pub(super) fn plain(bytes: &[u8]) -> Option<(f64, usize)> {
    let mut whole: u64 = 0;
    let mut taken = 0;
    let mut point = None;
    for byte in bytes {
        match byte {
            b'0'..=b'9' => whole = whole.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')),
            b'.' if point.is_none() => point = Some(taken),
            _ => break,
        }
        taken += 1;
    }
    let digits = taken - usize::from(point.is_some());
    if digits == 0 || digits > DIGITS || whole > EXACT {
        return None;
    }
    let decimals = point.map_or(0, |point| taken - point - 1);
    Some((whole as f64 / POWERS.get(decimals)?, taken))
}

/// Reads any finite number, such as `1e-3`, that fills the bytes.
#[cold]
pub(super) fn any(bytes: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(bytes).ok()?.trim().trim_matches('"');
    let begins = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    text.parse().ok().filter(|value: &f64| begins && value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers_are_read_as_the_standard_library_reads_them() {
        for text in
            ["0", "7", "1700000000.25", "0.1", "1.", ".5", "9007199254740992", "0.001953125"]
        {
            assert_eq!(plain(text.as_bytes()), Some((text.parse().unwrap(), text.len())), "{text}");
        }
    }

    #[test]
    fn a_number_ends_where_the_cell_does() {
        assert_eq!(plain(b"12,34"), Some((12.0, 2)));
        assert_eq!(plain(b"1.5.5"), Some((1.5, 3)));
    }

    #[test]
    fn what_is_not_plain_or_not_exact_is_left_to_the_slow_way() {
        for text in [
            "",
            ".",
            "-1",
            "x",
            "9007199254740993",
            "12345678901234567890",
            "1.0000000000000000000",
        ] {
            assert_eq!(plain(text.as_bytes()), None, "{text}");
        }
        assert_eq!(any(b"\"1e-3\" "), Some(0.001));
        assert_eq!(any(b"-1"), Some(-1.0));
        for text in ["", "nan", "inf", "1e999", "1 2", "one", "infinity"] {
            assert_eq!(any(text.as_bytes()), None, "{text}");
        }
    }
}
