//! One small JSON file: where it is, how it is replaced, how it is read.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// No state is larger; whatever is, is not ours.
const LARGEST: u64 = 4 << 20;

/// Characters of a cache's name in a file's name; file systems take 255 bytes in all.
const LONGEST_NAME: usize = 80;

/// Why a file that is there could not be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The system does not give it.
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    /// It is not what was written.
    #[error("it is damaged")]
    Damaged(#[from] serde_json::Error),
}

/// Where one thing about one cache is kept.
#[derive(Debug, Clone)]
pub struct Place {
    path: PathBuf,
}

impl Place {
    /// The file of `what` about a cache in `dir`.
    pub fn new(dir: &Path, cache: &str, what: &str) -> Place {
        Place { path: dir.join(format!("{}.{what}.json", file_name(cache))) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it; `None` where there is none.
    ///
    /// # Errors
    /// When there is one that cannot be read or is not what was written.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, PlaceError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut text = Vec::new();
        file.take(LARGEST).read_to_end(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    }

    /// Replaces it, whole or not at all, and on the disk when this returns. Only its owner may read
    /// it, since it may hold names of keys.
    ///
    /// # Errors
    /// When the directory or the file cannot be written; what was there before is still there.
    pub fn write<T: Serialize>(&self, value: &T) -> io::Result<()> {
        use std::os::unix::fs::OpenOptionsExt;
        let dir = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(dir)?;
        let beside = self.path.with_extension("json.new");
        let text = serde_json::to_vec(value)?;
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        File::open(dir)?.sync_all()
    }

    /// Removes it; one that is not there is removed already.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// A cache's name as a part of a file's name: readable, and another one for every name. A name that
/// cannot stand as it is gets a sum of its bytes behind it (FNV-1a).
fn file_name(cache: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if cache.chars().all(plain) && cache.len() <= LONGEST_NAME {
        return cache.to_owned();
    }
    let readable: String =
        cache.chars().take(LONGEST_NAME).map(|c| if plain(c) { c } else { '-' }).collect();
    let sum = cache.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{readable}.{sum:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cache_has_a_file_of_its_own() {
        assert_eq!(file_name("catalog-2_x"), "catalog-2_x");
        let odd = ["a/b", "a-b", "a.b", "../b", "a b", "é", "è"];
        let names: std::collections::BTreeSet<String> = odd.iter().map(|n| file_name(n)).collect();
        assert_eq!(names.len(), odd.len(), "{names:?}");
        assert!(names.iter().all(|n| !n.contains('/') && !n.starts_with('.')), "{names:?}");
        assert!(file_name(&"é".repeat(100)).len() < 120);
    }

    #[test]
    fn a_file_is_replaced_whole_and_removed_once() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::new(&dir.path().join("new/below"), "cache", "what");
        assert_eq!(place.read::<Vec<u32>>().unwrap(), None);
        place.write(&[1, 2]).unwrap();
        place.write(&[3]).unwrap();
        assert_eq!(place.read::<Vec<u32>>().unwrap(), Some(vec![3]));
        fs::write(place.path(), "[3, ").unwrap();
        assert!(matches!(place.read::<Vec<u32>>(), Err(PlaceError::Damaged(_))));
        place.remove().unwrap();
        place.remove().unwrap();
        let left = fs::read_dir(place.path().parent().unwrap()).unwrap().count();
        assert_eq!(left, 0, "nothing is left beside it");
    }
}
