//! What a user may call a model: a folder, `ORG/NAME[@REVISION]`, or an alias.

use std::path::{Path, PathBuf};

use super::Hub;
use crate::error::{Error, Result};
use crate::suggest::nearest;

/// Short names every installation knows.
const BUILT_IN: [(&str, &str); 3] = [
    ("rumik", "rumik-ai/rumik-oss-1"),
    ("voxcpm2", "openbmb/VoxCPM2"),
    ("voxcpm2-nvfp4", "ShinePixelOrg/VoxCPM2-NVFP4"),
];

/// A model name, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A folder on this machine.
    Folder(PathBuf),
    /// A model on the hub.
    Repository(Repository),
}

/// A model on the hub, at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// `ORG/NAME`.
    pub id: String,
    /// A branch, a tag or a commit; `main` where none was given.
    pub revision: String,
}

/// Short names for models; the user's own come before the built-in ones.
#[derive(Clone, Debug)]
pub struct Aliases(Vec<(String, String)>);

impl Default for Aliases {
    fn default() -> Self {
        Self(BUILT_IN.iter().map(|(short, long)| (short.to_string(), long.to_string())).collect())
    }
}

impl Aliases {
    /// Adds a short name for `target` (`ORG/NAME[@REVISION]` or a folder), in place of one that is there already.
    pub fn add(&mut self, short: impl Into<String>, target: impl Into<String>) {
        self.0.insert(0, (short.into(), target.into()));
    }

    /// What `short` stands for; letter case does not matter.
    pub fn get(&self, short: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(short)).map(|(_, target)| target.as_str())
    }

    /// All short names and what they stand for.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(short, target)| (short.as_str(), target.as_str()))
    }
}

impl Name {
    /// Reads a model name. A folder that exists wins over an alias or a hub name of the same spelling.
    pub fn parse(text: &str, hub: &Hub) -> Result<Self> {
        let path = Path::new(text);
        if path.is_dir() {
            return Ok(Self::Folder(path.to_path_buf()));
        }
        if path.is_file() {
            return Err(Error::usage(format!("`{text}` is a file, not a model folder"))
                .hint("give the folder that holds `config.json` and the weights"));
        }
        if let Some((_, rest)) = text.split_once("://") {
            let id: Vec<&str> = rest.split('/').skip(1).take(2).collect();
            return Err(Error::usage(format!("`{text}` is an address, not a model name"))
                .hint(format!("write `{}`", if id.len() == 2 { id.join("/") } else { "ORG/NAME".to_string() })));
        }
        if looks_like_path(text) {
            return Err(Error::new(format!("there is no folder `{text}`"))
                .hint("check the path, or give `ORG/NAME` of a model on the hub"));
        }
        let (name, revision) = match text.split_once('@') {
            Some((name, revision)) => (name, Some(revision)),
            None => (text, None),
        };
        match hub.aliases.get(name) {
            Some(target) if looks_like_path(target) => folder(target, revision),
            Some(target) => {
                let (id, own) = target.split_once('@').unwrap_or((target, "main"));
                Repository::new(id, revision.unwrap_or(own)).map(Self::Repository)
            }
            None if name.contains('/') => Repository::new(name, revision.unwrap_or("main")).map(Self::Repository),
            None => Err(Error::usage(format!("no model is called `{text}`")).hint(cure(name, hub))),
        }
    }
}

impl Name {
    /// Checks that a short name may stand for `target`: a folder, or `ORG/NAME[@REVISION]`.
    ///
    /// # Errors
    /// What is neither.
    pub fn check_target(target: &str) -> Result<()> {
        if looks_like_path(target) {
            return Ok(());
        }
        let (id, revision) = target.split_once('@').unwrap_or((target, "main"));
        Repository::new(id, revision).map(drop)
    }
}

/// The folder that a short name stands for.
fn folder(path: &str, revision: Option<&str>) -> Result<Name> {
    if let Some(revision) = revision {
        return Err(Error::usage(format!("`{path}` is a folder and has no revision `{revision}`"))
            .hint(format!("leave out `@{revision}`")));
    }
    if Path::new(path).is_dir() {
        return Ok(Name::Folder(path.into()));
    }
    Err(Error::new(format!("there is no folder `{path}`")).hint("correct the alias in config.toml"))
}

impl Repository {
    /// A checked `ORG/NAME` and revision: they become parts of paths and addresses.
    pub fn new(id: &str, revision: &str) -> Result<Self> {
        let part = |part: &str| {
            !part.is_empty()
                && part.len() <= 96
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
                && !part.starts_with(['-', '.'])
                && !part.ends_with(['-', '.'])
                && !part.contains("--")
                && !part.contains("..")
        };
        let whole = id.split_once('/').is_some_and(|(org, name)| part(org) && part(name));
        if !whole {
            return Err(Error::usage(format!("`{id}` is not a model name of the hub"))
                .hint("write `ORG/NAME`, of letters, digits, `-`, `_` and `.`"));
        }
        let odd = |c: char| c.is_whitespace() || c.is_control() || "\\?#%*:[]^~&\"'<>|".contains(c);
        let step = |step: &str| step.is_empty() || step.starts_with('.') || step.contains("..");
        if revision.contains(odd) || revision.split('/').any(step) {
            return Err(
                Error::usage(format!("`{revision}` is not a revision")).hint("give a branch, a tag or a commit")
            );
        }
        Ok(Self { id: id.to_string(), revision: revision.to_string() })
    }

