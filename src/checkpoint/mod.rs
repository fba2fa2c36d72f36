//! A checkpoint: a folder (or files inside the program) that becomes verified, named, typed tensors.
//!
//! [`Checkpoint::open`] reads `config.json` and the headers of all safetensors files, and judges by what they hold which
//! model it is and how its weights are packed; where a model has files of `torch.save`, they are read too.
//! [`Checkpoint::contract`] then hands out tensors to a model, or one error that names all that is wrong. Tensors are slices of mapped files; nothing is copied here.

mod config;
mod contract;
mod detect;
mod groups;
pub(crate) mod names;
mod pointer;
mod pth;
mod quantisation;
pub mod random;
mod safetensors;
mod shards;
mod source;

pub use ::safetensors::Dtype;

use crate::bytes::Bytes;
use crate::error::{Error, Result};

pub use config::Config;
pub use contract::Contract;
pub use detect::{Layout, Packing, architecture};
pub use groups::Group;
pub use quantisation::Claim;
pub use safetensors::Tensor;
pub use source::{Files, Source};

/// Folders below the checkpoint's own that hold tensors of their own.
const FOLDERS: [&str; 2] = ["", "codec/"];

/// An opened checkpoint.
#[derive(Debug)]
pub struct Checkpoint {
    source: Source,
    origin: String,
    config: Config,
    layout: Layout,
    packing: Packing,
    claims: Vec<Claim>,
    notes: Vec<String>,
    tensors: shards::Tensors,
}

impl Checkpoint {
    /// Reads the configuration and all headers; no weights yet.
    ///
    /// # Errors
    /// A file is missing or damaged, or the checkpoint is of a kind this program does not know.
    pub fn open(source: Source) -> Result<Self> {
        let origin = source.origin();
        if let Source::Folder(folder) = &source
            && !folder.is_dir()
        {
            let what = if folder.exists() { "is a file, not a model folder" } else { "does not exist" };
            return Err(Error::new(format!("`{origin}` {what}"))
                .hint("name a folder with `config.json` and `model.safetensors`, or a hub model such as `ORG/NAME`"));
        }
        if !source.has("config.json") {
            return Err(Error::new(format!("`{}` is missing: {}", source.place("config.json"), contents(&source)))
                .hint("name the folder that holds `config.json` and `model.safetensors`"));
        }
        let config = Config::parse(&source.place("config.json"), &source.read("config.json")?)?;
        let mut tensors = shards::Tensors::new();
        for folder in FOLDERS {
            match shards::open(&source, folder)? {
                Some(mut found) => tensors.append(&mut found),
                None if folder.is_empty() => return Err(no_model(&source)),
                // Whether a model needs this folder is for its contract to say.
                None => {}
            }
        }
        let layout = detect::layout(&origin, &config, &tensors)?;
        if layout == Layout::VoxCpm2 {
            tensors.append(&mut shards::audiovae(&source)?);
        }
        let packing = detect::packing(&origin, &tensors)?;
        let claims = quantisation::claims(&source, &config)?;
        let notes = quantisation::check(&claims, packing, &tensors)?;
        Ok(Self { source, origin, config, layout, packing, claims, notes, tensors })
    }

    /// The model family.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// How the weights of the linears are stored.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// For messages: the folder, or `builtin`.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// `config.json`.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Another JSON file, for example `codec/config.json`.
    ///
    /// # Errors
    /// The file is missing or no JSON object.
    pub fn json(&self, file: &str) -> Result<Config> {
        Config::parse(&self.source.place(file), &self.source.read(file)?)
    }

    /// Is there such a file?
    pub fn has(&self, file: &str) -> bool {
        self.source.has(file)
    }

    /// The content of a file, for example `tokenizer.json`.
    ///
    /// # Errors
    /// The file is missing or unreadable.
    pub fn file(&self, file: &str) -> Result<Bytes> {
        self.source.read(file)
    }

    /// All tensors by name; those of a folder have it in front, as in `codec/decoder.layers.0.conv.weight`, and those of
    /// `audiovae.pth` or `audiovae.safetensors` have `audiovae/`.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// What the configuration files say about quantisation.
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// Harmless disagreements between what the configuration files say and what the tensors are.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Is there a tensor whose name begins like this?
    pub(crate) fn holds(&self, prefix: &str) -> bool {
        self.tensors.range(prefix.to_owned()..).next().is_some_and(|(name, _)| name.starts_with(prefix))
    }

    /// A file's path without the folder of the checkpoint.
    pub(crate) fn short<'p>(&self, place: &'p str) -> &'p str {
        place.strip_prefix(&self.origin).map_or(place, |rest| rest.trim_start_matches(['/', '\\']))
    }
}

/// There is no `model.safetensors`: says what there is instead.
fn no_model(source: &Source) -> Error {
    let names = source.list();
    let other = names.iter().find(|name| name.ends_with(".gguf") || name.ends_with(".bin") || name.ends_with(".pth"));
    let error = Error::new(format!(
        "`{}` has no `model.safetensors` and no `model.safetensors.index.json`: {}",
        source.origin(),
        contents(source)
    ));
    match other {
        Some(name) => {
            error.hint(format!("rtts reads safetensors; convert `{name}`, or use a checkpoint that has them"))
        }
        None => error.hint("the download is incomplete: fetch the model with `rtts models pull`"),
    }
}

/// What the folder holds, in a few words.
fn contents(source: &Source) -> String {
    let found = source.list();
    if found.is_empty() {
        return "the folder is empty".to_owned();
    }
    let shown: Vec<String> = found.iter().take(6).map(|name| format!("`{name}`")).collect();
    let more =
        if found.len() > shown.len() { format!(" and {} more", found.len() - shown.len()) } else { String::new() };
    format!("the folder holds {}{more}", shown.join(", "))
}
