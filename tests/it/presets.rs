//! Each preset against a page of its library: `tests/presets/NAME.prom` names the right values.

use std::collections::BTreeSet;
use std::path::Path;

use stampede_exporter::reading::mapping::{Counter, preset, preset_names};
use stampede_exporter::reading::page::parse;
use stampede_exporter::signal::tally::{Tally, Warning};

/// What the page says beyond one on which everything is zero, as `counter=value`.
fn read(name: &str, page: &str) -> (BTreeSet<String>, Vec<Warning>) {
    let zero = |line: &str| match line.rsplit_once(' ') {
        Some((series, _)) if !line.starts_with('#') => format!("{series} 0\n"),
        _ => format!("{line}\n"),
    };
    let before: String = page.lines().map(zero).collect();
    let mut tally = Tally::new(preset(name).expect("the preset").for_cache("catalog"));
    let mut take = |second: f64, text: &str| {
        let (page, problems) = parse(text.as_bytes(), |_| true);
        assert_eq!(problems, [], "{name}");
        tally.take(second, &page)
    };
    take(1000.0, &before);
    let step = take(1001.0, page);
    let rises = Counter::ALL
        .into_iter()
        .filter_map(|counter| Some(format!("{}={}", counter.as_str(), step.rises.get(counter)?)));
    (rises.collect(), step.warnings)
}

#[test]
fn every_preset_reads_its_library_right() {
    for name in preset_names() {
        let file = Path::new("tests/presets").join(format!("{name}.prom"));
        let page = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file:?}: {e}"));
        let right =
            page.lines().find_map(|line| line.strip_prefix("# right: ")).expect("the right values");
        let right: BTreeSet<String> = right.split(' ').map(str::to_owned).collect();
        assert_eq!(read(name, &page), (right, vec![]), "{name}");
    }
}

#[test]
fn a_library_that_counts_misses_twice_is_a_warning() {
    let page = "fusioncache_cache_hit_total 100\nfusioncache_cache_miss_total 200\n\
        fusioncache_factory_success_total 100\nfusioncache_cache_get_or_set_total 200\n";
    assert_eq!(read("fusioncache", page).1, [Warning::CountedTwice]);
}

#[test]
fn refused_locks_are_counted() {
    let (counters, _) = read(
        "ncps-lock",
        "ncps_lock_acquisitions_total{result=\"success\"} 10\nncps_lock_acquisitions_total{result=\"contention\"} 90\n",
    );
    assert!(counters.contains("lock_contended=90") && counters.contains("lock_acquired=10"));
}
