//! Counters over resets, restarts and other servers at the same address.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use stampede_exporter::reading::info::{Info, parse};
use stampede_exporter::signal::counters::{Interval, NodeCounters, OwnLookups, ResetReason};

const NO_OWN: OwnLookups = OwnLookups { hits: 0.0, misses: 0.0 };

/// What a server says, as far as it matters here.
#[derive(Debug, Clone, Copy)]
struct Says {
    /// 0 when the server does not tell.
    run_id: u32,
    uptime: u64,
    hits: u64,
    misses: u64,
    expired: u64,
    role: &'static str,
    /// Calls that the command statistics show: `INFO`, `CONFIG RESETSTAT`, `FLUSHALL`.
    calls: Option<(u64, u64, u64)>,
}

const OLD: Says = Says {
    run_id: 1,
    uptime: 1_000_000,
    hits: 5_000_000,
    misses: 1000,
    expired: 70,
    role: "master",
    calls: Some((400, 0, 2)),
};

impl Says {
    fn info(self) -> Info {
        let mut text = format!("keyspace_hits:{}\nkeyspace_misses:{}\n", self.hits, self.misses);
        text += &format!("expired_keys:{}\nevicted_keys:0\n", self.expired);
        text += &format!("total_commands_processed:{}\n", self.hits + self.misses);
        text += &format!("uptime_in_seconds:{}\nrole:{}\n", self.uptime, self.role);
        if self.run_id != 0 {
            text += &format!("run_id:{}\n", self.run_id);
        }
        if let Some((info, resetstat, flushall)) = self.calls {
            text += "# Commandstats\n";
            for (name, calls) in
                [("info", info), ("config|resetstat", resetstat), ("flushall", flushall)]
            {
                if calls > 0 {
                    text += &format!("cmdstat_{name}:calls={calls},usec=1\n");
                }
            }
        }
        parse(text.as_bytes()).0
    }

    /// The same server a second later, with this much more of everything.
    fn later(self, hits: u64, misses: u64) -> Says {
        Says {
            uptime: self.uptime + 1,
            hits: self.hits + hits,
            misses: self.misses + misses,
            calls: self.calls.map(|(info, resetstat, flushes)| (info + 1, resetstat, flushes)),
            ..self
        }
    }
}

/// Polls a second apart; gives the counters after the last one.
fn after(polls: &[Says]) -> NodeCounters {
    let mut counters = NodeCounters::default();
    for (second, says) in polls.iter().enumerate() {
        counters.observe(second as f64, &says.info(), NO_OWN);
    }
    counters
}

fn lookups(counters: &NodeCounters) -> (f64, f64) {
    (counters.totals().hits, counters.totals().misses)
}

fn resets(counters: &NodeCounters) -> [u64; 4] {
    ResetReason::ALL.map(|reason| counters.resets(reason).count)
}

#[test]
fn the_first_poll_adds_nothing() {
    let counters = after(&[OLD]);
    assert_eq!(lookups(&counters), (0.0, 0.0));
    assert_eq!(counters.interval(), Interval::First);
    assert_eq!(counters.flushes(), Some(0.0));
    assert_eq!(resets(&counters), [0; 4]);
}

#[test]
fn a_rise_is_added() {
    let flushed = Says { calls: Some((401, 0, 3)), expired: 75, ..OLD.later(7, 3) };
    let counters = after(&[OLD, flushed, flushed.later(1, 1)]);
    assert_eq!(lookups(&counters), (8.0, 4.0));
    assert_eq!((counters.totals().expired, counters.flushes()), (5.0, Some(1.0)));
    assert_eq!(counters.interval(), Interval::Counted);
    assert_eq!(resets(&counters), [0; 4]);
}

#[test]
fn a_gap_is_a_longer_interval() {
    let mut counters = NodeCounters::default();
    counters.observe(0.0, &OLD.info(), NO_OWN);
    let minute_later = Says { uptime: OLD.uptime + 60, ..OLD.later(600, 60) };
    assert_eq!(counters.observe(60.0, &minute_later.info(), NO_OWN), Interval::Counted);
    assert_eq!((lookups(&counters), resets(&counters)), ((600.0, 60.0), [0; 4]));
}

