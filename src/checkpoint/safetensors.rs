//! One safetensors file: an 8-byte length, a JSON header of that length, then the tensors' bytes without gaps.
//!
//! The format is <https://github.com/huggingface/safetensors>. The header is read with that crate's own types, but
//! checked here, because its errors carry neither numbers nor names: every message says which file, what the header
//! announces and what the file really has. Nothing is copied; tensors are slices of the mapping.

use std::fmt;
use std::sync::Arc;

use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use crate::bytes::Bytes;
use crate::error::{Error, Result};

/// Bytes before the header.
const LENGTH_BYTES: usize = 8;
/// Larger headers are damage: the largest real ones take a few megabytes. The format's own limit.
const LARGEST_HEADER: u64 = 100_000_000;

/// The cure for anything that a bad download or copy does.
pub const AGAIN: &str =
    "the file is incomplete or damaged: delete it and download it again (`rtts models pull`), or copy it again";

/// One tensor as the file holds it.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// How values are stored.
    pub dtype: Dtype,
    /// Sizes, outermost first; `[]` is a scalar.
    pub shape: Vec<usize>,
    /// The values, little endian, row-major. `len == shape.product() * dtype size`.
    pub bytes: Bytes,
    /// For messages: the file.
    pub place: Arc<str>,
}

impl Tensor {
    /// How many values.
    pub fn values(&self) -> usize {
        self.shape.iter().product()
    }
}

/// All tensors of a file, in the order of the header. `place` names the file in messages.
///
/// # Errors
/// The file is truncated, empty, a pointer file, or its header does not describe exactly what follows it.
pub fn read(place: &str, content: &Bytes) -> Result<Vec<(String, Tensor)>> {
    let wrong = |why: String| Error::new(format!("`{place}` {why}")).hint(AGAIN);
    let (header, start) = header(place, content)?;
    let mut entries: Vec<(String, TensorInfo)> = header.0;
    let available = content.len() - start;

    // Sizes first, so that a truncated file is called truncated and not inconsistent.
    let mut announced = 0;
    for (name, info) in &entries {
        let (from, to) = info.data_offsets;
        let size = size(info).ok_or_else(|| wrong(format!("gives `{name}` an impossible shape {:?}", info.shape)))?;
        if to.checked_sub(from) != Some(size) {
            return Err(wrong(format!(
                "gives `{name}` the bytes {from}..{to}, but {:?} of {:?} take {size} bytes",
                info.shape, info.dtype
            )));
        }
        announced = announced.max(to);
    }
    if announced > available {
        let whole = start as u128 + announced as u128;
        return Err(wrong(format!("is truncated: its header announces {whole} bytes, the file has {}", content.len())));
    }

    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|&i| entries[i].1.data_offsets);
    let (mut end, mut previous) = (0, None::<usize>);
    for &i in &order {
        let (name, info) = &entries[i];
        let (from, to) = info.data_offsets;
        if from != end {
            let before = previous.map_or("the header", |p| &entries[p].0);
            let how = if from < end { "overlaps" } else { "leaves a gap after" };
            return Err(wrong(format!("is inconsistent: `{name}` {how} `{before}` (byte {from}, expected {end})")));
        }
        (end, previous) = (to, Some(i));
    }
    if end != available {
        return Err(wrong(format!(
            "has {} bytes too many: its header announces {} bytes, the file has {}",
            available - end,
            start + end,
            content.len()
        )));
    }

    let place: Arc<str> = place.into();
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, info) in entries.drain(..) {
        let (from, to) = info.data_offsets;
        let Some(bytes) = content.slice(start + from..start + to) else {
            return Err(wrong(format!("has no bytes for `{name}`")));
        };
        tensors.push((name, Tensor { dtype: info.dtype, shape: info.shape, bytes, place: Arc::clone(&place) }));
    }
    Ok(tensors)
}

/// The parsed header, and where the tensors' bytes begin.
fn header(place: &str, content: &Bytes) -> Result<(Header, usize)> {
    let wrong = |why: String| Error::new(format!("`{place}` {why}")).hint(AGAIN);
    let length = content.len();
    if length == 0 {
        return Err(wrong("is empty (0 bytes)".to_owned()));
    }
    if let Some(pointer) = super::pointer::explain(place, content) {
        return Err(pointer);
    }
    let Some(announced) = content.first_chunk::<LENGTH_BYTES>().map(|first| u64::from_le_bytes(*first)) else {
        return Err(wrong(format!(
            "is truncated: {length} bytes, where the header's length alone takes {LENGTH_BYTES}"
        )));
    };
    let rest = (length - LENGTH_BYTES) as u64;
    if announced > LARGEST_HEADER {
        return Err(wrong(format!(
            "is not a safetensors file: it begins with a header length of {announced} bytes, and the file has {length}"
        )));
    }
    if announced > rest {
        return Err(wrong(format!(
            "is truncated: its header takes {} bytes, the file has {length}",
            announced + LENGTH_BYTES as u64
        )));
    }
    let start = LENGTH_BYTES + announced as usize;
    let header = serde_json::from_slice(&content[LENGTH_BYTES..start])
        .map_err(|cause| wrong(format!("is not a safetensors file: its header cannot be read: {cause}")))?;
    Ok((header, start))
}

