//! Saved voices: a recording in the codec's numbers, in a small safetensors file, so that it is encoded once.
//!
//! | in the file | meaning |
//! |---|---|
//! | `reference` F32 `[frames, D]` | the recording as a voice to speak with |
//! | `prompt` F32 `[frames, D]` | the recording as something to continue; only beside `prompt_text` |
//! | metadata `format`, `ear` | `rtts-voice-1`, and what encoded it: another model cannot use it |
//! | metadata `rate`, `seconds`, `prompt_text` | of the recording |

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{MAIN_SEPARATOR, Path, PathBuf};
use std::sync::Arc;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::audio::temporary;
use crate::error::{Error, Result};
use crate::models::{Latents, Prompt};

/// The value of `format`, with the version of the layout.
const FORMAT: &str = "rtts-voice-1";
/// How the files' names end.
const ENDING: &str = "safetensors";
/// Far more than a voice needs; anything larger is another file.
const LARGEST: u64 = 64 << 20;

/// A voice that was saved.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// The recording as a voice.
    pub reference: Arc<Latents>,
    /// The recording to be continued, where what it says is known.
    pub prompt: Option<Prompt>,
    /// Names what encoded it.
    pub ear: String,
    /// The recording's own rate.
    pub rate: u32,
    /// The recording's length.
    pub seconds: f64,
}

/// Whether `name` is meant as a file rather than as a voice in the user's folder.
pub fn is_path(name: &str) -> bool {
    name.contains(['/', MAIN_SEPARATOR]) || Path::new(name).extension().is_some_and(|ending| ending == ENDING)
}

/// The user's folder of voices.
///
/// # Errors
/// A machine that knows no such folder.
pub fn folder() -> Result<PathBuf> {
    let data = dirs::data_dir().ok_or_else(|| {
        Error::new("there is no folder for the user's data").hint("set HOME, or name a file: `-o ./NAME.safetensors`")
    })?;
    Ok(data.join("rtts").join("voices"))
}

/// Where the voice `name` is, or would be.
///
/// # Errors
/// A name that cannot be a file's, or no folder for it.
pub fn path(name: &str) -> Result<PathBuf> {
    if is_path(name) {
        return Ok(PathBuf::from(name));
    }
    if name.trim().is_empty() || name.starts_with('.') {
        return Err(Error::usage(format!("`{name}` is no name for a voice")).hint("use letters, digits and `-`"));
    }
    Ok(folder()?.join(format!("{name}.{ENDING}")))
}

