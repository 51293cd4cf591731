//! A connection to a server that is open and logged in.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisResult, Value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;

/// A connection. It closes when it is dropped, whatever was under way on it.
#[derive(Debug)]
pub struct Connection {
    inner: MultiplexedConnection,
    driver: JoinHandle<()>,
}

impl Connection {
    /// Takes over a stream on which nothing was said yet.
    pub(super) async fn over<S>(stream: S) -> RedisResult<Connection>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Logging in is ours to do, since passwords are bytes; the library's own greetings would be
        // refused to users who may do nothing but INFO. Deadlines are ours too.
        let login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let stream = SpeakFirst::new(stream);
        let (inner, driver) =
            MultiplexedConnection::new_with_config(&login, stream, config).await?;
        Ok(Connection { inner, driver: tokio::spawn(driver) })
    }

    /// Sends a command and gives its answer; an error reply is a [`Value::ServerError`].
    pub async fn ask(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.inner.send_packed_command(command).await
    }

    /// Sends commands together and gives their answers in order; an error reply is one of them.
    pub async fn ask_all(&mut self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        self.inner.send_packed_commands(commands, 0, commands.len()).await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
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
}

impl<S> SpeakFirst<S> {
    fn new(stream: S) -> SpeakFirst<S> {
        SpeakFirst { stream, spoken: false, reader: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SpeakFirst<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if !self.spoken {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SpeakFirst<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.spoken = true;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
