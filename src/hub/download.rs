//! One file of a commit, from the hub into the cache: lock, resume, check, link.
//!
//! ```text
//! blobs/HASH.part   grows block by block, hashed on the way; what an earlier try left is hashed first
//!   size and hash as listed ──► fsync, rename to blobs/HASH, link into the snapshot
//!   not as listed           ──► deleted, once more from the first byte, then an error
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use indicatif::HumanBytes;

use super::cache::{Place, entries, file_size};
use super::client::{Client, header};
use super::digest::{self, Hasher};
use super::failure::{self, Backoff, Failure};
use super::listing::Entry;
use super::{lock, space};
use crate::error::Error;

/// Fewer bytes than this in one try do not count as getting further.
const STEP: u64 = 1 << 16;

/// Brings `entry` of `commit` into the cache. The bytes that came over the network are added to `fetched`.
pub(super) fn fetch(
    client: &Client<'_>,
    place: &Place,
    commit: &str,
    entry: &Entry,
    fetched: &mut u64,
) -> Result<(), Failure> {
    let blobs = place.root.join("blobs");
    std::fs::create_dir_all(&blobs).map_err(|error| space::fault("cannot create", &blobs, &error))?;
    let arrived = || gathered(&blobs, entry.hash());
    let patience = client.hub.patience;
    let _lock = lock::take(&place.lock(entry.hash()), &entry.path, patience.lock, &arrived, client.progress)?;

    // Another process may have been here while this one waited.
    if place.has(commit, entry) {
        return Ok(());
    }
    let blob = place.blob(entry.hash());
    if file_size(&blob) != Some(entry.size) {
        let part = place.part(entry.hash());
        download(client, commit, entry, &part, fetched)?;
        std::fs::rename(&part, &blob).map_err(|error| space::fault("cannot write", &blob, &error))?;
    }
    place
        .link(commit, entry)
        .map_err(|error| space::fault("cannot write", &place.pointer(commit, &entry.path), &error))?;
    Ok(())
}

/// How many bytes of a blob are here in any unfinished form, ours or Python's.
fn gathered(blobs: &Path, hash: &str) -> u64 {
    let names = entries(blobs).into_iter().filter(|name| name.starts_with(hash));
    names.filter_map(|name| file_size(&blobs.join(name))).sum()
}

/// What a try to fill a partial file came to.
enum Outcome {
    /// As many bytes as listed, with this hash.
    Whole(String),
    /// The server has another number of bytes.
    Size { actual: u64, pointer: bool },
}

/// Fills `part` with the content of `entry`, checked.
fn download(client: &Client<'_>, commit: &str, entry: &Entry, part: &Path, fetched: &mut u64) -> Result<(), Failure> {
    let have = file_size(part).filter(|have| *have <= entry.size).unwrap_or(0);
    client.progress.begin(&entry.path, entry.size, have);
    let mut wrong = None;
    let mut result = Ok(());
    for _ in 0..2 {
        match fill(client, commit, entry, part, fetched) {
            Ok(Outcome::Whole(hash)) if hash == entry.hash() => {
                wrong = None;
                break;
            }
            Ok(outcome) => {
                remove(part)?;
                let text = describe(entry, &outcome);
                if wrong.is_none() {
                    client.progress.note(&format!("`{}`: {text}; once more from the start", entry.path));
                    client.progress.restart();
                }
                wrong = Some(text);
            }
            Err(failure) => {
                result = Err(failure);
                wrong = None;
                break;
            }
        }
    }
    client.progress.end();
    if let Some(text) = wrong {
        let (id, endpoint) = (&client.repository.id, &client.hub.endpoint);
        return Err(Failure::Final(Error::new(format!("cannot download `{}` of `{id}`: {text}", entry.path)).hint(
            format!(
                "twice the wrong content came from `{endpoint}`: check the proxy and `HF_ENDPOINT`, or try again later"
            ),
        )));
    }
    result
}

fn describe(entry: &Entry, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Size { actual, pointer: true } => {
            format!("the server sent a Git LFS pointer of {actual} bytes, expected {} bytes", entry.size)
        }
        Outcome::Size { actual, .. } => format!("the server has {actual} bytes, expected {}", entry.size),
        Outcome::Whole(hash) => format!("{} is {hash}, expected {}", entry.hash_kind(), entry.hash()),
    }
}

/// Adds to `part` until it is as long as listed, through as many connections as that takes.
fn fill(client: &Client<'_>, commit: &str, entry: &Entry, part: &Path, fetched: &mut u64) -> Result<Outcome, Failure> {
    let mut part = Part::open(part, entry, client)?;
    let mut backoff = Backoff::new(client.hub, client.progress, client.hub.patience.tries);
    let mut refused = false;
    while part.len < entry.size {
        let before = part.len;
        let step = receive(client, commit, entry, &mut part, fetched);
        if part.len >= before + STEP {
            backoff.got_further();
        }
        match step {
            Ok(Received::All) => {}
            Ok(Received::Other { actual, pointer }) => return Ok(Outcome::Size { actual, pointer }),
            // 416: the server's file ends before ours does. Once that may be a fault of the partial file.
            Ok(Received::OutOfRange) if !refused => {
                refused = true;
                part.restart(entry, client)?;
            }
            Ok(Received::OutOfRange) => return Ok(Outcome::Size { actual: 0, pointer: false }),
            Err(failure) => {
                if part.len > 0 && failure.passing() {
                    let (have, size) = (HumanBytes(part.len), HumanBytes(entry.size));
                    client.progress.note(&format!("`{}`: {have} of {size} are here", entry.path));
                }
                backoff.again(failure)?;
            }
        }
    }
    part.finish()
}

