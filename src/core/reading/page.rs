//! An application's page: Prometheus text 0.0.4 and OpenMetrics 1.0, read alike.
//!
//! Parsing never fails: a line that is no series costs only itself. The published parsers
//! (`openmetrics-parser`, `prometheus-parse`) refuse the whole page at the first bad line or turn
//! it into an error of the iterator, and hold every series of the page; this one keeps only the
//! series that are wanted and borrows them from the bytes.
//!
//! Read: series with labels, escapes, values as Go writes them, names in quotes inside the braces,
//! `\r\n`, and `# TYPE` and `# EOF`. Passed over: timestamps, exemplars, help and units.

use std::borrow::Cow;
use std::collections::HashSet;

/// Series that are kept from one page. A mapping that fits more reads something other than a
/// cache's counters; the bound keeps the memory of a hostile page at a few megabytes.
pub const MAX_SERIES: usize = 100_000;

/// Problems that are told one by one; the rest of them are only counted.
const MAX_PROBLEMS: usize = 8;

/// The wanted series of one page, in the order of the page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page<'a> {
    series: Vec<Span<'a>>,
    labels: Vec<Label<'a>>,
    declared: HashSet<&'a str>,
    /// Lines that are series, wanted or not.
    pub series_lines: usize,
    /// Lines that are neither series nor comment.
    pub bad_lines: usize,
    /// Whether the page ends with `# EOF`, as every OpenMetrics page must.
    pub ended: bool,
    /// Whether series beyond [`MAX_SERIES`] were left out.
    pub overflowed: bool,
}

/// One series of a page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Series<'p> {
    /// Its name.
    pub name: &'p str,
    /// Its labels, in the order of the page.
    pub labels: &'p [Label<'p>],
    /// Its value, which may be any float.
    pub value: f64,
}

/// One label of a series.
#[derive(Debug, Clone, PartialEq, Hash)]
pub struct Label<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value without escapes.
    pub value: Cow<'a, str>,
}

#[derive(Debug, Clone, PartialEq)]
struct Span<'a> {
    name: &'a str,
    first_label: usize,
    labels: usize,
    value: f64,
}

/// A line that is no series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct PageProblem {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Bytes that are not UTF-8.
    #[error("not UTF-8")]
    Encoding,
    /// No series name at its start.
    #[error("no series name")]
    Name,
    /// Braces, quotes or escapes that do not close or fit.
    #[error("malformed labels")]
    Labels,
    /// No number where the value belongs.
    #[error("no number as the value")]
    Value,
    /// Text after the value that is neither a timestamp nor an exemplar.
    #[error("unexpected text after the value")]
    Trailer,
    /// No line end after the last line: the page may be cut in the middle of a number.
    #[error("no line end: the page may be cut off")]
    Unfinished,
}

impl Page<'_> {
    /// The wanted series of this name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = Series<'_>> {
        self.series.iter().filter(move |span| span.name == name).map(|span| Series {
            name: span.name,
            labels: self
                .labels
                .get(span.first_label..span.first_label + span.labels)
                .unwrap_or_default(),
            value: span.value,
        })
    }

    /// Whether the page gives this wanted name a type, with or without series.
    pub fn declares(&self, name: &str) -> bool {
        self.declared.contains(name)
            || name.strip_suffix("_total").is_some_and(|family| self.declared.contains(family))
    }
}

impl Series<'_> {
    /// A label's value, empty where the series has no such label.
    pub fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|label| label.name == name).map_or("", |label| &label.value)
    }
}

/// Reads a page, keeping the series whose name is wanted.
///
/// Only lines that might be wanted are read in full, so a bad label in another series is passed
/// over. Problems are told up to a fixed count; [`Page::bad_lines`] has them all.
pub fn parse(bytes: &[u8], wanted: impl Fn(&str) -> bool) -> (Page<'_>, Vec<PageProblem>) {
    let mut page = Page::default();
    let mut problems = Vec::new();
    // What some editors and runtimes put before UTF-8.
    let mut rest = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut line = 0;
    while !rest.is_empty() && !page.ended {
        line += 1;
        let outcome = match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                let (this, after) = rest.split_at(end);
                rest = after.get(1..).unwrap_or_default();
                read_line(&mut page, this, &wanted)
            }
            None => {
                let unfinished = std::mem::take(&mut rest);
                match unfinished.trim_ascii() {
                    b"# EOF" => read_line(&mut page, unfinished, &wanted),
                    b"" => Ok(()),
                    _ => Err(Fault::Unfinished),
                }
            }
        };
        if let Err(fault) = outcome {
            page.bad_lines += 1;
            if problems.len() < MAX_PROBLEMS {
                problems.push(PageProblem { line, fault });
            }
        }
    }
    (page, problems)
}

