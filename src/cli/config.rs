//! `config.toml`: what the user wants where neither the command line nor the environment says otherwise.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::hub::{Hub, Name};
use crate::suggest::nearest;

/// The keys that hold one value; each is also a variable `RTTS_…`.
pub const KEYS: [&str; 9] =
    ["model", "voice", "device", "activations", "threads", "format", "rate", "gap", "batch_size"];

/// The table of short names for models.
const ALIASES: &str = "aliases";

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The file's name in messages.
    pub place: String,
    /// Values by key, as they would stand on the command line.
    pub values: BTreeMap<&'static str, String>,
    /// Short names of models, and what they stand for.
    pub aliases: BTreeMap<String, String>,
}

/// A value, whose type is checked where it is used.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Whole(i64),
    Number(f64),
    Switch(bool),
}

impl Value {
    fn text(self) -> String {
        match self {
            Value::Text(text) => text,
            Value::Whole(number) => number.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Switch(on) => on.to_string(),
        }
    }
}

impl Config {
    /// The configuration of this user; one without a file is empty.
    ///
    /// # Errors
    /// A file that cannot be read or understood, or one that `RTTS_CONFIG` names and that is not there.
    pub fn load() -> Result<Self> {
        match Self::path() {
            Some((path, required)) => Self::read(&path, required),
            None => Ok(Self::default()),
        }
    }

    /// Where the file is, and whether it must be there; `None` where the user has no folder for it.
    pub fn path() -> Option<(PathBuf, bool)> {
        match std::env::var_os("RTTS_CONFIG").filter(|v| !v.is_empty()) {
            Some(path) => Some((path.into(), true)),
            None => dirs::config_dir().map(|folder| (folder.join("rtts").join("config.toml"), false)),
        }
    }

    fn read(path: &Path, required: bool) -> Result<Self> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound && !required => return Ok(Self::default()),
            Err(e) => {
                let error = Error::io("cannot read", path, &e);
                return Err(if required { error.hint("the variable `RTTS_CONFIG` names this file") } else { error });
            }
        };
        let text = crate::text::decode(&bytes, &path.to_string_lossy())?;
        Self::parse(&text, &path.display().to_string(), path.parent().unwrap_or(Path::new("")))
    }

    /// `folder` is where paths in the file begin.
    pub(super) fn parse(text: &str, place: &str, folder: &Path) -> Result<Self> {
        let line = |at: usize| 1 + text.bytes().take(at).filter(|b| *b == b'\n').count();
        let document = text.parse::<toml::Table>().map_err(|e| {
            let line = e.span().map_or(1, |span| line(span.start));
            Error::usage(format!("`{place}`, line {line}: {}", e.message().trim()))
                .hint("it is written in TOML, such as `voice = \"Ross\"`")
        })?;
        let mut config = Self { place: place.to_owned(), ..Self::default() };
        for (key, value) in document {
            if key == ALIASES {
                config.aliases = aliases(value, place, folder)?;
                continue;
            }
            let Some(known) = KEYS.into_iter().find(|known| *known == key) else {
                return Err(unknown(&key, place));
            };
            let value = Value::deserialize(value)
                .map_err(|_| Error::usage(format!("`{key}` in `{place}` needs one value, not a list or a table")))?;
            let text = value.text();
            config.values.insert(known, if known == "model" { located(text, folder) } else { text });
        }
        Ok(config)
    }

    /// What messages call `key` of this file.
    pub fn at(&self, key: &str) -> String {
        format!("`{key}` in `{}`", self.place)
    }

    /// The hub as the environment and this file describe it.
    ///
    /// # Errors
    /// A wrong variable, or an alias that can stand for nothing.
    pub fn hub(&self, offline: bool) -> Result<Hub> {
        let mut hub = Hub::from_env(offline)?;
        for (short, target) in &self.aliases {
            hub.aliases.add(short, target);
        }
        Ok(hub)
    }
}

