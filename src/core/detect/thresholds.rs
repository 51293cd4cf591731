//! Every number of the decision: its default, its legal range, and the reason for both.
//!
//! One row of the table at the end of this file is one threshold: the field, its documentation, the
//! configuration key below `detector:`, and the default come from it alone.

/// What a threshold is measured in, and so how it is written in a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds; a duration such as `90s` or `30m`.
    Seconds,
    /// A plain factor or share.
    Ratio,
    /// Events; a number, not necessarily whole.
    Count,
    /// Natural logarithm of odds: 2.3 nats is a factor of ten.
    Nats,
}

/// One threshold, described so that the configuration needs no list of its own.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The key below `detector:`.
    pub name: &'static str,
    /// What its value is measured in.
    pub unit: Unit,
    /// The lowest legal value.
    pub low: f64,
    /// The highest legal value.
    pub high: f64,
    /// Reads it.
    pub get: fn(&Thresholds) -> f64,
    /// Writes it; the caller has checked the range.
    pub set: fn(&mut Thresholds, f64),
}

impl Key {
    /// Whether `value` is finite and in the legal range.
    pub fn accepts(&self, value: f64) -> bool {
        value.is_finite() && value >= self.low && value <= self.high
    }
}

/// Two thresholds that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    /// The key that has to be the lower one.
    pub low: &'static str,
    /// The key that has to be the higher one.
    pub high: &'static str,
}

impl Thresholds {
    /// Pairs of which the first must not exceed the second.
    const ORDERED: [(&'static str, &'static str); 4] = [
        ("wander_lowest", "wander_prior"),
        ("wander_prior", "wander_highest"),
        ("corroborated_rise", "rise"),
        ("corroborated_rise_points", "rise_points"),
    ];

    /// What contradicts itself although each value is legal; empty when all is well.
    pub fn check(&self) -> Vec<Contradiction> {
        let value = |name| Thresholds::key(name).map(|key| (key.get)(self));
        Thresholds::ORDERED
            .into_iter()
            .filter(|&(low, high)| value(low) > value(high))
            .map(|(low, high)| Contradiction { low, high })
            .collect()
    }

    /// The row of one key, if there is such a key.
    pub fn key(name: &str) -> Option<&'static Key> {
        Thresholds::KEYS.iter().find(|key| key.name == name)
    }
}

