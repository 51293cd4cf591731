//! The program as a person or a service manager meets it: arguments, exit codes, signals.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

use crate::support::exporter::Exporter;
use crate::support::page::Page;
use crate::support::redis::Redis;
use crate::support::wait_for;

const FINE: i32 = 0;
const FAILED: i32 = 1;
const WRONG_INPUT: i32 = 2;

fn program(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stampede-exporter")).args(args).output().expect("it starts")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// A configuration that listens on a free port and watches servers that are not there.
fn watching(names: &[&str]) -> String {
    let cache =
        |name: &&str| format!("  - {{ name: {name}, redis: {{ addr: redis://127.0.0.1:1 }} }}\n");
    let caches: String = names.iter().map(cache).collect();
    format!("web: {{ listen_address: \"127.0.0.1:0\" }}\ncaches:\n{caches}")
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("the configuration is written");
}

#[test]
fn wrong_arguments_end_with_2_and_leave_stdout_alone() {
    let cases: [(&[&str], &str); 9] = [
        (&[], "--config.file <FILE>|--redis.addr <URL>"),
        (&["run"], "--config.file <FILE>|--redis.addr <URL>"),
        (&["check"], "--config.file <FILE>"),
        (&["chek", "--config.file", "x"], "similar subcommand exists: 'check'"),
        (&["--app.url", "http://h/"], "--redis.addr"),
        (&["--config.file", "x", "--redis.addr", "redis://h"], "cannot be used with"),
        (&["--config.file", "x", "--app.url", "http://h/"], "cannot be used with"),
        (&["--redis.addr", "redis://h", "--log.level", "loud"], "error, warn, info, debug, trace"),
        (&["--redis.addr", "redis://h", "--web.listen-address", ":1"], "write IP:PORT such as"),
    ];
    for (args, part) in cases {
        let output = program(args);
        assert_eq!(output.status.code(), Some(WRONG_INPUT), "{args:?}: {output:?}");
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{args:?}");
    }
}

#[test]
fn help_and_version_are_answers() {
    let help = program(&["--help"]);
    assert_eq!(help.status.code(), Some(FINE));
    for flag in
        ["--config.file", "--redis.addr", "--app.url", "--web.listen-address", "--log.level"]
    {
        assert!(stdout(&help).contains(flag), "{flag}: {}", stdout(&help));
    }
    let version = program(&["--version"]);
    assert_eq!(version.status.code(), Some(FINE));
    assert_eq!(stdout(&version), concat!("stampede-exporter ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn check_says_that_a_file_is_fine_in_one_line() {
    let output = program(&["check", "--config.file", "tests/config/good/full.yml"]);
    assert_eq!(output.status.code(), Some(FINE), "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "tests/config/good/full.yml: fine; caches 2, applications 3, listening on [::1]:19122\n"
    );
    assert_eq!(stderr(&output), "");
}

#[test]
fn check_and_run_say_every_problem_and_end_with_2() {
    let file = "tests/config/bad/types.yml";
    let expected = std::fs::read_to_string("tests/config/bad/types.expected").expect("the lines");
    for verb in [&["check"][..], &["run"], &[]] {
        let output = program(&[verb, &["--config.file", file]].concat());
        assert_eq!(output.status.code(), Some(WRONG_INPUT), "{verb:?}");
        assert_eq!(stderr(&output), expected, "{verb:?}");
        assert_eq!(stdout(&output), "", "{verb:?}");
    }
}

#[test]
fn a_password_may_come_from_the_environment() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("env.yml");
    let redis = "{ addr: redis://h, password_env: STAMPEDE_TEST_PASSWORD }";
    write(&path, &format!("caches:\n  - {{ name: a, redis: {redis} }}\n"));
    let check = |password: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stampede-exporter"));
        command.arg("check").arg("--config.file").arg(&path);
        command.env_remove("STAMPEDE_TEST_PASSWORD");
        command.envs(password.map(|p| ("STAMPEDE_TEST_PASSWORD", p)));
        command.output().expect("it starts").status.code()
    };
    assert_eq!(check(Some("secret")), Some(FINE));
    assert_eq!(check(Some("")), Some(FINE), "an empty password is one");
    assert_eq!(check(None), Some(WRONG_INPUT));
}

#[test]
fn an_address_in_use_is_one_clear_line_and_1() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let args = ["--redis.addr", "redis://127.0.0.1:1", "--web.listen-address", &address];
    let output = program(&args);
    assert_eq!(output.status.code(), Some(FAILED));
    assert_eq!(
        stderr(&output),
        format!(
            "stampede-exporter: cannot listen on {address}: Address already in use (os error 98)\n"
        )
    );
}

