//! What the cache holds: models, what is missing of them, whether their bytes are right; and taking one out.

use std::io;
use std::path::{Path, PathBuf};

use super::cache::{self, Place, file_size};
use super::listing::{Entry, Listing};
use super::needed::{is_weights, needed};
use super::{Hub, Progress, Repository, digest, failure};
use crate::error::{Error, Result};

/// A snapshot in the cache.
#[derive(Clone, Debug)]
pub struct Cached {
    /// `ORG/NAME`.
    pub id: String,
    /// The commit.
    pub commit: String,
    /// The branches and tags that stand for it.
    pub references: Vec<String>,
    /// The snapshot folder.
    pub path: PathBuf,
    /// The size of the files that are here.
    pub bytes: u64,
    /// What is not here, or not at its full size.
    pub missing: Vec<Missing>,
    /// Whether its files look like a speech model, as far as names tell.
    pub speech: bool,
}

/// A file that a snapshot lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Relative to the snapshot.
    pub file: String,
    /// The size of what is there in its place, or of the part that was downloaded so far.
    pub have: Option<u64>,
    /// Its size on the hub, where that is known.
    pub size: Option<u64>,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.have, self.size) {
            (Some(have), Some(size)) => write!(f, "`{}` ({have} of {size} bytes)", self.file),
            _ => write!(f, "`{}`", self.file),
        }
    }
}

/// The files of a list of missing ones, for a message.
pub(super) fn name_all(missing: &[Missing]) -> String {
    missing.iter().map(Missing::to_string).collect::<Vec<_>>().join(", ")
}

/// Every snapshot in the cache, by name.
pub fn list(hub: &Hub) -> Result<Vec<Cached>> {
    if let Err(error) = std::fs::read_dir(&hub.cache)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(Error::io("cannot read the model cache", &hub.cache, &error));
    }
    let of = |id: String| {
        let place = Place::new(hub, &id);
        place.commits().into_iter().map(move |commit| look(&place, &id, commit)).collect::<Vec<_>>()
    };
    Ok(cache::repositories(hub).into_iter().flat_map(of).collect())
}

/// The snapshot that `repository` means in the cache; none where nothing of it is here.
pub fn find(repository: &Repository, hub: &Hub) -> Option<Cached> {
    let place = Place::new(hub, &repository.id);
    let commit = place.commit(&repository.revision)?;
    Some(look(&place, &repository.id, commit))
}

/// The speech model that was pulled last and is whole, as `ORG/NAME[@REVISION]`.
pub fn last_pulled(hub: &Hub) -> Option<String> {
    let models = list(hub).ok()?.into_iter().filter(|cached| cached.speech && cached.missing.is_empty());
    let pulled = |cached: &Cached| {
        let tree = Place::new(hub, &cached.id).tree(&cached.commit);
        std::fs::metadata(tree).and_then(|meta| meta.modified()).ok()
    };
    let newest = models.filter_map(|cached| Some((pulled(&cached)?, cached))).max_by_key(|(when, _)| *when)?.1;
    let reference = match newest.references.iter().find(|name| *name == "main").or(newest.references.first()) {
        Some(reference) => reference.clone(),
        None => newest.commit,
    };
    Repository::new(&newest.id, &reference).ok().map(|repository| repository.label())
}

fn look(place: &Place, id: &str, commit: String) -> Cached {
    let path = place.snapshot(&commit);
    let files = files_below(&path);
    let listing = Listing::read(&place.tree(&commit));
    let has = |wanted: &dyn Fn(&str) -> bool| {
        files.iter().any(|(file, _)| wanted(file))
            || listing.iter().any(|listing| listing.entries.iter().any(|entry| wanted(&entry.path)))
    };
    Cached {
        id: id.to_string(),
        references: place.references(&commit),
        bytes: files.iter().map(|(_, size)| size).sum(),
        missing: missing(place, &commit),
        speech: has(&|file| file == "codec/config.json" || file.starts_with("audiovae.")),
        commit,
        path,
    }
}

/// What a snapshot lacks: against the hub's listing where it is kept, else as far as the files tell themselves.
pub(super) fn missing(place: &Place, commit: &str) -> Vec<Missing> {
    match Listing::read(&place.tree(commit)) {
        Some(listing) => needed(&listing)
            .into_iter()
            .filter(|entry| !place.has(commit, entry))
            .map(|entry| Missing {
                file: entry.path.clone(),
                have: file_size(&place.pointer(commit, &entry.path)).or_else(|| file_size(&place.part(entry.hash()))),
                size: Some(entry.size),
            })
            .collect(),
        None => missing_by_itself(&place.snapshot(commit)),
    }
}

/// What any checkpoint must have, and what its index names.
fn missing_by_itself(snapshot: &Path) -> Vec<Missing> {
    let mut wanted = vec!["config.json".to_string(), "tokenizer.json".to_string()];
    for folder in ["", "codec/"] {
        let index = std::fs::read(snapshot.join(format!("{folder}model.safetensors.index.json"))).ok();
        let index = index.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
        if let Some(shards) = index.as_ref().and_then(|index| index.get("weight_map")?.as_object()) {
            wanted.extend(shards.values().filter_map(|shard| Some(format!("{folder}{}", shard.as_str()?))));
        } else if folder == "codec/" && snapshot.join("codec").is_dir() {
            wanted.extend(["codec/config.json".to_string(), "codec/model.safetensors".to_string()]);
        } else if folder.is_empty() && !cache::entries(snapshot).iter().any(|file| is_weights(file)) {
            wanted.push("model.safetensors".to_string());
        }
    }
    // A link that leads nowhere is a file that was here once.
    wanted.extend(links_to_nowhere(snapshot));
    wanted.sort();
    wanted.dedup();
    let absent = wanted.into_iter().filter(|file| file_size(&snapshot.join(file)).is_none());
    absent.map(|file| Missing { file, have: None, size: None }).collect()
}