#[test]
fn a_restart_starts_at_zero() {
    let new = Says { run_id: 2, uptime: 0, hits: 30, misses: 20, expired: 1, calls: None, ..OLD };
    let counters = after(&[OLD, new]);
    assert_eq!(lookups(&counters), (30.0, 20.0));
    assert_eq!((counters.totals().expired, counters.interval()), (1.0, Interval::Counted));
    assert_eq!(resets(&counters), [1, 0, 0, 0]);
    let last = |counters: &NodeCounters| ResetReason::ALL.map(|r| counters.resets(r).last);
    assert_eq!(last(&counters), [Some(1.0), None, None, None]);
    let again = Says { run_id: 3, ..new };
    assert_eq!(last(&after(&[OLD, new, new.later(1, 1), again])), [Some(3.0), None, None, None]);
    // A server that does not tell its run_id shows it by its uptime.
    let [old, new] = [OLD, new].map(|says| Says { run_id: 0, ..says });
    assert_eq!(resets(&after(&[old, new])), [1, 0, 0, 0]);
}

#[test]
fn resetstat_starts_at_zero() {
    let reset = Says { hits: 50, misses: 4, expired: 0, calls: Some((0, 1, 0)), ..OLD.later(0, 0) };
    let counters = after(&[OLD, reset, reset.later(10, 1)]);
    assert_eq!(lookups(&counters), (60.0, 5.0));
    assert_eq!(counters.totals().expired, 0.0);
    assert_eq!(resets(&counters), [0, 1, 0, 0]);
}

#[test]
fn resetstat_is_seen_though_the_counters_are_past_their_old_values() {
    let before = Says { hits: 100, misses: 10, expired: 0, ..OLD };
    let reset = Says { hits: 300, misses: 20, calls: Some((0, 1, 1)), ..before.later(0, 0) };
    let counters = after(&[before, reset]);
    assert_eq!(lookups(&counters), (300.0, 20.0));
    assert_eq!((counters.flushes(), resets(&counters)), (Some(1.0), [0, 1, 0, 0]));
    // Twice in a row: the statistics of both polls show one RESETSTAT and no INFO.
    let again = Says { hits: 900, misses: 30, calls: Some((0, 1, 0)), ..reset.later(0, 0) };
    let counters = after(&[before, reset, again, again.later(1, 1)]);
    assert_eq!((lookups(&counters), resets(&counters)), ((1201.0, 51.0), [0, 2, 0, 0]));
}

#[test]
fn a_reset_that_is_seen_late_counts_and_invents_nothing() {
    let before = Says { hits: 100, misses: 10, expired: 0, ..OLD };
    // Two polls without command statistics: what they show may be the rise of one or the other.
    let first = Says { hits: 300, misses: 20, calls: None, ..before.later(0, 0) };
    let second = first.later(50, 5);
    let third = Says { calls: Some((2, 1, 1)), ..second.later(7, 3) };
    let counters = after(&[before, first, second, third, third.later(1, 1)]);
    assert_eq!(lookups(&counters), (258.0, 19.0)); // 200 + 50 + 7 + 1 and 10 + 5 + 3 + 1
    assert_eq!((counters.flushes(), resets(&counters)), (Some(1.0), [0, 1, 0, 0]));
}

#[test]
fn flushes_are_counted_over_polls_that_do_not_show_them() {
    let short = Says { calls: None, ..OLD.later(1, 1) };
    let long = Says { calls: Some((403, 0, 5)), ..short.later(1, 1) };
    let counters = after(&[OLD, short, short.later(1, 1), long]);
    assert_eq!((counters.flushes(), resets(&counters)), (Some(3.0), [0; 4]));
}

#[test]
fn a_short_answer_is_enough_while_nothing_is_out_of_the_ordinary() {
    let quiet = Says { calls: None, ..OLD.later(1000, 50) };
    let usual = quiet.later(1000, 50);
    let mut counters = NodeCounters::default();
    let info = |says: Says, keys: u64, commands: u64| {
        let mut info = says.info();
        info.counters.commands = Some(commands as f64);
        info.keyspace = parse(format!("db0:keys={keys},expires=0").as_bytes()).0.keyspace;
        info
    };
    let first = info(OLD, 1000, 10_000);
    assert!(counters.wants_more(0.0, &first), "nothing is known yet");
    counters.observe(0.0, &first, NO_OWN);
    let second = info(quiet, 1000, 11_000);
    assert!(counters.wants_more(1.0, &second), "nobody knows what is usual");
    counters.observe(1.0, &second, NO_OWN);

    assert!(!counters.wants_more(2.0, &info(usual, 1000, 12_000)));
    assert!(!counters.wants_more(2.0, &info(usual, 901, 12_000)), "some keys are deleted");
    assert!(counters.wants_more(2.0, &info(usual, 899, 12_000)), "many keys are gone");
    let expired = Says { expired: usual.expired + 200, ..usual };
    assert!(!counters.wants_more(2.0, &info(expired, 800, 12_000)), "their time was up");
    assert!(counters.wants_more(2.0, &info(usual, 1000, 14_000)), "much busier");
    let missing = Says { misses: usual.misses + 100, ..usual };
    assert!(counters.wants_more(2.0, &info(missing, 1000, 12_000)), "many more misses");
    assert!(counters.wants_more(2.0, &info(usual, 1000, 10_999)), "a counter fell");
    let other = Says { run_id: 2, ..usual };
    assert!(counters.wants_more(2.0, &info(other, 1000, 12_000)), "another process");
}

