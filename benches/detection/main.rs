//! The detector beside other rules, on simulated traffic: `cargo bench --bench detection`.
//!
//! Arguments after `--`: `--quick` for a few seeds and days instead of many, `--seeds N`,
//! `--days N` for the calm days, `--first-seed N` (the thresholds were chosen on seeds below 1000),
//! `--only NAME` for one table of `open`, `varied`, `steps`, `calm`, `speed`, `--each` for a line per
//! scenario, `--counted SHARE` for the share of the optional counters that a cache has (default 0.75:
//! what names a cause is often not counted), and `--set KEY=VALUE` for another threshold.

#![allow(clippy::print_stdout, missing_docs, unreachable_pub)]

mod draw;
mod limit;
mod rules;
mod scenario;
mod score;
mod steps;
mod world;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use stampede_exporter::detect::{Detector, Thresholds};

use draw::Draw;
use limit::Reach;
use rules::Rule;
use scenario::Scenario;
use score::Score;
use world::Run;

/// What was asked for.
pub struct Arguments {
    pub seeds: u64,
    days: u64,
    pub first_seed: u64,
    only: Option<String>,
    each: bool,
    pub counted: f64,
    pub thresholds: Thresholds,
}

fn main() {
    let Some(arguments) = Arguments::read(std::env::args().skip(1)) else {
        println!(
            "legal: --quick --seeds N --days N --first-seed N --only TABLE --each --counted SHARE --set KEY=VALUE"
        );
        std::process::exit(2);
    };
    let wanted = |table: &str| arguments.only.as_deref().is_none_or(|only| only == table);
    if wanted("open") {
        println!("\n# The open scenarios as stated\n");
        compare(&arguments, false);
    }
    if wanted("varied") {
        println!("\n# The same with every parameter between half and double\n");
        compare(&arguments, true);
    }
    if wanted("steps") {
        steps::table(&arguments);
    }
    if wanted("calm") {
        calm(&arguments);
    }
    if wanted("speed") {
        speed(&arguments);
    }
}

impl Arguments {
    fn read(words: impl Iterator<Item = String>) -> Option<Arguments> {
        let mut read = Arguments {
            seeds: 24,
            days: 30,
            first_seed: 10_000,
            only: None,
            each: false,
            counted: 0.75,
            thresholds: Thresholds::default(),
        };
        let mut words = words;
        while let Some(word) = words.next() {
            match word.as_str() {
                "--bench" => {}
                "--quick" => (read.seeds, read.days) = (3, 3),
                "--each" => read.each = true,
                "--seeds" => read.seeds = words.next()?.parse().ok()?,
                "--days" => read.days = words.next()?.parse().ok()?,
                "--first-seed" => read.first_seed = words.next()?.parse().ok()?,
                "--counted" => read.counted = words.next()?.parse().ok()?,
                "--only" => read.only = words.next(),
                "--set" => {
                    let setting = words.next()?;
                    let (name, value) = setting.split_once('=')?;
                    let value: f64 = value.parse().ok()?;
                    let key = Thresholds::key(name).filter(|key| key.accepts(value))?;
                    (key.set)(&mut read.thresholds, value);
                }
                _ => return None,
            }
        }
        Some(read)
    }
}

/// Runs jobs on all cores; the results are in the order of the jobs.
pub fn parallel<J: Sync, R: Send + Default + Clone>(
    jobs: &[J],
    work: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut results = vec![R::default(); jobs.len()];
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        done.push((job, work(job)));
                    }
                    done
                })
            })
            .collect();
        for worker in workers {
            for (job, result) in worker.join().into_iter().flatten() {
                let index = jobs.iter().position(|other| std::ptr::eq(other, job));
                if let Some(slot) = index.and_then(|index| results.get_mut(index)) {
                    *slot = result;
                }
            }
        }
    });
    results
}

