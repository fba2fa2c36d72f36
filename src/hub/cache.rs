//! The cache on disk: paths, references and links of one repository, laid out as Python's `huggingface_hub` does it.
//!
//! ```text
//! CACHE/models--ORG--NAME/blobs/HASH                 the bytes; HASH.part while they arrive
//!                        /snapshots/COMMIT/FILE      -> ../../blobs/HASH
//!                        /refs/REVISION              the commit a branch or tag stood for
//!                        /trees/COMMIT.json          what the hub lists for the commit (`listing`)
//! CACHE/.locks/models--ORG--NAME/HASH.lock
//! ```
//!
//! Source: `huggingface_hub/file_download.py` (2.4.0). Names and paths come from `hf-hub`; references are written here
//! because its own writer is not atomic.

use std::io;
use std::path::{Path, PathBuf};

use super::listing::Entry;
use super::{Hub, Repository};

/// One repository's place in the cache.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// `CACHE/models--ORG--NAME`.
    pub root: PathBuf,
    /// `CACHE/.locks/models--ORG--NAME`.
    pub locks: PathBuf,
    id: String,
}

impl Place {
    pub fn new(hub: &Hub, id: &str) -> Self {
        let folder = hf_hub::Repo::model(id.to_string()).folder_name();
        Self { root: hub.cache.join(&folder), locks: hub.cache.join(".locks").join(folder), id: id.to_string() }
    }

    fn paths(&self) -> hf_hub::CacheRepo {
        let cache = self.root.parent().unwrap_or(&self.root).to_path_buf();
        hf_hub::Cache::new(cache).model(self.id.clone())
    }

    pub fn blob(&self, hash: &str) -> PathBuf {
        self.paths().blob_path(hash)
    }

    /// Where a blob gathers until it is whole and checked; `hf-hub` uses the same name, so its rests are resumed too.
    pub fn part(&self, hash: &str) -> PathBuf {
        self.blob(&format!("{hash}.part"))
    }

    pub fn lock(&self, hash: &str) -> PathBuf {
        self.locks.join(format!("{hash}.lock"))
    }

    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.paths().pointer_path(commit)
    }

    pub fn pointer(&self, commit: &str, file: &str) -> PathBuf {
        self.snapshot(commit).join(file)
    }

    pub fn tree(&self, commit: &str) -> PathBuf {
        self.root.join("trees").join(format!("{commit}.json"))
    }

    fn reference(&self, revision: &str) -> PathBuf {
        self.root.join("refs").join(revision)
    }

    /// Every commit that has a snapshot folder.
    pub fn commits(&self) -> Vec<String> {
        let mut commits: Vec<String> =
            entries(&self.root.join("snapshots")).into_iter().filter(|name| is_commit(name)).collect();
        commits.sort();
        commits
    }

    /// The branches and tags that stand for `commit`.
    pub fn references(&self, commit: &str) -> Vec<String> {
        let refs = self.root.join("refs");
        let mut found = Vec::new();
        let mut folders = vec![refs.clone()];
        while let Some(folder) = folders.pop() {
            for name in entries(&folder) {
                let path = folder.join(name);
                if path.is_dir() {
                    folders.push(path);
                } else if std::fs::read_to_string(&path).is_ok_and(|text| text.trim() == commit)
                    && let Ok(name) = path.strip_prefix(&refs)
                {
                    found.push(name.to_string_lossy().replace('\\', "/"));
                }
            }
        }
        found.sort();
        found
    }

    /// The commit in the cache that `revision` means: by reference, as a commit or the unambiguous beginning of one,
    /// or the only snapshot there is where `main` was never noted.
    pub fn commit(&self, revision: &str) -> Option<String> {
        let commits = self.commits();
        let has = |commit: &String| commits.contains(commit);
        if let Some(commit) = self.noted(revision).filter(has) {
            return Some(commit);
        }
        let only = |found: Vec<&String>| (found.len() == 1).then(|| found[0].clone());
        if revision.len() >= 7
            && let Some(commit) = only(commits.iter().filter(|commit| commit.starts_with(revision)).collect())
        {
            return Some(commit);
        }
        if revision == "main" { only(commits.iter().collect()) } else { None }
    }

    /// What `refs/REVISION` says.
    pub fn noted(&self, revision: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.reference(revision)).ok()?;
        let commit = text.trim();
        is_commit(commit).then(|| commit.to_string())
    }

    /// Notes that `revision` means `commit`; writes nothing where that is known already.
    pub fn note(&self, revision: &str, commit: &str) -> io::Result<()> {
        if revision == commit || self.noted(revision).as_deref() == Some(commit) {
            return Ok(());
        }
        replace(&self.reference(revision), commit.as_bytes())
    }

    /// Whether the file of a snapshot is here, at its full size.
    pub fn has(&self, commit: &str, entry: &Entry) -> bool {
        file_size(&self.pointer(commit, &entry.path)) == Some(entry.size)
    }

    /// Puts a finished blob into a snapshot.
    pub fn link(&self, commit: &str, entry: &Entry) -> io::Result<()> {
        let pointer = self.pointer(commit, &entry.path);
        if let Some(folder) = pointer.parent() {
            std::fs::create_dir_all(folder)?;
        }
        link(&self.blob(entry.hash()), &pointer, entry.path.matches('/').count(), symlink)
    }
}

