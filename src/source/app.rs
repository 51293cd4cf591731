//! Scrapes an application's page and adds up its counters.

use std::collections::{HashMap, HashSet};
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use rustls::{ClientConfig, RootCertStore};

use crate::clock::Clock;
use crate::config::{AppConfig, PageUrl};
use crate::one_line::one_line;
use crate::reading::mapping::Counter;
use crate::reading::page::{self, Page, PageProblem};
use crate::signal::tally::{Step, Tally, Warning};
use crate::snapshot::{AppState, AppTotals};

/// Bytes of one page, decompressed. A page of a hundred thousand series is about that large;
/// more is not a page of counters, and would be read every second.
pub const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Text first: its series have the names that a person sees in a browser. OpenMetrics is read too.
const ACCEPTED: &str =
    "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.7, */*;q=0.1";

/// Seconds during which a warning is not logged again, for a page that is odd now and then.
const WARN_AGAIN_AFTER: f64 = 600.0;

/// Why a page could not be read: the `reason` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AppErrorKind {
    /// The host has no address.
    Dns,
    /// No connection.
    Connect,
    /// No TLS, or a certificate that is not trusted.
    Tls,
    /// Not done in time, connecting included.
    Timeout,
    /// A broken HTTP answer.
    Http,
    /// A status other than 200; redirects are not followed.
    Status,
    /// More bytes or series than a page may have.
    TooLarge,
    /// Neither Prometheus text nor OpenMetrics, or cut off.
    Parse,
}

impl AppErrorKind {
    /// Every kind, in label order.
    pub const ALL: [AppErrorKind; 8] = [
        AppErrorKind::Dns,
        AppErrorKind::Connect,
        AppErrorKind::Tls,
        AppErrorKind::Timeout,
        AppErrorKind::Http,
        AppErrorKind::Status,
        AppErrorKind::TooLarge,
        AppErrorKind::Parse,
    ];

    /// The value of the `reason` label.
    pub fn as_str(self) -> &'static str {
        match self {
            AppErrorKind::Dns => "dns",
            AppErrorKind::Connect => "connect",
            AppErrorKind::Tls => "tls",
            AppErrorKind::Timeout => "timeout",
            AppErrorKind::Http => "http",
            AppErrorKind::Status => "status",
            AppErrorKind::TooLarge => "too_large",
            AppErrorKind::Parse => "parse",
        }
    }
}

/// Why a page could not be read, with the text for the log. Holds no secret.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The request failed; the text leaves out the URL.
    #[error("{}", one_line(error))]
    Request {
        /// What it counts as.
        kind: AppErrorKind,
        /// What the HTTP client says.
        error: reqwest::Error,
    },
    /// No TLS on this system.
    #[error("no TLS: {0}")]
    Tls(rustls::Error),
    /// A status other than 200.
    #[error("HTTP status {0}, not 200; redirects are not followed")]
    Status(u16),
    /// Too many bytes.
    #[error("the page has more than {MAX_PAGE_BYTES} bytes")]
    TooManyBytes,
    /// Too many series.
    #[error("the mapping fits more than {} series", page::MAX_SERIES)]
    TooManySeries,
    /// No line of the page is a series.
    #[error("not a page of counters: {0}")]
    NotAPage(PageProblem),
    /// OpenMetrics without its end.
    #[error("the page is cut off: OpenMetrics ends with `# EOF`")]
    CutOff,
}

impl AppError {
    /// The bounded form.
    pub fn kind(&self) -> AppErrorKind {
        match self {
            AppError::Request { kind, .. } => *kind,
            AppError::Tls(_) => AppErrorKind::Tls,
            AppError::Status(_) => AppErrorKind::Status,
            AppError::TooManyBytes | AppError::TooManySeries => AppErrorKind::TooLarge,
            AppError::NotAPage(_) | AppError::CutOff => AppErrorKind::Parse,
        }
    }
}

