//! All tensors of a model folder: one `model.safetensors`, or the shards that `model.safetensors.index.json` names, or
//! else one `pytorch_model.bin`; and those of the audio codec that lies beside it as one file of its own.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::config::Config;
use super::names;
use super::pth;
use super::safetensors::{self, Tensor};
use super::source::Source;
use crate::error::{Error, Result};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const TORCH: &str = "pytorch_model.bin";
/// VoxCPM2's codec: the first that is there is read, as its own loader does.
const AUDIOVAE: [&str; 2] = ["audiovae.safetensors", "audiovae.pth"];

/// Tensors by name, in the order of names.
pub type Tensors = BTreeMap<String, Tensor>;

/// All tensors below `folder` (`""` or `codec/`), whose name they get as prefix; `None` where there is no model file.
///
/// # Errors
/// A file is missing or damaged, a tensor is in two files, or the index names a tensor that its shard lacks.
pub fn open(source: &Source, folder: &str) -> Result<Option<Tensors>> {
    let (single, index) = (format!("{folder}{SINGLE}"), format!("{folder}{INDEX}"));
    // The order in which Python's loaders look, so that both read the same file.
    if source.has(&single) {
        return read(source, folder, &[single]).map(Some);
    }
    if !source.has(&index) {
        let torch = format!("{folder}{TORCH}");
        return if source.has(&torch) { read(source, folder, &[torch]).map(Some) } else { Ok(None) };
    }
    let map = weight_map(source, &index)?;
    let shards: BTreeSet<&String> = map.values().collect();
    let files: Vec<String> = shards.into_iter().map(|shard| format!("{folder}{shard}")).collect();
    let tensors = read(source, folder, &files)?;
    let absent = map.keys().filter(|name| !tensors.contains_key(&format!("{folder}{name}")));
    let absent: Vec<&str> = absent.map(String::as_str).collect();
    if !absent.is_empty() {
        let (place, absent) = (source.place(&index), names::list(absent));
        return Err(Error::new(format!("`{place}` names tensors that its shards do not hold: {absent}"))
            .hint("index and shards belong to different versions: download the checkpoint again"));
    }
    Ok(Some(tensors))
}

/// The tensors of the codec's file, with `audiovae/` before their names; none where there is no such file.
///
/// # Errors
/// The file is damaged.
pub fn audiovae(source: &Source) -> Result<Tensors> {
    match AUDIOVAE.iter().find(|file| source.has(file)) {
        Some(file) => read(source, "audiovae/", &[(*file).to_owned()]),
        None => Ok(Tensors::new()),
    }
}

/// All tensors of these files, with `folder` before their names.
fn read(source: &Source, folder: &str, files: &[String]) -> Result<Tensors> {
    let missing: Vec<String> = files.iter().filter(|file| !source.has(file)).map(|file| format!("`{file}`")).collect();
    if !missing.is_empty() {
        return Err(Error::new(format!(
            "`{}`: {} of {} model files {} missing: {}",
            source.origin(),
            missing.len(),
            files.len(),
            if missing.len() == 1 { "is" } else { "are" },
            missing.join(", ")
        ))
        .hint("the download was interrupted: fetch the rest with `rtts models pull`, or copy the missing files"));
    }
    let mut tensors = Tensors::new();
    for file in files {
        let content = source.read(file)?;
        let place = source.place(file);
        let safe = file.ends_with(".safetensors");
        let found = if safe { safetensors::read(&place, &content)? } else { pth::read(&place, &content)? };
        for (name, tensor) in found {
            match tensors.entry(format!("{folder}{name}")) {
                Entry::Vacant(free) => {
                    free.insert(tensor);
                }
                Entry::Occupied(taken) => {
                    let (one, other) = (&taken.get().place, &tensor.place);
                    return Err(Error::new(format!("`{one}` and `{other}` both hold the tensor `{name}`"))
                        .hint("the folder mixes files of two checkpoints: download one of them into an empty folder"));
                }
            }
        }
    }
    Ok(tensors)
}

/// Tensor name to shard file.
fn weight_map(source: &Source, index: &str) -> Result<BTreeMap<String, String>> {
    let config = Config::parse(&source.place(index), &source.read(index)?)?;
    let Some(map) = config.value("weight_map").and_then(Value::as_object) else {
        return Err(config.wrong("weight_map", "is missing or no object"));
    };
    let read = |(name, file): (&String, &Value)| match file.as_str() {
        Some(file) => Ok((name.clone(), file.to_owned())),
        None => Err(config.wrong("weight_map", format_args!("gives `{name}` no file name"))),
    };
    map.iter().map(read).collect()
}
