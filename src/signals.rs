//! The signals that the process understands.

use std::future::pending;
use std::{fs, io};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask for the end.
#[derive(Debug)]
pub struct Ends {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Ends {
    /// Catches them from now on.
    ///
    /// # Errors
    ///
    /// What the system reports when it does not let them be caught.
    pub fn catch() -> io::Result<Ends> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Ends { terminate, interrupt: signal(SignalKind::interrupt())?, hangup: None })
    }

    /// Catches these and the end of the terminal that the process was started from, unless that
    /// was with `nohup`.
    ///
    /// # Errors
    ///
    /// As [`Ends::catch`].
    pub fn catch_in_terminal() -> io::Result<Ends> {
        let hangup = if outlives_its_terminal() { None } else { Some(hangup()?) };
        Ok(Ends { hangup, ..Ends::catch()? })
    }

    /// Waits for one of them, and names it.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = received(&mut self.hangup) => "SIGHUP",
        }
    }
}

/// Waits for a signal, for ever where it is not caught.
async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => pending().await,
    }
}

/// Whether SIGHUP was ignored when the process was started. (Linux tells; elsewhere it was not.)
fn outlives_its_terminal() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The lowest bit is signal 1.
    mask.is_some_and(|mask| mask & 1 == 1)
}

/// SIGHUP, which asks to read the configuration again.
pub(crate) fn hangup() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}
