//! The product itself, as a process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::{Answer, get, wait_for};

/// A running exporter, killed when dropped.
pub struct Exporter {
    child: Child,
    pub port: u16,
    log: Arc<Mutex<String>>,
    _dir: Option<tempfile::TempDir>,
}

impl Exporter {
    /// Starts it with flags; the port is the exporter's own choice.
    pub fn start(args: &[&str]) -> Exporter {
        let mut child = Command::new(env!("CARGO_BIN_EXE_stampede-exporter"))
            .args(args)
            .args(["--web.listen-address", "127.0.0.1:0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the exporter starts");
        let log = Arc::new(Mutex::new(String::new()));
        let stderr = child.stderr.take().expect("its stderr");
        let sink = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = sink.lock().expect("the log");
                log.push_str(&line);
                log.push('\n');
            }
        });
        let port = wait_for("the exporter says where it listens", || {
            let log = log.lock().expect("the log").clone();
            if let Some(status) = child.try_wait().expect("its state") {
                panic!("the exporter ended with {status}:\n{log}");
            }
            let after = log.split_once("listening")?.1.split_once("127.0.0.1:")?.1;
            after.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
        });
        Exporter { child, port, log, _dir: None }
    }

    /// Starts it with a configuration file of this text.
    pub fn start_configured(yaml: &str) -> Exporter {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("stampede.yml");
        std::fs::write(&path, yaml).expect("the configuration is written");
        let mut exporter = Exporter::start(&["--config.file", &path.display().to_string()]);
        exporter._dir = Some(dir);
        exporter
    }

    /// The exporter's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has logged so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("the log").clone()
    }

    /// One GET; the exporter must answer.
    pub fn get(&self, target: &str) -> Answer {
        get(self.port, target).unwrap_or_else(|| panic!("no answer to {target}:\n{}", self.log()))
    }

    /// The value of one series as the page writes it, such as `stampede_active{cache="default"}`.
    pub fn metric(&self, series: &str) -> Option<f64> {
        let page = self.get("/metrics").body;
        let line = page.lines().find(|l| l.rsplit_once(' ').is_some_and(|(s, _)| s == series))?;
        line.rsplit_once(' ')?.1.parse().ok()
    }

    /// Waits until a series has a value that fits.
    pub fn wait_for_metric(&self, series: &str, fits: impl Fn(f64) -> bool) -> f64 {
        wait_for(series, || self.metric(series).filter(|v| fits(*v)))
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        assert!(
            super::run("kill", &[&format!("-{name}"), &self.pid().to_string()]).status.success()
        );
    }

    /// Waits for its end and gives the exit code, if it ended by itself.
    pub fn wait_for_exit(&mut self) -> Option<i32> {
        wait_for("the exporter ends", || self.child.try_wait().expect("its state")).code()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
