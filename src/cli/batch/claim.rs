//! A mark beside a file while it appears and until its line is in the manifest, so that a run that is killed in between
//! knows its own file again. It is hidden, and gone when both are done.

use std::fs;
use std::path::{Path, PathBuf};

use super::plan::digest;

/// The mark for one file.
#[derive(Debug)]
pub struct Claim(PathBuf);

impl Claim {
    /// Marks `file` of `folder` as one of ours. A mark that cannot be made is no reason to lose the file.
    pub fn set(folder: &Path, file: &str) -> Self {
        let path = path(folder, file);
        let _ = fs::write(&path, file);
        Self(path)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether `file` of `folder` was marked by a run that was killed.
pub fn stands(folder: &Path, file: &str) -> bool {
    path(folder, file).is_file()
}

fn path(folder: &Path, file: &str) -> PathBuf {
    folder.join(format!(".rtts-{}.part", digest(file.as_bytes(), 16)))
}
