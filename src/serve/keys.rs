//! Key names, which are bytes, as text that stays apart for keys that are apart.

/// The name as it is where it is printable UTF-8; other bytes, control characters, what cannot
/// be seen, and backslashes are escaped as in `\xff`.
pub fn text(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || c == '\\' || is_unseen(c) {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        text.extend(chunk.invalid().iter().flat_map(|byte| byte.escape_ascii()).map(char::from));
    }
    text
}

/// Characters that show as nothing, or turn around what stands beside them: with them two keys
/// that are apart would look the same. (Unicode's format characters, and its line ends.)
fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn odd_names_stay_apart_and_readable() {
        assert_eq!(text("user:Zoë".as_bytes()), "user:Zoë");
        assert_eq!(text(b"a:\xff\n"), r"a:\xff\n");
        // The six characters of the text above are another key.
        assert_eq!(text(br"a:\xff\n"), r"a:\\xff\\n");
        assert_eq!(text(b""), "");
        // Right to left from here on, and a space that is none.
        assert_eq!(text("a\u{202e}b\u{200b}".as_bytes()), r"a\u{202e}b\u{200b}");
        assert_eq!(text("مرحبا 😀".as_bytes()), "مرحبا 😀");
    }
}
