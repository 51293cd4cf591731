//! What a runbook says to do at once.

use crate::detect::Cause;
use crate::shipped;

/// The heading of that part.
const NOW: &str = "## Now\n";

/// The part of the cause's runbook about the minutes in which it burns, in Markdown.
pub(super) fn now(cause: Cause) -> &'static str {
    let text = shipped::runbook(cause.as_str()).unwrap_or_default();
    let after = text.split_once(NOW).map_or("", |(_, after)| after);
    after.split_once("\n## ").map_or(after, |(part, _)| part).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_something_to_do_at_once() {
        for cause in Cause::ALL {
            let now = now(cause);
            assert!(now.len() > 20, "{}: {now:?}", cause.as_str());
            assert!(!now.contains("## "), "{}: {now:?}", cause.as_str());
        }
        assert!(now(Cause::Penetration).starts_with("- One client or network: rate-limit"));
    }
}