/// Makes `pointer`, `depth` folders below its snapshot, lead to `blob`: by a relative symbolic link, by a second name
/// where the file system has no symbolic links, else by moving the file.
fn link(blob: &Path, pointer: &Path, depth: usize, symlink: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    match std::fs::remove_file(pointer) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let name = blob.file_name().unwrap_or_default();
    let target = Path::new(&"../".repeat(depth + 2)).join("blobs").join(name);
    let size = Some(file_size(blob).ok_or(io::ErrorKind::NotFound)?);
    // A second process may have put the same link there a moment ago; then all is well.
    let there = |error| if file_size(pointer) == size { Ok(()) } else { Err(error) };
    match symlink(&target, pointer) {
        Ok(()) if file_size(pointer) == size => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => there(error),
        _ => {
            // A link that leads nowhere may have been left by the attempt.
            let _ = std::fs::remove_file(pointer);
            std::fs::hard_link(blob, pointer).or_else(|_| std::fs::rename(blob, pointer)).or_else(there)
        }
    }
}

#[cfg(unix)]
fn symlink(target: &Path, pointer: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, pointer)
}

#[cfg(windows)]
fn symlink(target: &Path, pointer: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target, pointer)
}

/// Every `ORG/NAME` in the cache, whole or not.
pub(super) fn repositories(hub: &Hub) -> Vec<String> {
    let mut found: Vec<String> = entries(&hub.cache)
        .into_iter()
        .filter_map(|name| {
            let id = name.strip_prefix("models--")?.replace("--", "/");
            Repository::new(&id, "main").ok().map(|repository| repository.id)
        })
        .collect();
    found.sort();
    found
}

/// The size of the file at the end of `path`, links followed.
pub(super) fn file_size(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len())
}

/// Full commit names are the only ones that become folders.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The names in a folder; none where it cannot be read.
pub(super) fn entries(folder: &Path) -> Vec<String> {
    let Ok(read) = std::fs::read_dir(folder) else { return Vec::new() };
    read.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// Writes a small file so that readers see the old text or the new one, never a part.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut builder = tempfile::Builder::new();
    // Others who share the cache may read it, as far as the umask lets them.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.suffix(".tmp").tempfile_in(folder)?;
    io::Write::write_all(&mut file, bytes)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
    const OTHER: &str = "0123456ffffffffffffffffffffffffffffffff0";

    fn place() -> (tempfile::TempDir, Place) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("models--o--n");
        let place = Place { root, locks: folder.path().join(".locks/models--o--n"), id: "o/n".to_string() };
        (folder, place)
    }

    #[test]
    fn layout_is_the_one_of_python() {
        let (folder, place) = place();
        let root = folder.path().join("models--o--n");
        assert_eq!(place.blob("ab"), root.join("blobs/ab"));
        assert_eq!(place.part("ab"), root.join("blobs/ab.part"));
        assert_eq!(place.pointer(COMMIT, "codec/x"), root.join("snapshots").join(COMMIT).join("codec/x"));
        assert_eq!(place.lock("ab"), folder.path().join(".locks/models--o--n/ab.lock"));
    }

    #[test]
    fn revisions_are_found() {
        let (_folder, place) = place();
        assert_eq!(place.commit("main"), None);
        std::fs::create_dir_all(place.snapshot(COMMIT)).unwrap();
        assert_eq!(place.commit("main").as_deref(), Some(COMMIT), "the only snapshot");
        assert_eq!(place.commit("v1"), None);
        std::fs::create_dir_all(place.snapshot(OTHER)).unwrap();
        assert_eq!(place.commit("main"), None, "two snapshots and no reference");
        place.note("refs/pr/1", OTHER).unwrap();
        place.note("main", COMMIT).unwrap();
        assert_eq!(place.commit("refs/pr/1").as_deref(), Some(OTHER));
        assert_eq!(place.commit("main").as_deref(), Some(COMMIT));
        assert_eq!(place.commit(OTHER).as_deref(), Some(OTHER));
        assert_eq!(place.commit("0123456f").as_deref(), Some(OTHER));
        assert_eq!(place.commit("0123456"), None, "ambiguous");
        assert_eq!(place.references(OTHER), ["refs/pr/1"]);
        std::fs::write(place.root.join("refs/main"), "not a commit").unwrap();
        assert_eq!(place.commit("main"), None);
    }

    #[test]
    fn without_symbolic_links_files_are_plain() {
        let (_folder, place) = place();
        let pointer = place.pointer(COMMIT, "codec/x");
        std::fs::create_dir_all(place.root.join("blobs")).unwrap();
        std::fs::create_dir_all(pointer.parent().unwrap()).unwrap();
        std::fs::write(place.blob("ab"), "bytes").unwrap();
        link(&place.blob("ab"), &pointer, 1, |_, _| Err(io::ErrorKind::Unsupported.into())).unwrap();
        assert!(!pointer.is_symlink());
        assert_eq!(std::fs::read_to_string(&pointer).unwrap(), "bytes");
        // Some file systems pretend: they make a link that leads nowhere.
        link(&place.blob("ab"), &pointer, 1, |_, at| symlink(Path::new("nowhere"), at)).unwrap();
        assert_eq!(std::fs::read_to_string(&pointer).unwrap(), "bytes");
        link(&place.blob("ab"), &pointer, 1, symlink).unwrap();
        assert_eq!(std::fs::read_link(&pointer).unwrap(), Path::new("../../../blobs/ab"));
        assert_eq!(std::fs::read_to_string(&pointer).unwrap(), "bytes");
    }
}
