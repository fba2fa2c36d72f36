//! `manifest.jsonl`: a line for every utterance as it ends, and what a later run learns from it.
//!
//! Lines are only ever appended, each with one write, so that a kill leaves at most one torn line, and jobs that share
//! a folder do not mix theirs. The last line about a file counts.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The file's name in the output folder.
pub const FILE: &str = "manifest.jsonl";

/// One line of the manifest.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Entry {
    /// Version of the schema.
    pub v: u32,
    /// The line's number in the list.
    pub n: usize,
    /// What was said.
    pub text: String,
    /// The WAV file, relative to the output folder.
    pub file: String,
    /// Repeats the line with `--seed`, alone or in a batch.
    pub seed: u64,
    /// Length of the audio.
    pub seconds: Option<f64>,
    /// Size of the file; a file of another size is not the one that was written.
    pub bytes: Option<u64>,
    /// Autoregressive steps.
    pub steps: Option<usize>,
    /// Why it ended.
    pub stop: Option<String>,
    /// How often its utterances ran away and were tried again.
    pub retries: Option<usize>,
    /// Seconds of silence cut off the ends of its utterances.
    pub trimmed: Option<f64>,
    /// Wall time of the line by the length of its audio; its batch mates took part of that time.
    pub rtf: Option<f64>,
    /// Seconds of audio that the run made in a second, up to this line, all lines together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Why there is no file.
    pub error: Option<String>,
    /// Stands for text, settings and model: a line is done where this is the same.
    pub key: String,
}

/// An open manifest.
#[derive(Debug)]
pub struct Manifest {
    path: PathBuf,
    file: File,
    /// The last entry about each file.
    known: HashMap<String, Entry>,
}

impl Manifest {
    /// Reads the manifest of `folder`, as far as there is one, and opens it for more lines. As long as it is open
    /// nobody else has it open, except where all of them are `shared`: runs over different parts of one list.
    ///
    /// # Errors
    /// Where it cannot be read or written, or another run is at work in the folder.
    pub fn open(folder: &Path, shared: bool) -> Result<Self> {
        let path = folder.join(FILE);
        let failed = |e: std::io::Error| Error::io("cannot write", &path, &e);
        let mut file = OpenOptions::new().create(true).append(true).read(true).open(&path).map_err(failed)?;
        match if shared { file.try_lock_shared() } else { file.try_lock() } {
            Err(TryLockError::WouldBlock) => {
                return Err(Error::new(format!("another `rtts batch` is at work in `{}`", folder.display())).hint(
                    "wait until it ends, choose another folder, or give every run a part of the list with --shard",
                ));
            }
            // Some network file systems know no locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let known = read(&path)?;
        if ends_torn(&mut file).map_err(failed)? {
            file.write_all(b"\n").map_err(failed)?;
        }
        Ok(Self { path, file, known })
    }

    /// The last entry about every file, as they were when it was opened.
    pub fn known(&self) -> &HashMap<String, Entry> {
        &self.known
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn add(&mut self, entry: &Entry) -> Result<()> {
        let mut line = serde_json::to_string(entry).map_err(|e| Error::new(format!("cannot write JSON: {e}")))?;
        line.push('\n');
        self.file
            .write_all(line.as_bytes())
            .and_then(|()| self.file.flush())
            .map_err(|e| Error::io("cannot write", &self.path, &e))
    }
}

/// The entries of a manifest that may not be there; what is no entry, such as a torn line, is passed over.
pub fn read(path: &Path) -> Result<HashMap<String, Entry>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(e) => return Err(Error::io("cannot read", path, &e)),
    };
    let entries = bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice::<Entry>(line).ok());
    Ok(entries.map(|entry| (entry.file.clone(), entry)).collect())
}

/// Whether the last line was never finished.
fn ends_torn(file: &mut File) -> std::io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn entry(n: usize, file: &str, error: Option<&str>) -> Entry {
        Entry { v: 1, n, file: file.into(), key: "k".into(), error: error.map(Into::into), ..Entry::default() }
    }

    #[test]
    fn the_last_word_about_a_file_counts() {
        let folder = tempfile::tempdir().unwrap();
        let mut manifest = Manifest::open(folder.path(), true).unwrap();
        assert!(manifest.known().is_empty());
        manifest.add(&entry(1, "1.wav", Some("broken"))).unwrap();
        manifest.add(&entry(2, "2.wav", None)).unwrap();
        manifest.add(&entry(1, "1.wav", None)).unwrap();
        let manifest = Manifest::open(folder.path(), true).unwrap();
        assert_eq!(manifest.known().get("1.wav"), Some(&entry(1, "1.wav", None)));
        assert_eq!((manifest.known()["2.wav"].n, manifest.known().len()), (2, 2));
    }

    #[test]
    fn a_torn_line_is_passed_over_and_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        Manifest::open(folder.path(), true).unwrap().add(&entry(1, "1.wav", None)).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(b"{\"v\":1,\"n\":2,\"te\xC3");
        fs::write(&path, bytes).unwrap();
        let mut manifest = Manifest::open(folder.path(), true).unwrap();
        assert!(manifest.known().contains_key("1.wav"));
        manifest.add(&entry(3, "3.wav", None)).unwrap();
        let manifest = Manifest::open(folder.path(), true).unwrap();
        assert!(manifest.known().contains_key("1.wav") && manifest.known().contains_key("3.wav"));
    }

    #[test]
    fn one_run_at_a_time_except_for_parts_of_a_list() {
        let folder = tempfile::tempdir().unwrap();
        let first = Manifest::open(folder.path(), false).unwrap();
        for shared in [false, true] {
            let error = Manifest::open(folder.path(), shared).unwrap_err();
            assert!(error.to_string().contains("another") && error.cure().unwrap().contains("--shard"), "{error}");
        }
        drop(first);
        let _second = Manifest::open(folder.path(), true).unwrap();
        let _third = Manifest::open(folder.path(), true).unwrap();
        assert!(Manifest::open(folder.path(), false).is_err());
    }
}
