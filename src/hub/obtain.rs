//! A model of the hub, ready in the cache: what is there is used, what is missing is fetched.

use std::path::PathBuf;

use super::cache::Place;
use super::client::Client;
use super::failure::{self, Failure};
use super::listing::{Entry, Listing};
use super::needed::{is_checkpoint, needed};
use super::survey::{self, missing, name_all};
use super::{Hub, Progress, Repository, cache, download, name, space};
use crate::error::{Error, Result};

/// Tries for the first request of all: a machine without a network should learn so soon.
const FIRST_TRIES: u32 = 3;

/// A model that is in the cache now.
#[derive(Clone, Debug)]
pub struct Obtained {
    /// Its snapshot folder.
    pub path: PathBuf,
    /// The commit.
    pub commit: String,
    /// How many files a checkpoint needs of it.
    pub files: usize,
    /// Their size.
    pub bytes: u64,
    /// Bytes that came over the network just now.
    pub fetched: u64,
}

/// Fetches a model, and checks the hash of every file that was here before: afterwards all is right.
pub fn pull(repository: &Repository, hub: &Hub, progress: &dyn Progress) -> Result<Obtained> {
    Job { repository, hub, progress, place: Place::new(hub, &repository.id), thorough: true }.run()
}

/// Makes a model ready for use; files that are here at their full size are taken as they are.
pub(super) fn ready(repository: &Repository, hub: &Hub, progress: &dyn Progress) -> Result<Obtained> {
    Job { repository, hub, progress, place: Place::new(hub, &repository.id), thorough: false }.run()
}

struct Job<'a> {
    repository: &'a Repository,
    hub: &'a Hub,
    progress: &'a dyn Progress,
    place: Place,
    thorough: bool,
}