fn links_to_nowhere(snapshot: &Path) -> Vec<String> {
    let names = |folder: &'static str| {
        cache::entries(&snapshot.join(folder)).into_iter().map(move |name| format!("{folder}{name}"))
    };
    let all = names("").chain(names("codec/"));
    all.filter(|file| snapshot.join(file).is_symlink() && !snapshot.join(file).exists()).collect()
}

/// Every file below a folder with its size, links followed.
fn files_below(root: &Path) -> Vec<(String, u64)> {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for name in cache::entries(&root.join(&folder)) {
            let file = format!("{folder}{name}");
            let path = root.join(&file);
            // Links to folders are not followed: they are not of the cache's making and may lead in circles.
            if path.is_dir() && !path.is_symlink() {
                folders.push(format!("{file}/"));
            } else if let Some(size) = file_size(&path) {
                files.push((file, size));
            }
        }
    }
    files.sort();
    files
}

/// What checking one file brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Size and hash are right.
    Good,
    /// It is not there.
    Missing,
    /// It has another size.
    Size {
        /// As the hub lists it.
        expected: u64,
        /// As it is here.
        actual: u64,
    },
    /// It has the right size and other bytes.
    Hash {
        /// As the hub lists it.
        expected: String,
        /// As it is here.
        actual: String,
    },
    /// It is a Git LFS pointer in place of the content.
    Pointer,
    /// Nothing here tells what it should be.
    Unknown,
}

/// A file of a snapshot and what checking it brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Relative to the snapshot.
    pub file: String,
    /// The outcome.
    pub verdict: Verdict,
}

/// Checks size and hash of every needed file of a snapshot, without the network.
///
/// What is expected comes from the kept listing; without one, from the names of the blobs, which are their hashes.
pub fn verify(cached: &Cached, hub: &Hub, progress: &dyn Progress) -> Result<Vec<Finding>> {
    let place = Place::new(hub, &cached.id);
    let mut findings = Vec::new();
    if let Some(listing) = Listing::read(&place.tree(&cached.commit)) {
        for entry in needed(&listing) {
            let path = place.pointer(&cached.commit, &entry.path);
            let verdict = check(&path, entry.hash(), Some(entry.size), &entry.path, progress)?;
            findings.push(Finding { file: entry.path.clone(), verdict });
        }
        return Ok(findings);
    }
    for (file, _) in files_below(&cached.path) {
        let path = cached.path.join(&file);
        let blob = std::fs::read_link(&path).ok();
        let hash = blob.and_then(|blob| Some(blob.file_name()?.to_str()?.to_string()));
        let verdict = check(&path, hash.as_deref().unwrap_or_default(), None, &file, progress)?;
        findings.push(Finding { file, verdict });
    }
    for missing in &cached.missing {
        findings.push(Finding { file: missing.file.clone(), verdict: Verdict::Missing });
    }
    Ok(findings)
}

/// Whether the file of `entry` is right, byte for byte.
pub(super) fn is_good(path: &Path, entry: &Entry, progress: &dyn Progress) -> Result<bool> {
    Ok(check(path, entry.hash(), Some(entry.size), &entry.path, progress)? == Verdict::Good)
}

fn check(path: &Path, hash: &str, size: Option<u64>, name: &str, progress: &dyn Progress) -> Result<Verdict> {
    let Some(actual) = file_size(path) else { return Ok(Verdict::Missing) };
    if digest::is_pointer_file(path) {
        return Ok(Verdict::Pointer);
    }
    if let Some(expected) = size.filter(|size| *size != actual) {
        return Ok(Verdict::Size { expected, actual });
    }
    if !matches!(hash.len(), 40 | 64) {
        return Ok(Verdict::Unknown);
    }
    progress.check(name, actual);
    let read = |count| {
        progress.advance(count);
        !progress.stopped()
    };
    let found = digest::of_file(path, hash, &read);
    progress.end();
    match found {
        Ok(found) if found == hash => Ok(Verdict::Good),
        Ok(found) => Ok(Verdict::Hash { expected: hash.to_string(), actual: found }),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(failure::interrupted()),
        Err(error) => Err(Error::io("cannot read", path, &error)),
    }
}

/// Whether anything of a repository is in the cache.
pub fn is_cached(id: &str, hub: &Hub) -> bool {
    let root = Place::new(hub, id).root;
    root.exists() || root.is_symlink()
}

/// Takes a repository out of the cache, all its revisions; tells how many bytes that freed.
pub fn remove(id: &str, hub: &Hub) -> Result<u64> {
    let place = Place::new(hub, id);
    if !is_cached(id, hub) {
        return Err(
            Error::new(format!("`{id}` is not in the cache `{}`", hub.cache.display())).hint("see `rtts models list`")
        );
    }
    let freed = files_below(&place.root)
        .iter()
        .filter(|(file, _)| !place.root.join(file).is_symlink())
        .map(|(_, size)| size)
        .sum();
    let gone = |path: &Path| {
        // A folder that is a link was put there by the user: the link goes, what it leads to stays.
        let done = if path.is_symlink() { std::fs::remove_file(path) } else { std::fs::remove_dir_all(path) };
        match done {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("cannot delete", path, &error)),
            _ => Ok(()),
        }
    };
    gone(&place.root)?;
    gone(&place.locks)?;
    Ok(freed)
}
