//! Reads the text of `INFO`.
//!
//! Servers differ and grow: Valkey, KeyDB, Dragonfly, Kvrocks and managed services leave fields
//! out, add some, or put them in another order. So everything is looked up by name, the first colon
//! ends the name, and a line that cannot be read costs that line only. Reading never fails: it gives
//! what it understood and a list of what it did not.

mod keyspace;

pub use keyspace::{Database, Keyspace};

/// The commands whose call counts are kept: witnesses of a reset, flushes, and our own cost.
const WATCHED_COMMANDS: [&str; 9] = [
    "config|resetstat",
    "flushall",
    "flushdb",
    "info",
    // Subcommands have books of their own since Redis 7.0.
    "object",
    "object|freq",
    "pttl",
    "randomkey",
    "scan",
];

/// The fields that every Redis has and without which something of ours is missing.
const EXPECTED_FIELDS: [&str; 4] =
    ["keyspace_hits", "keyspace_misses", "run_id", "uptime_in_seconds"];

/// Texts of a server end up in labels, so they are cut at this many characters.
const TEXT_LIMIT: usize = 64;

/// What one `INFO` said. `None` is a field that was not there or could not be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Info {
    /// 40 hex digits that a server process draws when it starts.
    pub run_id: Option<String>,
    /// Whole seconds since the process started.
    pub uptime: Option<f64>,
    /// `redis`, `valkey`, `dragonfly`, … as far as the fields tell.
    pub server: Option<String>,
    /// The version in the server's own counting, not the Redis version it stands for.
    pub version: Option<String>,
    /// `standalone`, `sentinel` or `cluster`.
    pub mode: Option<String>,
    /// `master` or `slave`.
    pub role: Option<String>,
    /// Whether the data set is being loaded.
    pub loading: Option<bool>,
    /// The counters since the process started or `CONFIG RESETSTAT`.
    pub counters: Counters,
    /// Bytes in use.
    pub used_memory: Option<f64>,
    /// The memory limit in bytes; 0 is none.
    pub maxmemory: Option<f64>,
    /// What happens at the limit, such as `allkeys-lru`.
    pub maxmemory_policy: Option<String>,
    /// The databases; `None` when the text has no such section.
    pub keyspace: Option<Keyspace>,
    /// The calls of the commands we watch; `None` when the text has no such section.
    pub commands: Option<CommandStats>,
}

impl Info {
    /// Whether the text held anything of a server's statistics at all. Some servers answer a
    /// question for several sections with an empty text instead of an error.
    pub fn is_empty(&self) -> bool {
        *self == Info::default()
    }

    /// Takes over from a text of the same process, some seconds earlier, what a shorter one does not
    /// repeat. Calls of commands are not: they would be taken for those of now.
    pub fn keep_from(&mut self, earlier: &Info, seconds: f64) {
        fn keep<T: Clone>(mine: &mut Option<T>, earlier: &Option<T>) {
            if mine.is_none() {
                mine.clone_from(earlier);
            }
        }
        // Servers count whole seconds, so the next one they tell is never less than this.
        keep(&mut self.uptime, &earlier.uptime.map(|uptime| (uptime + seconds).floor()));
        keep(&mut self.run_id, &earlier.run_id);
        keep(&mut self.server, &earlier.server);
        keep(&mut self.version, &earlier.version);
        keep(&mut self.mode, &earlier.mode);
        keep(&mut self.role, &earlier.role);
        keep(&mut self.loading, &earlier.loading);
        keep(&mut self.used_memory, &earlier.used_memory);
        keep(&mut self.maxmemory, &earlier.maxmemory);
        keep(&mut self.maxmemory_policy, &earlier.maxmemory_policy);
    }

    /// Keys over all databases whose line could be read; `None` when nothing is known.
    pub fn keys(&self) -> Option<f64> {
        self.keyspace.as_ref()?.keys()
    }
}

/// Cumulative counts of one server process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counters {
    /// Lookups that found a key.
    pub hits: Option<f64>,
    /// Lookups that found none.
    pub misses: Option<f64>,
    /// Keys removed because their time was up.
    pub expired: Option<f64>,
    /// Keys removed for lack of memory.
    pub evicted: Option<f64>,
    /// Commands executed.
    pub commands: Option<f64>,
    /// Connections accepted.
    pub connections: Option<f64>,
    /// Connections refused at `maxclients`.
    pub rejected_connections: Option<f64>,
    /// Error replies sent.
    pub error_replies: Option<f64>,
}

