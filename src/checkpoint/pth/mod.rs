//! A file of `torch.save`: tensors by name, without executing anything.
//!
//! Such a file is a zip archive of uncompressed entries below one folder of any name: `data.pkl`, a pickle that says which
//! tensors there are, `data/<key>`, the numbers of one storage each, and `byteorder`. A tensor is a view of a storage with
//! an offset and strides. One whose numbers lie row-major is a slice of the mapped file; any other is put in order in
//! memory, which is bounded by the size of the file.
//!
//! The tensors are those of the dictionary under `state_dict`, where the top has such a key, else of the top itself;
//! what is no tensor there is passed over. Names, shapes and types are for the contract to judge.
//! Source: PyTorch's `torch/serialization.py` and files that it wrote.

mod archive;
mod pickle;

use std::collections::HashSet;
use std::sync::Arc;

use self::archive::Archive;
use self::pickle::{Pickle, Storage, Value, View};
use super::names;
use super::safetensors::{AGAIN, Tensor};
use crate::bytes::Bytes;
use crate::error::{Error, Result};

/// Longer pickles describe no tensors: the longest real ones take a few megabytes.
const LONGEST_PICKLE: usize = 64 << 20;
/// How the files of PyTorch before 1.6 begin: a pickled number.
const LEGACY: &[u8] = &[0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// All tensors of a file, in its order. `place` names the file in messages.
///
/// # Errors
/// The file is none of `torch.save`, or damaged, holds more than tensors, or contradicts itself.
pub fn read(place: &str, content: &Bytes) -> Result<Vec<(String, Tensor)>> {
    let wrong = |why: String| Error::new(format!("`{place}` {why}"));
    begins_well(place, content)?;
    let archive = archive::read(content).map_err(|why| wrong(why).hint(AGAIN))?;
    let (folder, program) = program(&archive).map_err(|(why, cure)| wrong(why).hint(cure))?;
    let order = archive.get(format!("{folder}byteorder").as_str()).map(|range| &content[range.clone()]);
    if order.is_some_and(|order| order != b"little") {
        return Err(wrong("was saved on a machine that orders bytes the other way".to_owned())
            .hint("load and save it again on an ordinary machine"));
    }
    if program.len() > LONGEST_PICKLE {
        return Err(wrong(format!("holds a pickle of {} bytes, far more than tensors need", program.len())).hint(SAVE));
    }
    let (pickle, top) = Pickle::read(&content[program]).map_err(|why| wrong(why).hint(SAVE))?;
    let storages = Storages { content, archive, folder };
    named(&pickle, top, &storages, place).map_err(|why| wrong(why).hint(SAVE))
}

/// The cure for files that hold something else than tensors.
const SAVE: &str = "save the tensors alone: `torch.save(model.state_dict(), FILE)`, or convert the file to safetensors; \
                    if it should be right, it is damaged: download it again";

/// Tells a zip archive from everything else by its first bytes.
fn begins_well(place: &str, content: &[u8]) -> Result<()> {
    let wrong = |why: &str| Error::new(format!("`{place}` {why}"));
    if content.is_empty() {
        return Err(wrong("is empty (0 bytes)").hint(AGAIN));
    }
    if let Some(pointer) = super::pointer::explain(place, content) {
        return Err(pointer);
    }
    if content.starts_with(LEGACY) {
        return Err(wrong("is in the form that PyTorch wrote before version 1.6, which rtts does not read")
            .hint("load it in PyTorch and save it again, without `_use_new_zipfile_serialization=False`"));
    }
    if content.starts_with(&[0x80]) {
        return Err(wrong("is a bare pickle, not a file of `torch.save`").hint(SAVE));
    }
    if !content.starts_with(b"PK") {
        return Err(wrong(&format!("is not a file of `torch.save`: its {} bytes are no zip archive", content.len()))
            .hint(AGAIN));
    }
    Ok(())
}

/// The common folder with its `/`, and the pickle inside.
fn program(archive: &Archive<'_>) -> std::result::Result<(String, std::ops::Range<usize>), (String, &'static str)> {
    let mut found = archive.iter().filter(|(name, _)| name.strip_suffix("/data.pkl").is_some_and(|p| !p.contains('/')));
    match (found.next(), found.next()) {
        (Some((name, range)), None) => {
            let folder = name.strip_suffix("data.pkl").unwrap_or_default().to_owned();
            if archive.contains_key(format!("{folder}constants.pkl").as_str()) {
                return Err(("is a TorchScript program, not a file of tensors".to_owned(), SAVE));
            }
            Ok((folder, range.clone()))
        }
        (Some(_), Some(_)) => Err(("holds two `data.pkl`".to_owned(), SAVE)),
        (None, _) => {
            let entries: Vec<String> = archive.keys().take(4).map(|name| shown(name)).collect();
            let entries = names::list(entries.iter().map(String::as_str));
            let what = if archive.is_empty() { "it is empty".to_owned() } else { format!("it holds {entries}") };
            Err((format!("is a zip archive, but not one of `torch.save`: {what}"), AGAIN))
        }
    }
}

/// The tensors of the state dictionary by name.
fn named(
    pickle: &Pickle<'_>,
    top: Value<'_>,
    storages: &Storages<'_>,
    place: &str,
) -> std::result::Result<Vec<(String, Tensor)>, String> {
    let entries = pickle.dict(top).ok_or("holds no dictionary of tensors")?;
    let inner = entries.iter().rev().find(|(key, _)| *key == Value::Text("state_dict"));
    let entries = match inner {
        Some((_, value)) => pickle.dict(*value).ok_or("holds a `state_dict` that is no dictionary")?,
        None => entries,
    };
    let place: Arc<str> = place.into();
    let mut spare = storages.content.len();
    let mut seen = HashSet::new();
    let mut tensors = Vec::new();
    for (key, value) in entries {
        let (Value::Text(name), Some(view)) = (*key, pickle.tensor(*value)) else { continue };
        if !seen.insert(name) {
            return Err(format!("holds `{}` twice", shown(name)));
        }
        let storage = pickle.storages[view.storage];
        let bytes = storages.bytes(&storage, view, &mut spare).map_err(|why| {
            format!("gives `{}` sizes {:?} and strides {:?}: {why}", shown(name), view.shape, view.strides)
        })?;
        let shape = view.shape.clone();
        tensors.push((name.to_owned(), Tensor { dtype: storage.dtype, shape, bytes, place: Arc::clone(&place) }));
    }
    if tensors.is_empty() {
        let keys: Vec<String> = entries
            .iter()
            .filter_map(|(key, _)| if let Value::Text(key) = key { Some(shown(key)) } else { None })
            .take(8)
            .collect();
        let keys = if keys.is_empty() { "nothing".to_owned() } else { names::list(keys.iter().map(String::as_str)) };
        return Err(format!("holds no tensors where a state dictionary would be, but {keys}"));
    }
    Ok(tensors)
}

/// Where the numbers are.
struct Storages<'a> {
    content: &'a Bytes,
    archive: Archive<'a>,
    folder: String,
}

