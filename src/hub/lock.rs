//! One process downloads a blob, the others wait: a file lock that dies with its holder.
//!
//! The lock is the operating system's, on the file that Python's `huggingface_hub` locks too; a lock file that was left
//! behind locks nothing. Waiting is bounded: it ends when the holder has made no progress for a while.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Progress, failure};
use crate::error::{Error, Result};

/// How often to look.
const LOOK: Duration = Duration::from_millis(200);

/// Held until dropped.
pub(super) struct Lock {
    _file: Option<File>,
}

/// Takes the lock at `path` for `what`. `grown` measures how far the holder is; `idle` without a change ends the wait.
pub(super) fn take(
    path: &Path,
    what: &str,
    idle: Duration,
    grown: &dyn Fn() -> u64,
    progress: &dyn Progress,
) -> Result<Lock> {
    let fault = |error: &std::io::Error| super::space::fault("cannot open the lock file", path, error);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| super::space::fault("cannot create", folder, &error))?;
    }
    let mut seen = (grown(), Instant::now());
    let mut told = false;
    loop {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| fault(&error))?;
        match file.try_lock() {
            Ok(()) if is_current(&file, path) => return Ok(Lock { _file: Some(file) }),
            // The last holder deleted the file it had locked: this lock is on a file that nobody else will find.
            Ok(()) => continue,
            Err(TryLockError::WouldBlock) => {}
            // Some network file systems have no locks. The rename at the end is atomic, so the worst is double work.
            Err(TryLockError::Error(_)) => return Ok(Lock { _file: None }),
        }
        if !told {
            progress.note(&format!("waiting for another process that is downloading `{what}`"));
            told = true;
        }
        let now = grown();
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        if seen.1.elapsed() >= idle {
            let waited = idle.as_secs_f32();
            return Err(Error::new(format!(
                "cannot download `{what}`: another process holds `{}` and made no progress for {waited:.0} s",
                path.display()
            ))
            .hint("end that process, or run the same again later"));
        }
        failure::sleep(LOOK, progress)?;
    }
}

#[cfg(unix)]
fn is_current(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(held), Ok(named)) => (held.dev(), held.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_current(_file: &File, _path: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Silent;
    use super::*;

    #[test]
    fn an_orphan_lock_file_locks_nothing_and_a_held_one_is_waited_for_within_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.lock");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "left behind").unwrap();
        let idle = Duration::from_millis(300);
        let held = take(&path, "x", idle, &|| 0, &Silent).unwrap();
        let error = take(&path, "x", idle, &|| 0, &Silent).err().unwrap();
        assert!(error.to_string().contains("b.lock"), "{error}");
        drop(held);
        take(&path, "x", idle, &|| 0, &Silent).unwrap();
    }

    #[test]
    fn a_holder_that_gets_on_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.lock");
        let held = take(&path, "x", Duration::from_secs(1), &|| 0, &Silent).unwrap();
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(1500));
                drop(held);
            });
            let grown = || u64::try_from(start.elapsed().as_millis()).unwrap();
            take(&path, "x", Duration::from_millis(600), &grown, &Silent).unwrap();
        });
        assert!(start.elapsed() >= Duration::from_millis(1500));
    }
}
