//! A model name becomes a local snapshot folder: the shared hub cache, download, resume, offline.
//!
//! The cache is the one of Python's `huggingface_hub` (`models--ORG--NAME/{blobs,snapshots,refs,trees}`), so a model
//! fetched by either is found by both. The order of things in [`resolve`]:
//!
//! ```text
//! name ──► name      folder | alias | ORG/NAME[@REVISION]
//!      ──► cache     which commit is here, and is it whole?          (survey, listing)
//!      ──► client    which commit does the hub hold, and which files? (one request when nothing changed)
//!      ──► download  what is missing: lock, resume, size, hash, link
//! ```
//!
//! `hf-hub` 0.5.0 supplies names, paths and the first request. Its downloader is not used, because from the outside it
//! cannot be made right: it appends a whole body to a partial file when a server ignores `Range`, takes a short or
//! damaged file for good, answers 416 for ever to a partial file that is complete, and hides the answer's headers and
//! text. File bodies therefore go through `ureq`, the client that `hf-hub` itself is built on.

mod cache;
mod client;
mod digest;
mod download;
mod failure;
mod folder;
mod listing;
mod lock;
pub mod name;
mod needed;
mod obtain;
mod progress;
mod reach;
mod settings;
mod space;
mod survey;

use std::path::PathBuf;

use crate::error::Result;

pub use name::{Name, Repository};
pub use obtain::{Obtained, pull};
pub use progress::{Bars, Progress, Silent};
pub use reach::{reach, writable};
pub use settings::{Hub, Patience, Token};
pub use space::free;
pub use survey::{Cached, Finding, Missing, Verdict, find, is_cached, last_pulled, list, remove, verify};

/// The local folder of a model: an existing folder as it is, or the snapshot of a hub model, downloaded where needed.
///
/// The network is asked for the newest commit of the revision; where it cannot be reached, a whole copy in the cache
/// is used and one line says so.
pub fn resolve(name: &str, hub: &Hub, progress: &dyn Progress) -> Result<PathBuf> {
    match Name::parse(name, hub)? {
        Name::Folder(path) => {
            folder::check(&path)?;
            Ok(path)
        }
        Name::Repository(repository) => Ok(obtain::ready(&repository, hub, progress)?.path),
    }
}
