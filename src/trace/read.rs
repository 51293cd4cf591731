//! Reads a trace row by row, in constant memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::columns::{self, Column, RowLookups};
use super::number;
use crate::reading::Reading;

/// Bytes that are read at once: large enough that the calls do not show, small enough for a cache.
const CHUNK: usize = 256 * 1024;

/// Bytes of the longest row. A row of every column is a few hundred.
const LONGEST_ROW: usize = 64 * 1024;

/// The first bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Why a trace cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system's answer before the first line.
    #[error("cannot be read: {0}")]
    Open(io::Error),
    /// The system's answer, or a damaged gzip file.
    #[error("cannot be read after line {line}: {error}")]
    Io {
        /// The last line that was read.
        line: u64,
        /// What the system says.
        error: io::Error,
    },
    /// No header.
    #[error("the trace is empty; its first line names the columns: time,hits,misses")]
    Empty,
    /// A required column is not there.
    #[error(
        "line 1: no column `{}`; it names the columns, separated by commas, and `time`, `hits` and `misses` must be there",
        .0.as_str()
    )]
    NoColumn(Column),
    /// A column is there twice.
    #[error("line 1: the column `{}` is there twice", .0.as_str())]
    TwiceColumn(Column),
    /// Time does not move on.
    #[error(
        "line {line}: time {time} does not come after {before}; rows must be sorted by time, each time once"
    )]
    NotAfter {
        /// The row's line.
        line: u64,
        /// Its time.
        time: f64,
        /// The time of the row before.
        before: f64,
    },
    /// A line that is no row of a trace.
    #[error("line {0} is longer than {LONGEST_ROW} bytes")]
    TooLong(u64),
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// It is in the reading.
    Read,
    /// It is passed over.
    Bad(BadRow),
    /// There are no more.
    End,
}

/// A row that was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct BadRow {
    /// Its line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub fault: RowFault,
}

/// What is wrong with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// A cell that holds no number, or one that its column cannot have.
    #[error("`{}` is not {}", .0.as_str(), .0.legal())]
    Cell(Column),
    /// No time.
    #[error("no time")]
    NoTime,
    /// More or fewer cells than the header.
    #[error("{found} cells, not the header's {expected}")]
    Cells {
        /// In this row.
        found: usize,
        /// In the header.
        expected: usize,
    },
}

/// Reads a trace.
pub struct TraceReader {
    input: Box<dyn Read>,
    buffer: Vec<u8>,
    /// The part of the buffer that is not read yet.
    unread: std::ops::Range<usize>,
    at_end: bool,
    line: u64,
    columns: Vec<Option<Column>>,
    unknown: Vec<String>,
    /// Whether the server's own lookups have columns of their own.
    apart: bool,
    before: f64,
}

impl TraceReader {
    /// Opens a file, plain or gzip by its first bytes, and reads the header.
    ///
    /// # Errors
    /// When it cannot be read or its header is none of a trace.
    pub fn open(path: &Path) -> Result<TraceReader, TraceError> {
        let mut file = File::open(path).map_err(TraceError::Open)?;
        let mut magic = Vec::new();
        file.by_ref()
            .take(GZIP_MAGIC.len() as u64)
            .read_to_end(&mut magic)
            .map_err(TraceError::Open)?;
        let zipped = magic == GZIP_MAGIC;
        let whole = io::Cursor::new(magic).chain(file);
        TraceReader::new(if zipped {
            Box::new(MultiGzDecoder::new(whole))
        } else {
            Box::new(whole)
        })
    }

