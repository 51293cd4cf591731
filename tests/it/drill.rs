//! The drill against real servers: its workload, its protections, and what it leaves behind.

use std::fs;
use std::future::pending;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use stampede_exporter::config::{RedisAddress, RedisConfig, Secret, Tls};
use stampede_exporter::drill::store::Store;
use stampede_exporter::drill::{
    self, DrillError, ForeignData, Options, Output, Protections, Report, Scenario, Target,
};
use stampede_exporter::one_line::one_line;

use super::support::redis::Redis;
use super::support::tls::{Authority, NO_CLIENTS, Server, VALID};
use super::support::{self, runtime, wait_for};

pub fn given(redis: &Redis, foreign: ForeignData) -> Target {
    let address = RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port: redis.port };
    let server = RedisConfig { address, username: None, password: None, tls: None };
    Target::Given { server, foreign }
}

/// A drill of two seconds: small enough for a debug build on a busy machine.
pub fn small(scenario: Scenario, protections: &str) -> Options {
    Options {
        scenario,
        protections: vec![protections.parse::<Protections>().unwrap()],
        rate: 400.0,
        keys: 100,
        hot_share: 0.5,
        duration: Duration::from_secs(2),
        ttl: Duration::from_secs(300),
        load_time: Duration::from_millis(500),
        output: Output::Json,
        ..Options::default()
    }
}

pub fn run(options: Options) -> (Result<Vec<Report>, DrillError>, String) {
    let mut out = Vec::new();
    let runtime = runtime();
    let result = runtime.block_on(drill::run(options, &mut out, pending()));
    (result, String::from_utf8(out).unwrap())
}

pub fn report(scenario: Scenario, protections: &str) -> Report {
    run(small(scenario, protections)).0.unwrap().remove(0)
}

#[test]
fn a_bare_hot_key_is_loaded_by_everyone() {
    let report = report(Scenario::HotKey, "none");
    // 200 requests a second for the hot key, 500 ms without it: 100 loads, of which one is due. The
    // natural spread of a Poisson count is 10; half of it must come on any machine.
    assert!((50..=200).contains(&report.duplicate_loads), "{report:?}");
    assert!(report.peak_concurrent_loads >= 50, "{report:?}");
    assert_eq!(report.errors, 0);
}

#[test]
fn one_flight_loads_a_hot_key_once() {
    let report = report(Scenario::HotKey, "coalesce");
    assert_eq!(report.duplicate_loads, 0, "{report:?}");
    assert!(report.coalesced >= 50, "{report:?}");
}

#[test]
fn a_lock_loads_a_hot_key_once_over_all_processes() {
    let options = Options { processes: 4, ..small(Scenario::HotKey, "mutex") };
    let report = run(options).0.unwrap().remove(0);
    assert_eq!(report.duplicate_loads, 0, "{report:?}");
    assert!(report.lock_acquired >= 1 && report.lock_contended >= 50, "{report:?}");
    assert_eq!(report.lock_timeouts, 0, "{report:?}");
}

#[test]
fn flights_are_one_a_process() {
    let options = Options { processes: 4, ..small(Scenario::HotKey, "coalesce") };
    let report = run(options).0.unwrap().remove(0);
    assert_eq!(report.duplicate_loads, 3, "{report:?}");
}

#[test]
fn a_lock_shorter_than_the_load_brings_the_duplicates_back() {
    let options = Options {
        lock_ttl: Some(Duration::from_millis(100)),
        processes: 2,
        ..small(Scenario::HotKey, "mutex")
    };
    let report = run(options).0.unwrap().remove(0);
    // A lock of 100 ms runs out four times within a load of 500 ms.
    assert!((1..=8).contains(&report.duplicate_loads), "{report:?}");
}

