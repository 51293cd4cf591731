//! Configuration files: what good ones mean, and what is said about bad ones, word for word.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stampede_exporter::config::{
    Config, ConfigError, CulpritsConfig, CulpritsSource, Flags, KeyNames, LogFormat, LogLevel,
    RedisAddress, Secret, StateConfig,
};
use stampede_exporter::detect::Thresholds;
use stampede_exporter::reading::mapping::{Counter, preset};

fn load(path: &str) -> Result<Config, ConfigError> {
    Config::from_file(Path::new(path), &Flags::default())
}

/// Every `bad/NAME.yml` is refused with exactly the lines of `bad/NAME.expected`.
#[test]
fn bad_files_are_refused_with_every_problem() {
    let mut files: Vec<PathBuf> = std::fs::read_dir("tests/config/bad")
        .expect("the bad configurations")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "yml"))
        .collect();
    files.sort();
    assert!(files.len() >= 10, "the files are there: {files:?}");
    let wrong: Vec<String> = files.iter().filter_map(|path| difference(path)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn difference(path: &Path) -> Option<String> {
    let expected = std::fs::read_to_string(path.with_extension("expected")).expect("what it says");
    let said = match load(&path.display().to_string()) {
        Ok(config) => format!("taken: {config:?}\n"),
        Err(error) => format!("{error}\n"),
    };
    let shown = path.display();
    assert!(!said.contains("CANARY"), "{shown} gives a secret away:\n{said}");
    (said != expected).then(|| format!("== {shown}\n-- expected\n{expected}-- said\n{said}"))
}

#[test]
fn a_minimal_file_has_the_documented_defaults() {
    let config = load("tests/config/good/minimal.yml").expect("a good file");
    assert_eq!(config.web.listen_address.to_string(), "127.0.0.1:19121");
    assert_eq!((config.log.level, config.log.format), (LogLevel::Info, LogFormat::Text));
    let files = (&config.record_dir, &config.state, &config.incidents_file);
    assert_eq!(files, (&None, &None, &None));
    assert_eq!(config.warm_start, None);
    let [cache] = config.caches.as_slice() else { panic!("one cache: {config:?}") };
    assert_eq!(&*cache.name, "default");
    assert_eq!(cache.poll_interval, Duration::from_secs(1));
    assert_eq!(cache.poll_timeout, Duration::from_secs(1));
    assert_eq!(cache.window, Duration::from_secs(10));
    assert_eq!(cache.min_lookups, 20);
    assert_eq!(cache.keep_incidents, 100);
    assert_eq!(cache.redis.address.to_string(), "127.0.0.1:6379");
    assert_eq!(
        (&cache.redis.username, &cache.redis.password, &cache.redis.tls),
        (&None, &None, &None)
    );
    assert_eq!((cache.ttl.keys_per_second, cache.ttl.server_budget), (100, 0.005));
    assert_eq!(cache.apps, []);
    assert_eq!(cache.detector, Thresholds::default());
}

#[test]
fn a_full_file_means_what_it_says() {
    let config = load("tests/config/good/full.yml").expect("a good file");
    assert_eq!(config.web.listen_address.to_string(), "[::1]:19122");
    assert_eq!((config.log.level, config.log.format), (LogLevel::Debug, LogFormat::Json));
    assert_eq!(config.record_dir, Some(PathBuf::from("tests/config/good")));
    let dir = PathBuf::from("tests/config/good");
    let save_interval = Duration::from_secs(10);
    assert_eq!(config.state, Some(StateConfig { dir, save_interval }));
    assert_eq!(config.incidents_file, Some(PathBuf::from("tests/config/good/none.jsonl")));
    let history = config.warm_start.as_ref().expect("a Prometheus");
    assert_eq!(history.url.0, "https://prometheus.example/below");
    assert_eq!(history.username.as_deref(), Some("reader"));
    let password = history.password.as_ref().expect("a password").read().expect("readable");
    assert_eq!(password, b"trailing space ");
    let [catalog, sessions] = config.caches.as_slice() else { panic!("two: {config:?}") };

    assert_eq!(catalog.poll_interval, Duration::from_millis(500), "from the defaults");
    assert_eq!(catalog.poll_timeout, Duration::from_secs(2));
    assert_eq!(catalog.window, Duration::from_secs(60));
    assert_eq!((catalog.min_lookups, catalog.keep_incidents), (5, 7));
    assert_eq!(
        catalog.redis.address,
        RedisAddress::Tcp { host: "cache.example".into(), port: 7000 }
    );
    assert_eq!(catalog.redis.username.as_deref(), Some("monitor"));
    let password = catalog.redis.password.as_ref().expect("a password").read().expect("readable");
    assert_eq!(password, b"p@ss:w/rd%41#?", "without the line end, nothing decoded");
    let tls = catalog.redis.tls.as_ref().expect("TLS");
    let file = PathBuf::from("tests/config/good/any.pem");
    assert_eq!(tls.ca_file.as_ref(), Some(&file), "merged from the defaults");
    assert_eq!(tls.server_name.as_deref(), Some("catalog.example"));
    let client = tls.client.as_ref().expect("a client certificate");
    assert_eq!((&client.cert_file, &client.key_file), (&file, &file));
    assert_eq!((catalog.ttl.keys_per_second, catalog.ttl.server_budget), (50, 0.002));
    let replica = catalog.ttl.sample_from.as_ref().expect("a replica");
    assert_eq!(replica.address.to_string(), "replica.example:7000");
    let same = (&catalog.redis.username, &catalog.redis.password, &catalog.redis.tls);
    assert_eq!((&replica.username, &replica.password, &replica.tls), same);
    let groups: Vec<_> =
        catalog.ttl.groups.iter().map(|g| (&*g.name, g.pattern.as_str())).collect();
    assert_eq!(groups, [("product", "product:*"), ("session", "s[0-9]\\[*")]);
    let watch: Vec<_> = catalog.ttl.watch.iter().map(|w| (&*w.name, w.key.as_str())).collect();
    assert_eq!(watch, [("front", "page:front")]);
    let salt = Some(Secret::File("tests/config/good/salt".into()));
    let keys = KeyNames::Hashed { salt };
    let hashed = CulpritsConfig { source: CulpritsSource::Notifications, keys };
    assert_eq!((&catalog.culprits, &sessions.culprits), (&hashed, &CulpritsConfig::default()));
    assert_eq!((catalog.detector.warm_up, catalog.detector.rise), (30.0, 2.0));

    assert_eq!(sessions.poll_interval, Duration::from_secs(10));
    assert_eq!(sessions.window, Duration::from_secs(20), "two polls where ten seconds are fewer");
    assert_eq!(sessions.redis.address.to_string(), "[fd00::7]:6379");
    let password = sessions.redis.password.as_ref().expect("a password").read().expect("readable");
    assert_eq!(password, b"trailing space ");
    let replica = sessions.ttl.sample_from.as_ref().expect("a replica");
    assert_eq!(replica.address.to_string(), "replica.example:6379");
    assert_eq!(replica.username.as_deref(), Some("reader"));
    assert_eq!((&replica.password, &replica.tls), (&None, &None));
    assert_eq!(sessions.redis.tls.as_ref().expect("TLS").client, None);
}

#[test]
fn applications_get_the_counters_that_they_name() {
    let config = load("tests/config/good/full.yml").expect("a good file");
    let apps = &config.caches.first().expect("a cache").apps;
    let [web, batch, by_hand] = apps.as_slice() else { panic!("three: {apps:?}") };
    let native = || preset("native").expect("the native preset");
    assert_eq!(web.mapping, native().for_cache("catalog"));
    assert_eq!(batch.mapping, native().for_cache("products"));
    assert_eq!(batch.url.0, "https://user:secret@batch.example/metrics?x=y");
    assert_eq!(format!("{:?}", batch.url), "https://batch.example/metrics");

    assert_eq!(
        (by_hand.mapping.group_label(), web.mapping.group_label()),
        (Some("keyspace"), None)
    );
    assert!(by_hand.mapping.counter(Counter::Loads).is_none(), "nothing from a preset");
    let misses = by_hand.mapping.counter(Counter::Misses).expect("misses");
    let read: Vec<_> = misses
        .terms()
        .iter()
        .map(|term| (term.factor, term.choices.iter().map(|c| c.name.as_str()).collect::<Vec<_>>()))
        .collect();
    assert_eq!(read, [(1.0, vec!["cache_requests_total"]), (-1.0, vec!["cache_hits_total"])]);
    let histogram = by_hand.mapping.load_latency().expect("a histogram");
    assert_eq!((histogram.selector.name.as_str(), histogram.scale), ("load_milliseconds", 0.001));
    assert_eq!(histogram.selector.matchers.first().expect("a label").label, "tier");
}

/// What the README shows is taken as it stands, but for the secret's place.
#[test]
fn the_configuration_of_the_readme_is_one() {
    let readme = std::fs::read_to_string("README.md").expect("the README");
    let block = readme.split("```yaml\n").nth(1).expect("a configuration");
    let block = block.split("```").next().expect("its end");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("readme.yml");
    let text = block.replace("/run/secrets/redis", "tests/config/good/password");
    std::fs::write(&path, text).expect("written");
    let config = load(&path.display().to_string()).expect("a good file");
    assert_eq!(config.caches.len(), 1);
}

#[test]
fn flags_alone_make_one_cache() {
    let apps = ["http://127.0.0.1:1/m", "http://h/m", "http://127.0.0.1:1/n"].map(str::to_owned);
    let flags = Flags { log_level: Some(LogLevel::Warn), ..Flags::default() };
    let config = Config::from_addresses("redis://me:p%40ss@h", &apps, &flags).expect("good flags");
    assert_eq!(config.log.level, LogLevel::Warn);
    let [cache] = config.caches.as_slice() else { panic!("one cache: {config:?}") };
    assert_eq!(&*cache.name, "default");
    assert_eq!(cache.redis.username.as_deref(), Some("me"));
    assert_eq!(cache.redis.password, Some(Secret::Inline(b"p@ss".to_vec())));
    let names: Vec<&str> = cache.apps.iter().map(|app| &*app.name).collect();
    assert_eq!(names, ["127.0.0.1:1", "h:80", "127.0.0.1:1#2"]);
}

#[test]
fn bad_flags_are_refused_together_and_not_repeated() {
    let apps = ["CANARY".to_owned()];
    let flags = Flags { record_dir: Some("/dev/null".into()), ..Flags::default() };
    let error = Config::from_addresses("CANARY", &apps, &flags).expect_err("bad flags");
    let paths: Vec<&str> = error.0.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["--redis.addr", "--app.url", "--record.dir"]);
    assert!(!error.to_string().contains("CANARY"), "{error}");
}

#[test]
fn nothing_shows_a_secret() {
    let apps = ["http://me:CANARY@h/m?token=CANARY".to_owned()];
    let config =
        Config::from_addresses("redis://:CANARY@h", &apps, &Flags::default()).expect("good");
    assert!(!format!("{config:?} {config:#?}").contains("CANARY"));
}

/// Whatever stands in the file, the answer is a configuration or problems.
#[test]
fn any_text_is_answered() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("any.yml");
    let good = std::fs::read("tests/config/good/full.yml").expect("a good file");
    for cut in (0..good.len()).step_by(3) {
        let mut text = good.get(..cut).expect("a part").to_vec();
        // Every fourth text goes on with something that fits nowhere.
        if cut % 4 == 0 {
            text.extend(b"\x00: &a [*a, {\xff");
        }
        std::fs::write(&path, &text).expect("written");
        if let Err(error) = load(&path.display().to_string()) {
            assert!(!error.0.is_empty(), "refused without a reason: {text:?}");
        }
    }
    let deep = "[".repeat(100_000);
    std::fs::write(&path, format!("caches: {deep}")).expect("written");
    load(&path.display().to_string()).expect_err("deeper than anybody means");
}
