//! All tensors of a model folder: one `model.safetensors`, or the shards that `model.safetensors.index.json` names.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::Value;

use super::config::Config;
use super::names;
use super::safetensors::{self, Tensor};
use super::source::Source;
use crate::error::{Error, Result};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Tensors by name, in the order of names.
pub type Tensors = BTreeMap<String, Tensor>;

/// The files that hold the tensors below `folder` (`""` or `codec/`): empty where there are none.
///
/// # Errors
/// The index is damaged or names files outside of the folder.
pub fn files(source: &Source, folder: &str) -> Result<Vec<String>> {
    // The order in which Python's loaders look, so that both read the same file.
    let single = format!("{folder}{SINGLE}");
    if source.has(&single) {
        return Ok(vec![single]);
    }
    let index = format!("{folder}{INDEX}");
    if !source.has(&index) {
        return Ok(Vec::new());
    }
    let mut shards: Vec<String> = weight_map(source, &index)?.into_values().collect();
    shards.sort();
    shards.dedup();
    Ok(shards.into_iter().map(|shard| format!("{folder}{shard}")).collect())
}

/// Reads the headers of all `files` below `folder`; tensor names get `folder` as prefix.
///
/// # Errors
/// A file is missing or damaged, a tensor is in two files, or the index names a tensor that its shard lacks.
pub fn open(source: &Source, folder: &str, files: &[String]) -> Result<Tensors> {
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
        for (name, tensor) in safetensors::read(&source.place(file), &content)? {
            match tensors.entry(format!("{folder}{name}")) {
                Entry::Vacant(free) => {
                    free.insert(tensor);
                }
                Entry::Occupied(taken) => {
                    return Err(Error::new(format!(
                        "`{}` and `{}` both hold the tensor `{name}`",
                        taken.get().place,
                        tensor.place
                    ))
                    .hint("the folder mixes files of two checkpoints: download one of them into an empty folder"));
                }
            }
        }
    }
    let index = format!("{folder}{INDEX}");
    if files.len() != 1 || !files[0].ends_with(SINGLE) {
        let absent: Vec<String> = weight_map(source, &index)?
            .into_keys()
            .filter(|name| !tensors.contains_key(&format!("{folder}{name}")))
            .collect();
        if !absent.is_empty() {
            return Err(Error::new(format!(
                "`{}` names tensors that its shards do not hold: {}",
                source.place(&index),
                names::list(absent.iter().map(String::as_str))
            ))
            .hint("index and shards belong to different versions: download the checkpoint again"));
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
