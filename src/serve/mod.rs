//! What people and Prometheus see: `/metrics`, the API and the page.
//!
//! Everything is answered from what hangs on the [`Board`]; no request makes the exporter talk to
//! anything else.

mod metrics;
mod query;

use std::future::{Future, pending};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

pub use metrics::{Build, render};

use crate::board::{Board, View};
use crate::clock::Clock;
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
    _clock: Clock,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let state = Arc::new(Served { board, page: Mutex::default() });
    let (tell, told) = tokio::sync::oneshot::channel();
    let server = axum::serve(listener, routes(state)).with_graceful_shutdown(async move {
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
    }
}

/// What the routes share.
struct Served {
    board: Board,
    /// The last whole metric page and the view it shows: scrapes come in pairs and from several
    /// Prometheus servers, snapshots once a poll.
    page: Mutex<Option<(View, Arc<str>)>>,
}

fn routes(state: Arc<Served>) -> Router {
    Router::new()
        .route("/metrics", get(metrics_page))
        .route("/-/healthy", get(healthy))
        .route("/-/ready", get(ready))
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
    let mut page = if wanted.everything() {
        served.whole_page(&view).to_string()
    } else {
        let caches = wanted.select(&view)?;
        render(&View { caches, ..view }, &Build::this())
    };
    page.push_str(&metrics::process::render());
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response())
}

impl Served {
    fn whole_page(&self, view: &View) -> Arc<str> {
        let mut kept = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((shown, page)) = kept.as_ref()
            && same(shown, view)
        {
            return Arc::clone(page);
        }
        let page: Arc<str> = render(view, &Build::this()).into();
        *kept = Some((view.clone(), Arc::clone(&page)));
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

impl IntoResponse for QueryError {
    fn into_response(self) -> Response {
        let status = match self {
            QueryError::UnknownCache { .. } => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_REQUEST,
        };
        (status, [(header::CONTENT_TYPE, TEXT)], format!("{self}\n")).into_response()
    }
}