impl From<reqwest::Error> for AppError {
    fn from(error: reqwest::Error) -> AppError {
        AppError::Request { kind: kind_of(&error), error: error.without_url() }
    }
}

/// One application: its page and what it has counted.
#[derive(Debug)]
pub struct AppSource {
    name: Arc<str>,
    url: PageUrl,
    client: reqwest::Client,
    clock: Clock,
    tally: Tally,
    wanted: HashSet<String>,
    /// What the last page added; empty after a failure.
    step: Step,
    last_success: Option<f64>,
    failure: Option<AppErrorKind>,
    errors: HashMap<AppErrorKind, u64>,
    warned: HashMap<Warning, f64>,
    warned_of_bad_lines: Option<f64>,
}

impl AppSource {
    /// A source that has read nothing. `timeout` is for the whole read, connecting included.
    ///
    /// # Errors
    /// When no HTTP client can be made, as with unusable system certificates.
    pub fn new(config: &AppConfig, timeout: Duration, clock: Clock) -> Result<AppSource, AppError> {
        let client = http_client(&config.url, timeout)?;
        let tally = Tally::new(config.mapping.clone());
        Ok(AppSource {
            name: Arc::clone(&config.name),
            url: config.url.clone(),
            client,
            clock,
            wanted: tally.wanted().collect(),
            tally,
            step: Step::default(),
            last_success: None,
            failure: None,
            errors: HashMap::new(),
            warned: HashMap::new(),
            warned_of_bad_lines: None,
        })
    }

    /// Reads the page once. A change between reading and failing, and anything odd on the page, is
    /// logged here, once; afterwards [`AppSource::state`] has the outcome.
    ///
    /// # Errors
    /// Why the page could not be read; its text is in the log already.
    pub async fn read(&mut self) -> Result<(), AppErrorKind> {
        match self.fetch().await {
            Ok(fetched) => {
                let before = self.failure;
                self.take(&fetched).map_err(|error| self.fail(&error))?;
                if before.is_some() {
                    tracing::info!(app = %self.name, url = %self.url, "the application's page is read again");
                }
                Ok(())
            }
            Err(error) => Err(self.fail(&error)),
        }
    }

    /// What the last read added; all unknown after a failed one.
    pub fn step(&self) -> &Step {
        &self.step
    }

    /// What may be said about the application now.
    pub fn state(&self) -> AppState {
        let totals = self.tally.totals();
        let of = |counter| totals.get(counter);
        let reasons = AppErrorKind::ALL.into_iter();
        AppState {
            app: Arc::clone(&self.name),
            up: self.last_success.is_some() && self.failure.is_none(),
            last_success: self.last_success,
            errors_by_reason: reasons
                .map(|kind| (kind.as_str(), self.errors.get(&kind).copied().unwrap_or(0)))
                .collect(),
            totals: AppTotals {
                hits: of(Counter::Hits),
                misses: of(Counter::Misses),
                loads: of(Counter::Loads),
                loads_coalesced: of(Counter::LoadsCoalesced),
                errors: of(Counter::Errors),
                not_found: of(Counter::NotFound),
                lock_acquired: of(Counter::LockAcquired),
                lock_contended: of(Counter::LockContended),
                lock_timeout: of(Counter::LockTimeout),
                lock_error: of(Counter::LockError),
            },
        }
    }