fn read_line<'a>(
    page: &mut Page<'a>,
    line: &'a [u8],
    wanted: &impl Fn(&str) -> bool,
) -> Result<(), Fault> {
    let line = std::str::from_utf8(line).map_err(|_| Fault::Encoding)?;
    let line = line.trim_matches([' ', '\t', '\r']);
    if let Some(comment) = line.strip_prefix('#') {
        read_comment(page, comment, wanted);
        return Ok(());
    }
    if line.is_empty() {
        return Ok(());
    }
    let mut cursor = Cursor { rest: line };
    let mut name = cursor.name();
    if !name.is_empty() && !wanted(name) {
        page.series_lines += 1;
        return Ok(());
    }
    let first_label = page.labels.len();
    let read = cursor.labels(&mut page.labels, &mut name).and_then(|()| cursor.value());
    let fits = read.is_ok() && wanted(name);
    if !fits || page.series.len() >= MAX_SERIES {
        page.labels.truncate(first_label);
        page.overflowed |= fits;
        page.series_lines += usize::from(read.is_ok());
        return read.map(|_| ());
    }
    let labels = page.labels.len() - first_label;
    page.series.push(Span { name, first_label, labels, value: read? });
    page.series_lines += 1;
    Ok(())
}

fn read_comment<'a>(page: &mut Page<'a>, comment: &'a str, wanted: &impl Fn(&str) -> bool) {
    let mut words = comment.split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some("EOF"), None) => page.ended = true,
        (Some("TYPE"), Some(name)) if wanted(name) || wanted(&format!("{name}_total")) => {
            page.declared.insert(name);
        }
        _ => {}
    }
}

/// What is left of a line.
struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, token: char) -> bool {
        self.skip_blanks();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// The longest name at this place, which may be empty.
    fn name(&mut self) -> &'a str {
        self.skip_blanks();
        let fits = |(i, byte): (usize, u8)| {
            byte.is_ascii_alphabetic()
                || matches!(byte, b'_' | b':')
                || i > 0 && byte.is_ascii_digit()
        };
        let end = self.rest.bytes().enumerate().position(|at| !fits(at));
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        name
    }

    /// The labels in braces, if any; a name in quotes among them is the series' own.
    fn labels(&mut self, labels: &mut Vec<Label<'a>>, series: &mut &'a str) -> Result<(), Fault> {
        if !self.take('{') {
            return if series.is_empty() { Err(Fault::Name) } else { Ok(()) };
        }
        while !self.take('}') {
            self.skip_blanks();
            if self.rest.starts_with('"') {
                // A name that needs escapes is nothing a mapping can ask for.
                let Cow::Borrowed(text) = self.quoted()? else { return Err(Fault::Name) };
                if self.take('=') {
                    self.skip_blanks();
                    labels.push(Label { name: text, value: self.quoted()? });
                } else if series.is_empty() {
                    *series = text;
                } else {
                    return Err(Fault::Labels);
                }
            } else {
                let name = self.name();
                if name.is_empty() || !self.take('=') {
                    return Err(Fault::Labels);
                }
                self.skip_blanks();
                labels.push(Label { name, value: self.quoted()? });
            }
            self.skip_blanks();
            if !self.rest.starts_with('}') && !self.take(',') {
                return Err(Fault::Labels);
            }
        }
        if series.is_empty() { Err(Fault::Name) } else { Ok(()) }
    }

    /// A text in quotes, without its escapes.
    fn quoted(&mut self) -> Result<Cow<'a, str>, Fault> {
        let text = self.rest.strip_prefix('"').ok_or(Fault::Labels)?;
        let mut escaped = false;
        let mut any_escape = false;
        for (i, byte) in text.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => (escaped, any_escape) = (true, true),
                b'"' => {
                    let (value, rest) = text.split_at(i);
                    self.rest = rest.get(1..).unwrap_or_default();
                    return if any_escape { Ok(unescape(value)) } else { Ok(Cow::Borrowed(value)) };
                }
                _ => {}
            }
        }
        Err(Fault::Labels)
    }

    /// The value, and nothing but a timestamp and an exemplar after it.
    fn value(&mut self) -> Result<f64, Fault> {
        self.skip_blanks();
        let (own, exemplar) = match self.rest.split_once('#') {
            Some((own, exemplar)) => (own, Some(exemplar)),
            None => (self.rest, None),
        };
        let mut words = own.split_ascii_whitespace();
        let value = words.next().and_then(|word| word.parse().ok()).ok_or(Fault::Value)?;
        let timestamp_fits = words.next().is_none_or(|word| word.parse::<f64>().is_ok());
        let exemplar_fits = exemplar.is_none_or(|text| text.trim_start().starts_with('{'));
        if timestamp_fits && exemplar_fits && words.next().is_none() {
            Ok(value)
        } else {
            Err(Fault::Trailer)
        }
    }
}

