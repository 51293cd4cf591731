//! Key names, which are bytes, as text that stays apart for keys that are apart.

/// The name as it is where it is printable UTF-8; other bytes, control characters and backslashes
/// are escaped as in `\xff`.
pub fn text(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || c == '\\' {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        text.extend(chunk.invalid().iter().flat_map(|byte| byte.escape_ascii()).map(char::from));
    }
    text
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
    }
}