impl Counters {
    /// All of them in a fixed order, to compare two readings.
    pub fn all(&self) -> [Option<f64>; 8] {
        [
            self.hits,
            self.misses,
            self.expired,
            self.evicted,
            self.commands,
            self.connections,
            self.rejected_connections,
            self.error_replies,
        ]
    }
}

/// Calls of one command since the process started or `CONFIG RESETSTAT`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CommandStat {
    /// Calls.
    pub calls: f64,
    /// Microseconds of server time they took together, if the server says.
    pub usec: Option<f64>,
}

/// The calls of the commands that we watch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommandStats(Vec<(&'static str, CommandStat)>);

impl CommandStats {
    /// One command's calls, subcommands as `config|resetstat`. A command that the section does not
    /// list was never called.
    pub fn get(&self, command: &str) -> CommandStat {
        self.0.iter().rev().find(|(name, _)| *name == command).map(|(_, s)| *s).unwrap_or_default()
    }
}

/// What could not be read. The kind is a label value, the field is for the log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InfoProblem {
    /// What was wrong.
    pub kind: InfoProblemKind,
    /// The field's name, cut to a sane length.
    pub field: String,
}

/// The kinds of problems in an `INFO` text: a closed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InfoProblemKind {
    /// A field that every Redis has is not there.
    Missing,
    /// A value that should be a number is none.
    Number,
    /// A line of `name=value` pairs does not have that form.
    Line,
    /// An average TTL that no key can have.
    Ttl,
    /// A name in a keyspace line that we do not know; it does no harm.
    UnknownName,
}

impl InfoProblemKind {
    /// Every kind, in label order.
    pub const ALL: [InfoProblemKind; 5] = [
        InfoProblemKind::Missing,
        InfoProblemKind::Number,
        InfoProblemKind::Line,
        InfoProblemKind::Ttl,
        InfoProblemKind::UnknownName,
    ];

    /// The value of the `kind` label.
    pub fn as_str(self) -> &'static str {
        match self {
            InfoProblemKind::Missing => "missing",
            InfoProblemKind::Number => "number",
            InfoProblemKind::Line => "line",
            InfoProblemKind::Ttl => "ttl",
            InfoProblemKind::UnknownName => "unknown_name",
        }
    }
}