const RULES: [Rule; 7] = [
    Rule::Ours(1),
    Rule::Ours(5),
    Rule::Ours(15),
    Rule::Reference(15),
    Rule::Reference(1),
    Rule::ThreeSigma,
    Rule::StaticRatio,
];

/// All rules on all scenarios.
fn compare(arguments: &Arguments, varied: bool) {
    let scenarios: Vec<Scenario> =
        scenario::stampedes().into_iter().chain(scenario::benigns()).collect();
    let mut jobs = Vec::new();
    for seed in arguments.first_seed..arguments.first_seed + arguments.seeds {
        for (index, scenario) in scenarios.iter().enumerate() {
            let own = seed * 1000 + index as u64;
            let made = if varied {
                scenario.vary(&mut Draw::seeded(own ^ 0x5eed))
            } else {
                scenario.clone()
            };
            jobs.push((index, own, made));
        }
    }
    let results = parallel(&jobs, |(_, seed, scenario)| {
        let run = Run::of(scenario, *seed, arguments.counted);
        let scores = RULES.map(|rule| {
            let mut score = Score::default();
            score.add(&run, &rule.alarms(&run.samples, &arguments.thresholds));
            score
        });
        (scores, Reach::of(scenario, run.ratio, &arguments.thresholds))
    });
    let mut totals: [Score; RULES.len()] = Default::default();
    for (scores, _) in &results {
        for (total, score) in totals.iter_mut().zip(scores) {
            total.merge(score.clone());
        }
    }
    let limits: Vec<f64> = results.iter().filter_map(|(_, reach)| reach.delay()).collect();
    println!(
        "{:<32} {:>11} {:>24} {:>12} {:>12} {:>9} {:>7}",
        "rule", "recall", "delay s p50/p90/max", "false alarms", "benign runs", "per day", "cause"
    );
    for (rule, total) in RULES.iter().zip(&totals) {
        println!(
            "{:<32} {:>4}/{:<4} {:>4.0}% {:>6.1} {:>6.1} {:>6.0} {:>12} {:>6}/{:<5} {:>9.2} {:>6.1}%",
            rule.name(),
            total.delays.len(),
            total.stampedes,
            100.0 * total.recall(),
            total.delay(0.5),
            total.delay(0.9),
            total.delay(1.0),
            total.false_alarms,
            total.benign_runs_alarmed,
            total.benign_runs,
            total.false_alarms_per_day(),
            100.0 * total.cause_accuracy(),
        );
    }
    println!(
        "{:<32} {:>4}/{:<4} {:>4.0}% {:>6.1} {:>6.1} {:>6.0}",
        "physical limit (Lorden)",
        limits.len(),
        totals[0].stampedes,
        100.0 * limits.len() as f64 / totals[0].stampedes.max(1) as f64,
        score::quantile(&limits, 0.5),
        score::quantile(&limits, 0.9),
        score::quantile(&limits, 1.0),
    );
    let found = |wanted: fn(Reach) -> bool| {
        let runs = results.iter().filter(|(_, reach)| wanted(*reach));
        let (found, all) = runs.fold((0, 0), |(found, all), (scores, _)| {
            (found + scores[0].delays.len(), all + scores[0].stampedes)
        });
        format!("{found}/{all} = {:.1} %", 100.0 * found as f64 / all.max(1) as f64)
    };
    println!(
        "ours found {} of what can be known, {} of what is smaller than a stampede by definition, \
         {} of what no rule can know from the misses",
        found(|reach| reach.delay().is_some()),
        found(|reach| reach == Reach::TooSmall),
        found(|reach| reach == Reach::Unknowable),
    );
    if arguments.each {
        each(&scenarios, &jobs, &results);
    }
}

