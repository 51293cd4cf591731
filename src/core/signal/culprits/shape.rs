//! What keys have in common: their names with what tells them apart taken out.

/// A word of hexadecimal digits is an id from so many on; `face` and `decade` are words.
const HEX_ID: usize = 8;

/// A word of letters and digits that is so long is an id, as tokens are.
const TOKEN_ID: usize = 16;

/// The shape of a key: each id becomes `*`.
///
/// Names are read as words between signs such as `:` and `/`. A word is an id when it is a number, a
/// UUID, a long hexadecimal number or token, or not readable at all; a number at the end of a word
/// is one too, as in `page12`. Versions such as `v2` are kept: they are the same for many keys.
///
/// ```
/// use stampede_core::signal::culprits::shape;
///
/// assert_eq!(shape(b"user:123:profile"), b"user:*:profile");
/// assert_eq!(shape(b"v2:page12"), b"v2:page*");
/// ```
pub fn shape(key: &[u8]) -> Vec<u8> {
    let mut shape = Vec::with_capacity(key.len());
    let mut rest = key;
    while let Some(first) = rest.first() {
        let length = if let Some(uuid) = uuid(rest) {
            shape.push(b'*');
            uuid
        } else if is_of_word(*first) {
            let length = rest.iter().take_while(|byte| is_of_word(**byte)).count();
            word(rest.get(..length).unwrap_or_default(), &mut shape);
            length
        } else {
            shape.push(*first);
            1
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    shape
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii() || byte.is_ascii_control()
}

/// The length of a UUID that stands at the beginning, as a word of its own.
fn uuid(text: &[u8]) -> Option<usize> {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    const LENGTH: usize = 36;
    let head = text.get(..LENGTH)?;
    let groups = head.split(|byte| *byte == b'-');
    let fits = groups.clone().map(<[u8]>::len).eq(GROUPS)
        && groups.flatten().all(u8::is_ascii_hexdigit)
        && text.get(LENGTH).is_none_or(|byte| !is_of_word(*byte));
    fits.then_some(LENGTH)
}

fn word(word: &[u8], shape: &mut Vec<u8>) {
    if is_id(word) {
        shape.push(b'*');
        return;
    }
    let digits = word.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (letters, number) = word.split_at(word.len() - digits);
    shape.extend(letters);
    if is_version(letters) {
        shape.extend(number);
    } else if digits > 0 {
        shape.push(b'*');
    }
}

fn is_version(letters: &[u8]) -> bool {
    letters.eq_ignore_ascii_case(b"v")
}

fn is_id(word: &[u8]) -> bool {
    let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
    let readable = !word.iter().any(u8::is_ascii_control) && std::str::from_utf8(word).is_ok();
    digits == word.len()
        || !readable
        || (digits > 0 && word.len() >= HEX_ID && word.iter().all(u8::is_ascii_hexdigit))
        || (digits > 0 && word.len() >= TOKEN_ID)
}

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn ids_become_stars_and_words_stay() {
        let cases: [(&[u8], &[u8]); 19] = [
            (b"user:123", b"user:*"),
            (b"user:123:profile", b"user:*:profile"),
            (b"front", b"front"),
            (b"", b""),
            (b"42", b"*"),
            (b"page12", b"page*"),
            (b"v2:page1", b"v2:page*"),
            (b"session:550e8400-e29b-41d4-a716-446655440000", b"session:*"),
            (b"550e8400-e29b-41d4-a716-446655440000:cart", b"*:cart"),
            (b"550e8400-e29b-41d4-a716-446655440000x", b"*-e29b-41d*-a*-446655440000x"),
            (b"etag/deadbeef01", b"etag/*"),
            (b"etag/deadbeef", b"etag/deadbeef"),
            (b"facade:decade", b"facade:decade"),
            (b"tok_Zm9vYmFyYmF6cXV4MTIz", b"tok_*"),
            (b"{7}.cart", b"{*}.cart"),
            (b"h\xffx:a", b"*:a"),
            ("café:7".as_bytes(), "café:*".as_bytes()),
            (b"2026-11-30|sales", b"*-*-*|sales"),
            (b"a\nb:1", b"*:*"),
        ];
        for (key, expected) in cases {
            let found = shape(key);
            let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
            assert_eq!(shown(&found), shown(expected), "{}", shown(key));
        }
    }
}
