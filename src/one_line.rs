//! An error as the one line that a person reads.

use std::error::Error;

/// The error and its causes, joined by colons. A cause that the line tells already, as where a
/// library repeats its source, is not told again.
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
    line.replace(['\n', '\r'], " ")
}
