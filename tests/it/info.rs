//! `INFO` texts of many servers, and texts that nobody should send.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use stampede_exporter::reading::info::{Info, InfoProblem, InfoProblemKind, parse};

const REDIS_7: &[u8] = include_bytes!("../info/redis-7.0.txt");

fn problems(problems: &[InfoProblem]) -> Vec<(InfoProblemKind, &str)> {
    problems.iter().map(|p| (p.kind, p.field.as_str())).collect()
}

/// The problems other than missing fields, which a short text always has.
fn oddities(text: &str) -> Vec<(InfoProblemKind, String)> {
    let (_, problems) = parse(text.as_bytes());
    let odd = problems.into_iter().filter(|p| p.kind != InfoProblemKind::Missing);
    odd.map(|p| (p.kind, p.field)).collect()
}

fn keys(text: &str) -> Option<f64> {
    parse(text.as_bytes()).0.keys()
}

#[test]
fn reads_redis_7() {
    let (info, odd) = parse(REDIS_7);
    assert_eq!(odd, []);
    assert_eq!(info.server.as_deref(), Some("redis"));
    assert_eq!(info.version.as_deref(), Some("7.0.15"));
    assert_eq!(info.mode.as_deref(), Some("standalone"));
    assert_eq!(info.role.as_deref(), Some("master"));
    assert_eq!(info.run_id.map(|id| id.len()), Some(40));
    assert_eq!(info.loading, Some(false));
    assert_eq!(info.maxmemory_policy.as_deref(), Some("noeviction"));
    assert_eq!((info.counters.hits, info.counters.misses), (Some(1.0), Some(1.0)));
    let keyspace = info.keyspace.expect("a keyspace section");
    assert_eq!(keyspace.databases.len(), 1);
    assert_eq!((keyspace.databases[0].index, keyspace.databases[0].keys), (3, 1.0));
    let commands = info.commands.expect("a commandstats section");
    assert_eq!(commands.get("config|resetstat").calls, 1.0);
    assert_eq!(commands.get("flushdb").calls, 1.0);
    assert_eq!(commands.get("flushall").calls, 0.0, "not listed is never called");
}

#[test]
fn reads_the_texts_of_other_servers() {
    let (valkey, odd) = parse(include_bytes!("../info/valkey-9.txt"));
    assert_eq!(odd, []);
    assert_eq!(valkey.server.as_deref(), Some("valkey"));
    assert_eq!(valkey.version.as_deref(), Some("9.0.1"));
    assert_eq!(valkey.mode.as_deref(), Some("cluster"));
    assert_eq!(valkey.role.as_deref(), Some("slave"));
    assert_eq!(valkey.loading, Some(true));
    assert_eq!(valkey.keys(), Some(10.0));
    assert_eq!(valkey.keyspace.and_then(|k| k.databases[0].avg_ttl), Some(0.9));
    assert_eq!(valkey.commands, None);

    let (dragonfly, odd) = parse(include_bytes!("../info/dragonfly.txt"));
    assert_eq!(problems(&odd), [(InfoProblemKind::Missing, "run_id")]);
    assert_eq!(dragonfly.server.as_deref(), Some("dragonfly"));
    assert_eq!(dragonfly.version.as_deref(), Some("df-v1.30.0"));
    let db = dragonfly.keyspace.expect("a keyspace").databases[0];
    assert_eq!((db.keys, db.expires, db.avg_ttl), (5.0, Some(3.0), None));

    let (keydb, odd) = parse(include_bytes!("../info/keydb.txt"));
    assert_eq!(problems(&odd), [(InfoProblemKind::Ttl, "db0")]);
    let db = keydb.keyspace.expect("a keyspace").databases[0];
    assert_eq!((db.keys, db.expires, db.avg_ttl), (8.0, Some(8.0), None));

    let (kvrocks, odd) = parse(include_bytes!("../info/kvrocks.txt"));
    assert_eq!(odd, []);
    assert_eq!(kvrocks.server.as_deref(), Some("kvrocks"));
    assert_eq!(kvrocks.keys(), Some(4.0));

    let (managed, odd) = parse(include_bytes!("../info/managed.txt"));
    let missing =
        [(InfoProblemKind::Missing, "run_id"), (InfoProblemKind::Missing, "uptime_in_seconds")];
    assert_eq!(problems(&odd), missing);
    assert_eq!((managed.counters.hits, managed.counters.misses), (Some(50.0), Some(5.0)));
    assert_eq!((managed.keys(), managed.keyspace, managed.uptime), (None, None, None));
}

#[test]
fn a_short_text_is_completed_from_the_last_long_one() {
    let (long, _) = parse(REDIS_7);
    let mut short = parse(b"keyspace_hits:9\r\n# Keyspace\r\n").0;
    short.keep_from(&long, 2.7);
    assert_eq!((&short.run_id, &short.role), (&long.run_id, &long.role));
    assert_eq!(short.uptime, long.uptime.map(|uptime| uptime + 2.0), "whole seconds");
    assert_eq!((short.counters.hits, short.counters.misses), (Some(9.0), None));
    assert_eq!((short.keys(), short.commands), (Some(0.0), None));
}

#[test]
fn a_keyspace_line_is_read_by_name() {
    let redis_7_4 = "db0:keys=10,expires=4,avg_ttl=900,subexpiry=2";
    assert_eq!((keys(redis_7_4), oddities(redis_7_4)), (Some(10.0), vec![]));
    let five = "db0:subexpiry=0,avg_ttl=900,future=1,expires=4,keys=10";
    assert_eq!(keys(five), Some(10.0));
    assert_eq!(oddities(five), [(InfoProblemKind::UnknownName, "db0".to_owned())]);
    assert_eq!(keys("# Keyspace\r\ndb3:keys=1,expires=0\r\ndb200:keys=2,expires=0"), Some(3.0));
    assert_eq!(keys("# Keyspace\r\n"), Some(0.0), "an empty section is no key");
    assert_eq!(keys("# Stats\r\n"), None, "no section is not known");
}