#[test]
fn ttl_and_drill_say_every_problem_of_an_address_and_end_with_2() {
    let output = program(&["ttl", "--redis.addr", "CANARY", "--group", "x", "--group", "all=*"]);
    assert_eq!(output.status.code(), Some(WRONG_INPUT));
    let paths: Vec<_> = stderr(&output).lines().map(|l| l.split(' ').next().unwrap_or(l)).collect();
    assert_eq!(paths, ["--group:", "--group:", "--redis.addr:"]);
    assert!(!stderr(&output).contains("CANARY"), "{}", stderr(&output));

    let cases: [(&[&str], &str); 4] = [
        (&["--redis.addr", "redis://h/3"], "--redis.addr: takes no database"),
        (&["--scenario", "meteorite"], "synchronized_expiry"),
        (&["--rate", "0/s"], "the rate must be above 0"),
        (&["--duration", "60"], "write a duration such as 1s or 250ms"),
    ];
    for (args, part) in cases {
        let output = program(&[&["drill"], args].concat());
        assert_eq!(output.status.code(), Some(WRONG_INPUT), "{args:?}: {output:?}");
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn backtest_says_what_its_arguments_lack_and_ends_with_2() {
    let dir = tempfile::tempdir().expect("a directory");
    let two = dir.path().join("two.yml");
    write(&two, &watching(&["one", "two"]));
    let two = two.display().to_string();
    let server = ["--prometheus.url", "http://127.0.0.1:1", "--start", "100"];
    let cases: [(&[&str], &str); 9] = [
        (&[], "<FILE|--prometheus.url <URL>>"),
        (&["trace.csv", "--prometheus.url", "http://h"], "cannot be used with"),
        (&server, "--end <T>"),
        (&[&server[..], &["--end", "tomorrow"]].concat(), "such as 2026-01-31T12:00:00Z"),
        // Milliseconds.
        (&[&server[..], &["--end", "1700000000000"]].concat(), "Unix seconds, 0 to 253402300799"),
        (
            &[&server[..], &["--end", "1970-01-01T00:01:40Z"]].concat(),
            "--end: must be after --start",
        ),
        (&[&server[..], &["--end", "200", "--step", "1ms"]].concat(), "write a duration of 100ms"),
        (&["trace.csv", "--query.hits", "x"], "--prometheus.url"),
        (
            &["trace.csv", "--config.file", &two, "--cache", "three"],
            "a cache of the file: one, two",
        ),
    ];
    for (args, part) in cases {
        let output = program(&[&["backtest"], args].concat());
        assert_eq!(output.status.code(), Some(WRONG_INPUT), "{args:?}: {output:?}");
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn backtest_says_which_file_it_cannot_read_and_ends_with_1() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    write(&dir.path().join("back.csv"), "time,hits,misses\n2,1,1\n1,2,2\n");
    let cases = [
        (path("nowhere.csv"), "cannot be read: No such file"),
        (path(""), "cannot be read: Is a directory"),
        (path("back.csv"), "line 3: time 1 does not come after 2"),
    ];
    for (file, part) in cases {
        let output = program(&["backtest", &file]);
        assert_eq!(output.status.code(), Some(FAILED), "{file}: {output:?}");
        let said = stderr(&output);
        assert!(said.starts_with(&format!("stampede-exporter: {file}: {part}")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn what_run_records_backtest_replays() {
    let redis = Redis::start();
    let dir = tempfile::tempdir().expect("a directory");
    let traces = dir.path().join("traces");
    let traces_arg = traces.display().to_string();
    let mut exporter =
        Exporter::start(&["--redis.addr", &redis.url(), "--record.dir", &traces_arg]);
    exporter.wait_for_metric("stampede_redis_polls_total{cache=\"default\"}", |polls| polls >= 3.0);
    exporter.signal("TERM");
    exporter.wait_for_exit();
    let files: Vec<_> = std::fs::read_dir(&traces).expect("the directory").collect();
    let [Ok(file)] = files.as_slice() else { panic!("one trace: {files:?}") };
    let output = program(&["backtest", &file.path().display().to_string(), "--json"]);
    assert_eq!(output.status.code(), Some(FINE), "{}", stderr(&output));
    let last = stdout(&output).lines().last().expect("a line");
    let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
    assert!(last["summary"]["rows"].as_u64() >= Some(3), "{last}");
    assert_eq!(last["summary"]["incidents"], 0, "{last}");
}

#[test]
fn ttl_prints_one_json_object_about_a_server() {
    let redis = Redis::start();
    redis.cli(&["SET", "product:1", "v", "EX", "1000"]);
    let args = ["ttl", "--redis.addr", &redis.url(), "--group", "product=product:*", "--json"];
    let output = program(&args);
    assert_eq!(output.status.code(), Some(FINE), "{}", stderr(&output));
    let look: serde_json::Value = serde_json::from_str(stdout(&output)).expect("one JSON object");
    assert_eq!(look["groups"][0]["name"], "product", "{look}");
    assert_eq!(stderr(&output), "", "progress is for terminals");
}

#[test]
fn a_server_that_is_not_there_is_one_line_and_1() {
    for verb in ["ttl", "drill"] {
        let output = program(&[verb, "--redis.addr", "redis://127.0.0.1:1"]);
        assert_eq!(output.status.code(), Some(FAILED), "{verb}");
        let said = stderr(&output);
        assert!(said.starts_with("stampede-exporter: "), "{said}");
        assert_eq!(said.matches("Connection refused").count(), 1, "{said}");
        assert_eq!(said.matches("127.0.0.1:1:").count(), 1, "names the server: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn counters_are_there_before_the_first_poll_ends() {
    // It accepts and never answers, so that the first poll goes on.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let node = silent.local_addr().expect("its address").to_string();
    let exporter = Exporter::start_configured(&format!(
        "caches: [{{ name: shop, poll_timeout: 10s, redis: {{ addr: 'redis://{node}' }} }}]\n"
    ));
    let of_node = format!("{{cache=\"shop\",node=\"{node}\"}}");
    for series in [
        "stampede_redis_poll_errors_total{cache=\"shop\",reason=\"timeout\"}",
        "stampede_redis_poll_duration_seconds_count{cache=\"shop\"}",
        "stampede_ttl_sampler_lookups_total{cache=\"shop\"}",
        &format!("stampede_redis_keyspace_misses_total{of_node}"),
        &format!("stampede_redis_up{of_node}"),
    ] {
        exporter.wait_for_metric(series, |value| value == 0.0);
    }
    assert_eq!(exporter.metric("stampede_redis_polls_total{cache=\"shop\"}"), Some(0.0));
    assert_eq!(exporter.get("/-/ready").status, 503);
}

#[test]
fn flags_win_over_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("flags.yml");
    // Nobody may listen there; the flag of the fixture takes a free port.
    write(&path, &watching(&["a"]).replace("127.0.0.1:0", "192.0.2.1:80"));
    let path = path.display().to_string();
    let exporter = Exporter::start(&["--config.file", &path, "--log.format", "json"]);
    let log = exporter.log();
    assert!(log.starts_with("{\"timestamp\":"), "{log}");
    let exporter = Exporter::start(&["run", "--config.file", &path, "--log.level", "debug"]);
    assert!(!exporter.log().starts_with('{'), "{}", exporter.log());
}

#[test]
fn sigterm_and_sigint_end_it() {
    for name in ["TERM", "INT"] {
        let mut exporter = Exporter::start(&["--redis.addr", "redis://127.0.0.1:1"]);
        exporter.signal(name);
        assert_eq!(exporter.wait_for_exit(), Some(FINE), "{}", exporter.log());
        let said = format!("ending at SIG{name}");
        wait_for("the reason is in the log", || exporter.log().contains(&said).then_some(()));
    }
}

#[test]
fn clients_that_hold_on_do_not_hold_up_the_end() {
    let mut exporter = Exporter::start(&["--redis.addr", "redis://127.0.0.1:1"]);
    let mut half = TcpStream::connect(("127.0.0.1", exporter.port)).expect("a connection");
    std::io::Write::write_all(&mut half, b"GET /metrics HTTP/1.1\r\nHost:")
        .expect("half a request");
    exporter.get("/-/healthy");
    exporter.signal("TERM");
    assert_eq!(exporter.wait_for_exit(), Some(FINE), "{}", exporter.log());
}

#[test]
fn sighup_takes_a_good_file_and_keeps_the_old_one_for_a_bad_one() {
    const SUCCESSFUL: &str = "stampede_config_reload_successful";
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("reload.yml");
    write(&path, &watching(&["one", "two"]));
    let exporter = Exporter::start(&["--config.file", &path.display().to_string()]);
    assert_eq!(exporter.metric(SUCCESSFUL), Some(1.0));
    let status = |cache: &str| exporter.get(&format!("/metrics?cache={cache}")).status;
    assert_eq!((status("one"), status("two"), status("three")), (200, 200, 404));

    write(&path, &watching(&["two", "two"]).replace("caches", "cachs"));
    exporter.signal("HUP");
    exporter.wait_for_metric(SUCCESSFUL, |value| value == 0.0);
    wait_for("every problem in the log", || {
        let log = exporter.log();
        (log.contains("caches: missing") && log.contains("cachs: unknown key")).then_some(())
    });
    assert_eq!((status("one"), status("two"), status("three")), (200, 200, 404));

    std::fs::remove_file(&path).expect("the file goes");
    exporter.signal("HUP");
    wait_for("the missing file in the log", || {
        exporter.log().contains("cannot be read").then_some(())
    });
    assert_eq!((status("one"), exporter.metric(SUCCESSFUL)), (200, Some(0.0)));

    write(&path, &watching(&["two", "three"]));
    exporter.signal("HUP");
    exporter.wait_for_metric(SUCCESSFUL, |value| value == 1.0);
    assert_eq!((status("one"), status("two"), status("three")), (404, 200, 200));
}

#[test]
fn a_reload_leaves_caches_alone_that_did_not_change() {
    let polls = |cache: &str| format!("stampede_redis_polls_total{{cache=\"{cache}\"}}");
    let config = |interval: &str| {
        let rest = "redis: { addr: redis://127.0.0.1:1 }";
        format!(
            "web: {{ listen_address: \"127.0.0.1:0\" }}\ncaches:\n  \
             - {{ name: same, poll_interval: 100ms, {rest} }}\n  \
             - {{ name: changed, poll_interval: {interval}, {rest} }}\n"
        )
    };
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("reload.yml");
    write(&path, &config("100ms"));
    let exporter = Exporter::start(&["--config.file", &path.display().to_string()]);
    let before = exporter.wait_for_metric(&polls("same"), |n| n >= 3.0);
    exporter.wait_for_metric(&polls("changed"), |n| n >= 3.0);
    // The longest interval, so that the count of the new monitor stays at its first poll.
    write(&path, &config("60s"));
    exporter.signal("HUP");
    exporter.wait_for_metric(&polls("changed"), |n| n == 1.0);
    let after = exporter.metric(&polls("same"));
    assert!(after >= Some(before), "{before} polls before the reload, {after:?} after it");
}

#[test]
fn a_cache_whose_server_another_one_samples_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("shared.yml");
    write(
        &path,
        "web: { listen_address: \"127.0.0.1:0\" }\ncaches:\n  \
         - { name: sampling, redis: { addr: redis://127.0.0.1:1 } }\n  \
         - { name: beside, redis: { addr: redis://127.0.0.1:1 }, ttl: { keys_per_second: 0 } }\n  \
         - { name: elsewhere, redis: { addr: redis://127.0.0.1:2 } }\n",
    );
    let exporter = Exporter::start(&["--config.file", &path.display().to_string()]);
    exporter.wait_for_metric("stampede_redis_polls_total{cache=\"elsewhere\"}", |n| n >= 1.0);
    let log = exporter.log();
    let told = "the hits of cache \"beside\" hold what the sampler of cache \"sampling\" looks up";
    assert!(log.contains(told), "{log}");
    assert_eq!(log.matches("the hits of cache").count(), 1, "{log}");
}

#[test]
fn no_secret_leaves_the_process() {
    const SECRET: &str = "CANARY-1";
    let page = Page::start("cache_hits_total 1\n");
    let app = page.url().replace("://", &format!("://user:{SECRET}@"));
    // Nobody listens on port 1, so that every failure has its say.
    let redis = format!("redis://user:{SECRET}@127.0.0.1:1");
    let args = ["--redis.addr", &redis, "--app.url", &app, "--log.level", "trace"];
    for format in ["text", "json"] {
        let exporter = Exporter::start(&[&args[..], &["--log.format", format]].concat());
        for target in [
            "/",
            "/metrics",
            "/-/healthy",
            "/-/ready",
            "/api/v1/caches",
            "/api/v1/incidents",
            "/config",
        ] {
            let answer = exporter.get(target);
            assert!(!format!("{answer:?}").contains(SECRET), "{target}: {answer:?}");
        }
        exporter.signal("HUP");
        wait_for("the reload", || exporter.log().contains("reloaded").then_some(()));
        assert!(!exporter.log().contains(SECRET), "{}", exporter.log());
    }

    let spaced = format!("redis://:{SECRET} {SECRET}@h");
    let refused: [&[&str]; 8] = [
        &["--redis.addr", &redis, "--help"],
        &["--redis.addr", &redis, "--config.file", "x"],
        &["--redis.addr", &redis, "--log.level", &redis],
        &["--redis.addr", &redis, "--web.listen-address", &app],
        &["--redis.addr", &redis, "--record.dir", "/dev/null"],
        &["--redis.addr", &format!("redis://:{SECRET}/@h"), "--app.url", SECRET],
        &[&redis],
        &[&spaced],
    ];
    for args in refused {
        let output = program(args);
        let said = format!("{}{}", stdout(&output), stderr(&output));
        assert!(!said.contains(SECRET), "{args:?}: {said}");
    }
}