    /// Reads the header of a plain trace.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn new(input: Box<dyn Read>) -> Result<TraceReader, TraceError> {
        let mut reader = TraceReader {
            input,
            buffer: vec![0; CHUNK + LONGEST_ROW],
            unread: 0..0,
            at_end: false,
            line: 0,
            columns: Vec::new(),
            unknown: Vec::new(),
            apart: false,
            before: f64::NEG_INFINITY,
        };
        let header = reader.next_line()?.ok_or(TraceError::Empty)?;
        let header = reader.buffer.get(header).unwrap_or_default();
        let header = header.strip_prefix(b"\xef\xbb\xbf").unwrap_or(header);
        let names: Vec<String> = cells(header)
            .map(|name| String::from_utf8_lossy(name).trim().trim_matches('"').to_owned())
            .collect();
        let columns: Vec<Option<Column>> = names.iter().map(|n| Column::from_name(n)).collect();
        let count = |column| columns.iter().filter(|c| **c == Some(column)).count();
        if let Some(missing) = Column::REQUIRED.into_iter().find(|column| count(*column) == 0) {
            return Err(TraceError::NoColumn(missing));
        }
        if let Some(twice) = Column::ALL.into_iter().find(|column| count(*column) > 1) {
            return Err(TraceError::TwiceColumn(twice));
        }
        let unknown = names.iter().zip(&columns).filter(|(_, column)| column.is_none());
        reader.unknown = unknown.map(|(name, _)| name.clone()).collect();
        reader.apart = count(Column::RedisHits) == 1 && count(Column::RedisMisses) == 1;
        reader.columns = columns;
        Ok(reader)
    }

    /// Names in the header that are no columns of a trace.
    pub fn unknown_columns(&self) -> &[String] {
        &self.unknown
    }

    /// Reads the next row into `reading`, which it replaces as a whole; what is in it after a bad
    /// row or the end means nothing.
    ///
    /// # Errors
    /// When the trace cannot be read any further.
    pub fn read(&mut self, reading: &mut Reading) -> Result<Row, TraceError> {
        loop {
            let Some(line) = self.next_line()? else { return Ok(Row::End) };
            if line.is_empty() {
                continue;
            }
            let row = self.buffer.get(line).unwrap_or_default();
            if let Err(fault) = parse(row, &self.columns, self.apart, reading) {
                return Ok(Row::Bad(BadRow { line: self.line, fault }));
            }
            let before = std::mem::replace(&mut self.before, reading.time);
            if reading.time <= before {
                return Err(TraceError::NotAfter { line: self.line, time: reading.time, before });
            }
            return Ok(Row::Read);
        }
    }

    /// Where the next line is in the buffer, without its end.
    fn next_line(&mut self) -> Result<Option<std::ops::Range<usize>>, TraceError> {
        let mut searched = 0;
        loop {
            let unread = self.buffer.get(self.unread.clone()).unwrap_or_default();
            let end = memchr::memchr(b'\n', unread.get(searched..).unwrap_or_default());
            let last = self.at_end && !unread.is_empty();
            if let Some(length) = end.map(|end| searched + end).or(last.then_some(unread.len())) {
                self.line += 1;
                let cut = usize::from(length > 0 && unread.get(length - 1) == Some(&b'\r'));
                let start = self.unread.start;
                self.unread.start = (start + length + 1).min(self.unread.end);
                return Ok(Some(start..start + length - cut));
            }
            if self.at_end {
                return Ok(None);
            }
            searched = unread.len();
            if searched > LONGEST_ROW {
                return Err(TraceError::TooLong(self.line + 1));
            }
            self.fill()?;
        }
    }

    /// Reads more, after moving what is left to the front.
    fn fill(&mut self) -> Result<(), TraceError> {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        let room = self.buffer.get_mut(self.unread.end..).unwrap_or_default();
        loop {
            match self.input.read(room) {
                Ok(0) => self.at_end = true,
                Ok(bytes) => self.unread.end += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(TraceError::Io { line: self.line, error }),
            }
            return Ok(());
        }
    }
}

