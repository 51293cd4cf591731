//! When key misses are worth their price.

/// Part of the line from which on a look is taken: chance alone gets so far about once an hour.
const SUSPICION: f64 = 0.5;

/// How long a suspicion is looked into, seconds.
const GLANCE: f64 = 10.0;

/// How long an incident is looked into, seconds: its cause settles in ten, and a hot key is known
/// after some hundred misses.
const LOOK: f64 = 30.0;

/// Rest after a look before the next suspicion is looked into, seconds, so that no more than one
/// second in seven is paid for however suspicious a cache is.
const REST: f64 = 60.0;

/// Decides when missed keys are tracked: each incident once, and suspicions with rests.
#[derive(Debug, Clone, Default)]
pub struct Arming {
    until: f64,
    rest_until: f64,
    /// The start of the incident that was looked into last.
    incident: Option<f64>,
    /// Whether the last look was into an incident.
    for_incident: bool,
}

impl Arming {
    /// Until when missed keys are to be tracked, Unix seconds; `None` while there is no reason to.
    /// `score` is the evidence over the line, `incident` the start of the running incident.
    pub fn until(&mut self, now: f64, score: f64, incident: Option<f64>) -> Option<f64> {
        if incident.is_some() && incident != self.incident {
            self.incident = incident;
            self.look(now, LOOK);
            self.for_incident = true;
        } else if incident.is_none() && score >= SUSPICION && now >= self.rest_until {
            self.look(now, GLANCE);
            self.for_incident = false;
        } else if incident.is_none() && score < SUSPICION && self.for_incident {
            // It is over, and with it the reason to look.
            self.until = self.until.min(now);
        }
        (self.until > now).then_some(self.until)
    }

    fn look(&mut self, now: f64, seconds: f64) {
        self.until = now + seconds;
        self.rest_until = self.until + REST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspicion_is_looked_into_and_then_there_is_a_rest() {
        let mut arming = Arming::default();
        assert_eq!(arming.until(1000.0, 0.4, None), None);
        assert_eq!(arming.until(1001.0, 0.6, None), Some(1011.0));
        assert_eq!(arming.until(1005.0, 0.9, None), Some(1011.0), "it is no longer for that");
        for now in [1011.0, 1030.0, 1070.0] {
            assert_eq!(arming.until(now, 0.9, None), None, "{now}");
        }
        assert_eq!(arming.until(1071.0, 0.6, None), Some(1081.0));
    }

    #[test]
    fn each_incident_is_looked_into_once_whatever_was_before() {
        let mut arming = Arming::default();
        assert_eq!(arming.until(1000.0, 0.6, None), Some(1010.0));
        assert_eq!(arming.until(1015.0, 2.0, Some(1015.0)), Some(1045.0), "in the rest");
        assert_eq!(arming.until(1044.0, 9.0, Some(1015.0)), Some(1045.0));
        for now in [1045.0, 1200.0, 5000.0] {
            assert_eq!(arming.until(now, 9.0, Some(1015.0)), None, "{now}: it goes on");
        }
        assert_eq!(arming.until(5010.0, 9.0, Some(5009.0)), Some(5040.0), "another one");
        assert_eq!(arming.until(5012.0, 0.7, None), Some(5040.0), "perhaps not quite over");
        assert_eq!(arming.until(5014.0, 0.1, None), None, "over");
    }
}