#[test]
fn an_unreadable_keyspace_line_is_never_an_empty_database() {
    for line in ["db0:", "db0:keys", "db0:keys=,expires=1", "db0:keys=-1", "db0:expires=3", "db0:="]
    {
        assert_eq!(keys(&format!("# Keyspace\n{line}\n")), None, "{line}");
        assert!(oddities(line).iter().any(|(_, field)| field == "db0"), "{line}");
        assert_eq!(keys(&format!("{line}\ndb1:keys=7\n")), Some(7.0), "only {line} is lost");
    }
}

#[test]
fn old_and_new_command_lines() {
    let text = "cmdstat_flushall:calls=1,usec=2,usec_per_call=2.00\n\
                cmdstat_config|resetstat:calls=3,usec=4,usec_per_call=2.00,rejected_calls=0,failed_calls=1\n\
                cmdstat_info:calls=5\ncmdstat_scan\ncmdstat_pttl:\ncmdstat_flushdb:calls=x,usec=1";
    let commands = parse(text.as_bytes()).0.commands.expect("commands");
    assert_eq!((commands.get("flushall").calls, commands.get("flushall").usec), (1.0, Some(2.0)));
    assert_eq!(commands.get("config|resetstat").calls, 3.0);
    assert_eq!((commands.get("info").calls, commands.get("info").usec), (5.0, None));
    let lines = ["cmdstat_pttl", "cmdstat_flushdb"].map(|f| (InfoProblemKind::Line, f.to_owned()));
    assert_eq!(oddities(text), lines);
}

#[test]
fn an_odd_value_costs_that_field_only() {
    let text = "keyspace_hits:many\nkeyspace_misses:5\nuptime_in_seconds:-3\nloading:maybe\nrole:\n\
                used_memory: 12 \nevicted_keys:1.5\nexpired_keys:99999999999999999999999\n\
                run_id:\u{0}\nredis_mode:standalone\n";
    let (info, _) = parse(text.as_bytes());
    assert_eq!((info.counters.hits, info.counters.misses), (None, Some(5.0)));
    assert_eq!((info.uptime, info.loading, info.role, info.run_id), (None, None, None, None));
    assert_eq!((info.counters.evicted, info.counters.expired), (None, None));
    assert_eq!(info.used_memory, Some(12.0));
    assert_eq!(info.mode.as_deref(), Some("standalone"));
    let fields: Vec<String> = oddities(text).into_iter().map(|(_, field)| field).collect();
    let odd = ["keyspace_hits", "uptime_in_seconds", "loading", "evicted_keys", "expired_keys"];
    assert_eq!(fields, odd);
}

#[test]
fn texts_nobody_should_send_cost_nothing_else() {
    let long = format!("redis_version:{}\r\nrole:{}", "v".repeat(1 << 20), "ä".repeat(1 << 20));
    let (info, _) = parse(long.as_bytes());
    assert_eq!(info.version.map(|v| v.len()), Some(64), "a text of the server becomes a label");
    assert_eq!(info.role.map(|r| r.chars().count()), Some(64));
    for junk in
        ["errorstat_X:", "errorstat_:count=1", "errorstat_X:count", "cmdstat_get", ":", "", "#"]
    {
        let text = format!("{junk}\nkeyspace_hits:3\n");
        assert_eq!(parse(text.as_bytes()).0.counters.hits, Some(3.0), "{junk}");
    }
    let (info, _) = parse(b"\xff\xfe:\xff\nkeyspace_hits:\xff\nkeyspace_misses:4\nrole:\xffx");
    assert_eq!((info.counters.hits, info.counters.misses), (None, Some(4.0)));
    assert!(parse(b"").0.is_empty());
    assert!(parse(b"+OK").0.is_empty());
}

#[test]
fn no_text_breaks_the_reader() {
    for cut in 0..REDIS_7.len() {
        let text = String::from_utf8_lossy(&REDIS_7[..cut]);
        let expected = match text.trim_end() {
            text if text.contains("\ndb3:keys=1") => Some(1.0),
            text if text.ends_with("\n# Keyspace") => Some(0.0),
            _ => None,
        };
        assert_eq!(parse(&REDIS_7[..cut]).0.keys(), expected, "cut at {cut}");
    }
    let mut random = StdRng::seed_from_u64(7);
    for _ in 0..20_000 {
        let mut text = REDIS_7.to_vec();
        for _ in 0..random.random_range(1..20) {
            let at = random.random_range(0..text.len());
            match random.random_range(0..3) {
                0 => text[at] = random.random(),
                1 => drop(text.remove(at)),
                _ => {
                    text.insert(at, *b":=,\r\n#\0\xff".get(random.random_range(0..8)).unwrap_or(&0))
                }
            }
        }
        let (info, _) = parse(&text);
        assert!(believable(&info), "{}", String::from_utf8_lossy(&text));
    }
}

/// No count is negative or no number, and no text is longer than a label should be.
fn believable(info: &Info) -> bool {
    let counts =
        info.counters.all().into_iter().chain([info.uptime, info.used_memory, info.keys()]);
    let texts = [&info.run_id, &info.server, &info.version, &info.mode, &info.role];
    counts.flatten().all(|n| n.is_finite() && n >= 0.0)
        && texts.into_iter().flatten().all(|t| t.chars().count() <= 64 && !t.contains('\n'))
}