fn parse(
    row: &[u8],
    columns: &[Option<Column>],
    apart: bool,
    reading: &mut Reading,
) -> Result<(), RowFault> {
    *reading = Reading { time: f64::NAN, ..Reading::default() };
    let mut lookups = RowLookups::default();
    let mut rest = row;
    for (index, column) in columns.iter().enumerate() {
        // A plain number ends at the comma, and then the cell is read in one go.
        let (value, length) = match number::plain(rest) {
            Some((value, length)) if matches!(rest.get(length), None | Some(b',')) => {
                (Some(value), length)
            }
            _ => {
                let length = cell_length(rest);
                let cell = rest.get(..length).unwrap_or_default();
                let empty = cell.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'"'));
                let value = if empty { None } else { number::any(cell) };
                if let (None, false, Some(column)) = (value, empty, column) {
                    return Err(RowFault::Cell(*column));
                }
                (value, length)
            }
        };
        if let (Some(value), Some(column)) = (value, column)
            && !columns::take(*column, value, reading, &mut lookups)
        {
            return Err(RowFault::Cell(*column));
        }
        let more = rest.len() > length;
        rest = rest.get(length + 1..).unwrap_or_default();
        let last = index + 1 == columns.len();
        if more == last {
            return Err(RowFault::Cells { found: cells(row).count(), expected: columns.len() });
        }
    }
    if reading.time.is_nan() {
        return Err(RowFault::NoTime);
    }
    lookups.fill(reading, apart);
    Ok(())
}

/// The cells of a row, each as it stands there.
fn cells(row: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(row);
    std::iter::from_fn(move || {
        let this = rest?;
        let length = cell_length(this);
        rest = this.get(length + 1..);
        this.get(..length)
    })
}

/// Bytes up to the comma that ends the first cell; one within quotes does not.
fn cell_length(row: &[u8]) -> usize {
    let quoted = quoted_length(row);
    let rest = row.get(quoted..).unwrap_or_default();
    memchr::memchr(b',', rest).map_or(row.len(), |comma| quoted + comma)
}

