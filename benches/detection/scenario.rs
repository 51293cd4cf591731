//! The open scenarios: sixteen stampedes, sixteen kinds of ordinary life, and long calm days.

use stampede_exporter::detect::Cause;

use crate::draw::Draw;

/// Seconds of one run.
pub const RUN: usize = 7200;
/// Seconds after which a stampede begins, plus up to a minute.
pub const LEAD: f64 = 5400.0;

/// What one run is made of.
#[derive(Clone)]
pub struct Scenario {
    pub name: &'static str,
    pub traffic: Traffic,
    pub trouble: Trouble,
    pub seconds: usize,
}

/// Ordinary traffic.
#[derive(Clone)]
pub struct Traffic {
    /// Lookups a second, and how they change.
    pub rate: f64,
    pub load: Load,
    /// Normal miss ratio.
    pub ratio: f64,
    /// Variance over mean of the misses from second to second, and of the requests.
    pub dispersion: f64,
    pub request_dispersion: f64,
    /// Relative wander of the miss ratio and of the load.
    pub wander: f64,
    pub load_wander: f64,
}

/// How the load changes from [`LEAD`] on.
#[derive(Clone, Copy)]
pub enum Load {
    Steady,
    /// Plus and minus this share over half an hour, all the time.
    Sine(f64),
    /// To this factor within so many seconds.
    Ramp(f64, f64),
    /// Two seconds of nothing, then a burst of this factor for two.
    Stall(f64),
}

/// What happens at [`LEAD`].
#[derive(Clone, Copy)]
pub enum Trouble {
    /// A stampede.
    Stampede(Stampede),
    /// Something that is none.
    Benign(Benign),
}

#[derive(Clone, Copy)]
pub struct Stampede {
    pub cause: Cause,
    pub shape: Shape,
    /// Share of the hits lost at its height; for penetration, absent keys asked for a second; for
    /// an avalanche, share of the calls that fail.
    pub height: f64,
    pub sign: Sign,
}

/// How its height goes over time.
#[derive(Clone, Copy)]
pub enum Shape {
    Flat { seconds: f64 },
    Pulses { seconds: f64, every: f64, times: f64 },
    Decay { tau: f64 },
    Echoes { tau: f64 },
    Ramp { rise: f64, seconds: f64 },
}

/// What the server shows besides.
#[derive(Clone, Copy, PartialEq)]
pub enum Sign {
    None,
    Restart,
    Flush,
    /// One of this many shards is empty.
    Shard(f64),
    Evictions(f64),
}

#[derive(Clone, Copy, PartialEq)]
pub enum Benign {
    Nothing,
    CountersReset,
    PollGap(f64),
    /// The miss ratio is this much higher for 20 s of each minute.
    Pulses(f64),
    /// The miss ratio grows to this factor over the whole run.
    Drift(f64),
    /// Many keys expire that nobody reads.
    UnreadExpiry(f64),
    SlowBackend(f64, f64),
    RefusedLocks(f64, f64),
}

impl Shape {
    /// Height at `t` seconds after the start, relative to the full one.
    pub fn at(self, t: f64) -> f64 {
        let decay =
            |t: f64, tau: f64| if (0.0..5.0 * tau).contains(&t) { (-t / tau).exp() } else { 0.0 };
        match self {
            Shape::Flat { seconds } => f64::from(u8::from((0.0..seconds).contains(&t))),
            Shape::Pulses { seconds, every, times } => {
                let running = (0.0..every * times).contains(&t);
                f64::from(u8::from(running && t % every < seconds))
            }
            Shape::Decay { tau } => decay(t, tau),
            Shape::Echoes { tau } => {
                decay(t, tau) + 0.6 * decay(t - 300.0, tau) + 0.36 * decay(t - 600.0, tau)
            }
            Shape::Ramp { rise, seconds } => {
                if (0.0..seconds).contains(&t) {
                    (t / rise).min(1.0)
                } else {
                    0.0
                }
            }
        }
    }

    /// Seconds until it is over.
    pub fn length(self) -> f64 {
        match self {
            Shape::Flat { seconds } | Shape::Ramp { seconds, .. } => seconds,
            Shape::Pulses { every, times, .. } => every * times,
            Shape::Decay { tau } => 5.0 * tau,
            Shape::Echoes { tau } => 600.0 + 5.0 * tau,
        }
    }

    fn vary(self, draw: &mut Draw) -> Shape {
        let mut vary = |value: f64| value * draw.half_to_double();
        match self {
            Shape::Flat { seconds } => Shape::Flat { seconds: vary(seconds) },
            Shape::Pulses { seconds, every, times } => {
                Shape::Pulses { seconds: vary(seconds), every, times }
            }
            Shape::Decay { tau } => Shape::Decay { tau: vary(tau) },
            Shape::Echoes { tau } => Shape::Echoes { tau: vary(tau) },
            Shape::Ramp { rise, seconds } => {
                Shape::Ramp { rise: vary(rise), seconds: vary(seconds) }
            }
        }
    }
}

