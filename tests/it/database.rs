//! The drill before a real database.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use stampede_exporter::drill::backend::postgres::{Database, DatabaseError};
use stampede_exporter::drill::backend::{Backend, BackendShape, LoadError};
use stampede_exporter::drill::counters::Counters;
use stampede_exporter::drill::{self, Options, Output, Report, Scenario};

use super::support::postgres::{PASSWORD, Postgres};
use super::support::{runtime, wait_for};

/// Two seconds in which the hot key runs out, loads of half a second.
fn hot_key(postgres: &Postgres, protections: &str) -> Options {
    Options {
        scenario: Scenario::HotKey,
        protections: vec![protections.parse().unwrap()],
        backend: Some(postgres.url().parse().unwrap()),
        rate: 400.0,
        keys: 100,
        hot_share: 0.5,
        duration: Duration::from_secs(2),
        ttl: Duration::from_secs(300),
        load_time: Duration::from_millis(500),
        ..Options::default()
    }
}

fn run(options: Options) -> (Report, String) {
    let mut out = Vec::new();
    let runtime = runtime();
    let reports = runtime.block_on(drill::run(options, &mut out, std::future::pending()));
    (reports.unwrap().remove(0), String::from_utf8(out).unwrap())
}

#[tokio::test]
async fn a_query_takes_the_time_of_a_load_and_gives_what_the_drill_would() {
    let postgres = Postgres::start(5);
    let service = Duration::from_millis(50);
    let shape = BackendShape { keys: 10, service, slow: None, pool: 5, queue: 0, value_bytes: 100 };
    let database = Database::open(postgres.url().parse().unwrap()).await.unwrap();
    let backend = Backend::new(shape, Some(database), Arc::new(Counters::default()));
    // The last one that exists, the first that does not, and one that exists nowhere.
    for key in [9, 10, 1 << 40] {
        let loaded = backend.load(key, backend.newest(key)).await.unwrap();
        assert_eq!(loaded.value, backend.value(key), "{key}");
        assert!(loaded.took >= service, "{:?}", loaded.took);
    }
    assert_eq!(backend.value(9).map(|value| value.len()), Some(100));
    assert_eq!(backend.said(), None);
}

#[tokio::test]
async fn a_connection_that_broke_is_replaced() {
    let postgres = Postgres::start(5);
    let service = Duration::ZERO;
    let shape = BackendShape { keys: 1, service, slow: None, pool: 1, queue: 0, value_bytes: 0 };
    let database = Database::open(postgres.url().parse().unwrap()).await.unwrap();
    let backend = Backend::new(shape, Some(database), Arc::new(Counters::default()));
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                 WHERE application_name = 'stampede-drill'";
    assert_eq!(postgres.value(ended).as_deref(), Some("1"));
    // Whether the end is known by then or met by the query, the one after it works.
    let first = backend.load(0, backend.newest(0)).await.map(|loaded| loaded.value);
    assert!([Ok(backend.value(0)), Err(LoadError::Failed)].contains(&first), "{first:?}");
    assert!(backend.load(0, backend.newest(0)).await.is_ok(), "{:?}", backend.said());
}

#[test]
fn too_many_connections_is_the_real_error() {
    let postgres = Postgres::start(8);
    let options = Options { pool: 100, output: Output::Text, ..hot_key(&postgres, "none") };
    let (report, told) = run(options);
    // 200 requests a second for a key that is away for half a second; eight at most are served.
    assert!(report.backend_errors >= 30 && report.errors >= 30, "{report:?}");
    assert!(report.loads > report.backend_errors, "some were served: {report:?}");
    let said = report.backend_said.expect("its words");
    assert!(said.contains("too many clients") && said.contains("SQLSTATE 53300"), "{said}");
    assert!(told.contains(&said), "{told}");
    let left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stampede-drill'";
    wait_for("the drill has hung up", || (postgres.value(left)? == "0").then_some(()));
}

#[test]
fn a_pool_that_fits_and_one_flight_spare_it() {
    let postgres = Postgres::start(8);
    let options = Options { pool: 8, output: Output::Json, ..hot_key(&postgres, "coalesce") };
    let (report, told) = run(options);
    assert_eq!((report.duplicate_loads, report.backend_errors), (0, 0), "{report:?}");
    assert!(report.loads >= 1 && report.coalesced >= 50, "{report:?}");
    assert!(told.contains(r#""backend_said":null"#), "{told}");
}

/// A drill that follows at once finds the connections of the one before it still open.
#[test]
fn a_full_server_is_waited_for() {
    let postgres = Postgres::start(1);
    let protections = ["none", "coalesce"].map(|p| p.parse().unwrap()).to_vec();
    let options = Options { protections, pool: 1, ..hot_key(&postgres, "none") };
    let runtime = runtime();
    let reports =
        runtime.block_on(drill::run(options, &mut std::io::sink(), std::future::pending()));
    assert!(reports.unwrap().iter().all(|report| report.backend_said.is_none()));
}

#[test]
fn what_is_under_way_at_the_end_is_ended_at_the_server_too() {
    let postgres = Postgres::start(8);
    let hour = Duration::from_secs(3600);
    // One entry that nobody finds: the first request loads it until the end.
    let options = Options {
        scenario: Scenario::Steady,
        duration: hour,
        load_time: hour,
        ttl: Duration::from_millis(1),
        keys: 1,
        ..hot_key(&postgres, "coalesce")
    };
    let active = "SELECT count(*) FROM pg_stat_activity \
                  WHERE application_name = 'stampede-drill' AND state = 'active'";
    let under_way = async {
        while postgres.value(active).as_deref() != Some("1") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let runtime = runtime();
    let reports = runtime.block_on(drill::run(options, &mut std::io::sink(), under_way));
    assert!(reports.unwrap()[0].interrupted);
    wait_for("the query is ended", || (postgres.value(active)? == "0").then_some(()));
}

#[tokio::test]
async fn what_is_in_the_way_is_said_at_once_and_without_the_password() {
    let postgres = Postgres::start(5);
    let url = postgres.url_with("CANARY-wrong").parse().unwrap();
    let error = Database::open(url).await.unwrap_err();
    let refused = "password authentication failed for user \"postgres\" (SQLSTATE 28P01)";
    assert_eq!(error.to_string(), refused);
    let nobody = format!("postgres://me:CANARY@127.0.0.1:{}", super::support::redis::free_port());
    let error = Database::open(nobody.parse().unwrap()).await.unwrap_err();
    assert!(matches!(error, DatabaseError::Broken(_)), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
    for (url, code, said) in [
        (postgres.url_with("CANARY-wrong"), 1, refused),
        (postgres.url() + "?sslmode=require", 2, "--backend.url asks for TLS"),
        (format!("mysql://{PASSWORD}"), 2, "--backend.url is no address of a database"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_stampede-exporter"))
            .args(["drill", "--backend.url", &url])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(said) && !text.contains("CANARY"), "{text}");
    }
}
