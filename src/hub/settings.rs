//! Where the hub, its cache and its token are: the environment variables of Python's `huggingface_hub`.
//!
//! Source: `huggingface_hub/constants.py` and `utils/_auth.py` (2.4.0). Empty variables count as unset.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::name::Aliases;
use crate::error::{Error, Result};

/// The hub that is used where `HF_ENDPOINT` names no other.
const ENDPOINT: &str = "https://huggingface.co";

/// Everything the hub room must know about its surroundings.
#[derive(Clone, Debug)]
pub struct Hub {
    /// `HF_HOME`: where Hugging Face tools keep what they keep.
    pub home: PathBuf,
    /// `HF_HUB_CACHE`: the folder that holds `models--ORG--NAME`.
    pub cache: PathBuf,
    /// `HF_ENDPOINT`, without a slash at its end.
    pub endpoint: String,
    /// `HF_TOKEN`, or what the token file holds.
    pub token: Option<Token>,
    /// `HF_HUB_OFFLINE` or `--offline`: never use the network.
    pub offline: bool,
    /// Short names for models.
    pub aliases: Aliases,
    /// How long to wait and how often to try.
    pub patience: Patience,
}

/// A hub token and where it was found. Its value is never shown.
#[derive(Clone)]
pub struct Token {
    value: String,
    origin: String,
}

/// How long to wait and how often to try.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Tries for one file before giving up; a try that got further does not count.
    pub tries: u32,
    /// The pause after the first failure; it doubles with every further one.
    pub pause: Duration,
    /// For a connection to open.
    pub connect: Duration,
    /// For the next bytes of an answer.
    pub stall: Duration,
    /// For another process that holds a download and makes no progress.
    pub lock: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            tries: 5,
            pause: Duration::from_millis(500),
            connect: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            lock: Duration::from_secs(120),
        }
    }
}

impl Hub {
    /// The settings of this process's environment; `offline` is the command line's word on the network.
    pub fn from_env(offline: bool) -> Result<Self> {
        Self::from_variables(offline, |name| std::env::var_os(name))
    }

    /// The settings that `variable` gives, in place of the environment.
    pub fn from_variables(offline: bool, variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| set(name).map(|value| value.to_string_lossy().trim().to_string());
        let folder = |name: &str| set(name).map(|value| expand(&value.to_string_lossy(), &set));

        let home = match folder("HF_HOME") {
            Some(home) => home,
            None => match set("XDG_CACHE_HOME") {
                Some(base) => PathBuf::from(base).join("huggingface"),
                None => user_home(&set)?.join(".cache").join("huggingface"),
            },
        };
        let home = absolute(home);
        let cache = folder("HF_HUB_CACHE")
            .or_else(|| folder("HUGGINGFACE_HUB_CACHE"))
            .map_or_else(|| home.join("hub"), absolute);
        let endpoint = endpoint(text("HF_ENDPOINT"))?;
        let token = token(&text, folder("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token")))?;
        let offline = offline || yes(text("HF_HUB_OFFLINE").or_else(|| text("TRANSFORMERS_OFFLINE")));
        Ok(Self { home, cache, endpoint, token, offline, aliases: Aliases::default(), patience: Patience::default() })
    }
}

impl Token {
    /// A token and the words for where it comes from; refused where it cannot stand in a request.
    pub fn new(value: &str, origin: impl Into<String>) -> Result<Self> {
        let origin = origin.into();
        if value.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(Error::new(format!("the hub token from {origin} holds blanks or characters outside ASCII"))
                .hint("set it again, exactly as the hub shows it"));
        }
        Ok(Self { value: value.to_string(), origin })
    }

    /// The secret itself.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Where it was found: `HF_TOKEN`, or the path of a file.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(from {})", self.origin)
    }
}

fn endpoint(given: Option<String>) -> Result<String> {
    let endpoint = given.unwrap_or_else(|| ENDPOINT.to_string());
    if !(endpoint.starts_with("http://") || endpoint.starts_with("https://")) {
        return Err(Error::new(format!("`HF_ENDPOINT` is `{endpoint}`: not an http address"))
            .hint(format!("write it like `{ENDPOINT}`")));
    }
    Ok(endpoint.trim_end_matches('/').to_string())
}

fn token(text: &impl Fn(&str) -> Option<String>, file: PathBuf) -> Result<Option<Token>> {
    for name in ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"] {
        if let Some(value) = text(name).filter(|value| !value.is_empty()) {
            return Token::new(&value, format!("`{name}`")).map(Some);
        }
    }
    if yes(text("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
        return Ok(None);
    }
    match std::fs::read_to_string(&file) {
        Ok(value) if value.trim().is_empty() => Ok(None),
        Ok(value) => Token::new(value.trim(), format!("`{}`", file.display())).map(Some),
        // A token file that cannot be read is as good as none: public models need no token, and for the others the
        // hub's refusal leads the user to it.
        Err(_) => Ok(None),
    }
}

