//! A real Alertmanager, and the receiver that it notifies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::redis::free_port;
use super::{get, wait_for};

/// An Alertmanager of the test's own that notifies at once and again every second, killed when
/// dropped.
pub struct Alertmanager {
    child: Child,
    pub port: u16,
    received: Arc<Mutex<Vec<Value>>>,
    _dir: tempfile::TempDir,
}

impl Alertmanager {
    /// Starts it with one route, to a receiver of the test's own.
    pub fn start() -> Alertmanager {
        let received = Arc::default();
        let receiver = receive(Arc::clone(&received));
        let dir = tempfile::tempdir().expect("a temporary directory");
        let config = format!(
            "route: {{ receiver: on-call, group_by: [alertname, cache], group_wait: 0s, \
             group_interval: 1s, repeat_interval: 1s }}\n\
             receivers:\n\
             - name: on-call\n  \
               webhook_configs: [{{ url: 'http://127.0.0.1:{receiver}/', send_resolved: true }}]\n"
        );
        let file = dir.path().join("alertmanager.yml");
        std::fs::write(&file, config).expect("the configuration is written");
        let port = free_port();
        let child = Command::new("prometheus-alertmanager")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            // Alone: no port for others to join.
            .arg("--cluster.listen-address=")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("Alertmanager: {e}; `make tools` installs what tests need"));
        let mut alertmanager = Alertmanager { child, port, received, _dir: dir };
        wait_for("Alertmanager is ready", || {
            if let Some(status) = alertmanager.child.try_wait().expect("its state") {
                panic!("Alertmanager ended with {status}; port {port}");
            }
            get(port, "/-/ready").filter(|answer| answer.status == 200)
        });
        alertmanager
    }

    /// What the receiver was told of an alert so far, the oldest first.
    pub fn received(&self, alertname: &str) -> Vec<Value> {
        let received = self.received.lock().expect("what was received");
        let all = received.iter().flat_map(|n| n["alerts"].as_array().expect("alerts"));
        all.filter(|alert| alert["labels"]["alertname"] == alertname).cloned().collect()
    }
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes notifications on a free port until the test process ends.
fn receive(received: Arc<Mutex<Vec<Value>>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let received = Arc::clone(&received);
            std::thread::spawn(move || while take(&stream, &received).is_some() {});
        }
    });
    port
}

/// Takes one notification and says so; `None` when the connection has ended.
fn take(mut stream: &TcpStream, received: &Mutex<Vec<Value>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let notification = serde_json::from_slice(&body).expect("a notification in JSON");
    received.lock().expect("what was received").push(notification);
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok()
}
