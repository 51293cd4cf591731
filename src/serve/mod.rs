//! What people and Prometheus see: `/metrics`, the API and the page.
//!
//! Everything is answered from what hangs on the [`Board`]; no request makes the exporter talk to
//! anything else.

mod api;
mod history;
mod keys;
mod listener;
mod metrics;
mod page;
mod query;
mod state;
mod time;

use std::future::{Future, pending};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use tokio::net::TcpListener;

pub use api::incident_line;
pub use keys::text as key_text;
pub use metrics::{Build, render};

use crate::board::{Board, View};
use crate::clock::Clock;
use crate::shipped;
use api::{CacheJson, IncidentJson, newest_first};
use history::History;
use listener::{Bounded, IDLE_LIMIT, MAX_CONNECTIONS};
use query::{QueryError, Wanted};

/// How long running requests may take to end after the shutdown: SIGTERM ends the exporter within
/// a second, and a client that does not read must not change that.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

const TEXT: &str = "text/plain; charset=utf-8";

/// Serves the board on `listener` until `shutdown` resolves and the running requests have ended,
/// or half a second later when they do not end.
///
/// # Errors
///
/// What the listener reports, when it can no longer be served.
pub async fn serve(
    listener: TcpListener,
    board: Board,
    clock: Clock,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let watched = board.subscribe();
    let state =
        Arc::new(Served { board, clock, history: History::default(), page: Mutex::default() });
    let bounded = Bounded::new(listener, MAX_CONNECTIONS, IDLE_LIMIT);
    let (tell, told) = tokio::sync::oneshot::channel();
    let server =
        axum::serve(bounded, routes(Arc::clone(&state))).with_graceful_shutdown(async move {
            shutdown.await;
            let _ = tell.send(());
        });
    let overdue = async {
        if told.await.is_err() {
            pending::<()>().await;
        }
        tokio::time::sleep(SHUTDOWN_GRACE).await;
    };
    tokio::select! {
        ended = server => ended,
        () = overdue => Ok(()),
        () = state.history.follow(watched) => Ok(()),
    }
}

/// What the routes share.
struct Served {
    board: Board,
    clock: Clock,
    history: History,
    /// The last whole metric page.
    page: Mutex<Option<Kept>>,
}

/// A metric page that was made: scrapes come in pairs and from several Prometheus servers,
/// snapshots once a poll.
struct Kept {
    /// What it shows.
    view: View,
    /// When it was made, Unix seconds.
    time: f64,
    page: Bytes,
}

/// Seconds for which a page of an unchanged board is kept: the figures of our own process move on.
const KEEP_PAGE: f64 = 1.0;

fn routes(state: Arc<Served>) -> Router {
    Router::new()
        .route("/metrics", get(metrics_page))
        .route("/-/healthy", get(healthy))
        .route("/-/ready", get(ready))
        .route("/api/v1/caches", get(caches))
        .route("/api/v1/incidents", get(incidents))
        .route("/api/v1/history", get(history))
        .route("/", get(person))
        .route("/runbooks", get(async || html(page::runbooks())))
        .route("/runbooks/{name}", get(runbook_page))
        .route("/assets/page.css", get(|| asset("text/css; charset=utf-8", page::STYLE)))
        .route("/assets/page.js", get(|| asset("text/javascript; charset=utf-8", page::SCRIPT)))
        .route("/assets/icon.svg", get(|| asset("image/svg+xml", page::ICON)))
        .fallback(|| async { (StatusCode::NOT_FOUND, "no such page; / lists what there is\n") })
        .layer(middleware::from_fn(guard))
        .with_state(state)
}

/// Headers that every answer carries: nothing is stored, nothing is guessed from its bytes.
async fn guard(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    response
}

async fn metrics_page(State(served): State<Arc<Served>>, uri: Uri) -> Result<Response, QueryError> {
    let wanted = Wanted::parse(&uri, &["cache"])?;
    let view = served.board.view();
    let page = if wanted.everything() {
        served.whole_page(view)
    } else {
        let caches = wanted.select(&view)?;
        metric_page(&View { caches, ..view })
    };
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response())
}

fn metric_page(view: &View) -> Bytes {
    let mut page = render(view, &Build::this());
    page.push_str(&metrics::process::render());
    page.into()
}

