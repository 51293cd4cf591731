//! Every number of the decision, with its default and its reason.

/// The detector's thresholds. Each is a key below `detector:` in the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds {
    /// Seconds of learning before a verdict that rests on statistics alone. Default 120: ten
    /// half-lives of nothing, but enough polls to know the spread.
    pub warm_up: f64,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds { warm_up: 120.0 }
    }
}