/// Makes the struct, its defaults and [`Thresholds::KEYS`] from one row a threshold:
/// `name: unit, default, low..=high, "what it decides";` with the reason in the comment above it.
macro_rules! thresholds {
    ($($(#[$reason:meta])* $name:ident: $unit:ident, $default:expr, $low:literal..=$high:literal, $what:literal;)*) => {
        /// The detector's thresholds. Each is a key below `detector:` in the configuration.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Thresholds {
            $(
                #[doc = concat!($what, " Default ", stringify!($default), ", unit ", stringify!($unit), ".\n\n")]
                $(#[$reason])*
                pub $name: f64,
            )*
        }

        impl Default for Thresholds {
            fn default() -> Thresholds {
                Thresholds { $($name: $default,)* }
            }
        }

        impl Thresholds {
            /// Every threshold, in the order of the table.
            pub const KEYS: &'static [Key] = &[
                $(Key {
                    name: stringify!($name),
                    unit: Unit::$unit,
                    low: $low,
                    high: $high,
                    get: |thresholds| thresholds.$name,
                    set: |thresholds, value| thresholds.$name = value,
                },)*
            ];
        }
    };
}

thresholds! {
    /// Two minutes of one-second polls are enough to know the spread of the counts to a tenth.
    warm_up: Seconds, 120.0, 0.0..=86400.0,
        "Time of learning before a verdict that rests on statistics alone.";
    /// A ratio that rests on fewer lookups says nothing about what is normal.
    warm_up_lookups: Count, 100.0, 0.0..=1e9,
        "Lookups that must have been learned before a verdict that rests on statistics alone.";

    /// A window of w seconds is about one independent test in w seconds, so the line of the longest
    /// one is the logarithm of this over w: 11 nats for two minutes. A small stampede has the
    /// longest windows alone to be seen in and a large one is seen in any, so a shorter window is
    /// held to as much rarer false alarms: 16 nats for eight seconds and 18 for one.
    false_alarm_interval: Seconds, 7_776_000.0, 3600.0..=1e10,
        "Mean time between false alarms that the longest window is held to; shorter ones to longer times.";
    /// Where few misses are expected, chance alone makes a multiple of them, and only the evidence
    /// tells it from a stampede; where many are, the least effect does as well. So false alarms of
    /// such stretches are held to be rarer, by the square of one and this over what is expected: four
    /// times as rare at this many. At one miss in one or two seconds there is a false alarm in 24
    /// days without it and in 300 with it, and of the rises to 2.5 times for two minutes 72 % are
    /// found and not 87 %; at twice as many 64 % (`calm` and `steps` of the detection benchmark).
    scarce_misses: Count, 60.0, 0.0..=1e6,
        "Misses to be expected in a stretch below which false alarms are held to be rarer.";
    /// Small and slow stampedes need long windows: at 50 lookups a second a rise from 2 % to 4 %
    /// needs one minute by any method.
    longest_window: Seconds, 128.0, 1.0..=3600.0,
        "The longest stretch over which misses are added up against the baseline.";

    /// Long enough to outlast a stampede, short enough to follow the hours of a day.
    half_life: Seconds, 600.0, 10.0..=604800.0,
        "Half-life of what is known about the normal miss ratio.";
    /// A ratio that wanders by a quarter within the hour hardly moves within a minute: against the
    /// last minute a sudden loss stands out that the wander would hide.
    local_half_life: Seconds, 20.0, 1.0..=3600.0,
        "Half-life of what is known about the miss ratio of the last minute.";
    /// Long enough for any sudden onset to show, short enough for the last minute to be the last.
    local_window: Seconds, 12.0, 1.0..=600.0,
        "The longest stretch that is judged against the last minute, and how long that one waits with learning.";
    /// The spread is a property of the traffic and changes more slowly than its level.
    dispersion_half_life: Seconds, 1200.0, 10.0..=604800.0,
        "Half-life of the learned dispersion of the misses, poll by poll.";
    /// Wander shows in blocks, of which there are few.
    wander_half_life: Seconds, 2400.0, 10.0..=604800.0,
        "Half-life of the learned wander of the miss ratio, block by block.";
    /// Longer than the bursts that the dispersion covers, shorter than the drift of the level.
    wander_block: Seconds, 16.0, 1.0..=600.0,
        "Length of the blocks on which the wander of the miss ratio is measured.";
    /// Before anything is known of this cache, a third more than Twitter's cluster 52 shows from
    /// minute to minute (0.09).
    wander_prior: Ratio, 0.12, 0.0..=2.0,
        "Relative wander of the miss ratio that is assumed before it has been measured.";
    /// No ratio is steadier than this from minute to minute. What drifts over hours by more than that
    /// is below the least effect for long, and learned meanwhile.
    wander_lowest: Ratio, 0.03, 0.0..=2.0,
        "The least relative wander that is assumed.";
    /// Above it nothing short of an outage would be seen.
    wander_highest: Ratio, 0.6, 0.01..=5.0,
        "The greatest relative wander that is assumed.";
    /// What was measured within it is one measurement: ratios swing over minutes.
    wander_time: Seconds, 200.0, 1.0..=86400.0,
        "Time in which the miss ratio wanders to another value.";
    /// A burst may pull the level up, though only as far as an ordinary bad poll would.
    winsorise: Ratio, 3.0, 1.0..=100.0,
        "Standard deviations beyond which a poll counts no further for the baseline.";
    /// A slow onset must not have been learned by the time it is recognised.
    hold_back: Seconds, 45.0, 0.0..=600.0,
        "How long a poll waits before the baseline learns from it.";
    /// A lasting shift that is too small to be a stampede is the new level.
    hold_back_limit: Seconds, 600.0, 1.0..=86400.0,
        "How long mere suspicion may keep the baseline from learning.";
    /// Half of the line: a stampede under way has passed it before it is declared.
    suspicion: Ratio, 0.5, 0.1..=1.0,
        "Score above which the baseline does not learn.";

    /// Below it the count of misses decides, above it the count of hits that are missing: a ratio
    /// of one half cannot double.
    high_miss_ratio: Ratio, 0.3, 0.01..=1.0,
        "Normal miss ratio from which on lost hits are judged instead of misses.";
    /// Fewer hurt no backend, whatever their odds.
    least_excess: Count, 10.0, 0.0..=1e9,
        "Misses beyond the baseline without which nothing is a stampede.";
    /// Real ratios wander by a half now and then; a stampede at least doubles them.
    rise: Ratio, 1.8, 1.0..=1000.0,
        "Miss ratio over the normal one without which nothing is a stampede.";
    /// Doubling one miss in a thousand is no stampede.
    rise_points: Ratio, 0.015, 0.0..=1.0,
        "Rise of the miss ratio, in absolute terms, without which nothing is a stampede.";
    /// An independent witness makes a smaller rise credible.
    corroborated_rise: Ratio, 1.3, 1.0..=1000.0,
        "As rise, when an independent stream speaks for it.";
    /// As for the ratio.
    corroborated_rise_points: Ratio, 0.01, 0.0..=1.0,
        "As rise_points, when an independent stream speaks for it.";
    /// The counterpart of a doubling for caches that miss often anyway.
    hits_lost: Ratio, 0.25, 0.01..=1.0,
        "Share of the expected hits that must be missing where lost hits are judged.";
    /// The witness has odds of one in a thousand by chance (ln 1000).
    corroboration: Nats, 6.9, 0.0..=100.0,
        "What an independent stream takes off the line, and the line of that stream itself.";
    /// Twice the line needs no second poll: its odds are the square.
    immediate: Ratio, 2.0, 1.0..=100.0,
        "Score at which one poll is enough.";

    /// An error that nobody can overlook.
    error_share: Ratio, 0.2, 0.001..=1.0,
        "Share of failed cache calls that is an avalanche without statistics.";
    /// Below it, failing calls are an annoyance.
    least_error_share: Ratio, 0.05, 0.001..=1.0,
        "Rise of the share of failed cache calls that can be an avalanche by statistics.";
    /// Restart, flush and the misses that follow are seen by different polls.
    event_memory: Seconds, 10.0, 0.0..=600.0,
        "How long a restart, a flush or a fall of the key count explains misses.";
    /// More than the churn of a cache in ten seconds, less than one lost shard of six.
    key_fall: Ratio, 0.1, 0.01..=1.0,
        "Fall of the key count that neither expiries nor evictions explain.";
    /// The forecast rests on a sample; its own scatter counts besides.
    due_ratio: Ratio, 1.5, 1.0..=1000.0,
        "Keys due now over the mean rate from which on they are a wave.";
    /// Forecast and misses meet within the error of the deadlines.
    due_memory: Seconds, 4.0, 0.0..=600.0,
        "How long a forecast wave explains misses.";
    /// One key that takes half of what is missed is the cause.
    hot_key_share: Ratio, 0.5, 0.01..=1.0,
        "Share of the misses on one key that names a hot key.";
    /// As for the hot key.
    not_found_share: Ratio, 0.5, 0.01..=1.0,
        "Share of the extra misses that exist nowhere which names a penetration.";
    /// Fewer keys than a tenth of the extra misses ran out: the misses repeat.
    expiries_per_miss: Ratio, 0.1, 0.0..=10.0,
        "Extra expiries over extra misses from which on expiry explains the misses.";

    /// One quiet poll is an accident, a quarter of a minute is the end.
    clear_after: Seconds, 15.0, 0.0..=3600.0,
        "Time of quiet polls that ends an incident.";
    /// Halfway between the baseline and the line: hysteresis.
    clear_level: Ratio, 0.5, 0.0..=1.0,
        "Share of the least effect below which a poll is quiet.";
    /// A pulse each minute is one stampede, not sixty an hour.
    merge_within: Seconds, 120.0, 0.0..=86400.0,
        "Alarms closer than this are one incident.";
    /// Within it every witness has spoken.
    settle_after: Seconds, 10.0, 0.0..=600.0,
        "Time after which the cause is final and the incident is counted.";
    /// What has been so for half an hour is how it is now.
    new_normal_after: Seconds, 1800.0, 60.0..=604800.0,
        "Time after which a lasting incident becomes the new normal.";
    /// A source that has gone silent says nothing about an end, but an alarm must not hang: it is
    /// given as long as a quiet one. If it comes back with the same misses, the incident goes on.
    silence_after: Seconds, 15.0, 1.0..=3600.0,
        "Time without any lookups known after which an incident ends.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_legal_and_agree() {
        let thresholds = Thresholds::default();
        for key in Thresholds::KEYS {
            assert!(key.accepts((key.get)(&thresholds)), "{}", key.name);
        }
        assert_eq!(thresholds.check(), []);
    }

    #[test]
    fn each_key_sets_its_own_field() {
        let defaults = Thresholds::default();
        for (index, key) in Thresholds::KEYS.iter().enumerate() {
            let mut thresholds = Thresholds::default();
            (key.set)(&mut thresholds, 0.123);
            for (other, row) in Thresholds::KEYS.iter().enumerate() {
                let expected = if other == index { 0.123 } else { (row.get)(&defaults) };
                assert_eq!((row.get)(&thresholds), expected, "{} after {}", row.name, key.name);
            }
        }
    }

    #[test]
    fn names_are_unique_and_ordered_pairs_exist() {
        for key in Thresholds::KEYS {
            let same = Thresholds::KEYS.iter().filter(|other| other.name == key.name).count();
            assert_eq!(same, 1, "{}", key.name);
        }
        for (low, high) in Thresholds::ORDERED {
            assert!(Thresholds::key(low).is_some() && Thresholds::key(high).is_some());
        }
    }

    #[test]
    fn contradictions_are_named() {
        let thresholds = Thresholds { rise: 1.1, ..Thresholds::default() };
        assert_eq!(thresholds.check(), [Contradiction { low: "corroborated_rise", high: "rise" }]);
    }

    #[test]
    fn what_is_not_a_number_is_not_legal() {
        let key = Thresholds::key("rise").unwrap();
        assert!(!key.accepts(f64::NAN) && !key.accepts(f64::INFINITY) && !key.accepts(0.5));
        assert!(key.accepts(1.0) && key.accepts(1000.0));
    }
}
