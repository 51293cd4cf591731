//! The `Keyspace` section: one line a database, with fields that differ from server to server.

use super::{InfoProblemKind, count, pairs};

/// The longest average TTL that is believed, milliseconds: 100 years. KeyDB has been seen to say
/// more than a hundred thousand years.
const LONGEST_TTL_MS: f64 = 100.0 * 365.25 * 86_400.0 * 1000.0;

/// The names that servers are known to write and that we have no use for.
const KNOWN_NAMES: [&[u8]; 7] = [
    b"subexpiry",                // Redis 7.4
    b"keys_with_volatile_items", // Valkey 9
    b"cached_keys",              // KeyDB
    b"hits",                     // Dragonfly
    b"misses",
    b"hit_ratio",
    b"expired", // Kvrocks
];

/// The databases of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Keyspace {
    /// The databases that have a line; those without keys have none.
    pub databases: Vec<Database>,
    /// Lines that could not be read.
    pub unreadable: usize,
}

impl Keyspace {
    /// Keys of all databases whose line could be read. A section without lines is no key; lines of
    /// which none could be read are not known, never no key.
    pub fn keys(&self) -> Option<f64> {
        self.total(|database| Some(database.keys))
    }

    /// Keys with a deadline of all databases that say so; `None` as for [`Keyspace::keys`].
    pub fn expires(&self) -> Option<f64> {
        self.total(|database| database.expires)
    }

    fn total(&self, of: impl Fn(&Database) -> Option<f64>) -> Option<f64> {
        let known: Vec<f64> = self.databases.iter().filter_map(of).collect();
        let nothing_there = self.databases.is_empty() && self.unreadable == 0;
        // A sum over nothing is -0, which a page would show as such.
        (nothing_there || !known.is_empty()).then(|| known.iter().fold(0.0, |a, b| a + b))
    }
}

/// One database's line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Database {
    /// The number in `dbN`.
    pub index: u64,
    /// Keys.
    pub keys: f64,
    /// Keys with a deadline.
    pub expires: Option<f64>,
    /// Average remaining TTL in seconds, as the server estimates it. Servers write 0 or -1 when
    /// they do not know, which is `None` here.
    pub avg_ttl: Option<f64>,
}

/// The number of a `dbN` name.
pub(super) fn database_index(name: &[u8]) -> Option<u64> {
    let digits = name.strip_prefix(b"db")?;
    let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    all_digits.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

/// Reads a database's line; `None` when it does not say how many keys there are.
pub(super) fn database(index: u64, value: &[u8]) -> (Option<Database>, Vec<InfoProblemKind>) {
    let mut problems = Vec::new();
    let (mut keys, mut expires, mut avg_ttl) = (None, None, None);
    for (name, value) in pairs(value) {
        let kind = match name {
            b"keys" => number(value, &mut keys),
            b"expires" => number(value, &mut expires),
            b"avg_ttl" => average_ttl(value, &mut avg_ttl),
            b"" => Some(InfoProblemKind::Line),
            name if KNOWN_NAMES.contains(&name) => None,
            _ => Some(InfoProblemKind::UnknownName),
        };
        problems.extend(kind);
    }
    let Some(keys) = keys else {
        if !problems.contains(&InfoProblemKind::Line) {
            problems.push(InfoProblemKind::Line);
        }
        return (None, problems);
    };
    (Some(Database { index, keys, expires, avg_ttl }), problems)
}

fn number(value: &[u8], into: &mut Option<f64>) -> Option<InfoProblemKind> {
    *into = count(value);
    into.is_none().then_some(InfoProblemKind::Number)
}

fn average_ttl(value: &[u8], into: &mut Option<f64>) -> Option<InfoProblemKind> {
    let Some(milliseconds) = std::str::from_utf8(value).ok().and_then(|v| v.parse::<i128>().ok())
    else {
        return Some(InfoProblemKind::Number);
    };
    match milliseconds as f64 {
        -1.0 | 0.0 => None,
        ms if ms > 0.0 && ms <= LONGEST_TTL_MS => {
            *into = Some(ms / 1000.0);
            None
        }
        _ => Some(InfoProblemKind::Ttl),
    }
}
