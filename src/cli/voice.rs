//! Voice and sampling flags, and the utterance they describe.

use clap::Args;

use crate::error::{Error, Result};
use crate::models::Utterance;
use crate::suggest::nearest;

/// Voice and sampling.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Voice and sampling")]
pub struct VoiceArgs {
    /// A speaker of the checkpoint [default: its first; list them with `rtts voices`]
    #[arg(long, value_name = "NAME")]
    pub voice: Option<String>,
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
            ..Utterance::default()
        }
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
