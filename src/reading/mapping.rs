//! Which series of a page are a cache's counters.

/// A mapping from a page's series to the counters of an application.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mapping {}
