//! A secret's place; the value is read where it is needed and shown nowhere.

use std::io;
use std::path::PathBuf;

/// A secret's place or value. `Debug` never shows the value.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// A file; one trailing line end is not part of the secret.
    File(PathBuf),
    /// An environment variable's name; one trailing line end is not part of the secret.
    Env(String),
    /// From the address itself.
    Inline(Vec<u8>),
}

impl Secret {
    /// The secret's bytes as they are now; any bytes, possibly none.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or the variable is not set. The text names the place only.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        match self {
            Secret::File(path) => Ok(without_line_end(std::fs::read(path)?)),
            Secret::Env(name) => match std::env::var_os(name) {
                Some(value) => Ok(without_line_end(value.into_encoded_bytes())),
                None => Err(not_set(name)),
            },
            Secret::Inline(bytes) => Ok(bytes.clone()),
        }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Secret::File(path) => write!(f, "File({})", path.display()),
            Secret::Env(name) => write!(f, "Env({name})"),
            Secret::Inline(_) => write!(f, "Inline(***)"),
        }
    }
}

fn not_set(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("the environment variable {name} is not set"))
}

/// Editors and `echo` end a file with a line end; further ones, and spaces, are the secret's own.
fn without_line_end(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::without_line_end;

    #[test]
    fn one_line_end_goes_and_nothing_else() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"p@ss:w/rd%41#?\n", b"p@ss:w/rd%41#?"),
            (b"trailing space \n", b"trailing space "),
            (b"windows\r\n", b"windows"),
            (b"two\n\n", b"two\n"),
            (b"", b""),
            (b"\xff\xfe", b"\xff\xfe"),
        ];
        for (file, secret) in cases {
            assert_eq!(without_line_end(file.to_vec()), secret);
        }
    }
}
