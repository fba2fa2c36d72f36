//! Guards against what a model does wrong now and then: it loses its way, or trails off in silence.

use clap::Args;

use super::speak::{Manner, Told};
use crate::models::{Speaker, Stop};

/// How often an utterance is tried again where nobody says.
const USUAL_RETRIES: usize = 2;

/// Guards.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Voice and sampling")]
pub struct Guards {
    /// How often an utterance that runs away is tried again, each time with the next seed [default: 2 for files, 0 for pipes and --play]
    ///
    /// A model can lose its way and speak on far beyond the text. With N above 0 an utterance is heard when it is whole,
    /// which takes the life out of --play. What was done is reported.
    #[arg(long, value_name = "N", value_parser = retries, allow_negative_numbers = true)]
    pub retry: Option<usize>,
    /// Leave the silence that a model adds after the last word
    #[arg(long)]
    pub no_trim: bool,
}

impl Guards {
    /// How `speaker` speaks; `offline` where nobody hears it before it is whole.
    pub fn manner(&self, speaker: &dyn Speaker, offline: bool) -> Manner {
        let usual = if offline { USUAL_RETRIES } else { 0 };
        Manner { retries: self.retry.unwrap_or(usual), trim: speaker.trails_off() && !self.no_trim }
    }
}

fn retries(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 0..=20) => Ok(count),
        _ => Err("a number from 0 to 20 is needed".into()),
    }
}

/// Why an utterance was cut, for people.
pub fn cut(stop: Stop) -> String {
    let name = stop.name();
    match stop {
        Stop::Runaway => format!(
            "ran on far beyond its text and was cut (stop: {name}); another --seed, shorter sentences or a lower --cfg may help"
        ),
        _ => format!("reached the longest length and was cut (stop: {name})"),
    }
}

/// What the guards did, for people.
pub fn acted(told: &Told, rate: u32) -> Option<String> {
    let times = match told.retries {
        0 => None,
        1 => Some("spoken again once, since it ran away".to_owned()),
        n => Some(format!("spoken again {n} times, since it ran away")),
    };
    let seconds = f64::from(u32::try_from(told.trimmed).unwrap_or(u32::MAX)) / f64::from(rate);
    let trimmed = (told.trimmed > 0).then(|| format!("{seconds:.2} s of silence trimmed"));
    let parts: Vec<String> = times.into_iter().chain(trimmed).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
