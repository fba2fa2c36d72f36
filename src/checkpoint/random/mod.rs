//! Full-size checkpoints of random weights, in memory only: for measuring where no checkpoint is at hand.
//!
//! Names, shapes, types and vocabularies are those of the published checkpoints, and the files are read like any others:
//! detection and tensor contract included. The numbers are small enough for every value to stay finite, and the stop
//! heads never fire, so that a run is as long as it is asked to be. What is said is noise.

mod tensors;
mod tinyaya;
mod voxcpm2;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use indicatif::HumanBytes;

use self::tensors::Wanted;
use super::source::{Files, Source};
use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::machine;
use crate::suggest::nearest;

/// Besides the weights: tokenizer, caches, activations, program.
const BESIDES: u64 = 600 << 20;

/// Which checkpoint to make up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    /// The model.
    pub model: Model,
    /// How its weights are stored.
    pub form: Form,
}

/// Files by name.
type Named<T> = Vec<(&'static str, T)>;

/// The models there are checkpoints of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// rumik-oss-1.
    TinyAya,
    /// VoxCPM2.
    VoxCpm2,
}

/// How the weights of the language models are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// 16 bits.
    Bf16,
    /// 4 bits, in the packing that the model is published in.
    Nvfp4,
}

impl FromStr for Random {
    type Err = String;

    /// `tinyaya` or `voxcpm2`, with `:bf16` or `:nvfp4` behind; without, the packed one.
    fn from_str(text: &str) -> Result<Self, String> {
        let (model, form) = text.split_once(':').unwrap_or((text, "nvfp4"));
        let wrong = |word: &str, all: [&str; 2]| match nearest(word, all) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("`{}` or `{}` is possible", all[0], all[1]),
        };
        Ok(Self {
            model: match model {
                "tinyaya" => Model::TinyAya,
                "voxcpm2" => Model::VoxCpm2,
                _ => return Err(wrong(model, ["tinyaya", "voxcpm2"])),
            },
            form: match form {
                "bf16" => Form::Bf16,
                "nvfp4" => Form::Nvfp4,
                _ => return Err(wrong(form, ["bf16", "nvfp4"])),
            },
        })
    }
}

impl fmt::Display for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = match self.model {
            Model::TinyAya => "tinyaya",
            Model::VoxCpm2 => "voxcpm2",
        };
        let form = match self.form {
            Form::Bf16 => "bf16",
            Form::Nvfp4 => "nvfp4",
        };
        write!(f, "{model}:{form}")
    }
}

impl Random {
    /// Bytes of all its tensors.
    pub fn bytes(self) -> u64 {
        self.files().1.iter().flat_map(|(_, tensors)| tensors).map(|wanted| wanted.bytes() as u64).sum()
    }

    /// Makes it. The same numbers every time.
    ///
    /// # Errors
    /// The machine has too little memory; nothing was taken then.
    pub fn make(self) -> Result<Source> {
        if let Some(memory) = machine::memory() {
            self.fits(memory.available)?;
        }
        self.source(&tensors::file)
    }

    /// Its files, those of tensors made by `file` from a list and a seed.
    fn source(self, file: &dyn Fn(&[Wanted], u64) -> Result<Bytes>) -> Result<Source> {
        let (texts, folders) = self.files();
        let mut files: BTreeMap<String, Bytes> =
            texts.into_iter().map(|(name, text)| (name.to_owned(), text.into_bytes().into())).collect();
        for (seed, (name, tensors)) in folders.into_iter().enumerate() {
            files.insert(name.to_owned(), file(&tensors, seed as u64 + 1)?);
        }
        Ok(Source::Memory(Files::new(format!("random {self}"), files)))
    }

    /// An error where `available` bytes of memory do not suffice.
    fn fits(self, available: u64) -> Result<()> {
        let needed = self.bytes() + BESIDES;
        if needed <= available {
            return Ok(());
        }
        let packed = Self { form: Form::Nvfp4, ..self };
        let smaller = packed.bytes() + BESIDES;
        let cure = if self.form == Form::Bf16 && smaller <= available {
            format!("`--random {packed}` needs {}", HumanBytes(smaller))
        } else {
            "end other programs, take a machine with more memory, or measure the built-in voice (`-m builtin`)".into()
        };
        Err(Error::new(format!(
            "random weights of `{self}` take {} of memory, and {} are free",
            HumanBytes(needed),
            HumanBytes(available)
        ))
        .hint(cure))
    }

    /// The text files, and the files of tensors.
    fn files(self) -> (Named<String>, Named<Vec<Wanted>>) {
        let packed = self.form == Form::Nvfp4;
        match self.model {
            Model::TinyAya => (
                vec![
                    ("config.json", tinyaya::config().to_string()),
                    ("tokenizer.json", tinyaya::tokenizer().to_string()),
                    ("codec/config.json", tinyaya::codec_config().to_string()),
                ],
                vec![("model.safetensors", tinyaya::backbone(packed)), ("codec/model.safetensors", tinyaya::codec())],
            ),
            Model::VoxCpm2 => (
                vec![
                    ("config.json", voxcpm2::config().to_string()),
                    ("tokenizer.json", voxcpm2::tokenizer().to_string()),
                ],
                vec![("model.safetensors", voxcpm2::model(packed)), ("audiovae.safetensors", voxcpm2::audiovae())],
            ),
        }
    }
}

#[cfg(test)]
mod tests;
