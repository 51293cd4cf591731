//! Connections with an end: so many at once, and none for ever.
//!
//! A client that connects and says nothing must not use up the descriptors that the exporter needs
//! to reach its caches.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Half of the 1024 descriptors that a process has by default; the rest is for the caches.
pub(super) const MAX_CONNECTIONS: usize = 512;

/// Longer than a scrape interval of a minute, so that a Prometheus keeps its connection, and no
/// multiple of a usual one, so that the end does not meet a scrape.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(95);

/// How long to wait after the kernel refused a connection, for want of descriptors mostly.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// A listener that hands out a bounded number of [`Connection`]s.
pub(super) struct Bounded {
    listener: TcpListener,
    free: Arc<Semaphore>,
    idle_limit: Duration,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, connections: usize, idle_limit: Duration) -> Bounded {
        Bounded { listener, free: Arc::new(Semaphore::new(connections)), idle_limit }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Connection, Self::Addr) {
        // The semaphore is never closed; without a place the clients wait in the kernel's queue.
        let place = Arc::clone(&self.free).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    let idle = Box::pin(sleep(self.idle_limit));
                    let idle_limit = self.idle_limit;
                    return (Connection { stream, idle, idle_limit, _place: place }, address);
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection was not accepted");
                    sleep(REFUSED_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that fails when nothing moves on it for the idle limit.
pub(super) struct Connection {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    idle_limit: Duration,
    /// Its place among the connections, free again when it is dropped.
    _place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// What a read or write gave; progress starts the wait anew, the end of the wait is an error.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        progress: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            // Time is the runtime's own here: nothing is measured, only waited for.
            self.idle.as_mut().reset(Instant::now() + self.idle_limit);
            return progress;
        }
        self.idle.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.watch(context, progress)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Serves `ok` on a free port.
    async fn start(connections: usize, idle_limit: Duration) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = axum::Router::new().route("/", axum::routing::get(|| async { "ok" }));
        let bounded = Bounded::new(listener, connections, idle_limit);
        tokio::spawn(async move { axum::serve(bounded, router).await });
        address
    }

    #[tokio::test]
    async fn a_silent_connection_ends_by_itself() {
        let address = start(10, Duration::from_millis(50)).await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        silent.write_all(b"GET / HTTP/1.1\r\nHost:").await.unwrap();
        let mut answer = Vec::new();
        // Ends without an answer, and would not end otherwise.
        let _ = silent.read_to_end(&mut answer).await;
        assert_eq!(String::from_utf8_lossy(&answer), "");
    }

    #[tokio::test]
    async fn a_place_is_free_again_when_its_client_leaves() {
        let address = start(1, Duration::from_secs(3600)).await;
        let silent = TcpStream::connect(address).await.unwrap();
        let mut waiting = TcpStream::connect(address).await.unwrap();
        waiting.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        drop(silent);
        let mut answer = String::new();
        waiting.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    }
}
