//! The server on a port of its own, with a board that the test writes to.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use stampede_exporter::board::{Board, View};
use stampede_exporter::clock::Clock;
use stampede_exporter::serve::serve;
use tokio::sync::oneshot;

use crate::support::{Answer, get, get_with};

/// A running server; ends when dropped, and the test fails when it does not end well.
pub struct Server {
    pub port: u16,
    pub board: Board,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Server {
    /// Serves this view.
    pub fn start(view: &View) -> Server {
        let board = Board::new(view.caches.iter().map(|cache| Arc::clone(&cache.cache)));
        for cache in &view.caches {
            board.publish(cache.as_ref().clone());
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        listener.set_nonblocking(true).expect("a listener for tokio");
        let (stop, stopped) = oneshot::channel::<()>();
        let served = board.clone();
        let thread = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(
                async move {
                    let listener = tokio::net::TcpListener::from_std(listener)?;
                    let shutdown = async {
                        let _ = stopped.await;
                    };
                    serve(listener, served, Clock::start(), shutdown).await
                },
            )
        });
        Server { port, board, stop: Some(stop), thread: Some(thread) }
    }

    pub fn get(&self, target: &str) -> Answer {
        get(self.port, target).unwrap_or_else(|| panic!("no answer to {target}"))
    }

    pub fn get_with(&self, target: &str, headers: &[&str]) -> Answer {
        get_with(self.port, target, headers).unwrap_or_else(|| panic!("no answer to {target}"))
    }

    /// Asks it to end and waits until it has.
    pub fn stop(&mut self) -> std::io::Result<()> {
        drop(self.stop.take());
        self.thread.take().map_or(Ok(()), |thread| thread.join().expect("no panic"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.stop();
        assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
    }
}