/// The names of the saved voices, sorted; none where the folder is not there.
pub fn names() -> Vec<String> {
    let entries = folder().ok().and_then(|folder| fs::read_dir(folder).ok());
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let voices = paths.filter(|path| path.extension().is_some_and(|ending| ending == ENDING));
    let mut names: Vec<String> = voices.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

impl Saved {
    /// Writes it to `path`, whole or not at all; one that is there is replaced only with `force`.
    ///
    /// # Errors
    /// A file that is there, or cannot be written.
    pub fn write(&self, path: &Path, force: bool) -> Result<()> {
        let failed = |e: io::Error| Error::io("cannot write", path, &e);
        let there = || {
            Error::usage(format!("`{}` is there already", path.display()))
                .hint("replace it with --force, or choose another name")
        };
        if !force && path.exists() {
            return Err(there());
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let bytes = self.bytes().map_err(|why| Error::new(format!("cannot write `{}`: {why}", path.display())))?;
        let (mut file, _listed) = temporary::create(folder).map_err(failed)?;
        file.write_all(&bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        match if force { file.persist(path) } else { file.persist_noclobber(path) } {
            Ok(_) => Ok(()),
            Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Err(there()),
            Err(e) => Err(failed(e.error)),
        }
    }

    fn bytes(&self) -> Result<Vec<u8>, safetensors::SafeTensorError> {
        let mut metadata = HashMap::from([
            ("format".to_owned(), FORMAT.to_owned()),
            ("ear".to_owned(), self.ear.clone()),
            ("rate".to_owned(), self.rate.to_string()),
            ("seconds".to_owned(), format!("{:.3}", self.seconds)),
        ]);
        let raw = |latents: &Latents| latents.values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let mut parts = vec![("reference", Arc::clone(&self.reference), raw(&self.reference))];
        if let Some(prompt) = &self.prompt {
            metadata.insert("prompt_text".to_owned(), prompt.text.clone());
            parts.push(("prompt", Arc::clone(&prompt.latents), raw(&prompt.latents)));
        }
        let views = parts.iter().map(|(name, latents, bytes)| {
            let shape = vec![latents.values.len() / latents.dim.max(1), latents.dim];
            Ok((*name, TensorView::new(Dtype::F32, shape, bytes)?))
        });
        let views: Vec<_> = views.collect::<Result<_, safetensors::SafeTensorError>>()?;
        safetensors::serialize(views, Some(metadata))
    }

    /// Reads the voice in `path`.
    ///
    /// # Errors
    /// A file that cannot be read, or is no saved voice.
    pub fn read(path: &Path) -> Result<Self> {
        let size = fs::metadata(path).map_err(|e| Error::io("cannot read", path, &e))?.len();
        let other = |why: &str| {
            Error::new(format!("`{}`: this is no saved voice: {why}", path.display()))
                .hint("`rtts voice save AUDIO -o NAME` makes one; a recording itself is given with --reference")
        };
        if size > LARGEST {
            return Err(other("it is far too large"));
        }
        let bytes = fs::read(path).map_err(|e| Error::io("cannot read", path, &e))?;
        Self::parse(&bytes).map_err(|why| other(&why))
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let (_, header) =
            SafeTensors::read_metadata(bytes).map_err(|_| "it is no whole safetensors file".to_owned())?;
        let metadata = header.metadata().clone().unwrap_or_default();
        match metadata.get("format").map(String::as_str) {
            Some(FORMAT) => {}
            Some(format) if format.starts_with("rtts-voice") => {
                return Err(format!("its format is `{format}`, of another version of rtts"));
            }
            _ => return Err("it holds something else".into()),
        }
        let said = |key: &str| metadata.get(key).ok_or_else(|| format!("it does not tell its `{key}`"));
        let tensors = SafeTensors::deserialize(bytes).map_err(|_| "it is no whole safetensors file".to_owned())?;
        let prompt = match metadata.get("prompt_text") {
            Some(text) => Some(Prompt { text: text.clone(), latents: Arc::new(latents(&tensors, "prompt")?) }),
            None => None,
        };
        Ok(Self {
            reference: Arc::new(latents(&tensors, "reference")?),
            prompt,
            ear: said("ear")?.clone(),
            rate: said("rate")?.parse().map_err(|_| "its `rate` is no number".to_owned())?,
            seconds: said("seconds")?.parse().map_err(|_| "its `seconds` is no number".to_owned())?,
        })
    }
}

/// One tensor of the file.
fn latents(tensors: &SafeTensors<'_>, name: &str) -> Result<Latents, String> {
    let tensor = tensors.tensor(name).map_err(|_| format!("it lacks its tensor `{name}`"))?;
    let &[frames, dim] = tensor.shape() else { return Err(format!("its tensor `{name}` has no frames")) };
    if tensor.dtype() != Dtype::F32 || frames == 0 || dim == 0 {
        return Err(format!("its tensor `{name}` is not what it should be"));
    }
    let number = |bytes: &[u8]| bytes.try_into().map(f32::from_le_bytes).unwrap_or(f32::NAN);
    let values: Vec<f32> = tensor.data().chunks_exact(4).map(number).collect();
    if values.iter().any(|x| !x.is_finite()) {
        return Err(format!("its tensor `{name}` holds what is no number"));
    }
    Ok(Latents { values, dim })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn voice(text: Option<&str>) -> Saved {
        let latents = |from: f32| Arc::new(Latents { values: (0..12).map(|i| from + i as f32).collect(), dim: 4 });
        let prompt = text.map(|text| Prompt { text: text.into(), latents: latents(-3.5) });
        Saved { reference: latents(0.25), prompt, ear: "an ear".into(), rate: 44_100, seconds: 7.25 }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        for text in [None, Some("你好, \"you\"")] {
            voice(text).write(&path, true).unwrap();
            assert_eq!(Saved::read(&path).unwrap(), voice(text));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_voice_is_not_replaced_by_accident() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        voice(None).write(&path, false).unwrap();
        let error = voice(Some("b")).write(&path, false).unwrap_err();
        assert!(error.to_string().contains("there already") && error.cure().unwrap().contains("--force"), "{error}");
        assert_eq!(Saved::read(&path).unwrap(), voice(None));
        assert!(voice(None).write(Path::new("/no/such/folder/a.safetensors"), false).is_err());
    }

    #[test]
    fn other_files_are_explained() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            Saved::read(&path).unwrap_err().to_string()
        };
        let whole = voice(Some("text")).bytes().unwrap();
        assert!(read(b"").contains("no whole safetensors"));
        assert!(read(b"RIFF....WAVEfmt ").contains("no saved voice"));
        assert!(read(&whole[..whole.len() - 1]).contains("no whole safetensors"));
        let renamed = |from: &str, to: &str| {
            let at = whole.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
            let mut bytes = whole.clone();
            bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
            bytes
        };
        assert!(read(&renamed("rtts-voice-1", "rtts-voice-9")).contains("another version"));
        assert!(read(&renamed("rtts-voice-1", "some-model-1")).contains("something else"));
        assert!(read(&renamed("\"reference\"", "\"referents\"")).contains("`reference`"));
        let mut holed = whole.clone();
        let end = holed.len();
        holed[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
        assert!(read(&holed).contains("no number"));
        assert!(Saved::read(Path::new("/no/such/voice.safetensors")).unwrap_err().to_string().contains("cannot read"));
    }

    #[test]
    fn names_and_paths() {
        assert!(
            is_path("./anna")
                && is_path("a/b")
                && is_path("anna.safetensors")
                && !is_path("anna")
                && !is_path("Dr. No")
        );
        assert_eq!(path("a/b").unwrap(), Path::new("a/b"));
        assert!(path("").is_err() && path(".hidden").is_err());
    }
}
