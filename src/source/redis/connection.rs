//! A connection to a server that is open and logged in.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisConnectionInfo};
use redis::{RedisError, Value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;

use super::error::{PollError, PollErrorKind};

/// The longest answer that is taken, bytes. An `INFO` has some ten thousand; keys, whose names a
/// sampler asks for, may be long, but a server that goes on and on shall not fill our memory.
const LONGEST_ANSWER: usize = 64 << 20;

/// A connection. It closes when it is dropped, whatever was under way on it.
#[derive(Debug)]
pub struct Connection {
    inner: MultiplexedConnection,
    driver: JoinHandle<()>,
    heard: Arc<Heard>,
}

impl Connection {
    /// Takes over a stream on which nothing was said yet.
    pub(super) async fn over<S>(stream: S) -> Result<Connection, PollError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Logging in is ours to do, since passwords are bytes; the library's own greetings would be
        // refused to users who may do nothing but INFO. Deadlines are ours too.
        let login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let heard = Arc::new(Heard::default());
        let stream = SpeakFirst::new(stream, Arc::clone(&heard));
        match MultiplexedConnection::new_with_config(&login, stream, config).await {
            Ok((inner, driver)) => Ok(Connection { inner, driver: tokio::spawn(driver), heard }),
            Err(error) => Err(heard.explain(error)),
        }
    }

    /// Sends a command and gives its answer; an error reply is a [`Value::ServerError`].
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn ask(&mut self, command: &Cmd) -> Result<Value, PollError> {
        let answer = self.inner.send_packed_command(command).await;
        answer.map_err(|error| self.heard.explain(error))
    }

    /// Sends commands together and gives their answers in order; an error reply is one of them.
    ///
    /// # Errors
    /// The connection is of no more use, and some of the commands may have been executed.
    pub async fn ask_all(&mut self, commands: &Pipeline) -> Result<Vec<Value>, PollError> {
        let answers = self.inner.send_packed_commands(commands, 0, commands.len()).await;
        answers.map_err(|error| self.heard.explain(error))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What came from the server, as far as it explains an error.
#[derive(Debug, Default)]
struct Heard {
    end: AtomicBool,
    /// An answer longer than we take.
    too_long: AtomicBool,
    /// An error of TLS, such as the refusal of a missing client certificate, which TLS 1.3 sends
    /// after the handshake.
    tls_error: AtomicBool,
}

impl Heard {
    fn note(&self, read: &io::Result<()>, length: usize) {
        match read {
            Ok(()) if length == 0 => self.end.store(true, Ordering::Relaxed),
            Err(error) if error.get_ref().is_some_and(|cause| cause.is::<rustls::Error>()) => {
                self.tls_error.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn explain(&self, error: RedisError) -> PollError {
        let (kind, text) = if self.tls_error.load(Ordering::Relaxed) {
            (PollErrorKind::Tls, "the server ended the TLS connection")
        } else if self.too_long.load(Ordering::Relaxed) {
            (PollErrorKind::Protocol, "the answer is longer than any that Redis gives")
        } else if error.kind() == ErrorKind::Io || self.end.load(Ordering::Relaxed) {
            (PollErrorKind::Closed, "the server closed the connection")
        } else {
            (PollErrorKind::Protocol, "the answer is not what Redis would say")
        };
        PollError::because(kind, text, error)
    }
}

/// A stream that is not read before something was written to it.
///
/// A server that is full says so without being asked and closes. The library throws away what comes
/// while it waits for no answer, so that line has to wait until a question is under way.
#[derive(Debug)]
struct SpeakFirst<S> {
    stream: S,
    spoken: bool,
    reader: Option<Waker>,
    /// Bytes read since something was written last.
    answered: usize,
    heard: Arc<Heard>,
}

impl<S> SpeakFirst<S> {
    fn new(stream: S, heard: Arc<Heard>) -> SpeakFirst<S> {
        SpeakFirst { stream, spoken: false, reader: None, answered: 0, heard }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SpeakFirst<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.spoken {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        let length = buffer.filled().len() - before;
        self.heard.note(&read, length);
        self.answered = self.answered.saturating_add(length);
        if self.answered > LONGEST_ANSWER {
            self.heard.too_long.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SpeakFirst<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.spoken = true;
        self.answered = 0;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
