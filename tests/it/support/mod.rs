//! The world that tests own: real servers on ports of their own, cleaned up when dropped.
#![allow(dead_code)] // not every module needs every helper

pub mod alertmanager;
pub mod exporter;
pub mod fake;
pub mod page;
pub mod postgres;
pub mod prometheus;
pub mod redis;
pub mod scene;
pub mod shop;
pub mod tls;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long a condition may take on a slow machine before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A runtime of one thread, as the program has it.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Waits until `probe` gives a value, and fails with `what` if it does not within [`PATIENCE`].
pub fn wait_for<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    wait_for_within(PATIENCE, what, probe)
}

/// Waits until `probe` gives a value, and fails with `what` if it does not within `limit`.
#[allow(clippy::disallowed_methods)] // the one place in the tests that waits
pub fn wait_for_within<T>(limit: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a program to its end; fails with its name and what installs it when it is not there.
pub fn run(program: &str, args: &[&str]) -> std::process::Output {
    std::process::Command::new(program)
        .args(args)
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}; `make tools` installs what the tests need"))
}

/// An HTTP answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: String,
    pub body: String,
}

/// One plain HTTP GET; `target` is the path with its query.
pub fn get(port: u16, target: &str) -> Option<Answer> {
    get_with(port, target, &[])
}

/// One plain HTTP GET with header lines.
pub fn get_with(port: u16, target: &str, headers: &[&str]) -> Option<Answer> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let extra: String = headers.iter().map(|h| format!("{h}\r\n")).collect();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\n{extra}Connection: close\r\n\r\n")
        .ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (headers, body) = text.split_once("\r\n\r\n")?;
    let status = headers.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, headers: headers.to_owned(), body: body.to_owned() })
}
