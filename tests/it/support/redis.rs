//! A real redis-server.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use super::{run, wait_for};

/// A redis-server of the test's own, killed when dropped.
pub struct Redis {
    child: Child,
    args: Vec<String>,
    pub port: u16,
    pub dir: tempfile::TempDir,
    /// Arguments for redis-cli beyond the port, such as a password.
    pub cli_args: Vec<String>,
}

impl Redis {
    /// Starts a server that keeps nothing on disk.
    pub fn start() -> Redis {
        Redis::start_with(&[])
    }

    /// Starts a server with further arguments, as on its command line.
    pub fn start_with(args: &[&str]) -> Redis {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        let dir = tempfile::tempdir().expect("a temporary directory");
        let port = free_port();
        let child = spawn(port, dir.path(), &args);
        let mut redis = Redis { child, args, port, dir, cli_args: Vec::new() };
        redis.wait_until_listening();
        redis
    }

    /// The address as the product takes it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command with redis-cli and gives its output without the last line end.
    pub fn cli(&self, args: &[&str]) -> String {
        let port = self.port.to_string();
        let mut all = vec!["-p", &port];
        all.extend(self.cli_args.iter().map(String::as_str));
        all.extend(args);
        let output = run("redis-cli", &all);
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// One field of INFO, as text.
    pub fn info(&self, section: &str, field: &str) -> Option<String> {
        let text = self.cli(&["INFO", section]);
        let line = text.lines().find(|l| l.split(':').next() == Some(field))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    }

    /// Freezes the server: connections are accepted by the kernel, nothing is answered.
    pub fn stop(&self) {
        self.signal("STOP");
    }

    /// Wakes a frozen server.
    pub fn cont(&self) {
        self.signal("CONT");
    }

    /// Ends the process at once; [`Redis::start_again`] brings it back on the same port.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts the server again on its port, after [`Redis::kill`].
    pub fn start_again(&mut self) {
        self.kill();
        self.child = spawn(self.port, self.dir.path(), &self.args);
        self.wait_until_listening();
    }

    fn signal(&self, name: &str) {
        assert!(run("kill", &[&format!("-{name}"), &self.pid().to_string()]).status.success());
    }

    fn wait_until_listening(&mut self) {
        let port = self.port;
        wait_for("redis-server accepts connections", || {
            if let Some(status) = self.child.try_wait().expect("the state of redis-server") {
                panic!("redis-server ended with {status}; port {port}, {:?}", self.args);
            }
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

fn spawn(port: u16, dir: &std::path::Path, args: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(["--daemonize", "no", "--dir", &dir.display().to_string()])
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|e| panic!("redis-server: {e}; `make tools` installs what the tests need"))
}
