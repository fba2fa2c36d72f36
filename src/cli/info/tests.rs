//! What `rtts info` says about the fixtures, and about a VoxCPM2 checkpoint made here.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use super::*;
use crate::checkpoint::{Dtype, Source};

fn fixture(name: &str) -> Checkpoint {
    let folder = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    Checkpoint::open(Source::Folder(folder.into())).unwrap()
}

fn printed(checkpoint: &Checkpoint, json: bool, tensors: bool) -> String {
    let mut out = Vec::new();
    run(&InfoArgs { model: None, tensors }, checkpoint, Some("one CPU"), json, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{text}\nlacks\n{part}");
    }
}

/// Two layers of each language model, as far as recognition and sizes look.
fn voxcpm2(packed: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({
        "architecture": "voxcpm2", "patch_size": 4, "residual_lm_num_layers": 1,
        "lm_config": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                      "kv_channels": 32},
        "audio_vae_config": {"sample_rate": 16000, "out_sample_rate": 48000, "encoder_rates": [2, 5, 8, 8]},
    });
    let zeros = vec![0_u8; 64 * 64 * 2];
    let mut tensors = BTreeMap::new();
    let mut put = |name: &str, dtype: Dtype, shape: &[usize]| {
        let size = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        tensors.insert(name.to_owned(), TensorView::new(dtype, shape.to_vec(), &zeros[..size]).unwrap());
    };
    for module in ["base_lm.layers.0.self_attn.q_proj", "base_lm.layers.1.self_attn.q_proj"] {
        if packed {
            put(&format!("{module}.weight_packed"), Dtype::U8, &[64, 32]);
            put(&format!("{module}.weight_scale"), Dtype::F8_E4M3, &[64, 4]);
            put(&format!("{module}.weight_global_scale"), Dtype::F32, &[1]);
        } else {
            put(&format!("{module}.weight"), Dtype::BF16, &[64, 64]);
        }
    }
    put("base_lm.layers.0.self_attn.v_proj.weight", Dtype::BF16, &[64, 64]);
    put("base_lm.embed_tokens.weight", Dtype::BF16, &[64, 64]);
    put("feat_decoder.estimator.in_proj.weight", Dtype::BF16, &[16, 64]);
    put("fusion_concat_proj.weight", Dtype::BF16, &[16, 64]);
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    std::fs::write(folder.path().join("audiovae.pth"), include_bytes!("../../../tests/data/pth/plain.pth")).unwrap();
    std::fs::write(folder.path().join("model.safetensors"), safetensors::serialize(tensors, None).unwrap()).unwrap();
    folder
}

#[test]
fn a_packed_tinyaya_is_explained() {
    let checkpoint = fixture("tinyaya-nvfp4");
    contains(
        &printed(&checkpoint, false, false),
        &[
            "TinyAya (`TinyAyaForCausalLM`)",
            "Ira, Aisha, Siya, Zoya",
            "NVFP4 (modelopt), made by modelopt",
            "× weight_scale_2, which is amax / 2688 and multiplies",
            "calibrated for 4-bit inputs (W4A4)",
            "share one input scale in 8 of 8 layers",
            "`model.embed_tokens`, `stop_predictor.{1,3}`",
            "513 rows of the head",
            "would run on  one CPU",
            "logit_scale = 0.5",
            "non-commercial use only",
        ],
    );
}

#[test]
fn a_plain_tinyaya_is_explained() {
    let text = printed(&fixture("tinyaya-bf16"), false, false);
    contains(&text, &["packing       BF16\n", "model-00002-of-00002.safetensors", "24000 Hz"]);
    assert!(!text.contains("weight ="), "{text}");
}

#[test]
fn bytes_read_are_those_of_the_specification() {
    let facts = Facts::gather(&fixture("tinyaya-nvfp4"), None, false);
    let reads = facts.reads.unwrap();
    // hidden 128, 4 heads, 2 key/value heads, inner 352, 8 layers: 9/16 byte a weight, two scalars a matrix.
    let weights = 2 * 128 * 128 + 2 * 64 * 128 + 3 * 128 * 352;
    let layers = 8 * (weights * 9 / 16 + 7 * 8 + 128 * 2) + 128 * 2;
    let head = 513 * 128 * 2;
    let stop = 2 * 128 * 2 + (64 * 128 + 64) * 2 + (64 + 1) * 2;
    assert_eq!(reads.bytes, layers + head + stop);
    assert_eq!(reads.steps_a_second, 100.0);
    assert_eq!(reads.cache_a_position, Some(8 * 2 * 2 * 32 * 2));
}

#[test]
fn both_packings_of_voxcpm2_are_recognised_and_explained() {
    let plain = voxcpm2(false);
    let checkpoint = Checkpoint::open(Source::Folder(plain.path().into())).unwrap();
    contains(
        &printed(&checkpoint, false, false),
        &[
            "VoxCPM2 (`voxcpm2`)",
            "not spoken by this version yet",
            "48000 Hz",
            "BF16",
            "audiovae.pth: 72 B",
            "codec (AudioVAE)",
            "a second of speech: 6.25 patches",
            "× 9 (of 10 solver steps)",
        ],
    );

    let packed = voxcpm2(true);
    let checkpoint = Checkpoint::open(Source::Folder(packed.path().into())).unwrap();
    let text = printed(&checkpoint, false, false);
    contains(
        &text,
        &[
            "NVFP4 (compressed-tensors)",
            "÷ weight_global_scale, which is 2688 / amax and divides",
            "weights only (W4A16)",
            "`base_lm.layers.0.self_attn.v_proj`",
        ],
    );
    assert!(!text.contains("licence"), "{text}");
}

#[test]
fn json_and_tensors_hold_everything() {
    let text = printed(&fixture("tinyaya-nvfp4"), true, true);
    assert_eq!(text.lines().count(), 1);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["v"], &value["layout"], &value["spoken"]), (&json!(1), &json!("TinyAya"), &json!(true)));
    let tensors = value["tensors"].as_array().unwrap();
    assert_eq!(value["bytes"].as_u64(), Some(tensors.iter().filter_map(|t| t["bytes"].as_u64()).sum::<u64>()));
    let scalar = tensors.iter().find(|t| t["name"] == "model.layers.0.mlp.down_proj.weight_scale_2").unwrap();
    assert_eq!((&scalar["dtype"], &scalar["shape"]), (&json!("F32"), &json!([])));

    let listed = printed(&fixture("tinyaya-nvfp4"), false, true);
    contains(&listed, &["codec/decoder.layers.0.conv.weight", "F8_E4M3", "codec/model.safetensors"]);
    let brief: Value = serde_json::from_str(&printed(&fixture("tinyaya-nvfp4"), true, false)).unwrap();
    assert!(brief.get("tensors").is_none());
}
