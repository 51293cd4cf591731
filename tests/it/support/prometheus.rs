//! A real Prometheus.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::redis::free_port;
use super::{PATIENCE, run, wait_for};

/// A Prometheus of the test's own that scrapes every second, killed when dropped.
pub struct Prometheus {
    child: Child,
    pub port: u16,
    _dir: tempfile::TempDir,
}

/// The user and the password of a guarded one, and the password as its file of users has it.
pub const USER: &str = "reader";
pub const PASSWORD: &str = "s3cret";
const BCRYPT: &str = "$2b$05$abcdefghijklmnopqrstuuLK7U1u6pVRmL7L1BBM2aS35PSZnDXlK";
/// Both, as a request has them; without a guard nobody looks at it.
const LOGIN: &str = "Authorization: Basic cmVhZGVyOnMzY3JldA==";

impl Prometheus {
    /// Scrapes this port of the machine and evaluates these rules.
    pub fn start(target: u16, rules: &str) -> Prometheus {
        Prometheus::start_configured(target, rules, "", "")
    }

    /// The same, and sends what fires to an Alertmanager on this port.
    pub fn start_alerting(target: u16, rules: &str, alertmanager: u16) -> Prometheus {
        let to = format!("static_configs: [{{ targets: ['127.0.0.1:{alertmanager}'] }}]");
        let more = format!("alerting: {{ alertmanagers: [{{ {to} }}] }}\n");
        Prometheus::start_configured(target, rules, &more, "")
    }

    /// Scrapes this port of the machine, and answers nobody but [`USER`].
    pub fn guarded(target: u16) -> Prometheus {
        let users = format!("basic_auth_users: {{ {USER}: '{BCRYPT}' }}\n");
        Prometheus::start_configured(target, "", "", &users)
    }

    fn start_configured(target: u16, rules: &str, more: &str, web: &str) -> Prometheus {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: [rules.yml]\n\
             scrape_configs:\n\
             - job_name: stampede\n  \
               static_configs: [{{ targets: ['127.0.0.1:{target}'] }}]\n\
             {more}"
        );
        let file = dir.path().join("prometheus.yml");
        std::fs::write(&file, config).expect("the configuration is written");
        std::fs::write(dir.path().join("rules.yml"), rules).expect("the rules are written");
        std::fs::write(dir.path().join("web.yml"), web).expect("the users are written");
        Prometheus::spawn(dir)
    }

    /// Scrapes nothing and holds the samples of an OpenMetrics text with timestamps.
    pub fn with_history(text: &str) -> Prometheus {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (samples, data) = (dir.path().join("samples.txt"), dir.path().join("data"));
        std::fs::write(&samples, text).expect("the samples are written");
        for file in ["prometheus.yml", "web.yml"] {
            std::fs::write(dir.path().join(file), "").expect("the configuration is written");
        }
        let paths = [&samples, &data].map(|path| path.display().to_string());
        let [samples, data] = [&paths[0], &paths[1]];
        let made = run("promtool", &["tsdb", "create-blocks-from", "openmetrics", samples, data]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Prometheus::spawn(dir)
    }

    fn spawn(dir: tempfile::TempDir) -> Prometheus {
        let file = dir.path().join("prometheus.yml");
        let port = free_port();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.config.file={}", dir.path().join("web.yml").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            // An alert whose text has changed goes out again soon.
            .arg("--rules.alert.resend-delay=1s")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("prometheus: {e}; `make tools` installs what tests need"));
        let mut prometheus = Prometheus { child, port, _dir: dir };
        wait_for("Prometheus is ready", || {
            if let Some(status) = prometheus.child.try_wait().expect("its state") {
                panic!("Prometheus ended with {status}; port {port}");
            }
            prometheus.get("/-/ready").filter(|(status, _)| *status == 200)
        });
        prometheus
    }

    /// The series of an expression now.
    pub fn query(&self, expr: &str) -> Vec<Value> {
        self.result(&format!("/api/v1/query?query={}", encoded(expr)))
    }

    /// What Prometheus finds wrong with an expression, if anything.
    pub fn error(&self, expr: &str) -> Option<String> {
        let target = format!("/api/v1/query?query={}", encoded(expr));
        let (status, body) = self.get(&target).expect("Prometheus answers");
        (status != 200).then_some(body)
    }

    /// The series of an expression between two times, a point a second.
    pub fn query_range(&self, expr: &str, from: f64, to: f64) -> Vec<Value> {
        let expr = encoded(expr);
        self.result(&format!("/api/v1/query_range?query={expr}&start={from}&end={to}&step=1"))
    }

    /// The values that a label has on a selector's series.
    pub fn label_values(&self, selector: &str, label: &str) -> Vec<String> {
        let data =
            self.data(&format!("/api/v1/label/{label}/values?match[]={}", encoded(selector)));
        let values = data.as_array().expect("a list of values");
        values.iter().map(|v| v.as_str().expect("a text").to_owned()).collect()
    }

    /// Every rule with its health, as the API gives it.
    pub fn rules(&self) -> Vec<Value> {
        let data = self.data("/api/v1/rules");
        let groups = data["groups"].as_array().expect("rule groups");
        groups.iter().flat_map(|g| g["rules"].as_array().expect("rules").clone()).collect()
    }

    /// The firing alerts of this name, as the API gives them.
    pub fn firing(&self, name: &str) -> Vec<Value> {
        let data = self.data("/api/v1/alerts");
        let alerts = data["alerts"].as_array().expect("alerts").clone();
        let wanted = |a: &Value| a["labels"]["alertname"] == name && a["state"] == "firing";
        alerts.into_iter().filter(wanted).collect()
    }

    /// Unix seconds by Prometheus' own clock.
    pub fn now(&self) -> f64 {
        self.query("vector(time())").first().and_then(|s| number(&s["value"][1])).expect("a time")
    }

    fn result(&self, target: &str) -> Vec<Value> {
        let data = self.data(target);
        data["result"].as_array().unwrap_or_else(|| panic!("{target}: {data}")).clone()
    }

    fn data(&self, target: &str) -> Value {
        let (status, body) = self.get(target).expect("Prometheus answers");
        assert_eq!(status, 200, "{target}: {body}");
        let mut answer: Value = serde_json::from_str(&body).expect("JSON");
        answer["data"].take()
    }

    /// HTTP/1.0, so that the body comes in one piece and ends with the connection.
    fn get(&self, target: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        write!(stream, "GET {target} HTTP/1.0\r\nHost: localhost\r\n{LOGIN}\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A sample's value, which the API gives as text; `None` for NaN.
pub fn number(value: &Value) -> Option<f64> {
    value.as_str()?.parse().ok().filter(|v: &f64| !v.is_nan())
}

fn encoded(text: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => (b as char).to_string(),
        _ => format!("%{b:02X}"),
    };
    text.bytes().map(byte).collect()
}
