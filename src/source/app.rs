//! Scrapes an application page and reads its counters.
