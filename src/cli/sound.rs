//! How text is cut and how the result is stored: flags that `say` and `batch` share.

use clap::{Args, ValueEnum};

/// Cutting long text.
#[derive(Args, Clone, Debug)]
pub struct Cutting {
    /// How long text is cut into utterances
    ///
    /// The utterances are generated side by side as a batch and joined in order. `auto` cuts at sentences where the
    /// text is longer than the model speaks well at once.
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Input")]
    pub split: SplitMode,
    /// Silence between joined utterances, in milliseconds
    ///
    /// Without it the silence follows the text: longer after a paragraph than after a sentence.
    #[arg(long, value_name = "MS", help_heading = "Output", value_parser = clap::value_parser!(u32).range(0..=60_000))]
    pub gap: Option<u32>,
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

/// Sample format and rate.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub struct Storing {
    /// Sample format of WAV files
    #[arg(long, value_name = "FORMAT", default_value = "i16")]
    pub format: SampleFormat,
    /// Sample rate of the output, in Hz [default: the model's]
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(8_000..=192_000))]
    pub rate: Option<u32>,
}

/// Sample formats of WAV files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SampleFormat {
    /// 16-bit integers.
    #[default]
    I16,
    /// 24-bit integers.
    I24,
    /// 32-bit floats.
    F32,
}