/// What Python takes for true.
fn yes(value: Option<String>) -> bool {
    value.is_some_and(|value| ["1", "ON", "YES", "TRUE"].contains(&value.to_uppercase().as_str()))
}

fn user_home(set: &impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    set("HOME").map(PathBuf::from).or_else(dirs::home_dir).ok_or_else(|| {
        Error::new("cannot tell where the model cache is: there is no home folder")
            .hint("set `HF_HOME` to a folder for it")
    })
}

/// `~`, `$NAME` and `${NAME}` as Python's `expanduser` and `expandvars` read them; unknown names stay as they are.
fn expand(path: &str, set: &impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let path = match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => match user_home(set) {
            Ok(home) => format!("{}{rest}", home.display()),
            Err(_) => path.to_string(),
        },
        _ => path.to_string(),
    };
    let mut out = String::new();
    let mut rest = path.as_str();
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, whole) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, _)) => (name, name.len() + 2),
            None => {
                let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
                (&after[..end], end)
            }
        };
        match set(name).filter(|_| !name.is_empty()) {
            Some(value) => out.push_str(&value.to_string_lossy()),
            None => out.push_str(&rest[at..at + 1 + whole]),
        }
        rest = &after[whole..];
    }
    out.push_str(rest);
    PathBuf::from(out)
}

fn absolute(path: impl AsRef<Path>) -> PathBuf {
    std::path::absolute(path.as_ref()).unwrap_or_else(|_| path.as_ref().to_path_buf())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn hub(pairs: &[(&str, &str)]) -> Result<Hub> {
        Hub::from_variables(false, |name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn folders_follow_python() {
        let at = |pairs: &[(&str, &str)]| hub(pairs).unwrap().cache;
        assert_eq!(at(&[("HOME", "/h")]), Path::new("/h/.cache/huggingface/hub"));
        assert_eq!(at(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), Path::new("/x/huggingface/hub"));
        assert_eq!(at(&[("HF_HOME", "/a")]), Path::new("/a/hub"));
        assert_eq!(at(&[("HF_HOME", "/a"), ("HUGGINGFACE_HUB_CACHE", "/b")]), Path::new("/b"));
        assert_eq!(at(&[("HF_HOME", "/a"), ("HUGGINGFACE_HUB_CACHE", "/b"), ("HF_HUB_CACHE", "/c")]), Path::new("/c"));
        assert_eq!(at(&[("HF_HOME", ""), ("HOME", "/h")]), Path::new("/h/.cache/huggingface/hub"));
        assert_eq!(
            at(&[("HOME", "/h"), ("D", "data"), ("HF_HUB_CACHE", "~/$D/${D}x/$NO")]),
            Path::new("/h/data/datax/$NO")
        );
    }

    #[test]
    fn endpoint_with_or_without_a_slash() {
        let at = |value: &str| hub(&[("HF_HOME", "/a"), ("HF_ENDPOINT", value)]).map(|hub| hub.endpoint);
        assert_eq!(at("").unwrap(), "https://huggingface.co");
        assert_eq!(at("http://mirror/").unwrap(), "http://mirror");
        assert_eq!(at("http://mirror:8/x").unwrap(), "http://mirror:8/x");
        assert!(at("mirror").unwrap_err().to_string().contains("`mirror`"));
    }

    #[test]
    fn token_from_variable_then_file() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        assert!(hub(&[("HF_HOME", home)]).unwrap().token.is_none());
        std::fs::write(folder.path().join("token"), "hf_file\n").unwrap();
        let token = hub(&[("HF_HOME", home)]).unwrap().token.unwrap();
        assert_eq!(token.value(), "hf_file");
        assert!(token.origin().contains("token"));
        let token = hub(&[("HF_HOME", home), ("HF_TOKEN", " hf_env\n")]).unwrap().token.unwrap();
        assert_eq!(token.value(), "hf_env");
        assert!(!format!("{token:?}").contains("hf_env"), "a token must not reach a log");
        let other = folder.path().join("other");
        std::fs::write(&other, "hf_other").unwrap();
        let token = hub(&[("HF_HOME", home), ("HF_TOKEN_PATH", other.to_str().unwrap())]).unwrap().token.unwrap();
        assert_eq!(token.value(), "hf_other");
        assert!(hub(&[("HF_HOME", home), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]).unwrap().token.is_none());
        let error = hub(&[("HF_HOME", home), ("HF_TOKEN", "two words")]).unwrap_err();
        assert!(error.to_string().contains("`HF_TOKEN`") && !error.to_string().contains("two words"));
    }

    #[test]
    fn offline_reads_pythons_truths() {
        for (value, offline) in [("1", true), ("true", true), ("Yes", true), ("0", false), ("no", false), ("", false)] {
            assert_eq!(hub(&[("HF_HOME", "/a"), ("HF_HUB_OFFLINE", value)]).unwrap().offline, offline, "{value}");
        }
        assert!(Hub::from_variables(true, |name| (name == "HF_HOME").then(|| "/a".into())).unwrap().offline);
    }
}