#[test]
fn a_reset_without_proof_for_the_lookups_is_a_gap() {
    // Before 7.0 the statistics do not name RESETSTAT, and it may have left some counters alone.
    let before = Says { hits: 100, misses: 10, ..OLD };
    let reset = Says { hits: 300, misses: 20, calls: Some((1, 0, 0)), ..before.later(0, 0) };
    let counters = after(&[before, reset]);
    assert_eq!((lookups(&counters), counters.interval()), ((0.0, 0.0), Interval::Dropped));
    assert_eq!(resets(&counters), [0, 1, 0, 0]);
    // Misses that fell prove it for the hits as well.
    let fell = Says { misses: 9, ..reset };
    assert_eq!(lookups(&after(&[before, fell])), (300.0, 9.0));
}

#[test]
fn another_server_is_a_gap_not_a_spike() {
    let other = Says { run_id: 2, uptime: 2_000_000, hits: 90_000_000, misses: 80_000, ..OLD };
    let mut polls = Vec::new();
    for n in 0..10 {
        polls.extend([OLD.later(n * 10, n), other.later(n * 10, n)]);
    }
    let counters = after(&polls);
    assert_eq!((lookups(&counters), counters.interval()), ((0.0, 0.0), Interval::Dropped));
    assert_eq!(resets(&counters), [0, 0, 19, 0]);
    polls.push(other.later(95, 10));
    assert_eq!(lookups(&after(&polls)), (5.0, 1.0), "two answers of one server in a row count");
    // The same without run_id: the uptime jumps.
    let nameless: Vec<Says> = polls.iter().map(|says| Says { run_id: 0, ..*says }).collect();
    assert_eq!(resets(&after(&nameless)), [0, 0, 19, 0]);
}

/// What the detector reads as a restart is an uptime that falls.
#[test]
fn a_failover_is_a_new_beginning_however_long_the_other_server_has_run() {
    let other = Says { run_id: 2, uptime: 2_000_000, hits: 90_000_000, misses: 80_000, ..OLD };
    let mut counters = NodeCounters::default();
    let polls = [OLD, OLD, other, other, OLD, other, OLD];
    let uptimes: Vec<f64> = polls
        .iter()
        .enumerate()
        .map(|(second, says)| {
            counters.observe(second as f64, &says.info(), NO_OWN);
            counters.uptime().unwrap()
        })
        .collect();
    // A server that has answered before is one of several at that address.
    assert_eq!(uptimes, [1e6, 1e6, 0.0, 1.0, 1e6, 2e6, 1e6]);
    // Without a name nobody can tell.
    let nameless = after(&[Says { run_id: 0, ..OLD }, Says { run_id: 0, ..other }]);
    assert_eq!(nameless.uptime(), Some(2e6));
}

#[test]
fn young_servers_in_turn_are_restarted_once_at_most() {
    let a = Says { uptime: 1, hits: 500, misses: 50, calls: None, ..OLD };
    let b = Says { run_id: 2, hits: 40, misses: 4, ..a };
    let counters = after(&[a, b, a, b, a, b]);
    assert_eq!((lookups(&counters), resets(&counters)), ((40.0, 4.0), [1, 0, 4, 0]));
}

#[test]
fn a_promotion_keeps_the_counters() {
    let replica = Says { role: "slave", ..OLD };
    let counters = after(&[replica, OLD.later(6, 2)]);
    assert_eq!((lookups(&counters), resets(&counters)), ((6.0, 2.0), [0, 0, 0, 1]));
}

#[test]
fn without_run_id_and_uptime_a_fall_is_a_reset() {
    let poll = |hits, misses| {
        parse(format!("keyspace_hits:{hits}\nkeyspace_misses:{misses}\n").as_bytes()).0
    };
    let mut counters = NodeCounters::default();
    for (second, (hits, misses)) in [(100, 10), (150, 12), (20, 3), (25, 3)].into_iter().enumerate()
    {
        counters.observe(second as f64, &poll(hits, misses), NO_OWN);
    }
    assert_eq!(lookups(&counters), (75.0, 5.0)); // 50 + 20 + 5 and 2 + 3 + 0
    assert_eq!((counters.flushes(), resets(&counters)), (None, [0, 1, 0, 0]));
}

