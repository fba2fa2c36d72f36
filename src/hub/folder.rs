//! A folder given by its path: what can be told before anything in it is opened.

use std::path::Path;

use super::{cache, digest};
use crate::error::{Error, Result};

/// Refuses a clone without its large files, where git left a few lines of text in place of each.
pub(super) fn check(folder: &Path) -> Result<()> {
    let mut found = Vec::new();
    for (prefix, folder) in [("", folder.to_path_buf()), ("codec/", folder.join("codec"))] {
        let mut names = cache::entries(&folder);
        names.sort();
        found.extend(
            names
                .into_iter()
                .filter(|name| digest::is_pointer_file(&folder.join(name)))
                .map(|name| format!("`{prefix}{name}`")),
        );
    }
    if found.is_empty() {
        return Ok(());
    }
    let verb = if found.len() == 1 { "is a Git LFS pointer" } else { "are Git LFS pointers" };
    Err(Error::new(format!("`{}`: {} {verb}, not the real content", folder.display(), found.join(", ")))
        .hint("run `git lfs pull` in that folder, or give `ORG/NAME` and let it be downloaded"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pointers_are_named() {
        let folder = tempfile::tempdir().unwrap();
        check(folder.path()).unwrap();
        std::fs::create_dir(folder.path().join("codec")).unwrap();
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
        std::fs::write(folder.path().join("codec/model.safetensors"), pointer).unwrap();
        std::fs::write(folder.path().join("config.json"), "{}").unwrap();
        let error = check(folder.path()).unwrap_err();
        assert!(error.to_string().contains("`codec/model.safetensors` is a Git LFS pointer"), "{error}");
    }
}
