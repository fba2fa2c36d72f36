//! Where a file is written: whole or not at all, by a hidden temporary file in the same folder, fsync, rename.
//!
//! [`preflight`] finds what would stop the writing before any model is loaded. What is there already and is no regular
//! file (`/dev/null`, a FIFO) is written straight.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

use super::temporary::{self, Listed};
use crate::error::{Error, Result};

/// A regular file in the making. Dropped before [`Draft::publish`], it leaves nothing behind.
pub(super) struct Draft {
    /// The file under its temporary name.
    pub file: File,
    temporary: TempPath,
    listed: Listed,
    target: Target,
}

impl Draft {
    /// Lets the file appear at its path; everything must have been written.
    pub fn publish(self) -> io::Result<()> {
        if let Some(permissions) = self.target.permissions {
            self.file.set_permissions(permissions)?;
        }
        self.file.sync_all()?;
        drop(self.file);
        self.temporary.persist(&self.target.path).map_err(|e| e.error)?;
        drop(self.listed);
        // The name is durable once the folder is; some file systems cannot sync folders, and the file is whole anyhow.
        #[cfg(unix)]
        let _ = File::open(&self.target.folder).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Draft").field(&self.temporary).finish()
    }
}

/// Writes a small file whole or not at all.
///
/// # Errors
/// As [`preflight`], and a disk that is full or fails.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = match place(path)? {
        Place::Special => fs::OpenOptions::new().write(true).open(path).and_then(|mut f| f.write_all(bytes)),
        Place::File(target) => {
            let mut draft = target.draft(path)?;
            draft.file.write_all(bytes).and_then(|()| draft.publish())
        }
    };
    written.map_err(|e| cannot_write(path, &e))
}

/// Checks that a file could be written at `path`, leaving everything as it was.
/// A file that is there already is fine: whether to replace it is up to the caller.
///
/// # Errors
/// The folder is missing or read-only, the path is a folder, the file is read-only, the name is too long, …
pub fn preflight(path: &Path) -> Result<()> {
    match place(path)? {
        Place::Special => Ok(()),
        Place::File(target) => target.temporary(path).map(drop),
    }
}

/// Makes `folder` with all that leads to it, and checks that files can be written there.
///
/// # Errors
/// Something on the way is a file, or the folder is read-only.
pub fn prepare_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| {
        let error = Error::io("cannot make the folder", folder, &e);
        match e.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => error.hint("a file of that name is in the way"),
            _ => with_cure(error, e.kind()),
        }
    })?;
    target(folder, folder.join("out.wav"), None)?.temporary(folder).map(drop)
}

/// Where a path leads.
pub(super) enum Place {
    File(Target),
    /// A device, FIFO or socket.
    Special,
}

/// A regular file to be made or replaced.
pub(super) struct Target {
    /// Links followed, so that a link stays and what it points at is replaced.
    path: PathBuf,
    folder: PathBuf,
    /// Of the file to be replaced.
    permissions: Option<Permissions>,
}

impl Target {
    /// The file in the making. `path` is what messages call the target.
    pub(super) fn draft(self, path: &Path) -> Result<Draft> {
        let (file, listed) = self.temporary(path)?;
        let (file, temporary) = file.into_parts();
        Ok(Draft { file, temporary, listed, target: self })
    }

    /// An empty file beside the target. `path` is what messages call the target.
    fn temporary(&self, path: &Path) -> Result<(NamedTempFile, Listed)> {
        temporary::create(&self.folder).map_err(|e| match e.kind() {
            ErrorKind::PermissionDenied => read_only(path, &format!("the folder `{}`", self.folder.display())),
            // tempfile wraps the cause to add the path of the temporary file: no concern of the user's
            _ => cannot_write(path, &bare(&e)),
        })
    }
}

pub(super) fn place(path: &Path) -> Result<Place> {
    let shown = path.display();
    if path.as_os_str().is_empty() {
        return Err(Error::usage("the output file has no name"));
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            let inside = path.join("out.wav");
            Err(Error::new(format!("cannot write `{shown}`: it is a folder"))
                .hint(format!("name a file in it, such as `{}`", inside.display())))
        }
        Ok(found) if found.permissions().readonly() => Err(read_only(path, "the file")),
        Ok(found) if !found.is_file() => Ok(Place::Special),
        Ok(found) => {
            let real = fs::canonicalize(path).map_err(|e| cannot_write(path, &e))?;
            target(path, real, Some(found.permissions())).map(Place::File)
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {
            if path.to_string_lossy().ends_with(std::path::MAIN_SEPARATOR) {
                return Err(Error::new(format!("cannot write `{shown}`: that names a folder"))
                    .hint(format!("name a file, such as `{}`", path.join("out.wav").display())));
            }
            // a link to nothing yet: make what it points at
            let real = match fs::read_link(path) {
                Ok(to) => path.parent().unwrap_or(Path::new("")).join(to),
                Err(_) => path.to_owned(),
            };
            target(path, real, None).map(Place::File)
        }
        Err(e) => Err(cannot_write(path, &e)),
    }
}

fn target(path: &Path, real: PathBuf, permissions: Option<Permissions>) -> Result<Target> {
    let folder = match real.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let found = fs::metadata(&folder).map_err(|e| match e.kind() {
        ErrorKind::NotFound => {
            Error::new(format!("cannot write `{}`: there is no folder `{}`", path.display(), folder.display()))
                .hint(format!("make it with `mkdir -p {}`", folder.display()))
        }
        _ => cannot_write(path, &e),
    })?;
    if !found.is_dir() {
        return Err(Error::new(format!("cannot write `{}`: `{}` is no folder", path.display(), folder.display())));
    }
    // The superuser may write there nevertheless, but a folder without any write permission is meant to stay as it is.
    #[cfg(unix)]
    if found.permissions().readonly() {
        return Err(read_only(path, &format!("the folder `{}`", folder.display())));
    }
    Ok(Target { path: real, folder, permissions })
}

/// The error of the operating system alone.
fn bare(error: &io::Error) -> io::Error {
    let inner = error.get_ref().and_then(std::error::Error::source).and_then(|e| e.downcast_ref::<io::Error>());
    match inner.unwrap_or(error).raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error.kind().into(),
    }
}

fn read_only(path: &Path, what: &str) -> Error {
    Error::new(format!("cannot write `{}`: {what} is read-only", path.display()))
        .hint("allow writing with `chmod u+w`, or choose another place")
}

pub(super) fn cannot_write(path: &Path, cause: &io::Error) -> Error {
    with_cure(Error::io("cannot write", path, cause), cause.kind())
}

fn with_cure(error: Error, cause: ErrorKind) -> Error {
    match cause {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            error.hint("free some space or choose another disk")
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => error.hint("choose a place you may write to"),
        ErrorKind::InvalidFilename => error.hint("choose a shorter name"),
        _ => error,
    }
}