/// Bytes of a tensor; `None` where no such tensor can exist.
fn size(info: &TensorInfo) -> Option<usize> {
    let values = info.shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n))?;
    let bits = values.checked_mul(info.dtype.bitsize())?;
    (bits % 8 == 0).then_some(bits / 8)
}

/// Names and descriptions in file order. A map type would drop the second of two equal names in silence.
struct Header(Vec<(String, TensorInfo)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with an entry for each tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Header, A::Error> {
                let mut entries = Vec::new();
                let mut seen = std::collections::HashSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let info = map.next_value::<TensorInfo>()?;
                    if !seen.insert(name.clone()) {
                        return Err(serde::de::Error::custom(format_args!("`{name}` appears twice")));
                    }
                    entries.push((name, info));
                }
                Ok(Header(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A file with this header and `data` zero bytes after it.
    fn file(header: &str, data: usize) -> Bytes {
        let mut content = (header.len() as u64).to_le_bytes().to_vec();
        content.extend(header.as_bytes());
        content.extend(std::iter::repeat_n(0, data));
        content.into()
    }

    fn refused(content: Bytes, parts: &[&str]) {
        let error = read("dir/m.safetensors", &content).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("dir/m.safetensors"), "{text}");
        assert!(error.cure().is_some(), "{text} has no cure");
        for part in parts {
            assert!(text.contains(part), "{text} lacks {part}");
        }
    }

    const TWO: &str = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}"#;

    #[test]
    fn tensors_are_slices_of_the_file() {
        let mut content = (TWO.len() as u64).to_le_bytes().to_vec();
        content.extend(TWO.as_bytes());
        content.extend([0, 0, 128, 63, 0, 0, 0, 64, 7]);
        let content = Bytes::from(content);
        let tensors = read("m", &content).unwrap();
        assert_eq!(tensors[0].0, "a");
        assert_eq!(&*tensors[0].1.bytes, [0, 0, 128, 63, 0, 0, 0, 64]);
        assert_eq!((tensors[1].1.shape.len(), tensors[1].1.values(), &*tensors[1].1.bytes), (0, 1, &[7_u8][..]));
        assert!(content.as_ptr_range().contains(&tensors[0].1.bytes.as_ptr()), "copied");
    }

    #[test]
    fn bad_files_are_refused_with_numbers() {
        refused(Vec::new().into(), &["empty", "0 bytes"]);
        refused(vec![1, 2, 3].into(), &["truncated", "3 bytes"]);
        refused(vec![0xff; 20].into(), &["18446744073709551615", "20"]);
        refused(b"rubbish, not a model at all".to_vec().into(), &["not a safetensors file", "27"]);
        refused(file(TWO, 8), &["truncated", "153 bytes", "152"]);
        refused(file(TWO, 10), &["1 bytes too many", "153", "154"]);
        let whole = file(TWO, 9);
        refused(whole[..60].to_vec().into(), &["truncated", "144 bytes", "60"]);
        refused(file("{not json", 0), &["header cannot be read"]);
        refused(file("[]", 0), &["header cannot be read"]);
    }

    #[test]
    fn inconsistent_headers_are_refused_by_tensor() {
        let entry = |name: &str, dtype: &str, shape: &str, from: &str, to: &str| {
            format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}"#)
        };
        let a = entry("a", "F32", "[2]", "0", "8");
        let cases = [
            (entry("b", "F32", "[2]", "4", "12"), "`b` overlaps `a`"),
            (entry("b", "F32", "[2]", "10", "18"), "`b` leaves a gap after `a`"),
            (entry("b", "F32", "[3]", "8", "16"), "`b` the bytes 8..16, but [3] of F32 take 12"),
            (entry("b", "F32", "[2]", "16", "8"), "`b` the bytes 16..8"),
            (entry("b", "F32", "[4294967296,4294967296,2]", "8", "16"), "`b` an impossible shape"),
            (
                entry("b", "F32", "[0,18446744073709551615]", "18446744073709551615", "18446744073709551615"),
                "truncated",
            ),
            (entry("a", "F32", "[2]", "8", "16"), "`a` appears twice"),
            (entry("b", "F99", "[2]", "8", "16"), "F99"),
            (entry("b", "F4", "[1]", "8", "8"), "impossible"),
        ];
        for (b, part) in cases {
            refused(file(&format!("{{{a},{b}}}"), 18), &[part]);
        }
    }
}
