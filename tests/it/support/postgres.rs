//! A real PostgreSQL.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::redis::free_port;
use super::{run, wait_for};

/// The user `nobody`; PostgreSQL does not run as root.
const NOBODY: u32 = 65_534;
/// What the superuser logs in with.
pub const PASSWORD: &str = "CANARY-open sesame";

/// A PostgreSQL of the test's own on which nothing can be written, ended when dropped.
pub struct Postgres {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
}

impl Postgres {
    /// Starts one that takes this many connections and no more.
    pub fn start(max_connections: usize) -> Postgres {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (data, password) = (dir.path().join("data"), dir.path().join("password"));
        std::fs::write(&password, PASSWORD).expect("the password is written");
        if is_root(dir.path()) {
            chown(dir.path(), Some(NOBODY), Some(NOBODY)).expect("root may do so");
        }
        let made = program("initdb", dir.path())
            .args(["--username=postgres", "--auth=scram-sha-256", "--no-sync", "--locale=C"])
            .arg(format!("--pwfile={}", password.display()))
            .arg(&data)
            .output()
            .unwrap_or_else(|e| panic!("initdb: {e}; `make tools` installs what tests need"));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port = free_port();
        let log = File::create(dir.path().join("log")).expect("a log");
        let child = program("postgres", dir.path())
            .arg("-D")
            .arg(&data)
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k", ""])
            .args(["-c", "fsync=off", "-c", "default_transaction_read_only=on"])
            .args(["-c", "superuser_reserved_connections=0", "-c"])
            .arg(format!("max_connections={max_connections}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("initdb came with postgres");
        let mut postgres = Postgres { child, port, dir };
        wait_for("PostgreSQL accepts connections", || {
            if let Some(status) = postgres.child.try_wait().expect("its state") {
                let log = std::fs::read_to_string(postgres.dir.path().join("log"));
                panic!("PostgreSQL ended with {status}: {log:?}");
            }
            let address = ["-h", "127.0.0.1", "-p", &port.to_string()];
            run("pg_isready", &address).status.success().then_some(())
        });
        postgres
    }

    /// The address as the product takes it.
    pub fn url(&self) -> String {
        self.url_with(&PASSWORD.replace(' ', "%20"))
    }

    /// The same with this password in it.
    pub fn url_with(&self, password: &str) -> String {
        format!("postgres://postgres:{password}@127.0.0.1:{}/postgres", self.port)
    }

    /// The one value of a query; `None` when all connections are taken.
    pub fn value(&self, query: &str) -> Option<String> {
        let output = run("psql", &["--no-psqlrc", "-At", "-c", query, &self.url()]);
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        output.status.success().then_some(text)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // At once, its processes included.
        run("kill", &["-QUIT", &self.child.id().to_string()]);
        let _ = self.child.wait();
    }
}

/// One of PostgreSQL's programs, as a user that it runs as. Debian keeps them out of the `PATH`.
fn program(name: &str, dir: &Path) -> Command {
    let mut command = Command::new(place(name).unwrap_or_else(|| name.into()));
    command.current_dir(dir);
    if is_root(Path::new("/proc/self")) {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn place(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.flatten().map(|version| version.path().join("bin").join(name));
    programs.filter(|program| program.exists()).max()
}

fn is_root(ours: &Path) -> bool {
    std::fs::metadata(ours).expect("it is there").uid() == 0
}