impl Scenario {
    /// The same with every parameter between half and double.
    pub fn vary(&self, draw: &mut Draw) -> Scenario {
        let mut varied = self.clone();
        let traffic = &mut varied.traffic;
        traffic.rate *= draw.half_to_double();
        traffic.ratio = (traffic.ratio * draw.half_to_double()).min(0.6);
        traffic.dispersion = (traffic.dispersion * draw.half_to_double()).max(1.0);
        traffic.request_dispersion = (traffic.request_dispersion * draw.half_to_double()).max(1.0);
        traffic.wander *= draw.half_to_double();
        traffic.load_wander *= draw.half_to_double();
        match &mut varied.trouble {
            Trouble::Stampede(stampede) => {
                stampede.shape = stampede.shape.vary(draw);
                let height = stampede.height * draw.half_to_double();
                let absolute = stampede.cause == Cause::Penetration;
                stampede.height = if absolute { height } else { height.min(1.0) };
                if let Sign::Evictions(rate) = &mut stampede.sign {
                    *rate *= draw.half_to_double();
                }
            }
            Trouble::Benign(benign) => *benign = benign.vary(traffic.ratio, draw),
        }
        varied
    }

    /// What the miss ratio is at `t` seconds after the start if it was `ratio` before, all scatter
    /// aside.
    pub fn ratio_at(&self, ratio: f64, t: f64) -> f64 {
        let rate = self.traffic.rate;
        let Trouble::Stampede(stampede) = self.trouble else { return ratio };
        let height = stampede.height * stampede.shape.at(t);
        match stampede.cause {
            Cause::Penetration => (rate * ratio + height) / (rate + height),
            _ => ratio + (1.0 - ratio) * height.min(1.0),
        }
    }
}

impl Benign {
    fn vary(self, ratio: f64, draw: &mut Draw) -> Benign {
        let mut factor = || draw.half_to_double();
        match self {
            Benign::Nothing | Benign::CountersReset => self,
            Benign::PollGap(seconds) => Benign::PollGap(seconds * factor()),
            // Half as much again is still no stampede; twice as much would be one.
            Benign::Pulses(points) => Benign::Pulses((points * factor()).min(0.5 * ratio)),
            Benign::Drift(to) => Benign::Drift(to * factor()),
            Benign::UnreadExpiry(share) => Benign::UnreadExpiry((share * factor()).min(0.9)),
            Benign::SlowBackend(by, seconds) => {
                Benign::SlowBackend(by * factor(), seconds * factor())
            }
            Benign::RefusedLocks(rate, seconds) => {
                Benign::RefusedLocks(rate * factor(), seconds * factor())
            }
        }
    }
}

fn traffic(rate: f64, ratio: f64) -> Traffic {
    Traffic {
        rate,
        load: Load::Steady,
        ratio,
        dispersion: 1.5,
        request_dispersion: 5.0,
        wander: 0.08,
        load_wander: 0.08,
    }
}

fn stampede(
    name: &'static str,
    traffic: Traffic,
    cause: Cause,
    height: f64,
    shape: Shape,
    sign: Sign,
) -> Scenario {
    let trouble = Trouble::Stampede(Stampede { cause, shape, height, sign });
    Scenario { name, traffic, trouble, seconds: RUN }
}

fn benign(name: &'static str, traffic: Traffic, benign: Benign) -> Scenario {
    Scenario { name, traffic, trouble: Trouble::Benign(benign), seconds: RUN }
}

/// The stampedes.
pub fn stampedes() -> Vec<Scenario> {
    use Cause::{Avalanche, ColdStart, Eviction, HotKey, Penetration, SynchronizedExpiry};
    let flat = |seconds| Shape::Flat { seconds };
    let decay = |tau| Shape::Decay { tau };
    let noisy = |traffic: Traffic, dispersion| Traffic { dispersion, ..traffic };
    vec![
        stampede(
            "P01 hot key 30 % 3 s",
            traffic(2000.0, 0.02),
            HotKey,
            0.30,
            flat(3.0),
            Sign::None,
        ),
        stampede("P02 hot key 8 % 2 s", traffic(1000.0, 0.02), HotKey, 0.08, flat(2.0), Sign::None),
        stampede(
            "P03 hot key each minute",
            traffic(1500.0, 0.03),
            HotKey,
            0.15,
            Shape::Pulses { seconds: 2.0, every: 60.0, times: 10.0 },
            Sign::None,
        ),
        stampede(
            "P04 hot key 40 % 45 s",
            noisy(traffic(2000.0, 0.02), 3.0),
            HotKey,
            0.40,
            flat(45.0),
            Sign::None,
        ),
        stampede(
            "P05 wave 38 %",
            traffic(1000.0, 0.02),
            SynchronizedExpiry,
            0.38,
            decay(20.0),
            Sign::None,
        ),
        stampede(
            "P06 wave 5 %",
            traffic(1500.0, 0.02),
            SynchronizedExpiry,
            0.05,
            decay(60.0),
            Sign::None,
        ),
        stampede(
            "P07 wave with echoes",
            traffic(800.0, 0.05),
            SynchronizedExpiry,
            0.25,
            Shape::Echoes { tau: 15.0 },
            Sign::None,
        ),
        stampede(
            "P08 wave on half misses",
            noisy(traffic(1300.0, 0.50), 5.0),
            SynchronizedExpiry,
            0.70,
            decay(20.0),
            Sign::None,
        ),
        stampede(
            "P09 restart",
            traffic(1000.0, 0.02),
            ColdStart,
            0.97,
            decay(120.0),
            Sign::Restart,
        ),
        stampede(
            "P10 flush at 20/s",
            traffic(20.0, 0.05),
            ColdStart,
            0.97,
            decay(300.0),
            Sign::Flush,
        ),
        stampede(
            "P11 one shard of six",
            traffic(3000.0, 0.03),
            ColdStart,
            0.16,
            decay(90.0),
            Sign::Shard(6.0),
        ),
        stampede(
            "P12 absent keys 800/s",
            traffic(1000.0, 0.03),
            Penetration,
            800.0,
            flat(300.0),
            Sign::None,
        ),
        stampede(
            "P13 absent keys 50/s",
            traffic(1000.0, 0.03),
            Penetration,
            50.0,
            Shape::Ramp { rise: 120.0, seconds: 600.0 },
            Sign::None,
        ),
        stampede(
            "P14 all calls fail",
            traffic(1200.0, 0.02),
            Avalanche,
            1.0,
            flat(60.0),
            Sign::None,
        ),
        stampede(
            "P15 30 % time out",
            traffic(1200.0, 0.02),
            Avalanche,
            0.30,
            flat(40.0),
            Sign::None,
        ),
        stampede(
            "P16 evictions",
            traffic(1500.0, 0.02),
            Eviction,
            0.13,
            Shape::Ramp { rise: 120.0, seconds: 600.0 },
            Sign::Evictions(4000.0),
        ),
    ]
}

