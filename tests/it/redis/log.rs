//! What is logged while a test runs on its own thread.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing::subscriber::DefaultGuard;

/// The log of this thread until it is dropped.
pub struct Log {
    text: Arc<Mutex<Vec<u8>>>,
    _guard: DefaultGuard,
}

/// Captures everything, down to the finest level of every library.
pub fn capture() -> Log {
    let text = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&text);
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || Sink(Arc::clone(&sink)))
        .finish();
    Log { text, _guard: tracing::subscriber::set_default(subscriber) }
}

impl Log {
    /// All of it.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }

    /// The lines of one crate at levels that people see.
    pub fn lines(&self, of: &str) -> Vec<String> {
        let text = self.text();
        let seen = |line: &&str| !line.contains(" TRACE ") && !line.contains(" DEBUG ");
        text.lines().filter(|line| line.contains(of)).filter(seen).map(str::to_owned).collect()
    }
}

struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
