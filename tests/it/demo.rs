//! The demo as a process: it shows what it promises and leaves nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::support::{get, run, wait_for, wait_for_within};

/// The acts take a minute and a half; on a busy machine they wait for the exporter.
const DEMO_LIMIT: Duration = Duration::from_secs(240);

/// A running demo whose temporary files are in a directory of the test.
struct Demo {
    child: Child,
    dir: tempfile::TempDir,
    lines: std::sync::mpsc::Receiver<String>,
    told: Vec<String>,
}

impl Demo {
    fn start(args: &[&str]) -> Demo {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_stampede-exporter"))
            .arg("demo")
            .args(args)
            .env("TMPDIR", dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        Demo { child, dir, lines, told: Vec::new() }
    }

    fn told(&mut self) -> &[String] {
        self.told.extend(self.lines.try_iter());
        &self.told
    }

    /// The port after a text in what was told so far.
    fn port_after(&mut self, text: &str) -> Option<u16> {
        let line = self.told().iter().find(|line| line.contains(text))?;
        let after = line.split_once(text)?.1;
        after.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
    }

    fn ports(&mut self) -> (u16, u16) {
        let redis = wait_for("the server", || self.port_after("redis-server at 127.0.0.1:"));
        (redis, wait_for("the page", || self.port_after("http://127.0.0.1:")))
    }

    fn exit_code(&mut self) -> Option<i32> {
        let child = &mut self.child;
        wait_for_within(DEMO_LIMIT, "the demo ends", || child.try_wait().unwrap()).code()
    }

    fn left_nothing(&mut self, redis: u16, page: u16) {
        for port in [redis, page] {
            assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{port} is still open");
        }
        assert_eq!(fs::read_dir(self.dir.path()).unwrap().count(), 0, "files are left");
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Asked to end it cleans up, so that a test that fails leaves no server either.
        if let Ok(None) = self.child.try_wait() {
            run("kill", &["-TERM", &self.child.id().to_string()]);
            let _ = self.child.wait();
        }
    }
}

#[test]
fn the_demo_sees_what_happens_and_leaves_nothing() {
    let mut demo = Demo::start(&[]);
    let (redis, page) = demo.ports();
    let answer = get(page, "/metrics").expect("the page is real");
    assert!(answer.body.contains("stampede_active{cache=\"demo\"}"), "{}", answer.body);
    assert_eq!(demo.exit_code(), Some(0), "{:#?}", demo.told());
    demo.left_nothing(redis, page);
    let told = wait_for("the last line", || {
        let told = demo.told().join("\n");
        told.contains("All of it is gone again").then_some(told)
    });
    for text in ["Act 1", "Stampede declared", "Over after", "Nothing:", "A wave is announced"] {
        assert!(told.contains(text), "{text} in\n{told}");
    }
}

#[test]
fn a_demo_that_is_stopped_leaves_nothing_and_does_not_succeed() {
    let mut demo = Demo::start(&["--keep"]);
    let (redis, page) = demo.ports();
    assert!(run("kill", &["-INT", &demo.child.id().to_string()]).status.success());
    assert_eq!(demo.exit_code(), Some(1), "{:#?}", demo.told());
    demo.left_nothing(redis, page);
}
