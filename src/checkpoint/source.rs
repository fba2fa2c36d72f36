//! Where the files of a checkpoint come from: a folder, bytes inside the program, or memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use crate::bytes::Bytes;
use crate::error::{Error, Result};

/// The files of one checkpoint. File names are relative and use `/`.
#[derive(Clone, Debug)]
pub enum Source {
    /// A folder, for example a snapshot in the hub cache.
    Folder(PathBuf),
    /// Files compiled into the program: name and content.
    Embedded(&'static [(&'static str, &'static [u8])]),
    /// Files that were made up in memory.
    Memory(Files),
}

/// Files in memory, cheap to clone.
#[derive(Clone, Debug)]
pub struct Files {
    origin: Arc<str>,
    files: Arc<BTreeMap<String, Bytes>>,
}

impl Files {
    /// `origin` stands for all of them in messages.
    pub fn new(origin: impl Into<Arc<str>>, files: BTreeMap<String, Bytes>) -> Self {
        Self { origin: origin.into(), files: Arc::new(files) }
    }
}

impl Source {
    /// The whole checkpoint, for messages.
    pub fn origin(&self) -> String {
        match self {
            Source::Folder(folder) => folder.display().to_string(),
            Source::Embedded(_) => "builtin".to_owned(),
            Source::Memory(files) => files.origin.to_string(),
        }
    }

    /// One file of it, for messages.
    pub fn place(&self, file: &str) -> String {
        match self {
            Source::Folder(folder) => folder.join(file).display().to_string(),
            Source::Embedded(_) => format!("builtin/{file}"),
            Source::Memory(files) => format!("{}/{file}", files.origin),
        }
    }

    /// Is there such a file?
    pub fn has(&self, file: &str) -> bool {
        match self {
            Source::Folder(folder) => is_inside(file) && folder.join(file).is_file(),
            Source::Embedded(files) => files.iter().any(|(name, _)| *name == file),
            Source::Memory(files) => files.files.contains_key(file),
        }
    }

    /// The content of a file: mapped, not read.
    ///
    /// # Errors
    /// The file is missing, unreadable or not a plain file.
    pub fn read(&self, file: &str) -> Result<Bytes> {
        match self {
            Source::Folder(folder) if is_inside(file) => map(&folder.join(file)),
            Source::Folder(_) => Err(Error::new(format!("`{file}` points outside of `{}`", self.origin()))
                .hint("a checkpoint may only name files of its own folder")),
            Source::Embedded(files) => match files.iter().find(|(name, _)| *name == file) {
                Some((_, content)) => Ok(Bytes::from(*content)),
                None => Err(Error::new(format!("the built-in model has no file `{file}`"))),
            },
            Source::Memory(files) => match files.files.get(file) {
                Some(content) => Ok(content.clone()),
                None => Err(Error::new(format!("`{}` has no file `{file}`", files.origin))),
            },
        }
    }

    /// Names of the files at the top, sorted, for messages; empty where the folder cannot be listed.
    pub fn list(&self) -> Vec<String> {
        let mut names: Vec<String> = match self {
            Source::Folder(folder) => std::fs::read_dir(folder)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect(),
            Source::Embedded(files) => files.iter().map(|(name, _)| (*name).to_owned()).collect(),
            Source::Memory(files) => files.files.keys().cloned().collect(),
        };
        names.sort();
        names
    }
}

/// A relative name without `..`: the shard names of an index are input like any other.
fn is_inside(file: &str) -> bool {
    !file.is_empty() && Path::new(file).components().all(|part| matches!(part, Component::Normal(_)))
}

fn map(path: &Path) -> Result<Bytes> {
    let file = File::open(path).map_err(|cause| {
        let error = Error::io("cannot read", path, &cause);
        match cause.kind() {
            std::io::ErrorKind::NotFound => error.hint("download the checkpoint again; this file of it is missing"),
            _ => error,
        }
    })?;
    let facts = file.metadata().map_err(|cause| Error::io("cannot read", path, &cause))?;
    if !facts.is_file() {
        return Err(Error::new(format!("cannot read `{}`: not a plain file", path.display())));
    }
    if facts.len() == 0 {
        // A mapping cannot be empty.
        return Ok(Bytes::from(Vec::new()));
    }
    // SAFETY: the mapping is read-only and private to `Bytes`, which never hands out `&mut`. Another process that
    // truncates the file under us would end this one; every program that maps its weights accepts that, and downloads
    // replace files by renaming instead of writing into them.
    let map = unsafe { Mmap::map(&file) }.map_err(|cause| Error::io("cannot map", path, &cause))?;
    Ok(Bytes::mapped(Arc::new(map)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_the_folder() {
        for name in ["../x", "/etc/passwd", "a/../../x", "", "."] {
            assert!(!is_inside(name), "{name}");
        }
        assert!(is_inside("codec/model.safetensors"));
    }

    #[test]
    fn reads_every_kind_of_source() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("codec")).unwrap();
        std::fs::write(folder.path().join("codec/a"), b"abc").unwrap();
        std::fs::write(folder.path().join("empty"), b"").unwrap();
        let source = Source::Folder(folder.path().to_path_buf());
        assert!(source.has("codec/a") && !source.has("codec"));
        assert_eq!(&*source.read("codec/a").unwrap(), b"abc");
        assert!(source.read("empty").unwrap().is_empty());
        let error = source.read("codec").unwrap_err();
        assert!(error.to_string().contains("codec"), "{error}");

        let source = Source::Embedded(&[("config.json", b"{}")]);
        assert!(source.has("config.json"));
        assert_eq!(&*source.read("config.json").unwrap(), b"{}");
        assert!(source.read("x").unwrap_err().to_string().contains("`x`"));

        let files = BTreeMap::from([("config.json".to_owned(), Bytes::from(&b"[]"[..]))]);
        let source = Source::Memory(Files::new("made up", files));
        assert!(source.has("config.json") && !source.has("x"));
        assert_eq!((source.origin(), source.place("x")), ("made up".into(), "made up/x".into()));
        assert_eq!(&*source.read("config.json").unwrap(), b"[]");
        assert_eq!(source.list(), ["config.json"]);
        assert!(source.read("x").unwrap_err().to_string().contains("`made up` has no file `x`"));
    }
}