#[test]
fn steady_load_loads_each_entry_once() {
    let report = report(Scenario::Steady, "coalesce");
    assert_eq!(report.duplicate_loads, 0, "{report:?}");
    // Two seconds of lives spread over 300 s: no more than the 100 keys could miss.
    assert!(report.hits > 10 * report.misses, "{report:?}");
    assert!(report.requests > 400, "{report:?}");
}

#[test]
fn a_batch_with_one_life_is_made_anew_together() {
    let report = report(Scenario::SynchronizedExpiry, "none");
    // 50 of the 100 keys run out at once; in the seconds after, most of them are asked for.
    assert!(report.loads > 25, "{report:?}");
}

#[test]
fn an_emptied_cache_is_made_anew_entry_by_entry() {
    let report = report(Scenario::ColdStart, "coalesce");
    // Each of the 100 keys that was asked for afterwards is loaded once.
    assert!((40..=101).contains(&report.loads), "{report:?}");
    assert_eq!(report.duplicate_loads, 0, "{report:?}");
}

/// Nobody asks for another key, so every miss is one of the hot key.
fn nothing_but_a_hot_key(protection: &str) -> Options {
    // Short, so that a slow machine too is through with it before the deadline.
    let load_time = Duration::from_millis(100);
    Options { load_time, hot_share: 1.0, ..small(Scenario::HotKey, protection) }
}

#[test]
fn early_reloads_spare_a_hot_key_its_misses() {
    for protection in ["background_refresh", "refresh_at", "refresh_worker"] {
        let report = run(nothing_but_a_hot_key(protection)).0.unwrap().remove(0);
        assert_eq!(report.misses, 0, "{report:?}");
        assert!(report.loads > 0, "{report:?}");
    }
}

#[test]
fn xfetch_spares_a_hot_key_its_misses() {
    // The deadline is eight loads away at first, so early loads are still unlikely then; with 400
    // requests a second and a time constant of 100 ms, all 40 of the last ones would have to fail.
    let report = run(nothing_but_a_hot_key("xfetch")).0.unwrap().remove(0);
    assert_eq!(report.misses, 0, "{report:?}");
    assert!(report.loads > 0, "{report:?}");
}

#[test]
fn linear_xfetch_loads_throughout_the_life() {
    let loads = |protection| {
        let load_time = Duration::from_millis(50);
        run(Options { load_time, ..small(Scenario::Steady, protection) }).0.unwrap()[0].loads
    };
    // Ages are spread evenly, so every second request for an entry not yet renewed loads it; by the
    // exponential rule none of the lives is near enough to its end.
    let (linear, exponential) = (loads("xfetch_linear"), loads("xfetch"));
    assert!(linear >= 50, "{linear}");
    assert!(exponential <= 5, "{exponential}");
}

#[test]
fn losers_are_answered_with_old_copies() {
    for protection in ["mutex_stale", "lease", "stale_while_revalidate"] {
        let options = Options { processes: 4, ..small(Scenario::HotKey, protection) };
        let report = run(options).0.unwrap().remove(0);
        assert_eq!(report.duplicate_loads, 0, "{report:?}");
        assert!(report.stale_served >= 50, "{report:?}");
        assert_eq!((report.errors, report.lock_timeouts), (0, 0), "{report:?}");
    }
}

#[test]
fn past_its_grace_an_old_value_is_a_miss() {
    let grace = Duration::from_millis(100);
    let options = Options { grace, ..small(Scenario::HotKey, "stale_while_revalidate") };
    let report = run(options).0.unwrap().remove(0);
    // 200 requests a second for the hot key, which is away for 500 ms: 20 of them in the grace and
    // 80 after it.
    assert!((1..=50).contains(&report.stale_served), "{report:?}");
    assert!(report.misses >= 40, "{report:?}");
}

#[test]
fn a_soft_purge_is_no_cold_start() {
    let bare = report(Scenario::Invalidation, "none");
    assert!(bare.misses >= 40, "{bare:?}");
    let soft = report(Scenario::Invalidation, "stale_while_revalidate");
    assert_eq!((soft.misses, soft.duplicate_loads), (0, 0), "{soft:?}");
    assert!(soft.stale_served >= 40 && soft.loads >= 40, "{soft:?}");
}

