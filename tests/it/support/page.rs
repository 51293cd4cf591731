//! An application page whose text the test sets.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Serves one text at any path until dropped (the thread ends with the test process).
pub struct Page {
    pub port: u16,
    text: Arc<Mutex<String>>,
}

impl Page {
    /// Serves `text` on a free port.
    pub fn start(text: &str) -> Page {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let shared = Arc::new(Mutex::new(text.to_owned()));
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let served = Arc::clone(&served);
                std::thread::spawn(move || answer(stream, &served));
            }
        });
        Page { port, text: shared }
    }

    /// The page's address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.port)
    }

    /// Replaces the text.
    pub fn set(&self, text: &str) {
        *self.text.lock().expect("the text") = text.to_owned();
    }
}

fn answer(mut stream: std::net::TcpStream, text: &Mutex<String>) {
    let Ok(reader) = stream.try_clone() else { return };
    let mut lines = BufReader::new(reader).lines();
    while let Some(Ok(line)) = lines.next() {
        if !line.is_empty() {
            continue;
        }
        let body = text.lock().expect("the text").clone();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n";
        let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
        if stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body.as_bytes()))
            .is_err()
        {
            return;
        }
    }
}
