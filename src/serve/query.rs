//! The query strings that the routes understand.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::Query;
use axum::http::Uri;

use crate::board::View;
use crate::snapshot::Snapshot;

/// Why a query is refused; the text goes to the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    /// It cannot be decoded.
    #[error("the query string cannot be decoded; legal: name=value pairs joined with &")]
    Malformed,
    /// A key that the route does not have.
    #[error("unknown query key {key:?}; legal here: {legal}")]
    UnknownKey { key: String, legal: String },
    /// A value that is no number of its kind.
    #[error("{key} is {value:?}; legal: {legal}")]
    NotANumber { key: &'static str, value: String, legal: &'static str },
    /// A cache that is not configured.
    #[error("no cache named {name:?}; configured: {configured}")]
    UnknownCache { name: String, configured: String },
}

/// What a query asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Wanted {
    /// The caches named; empty means all.
    caches: Vec<String>,
    /// At most so many items.
    pub(super) limit: Option<usize>,
    /// Only what is newer than this, Unix seconds.
    pub(super) since: Option<f64>,
}

impl Wanted {
    /// Reads the query of a URI; `legal` are the keys of the route.
    pub(super) fn parse(uri: &Uri, legal: &[&str]) -> Result<Wanted, QueryError> {
        let Query(pairs) =
            Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|_| QueryError::Malformed)?;
        let mut wanted = Wanted::default();
        for (key, value) in pairs {
            match key.as_str() {
                "cache" if legal.contains(&"cache") => wanted.caches.push(value),
                "limit" if legal.contains(&"limit") => {
                    let form = "a whole number from 0 on";
                    wanted.limit = Some(number("limit", value, form, |_| true)?);
                }
                "since" if legal.contains(&"since") => {
                    let finite = |seconds: &f64| seconds.is_finite();
                    wanted.since = Some(number("since", value, "Unix seconds", finite)?);
                }
                _ => {
                    let legal = if legal.is_empty() { "none".to_owned() } else { legal.join(", ") };
                    return Err(QueryError::UnknownKey { key, legal });
                }
            }
        }
        Ok(wanted)
    }

    /// Whether the query names no cache, and so means all of them.
    pub(super) fn everything(&self) -> bool {
        self.caches.is_empty()
    }

    /// The caches of the view that are asked for, in configuration order.
    pub(super) fn select(&self, view: &View) -> Result<Vec<Arc<Snapshot>>, QueryError> {
        if let Some(name) =
            self.caches.iter().find(|name| !view.caches.iter().any(|c| *c.cache == ***name))
        {
            let configured: Vec<_> = view.caches.iter().map(|c| format!("{:?}", c.cache)).collect();
            return Err(QueryError::UnknownCache {
                name: name.clone(),
                configured: configured.join(", "),
            });
        }
        let named = |cache: &Snapshot| self.caches.iter().any(|name| **name == *cache.cache);
        Ok(view.caches.iter().filter(|c| self.everything() || named(c)).cloned().collect())
    }
}

fn number<T: FromStr>(
    key: &'static str,
    value: String,
    legal: &'static str,
    fits: impl Fn(&T) -> bool,
) -> Result<T, QueryError> {
    let number = value.parse().ok().filter(fits);
    number.ok_or(QueryError::NotANumber { key, value, legal })
}