#[test]
fn a_prewarmed_service_has_no_cold_start() {
    let bare = report(Scenario::ColdStart, "none");
    let warm = report(Scenario::ColdStart, "prewarm");
    assert!(bare.misses >= 100, "{bare:?}");
    // What is not warmed is at most 2 % of the traffic.
    assert!(warm.misses * 10 < bare.misses, "{warm:?}\n{bare:?}");
    assert_eq!(warm.errors, 0, "{warm:?}");
}

#[test]
fn what_exists_nowhere_seldom_reaches_the_backend() {
    let not_found = |protections| {
        let options =
            Options { rate: 1000.0, keys: 200, ..small(Scenario::Penetration, protections) };
        run(options).0.unwrap()[0].not_found
    };
    // A fifth of the requests, for 0.4 s: about 80.
    let bare = not_found("none");
    assert!(bare >= 40, "{bare}");
    // They ask for 20 names, each of which is denied once.
    let denied = not_found("negative_cache+coalesce");
    assert!(denied <= 20, "{denied}");
    // One in a hundred names passes the filter; a third of the 20 never do.
    let filtered = not_found("bloom");
    assert!(filtered * 3 < bare, "{filtered} of {bare}");
}

#[test]
fn a_bulkhead_keeps_the_backend_below_its_limit() {
    let options =
        Options { bulkhead: Some(5), processes: 2, ..small(Scenario::HotKey, "bulkhead") };
    let report = run(options).0.unwrap().remove(0);
    assert!(report.peak_concurrent_loads <= 10, "{report:?}");
    // The others get the old copy.
    assert!(report.stale_served >= 40, "{report:?}");
}

#[test]
fn a_small_pool_refuses_when_its_queue_is_full() {
    let options = Options { pool: 5, queue: 10, ..small(Scenario::HotKey, "none") };
    let report = run(options).0.unwrap().remove(0);
    assert!(report.backend_errors >= 20 && report.errors >= 20, "{report:?}");
}

#[test]
fn a_jittered_batch_does_not_run_out_together() {
    let bare = report(Scenario::SynchronizedExpiry, "none");
    let spread = report(Scenario::SynchronizedExpiry, "jitter");
    // 300 s with a spread of 20 % either way: 50 keys over 120 s, so one in two seconds.
    assert!(spread.loads * 3 < bare.loads, "{spread:?}\n{bare:?}");
}

#[test]
fn protections_work_in_layers() {
    let report = report(Scenario::HotKey, "jitter+coalesce+xfetch+bulkhead");
    assert!(report.duplicate_loads <= 30 && report.errors == 0, "{report:?}");
    assert_eq!(report.protection, "xfetch+coalesce+jitter+bulkhead");
}

#[test]
fn eviction_pushes_entries_out_and_leaves_the_settings_as_they_were() {
    let redis = Redis::start_with(&["--maxmemory", "512mb", "--maxmemory-policy", "noeviction"]);
    let target = given(&redis, ForeignData::Refuse);
    let options = Options { target, keys: 2000, ..small(Scenario::Eviction, "none") };
    let report = run(options).0.unwrap().remove(0);
    let evicted: u64 = redis.info("stats", "evicted_keys").unwrap().parse().unwrap();
    assert!(evicted >= 200, "{evicted} of 2000 were evicted: {report:?}");
    assert!(report.loads > 0, "{report:?}");
    let setting = |name: &str| redis.cli(&["CONFIG", "GET", name]);
    assert_eq!(setting("maxmemory"), format!("maxmemory\n{}", 512 * 1024 * 1024));
    assert_eq!(setting("maxmemory-policy"), "maxmemory-policy\nnoeviction");
}