/// Bytes up to the end of the quotes in which the first cell stands; 0 where it stands in none, or
/// they have no end.
fn quoted_length(row: &[u8]) -> usize {
    let mut at = row.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(0);
    let mut length = 0;
    // A quote within the text is written twice, so the next piece begins where one ends.
    while row.get(at) == Some(&b'"') {
        let text = row.get(at + 1..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'"', text) else { return 0 };
        at += end + 2;
        length = at;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{Lookups, Reach};

    fn reader(text: &str) -> TraceReader {
        TraceReader::new(Box::new(io::Cursor::new(text.to_owned()))).expect("a header")
    }

    /// Each row's time and hits, or what is wrong.
    fn rows(text: &str) -> Vec<String> {
        let mut reader = reader(text);
        let (mut rows, mut r) = (Vec::new(), Reading::default());
        loop {
            rows.push(match reader.read(&mut r) {
                Ok(Row::End) => return rows,
                Ok(Row::Read) => {
                    format!("{} {:?}", r.time, r.lookups.redis.map(|l| (l.hits, l.misses)))
                }
                Ok(Row::Bad(bad)) => bad.to_string(),
                Err(error) => {
                    rows.push(error.to_string());
                    return rows;
                }
            });
        }
    }

    #[test]
    fn columns_go_by_name() {
        let text = "misses,note,time,hits\r\n1,\"x\",100.5,20\r\n\r\n,y,101,\n2,z,1.02e2,21";
        assert_eq!(rows(text), ["100.5 Some((20.0, 1.0))", "101 None", "102 Some((21.0, 2.0))"]);
        assert_eq!(reader(text).unknown_columns(), ["note"]);
    }

    #[test]
    fn bad_rows_are_named_and_do_not_end_the_trace() {
        let text = "time,hits,misses,up\n100,1,2,1\nx,1,2,1\n101,1,-2,1\n102,1,2\n103,1,2,1,1\n\
            ,1,2,1\n104,nan,2,1\n105,1,2,3\n106,5,6,\n";
        let right = [
            "100 Some((1.0, 2.0))",
            "line 3: `time` is not Unix seconds (from 0 to 253402300799)",
            "line 4: `misses` is not a number of 0 or more",
            "line 5: 3 cells, not the header's 4",
            "line 6: 5 cells, not the header's 4",
            "line 7: no time",
            "line 8: `hits` is not a number of 0 or more",
            "line 9: `up` is not 0, 1 or 2",
            "106 Some((5.0, 6.0))",
        ];
        assert_eq!(rows(text), right);
    }

    #[test]
    fn a_comma_within_quotes_is_text() {
        let text = "time,\"a \"\"note\"\", or two\",hits,misses\n100,\"x, y\",1,2\n\
            101,\"a \"\",\"\" b\" ,3,4\n102,\"open,5,6\n103,\"x\",\"1,000\",2\n104,\"x,y\",1\n";
        let right = [
            "100 Some((1.0, 2.0))",
            "101 Some((3.0, 4.0))",
            "102 Some((5.0, 6.0))",
            "line 5: `hits` is not a number of 0 or more",
            "line 6: 3 cells, not the header's 4",
        ];
        assert_eq!(rows(text), right);
        assert_eq!(reader(text).unknown_columns(), ["a \"\"note\"\", or two"]);
    }

    #[test]
    fn what_a_column_cannot_hold_is_told_with_what_it_can() {
        // Milliseconds, a time before all times, a share in percent.
        let text = "time,hits,misses,hot_key_share\n1700000000000,1,2,\n-1,1,2,\n\
            1700000000,1,2,93\n1700000001,1,2,1.0000000000000002\n";
        let right = [
            "line 2: `time` is not Unix seconds (from 0 to 253402300799)",
            "line 3: `time` is not Unix seconds (from 0 to 253402300799)",
            "line 4: `hot_key_share` is not a share from 0 to 1",
            "1700000001 Some((1.0, 2.0))",
        ];
        assert_eq!(rows(text), right);
    }

    #[test]
    fn time_must_move_on() {
        let error =
            "line 4: time 101 does not come after 101; rows must be sorted by time, each time once";
        assert_eq!(rows("time,hits,misses\n100,1,1\n101,1,1\n101,1,1\n")[2], error);
        assert!(rows("time,hits,misses\n100,1,1\n99,1,1\n")[1].starts_with("line 3: time 99 "));
    }

    #[test]
    fn the_server_and_the_applications_apart() {
        let text = "time,hits,misses,redis_hits,redis_misses,up,keys\n1,2,3,4,5,0,6\n";
        let mut reading = Reading::default();
        assert_eq!(reader(text).read(&mut reading).unwrap(), Row::Read);
        assert_eq!(reading.lookups.app, Some(Lookups { hits: 2.0, misses: 3.0 }));
        assert_eq!(reading.lookups.redis, Some(Lookups { hits: 4.0, misses: 5.0 }));
        assert_eq!((reading.reach, reading.keys, reading.loads), (Reach::Failing, Some(6.0), None));
    }

    #[test]
    fn headers_that_are_none() {
        let error = |text: &str| {
            let input = Box::new(io::Cursor::new(text.to_owned()));
            TraceReader::new(input).err().expect(text).to_string()
        };
        assert!(error("").starts_with("the trace is empty"));
        assert!(error("time,misses\n").starts_with("line 1: no column `hits`"));
        assert!(
            error("time,hits,misses,hits\n")
                .starts_with("line 1: the column `hits` is there twice")
        );
    }

    #[test]
    fn rows_across_chunks_and_lines_without_end() {
        let row = |i: u64| format!("{i},{},{i}\n", 10 * i);
        let text: String = (1..60_000).map(row).collect();
        let read = rows(&format!("\u{feff}time,hits,misses\n{text}"));
        assert_eq!(read.len(), 59_999);
        assert_eq!(read[59_998], "59999 Some((599990.0, 59999.0))");
        let endless = format!("time,hits,misses\n{}", "1".repeat(2 * CHUNK));
        assert_eq!(rows(&endless), ["line 2 is longer than 65536 bytes"]);
    }
}
