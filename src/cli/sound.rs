//! How text is cut and how the result is stored: flags that `say` and `batch` share.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::settings::Settings;
use crate::audio::loudness::{CEILING, Levelled};
use crate::audio::pcm::Format;
use crate::text::Split;

/// Cutting long text.
#[derive(Args, Clone, Debug, Default)]
pub struct Cutting {
    /// How long text is cut into utterances
    ///
    /// The utterances are generated side by side as a batch and joined in order. `auto` cuts at sentences where the
    /// text is longer than the model speaks well at once.
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Input")]
    pub split: SplitMode,
    /// Whether numbers, dates, signs and abbreviations are written out as English words
    ///
    /// `auto` does it for models that only know words, such as the built-in voice, and leaves the text alone for models
    /// trained on text as people write it.
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Input")]
    pub normalize: Normalize,
    /// Silence between joined utterances, in milliseconds [default: as the text suggests]
    #[arg(long, value_name = "MS", help_heading = "Output", value_parser = gap, allow_negative_numbers = true)]
    pub gap: Option<u32>,
}

impl Cutting {
    /// With what `settings` say where no flag does.
    #[must_use]
    pub fn over(&self, settings: &Settings) -> Self {
        Self { gap: self.gap.or(settings.gap), ..self.clone() }
    }
}

/// A silence in milliseconds, as the command line and the settings take it.
///
/// # Errors
/// What is no number in the range.
pub fn gap(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|ms| *ms <= 60_000).ok_or("a whole number from 0 to 60000 is needed".into())
}

/// A sample rate in Hz, as the command line and the settings take it.
///
/// # Errors
/// What is no number in the range.
pub fn rate(text: &str) -> Result<u32, String> {
    let possible = |hz: &u32| (8_000..=192_000).contains(hz);
    text.parse().ok().filter(possible).ok_or("a whole number from 8000 to 192000 is needed".into())
}

/// Where text may be cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SplitMode {
    /// At sentences, as few pieces as the model allows.
    #[default]
    Auto,
    /// After every sentence.
    Sentence,
    /// At line ends.
    Line,
    /// Nowhere.
    None,
}

impl SplitMode {
    /// The splitter's own word.
    pub fn split(self) -> Split {
        match self {
            SplitMode::Auto => Split::Auto,
            SplitMode::Sentence => Split::Sentence,
            SplitMode::Line => Split::Line,
            SplitMode::None => Split::None,
        }
    }
}

/// When text is written out in words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Normalize {
    /// Where the model only knows words.
    #[default]
    Auto,
    /// For every model.
    Always,
    /// For no model.
    Never,
}

impl Normalize {
    /// Whether to, for a model that knows only words or one that doesn't.
    pub fn wanted(self, words_only: bool) -> bool {
        match self {
            Normalize::Auto => words_only,
            Normalize::Always => true,
            Normalize::Never => false,
        }
    }
}

/// Sample format and rate.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct Storing {
    /// Sample format: 16- or 24-bit integers, or 32-bit floats [default: i16]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub format: Option<Format>,
    /// Sample rate, in Hz [default: the model's]
    #[arg(long, value_name = "HZ", value_parser = rate, allow_negative_numbers = true)]
    pub rate: Option<u32>,
    /// Loudness of the whole, in LUFS, for example -16 [default: as the model speaks]
    ///
    /// Measured after ITU-R BS.1770 once all is spoken, then every sample is scaled alike; a true peak above -1 dBTP is
    /// never made. A pipe is written at the end, and playing at the same time is not possible.
    #[arg(long, value_name = "LUFS", value_parser = lufs, allow_negative_numbers = true)]
    pub lufs: Option<f64>,
}

impl Storing {
    /// With what `settings` say where no flag does.
    #[must_use]
    pub fn over(&self, settings: &Settings) -> Self {
        Self { format: self.format.or(settings.format), rate: self.rate.or(settings.rate), lufs: self.lufs }
    }

    /// The sample format.
    pub fn format(&self) -> Format {
        self.format.unwrap_or_default()
    }
}

fn lufs(text: &str) -> Result<f64, String> {
    let possible = |lufs: &f64| (-60.0..=-5.0).contains(lufs);
    text.parse().ok().filter(possible).ok_or("a number from -60 to -5 is needed, for example -16".into())
}

/// Says what became of a loudness that was asked for, where that is not just what was asked for.
pub fn explain(levelled: &Levelled, wanted: f64) -> Option<String> {
    match levelled.after {
        None => Some("too short or too quiet to measure its loudness; left as it was".into()),
        Some(after) if levelled.held_back => Some(format!(
            "{after:.1} LUFS instead of {wanted:.1}: more would lift the true peak above {CEILING:.0} dBTP"
        )),
        Some(_) => None,
    }
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::NAMES).try_map(|name| name.parse::<Format>())
}
