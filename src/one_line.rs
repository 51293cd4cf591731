//! An error as the one line that a person reads.

use std::error::Error;

/// Characters of a line: more is no message for a person.
const LONGEST: usize = 1000;

/// The error and its causes, joined by colons. A cause that the line tells already, as where a
/// library repeats its source, is not told again. Control characters become blanks, and a line that is
/// endless is cut.
///
/// ```
/// use std::io::Error;
/// use stampede_exporter::one_line::one_line;
///
/// let refused = Error::other("refused");
/// assert_eq!(one_line(&Error::other(refused)), "refused");
/// ```
pub fn one_line(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = error.source();
    }
    // A server's own words may be anything, on a terminal too.
    let mut shown: String =
        line.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::one_line;
    use std::io::Error;

    #[test]
    fn what_a_server_says_stays_one_line_of_text() {
        assert_eq!(one_line(&Error::other("a\r\nb\u{1b}[31mc")), "a  b [31mc");
        let cut = one_line(&Error::other("é".repeat(100_000)));
        assert_eq!((cut.chars().count(), cut.ends_with("é…")), (1001, true));
    }
}