    async fn fetch(&self) -> Result<Fetched, AppError> {
        let request = self.client.get(&self.url.0).header(ACCEPT, ACCEPTED);
        let mut response = request.send().await?;
        if response.status() != reqwest::StatusCode::OK {
            return Err(AppError::Status(response.status().as_u16()));
        }
        let headers = response.headers();
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let open_metrics =
            kind.is_some_and(|kind| kind.starts_with("application/openmetrics-text"));
        let delimited = headers.contains_key(CONTENT_LENGTH)
            || headers.contains_key(TRANSFER_ENCODING)
            || headers.contains_key(CONTENT_ENCODING);
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > MAX_PAGE_BYTES {
                return Err(AppError::TooManyBytes);
            }
            body.extend_from_slice(&chunk);
        }
        // A body whose length was announced came whole: a missing last line end is no cut.
        if delimited && !body.ends_with(b"\n") {
            body.push(b'\n');
        }
        Ok(Fetched { body, open_metrics })
    }

    fn take(&mut self, fetched: &Fetched) -> Result<(), AppError> {
        let (page, problems) = page::parse(&fetched.body, |name| self.wanted.contains(name));
        if page.overflowed {
            return Err(AppError::TooManySeries);
        }
        if fetched.open_metrics && !page.ended {
            return Err(AppError::CutOff);
        }
        if let (0, Some(problem)) = (page.series_lines, problems.first()) {
            return Err(AppError::NotAPage(*problem));
        }
        let now = self.clock.now();
        self.step = self.tally.take(now, &page);
        self.last_success = Some(now);
        self.failure = None;
        self.warn(now, &page, &problems);
        Ok(())
    }

    fn warn(&mut self, now: f64, page: &Page<'_>, problems: &[PageProblem]) {
        let due = |last: Option<f64>| last.is_none_or(|last| now - last > WARN_AGAIN_AFTER);
        for warning in &self.step.warnings {
            if due(self.warned.insert(*warning, now)) {
                tracing::warn!(app = %self.name, url = %self.url, "{warning}");
            }
        }
        if let Some(problem) = problems.first()
            && due(self.warned_of_bad_lines.replace(now))
        {
            let lines = page.bad_lines;
            tracing::warn!(app = %self.name, url = %self.url, lines, "bad lines are passed over; the first is {problem}");
        }
    }

    fn fail(&mut self, error: &AppError) -> AppErrorKind {
        let kind = error.kind();
        if self.failure.replace(kind) != Some(kind) {
            let reason = kind.as_str();
            tracing::warn!(app = %self.name, url = %self.url, reason, "the application's page cannot be read: {error}");
        }
        *self.errors.entry(kind).or_default() += 1;
        self.step = Step::default();
        self.tally.interrupt();
        kind
    }
}

/// A page's bytes, whole as far as HTTP can tell.
struct Fetched {
    body: Vec<u8>,
    open_metrics: bool,
}

/// A client that connects to the address in a URL and nowhere else. `timeout` is for a whole
/// exchange, connecting included.
///
/// # Errors
/// When there is no TLS on this system.
pub(crate) fn http_client(url: &PageUrl, timeout: Duration) -> Result<reqwest::Client, AppError> {
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls(url)?)
        .timeout(timeout)
        // What is not in the configuration is never connected to.
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .pool_max_idle_per_host(1)
        .user_agent(concat!("stampede-exporter/", env!("CARGO_PKG_VERSION")));
    Ok(builder.build()?)
}

/// TLS with the system's certificates, which a plain `http` page does not need.
fn tls(url: &PageUrl) -> Result<ClientConfig, AppError> {
    let mut roots = RootCertStore::empty();
    if url.0.starts_with("https:") {
        let system = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(system.certs);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(AppError::Tls)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn kind_of(error: &reqwest::Error) -> AppErrorKind {
    let mut source = error.source();
    let (mut tls, mut dns) = (false, false);
    while let Some(cause) = source {
        // The HTTP client has no types for these.
        let text = cause.to_string();
        tls |= cause.is::<rustls::Error>() || text.starts_with("tls handshake");
        dns |= text.starts_with("dns error");
        // An IO error's `source` skips the error that it wraps.
        let wrapped = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        source = match wrapped {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    match () {
        () if error.is_timeout() => AppErrorKind::Timeout,
        () if tls => AppErrorKind::Tls,
        () if dns => AppErrorKind::Dns,
        () if error.is_connect() => AppErrorKind::Connect,
        () => AppErrorKind::Http,
    }
}
