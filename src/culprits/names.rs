//! How the names of keys are shown.

use ring::hmac;
use tracing::warn;

use crate::config::KeyNames;

/// Bytes of a hash that are shown: two of a million names share them with a chance of 3 in 10^8.
const SHOWN: usize = 8;

/// Shows names, or hashes of them that nobody can look up who does not know the salt.
#[derive(Debug)]
pub(super) enum Names {
    Shown,
    Hashed(hmac::Key),
}

impl Names {
    /// Reads the salt; without one that can be read, the hashes are this process's own.
    pub(super) fn new(config: &KeyNames, cache: &str) -> Names {
        let KeyNames::Hashed { salt } = config else { return Names::Shown };
        let salt = salt.as_ref().and_then(|salt| match salt.read() {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                warn!(cache, "hashes of key names are new ones: the salt cannot be read: {error}");
                None
            }
        });
        let salt = salt.unwrap_or_else(|| rand::random::<[u8; 32]>().to_vec());
        Names::Hashed(hmac::Key::new(hmac::HMAC_SHA256, &salt))
    }

    /// What may be shown of a name.
    pub(super) fn of(&self, name: &[u8]) -> Vec<u8> {
        match self {
            Names::Shown => name.to_vec(),
            Names::Hashed(key) => {
                let hash = hmac::sign(key, name);
                let digits = hash.as_ref().iter().take(SHOWN).map(|byte| format!("{byte:02x}"));
                std::iter::once("#".to_owned()).chain(digits).collect::<String>().into_bytes()
            }
        }
    }

    /// Whether names are shown as they are.
    pub(super) fn are_shown(&self) -> bool {
        matches!(self, Names::Shown)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Secret;

    fn hashed(salt: Option<&Path>) -> Names {
        let salt = salt.map(|path| Secret::File(path.to_owned()));
        Names::new(&KeyNames::Hashed { salt }, "c")
    }

    #[test]
    fn a_salt_makes_hashes_that_stay() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // RFC 4231, test case 2.
        std::fs::write(file.path(), "Jefe\n").unwrap();
        let [one, two] = [hashed(Some(file.path())), hashed(Some(file.path()))];
        let hash = one.of(b"what do ya want for nothing?");
        assert_eq!(hash, b"#5bdcc146bf60754e");
        assert_eq!(two.of(b"what do ya want for nothing?"), hash);
        assert_ne!(one.of(b"another"), hash);
    }

    #[test]
    fn without_a_salt_every_process_has_its_own() {
        let [one, two] = [hashed(None), hashed(Some(Path::new("/nowhere")))];
        assert_eq!(one.of(b"front"), one.of(b"front"));
        assert_ne!(one.of(b"front"), two.of(b"front"));
        let shown = Names::new(&KeyNames::Shown, "c");
        assert_eq!((shown.of(b"front"), shown.are_shown()), (b"front".to_vec(), true));
    }
}