/// A line per scenario, of ours at one-second polls.
fn each(
    scenarios: &[Scenario],
    jobs: &[(usize, u64, Scenario)],
    results: &[([Score; RULES.len()], Reach)],
) {
    println!();
    for (index, scenario) in scenarios.iter().enumerate() {
        let mut total = Score::default();
        let mut limits = Vec::new();
        let mut missed = Vec::new();
        for ((own, seed, _), (scores, reach)) in jobs.iter().zip(results) {
            if *own == index {
                total.merge(scores[0].clone());
                limits.extend(reach.delay());
                if scores[0].stampedes > scores[0].delays.len() {
                    missed.push(match reach {
                        Reach::TooSmall => format!("{seed} too small"),
                        Reach::Unknowable => format!("{seed} unknowable"),
                        Reach::Calm | Reach::Known(_) => seed.to_string(),
                    });
                }
            }
        }
        println!(
            "{:<26} found {:>3}/{:<3} (limit {:>3}) delay {:>6.1} {:>6.1} limit {:>5.1} cause {:>5.1}% \
             false alarms {} missed {}",
            scenario.name,
            total.delays.len(),
            total.stampedes,
            limits.len(),
            total.delay(0.5),
            total.delay(1.0),
            score::quantile(&limits, 0.5),
            100.0 * total.cause_accuracy(),
            total.false_alarms,
            missed.join(", "),
        );
    }
}

/// What is left of a sample where nothing but hits and misses is counted.
pub fn without_witnesses(
    sample: &stampede_exporter::signal::sample::Sample,
) -> stampede_exporter::signal::sample::Sample {
    stampede_exporter::signal::sample::Sample {
        time: sample.time,
        dt: sample.dt,
        lookups: sample.lookups,
        ..Default::default()
    }
}

/// Whole calm days.
fn calm(arguments: &Arguments) {
    let days = arguments.days;
    println!("\n# {days} calm days: false alarms\n");
    let scenarios = scenario::calm_days();
    let mut jobs = Vec::new();
    for day in 0..days {
        for (index, scenario) in scenarios.iter().enumerate() {
            jobs.push((index, (arguments.first_seed + day) * 1000 + 900 + index as u64, scenario));
        }
    }
    let rules = [Rule::Ours(1), Rule::Ours(5), Rule::Ours(15), Rule::Reference(15)];
    let results = parallel(&jobs, |(_, seed, scenario)| {
        let run = Run::of(scenario, *seed, arguments.counted);
        rules.map(|rule| {
            let mut score = Score::default();
            score.add(&run, &rule.alarms(&run.samples, &arguments.thresholds));
            score
        })
    });
    print!("{:<32}", "rule");
    for scenario in &scenarios {
        print!("{:>16}", scenario.name);
    }
    println!();
    for (index, rule) in rules.iter().enumerate() {
        print!("{:<32}", rule.name());
        for own in 0..scenarios.len() {
            let alarms: usize = jobs
                .iter()
                .zip(&results)
                .filter(|(job, _)| job.0 == own)
                .map(|(_, result)| result[index].false_alarms)
                .sum();
            print!("{alarms:>16}");
        }
        println!();
    }
}

/// How long one sample takes.
fn speed(arguments: &Arguments) {
    println!("\n# Speed\n");
    let scenario = &scenario::stampedes()[4];
    let full = Run::of(scenario, 1, arguments.counted).samples;
    let bare: Vec<_> = full.iter().map(without_witnesses).collect();
    for (name, samples) in [("hits and misses", &bare), ("every counter", &full)] {
        let mut best = f64::INFINITY;
        for _ in 0..20 {
            let mut detector = Detector::new(arguments.thresholds.clone());
            #[allow(clippy::disallowed_methods)]
            let began = Instant::now();
            let mut score = 0.0;
            for sample in samples {
                score += std::hint::black_box(detector.observe(sample)).score;
            }
            std::hint::black_box(score);
            best = best.min(began.elapsed().as_secs_f64() / samples.len() as f64);
        }
        println!("observe, {name}: {:.0} ns a sample", best * 1e9);
    }
}