impl Storages<'_> {
    /// The numbers of a view, row-major. Putting numbers in order takes from `spare` bytes.
    fn bytes(&self, storage: &Storage<'_>, view: &View, spare: &mut usize) -> std::result::Result<Bytes, String> {
        let size = storage.dtype.bitsize() / 8;
        let entry = format!("{}data/{}", self.folder, storage.key);
        let range = self.archive.get(entry.as_str());
        let range = range.ok_or_else(|| format!("its storage `{}` is not in the archive", shown(storage.key)))?;
        if storage.len.checked_mul(size) != Some(range.len()) {
            return Err(format!(
                "its storage `{}` has {} bytes, which are not {} {:?}",
                shown(storage.key),
                range.len(),
                storage.len,
                storage.dtype
            ));
        }
        let outside = || format!("it reaches outside of its storage of {} numbers", storage.len);
        if view.shape.contains(&0) {
            return Ok(Bytes::from(Vec::new()));
        }
        let numbers = view.shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n)).ok_or_else(outside)?;
        let last = view.shape.iter().zip(&view.strides).try_fold(view.offset, |at, (&n, &stride)| {
            (n - 1).checked_mul(stride).and_then(|reach| at.checked_add(reach))
        });
        if last.is_none_or(|last| last >= storage.len) {
            return Err(outside());
        }
        if view.is_row_major() {
            let from = range.start + view.offset * size;
            return self.content.slice(from..from + numbers * size).ok_or_else(outside);
        }
        // A tensor that repeats numbers can be of any size, whatever its storage has.
        if numbers > storage.len {
            return Err("it repeats its numbers, which no weight does".to_owned());
        }
        *spare = spare.checked_sub(numbers * size).ok_or("the tensors together are larger than the file")?;
        Ok(gathered(&self.content[range.clone()], view, size, numbers).into())
    }
}

impl View {
    /// Do the numbers lie one after the other? The stride of a dimension of size 1 means nothing.
    fn is_row_major(&self) -> bool {
        let mut expected = 1;
        self.shape.iter().zip(&self.strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == expected;
            expected *= size;
            fits
        })
    }
}

/// The numbers in row-major order. The view lies within the storage and is not empty.
fn gathered(storage: &[u8], view: &View, size: usize, numbers: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(numbers * size);
    let mut index = vec![0; view.shape.len()];
    let mut at = view.offset;
    loop {
        out.extend_from_slice(&storage[at * size..(at + 1) * size]);
        // Counts on, the last dimension fastest.
        let mut dimension = index.len();
        loop {
            let Some(next) = dimension.checked_sub(1) else { return out };
            dimension = next;
            index[dimension] += 1;
            at += view.strides[dimension];
            if index[dimension] < view.shape[dimension] {
                break;
            }
            at -= index[dimension] * view.strides[dimension];
            index[dimension] = 0;
        }
    }
}

/// A text of the file for messages: short, and without what could disturb a terminal.
fn shown(text: &str) -> String {
    const LONGEST: usize = 80;
    let short: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests;
