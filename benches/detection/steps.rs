//! How small a rise is found, at which traffic: steps of the miss ratio for two minutes.
//!
//! A rule may buy recall with false alarms, so beside each row stand the false alarms that it raised
//! before the steps and well after them, and three rows show what recall costs: ours at the boldest line
//! that raises no more of them here than the usual rule, the usual rule at the lowest factor that
//! raises none, and the limit of what can be had for none. That one knows the level, the dispersion
//! and the wander of the cache and how long the step lasts, and only not when it begins: it adds up
//! the misses of the last two minutes, and its line is the highest value that this ever had outside
//! the steps.

use crate::rules::{Alarm, Rule};
use crate::scenario::{self, STEP_SECONDS, Scenario};
use crate::score::{AFTER, Score, quantile};
use crate::world::Run;
use crate::{Arguments, parallel, without_witnesses};

const RATES: [f64; 4] = [20.0, 50.0, 200.0, 1000.0];
const TARGETS: [f64; 8] = [0.03, 0.04, 0.045, 0.05, 0.07, 0.10, 0.20, 0.40];
const RULES: [Rule; 3] = [Rule::Ours(1), Rule::Reference(15), Rule::Reference(1)];
/// The usual rule among them that the bolder one of ours is held against.
const USUAL: usize = 1;
/// How much bolder ours is made.
const BOLDER: [f64; 5] = [3.0, 10.0, 30.0, 100.0, 300.0];
/// Factors of the usual rule of which the lowest without a false alarm is shown.
const FACTORS: [f64; 11] = [2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8, 2.9, 3.0];
/// Seconds before which the level of an hour is not known to anybody.
const WARM: f64 = 600.0;

/// One step size at one rate, over all seeds.
#[derive(Clone, Default)]
struct Cell {
    rules: [Score; RULES.len()],
    bolder: [Score; BOLDER.len()],
    factors: [Score; FACTORS.len()],
    best: Vec<Best>,
}

/// The sum over two minutes in one run, in standard deviations above what is usual.
#[derive(Clone, Default)]
struct Best {
    /// Its highest outside the step.
    calm: f64,
    /// Each new highest of it from the beginning of the step on, with seconds since then.
    rising: Vec<(f64, f64)>,
}

impl Best {
    fn of(run: &Run, scenario: &Scenario) -> Best {
        let traffic = &scenario.traffic;
        let (start, end) = run.truth.unwrap_or((f64::INFINITY, f64::INFINITY));
        let mut best = Best::default();
        let (mut misses, mut lookups) = (0.0, 0.0);
        for (index, sample) in run.samples.iter().enumerate() {
            let seen = sample.lookups.redis.unwrap_or_default();
            (misses, lookups) = (misses + seen.misses, lookups + seen.total());
            if let Some(old) = index.checked_sub(STEP_SECONDS as usize) {
                let seen = run.samples[old].lookups.redis.unwrap_or_default();
                (misses, lookups) = (misses - seen.misses, lookups - seen.total());
            }
            let usual = traffic.ratio * lookups;
            let wander = traffic.wander * usual;
            let value = (misses - usual) / (traffic.dispersion * usual + wander * wander).sqrt();
            if sample.time < start || sample.time > end + AFTER {
                if sample.time > WARM {
                    best.calm = best.calm.max(value);
                }
            } else if best.rising.last().is_none_or(|(_, highest)| value > *highest) {
                best.rising.push((sample.time - start, value));
            }
        }
        best
    }

    /// When it passed the line.
    fn delay(&self, line: f64) -> Option<f64> {
        self.rising.iter().find(|(_, value)| *value > line).map(|(delay, _)| *delay)
    }
}

impl Cell {
    fn of(rate: f64, target: f64, place: u64, arguments: &Arguments) -> Cell {
        let mut cell = Cell::default();
        let scenario = scenario::step(rate, target);
        for seed in arguments.first_seed..arguments.first_seed + runs(arguments) {
            let run = Run::of(&scenario, seed * 1000 + place, arguments.counted);
            let samples: Vec<_> = run.samples.iter().map(without_witnesses).collect();
            let run = Run { samples, ..run };
            let alarms =
                |rule: Rule| -> Vec<Alarm> { rule.alarms(&run.samples, &arguments.thresholds) };
            for (score, rule) in cell.rules.iter_mut().zip(RULES) {
                score.add(&run, &alarms(rule));
            }
            for (score, times) in cell.bolder.iter_mut().zip(BOLDER) {
                score.add(&run, &alarms(Rule::OursBolder(times)));
            }
            for (score, factor) in cell.factors.iter_mut().zip(FACTORS) {
                score.add(&run, &alarms(Rule::ReferenceTimes(15, factor)));
            }
            cell.best.push(Best::of(&run, &scenario));
        }
        cell
    }
}