#[test]
fn eviction_never_takes_place_beside_foreign_keys() {
    let redis = Redis::start();
    redis.cli(&["SET", "theirs", "1"]);
    let target = given(&redis, ForeignData::Accept);
    let error = run(Options { target, ..small(Scenario::Eviction, "none") }).0.unwrap_err();
    assert!(matches!(error, DrillError::WouldEvict { .. }), "{error}");
}

#[test]
fn a_cache_that_fails_lets_requests_fall_through_and_recovers() {
    let redis = Redis::start();
    for target in [Target::Private, given(&redis, ForeignData::Refuse)] {
        let duration = Duration::from_secs(10);
        let options = Options { target, duration, ..small(Scenario::Avalanche, "none") };
        let report = run(options).0.unwrap().remove(0);
        // Two seconds of 400 requests without a cache, and a command is given up after one.
        assert!(report.cache_errors >= 200, "{report:?}");
        // Before and after, eight seconds, nearly everything hits.
        assert!(report.hits >= 1600, "{report:?}");
    }
    assert_eq!(redis.cli(&["DBSIZE"]), "0");
}

/// Where the tests were started with `nohup`, SIGHUP would be ignored: `env` puts it back.
fn program(args: &[&str]) -> Command {
    let mut program = Command::new("/usr/bin/env");
    program.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_stampede-exporter"), "drill"]);
    program.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    program
}

#[test]
fn without_redis_server_it_says_what_to_do() {
    let nowhere = tempfile::tempdir().unwrap();
    let output = program(&["--duration", "1s"]).env("PATH", nowhere.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("redis-server is not installed"), "{said}");
    assert!(said.contains("apt-get install redis-server"), "{said}");
}

#[test]
fn ctrl_c_and_the_end_of_the_terminal_clean_up() {
    let (redis, files) = (Redis::start(), tempfile::tempdir().unwrap());
    let given = ["--duration", "10m", "--json", "--redis.addr", &redis.url()];
    let (given, none) = (&given[..], &given[..3]);
    for (args, private, signal) in
        [(given, false, "-INT"), (none, true, "-INT"), (given, false, "-HUP"), (none, true, "-HUP")]
    {
        let mut child = program(args).env("TMPDIR", files.path()).spawn().unwrap();
        let under_way = || match private {
            true => fs::read_dir(files.path()).unwrap().count() > 0,
            false => redis.cli(&["DBSIZE"]) != "0",
        };
        wait_for("it is under way", || under_way().then_some(()));
        assert!(support::run("kill", &[signal, &child.id().to_string()]).status.success());
        let status = wait_for("it ends", || child.try_wait().unwrap());
        assert!(status.success(), "{status}");
        assert_eq!(redis.cli(&["DBSIZE"]), "0");
        assert_eq!(fs::read_dir(files.path()).unwrap().count(), 0, "no directory is left");
    }
}

