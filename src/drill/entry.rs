//! What the cache-aside client stores: the value with the three times that protections need.

/// The header: a kind byte and three times as `f64`.
const HEADER: usize = 25;
const FOUND: u8 = b'v';
const ABSENT: u8 = b'-';

/// One cached answer of the backend.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The value, or `None` for "the backend has no such thing".
    pub value: Option<Vec<u8>>,
    /// Unix seconds of the write.
    pub written_at: f64,
    /// Unix seconds after which the value counts as old, whatever the server's own TTL says.
    pub deadline: f64,
    /// How long its load took, seconds.
    pub load_seconds: f64,
}

impl Entry {
    /// The bytes for the server.
    pub fn encode(&self) -> Vec<u8> {
        let value = self.value.as_deref().unwrap_or_default();
        let mut bytes = Vec::with_capacity(HEADER + value.len());
        bytes.push(if self.value.is_some() { FOUND } else { ABSENT });
        for time in [self.written_at, self.deadline, self.load_seconds] {
            bytes.extend_from_slice(&time.to_le_bytes());
        }
        bytes.extend_from_slice(value);
        bytes
    }

    /// The entry in the bytes; `None` when something else wrote them, which then is a miss.
    pub fn decode(bytes: &[u8]) -> Option<Entry> {
        let (kind, rest) = bytes.split_first()?;
        let (written_at, rest) = time(rest)?;
        let (deadline, rest) = time(rest)?;
        let (load_seconds, rest) = time(rest)?;
        let value = match *kind {
            FOUND => Some(rest.to_vec()),
            ABSENT => None,
            _ => return None,
        };
        Some(Entry { value, written_at, deadline, load_seconds })
    }
}

/// Where in an entry's bytes its deadline is, and the bytes of another one: so an entry can be made
/// old without reading it.
pub fn new_deadline(deadline: f64) -> (usize, [u8; 8]) {
    (1 + 8, deadline.to_le_bytes())
}

fn time(bytes: &[u8]) -> Option<(f64, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    let time = f64::from_le_bytes(*head);
    time.is_finite().then_some((time, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        for value in [Some(b"a value".to_vec()), Some(Vec::new()), None] {
            let entry = Entry { value, written_at: 1.5, deadline: 2.5, load_seconds: 0.25 };
            assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        }
    }

    #[test]
    fn the_deadline_can_be_overwritten_in_place() {
        let value = Some(b"a value".to_vec());
        let entry = Entry { value, written_at: 1.5, deadline: 2.5, load_seconds: 0.25 };
        let mut bytes = entry.encode();
        let (offset, new) = new_deadline(7.5);
        bytes[offset..offset + new.len()].copy_from_slice(&new);
        assert_eq!(Entry::decode(&bytes), Some(Entry { deadline: 7.5, ..entry }));
    }

    #[test]
    fn foreign_bytes_are_no_entry() {
        let nan = [&[FOUND][..], &f64::NAN.to_le_bytes(), &[0; 16]].concat();
        for bytes in [&b""[..], b"v", b"hello", &[b'x'; 40], &nan] {
            assert_eq!(Entry::decode(bytes), None, "{bytes:?}");
        }
    }
}