fn runs(arguments: &Arguments) -> u64 {
    arguments.seeds * 5
}

/// Found of how many, and how soon.
pub fn table(arguments: &Arguments) {
    println!(
        "\n# Step of the miss ratio from 2 % for two minutes, no witness: found of {}, median delay\n",
        runs(arguments)
    );
    let least = (0.02 * arguments.thresholds.rise).max(0.02 + arguments.thresholds.rise_points);
    println!("A rise to less than {:.1} % is no stampede by definition.\n", 100.0 * least);
    let places: Vec<(f64, f64, u64)> = RATES
        .into_iter()
        .flat_map(|rate| TARGETS.map(|target| (rate, target)))
        .zip(700..)
        .map(|((rate, target), place)| (rate, target, place))
        .collect();
    let cells =
        parallel(&places, |(rate, target, place)| Cell::of(*rate, *target, *place, arguments));
    print!("{:<48}", "lookups/s, rule");
    for target in TARGETS {
        print!("{:>12}", format!("{:.1} %", 100.0 * target));
    }
    println!("{:>22}{:>16}", "false alarms", "hits by chance");
    for (rate, cells) in RATES.into_iter().zip(cells.chunks(TARGETS.len())) {
        let row = |name: String, scores: Vec<&Score>| {
            let shown = scores.iter().map(|score| (score.delays.len(), score.delay(0.5))).collect();
            let alarms: usize = scores.iter().map(|score| score.false_alarms).sum();
            let days: f64 = scores.iter().map(|score| score.days).sum();
            print_row(rate, &name, shown, alarms, days, arguments);
        };
        for (index, rule) in RULES.into_iter().enumerate() {
            row(rule.name(), cells.iter().map(|cell| &cell.rules[index]).collect());
        }
        let paid: usize = cells.iter().map(|cell| cell.rules[USUAL].false_alarms).sum();
        let bought = (0..BOLDER.len()).rev().find(|&index| {
            cells.iter().map(|cell| cell.bolder[index].false_alarms).sum::<usize>() <= paid
        });
        if let Some(index) = bought {
            let name = Rule::OursBolder(BOLDER[index]).name();
            row(name, cells.iter().map(|cell| &cell.bolder[index]).collect());
        }
        let silent = (0..FACTORS.len())
            .find(|&index| cells.iter().all(|cell| cell.factors[index].false_alarms == 0));
        if let Some(index) = silent {
            let name = Rule::ReferenceTimes(15, FACTORS[index]).name();
            row(name, cells.iter().map(|cell| &cell.factors[index]).collect());
        }
        let all = cells.iter().flat_map(|cell| &cell.best);
        let line = all.map(|best| best.calm).fold(0.0, f64::max);
        let shown = cells
            .iter()
            .map(|cell| {
                let delays: Vec<f64> =
                    cell.best.iter().filter_map(|best| best.delay(line)).collect();
                (delays.len(), quantile(&delays, 0.5))
            })
            .collect();
        let days = cells.iter().map(|cell| cell.rules[0].days).sum();
        print_row(rate, "limit for no false alarm", shown, 0, days, arguments);
    }
}

/// `found` with the median delay, a step size each. What a rule finds by chance is what its false
/// alarms come to in the time in which an alarm counts as found.
fn print_row(
    rate: f64,
    name: &str,
    found: Vec<(usize, f64)>,
    false_alarms: usize,
    days: f64,
    arguments: &Arguments,
) {
    print!("{:<48}", format!("{rate:>5} {name}"));
    for (found, delay) in found {
        let delay = if found > 0 { format!(" {delay:.0} s") } else { String::new() };
        print!("{:>12}", format!("{found}{delay}"));
    }
    let span = (STEP_SECONDS + AFTER) / 86_400.0;
    let by_chance = false_alarms as f64 / days * span * runs(arguments) as f64;
    println!("{:>22}{by_chance:>16.1}", format!("{false_alarms} in {days:.0} days"));
}