#[test]
fn with_nohup_the_end_of_the_terminal_ends_nothing() {
    let program = env!("CARGO_BIN_EXE_stampede-exporter");
    let mut child = Command::new("nohup")
        .args([program, "drill", "--duration", "10m", "--rate", "100/s", "--keys", "50"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut until =
        |seconds: &str| lines.find(|line| line.trim_start().starts_with(seconds)).unwrap();
    until("1 s");
    let kill = |signal| support::run("kill", &[signal, &child.id().to_string()]).status.success();
    assert!(kill("-HUP"));
    until("3 s");
    assert!(kill("-INT"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn several_protections_run_in_turn_with_one_seed() {
    let protections = ["none", "coalesce"].map(|p| p.parse().unwrap()).to_vec();
    let options = Options { protections, output: Output::Text, ..small(Scenario::HotKey, "none") };
    let (reports, out) = run(options);
    let reports = reports.unwrap();
    assert!(reports[0].duplicate_loads > reports[1].duplicate_loads);
    assert_eq!(reports[0].seed, reports[1].seed);
    let table: Vec<&str> = out.lines().skip_while(|l| !l.starts_with("protection")).collect();
    assert!(table[1].starts_with("none ") && table[2].starts_with("coalesce "), "{out}");
}

#[test]
fn results_are_a_page_and_what_was_seen_can_be_replayed() {
    let seen = tempfile::tempdir().unwrap();
    let seen = seen.path().join("seen");
    let small = ["--rate", "100/s", "--keys", "50", "--duration", "2s", "--markdown"];
    let output = program(&["--scenario", "steady,hot_key", "--compare", "none,jitter+coalesce"])
        .args(small)
        .arg("--record.dir")
        .arg(&seen)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = String::from_utf8(output.stdout).unwrap();
    let starts: Vec<&str> = page.lines().map(|l| l.split(" |").next().unwrap()).collect();
    let table = ["| protection", "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|"];
    let rows = ["| none", "| coalesce+jitter", ""];
    let section = |head| [&[head, ""][..], &table, &rows].concat();
    assert_eq!(starts, [section("## steady"), section("## hot_key")].concat(), "{page}");
    let mut columns = page.lines().filter(|l| l.starts_with('|')).map(|l| l.matches('|').count());
    assert!(columns.all(|bars| bars == 15), "{page}");
    for run in ["steady-none", "steady-coalesce-jitter", "hot_key-none", "hot_key-coalesce-jitter"]
    {
        let files = fs::read_dir(&seen).unwrap().map(|file| file.unwrap().path());
        let of_run = |path: &std::path::PathBuf| {
            path.file_stem().and_then(|stem| stem.to_str()?.rsplit_once('-')).unwrap().0 == run
        };
        let trace = files.filter(of_run).collect::<Vec<_>>();
        assert_eq!(trace.len(), 1, "{run}");
        let replay = support::run(
            env!("CARGO_BIN_EXE_stampede-exporter"),
            &["backtest", &trace[0].display().to_string()],
        );
        assert!(replay.status.success(), "{}", String::from_utf8_lossy(&replay.stderr));
    }
}

#[test]
fn traces_that_have_no_place_are_said_before_the_load() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let record_dir = Some(file.path().to_owned());
    let error = run(Options { record_dir, ..small(Scenario::Steady, "none") }).0.unwrap_err();
    assert!(one_line(&error).starts_with("cannot record in "), "{error}");
}

#[test]
fn the_object_of_a_run_has_the_fixed_names() {
    let (result, out) = run(small(Scenario::Steady, "none"));
    assert_eq!(result.unwrap().len(), 1);
    let object: serde_json::Value = serde_json::from_str(out.trim_end()).unwrap();
    for name in [
        "scenario",
        "protection",
        "requests",
        "hits",
        "misses",
        "loads",
        "duplicate_loads",
        "coalesced",
        "stale_served",
        "lock_acquired",
        "lock_contended",
        "lock_timeouts",
        "errors",
        "latency_p50_seconds",
        "latency_p99_seconds",
        "peak_concurrent_loads",
    ] {
        assert!(!object[name].is_null(), "{name} in {out}");
    }
}

#[test]
fn a_given_server_is_left_as_it_was() {
    let redis = Redis::start();
    redis.cli(&["SET", "stampede-drill-is-not-a-drill", "theirs"]);
    let target = given(&redis, ForeignData::Accept);
    let options = Options { target, ..small(Scenario::ColdStart, "mutex") };
    run(options).0.unwrap();
    assert_eq!(redis.cli(&["KEYS", "*"]), "stampede-drill-is-not-a-drill");
    assert_eq!(redis.cli(&["GET", "stampede-drill-is-not-a-drill"]), "theirs");
}

#[test]
fn a_given_server_may_speak_tls_and_take_a_login() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "ours");
    let identity = authority.sign(&["127.0.0.1"], VALID);
    let login = ["--requirepass", "open sesame"];
    let server = Server::start(&authority, &identity, &[&NO_CLIENTS[..], &login].concat());
    let tls = Tls { ca_file: Some(authority.ca_file.clone()), ..Tls::default() };
    let drill = |port, password: &str, tls| {
        let address = RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port };
        let password = Some(Secret::Inline(password.into()));
        let server = RedisConfig { address, username: None, password, tls };
        let target = Target::Given { server, foreign: ForeignData::Refuse };
        run(Options { target, ..small(Scenario::HotKey, "coalesce") }).0
    };
    let report = drill(server.port, "open sesame", Some(tls.clone())).unwrap().remove(0);
    assert!(report.hits > 0 && report.coalesced > 0, "{report:?}");
    assert_eq!(report.cache_errors, 0, "{report:?}");
    for (password, tls, said) in [
        ("CANARY", Some(tls), "wrong user name or password"),
        ("open sesame", Some(Tls::default()), "certificate is not accepted"),
        ("open sesame", None, "use the rediss scheme"),
    ] {
        let error = one_line(&drill(server.port, password, tls).unwrap_err());
        assert!(error.contains(said) && !error.contains("CANARY"), "{error}");
    }
}

#[test]
fn what_is_still_under_way_writes_nothing_after_the_end() {
    let redis = Redis::start();
    let address = RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port: redis.port };
    let server = RedisConfig { address, username: None, password: None, tls: None };
    let runtime = runtime();
    runtime.block_on(async {
        let store = Store::connect(&server, "test").await.unwrap();
        assert!(store.set_if_absent("k", b"v", Duration::from_secs(60)).await.unwrap());
        store.end().await.unwrap();
        assert!(store.set_if_absent("k", b"v", Duration::from_secs(60)).await.is_err());
    });
    assert_eq!(redis.cli(&["DBSIZE"]), "0");
}

