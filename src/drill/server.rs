//! A redis-server of the drill's own: started on a free loopback port, gone when dropped.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;

/// Another program may take the port between our looking and the server's binding it; that this
/// happens five times in a row is not luck any more.
const ATTEMPTS: usize = 5;
/// How long the server may take to accept connections; normally it needs some milliseconds.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Why there is no private server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The program is not installed.
    #[error(
        "redis-server is not installed; on Debian `apt-get install redis-server` brings it, \
         or name a server with --redis.addr"
    )]
    Missing,
    /// The program cannot be started, or its directory cannot be made.
    #[error("redis-server cannot be started: {0}")]
    Io(#[from] std::io::Error),
    /// It ended before it accepted a connection.
    #[error("redis-server ended at once: {0}")]
    Ended(String),
    /// It runs but accepts no connection.
    #[error("redis-server accepts no connection on port {0}")]
    Silent(u16),
}

/// A running private server. Dropping it ends the process and removes its directory.
#[derive(Debug)]
pub struct PrivateServer {
    child: Child,
    port: u16,
    directory: TempDir,
}

impl PrivateServer {
    /// Starts a server that keeps nothing on disk and listens on loopback only.
    ///
    /// # Errors
    /// When the program is missing, cannot be started or accepts no connection.
    pub async fn start() -> Result<PrivateServer, ServerError> {
        let mut last = ServerError::Silent(0);
        for _ in 0..ATTEMPTS {
            match PrivateServer::start_once().await {
                Err(error @ ServerError::Ended(_)) => last = error,
                done => return done,
            }
        }
        Err(last)
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where the server's log is, as long as the server runs.
    pub fn directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// Freezes the server: the kernel still accepts connections, nothing is answered.
    ///
    /// # Errors
    /// When `kill` cannot be run.
    pub fn freeze(&self) -> std::io::Result<()> {
        self.signal("-STOP")
    }

    /// Wakes a frozen server.
    ///
    /// # Errors
    /// When `kill` cannot be run.
    pub fn wake(&self) -> std::io::Result<()> {
        self.signal("-CONT")
    }

    async fn start_once() -> Result<PrivateServer, ServerError> {
        let directory = tempfile::Builder::new().prefix("stampede-drill-").tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let log = File::create(directory.path().join("redis.log"))?;
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A Ctrl-C at the terminal is for us: the server ends when we end it.
            .process_group(0)
            .spawn()
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => ServerError::Missing,
                _ => ServerError::Io(error),
            })?;
        let mut server = PrivateServer { child, port, directory };
        server.wait_until_it_accepts().await?;
        Ok(server)
    }

    async fn wait_until_it_accepts(&mut self) -> Result<(), ServerError> {
        let deadline = tokio::time::Instant::now() + START_LIMIT;
        while tokio::time::Instant::now() < deadline {
            if self.child.try_wait()?.is_some() {
                return Err(ServerError::Ended(self.last_log_line()));
            }
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(ServerError::Silent(self.port))
    }

    fn last_log_line(&self) -> String {
        let log = std::fs::read_to_string(self.directory.path().join("redis.log"));
        log.ok()
            .and_then(|log| log.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned))
            .unwrap_or_else(|| "it left no log".to_owned())
    }

    fn signal(&self, signal: &str) -> std::io::Result<()> {
        let status = Command::new("kill").args([signal, &self.pid().to_string()]).status()?;
        match status.success() {
            true => Ok(()),
            false => Err(std::io::Error::other(format!("kill {signal} failed"))),
        }
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        // Nothing is kept, so there is nothing to save; a frozen server ends this way as well.
        // That it may be gone already is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