impl Served {
    fn whole_page(&self, view: View) -> Bytes {
        let time = self.clock.now();
        let mut kept = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.as_ref()
            && time - kept.time < KEEP_PAGE
            && same(&kept.view, &view)
        {
            return kept.page.clone();
        }
        let page = metric_page(&view);
        *kept = Some(Kept { view, time, page: page.clone() });
        page
    }
}

/// Whether two views hold the very same snapshots.
fn same(a: &View, b: &View) -> bool {
    a.reload_successful == b.reload_successful
        && a.caches.len() == b.caches.len()
        && a.caches.iter().zip(&b.caches).all(|(a, b)| Arc::ptr_eq(a, b))
}

async fn healthy(uri: Uri) -> Result<&'static str, QueryError> {
    Wanted::parse(&uri, &[])?;
    Ok("healthy\n")
}

/// Ready once every cache was polled once, whether the poll worked or not: from then on the page
/// says what is the case.
async fn ready(State(served): State<Arc<Served>>, uri: Uri) -> Result<Response, QueryError> {
    Wanted::parse(&uri, &[])?;
    let view = served.board.view();
    let waiting: Vec<_> =
        view.caches.iter().filter(|c| c.polls == 0).map(|c| format!("{:?}", c.cache)).collect();
    Ok(if waiting.is_empty() {
        "ready\n".into_response()
    } else {
        let text = format!("not polled yet: {}\n", waiting.join(", "));
        (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
    })
}

async fn caches(State(served): State<Arc<Served>>, uri: Uri) -> Result<Response, QueryError> {
    let wanted = Wanted::parse(&uri, &["cache"])?;
    let caches = wanted.select(&served.board.view())?;
    Ok(json(&caches.iter().map(|cache| CacheJson::of(cache)).collect::<Vec<_>>()))
}

async fn incidents(State(served): State<Arc<Served>>, uri: Uri) -> Result<Response, QueryError> {
    let wanted = Wanted::parse(&uri, &["cache", "limit"])?;
    let caches = wanted.select(&served.board.view())?;
    let all = newest_first(caches.iter().map(AsRef::as_ref)).into_iter();
    let shown = all.take(wanted.limit.unwrap_or(usize::MAX));
    let wire: Vec<_> = shown.map(|(cache, one)| IncidentJson::of(&cache.cache, one)).collect();
    Ok(json(&wire))
}

async fn history(State(served): State<Arc<Served>>, uri: Uri) -> Result<Response, QueryError> {
    let wanted = Wanted::parse(&uri, &["cache", "since"])?;
    let caches = wanted.select(&served.board.view())?;
    let names = caches.iter().map(|cache| &cache.cache);
    Ok(served.history.tell(names, wanted.since.unwrap_or(0.0), |histories| json(&histories)))
}

/// Writes it twice, the first time for its length: a buffer that grows to a hundred kilobytes leaves
/// holes as large in the heap.
fn json(value: &impl Serialize) -> Response {
    let mut length = Length(0);
    let written = serde_json::to_writer(&mut length, value).and_then(|()| {
        let mut bytes = Vec::with_capacity(length.0);
        serde_json::to_writer(&mut bytes, value).map(|()| bytes)
    });
    match written {
        Ok(bytes) => ([(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        // The wire types have string keys only and no way to fail.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Counts the bytes that are written to it.
struct Length(usize);

impl Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn person(State(served): State<Arc<Served>>, uri: Uri) -> Result<Response, QueryError> {
    Wanted::parse(&uri, &[])?;
    let text = page::render(&served.board.view(), &Build::this(), served.clock.now());
    Ok(html(text))
}

async fn runbook_page(Path(name): Path<String>) -> Response {
    match shipped::runbook(&name) {
        Some(text) => html(page::runbook(&name, text)),
        None => {
            let names: Vec<_> = shipped::RUNBOOKS.iter().map(|(name, _)| *name).collect();
            let text = format!("no runbook named {name:?}; there are: {}\n", names.join(", "));
            (StatusCode::NOT_FOUND, text).into_response()
        }
    }
}

fn html(text: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, page::SECURITY_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, text).into_response()
}

async fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind)], text)
}

impl IntoResponse for QueryError {
    fn into_response(self) -> Response {
        let status = match self {
            QueryError::UnknownCache { .. } => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_REQUEST,
        };
        (status, [(header::CONTENT_TYPE, TEXT)], format!("{self}\n")).into_response()
    }
}