enum Received {
    /// The body ended where it should.
    All,
    /// The whole file has another size on the server.
    Other { actual: u64, pointer: bool },
    /// Status 416.
    OutOfRange,
}

/// One request: appends its body to `part`, as far as it comes.
fn receive(
    client: &Client<'_>,
    commit: &str,
    entry: &Entry,
    part: &mut Part,
    fetched: &mut u64,
) -> Result<Received, Failure> {
    failure::stop_if_asked(client.progress)?;
    let response = client.body(commit, &entry.path, part.len)?;
    let number = |name: &str| header(response.headers(), name).and_then(|text| text.trim().parse::<u64>().ok());
    let (from, total) = match response.status().as_u16() {
        416 => return Ok(Received::OutOfRange),
        206 => content_range(header(response.headers(), "content-range").unwrap_or_default()),
        _ => (0, number("content-length")),
    };
    // A server that ignores `Range` sends the file from its first byte.
    if from != part.len {
        part.restart(entry, client)?;
    }
    if from != part.len {
        return Err(Failure::Unreachable {
            why: "an answer to another range than asked for".to_string(),
            passing: true,
        });
    }
    let mut body = response.into_body().into_reader();
    if let Some(actual) = total.filter(|total| *total != entry.size) {
        let mut head = Vec::new();
        // Only to tell what it is; an error here changes nothing.
        let _ = body.by_ref().take(256).read_to_end(&mut head);
        return Ok(Received::Other { actual, pointer: digest::is_pointer(&head) });
    }
    let mut block = vec![0u8; digest::BLOCK];
    while part.len < entry.size {
        failure::stop_if_asked(client.progress)?;
        let room = usize::try_from(entry.size - part.len).unwrap_or(usize::MAX).min(block.len());
        match body.read(&mut block[..room]) {
            // Without a length in its head, an answer that ends early cannot be told from a broken one.
            Ok(0) => return Err(failure::broken_off(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                part.append(&block[..count])?;
                *fetched += count as u64;
                client.progress.advance(count as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failure::broken_off(error)),
        }
    }
    Ok(Received::All)
}

/// The start and the total of `bytes START-END/TOTAL`.
fn content_range(text: &str) -> (u64, Option<u64>) {
    let parse = || {
        let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
        Some((range.split_once('-')?.0.trim().parse().ok()?, total.trim().parse().ok()))
    };
    parse().unwrap_or((u64::MAX, None))
}

/// A partial file and the hash of what it holds.
struct Part {
    path: PathBuf,
    file: File,
    len: u64,
    hasher: Hasher,
}

impl Part {
    /// Opens `path`, and hashes what an earlier try left there.
    fn open(path: &Path, entry: &Entry, client: &Client<'_>) -> Result<Self, Failure> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| space::fault("cannot write", path, &error))?;
        let hasher = Hasher::new(entry.hash(), entry.size);
        let mut part = Self { path: path.to_path_buf(), file, len: 0, hasher };
        match digest::absorb(&mut part.file, &mut part.hasher, &|_| !client.progress.stopped()) {
            Ok(len) if len <= entry.size => part.len = len,
            Ok(_) => part.restart(entry, client)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(failure::interrupted().into()),
            Err(error) => return Err(Error::io("cannot read", path, &error).into()),
        }
        Ok(part)
    }

    fn restart(&mut self, entry: &Entry, client: &Client<'_>) -> Result<(), Failure> {
        let empty = |file: &mut File| file.set_len(0).and_then(|()| file.rewind());
        empty(&mut self.file).map_err(|error| space::fault("cannot write", &self.path, &error))?;
        self.len = 0;
        self.hasher = Hasher::new(entry.hash(), entry.size);
        client.progress.restart();
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| self.unwritten(&error))?;
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn finish(self) -> Result<Outcome, Failure> {
        self.file.sync_all().map_err(|error| self.unwritten(&error))?;
        Ok(Outcome::Whole(self.hasher.finish()))
    }

    /// On a full disk the partial file goes, so that whatever else runs there gets its room back.
    fn unwritten(&self, error: &io::Error) -> Failure {
        if space::is_full(error) {
            let _ = std::fs::remove_file(&self.path);
        }
        Failure::Final(space::fault("cannot write", &self.path, error))
    }
}

fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(space::fault("cannot delete", path, &error).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::content_range;

    #[test]
    fn ranges_are_read() {
        assert_eq!(content_range("bytes 5-9/10"), (5, Some(10)));
        assert_eq!(content_range("bytes 5-9/*"), (5, None));
        assert_eq!(content_range("bytes */10").0, u64::MAX);
        assert_eq!(content_range("").0, u64::MAX);
    }
}
