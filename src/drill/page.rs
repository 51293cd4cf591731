//! Serves the drill's counters on loopback, as an instrumented application does.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::counters::Counters;

/// A request's head is at most this long; scrapers send some hundred bytes.
const HEAD_LIMIT: usize = 16 * 1024;
/// A connection on which nothing was asked for that long is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// The page; dropping it closes the port.
#[derive(Debug)]
pub struct Page {
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl Page {
    /// Serves the counters on a free loopback port.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn open(counters: Arc<Counters>) -> std::io::Result<Page> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(serve(listener, counters));
        Ok(Page { address, server })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, counters: Arc<Counters>) {
    // The connections end with the set, and the set with this task.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                connections.spawn(answer(stream, Arc::clone(&counters)));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Answers every request on one connection with the page, until it is closed or makes no sense.
async fn answer(mut stream: TcpStream, counters: Arc<Counters>) {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    loop {
        let read = tokio::time::timeout(IDLE_LIMIT, stream.read(&mut part)).await;
        let Ok(Ok(length @ 1..)) = read else { return };
        head.extend_from_slice(part.get(..length).unwrap_or_default());
        if head.len() > HEAD_LIMIT {
            return;
        }
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        head.clear();
        let body = counters.page();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}
