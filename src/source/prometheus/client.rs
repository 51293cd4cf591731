//! One question to a Prometheus-compatible server.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde::Deserialize;

use crate::config::{PageUrl, PrometheusConfig};
use crate::source::app::{AppError, http_client};

/// Why history could not be read from a server. Holds no secret.
#[derive(Debug, thiserror::Error)]
pub enum PrometheusError {
    /// No answer.
    #[error("the Prometheus server does not answer: {0}")]
    Request(#[from] AppError),
    /// The password's place cannot be read.
    #[error("the password of the Prometheus server cannot be read: {0}")]
    Password(#[source] io::Error),
    /// The address is none.
    #[error("the address of the Prometheus server is not a URL")]
    Address,
    /// The server said no.
    #[error("the Prometheus server refused `{query}`: {message}")]
    Refused {
        /// What was asked.
        query: String,
        /// What it said.
        message: String,
    },
    /// Something else than the answer of a Prometheus server.
    #[error("no answer of a Prometheus server (HTTP status {0})")]
    NoAnswer(u16),
    /// Too many bytes.
    #[error("the answer to `{query}` has more than {most} bytes; narrow the query")]
    TooLarge {
        /// What was asked.
        query: String,
        /// Bytes that an answer may have.
        most: usize,
    },
}

impl PrometheusError {
    /// Whether the same question may be answered a little later.
    pub fn is_passing(&self) -> bool {
        match self {
            PrometheusError::Request(_) => true,
            // As of a server that starts or is overloaded.
            PrometheusError::NoAnswer(status) => (500..600).contains(status),
            PrometheusError::Password(_)
            | PrometheusError::Address
            | PrometheusError::Refused { .. }
            | PrometheusError::TooLarge { .. } => false,
        }
    }
}

/// How long and how large an answer may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time for one answer, connecting included.
    pub time: Duration,
    /// Bytes of one answer.
    pub bytes: usize,
}

/// The points in time of one question.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    /// Unix seconds of the first point.
    pub(super) start: f64,
    /// Seconds between points; above 0.
    pub(super) step: f64,
    /// How many there are, at least 1.
    pub(super) count: usize,
}

/// A server that is asked.
pub(super) struct Client {
    http: reqwest::Client,
    query_range: reqwest::Url,
    login: Option<(String, Vec<u8>)>,
    most: usize,
}

/// One series of an answer.
#[derive(Deserialize)]
pub(super) struct Series {
    pub(super) metric: BTreeMap<String, String>,
    pub(super) values: Vec<(f64, String)>,
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    error: Option<String>,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Series>,
}

impl Client {
    pub(super) fn new(
        server: &PrometheusConfig,
        limits: Limits,
    ) -> Result<Client, PrometheusError> {
        let password = server.password.as_ref().map(|secret| secret.read());
        let password = password.transpose().map_err(PrometheusError::Password)?;
        let login = server.username.clone().map(|name| (name, password.unwrap_or_default()));
        Ok(Client {
            http: http_client(&server.url, limits.time)?,
            query_range: query_range(&server.url).ok_or(PrometheusError::Address)?,
            login,
            most: limits.bytes,
        })
    }

    /// The series of a query over the grid.
    pub(super) async fn ask(
        &self,
        query: &str,
        grid: Grid,
    ) -> Result<Vec<Series>, PrometheusError> {
        let mut url = self.query_range.clone();
        let end = grid.start + (grid.count - 1) as f64 * grid.step;
        url.query_pairs_mut()
            .append_pair("query", query)
            .append_pair("start", &grid.start.to_string())
            .append_pair("end", &end.to_string())
            .append_pair("step", &grid.step.to_string());
        let mut request = self.http.get(url);
        if let Some((name, password)) = &self.login {
            request = request.basic_auth(name, Some(String::from_utf8_lossy(password)));
        }
        let mut response = request.send().await.map_err(AppError::from)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(AppError::from)? {
            if body.len() + chunk.len() > self.most {
                return Err(PrometheusError::TooLarge { query: query.to_owned(), most: self.most });
            }
            body.extend_from_slice(&chunk);
        }
        let Ok(answer) = serde_json::from_slice::<Answer>(&body) else {
            return Err(PrometheusError::NoAnswer(response.status().as_u16()));
        };
        match answer.data {
            Some(data) if answer.status == "success" => Ok(data.result),
            _ => {
                let message = answer.error.unwrap_or(answer.status);
                Err(PrometheusError::Refused { query: query.to_owned(), message })
            }
        }
    }
}

/// The address of the queries below the server's own, which may have a path and a query.
fn query_range(server: &PageUrl) -> Option<reqwest::Url> {
    let mut url = reqwest::Url::parse(&server.0).ok()?;
    url.path_segments_mut().ok()?.pop_if_empty().extend(["api", "v1", "query_range"]);
    Some(url)
}
