//! `rtts voice`: voices to be kept.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::console::Console;
use super::saved::{self, Saved};
use super::settings::{MachineArgs, Settings};
use super::{Outcome, cast, open};
use crate::audio::read;
use crate::error::{Error, Result};
use crate::models::{Prompt, Role, Speaker};

/// Arguments of `rtts voice`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub struct VoiceCommand {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What can be done with voices.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Encode a recording once, for --voice
    Save(Save),
}

/// Arguments of `rtts voice save`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rtts voice save me.wav -o me -m voxcpm2        then: rtts say \"Hello\" --voice me -m voxcpm2
  rtts voice save me.flac -o ./me.safetensors    a file to take along
  rtts voice save me.mp3 -o me --prompt-text \"What I say in it.\"")]
pub struct Save {
    /// The recording: WAV, AIFF, FLAC, MP3, OGG Vorbis or M4A; 5 to 30 seconds of one clear voice are best
    #[arg(value_name = "AUDIO")]
    pub audio: PathBuf,
    /// A name, kept in the user's data folder, or a file ending in .safetensors
    #[arg(short, long, value_name = "NAME")]
    pub output: String,
    /// What is said in the recording, word for word
    ///
    /// With it speech continues the recording, which comes closest to the voice and keeps the manner too. Where --style
    /// asks for another manner, only the sound of the voice is used.
    #[arg(long, value_name = "TEXT", value_parser = super::voice::words)]
    pub prompt_text: Option<String>,
    /// Replace a voice of this name
    #[arg(long)]
    pub force: bool,
    /// Model and machine.
    #[command(flatten)]
    pub machine: MachineArgs,
}

#[derive(Serialize)]
struct Report<'a> {
    v: u32,
    voice: &'a str,
    file: PathBuf,
    seconds: f64,
    frames: usize,
}

/// Does what was asked for.
///
/// # Errors
/// Whatever stands in the way; what can be checked is checked before a model is loaded.
pub fn run(command: &VoiceCommand, offline: bool, console: &Console) -> Result<Outcome> {
    match &command.action {
        Action::Save(save) => save.run(offline, console),
    }
}

impl Save {
    fn run(&self, offline: bool, console: &Console) -> Result<Outcome> {
        let path = saved::path(&self.output)?;
        if !self.force && path.exists() {
            return Err(Error::usage(format!("`{}` is there already", path.display()))
                .hint("replace it with --force, or choose another name"));
        }
        if let Some(folder) = path.parent().filter(|_| !saved::is_path(&self.output)) {
            fs::create_dir_all(folder).map_err(|e| Error::io("cannot make the folder", folder, &e))?;
        }
        let recording = read::read(&self.audio)?;
        for remark in &recording.remarks {
            console.warn(format_args!("`{}`: {remark}", self.audio.display()));
        }
        let opened = open::open(Settings::resolve(&self.machine)?, offline, console)?;
        if !opened.clones() {
            return Err(
                Error::usage(format!("`{}` does not clone voices", opened.name)).hint("VoxCPM2 does: `-m voxcpm2`")
            );
        }
        let mut speaker = opened.load(1, console)?;
        let voice = self.encode(&recording, speaker.as_mut())?;
        voice.write(&path, self.force)?;
        let (seconds, frames) = (voice.seconds, voice.reference.values.len() / voice.reference.dim.max(1));
        if console.json() {
            console.object(&Report { v: 1, voice: &self.output, file: path, seconds, frames })?;
        } else {
            console.note(format_args!("`{}`: {seconds:.1} s; speak with it: --voice {}", path.display(), self.output));
        }
        Ok(Outcome::Done)
    }

    fn encode(&self, recording: &read::Recording, speaker: &mut dyn Speaker) -> Result<Saved> {
        let reference = Arc::new(cast::listen(recording, Role::Reference, speaker)?);
        let prompt = match &self.prompt_text {
            Some(text) => {
                let latents = Arc::new(cast::listen(recording, Role::Prompt, speaker)?);
                Some(Prompt { text: text.clone(), latents })
            }
            None => None,
        };
        let ear = speaker.ear().ok_or_else(|| Error::new("this model does not name what it hears with"))?;
        Ok(Saved { reference, prompt, ear, rate: recording.rate, seconds: recording.seconds() })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cli::fake::FakeSpeaker;
    use std::path::Path;

    #[test]
    fn a_recording_becomes_a_voice_in_both_roles() {
        let audio = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recordings/voice.mp3");
        let recording = read::read(&audio).unwrap();
        let save = |text: Option<&str>| Save {
            audio: audio.clone(),
            output: "x".into(),
            prompt_text: text.map(String::from),
            force: false,
            machine: MachineArgs::default(),
        };
        let voice = save(None).encode(&recording, &mut FakeSpeaker::listening(1)).unwrap();
        assert_eq!((voice.ear.as_str(), voice.rate, voice.prompt), ("fake ear", 22_050, None));
        let voice = save(Some("Words.")).encode(&recording, &mut FakeSpeaker::listening(1)).unwrap();
        let prompt = voice.prompt.unwrap();
        assert_eq!((prompt.text.as_str(), prompt.latents.values[1], voice.reference.values[1]), ("Words.", 1.0, 0.0));
        assert!(save(None).encode(&recording, &mut FakeSpeaker::new(1)).is_err());
    }
}
