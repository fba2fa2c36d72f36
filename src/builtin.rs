//! The built-in voice: a small TinyAya checkpoint inside the program, so that a fresh machine speaks at once.
//!
//! It goes through the same code as every other checkpoint; `assets/builtin/MODEL_CARD.md` says what it is made of.

use crate::checkpoint::Source;

/// The name it has on the command line.
pub const NAME: &str = "builtin";

macro_rules! embedded {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_bytes!(concat!("../assets/builtin/", $file)) as &[u8])),*]
    };
}

static FILES: &[(&str, &[u8])] = embedded![
    "config.json",
    "hf_quant_config.json",
    "model.safetensors",
    "tokenizer.json",
    "codec/config.json",
    "codec/model.safetensors",
];

/// The embedded files.
pub fn source() -> Source {
    Source::Embedded(FILES)
}
