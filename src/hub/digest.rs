//! Sizes and hashes: whether a file is the one that the hub lists.
//!
//! Files in LFS are known by the SHA-256 of their content, all others by git's name for a blob: the SHA-1 of
//! `blob SIZE\0` and the content.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// What a Git LFS pointer file begins with.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Bytes read at once.
pub(super) const BLOCK: usize = 1 << 18;

/// A hash under way.
pub(super) enum Hasher {
    Git(Sha1),
    Sha256(Sha256),
}

impl Hasher {
    /// The kind of hash that `expected` is, for content of `size` bytes.
    pub fn new(expected: &str, size: u64) -> Self {
        if expected.len() == 64 {
            return Self::Sha256(Sha256::new());
        }
        let mut hasher = Sha1::new();
        hasher.update(format!("blob {size}\0"));
        Self::Git(hasher)
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Git(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
        }
    }

    pub fn finish(self) -> String {
        match self {
            Self::Git(hasher) => hex(&hasher.finalize()),
            Self::Sha256(hasher) => hex(&hasher.finalize()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads `from` to its end into `hasher`. `go_on` hears of every block, and ends it with a no.
pub(super) fn absorb(from: &mut impl Read, hasher: &mut Hasher, go_on: &dyn Fn(u64) -> bool) -> io::Result<u64> {
    let mut block = vec![0u8; BLOCK];
    let mut total = 0;
    loop {
        match from.read(&mut block) {
            Ok(0) => return Ok(total),
            Ok(count) => {
                hasher.update(&block[..count]);
                total += count as u64;
                if !go_on(count as u64) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The hash of the file at `path`, of the kind that `expected` is.
pub(super) fn of_file(path: &Path, expected: &str, go_on: &dyn Fn(u64) -> bool) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Hasher::new(expected, file.metadata()?.len());
    absorb(&mut file, &mut hasher, go_on)?;
    Ok(hasher.finish())
}

/// Whether these bytes begin a Git LFS pointer: the few lines that stand for a file in git.
pub(super) fn is_pointer(head: &[u8]) -> bool {
    head.starts_with(LFS_POINTER)
}

/// Whether the file at `path` is a Git LFS pointer in place of the real file.
pub(super) fn is_pointer_file(path: &Path) -> bool {
    let mut head = [0u8; LFS_POINTER.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && is_pointer(&head)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn hashes_are_the_hubs() {
        // `printf hello | git hash-object --stdin` and `sha256sum`.
        let git = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";
        let sha = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, "hello").unwrap();
        assert_eq!(of_file(&path, git, &|_| true).unwrap(), git);
        assert_eq!(of_file(&path, sha, &|_| true).unwrap(), sha);
        assert_eq!(of_file(&path, sha, &|_| false).unwrap_err().kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn pointers_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n").unwrap();
        assert!(is_pointer_file(&path));
        std::fs::write(&path, "version").unwrap();
        assert!(!is_pointer_file(&path));
        assert!(!is_pointer_file(folder.path()));
    }
}
