//! The signals that the process understands.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask for the end.
#[derive(Debug)]
pub struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    /// Catches them from now on.
    ///
    /// # Errors
    ///
    /// What the system reports when it does not let them be caught.
    pub fn catch() -> io::Result<Ends> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Ends { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for one of them, and names it.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// SIGHUP, which asks to read the configuration again.
pub(crate) fn hangup() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}
