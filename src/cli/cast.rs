//! Whose voice speaks: recordings and saved voices become what a model clones from.
//!
//! Files are looked at before a model is loaded, so that a useless one is refused at once; each is encoded once, however
//! many lines it speaks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::batch::plan::digest;
use super::console::Console;
use super::saved::{self, Saved};
use super::voice::known_voice;
use crate::audio::read::{self, Recording};
use crate::error::{Error, Result};
use crate::models::{Latents, Prompt, Role, Speaker, Utterance};

/// The files that a text is spoken with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// A voice that was saved.
    pub saved: Option<PathBuf>,
    /// A recording whose voice is taken.
    pub reference: Option<PathBuf>,
    /// A recording that is continued, and what is said in it.
    pub prompt: Option<(PathBuf, String)>,
}

impl Sources {
    /// Whether the model's own voice speaks.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A word for the voice, from the file's name.
    pub fn name(&self) -> Option<&str> {
        let path = self.saved.as_ref().or(self.reference.as_ref()).or(self.prompt.as_ref().map(|(path, _)| path))?;
        path.file_stem()?.to_str()
    }
}

/// What a model can do with an utterance's settings.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    /// Its own speakers.
    pub voices: &'a [String],
    /// It clones voices.
    pub clones: bool,
}

impl Model<'_> {
    /// Finds the voice that `like` names, among the model's own or the saved ones, and checks that the rest fits.
    ///
    /// # Errors
    /// A voice that is not there, or a setting that this model has no use for.
    pub fn fit(&self, like: &mut Utterance, sources: &mut Sources) -> Result<()> {
        if let Some(name) = like.voice.take() {
            match self.find(&name)? {
                Voice::Own(voice) => like.voice = Some(voice),
                Voice::Saved(_) if sources.reference.is_some() => {
                    return Err(Error::usage("`--voice` with a saved voice and `--reference` both say who speaks")
                        .hint("leave one of them out"));
                }
                Voice::Saved(path) => sources.saved = Some(path),
            }
        }
        let flags = [
            ("--reference", sources.reference.is_some()),
            ("--prompt-audio", sources.prompt.is_some()),
            ("--cfg", like.cfg.is_some()),
            ("--steps", like.solver_steps.is_some()),
        ];
        if let Some((flag, _)) = flags.iter().find(|(_, given)| *given && !self.clones) {
            return Err(Error::usage(format!("this model has no use for `{flag}`")).hint(CLONING));
        }
        if like.style.is_some() && sources.prompt.is_some() {
            return Err(Error::usage("`--style` does not go with `--prompt-audio`: it would be read aloud")
                .hint("leave --style out, or give the recording as --reference alone"));
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Result<Voice> {
        let own = known_voice(name, self.voices);
        if let Ok(voice) = own {
            return Ok(Voice::Own(voice.to_owned()));
        }
        let path = saved::path(name)?;
        if path.is_file() {
            return match self.clones {
                true => Ok(Voice::Saved(path)),
                false => Err(Error::usage(format!("`{name}` is a saved voice, and this model does not clone voices"))
                    .hint(CLONING)),
            };
        }
        if saved::is_path(name) {
            return Err(Error::usage(format!("there is no saved voice `{name}`"))
                .hint("`rtts voice save AUDIO -o FILE` makes one from a recording"));
        }
        if !self.voices.is_empty() {
            return own.map(|voice| Voice::Own(voice.to_owned()));
        }
        let names = saved::names();
        Err(Error::usage(format!("there is no saved voice `{name}`, and the model has none of its own")).hint(
            match names.is_empty() {
                true => format!("`rtts voice save AUDIO -o {name}` makes one from a recording"),
                false => format!("the saved voices are {}", names.join(", ")),
            },
        ))
    }
}

/// The cure where a model cannot clone.
const CLONING: &str = "VoxCPM2 clones voices: `-m voxcpm2`";

enum Voice {
    Own(String),
    Saved(PathBuf),
}

/// Recordings looked at and voices heard, so that none is read or encoded twice.
#[derive(Default)]
pub struct Cast {
    /// What stands for a file's content, or why it is of no use.
    digests: HashMap<PathBuf, Result<String>>,
    heard: HashMap<(PathBuf, bool), Result<Arc<Latents>>>,
    saved: HashMap<PathBuf, Arc<Saved>>,
}

impl Cast {
    /// Looks at all files of `sources`; what is returned stands for their content.
    ///
    /// # Errors
    /// A file that cannot be read or used.
    pub fn look(&mut self, sources: &Sources, console: &Console) -> Result<Option<String>> {
        if sources.is_empty() {
            return Ok(None);
        }
        let mut parts = Vec::new();
        if let Some(path) = &sources.saved {
            let bytes = read::bytes(path)?;
            self.saved.insert(path.clone(), Arc::new(Saved::read(path)?));
            parts.push(format!("saved {}", digest(&bytes, 32)));
        }
        if let Some(path) = &sources.reference {
            parts.push(format!("reference {}", self.digest(path, console)?));
        }
        if let Some((path, text)) = &sources.prompt {
            parts.push(format!("prompt {} {text}", self.digest(path, console)?));
        }
        Ok(Some(digest(parts.join("\n").as_bytes(), 32)))
    }

    fn digest(&mut self, path: &Path, console: &Console) -> Result<String> {
        let look = || {
            let bytes = read::bytes(path)?;
            let digest = digest(&bytes, 32);
            let recording = read::from_bytes(bytes, path)?;
            for remark in &recording.remarks {
                console.warn(format_args!("`{}`: {remark}", path.display()));
            }
            Ok(digest)
        };
        self.digests.entry(path.to_owned()).or_insert_with(look).clone()
    }

    /// Gives `like` the voices of `sources`, as `speaker` hears them.
    ///
    /// # Errors
    /// A voice that was saved with another model, and what the device can refuse.
    pub fn give(
        &mut self,
        sources: &Sources,
        like: &mut Utterance,
        speaker: &mut dyn Speaker,
        console: &Console,
    ) -> Result<()> {
        if let Some(path) = &sources.saved {
            let saved = match self.saved.get(path) {
                Some(saved) => Arc::clone(saved),
                None => Arc::new(Saved::read(path)?),
            };
            if speaker.ear().as_ref() != Some(&saved.ear) {
                return Err(Error::new(format!("`{}`: this voice was saved with another model", path.display()))
                    .hint("save it anew from its recording: `rtts voice save AUDIO -o NAME -m MODEL`"));
            }
            like.reference = Some(Arc::clone(&saved.reference));
            // A manner is not followed while a recording is continued; the voice alone can follow it.
            like.prompt = saved.prompt.clone().filter(|_| like.style.is_none());
        }
        if let Some(path) = &sources.reference {
            like.reference = Some(self.hear(path, Role::Reference, speaker, console)?);
        }
        if let Some((path, text)) = &sources.prompt {
            like.prompt =
                Some(Prompt { text: text.clone(), latents: self.hear(path, Role::Prompt, speaker, console)? });
        }
        Ok(())
    }

    fn hear(&mut self, path: &Path, role: Role, speaker: &mut dyn Speaker, console: &Console) -> Result<Arc<Latents>> {
        let hear = || {
            let recording = read::read(path)?;
            console.detail(1, format_args!("listening to `{}`, {:.1} s", path.display(), recording.seconds()));
            listen(&recording, role, speaker).map(Arc::new)
        };
        self.heard.entry((path.to_owned(), role == Role::Prompt)).or_insert_with(hear).clone()
    }
}

/// A recording as `speaker` hears it.
///
/// # Errors
/// A model that cannot listen, and what the device can refuse.
pub fn listen(recording: &Recording, role: Role, speaker: &mut dyn Speaker) -> Result<Latents> {
    let Some(rate) = speaker.listens_at() else {
        return Err(Error::usage("this model does not clone voices").hint(CLONING));
    };
    speaker.listen(&recording.at(rate), role)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cli::args::Global;
    use crate::cli::fake::FakeSpeaker;

    fn recording() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recordings/voice.wav")
    }

    fn console() -> Console {
        Console::new(&Global { quiet: true, ..Global::default() })
    }

    fn fit(clones: bool, like: &Utterance, sources: &Sources) -> Result<(Utterance, Sources)> {
        let voices = ["Ira", "Aisha"].map(String::from);
        let model = Model { voices: if clones { &[] } else { &voices }, clones };
        let (mut like, mut sources) = (like.clone(), sources.clone());
        model.fit(&mut like, &mut sources).map(|()| (like, sources))
    }

    fn refused<T: std::fmt::Debug>(result: Result<T>, parts: &[&str]) {
        let error = result.unwrap_err();
        let text = format!("{error} / {}", error.cure().unwrap_or_default());
        parts.iter().for_each(|part| assert!(text.contains(part), "`{part}` is missing in: {text}"));
    }

    #[test]
    fn settings_that_a_model_has_no_use_for_are_refused() {
        let (like, none) = (Utterance::default(), Sources::default());
        let reference = Sources { reference: Some(recording()), ..Sources::default() };
        let prompt = Sources { prompt: Some((recording(), "Words.".into())), ..Sources::default() };
        refused(fit(false, &like, &reference), &["`--reference`", "-m voxcpm2"]);
        refused(fit(false, &like, &prompt), &["`--prompt-audio`", "-m voxcpm2"]);
        refused(fit(false, &Utterance { cfg: Some(2.0), ..like.clone() }, &none), &["`--cfg`"]);
        refused(fit(false, &Utterance { solver_steps: Some(4), ..like.clone() }, &none), &["`--steps`"]);
        let styled = Utterance { style: Some("calm".into()), ..like.clone() };
        refused(fit(true, &styled, &prompt), &["`--style`", "--reference alone"]);
        assert!(fit(true, &styled, &reference).is_ok() && fit(true, &like, &prompt).is_ok());
        let named = |name: &str| Utterance { voice: Some(name.into()), ..Utterance::default() };
        assert_eq!(fit(false, &named("ira"), &none).unwrap().0.voice.as_deref(), Some("Ira"));
        refused(fit(false, &named("Asha"), &none), &["`Asha`", "did you mean `Aisha`"]);
        refused(
            fit(true, &named("./no.safetensors"), &none),
            &["no saved voice `./no.safetensors`", "rtts voice save"],
        );
        refused(fit(true, &named("no such voice"), &none), &["no saved voice `no such voice`"]);
    }

    #[test]
    fn a_recording_is_heard_once_for_each_of_its_roles() {
        let (mut cast, mut speaker, console) = (Cast::default(), FakeSpeaker::listening(1), console());
        let sources = Sources {
            reference: Some(recording()),
            prompt: Some((recording(), "Words.".into())),
            ..Sources::default()
        };
        let digest = cast.look(&sources, &console).unwrap();
        assert!(digest.is_some() && digest == cast.look(&sources, &console).unwrap());
        for _ in 0..3 {
            let mut like = Utterance::default();
            cast.give(&sources, &mut like, &mut speaker, &console).unwrap();
            // 0.8 seconds at 16 kHz, as the fake hears them.
            assert_eq!(like.reference.unwrap().values, [0.08, 0.0]);
            assert_eq!(like.prompt.unwrap().latents.values, [0.08, 1.0]);
        }
        assert_eq!(speaker.listened, 2);
        refused(
            cast.look(&Sources { reference: Some("none.wav".into()), ..Sources::default() }, &console),
            &["none.wav"],
        );
    }

    #[test]
    fn a_saved_voice_speaks_with_its_own_model_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("anna.safetensors");
        let latents = |x: f32| Arc::new(Latents { values: vec![x, 0.0], dim: 2 });
        let prompt = Some(Prompt { text: "Words.".into(), latents: latents(0.3) });
        let mut voice = Saved { reference: latents(0.2), prompt, ear: "fake ear".into(), rate: 8_000, seconds: 1.0 };
        voice.write(&path, false).unwrap();
        let (mut cast, mut speaker, console) = (Cast::default(), FakeSpeaker::listening(1), console());
        let named = Utterance { voice: Some(path.to_str().unwrap().into()), ..Utterance::default() };
        let (mut like, sources) = fit(true, &named, &Sources::default()).unwrap();
        assert_eq!((like.voice.as_deref(), sources.name()), (None, Some("anna")));
        assert!(cast.look(&sources, &console).unwrap().is_some());
        cast.give(&sources, &mut like, &mut speaker, &console).unwrap();
        assert_eq!((like.reference.unwrap(), like.prompt.unwrap().text), (latents(0.2), "Words.".to_owned()));
        // A manner is for the voice alone.
        let mut styled = Utterance { style: Some("calm".into()), ..Utterance::default() };
        cast.give(&sources, &mut styled, &mut speaker, &console).unwrap();
        assert!(styled.reference.is_some() && styled.prompt.is_none());
        refused(fit(false, &named, &Sources::default()), &["saved voice", "does not clone", "-m voxcpm2"]);
        let reference = Sources { reference: Some(recording()), ..Sources::default() };
        refused(fit(true, &named, &reference), &["both say who speaks"]);
        voice.ear = "another ear".into();
        voice.write(&path, true).unwrap();
        let mut cast = Cast::default();
        refused(
            cast.give(&sources, &mut Utterance::default(), &mut speaker, &console),
            &["another model", "save it anew"],
        );
    }
}