fn unknown(key: &str, place: &str) -> Error {
    let known = KEYS.into_iter().chain([ALIASES]);
    let keys = format!("the keys are {} and [{ALIASES}]", KEYS.join(", "));
    Error::usage(format!("the key `{key}` in `{place}` is not known")).hint(
        match nearest(&key.replace('-', "_"), known) {
            Some(near) => format!("did you mean `{near}`? In all, {keys}"),
            None => keys,
        },
    )
}

fn aliases(table: toml::Value, place: &str, folder: &Path) -> Result<BTreeMap<String, String>> {
    let table = BTreeMap::<String, String>::deserialize(table).map_err(|_| {
        Error::usage(format!("`{ALIASES}` in `{place}` is no table of names"))
            .hint("write `[aliases]`, and below it a line for each, such as `deep = \"ORG/NAME\"`")
    })?;
    let check = |(short, target): (String, String)| {
        let at = format!("alias `{short}` in `{place}`");
        if short.is_empty() || short == crate::builtin::NAME || short.contains(['/', '\\', '@']) {
            return Err(Error::usage(format!("{at}: no model can be called that")).hint("take letters and digits"));
        }
        let target = located(target, folder);
        Name::check_target(&target).map_err(|e| e.at(at))?;
        Ok((short, target))
    };
    table.into_iter().map(check).collect()
}

/// A path that begins at home or in the folder of the file becomes one that holds anywhere; a hub name stays.
fn located(name: String, folder: &Path) -> String {
    let path: PathBuf = match name.strip_prefix("~/") {
        Some(rest) => dirs::home_dir().unwrap_or_default().join(rest),
        None if name.starts_with("./") || name.starts_with("../") => folder.join(&name),
        None => return name,
    };
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config> {
        Config::parse(text, "config.toml", Path::new("/etc/rtts"))
    }

    #[test]
    fn values_are_kept_as_words() {
        let config = parse("threads = 2\nvoice = \"Ira\"\nmodel = \"./deep\"\n[aliases]\nmy = \"a/b@v1\"\n").unwrap();
        assert_eq!(config.values["threads"], "2");
        assert_eq!(config.values["voice"], "Ira");
        assert_eq!(config.values["model"], "/etc/rtts/./deep");
        assert_eq!(config.aliases["my"], "a/b@v1");
        assert_eq!(config.at("voice"), "`voice` in `config.toml`");
    }

    #[test]
    fn what_is_wrong_is_named_with_the_cure() {
        for (text, what, cure) in [
            ("modle = \"a\"", "the key `modle` in `config.toml` is not known", "did you mean `model`?"),
            ("batch-size = 3", "`batch-size`", "did you mean `batch_size`?"),
            ("colour = 3", "`colour`", "the keys are model, voice"),
            ("a = 1\nb = = 2", "`config.toml`, line 2", "TOML"),
            ("[aliasses]\na = \"b/c\"", "`aliasses`", "did you mean `aliases`?"),
            ("aliases = 3", "`aliases` in `config.toml`", "[aliases]"),
            ("[aliases]\n\"a/b\" = \"c/d\"", "alias `a/b` in `config.toml`", "letters"),
            ("[aliases]\nbuiltin = \"c/d\"", "alias `builtin`", "letters"),
            ("[aliases]\nx = \"c\"", "alias `x` in `config.toml`: `c` is not a model name of the hub", "ORG/NAME"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().contains(what), "{text}: {error}");
            assert!(error.cure().unwrap().contains(cure), "{text}: {:?}", error.cure());
        }
        assert!(parse("model = [1, 2]").unwrap_err().to_string().contains("`model` in `config.toml`"));
    }

    #[test]
    fn only_a_file_that_was_asked_for_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let none = folder.path().join("none.toml");
        assert_eq!(Config::read(&none, false).unwrap(), Config::default());
        assert!(Config::read(&none, true).unwrap_err().cure().unwrap().contains("RTTS_CONFIG"));
    }

    #[test]
    fn aliases_reach_the_hub() {
        let hub = parse("[aliases]\nrumik = \"me/mine\"").unwrap().hub(true).unwrap();
        assert_eq!(hub.aliases.get("rumik"), Some("me/mine"));
    }
}
