//! Tells the demo: words between the acts, a line of figures a second.

use std::io::{self, Write};

use super::Look;
use crate::snapshot::Snapshot;

/// Lines between two heads of the table.
const HEAD_EVERY: u32 = 15;
const BOLD: &str = "\x1b[1m";
const ALARM: &str = "\x1b[1;31m";
const PLAIN: &str = "\x1b[0m";

/// Writes to a person.
pub(super) struct Teller<'a> {
    out: &'a mut (dyn Write + Send),
    look: Look,
    since_head: Option<u32>,
}

impl<'a> Teller<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), look: Look) -> Teller<'a> {
        Teller { out, look, since_head: None }
    }

    /// The title of an act.
    pub(super) fn title(&mut self, text: &str) -> io::Result<()> {
        self.since_head = None;
        self.styled(BOLD, &format!("\n{text}"))
    }

    /// What happens.
    pub(super) fn say(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// What must not be overlooked.
    pub(super) fn shout(&mut self, text: &str) -> io::Result<()> {
        self.styled(ALARM, text)
    }

    /// One line of the table: what the exporter says now.
    pub(super) fn figures(&mut self, second: f64, snapshot: &Snapshot) -> io::Result<()> {
        if self.since_head.is_none_or(|lines| lines >= HEAD_EVERY) {
            let names = ["hit ratio", "misses/s", "expected", "loads/s"];
            let [ratio, misses, expected, loads] = names;
            let head = format!("{:>6}  {ratio:>9}  {misses:>8}  {expected:>8}  {loads:>7}", "");
            self.say(&format!("{head}  verdict"))?;
            self.since_head = Some(0);
        }
        self.since_head = self.since_head.map(|lines| lines + 1);
        let signals = &snapshot.signals;
        let ratio = signals.hit_ratio.app.map(|ratio| format!("{:.1} %", ratio * 100.0));
        let whole = |rate: Option<f64>| rate.map(|rate| format!("{rate:.0}"));
        let line = format!(
            "{second:4.0} s  {:>9}  {:>8}  {:>8}  {:>7}  ",
            or_dash(ratio),
            or_dash(whole(signals.misses_per_second.app)),
            or_dash(whole(snapshot.verdict.baseline_misses_per_second.app)),
            or_dash(whole(signals.loads_per_second)),
        );
        match &snapshot.incidents.running {
            Some(incident) => {
                write!(self.out, "{line}")?;
                self.styled(ALARM, &format!("STAMPEDE ({})", incident.cause.as_str()))
            }
            None if snapshot.verdict.ready => {
                let wave = wave_ahead(snapshot).unwrap_or_default();
                self.say(&format!("{line}calm{wave}"))
            }
            None => self.say(&format!("{line}learning what is usual")),
        }
    }

    fn styled(&mut self, style: &str, text: &str) -> io::Result<()> {
        match self.look {
            Look::Plain => writeln!(self.out, "{text}")?,
            Look::Coloured => writeln!(self.out, "{style}{text}{PLAIN}")?,
        }
        self.out.flush()
    }
}

/// The next wave, if one is coming.
fn wave_ahead(snapshot: &Snapshot) -> Option<String> {
    let wave = snapshot.ttl.as_ref()?.waves.iter().find(|wave| wave.start > snapshot.time)?;
    let ahead = wave.start - snapshot.time;
    Some(format!("; a wave of about {:.0} keys in {ahead:.0} s", wave.keys.value))
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}