/// Ordinary life.
pub fn benigns() -> Vec<Scenario> {
    let load = |traffic: Traffic, load| Traffic { load, ..traffic };
    let none = Benign::Nothing;
    let bursty =
        |rate, ratio, dispersion, wander| Traffic { dispersion, wander, ..traffic(rate, ratio) };
    vec![
        benign("N01 load sine", load(traffic(1000.0, 0.03), Load::Sine(0.6)), none),
        benign("N02 load x5 in 60 s", load(traffic(400.0, 0.03), Load::Ramp(5.0, 60.0)), none),
        benign("N03 load x8 step", load(traffic(200.0, 0.03), Load::Ramp(8.0, 1.0)), none),
        benign("N04 idle", traffic(0.2, 0.5), none),
        benign("N05 wakes up", load(traffic(0.5, 0.03), Load::Ramp(1000.0, 1.0)), none),
        benign("N06 counters reset", traffic(1000.0, 0.03), Benign::CountersReset),
        benign("N07 gap of 90 s", traffic(1000.0, 0.03), Benign::PollGap(90.0)),
        benign("N08 small pulses", traffic(1000.0, 0.03), Benign::Pulses(0.012)),
        benign("N09 drift to double", traffic(1000.0, 0.02), Benign::Drift(2.0)),
        benign("N10 misses often", bursty(1300.0, 0.55, 8.0, 0.08), none),
        benign("N11 bursty", bursty(1000.0, 0.05, 10.0, 0.25), none),
        benign("N12 unread keys expire", traffic(1000.0, 0.03), Benign::UnreadExpiry(0.45)),
        benign("N13 slow backend", traffic(1000.0, 0.03), Benign::SlowBackend(10.0, 120.0)),
        benign("N14 refused locks", traffic(1000.0, 0.03), Benign::RefusedLocks(60.0, 300.0)),
        benign("N15 stall and burst", load(traffic(1000.0, 0.03), Load::Stall(3.0)), none),
        benign("N16 load fades", load(traffic(1000.0, 0.03), Load::Ramp(0.04, 600.0)), none),
    ]
}

/// Whole calm days at several rates.
pub fn calm_days() -> Vec<Scenario> {
    let day = |name, rate, ratio, dispersion| Scenario {
        name,
        traffic: Traffic { dispersion, ..traffic(rate, ratio) },
        trouble: Trouble::Benign(Benign::Nothing),
        seconds: 86_400,
    };
    vec![
        day("800/s", 800.0, 0.03, 1.5),
        day("20/s", 20.0, 0.05, 1.5),
        day("20/s 2 %", 20.0, 0.02, 1.5),
        day("50/s 2 %", 50.0, 0.02, 1.5),
        day("2/s", 2.0, 0.20, 1.5),
        day("5000/s", 5000.0, 0.10, 1.5),
        day("1000/s bursty", 1000.0, 0.28, 8.0),
    ]
}

/// Seconds that a step lasts.
pub const STEP_SECONDS: f64 = 120.0;

/// A step of the miss ratio from 2 % for two minutes, with no witness.
pub fn step(rate: f64, to: f64) -> Scenario {
    let height = (to - 0.02) / 0.98;
    stampede(
        "step",
        traffic(rate, 0.02),
        Cause::Unknown,
        height,
        Shape::Flat { seconds: STEP_SECONDS },
        Sign::None,
    )
}
