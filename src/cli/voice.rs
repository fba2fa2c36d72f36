//! Voice and sampling flags, and the utterance they describe.

use std::path::PathBuf;

use clap::Args;

use super::cast::Sources;
use crate::error::{Error, Result};
use crate::models::Utterance;
use crate::suggest::nearest;

/// Voice and sampling.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Voice and sampling")]
pub struct VoiceArgs {
    /// A speaker of the checkpoint [default: its first], or a voice saved by `rtts voice save`
    ///
    /// `rtts voices` lists both. A saved voice may be named by its file too.
    #[arg(long, value_name = "NAME|FILE")]
    pub voice: Option<String>,
    /// Clone the voice of this recording (VoxCPM2)
    ///
    /// WAV, AIFF, FLAC, MP3, OGG Vorbis or M4A of any rate; 5 to 30 seconds of one clear voice are best. Clone only
    /// voices that you may use.
    #[arg(long, value_name = "AUDIO")]
    pub reference: Option<PathBuf>,
    /// Continue this recording, of which --prompt-text gives the words (VoxCPM2)
    ///
    /// Keeps voice, manner and room. Together with --reference, with the same recording or another, it is closest.
    #[arg(long, value_name = "AUDIO", requires = "prompt_text")]
    pub prompt_audio: Option<PathBuf>,
    /// What is said in --prompt-audio, word for word
    #[arg(long, value_name = "TEXT", requires = "prompt_audio", value_parser = words)]
    pub prompt_text: Option<String>,
    /// Delivery in words, for example "happy, Hindi accent, steady pace"
    #[arg(long, value_name = "TEXT")]
    pub style: Option<String>,
    /// Where all randomness comes from [default: drawn, and reported]
    ///
    /// The same seed gives the same bytes, alone or in a batch.
    #[arg(long, value_name = "N", value_parser = seed, allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Sampling temperature; 0 = always the likeliest [default: the model's]
    #[arg(long, value_name = "T", value_parser = temperature, allow_negative_numbers = true)]
    pub temperature: Option<f32>,
    /// How many of the likeliest tokens stay in the draw; 0 = all [default: the model's]
    #[arg(long, value_name = "K", value_parser = top_k, allow_negative_numbers = true)]
    pub top_k: Option<usize>,
    /// Hard limit of one utterance, in seconds [default: the model's]
    ///
    /// An utterance that reaches it is cut, and the cut is reported; inside a longer text a short fade follows it.
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub max_seconds: Option<f32>,
    /// How closely text and voice are followed (VoxCPM2) [default: 2.0]
    ///
    /// Classifier-free guidance. 1 is none; between 1.5 and 3 is usual, and lower is calmer.
    #[arg(long, value_name = "X", value_parser = cfg, allow_negative_numbers = true)]
    pub cfg: Option<f32>,
    /// Steps of the solver for each sixth of a second (VoxCPM2) [default: 10]
    ///
    /// More is finer and slower; 4 to 30 is usual.
    #[arg(long, value_name = "N", value_parser = steps, allow_negative_numbers = true)]
    pub steps: Option<usize>,
}

impl VoiceArgs {
    /// An utterance with these settings, without text and seed.
    pub fn utterance(&self) -> Utterance {
        Utterance {
            text: String::new(),
            voice: self.voice.clone(),
            style: self.style.clone(),
            seed: 0,
            temperature: self.temperature,
            top_k: self.top_k,
            max_seconds: self.max_seconds,
            cfg: self.cfg,
            solver_steps: self.steps,
            ..Utterance::default()
        }
    }
}

impl VoiceArgs {
    /// The recordings these settings name.
    pub fn sources(&self) -> Sources {
        let prompt = self.prompt_audio.clone().zip(self.prompt_text.clone());
        Sources { saved: None, reference: self.reference.clone(), prompt }
    }

    /// Whether they say who speaks.
    pub fn names_voice(&self) -> bool {
        self.voice.is_some() || !self.sources().is_empty()
    }
}

/// Checks a voice name against the speakers of a model and gives it as the model spells it.
///
/// # Errors
/// An unknown name, with the nearest known one.
pub fn known_voice<'a>(name: &str, voices: &'a [String]) -> Result<&'a str> {
    if let Some(voice) = voices.iter().find(|v| v.to_lowercase() == name.to_lowercase()) {
        return Ok(voice);
    }
    let error = Error::usage(format!("the model has no voice `{name}`"));
    Err(match nearest(name, voices.iter().map(String::as_str)) {
        Some(near) => error.hint(format!("did you mean `{near}`? The voices are {}", voices.join(", "))),
        None => error.hint(format!("the voices are {}", voices.join(", "))),
    })
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a whole number from 0 to {} is needed", u64::MAX))
}

fn top_k(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "a whole number from 0 up is needed, for example 50".into())
}

/// The words of a recording, as the command line and lists take them.
///
/// # Errors
/// No words.
pub fn words(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("the words of the recording are needed".into()),
        // A space at the end is part of what the speech follows.
        _ => Ok(text.to_owned()),
    }
}

/// A strength of guidance as the command line and lists take it.
///
/// # Errors
/// What is no number from 0 to 10.
pub fn cfg(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(x) if (0.0..=10.0).contains(&x) => Ok(x),
        _ => Err("a number from 0 to 10 is needed, for example 2.0".into()),
    }
}

/// Solver steps as the command line and lists take them.
///
/// # Errors
/// What is no whole number from 2 to 100.
pub fn steps(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 2..=100) => Ok(n),
        _ => Err("a whole number from 2 to 100 is needed, for example 10".into()),
    }
}

/// A temperature as the command line and lists take it.
///
/// # Errors
/// What is no number from 0 up.
pub fn temperature(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(t) if t.is_finite() && t >= 0.0 => Ok(t),
        _ => Err("a number from 0 up is needed, for example 0.8".into()),
    }
}

/// A length in seconds as the command line and lists take it.
///
/// # Errors
/// What is no number above 0.
pub fn seconds(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(s) if s.is_finite() && s > 0.0 => Ok(s),
        _ => Err("a number above 0 is needed, for example 12.5".into()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn voices_are_matched_and_suggested() {
        let voices: Vec<String> = ["Ira", "Aisha"].map(String::from).into();
        assert_eq!(known_voice("ira", &voices).unwrap(), "Ira");
        let error = known_voice("Asha", &voices).unwrap_err();
        assert!(error.to_string().contains("`Asha`"));
        assert!(error.cure().unwrap().contains("did you mean `Aisha`"));
        assert!(!known_voice("Bartholomew", &voices).unwrap_err().cure().unwrap().contains("did you mean"));
    }

    #[test]
    fn numbers_are_checked() {
        assert_eq!(temperature("0"), Ok(0.0));
        assert!(temperature("-1").is_err() && temperature("nan").is_err() && temperature("inf").is_err());
        assert_eq!(seconds("1.6"), Ok(1.6));
        assert!(seconds("0").is_err() && seconds("-3").is_err() && seconds("x").is_err());
    }
}
