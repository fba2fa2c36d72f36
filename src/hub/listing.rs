//! What the hub lists for one commit: every file with its size and hash; kept beside the snapshot.
//!
//! A commit never changes, so its listing is fetched once. On disk it has the form of Python's `trees/COMMIT.json`
//! (`huggingface_hub/_tree_cache.py`, 2.4.0), and makes it possible to tell offline what is missing or damaged.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::cache;

/// A file of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Relative to the snapshot, with `/` between folders.
    pub path: String,
    /// In bytes.
    pub size: u64,
    /// SHA-1 of the git blob: of the file, or of the pointer that stands for it in git.
    git: String,
    /// SHA-256 of the content, where it is kept in LFS.
    sha256: Option<String>,
    /// The hub's name for it in its chunk store; passed on to Python.
    xet: Option<String>,
}

impl Entry {
    /// The content's hash, which is the name of its blob: 64 digits of SHA-256, or 40 of a git blob's SHA-1.
    pub fn hash(&self) -> &str {
        self.sha256.as_deref().unwrap_or(&self.git)
    }

    /// The hash as a message shows it.
    pub fn hash_kind(&self) -> &'static str {
        if self.sha256.is_some() { "SHA-256" } else { "git SHA-1" }
    }
}

/// All files of a commit, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub entries: Vec<Entry>,
}

/// One element of the hub's answer to `/api/models/ORG/NAME/tree/COMMIT`.
#[derive(Deserialize)]
pub(super) struct Element {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    oid: String,
    lfs: Option<Lfs>,
    #[serde(rename = "xetHash")]
    xet: Option<String>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
}

/// `trees/COMMIT.json`.
#[derive(Serialize, Deserialize)]
struct Stored {
    format_version: u32,
    files: BTreeMap<String, StoredEntry>,
}

#[derive(Serialize, Deserialize)]
struct StoredEntry {
    size: u64,
    blob_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lfs_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lfs_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    xet_hash: Option<String>,
}

impl Listing {
    /// Reads the hub's answer; the error names what in it cannot be.
    pub fn from_elements(elements: Vec<Element>) -> Result<Self, String> {
        let mut entries = Vec::new();
        for element in elements.into_iter().filter(|element| element.kind == "file") {
            let (sha256, size) = match element.lfs {
                Some(lfs) => (Some(lfs.oid), lfs.size),
                None => (None, element.size),
            };
            entries.push(Entry { path: element.path, size, git: element.oid, sha256, xet: element.xet });
        }
        Self { entries }.checked()
    }

    /// The listing kept at `path`; none where there is none that can be trusted.
    pub fn read(path: &Path) -> Option<Self> {
        let stored: Stored = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        if stored.format_version != 1 {
            return None;
        }
        let entries = stored.files.into_iter().map(|(path, entry)| Entry {
            path,
            size: entry.lfs_size.unwrap_or(entry.size),
            git: entry.blob_id,
            sha256: entry.lfs_sha256,
            xet: entry.xet_hash,
        });
        Self { entries: entries.collect() }.checked().ok()
    }

    /// Keeps the listing at `path`.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let entry = |entry: &Entry| StoredEntry {
            size: entry.size,
            blob_id: entry.git.clone(),
            lfs_sha256: entry.sha256.clone(),
            lfs_size: entry.sha256.as_ref().map(|_| entry.size),
            xet_hash: entry.xet.clone(),
        };
        let files = self.entries.iter().map(|file| (file.path.clone(), entry(file))).collect();
        let mut text = serde_json::to_vec_pretty(&Stored { format_version: 1, files })?;
        text.push(b'\n');
        cache::replace(path, &text)
    }

    /// Hashes become file names, so they must be hashes.
    fn checked(mut self) -> Result<Self, String> {
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
        let hex = |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match self
            .entries
            .iter()
            .find(|entry| !hex(&entry.git, 40) || entry.sha256.as_ref().is_some_and(|hash| !hex(hash, 64)))
        {
            Some(entry) => Err(format!("the hash of `{}`", entry.path.escape_debug())),
            None => Ok(self),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const GIT: &str = "0123456789abcdef0123456789abcdef01234567";

    /// A listing of files of these names and sizes.
    pub fn listing(files: &[(&str, u64)]) -> Listing {
        let entry = |(path, size): &(&str, u64)| Entry {
            path: path.to_string(),
            size: *size,
            git: GIT.to_string(),
            sha256: None,
            xet: None,
        };
        Listing { entries: files.iter().map(entry).collect() }
    }

    fn parse(json: &str) -> Result<Listing, String> {
        Listing::from_elements(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn the_hubs_answer_is_read_and_kept() {
        let sha = "ab".repeat(32);
        let listing = parse(&format!(
            r#"[{{"type":"directory","path":"codec","oid":"{GIT}","size":0}},
                {{"type":"file","path":"model.safetensors","size":3000000000,"oid":"{GIT}",
                  "lfs":{{"oid":"{sha}","size":3000000000,"pointerSize":134}},"xetHash":"{sha}"}},
                {{"type":"file","path":"codec/config.json","size":7,"oid":"{GIT}"}}]"#
        ))
        .unwrap();
        assert_eq!(listing.entries.len(), 2);
        assert_eq!((listing.entries[0].hash(), listing.entries[0].size), (GIT, 7));
        assert_eq!((listing.entries[1].hash(), listing.entries[1].size), (sha.as_str(), 3_000_000_000));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trees/x.json");
        listing.write(&path).unwrap();
        assert_eq!(Listing::read(&path), Some(listing));
        std::fs::write(&path, "{").unwrap();
        assert_eq!(Listing::read(&path), None);
    }

    #[test]
    fn hashes_that_are_none_are_refused() {
        let answer = parse(r#"[{"type":"file","path":"x","size":1,"oid":"../../x"}]"#);
        assert_eq!(answer, Err("the hash of `x`".to_string()));
    }
}