    /// The name as a user would write it.
    pub fn label(&self) -> String {
        match self.revision.as_str() {
            "main" => self.id.clone(),
            revision => format!("{}@{revision}", self.id),
        }
    }
}

fn looks_like_path(text: &str) -> bool {
    text.is_empty()
        || text.starts_with(['/', '.', '~'])
        || text.ends_with('/')
        || text.contains('\\')
        || text.split('@').next().unwrap_or(text).matches('/').count() > 1
}

/// The hint for an unknown name: the nearest known one, or all of them.
pub(super) fn cure(name: &str, hub: &Hub) -> String {
    match suggestion(name, hub) {
        Some(known) => format!("did you mean `{known}`?"),
        None => {
            let known: Vec<String> = hub.aliases.iter().map(|(short, _)| format!("`{short}`")).collect();
            format!("known are {}, `builtin`, a folder, or `ORG/NAME` of the hub", known.join(", "))
        }
    }
}

/// The alias, its target or the cached model whose name is nearest to `name`.
pub(super) fn suggestion(name: &str, hub: &Hub) -> Option<String> {
    let mut known: Vec<String> = vec!["builtin".to_string()];
    for (short, target) in hub.aliases.iter() {
        known.extend([short.to_string(), target.to_string()]);
    }
    known.extend(super::cache::repositories(hub));
    nearest(name, known.iter().map(String::as_str)).filter(|near| *near != name).map(str::to_string)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn hub(home: &Path) -> Hub {
        Hub::from_variables(false, |name| (name == "HF_HOME").then(|| home.as_os_str().to_os_string())).unwrap()
    }

    fn repository(id: &str, revision: &str) -> Name {
        Name::Repository(Repository { id: id.to_string(), revision: revision.to_string() })
    }

    #[test]
    fn every_form_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut hub = hub(folder.path());
        let text = folder.path().to_str().unwrap();
        assert_eq!(Name::parse(text, &hub).unwrap(), Name::Folder(folder.path().to_path_buf()));
        assert_eq!(Name::parse("a/b", &hub).unwrap(), repository("a/b", "main"));
        assert_eq!(Name::parse("a/b@refs/pr/1", &hub).unwrap(), repository("a/b", "refs/pr/1"));
        assert_eq!(Name::parse("VoxCPM2", &hub).unwrap(), repository("openbmb/VoxCPM2", "main"));
        assert_eq!(Name::parse("rumik@v1", &hub).unwrap(), repository("rumik-ai/rumik-oss-1", "v1"));
        hub.aliases.add("here", text);
        assert_eq!(Name::parse("Here", &hub).unwrap(), Name::Folder(folder.path().to_path_buf()));
        assert!(Name::parse("here@v1", &hub).unwrap_err().to_string().contains("no revision `v1`"));
        hub.aliases.add("gone", "/no/such");
        assert!(Name::parse("gone", &hub).unwrap_err().to_string().contains("no folder `/no/such`"));
        hub.aliases.add("rumik", "me/mine@v2");
        assert_eq!(Name::parse("rumik", &hub).unwrap(), repository("me/mine", "v2"));
    }

    #[test]
    fn wrong_names_lead_to_right_ones() {
        let folder = tempfile::tempdir().unwrap();
        let hub = hub(folder.path());
        let cure = |text: &str| Name::parse(text, &hub).unwrap_err().cure().unwrap().to_string();
        assert_eq!(cure("voxpcm2"), "did you mean `voxcpm2`?");
        assert_eq!(cure("rumk"), "did you mean `rumik`?");
        assert_eq!(cure("bultin"), "did you mean `builtin`?");
        assert!(cure("something").contains("`rumik`"));
        assert_eq!(cure("https://huggingface.co/a/b/tree/main"), "write `a/b`");
        for path in ["./no", "/no/such", "a/b/c", "~/x", "a/b/", ""] {
            assert!(Name::parse(path, &hub).unwrap_err().to_string().contains("no folder"), "{path}");
        }
        let file = folder.path().join("model.safetensors");
        std::fs::write(&file, "x").unwrap();
        assert!(Name::parse(file.to_str().unwrap(), &hub).unwrap_err().to_string().contains("is a file"));
    }

    #[test]
    fn names_cannot_leave_their_place() {
        for id in ["a/..", "../a", "a/b--c", "a/", "/b", "a/b c", "a/b%2f", "-a/b", "a/.b"] {
            assert!(Repository::new(id, "main").is_err(), "{id}");
        }
        for revision in ["", "../x", "a/../b", "a b", "a?b", "a%2e", "/a", "a\\b", ".hidden"] {
            assert!(Repository::new("a/b", revision).is_err(), "{revision}");
        }
    }
}
