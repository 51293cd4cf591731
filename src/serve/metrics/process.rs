//! The exporter's own process, under the names that every Prometheus client library uses.

use super::{Kind, Series, write_family};

/// Clock ticks a second in `/proc/*/stat`. The kernel reports in `USER_HZ`, which is 100 on every
/// architecture that Rust's standard library supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// Bytes in the unit of `/proc/*/status`, which says kB and means KiB.
const STATUS_UNIT: f64 = 1024.0;

/// The families, read from `/proc` now. Empty where there is no such thing.
pub(in crate::serve) fn render() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let stat = read("/proc/self/stat");
    let status = read("/proc/self/status");
    let open_files = std::fs::read_dir("/proc/self/fd").ok().map(|entries| {
        // The directory that is being read is one of its own entries.
        entries.count().saturating_sub(1) as f64
    });
    let started = match (boot_time(&read("/proc/stat")), stat_field(&stat, START_TIME)) {
        (Some(boot), Some(ticks)) => Some(boot + ticks / TICKS_PER_SECOND),
        _ => None,
    };
    let cpu = match (stat_field(&stat, USER_TIME), stat_field(&stat, SYSTEM_TIME)) {
        (Some(user), Some(system)) => Some((user + system) / TICKS_PER_SECOND),
        _ => None,
    };
    let rows = [
        (
            "process_cpu_seconds_total",
            Kind::Counter,
            "User and system CPU time of the exporter, in seconds.",
            cpu,
        ),
        (
            "process_resident_memory_bytes",
            Kind::Gauge,
            "Resident memory of the exporter, in bytes.",
            status_bytes(&status, "VmRSS"),
        ),
        (
            "process_virtual_memory_bytes",
            Kind::Gauge,
            "Virtual memory of the exporter, in bytes.",
            status_bytes(&status, "VmSize"),
        ),
        ("process_open_fds", Kind::Gauge, "Open file descriptors of the exporter.", open_files),
        (
            "process_start_time_seconds",
            Kind::Gauge,
            "When the exporter's process started, in Unix seconds.",
            started,
        ),
    ];
    let mut page = String::new();
    for (name, kind, help, value) in rows {
        let mut series = Series::new(&[], kind);
        series.add(&[], value);
        write_family(&mut page, name, help, kind, series.metrics);
    }
    page
}

/// Places in `/proc/self/stat`, counted from the field after the command name (proc(5) numbers
/// them from 1 with the name as the second).
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;
const START_TIME: usize = 19;

/// A field after the command name, which stands in parentheses and may hold spaces itself.
fn stat_field(stat: &str, place: usize) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(place)?.parse().ok()
}

fn status_bytes(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find(|line| line.split(':').next() == Some(field))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * STATUS_UNIT)
}

fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_spaces_and_parentheses_is_no_field() {
        // Fields 14, 15 and 22 of proc(5): utime 250, stime 50, starttime 700.
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 3 0 700 12 5 18446";
        assert_eq!(stat_field(stat, USER_TIME), Some(250.0));
        assert_eq!(stat_field(stat, SYSTEM_TIME), Some(50.0));
        assert_eq!(stat_field(stat, START_TIME), Some(700.0));
        assert_eq!(stat_field("", START_TIME), None);
    }

    #[test]
    fn kib_become_bytes() {
        let status = "Name:\tx\nVmSize:\t  20 kB\nVmRSS:\t    4 kB\n";
        assert_eq!(status_bytes(status, "VmRSS"), Some(4096.0));
        assert_eq!(status_bytes(status, "VmSize"), Some(20480.0));
        assert_eq!(status_bytes(status, "VmSwap"), None);
    }

    #[test]
    fn boot_time_is_found_by_name() {
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\nprocesses 5\n"), Some(1_700_000_000.0));
    }
}