/// Reads an `INFO` text: whatever it holds, and what was wrong with it.
pub fn parse(text: &[u8]) -> (Info, Vec<InfoProblem>) {
    let mut reader = Reader::default();
    for line in text.split(|byte| *byte == b'\n') {
        reader.line(line.strip_suffix(b"\r").unwrap_or(line));
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    info: Info,
    /// Own version fields of the servers that are not Redis, and `server_name`.
    redis_version: Option<String>,
    server_name: Option<String>,
    own_version: Option<(&'static str, String)>,
    seen: Vec<&'static str>,
    problems: Vec<InfoProblem>,
}

impl Reader {
    fn line(&mut self, line: &[u8]) {
        if let Some(section) = line.strip_prefix(b"#") {
            return self.section(section.trim_ascii());
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return self.half_line(line);
        };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if let Some(expected) = EXPECTED_FIELDS.iter().find(|field| field.as_bytes() == name) {
            self.seen.push(expected);
        }
        if let Some(database) = keyspace::database_index(name) {
            return self.database(database, name, value);
        }
        if let Some(command) = name.strip_prefix(b"cmdstat_") {
            return self.command(command, name, value);
        }
        self.field(name, value);
    }

    /// A line without a colon means nothing, but among the databases it may be half of one.
    fn half_line(&mut self, line: &[u8]) {
        if let Some(keyspace) = self.info.keyspace.as_mut().filter(|_| line.starts_with(b"d")) {
            keyspace.unreadable += 1;
            self.problem(InfoProblemKind::Line, line);
        }
    }

    /// An empty section still says something: no database line is no key, no command line no call.
    fn section(&mut self, name: &[u8]) {
        if name.eq_ignore_ascii_case(b"keyspace") {
            self.info.keyspace.get_or_insert_default();
        } else if name.eq_ignore_ascii_case(b"commandstats") {
            self.info.commands.get_or_insert_default();
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let counters = &mut self.info.counters;
        let number = match name {
            b"keyspace_hits" => &mut counters.hits,
            b"keyspace_misses" => &mut counters.misses,
            b"expired_keys" => &mut counters.expired,
            b"evicted_keys" => &mut counters.evicted,
            b"total_commands_processed" => &mut counters.commands,
            b"total_connections_received" => &mut counters.connections,
            b"rejected_connections" => &mut counters.rejected_connections,
            b"total_error_replies" => &mut counters.error_replies,
            b"uptime_in_seconds" => &mut self.info.uptime,
            b"used_memory" => &mut self.info.used_memory,
            b"maxmemory" => &mut self.info.maxmemory,
            _ => return self.text_field(name, value),
        };
        match count(value) {
            Some(value) => *number = Some(value),
            None => self.problem(InfoProblemKind::Number, name),
        }
    }

    fn text_field(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"run_id" => self.info.run_id = text(value),
            b"role" => self.info.role = text(value),
            b"redis_mode" | b"server_mode" => self.info.mode = text(value),
            b"maxmemory_policy" => self.info.maxmemory_policy = text(value),
            b"server_name" => self.server_name = text(value),
            b"redis_version" => self.redis_version = text(value),
            b"valkey_version" => self.own_version = text(value).map(|v| ("valkey", v)),
            b"dragonfly_version" => self.own_version = text(value).map(|v| ("dragonfly", v)),
            b"kvrocks_version" => self.own_version = text(value).map(|v| ("kvrocks", v)),
            b"loading" => match value.trim_ascii() {
                b"0" => self.info.loading = Some(false),
                b"1" => self.info.loading = Some(true),
                _ => self.problem(InfoProblemKind::Number, name),
            },
            _ => {}
        }
    }

    fn database(&mut self, index: u64, name: &[u8], value: &[u8]) {
        let (database, problems) = keyspace::database(index, value);
        for kind in problems {
            self.problem(kind, name);
        }
        let keyspace = self.info.keyspace.get_or_insert_default();
        match database {
            Some(database) => keyspace.databases.push(database),
            None => keyspace.unreadable += 1,
        }
    }

    fn command(&mut self, command: &[u8], name: &[u8], value: &[u8]) {
        let commands = self.info.commands.get_or_insert_default();
        let Some(command) = WATCHED_COMMANDS.into_iter().find(|c| c.as_bytes() == command) else {
            return;
        };
        let of = |key: &[u8]| pairs(value).find(|(k, _)| *k == key).and_then(|(_, v)| count(v));
        match of(b"calls") {
            Some(calls) => commands.0.push((command, CommandStat { calls, usec: of(b"usec") })),
            None => self.problem(InfoProblemKind::Line, name),
        }
    }

    fn problem(&mut self, kind: InfoProblemKind, field: &[u8]) {
        let field = text(field).unwrap_or_default();
        self.problems.push(InfoProblem { kind, field });
    }

    fn finish(mut self) -> (Info, Vec<InfoProblem>) {
        if let Some((server, version)) = self.own_version {
            (self.info.server, self.info.version) = (Some(server.to_owned()), Some(version));
        } else {
            let redis = self.redis_version.as_ref().map(|_| "redis".to_owned());
            (self.info.server, self.info.version) =
                (self.server_name.or(redis), self.redis_version);
        }
        for field in EXPECTED_FIELDS.into_iter().filter(|field| !self.seen.contains(field)) {
            let problem = InfoProblem { kind: InfoProblemKind::Missing, field: field.to_owned() };
            self.problems.push(problem);
        }
        (self.info, self.problems)
    }
}

/// The `name=value` pairs of a line, split at commas and at the first `=` of each; what has no `=`
/// comes with an empty value.
fn pairs(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    value.split(|byte| *byte == b',').map(|pair| {
        let pair = pair.trim_ascii();
        match pair.iter().position(|byte| *byte == b'=') {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &[][..]),
        }
    })
}

/// A whole number that is not negative. Above 2^53 the last digits are lost, which no rate notices.
fn count(value: &[u8]) -> Option<f64> {
    let digits = std::str::from_utf8(value.trim_ascii()).ok()?;
    digits.parse::<u64>().ok().map(|number| number as f64)
}

/// A short text; `None` when it is empty.
fn text(value: &[u8]) -> Option<String> {
    let start = value.get(..value.len().min(4 * TEXT_LIMIT)).unwrap_or_default();
    let text = String::from_utf8_lossy(start.trim_ascii());
    let text: String = text.chars().filter(|c| !c.is_control()).take(TEXT_LIMIT).collect();
    (!text.is_empty()).then_some(text)
}
