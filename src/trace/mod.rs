//! A recorded trace: CSV with a header, one row a poll. What `run` sees is written in this form,
//! and `backtest` reads it.
//!
//! `time`, `hits` and `misses` must be there; every other column may. An empty cell is unknown,
//! columns of other names are passed over, and text in quotes may hold commas. Counts are
//! cumulative.
//!
//! Beyond the columns for which there is a field in [`Reading`](crate::reading::Reading) of the
//! same name there are three: `redis_hits` and `redis_misses` say that the lookups of server and
//! applications are apart, `hits` and `misses` then being the applications'; without them `hits`
//! and `misses` are whatever is known. `up` is 1 while the server answers, 0 while it does not, and
//! 2 while it loads its data set.

mod columns;
mod number;
mod read;
mod write;

pub use columns::{Column, LATEST};
pub(crate) use columns::{RowLookups, take};
pub use read::{BadRow, Row, RowFault, TraceError, TraceReader};
pub use write::Recorder;
