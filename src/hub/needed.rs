//! Which files of a repository a checkpoint needs: configuration, tokenizer, weights and codec, and nothing else.
//!
//! Left out are program text, other weight formats, pictures, samples and training states. Sources: the file tables of
//! the two layouts (rumik-oss-1: `codec/`; VoxCPM2: `audiovae.pth`, or `audiovae.safetensors`, which its loader
//! prefers).

use super::listing::{Entry, Listing};

/// A JSON file longer than this is data, not configuration.
const LONGEST_JSON: u64 = 64 << 20;

/// The entries of `listing` that are fetched, in its order.
pub(super) fn needed(listing: &Listing) -> Vec<&Entry> {
    let has = |path: &str| listing.entries.iter().any(|entry| entry.path == path);
    let standard = listing.entries.iter().any(|entry| is_standard_weights(&entry.path));
    let vae = ["audiovae.safetensors", "audiovae.pth"].into_iter().find(|path| has(path));
    let wanted = |entry: &&Entry| {
        let (folder, file) = entry.path.rsplit_once('/').unwrap_or((".", &entry.path));
        // Names become paths on this machine; with these two folders and characters none can lead out of the cache.
        if !(folder == "." || folder == "codec") || file.contains(['\\', ':', '\0']) {
            return false;
        }
        if file.ends_with(".json") {
            // The index of another format would only mislead.
            return entry.size <= LONGEST_JSON && !file.ends_with(".bin.index.json");
        }
        if file.starts_with("audiovae.") {
            return folder == "." && Some(file) == vae;
        }
        // Beside `model…` files, others hold the same weights again, or an adapter.
        file.ends_with(".safetensors") && (folder == "codec" || !standard || is_standard_weights(file))
    };
    listing.entries.iter().filter(wanted).collect()
}

/// Whether the files make up something that could be opened at all.
pub(super) fn is_checkpoint(needed: &[&Entry]) -> bool {
    let top = |entry: &&&Entry| !entry.path.contains('/');
    needed.iter().any(|entry| entry.path == "config.json")
        && needed.iter().filter(top).any(|entry| is_weights(&entry.path))
}

/// Whether `path` holds the language model's weights.
pub(super) fn is_weights(path: &str) -> bool {
    path.ends_with(".safetensors") && !path.starts_with("audiovae.")
}

/// `model.safetensors`, or a shard `model-00001-of-00002.safetensors`.
fn is_standard_weights(path: &str) -> bool {
    let Some(middle) = path.strip_prefix("model").and_then(|rest| rest.strip_suffix(".safetensors")) else {
        return false;
    };
    middle.is_empty() || (middle.starts_with('-') && middle.contains("-of-"))
}

#[cfg(test)]
mod tests {
    use super::super::listing::tests::listing;
    use super::*;

    fn chosen(files: &[&str]) -> Vec<String> {
        let files: Vec<(&str, u64)> = files.iter().map(|file| (*file, 1)).collect();
        needed(&listing(&files)).into_iter().map(|entry| entry.path.clone()).collect()
    }

    #[test]
    fn rumik() {
        let wanted = [
            "codec/config.json",
            "codec/model.safetensors",
            "config.json",
            "generation_config.json",
            "hf_quant_config.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
            "tokenizer.json",
        ];
        let mut all = wanted.to_vec();
        all.extend([".gitattributes", "README.md", "modeling_rumik.py", "samples/a.wav", "optimizer.pt"]);
        all.extend([
            "consolidated.safetensors",
            "onnx/config.json",
            "pytorch_model.bin",
            "pytorch_model.bin.index.json",
        ]);
        assert_eq!(chosen(&all), wanted);
    }

    #[test]
    fn voxcpm2() {
        let plain = ["audiovae.pth", "config.json", "model.safetensors", "tokenizer.json"];
        assert_eq!(chosen(&plain), plain);
        let both = ["audiovae.pth", "audiovae.safetensors", "config.json", "model.safetensors"];
        assert_eq!(chosen(&both), &both[1..]);
    }

    #[test]
    fn unusual_weight_names_are_taken_where_there_are_no_others() {
        assert_eq!(chosen(&["config.json", "weights.safetensors"]), ["config.json", "weights.safetensors"]);
    }

    #[test]
    fn names_that_lead_out_are_never_taken() {
        let bad = ["../x.json", "/etc/x.json", "codec/../x.json", "..\\x.json", "C:x.json", "", "codec/..", "/x.json"];
        assert_eq!(chosen(&bad), Vec::<String>::new());
    }

    #[test]
    fn other_repositories_are_noticed() {
        let is = |files: &[&str]| {
            let files: Vec<(&str, u64)> = files.iter().map(|file| (*file, 1)).collect();
            is_checkpoint(&needed(&listing(&files)))
        };
        assert!(is(&["config.json", "model.safetensors"]));
        assert!(!is(&["model.gguf"]));
        assert!(!is(&["config.json", "pytorch_model.bin"]));
        assert!(!is(&["config.json", "audiovae.safetensors", "codec/model.safetensors"]));
    }
}
