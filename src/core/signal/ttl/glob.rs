//! Redis' own globs, over bytes.

/// Whether a key matches a pattern, as `KEYS` and `SCAN .. MATCH` understand it: `*` is any bytes
/// (also `/` and `:`), `?` is one byte, `[abc]`, `[a-z]` and `[^a]` are one byte out of a set, `\`
/// takes the next byte as it is. No pattern is invalid: an open bracket ends with the pattern.
///
/// Time is at most the product of the two lengths: only the last `*` is ever tried again, since
/// whatever an earlier one could still take the last one can take as well.
pub(super) fn matches(pattern: &[u8], key: &[u8]) -> bool {
    let (mut p, mut k) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, k));
            continue;
        }
        let step = match (pattern.get(p..), key.get(k)) {
            (Some([]) | None, None) => return true,
            (Some(rest), Some(&byte)) => one(rest, byte),
            _ => None,
        };
        match (step, star) {
            (Some(length), _) => (p, k) = (p + length, k + 1),
            (None, Some((after, from))) if from < key.len() => {
                star = Some((after, from + 1));
                (p, k) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// How much of the pattern's front matches this byte; `None` when it does not.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', set @ ..] => {
            let (hit, length) = in_set(set, byte);
            hit.then_some(1 + length)
        }
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// Whether the byte is in the set, and the set's length with its closing bracket.
fn in_set(set: &[u8], byte: u8) -> (bool, usize) {
    let negated = set.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut hit = false;
    while let Some(rest) = set.get(at..) {
        match rest {
            [] | [b']', ..] => break,
            [b'\\', literal, ..] => {
                hit |= *literal == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                hit |= (*from.min(to)..=*from.max(to)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                hit |= *literal == byte;
                at += 1;
            }
        }
    }
    (hit != negated, (at + 1).min(set.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_redis_does() {
        for (pattern, key, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("user:*", "user:1/2", true),
            ("user:*", "users:1", false),
            ("*:cart", "u:1:cart", true),
            ("*:cart", "u:1:carts", false),
            ("a*b*c", "a-b-b-c", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hbllo", true),
            ("k[0-9]", "k7", true),
            ("k[9-0]", "k7", true),
            ("k[0-9]", "kx", false),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("[\\]]", "]", true),
            ("[ab", "a", true),
            ("{a,b}", "{a,b}", true),
            ("a", "ab", false),
            ("ab", "a", false),
            ("trailing\\", "trailing\\", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), key.as_bytes()), expected, "{pattern} {key}");
        }
    }

    #[test]
    fn keys_are_bytes() {
        assert!(matches(b"a:?", b"a:\xff"));
        assert!(matches(b"a:\xfe*", b"a:\xfe\x00\n"));
        assert!(!matches(b"a:\xfe", b"a:\xff"));
    }

    #[test]
    fn a_hostile_pattern_costs_little() {
        let pattern = b"*a".repeat(200);
        let key = vec![b'a'; 20_000];
        assert!(!matches(&[&pattern[..], b"b"].concat(), &key));
    }
}