#[test]
fn a_field_that_is_missing_once_is_a_gap() {
    let mut counters = NodeCounters::default();
    counters.observe(0.0, &OLD.info(), NO_OWN);
    let mut odd = OLD.later(5, 5).info();
    odd.counters.hits = None;
    assert_eq!(counters.observe(1.0, &odd, NO_OWN), Interval::Dropped);
    assert_eq!(counters.observe(2.0, &OLD.later(10, 10).info(), NO_OWN), Interval::Dropped);
    assert_eq!(counters.observe(3.0, &OLD.later(11, 12).info(), NO_OWN), Interval::Counted);
    assert_eq!(lookups(&counters), (1.0, 2.0));
}

#[test]
fn our_own_lookups_are_taken_out() {
    let own = |hits, misses| OwnLookups { hits, misses };
    let mut counters = NodeCounters::default();
    counters.observe(0.0, &OLD.info(), own(100.0, 10.0));
    let second = OLD.later(105, 12);
    counters.observe(1.0, &second.info(), own(200.0, 20.0));
    assert_eq!(lookups(&counters), (5.0, 2.0));
    // More of our own than there is, as after a RESETSTAT in between.
    counters.observe(2.0, &second.later(50, 0).info(), own(300.0, 20.0));
    assert_eq!(lookups(&counters), (5.0, 2.0));
}

#[test]
fn commands_that_were_cut_off_make_a_gap() {
    let mut counters = NodeCounters::default();
    counters.observe(0.0, &OLD.info(), NO_OWN);
    counters.note_uncertain();
    let later = OLD.later(100, 10);
    assert_eq!(counters.observe(1.0, &later.info(), NO_OWN), Interval::Dropped);
    assert_eq!(counters.observe(2.0, &later.later(3, 1).info(), NO_OWN), Interval::Counted);
    assert_eq!(lookups(&counters), (3.0, 1.0));
    // A process that started since has seen none of them.
    counters.note_uncertain();
    let new = Says { run_id: 2, uptime: 0, hits: 8, misses: 2, calls: None, ..OLD };
    assert_eq!(counters.observe(3.0, &new.info(), NO_OWN), Interval::Counted);
    assert_eq!(lookups(&counters), (11.0, 3.0));
}

/// Two servers that live through anything; whatever we add up must have happened.
#[test]
fn nothing_is_invented_whatever_happens() {
    let mut short_ones = 0;
    for seed in 0..300 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut run_ids = 1..;
        let start = |run_ids: &mut std::ops::RangeFrom<u32>| Says {
            run_id: run_ids.next().unwrap(),
            uptime: 0,
            hits: 0,
            misses: 0,
            expired: 0,
            role: "master",
            calls: Some((0, 0, 0)),
        };
        let mut servers = [start(&mut run_ids), start(&mut run_ids)];
        let (mut which, mut own, mut counters) = (0, NO_OWN, NodeCounters::default());
        let (mut happened, mut before, mut polled) = (0, 0.0, 0);
        for second in 0..200 {
            for server in &mut servers {
                let (hits, misses) = (random.random_range(0..2000), random.random_range(0..200));
                server.hits += hits;
                server.misses += misses;
                server.uptime += 1;
                happened += hits + misses;
            }
            if random.random_bool(0.5) {
                servers[which].hits += 100;
                own.hits += 100.0;
            }
            match random.random_range(0..30) {
                0 => {
                    servers[which] = start(&mut run_ids);
                }
                1 => {
                    let Says { run_id, uptime, role, .. } = servers[which];
                    let reset = Says { run_id, uptime, role, ..start(&mut run_ids) };
                    servers[which] = Says { calls: Some((0, 1, 0)), ..reset };
                }
                2 => which = 1 - which,
                3 => continue,
                _ => {}
            }
            let says = servers[which];
            let short = Says { calls: None, ..says };
            let enough = !counters.wants_more(f64::from(second), &short.info());
            let says = if enough && random.random_bool(0.9) { short } else { says };
            short_ones += u32::from(says.calls.is_none());
            counters.observe(f64::from(second), &says.info(), own);
            if let Some((info, _, _)) = &mut servers[which].calls {
                *info += 1;
            }
            let (hits, misses) = lookups(&counters);
            assert!(hits + misses >= before, "seed {seed}, second {second}: totals fell");
            assert!(hits + misses <= happened as f64, "seed {seed}, second {second}: invented");
            // The busiest second has 2200 lookups; a server that starts may be a second older.
            let most = 2200.0 * f64::from(second - polled + 1);
            assert!(hits + misses <= before + most, "seed {seed}, second {second}: a spike");
            (before, polled) = (hits + misses, second);
        }
        assert!(before > 0.5 * happened as f64 / 2.0, "seed {seed}: {before} of {happened}");
    }
    assert!(short_ones > 10_000, "{short_ones} of 60000 polls were short ones");
}
