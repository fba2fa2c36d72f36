//! The temporary files of this process: known by name, so that a run that is ended at once leaves none of them behind,
//! and what killed runs left is swept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tempfile::{Builder, NamedTempFile};

/// How the name of a temporary file begins.
const PREFIX: &str = ".rtts-";
/// How it ends.
const SUFFIX: &str = ".part";

/// One that was not written to for so long has no writer any more.
const STALE: Duration = Duration::from_secs(3600);

static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Keeps a temporary file in the list of those to be removed; dropped once the file is gone or has its final name.
#[derive(Debug)]
pub struct Listed(PathBuf);

impl Drop for Listed {
    fn drop(&mut self) {
        live().retain(|path| *path != self.0);
    }
}

/// No new temporary file appears while this is held.
#[must_use = "files may appear as soon as it is dropped"]
pub struct Cleared(#[allow(dead_code)] MutexGuard<'static, Vec<PathBuf>>); // held, never read

/// A new empty file in `folder`, with the usual permissions of a new file.
///
/// # Errors
/// Where it cannot be made.
pub fn create(folder: &Path) -> io::Result<(NamedTempFile, Listed)> {
    let mut builder = Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666)); // less the umask: what any other new file gets
    }
    // Under the lock, so that none is made but not yet listed while all are removed.
    let mut live = live();
    let file = builder.tempfile_in(folder)?;
    live.push(file.path().to_owned());
    let listed = Listed(file.path().to_owned());
    Ok((file, listed))
}

/// Removes all temporary files of this process, which is about to end.
pub fn clear() -> Cleared {
    let mut live = live();
    for path in live.drain(..) {
        let _ = fs::remove_file(path);
    }
    Cleared(live)
}

/// Removes from `folder` what runs that were killed left behind; files of runs that may still be at work stay.
pub fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let changed = entry.metadata().ok().filter(|data| data.is_file()).and_then(|data| data.modified().ok());
        let old = changed.and_then(|at| SystemTime::now().duration_since(at).ok()).is_some_and(|age| age > STALE);
        if old && name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn only_old_files_of_ours_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * STALE;
        for (name, changed) in
            [(".rtts-old.part", old), (".rtts-new.part", SystemTime::now()), (".other.part", old), ("old.wav", old)]
        {
            File::create(folder.path().join(name)).unwrap().set_modified(changed).unwrap();
        }
        sweep(folder.path());
        let names = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        assert_eq!(names, [".other.part", ".rtts-new.part", "old.wav"]);
    }

    #[test]
    fn a_file_is_listed_as_long_as_it_stands() {
        let folder = tempfile::tempdir().unwrap();
        let (file, listed) = create(folder.path()).unwrap();
        let path = file.path().to_owned();
        assert!(live().contains(&path));
        drop((file, listed));
        assert!(!live().contains(&path) && !path.exists());
    }
}
