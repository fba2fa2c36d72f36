//! Shared libraries that may not be there.

use std::path::PathBuf;

use libloading::Library;

/// The first of `names` that opens, for good: what was found in it stays valid.
///
/// # Errors
/// What the loader says about the first name.
pub fn open(names: impl IntoIterator<Item = PathBuf>) -> Result<&'static Library, String> {
    let mut first = None;
    for name in names {
        // SAFETY: opening a library runs its initialisers; these are NVIDIA's own.
        match unsafe { Library::new(&name) } {
            Ok(library) => return Ok(Box::leak(Box::new(library))),
            Err(error) => {
                // What the loader says is the error's source.
                let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                first.get_or_insert(why);
            }
        }
    }
    Err(first.unwrap_or_else(|| "no name to look for".into()))
}
