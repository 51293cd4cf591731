//! What is logged while a test runs on its own thread.

use std::cell::RefCell;
use std::io::Write;
use std::sync::{Arc, Mutex, Once};

thread_local! {
    static CAPTURED: RefCell<Option<Arc<Mutex<Vec<u8>>>>> = const { RefCell::new(None) };
}

/// The log of this thread until it is dropped.
pub struct Log(Arc<Mutex<Vec<u8>>>);

/// Captures everything, down to the finest level of every library. One subscriber serves all
/// tests: whether a line is wanted at all is remembered for the whole process.
pub fn capture() -> Log {
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(|| Sink)
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("the only subscriber");
    });
    let text = Arc::new(Mutex::new(Vec::new()));
    CAPTURED.set(Some(Arc::clone(&text)));
    Log(text)
}

impl Log {
    /// All of it.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    /// The lines of one crate at levels that people see.
    pub fn lines(&self, of: &str) -> Vec<String> {
        let text = self.text();
        let seen = |line: &&str| !line.contains(" TRACE ") && !line.contains(" DEBUG ");
        text.lines().filter(|line| line.contains(of)).filter(seen).map(str::to_owned).collect()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        CAPTURED.set(None);
    }
}

/// Writes to whatever the thread captures into.
struct Sink;

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        CAPTURED.with_borrow(|captured| {
            if let Some(text) = captured {
                text.lock().unwrap().extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