#[test]
fn a_server_with_other_data_is_refused() {
    for database in ["0", "3"] {
        let redis = Redis::start();
        redis.cli(&["-n", database, "SET", "theirs", "1"]);
        let target = given(&redis, ForeignData::Refuse);
        let error = run(Options { target, ..small(Scenario::Steady, "none") }).0.unwrap_err();
        assert!(matches!(error, DrillError::ForeignData { .. }), "{error}");
        assert!(error.to_string().contains("--yes-this-server"), "{error}");
        assert_eq!(redis.cli(&["INFO", "keyspace"]).lines().count(), 2, "nothing was written");
    }
}

#[test]
fn a_cluster_and_a_replica_are_refused() {
    let cluster = Redis::start_with(&["--cluster-enabled", "yes"]);
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1 1"]);
    for (redis, what) in [(&cluster, "a node of a Redis Cluster"), (&replica, "a replica")] {
        let target = given(redis, ForeignData::Accept);
        let error = run(Options { target, ..small(Scenario::Steady, "none") }).0.unwrap_err();
        assert!(matches!(error, DrillError::Unfit { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn leftovers_of_an_earlier_drill_are_not_foreign() {
    let redis = Redis::start();
    redis.cli(&["SET", "stampede-drill:0:item:1", "old"]);
    let target = given(&redis, ForeignData::Refuse);
    run(Options { target, ..small(Scenario::Steady, "none") }).0.unwrap();
}

#[test]
fn an_interrupted_drill_reports_and_cleans_up() {
    let redis = Redis::start();
    let target = given(&redis, ForeignData::Refuse);
    let duration = Duration::from_secs(600);
    let options = Options { target, duration, ..small(Scenario::Steady, "none") };
    let mut out = Vec::new();
    let runtime = runtime();
    // The keys are there, so it is in the middle of it.
    let under_way = async {
        while redis.cli(&["DBSIZE"]) == "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reports = runtime.block_on(drill::run(options, &mut out, under_way)).unwrap();
    assert!(reports[0].interrupted);
    assert_eq!(redis.cli(&["DBSIZE"]), "0");
}