/// `\n`, `\"` and `\\`; any other escape stays as it is, as in Prometheus' own parser.
fn unescape(text: &str) -> Cow<'_, str> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some(quoted @ ('"' | '\\'))) => plain.push(quoted),
            ('\\', Some(other)) => plain.extend(['\\', other]),
            _ => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Series as `name{label=value} number`, then the problems.
    fn read(text: impl AsRef<[u8]>) -> Vec<String> {
        let (page, problems) = parse(text.as_ref(), |_| true);
        let series = page.series.iter().map(|span| {
            let labels = &page.labels[span.first_label..span.first_label + span.labels];
            let labels: Vec<String> =
                labels.iter().map(|l| format!("{}={:?}", l.name, l.value)).collect();
            format!("{}{{{}}} {}", span.name, labels.join(","), span.value)
        });
        series.chain(problems.iter().map(ToString::to_string)).collect()
    }

    #[test]
    fn text_format() {
        let page = "# HELP a_total Things. # {}\n# TYPE a_total counter\n\
            a_total{x=\"1\",y=\"a,b}\"} 3\n a_total { x = \"2\" , } 4e2 1700000000000\n\
            a_total\t5\nb:c +Inf\nd NaN\n";
        let right = [
            r#"a_total{x="1",y="a,b}"} 3"#,
            r#"a_total{x="2"} 400"#,
            "a_total{} 5",
            "b:c{} inf",
            "d{} NaN",
        ];
        assert_eq!(read(page), right);
    }

    #[test]
    fn open_metrics() {
        let page = "# TYPE a counter\n# UNIT a seconds\n\
            a_total{x=\"1\"} 3 1700000000.25 # {trace_id=\"f}#\"} 0.5 1700000000.1\n\
            a_created{x=\"1\"} 1.7e9\nh_bucket{le=\"+Inf\"} 9 # {} 1\n# EOF\nafter 1\n";
        let right =
            [r#"a_total{x="1"} 3"#, r#"a_created{x="1"} 1700000000"#, r#"h_bucket{le="+Inf"} 9"#];
        assert_eq!(read(page), right);
        assert!(parse(page.as_bytes(), |_| true).0.ended);
    }

    #[test]
    fn names_in_quotes() {
        let page =
            "{\"cache.hits\",x=\"1\"} 2\n{\"odd.label\"=\"v\",\"n\"} 3\n{x=\"1\"} 2\na{\"b\"} 1\n";
        let right = [
            r#"cache.hits{x="1"} 2"#,
            r#"n{odd.label="v"} 3"#,
            "line 3: no series name",
            "line 4: malformed labels",
        ];
        assert_eq!(read(page), right);
    }

    #[test]
    fn escapes() {
        assert_eq!(read("a{x=\"q\\\"b\\\\n\\nz\\d\"} 1\n"), [r#"a{x="q\"b\\n\nz\\d"} 1"#]);
    }

    #[test]
    fn line_ends_of_windows() {
        assert_eq!(read("a 1\r\n\r\nb{x=\"y\"} 2\r\n# EOF\r\n"), ["a{} 1", r#"b{x="y"} 2"#]);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_name() {
        assert_eq!(read("\u{feff}a 1\n\u{feff}b 2\n"), ["a{} 1", "line 2: no series name"]);
    }

    #[test]
    fn a_bad_line_costs_only_itself() {
        let page = b"good 1\n<html>\na{x=\"1} 2\na{x=1} 2\na{x} 2\na{\na one\na\na 1 2 3\na 1 x\n\xff\xfe 1\na{=\"\"} 1\ngood 2\n";
        let right = [
            "good{} 1",
            "good{} 2",
            "line 2: no series name",
            "line 3: malformed labels",
            "line 4: malformed labels",
            "line 5: malformed labels",
            "line 6: malformed labels",
            "line 7: no number as the value",
            "line 8: no number as the value",
            "line 9: unexpected text after the value",
        ];
        assert_eq!(read(page), right);
        assert_eq!(parse(page, |_| true).0.bad_lines, 11, "all are counted");
    }

    #[test]
    fn a_cut_page_does_not_end_in_half_a_number() {
        assert_eq!(read("a 1\nb 12"), ["a{} 1", "line 2: no line end: the page may be cut off"]);
        assert_eq!(read("a 1\n# EOF"), ["a{} 1"]);
        assert!(read("").is_empty());
    }

    #[test]
    fn any_cut_and_any_flipped_byte_is_read_without_a_panic() {
        let page = b"# TYPE a counter\na_total{x=\"\\\"1\",y=\"\xc3\xa9\"} 3 4 # {t=\"f\"} 1\n{\"q\"} 1\n# EOF\n";
        for at in 0..page.len() {
            parse(&page[..at], |_| true);
            for byte in [0, b'"', b'{', b'\\', b'\n', b'#', 0xff] {
                let mut changed = page.to_vec();
                changed[at] = byte;
                parse(&changed, |_| true);
            }
        }
    }

    #[test]
    fn unwanted_series_are_counted_and_not_kept() {
        let (page, problems) =
            parse(b"a 1\nb{x=\"1} 2\n# TYPE c counter\n# TYPE b counter\n", |name| {
                matches!(name, "a" | "c_total")
            });
        assert_eq!((page.series.len(), page.series_lines, problems.len()), (1, 2, 0));
        assert!(page.declares("c_total") && !page.declares("b"));
    }

    #[test]
    fn more_series_than_the_bound_overflow() {
        let page: String = (0..=MAX_SERIES).map(|i| format!("a{{i=\"{i}\"}} 1\n")).collect();
        let (page, _) = parse(page.as_bytes(), |_| true);
        assert!(page.overflowed);
        assert_eq!((page.series.len(), page.labels.len()), (MAX_SERIES, MAX_SERIES));
    }
}
