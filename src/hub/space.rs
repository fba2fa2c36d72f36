//! Room on the disk, and what to tell where there is none or nothing may be written.

use std::io;
use std::path::Path;

use indicatif::HumanBytes;

use crate::error::{Error, Result};

/// What helps against a cache that cannot be used.
const ELSEWHERE: &str = "set `HF_HOME` or `HF_HUB_CACHE` to another folder";

/// An error while writing to the cache, with the cure for the usual causes.
pub(super) fn fault(doing: &str, path: &Path, cause: &io::Error) -> Error {
    let error = Error::io(doing, path, cause);
    match cause.kind() {
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::AlreadyExists => error.hint(format!("{ELSEWHERE} that can be written to")),
        _ if is_full(cause) => error.hint(format!("make room (`rtts models rm`), or {ELSEWHERE}")),
        _ => error,
    }
}

/// Whether a write failed for want of room.
pub(super) fn is_full(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// Refuses a download that cannot fit, before it begins.
pub(super) fn check(folder: &Path, needed: u64) -> Result<()> {
    match free(folder) {
        Some(free) if free < needed => Err(Error::new(format!(
            "not enough room in `{}`: {} are needed, {} are free",
            folder.display(),
            HumanBytes(needed),
            HumanBytes(free)
        ))
        .hint(format!("make room (`rtts models rm`), or {ELSEWHERE}"))),
        _ => Ok(()),
    }
}

/// Bytes that may still be written where `folder` is or will be; none where that cannot be told.
#[cfg(target_os = "linux")]
pub fn free(folder: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;

    let there = folder.ancestors().find(|path| path.exists())?;
    let path = std::ffi::CString::new(there.as_os_str().as_bytes()).ok()?;
    let mut answer = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: `path` ends in NUL and lives through the call; `answer` is valid for writes of its type.
    let status = unsafe { libc::statvfs(path.as_ptr(), answer.as_mut_ptr()) };
    if status != 0 {
        return None;
    }
    // SAFETY: all-zero bytes are a valid `statvfs`, and the call has filled it in.
    let answer = unsafe { answer.assume_init() };
    // The types are narrower on 32-bit systems.
    #[allow(clippy::useless_conversion)]
    Some(u64::from(answer.f_bavail) * u64::from(answer.f_frsize))
}

/// Bytes that may still be written; this system is not asked.
#[cfg(not(target_os = "linux"))]
pub fn free(_folder: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn room_is_asked_for_before_it_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let later = folder.path().join("not/yet");
        check(&later, 1).unwrap();
        #[cfg(target_os = "linux")]
        {
            let error = check(&later, u64::MAX).unwrap_err();
            assert!(error.to_string().contains("not/yet"), "{error}");
            assert!(error.cure().unwrap().contains("HF_HOME"));
        }
    }
}