impl Job<'_> {
    fn run(&self) -> Result<Obtained> {
        let here = self.place.commit(&self.repository.revision);
        let whole = here.as_ref().filter(|commit| missing(&self.place, commit).is_empty());
        if self.hub.offline {
            return match whole {
                Some(commit) => Ok(self.as_it_is(commit)),
                None => Err(self.offline(here.as_deref())),
            };
        }
        // A commit never changes: when it was named by its whole name and is here, there is nothing to ask.
        if let Some(commit) = whole
            && *commit == self.repository.revision
            && !self.thorough
        {
            return Ok(self.as_it_is(commit));
        }
        let asked = Client::new(self.hub, self.repository, self.progress).and_then(|client| {
            let commit = client.commit(if whole.is_some() { 1 } else { FIRST_TRIES })?;
            let listing = match Listing::read(&self.place.tree(&commit)) {
                Some(listing) => listing,
                None => client.listing(&commit)?,
            };
            Ok((client, commit, listing))
        });
        match (asked, whole) {
            (Ok((client, commit, listing)), _) => self.fetch(&client, commit, &listing),
            (Err(failure), Some(commit)) if self.may_do_without(&failure) => {
                let why = failure.brief(self.hub);
                let label = self.repository.label();
                self.progress.note(&format!("{why}: using `{label}` from the cache, commit {}", &commit[..8]));
                Ok(self.as_it_is(commit))
            }
            (Err(failure), _) => {
                let cold = matches!(failure, Failure::Unreachable { .. });
                let error = failure.explain(self.hub, self.repository, None);
                Err(if cold { self.not_here(error, here.as_deref()) } else { error })
            }
        }
    }

    /// Whether a copy in the cache will do in place of an answer. Someone who pulls wants to hear of a refusal.
    fn may_do_without(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Unreachable { .. } => true,
            Failure::Status { .. } => failure.passing() || !self.thorough,
            Failure::Final(_) => false,
        }
    }

    fn as_it_is(&self, commit: &str) -> Obtained {
        let path = self.place.snapshot(commit);
        let (files, bytes) = match Listing::read(&self.place.tree(commit)) {
            Some(listing) => total(&needed(&listing)),
            None => (cache::entries(&path).len(), 0),
        };
        Obtained { path, commit: commit.to_string(), files, bytes, fetched: 0 }
    }

    fn fetch(&self, client: &Client<'_>, commit: String, listing: &Listing) -> Result<Obtained> {
        let wanted = needed(listing);
        if !is_checkpoint(&wanted) {
            return Err(self.no_checkpoint(listing));
        }
        let mut absent = Vec::new();
        for entry in &wanted {
            if !self.has(&commit, entry)? {
                absent.push(*entry);
            }
        }
        let mut fetched = 0;
        if !absent.is_empty() {
            let (files, bytes) = (absent.len(), absent.iter().map(|entry| self.to_fetch(entry)).sum());
            space::check(&self.place.root, bytes)?;
            // Before the files, so that an interrupted download can be told from a whole one without the network.
            let tree = self.place.tree(&commit);
            listing.write(&tree).map_err(|error| space::fault("cannot write", &tree, &error))?;
            self.progress.plan(&self.repository.label(), files, bytes);
            for entry in absent {
                download::fetch(client, &self.place, &commit, entry, &mut fetched)
                    .map_err(|failure| failure.explain(self.hub, self.repository, Some(&entry.path)))?;
            }
        } else if self.thorough {
            // Renewed for its time, which says what was pulled last; a cache that cannot be written to is fine as it is.
            let _ = listing.write(&self.place.tree(&commit));
        }
        // After the files, so that a broken download never takes the place of a whole older commit.
        if let Err(error) = self.place.note(&self.repository.revision, &commit)
            && fetched > 0
        {
            return Err(space::fault("cannot write the reference below", &self.place.root, &error));
        }
        let (files, bytes) = total(&wanted);
        Ok(Obtained { path: self.place.snapshot(&commit), commit, files, bytes, fetched })
    }

    /// Whether a file is here. What is here but wrong is deleted, the blob and what leads to it.
    fn has(&self, commit: &str, entry: &Entry) -> Result<bool> {
        failure::stop_if_asked(self.progress)?;
        let pointer = self.place.pointer(commit, &entry.path);
        let blob = self.place.blob(entry.hash());
        if self.place.has(commit, entry) && (!self.thorough || survey::is_good(&pointer, entry, self.progress)?) {
            return Ok(true);
        }
        let blob_is_good = cache::file_size(&blob) == Some(entry.size)
            && (!self.thorough || survey::is_good(&blob, entry, self.progress)?);
        for path in [Some(&pointer), (!blob_is_good).then_some(&blob)].into_iter().flatten() {
            if cache::file_size(path).is_none() {
                continue;
            }
            self.progress.note(&format!("`{}` in the cache is not what the hub lists: fetching it again", entry.path));
            std::fs::remove_file(path).map_err(|error| space::fault("cannot delete", path, &error))?;
        }
        Ok(false)
    }

    /// How many bytes of a file are still to come.
    fn to_fetch(&self, entry: &Entry) -> u64 {
        if cache::file_size(&self.place.blob(entry.hash())) == Some(entry.size) {
            return 0;
        }
        let part = cache::file_size(&self.place.part(entry.hash())).unwrap_or(0);
        entry.size.checked_sub(part).unwrap_or(entry.size)
    }

    fn offline(&self, here: Option<&str>) -> Error {
        let label = self.repository.label();
        let error = Error::new(format!("cannot fetch `{label}`: offline mode is on (`--offline` or `HF_HUB_OFFLINE`)"));
        let error = self.not_here(error, here);
        match name::suggestion(&self.repository.id, self.hub).filter(|_| here.is_none()) {
            Some(near) => error
                .hint(format!("did you mean `{near}`? else run `rtts models pull {label}` where there is a network")),
            None => error.hint(format!("run `rtts models pull {label}` where there is a network")),
        }
    }

    /// Adds to an error what the cache lacks.
    fn not_here(&self, error: Error, here: Option<&str>) -> Error {
        let cache = self.hub.cache.display();
        let state = match here {
            Some(commit) => format!("in the cache it lacks {}", name_all(&missing(&self.place, commit))),
            None => format!("it is not in the cache `{cache}`"),
        };
        let all = Error::new(format!("{error}; {state}"));
        match error.cure() {
            Some(cure) => all.hint(cure),
            None => all,
        }
    }

    fn no_checkpoint(&self, listing: &Listing) -> Error {
        let mut kinds: Vec<&str> = listing
            .entries
            .iter()
            .filter_map(|entry| entry.path.rsplit_once('.').map(|(_, kind)| kind))
            .filter(|kind| ["gguf", "bin", "onnx", "pt", "pth", "ckpt", "npz", "msgpack", "h5"].contains(kind))
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        let found = match kinds.is_empty() {
            true => String::new(),
            false => format!(" (there are `.{}` files)", kinds.join("`, `.")),
        };
        let id = &self.repository.id;
        Error::new(format!("`{id}` is no checkpoint for rtts: it lacks `config.json` or `.safetensors` weights{found}"))
            .hint(format!("see what it holds at `{}/{id}`", self.hub.endpoint))
    }
}

fn total(entries: &[&Entry]) -> (usize, u64) {
    (entries.len(), entries.iter().map(|entry| entry.size).sum())
}
