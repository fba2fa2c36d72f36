//! What `rtts info` says about the fixtures, and about a VoxCPM2 checkpoint made here.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::Write;

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

/// The published checkpoint in its real sizes, without its weights: the file is a header and a hole.
fn published(packed: bool) -> tempfile::TempDir {
    let mut header = serde_json::Map::new();
    let mut end = 0;
    let mut put = |name: String, dtype: &str, shape: &[usize]| {
        let bits = match dtype {
            "BF16" => 16,
            "F32" => 32,
            _ => 8,
        };
        let from = end;
        end += shape.iter().product::<usize>() * bits / 8;
        header.insert(name, json!({"dtype": dtype, "shape": shape, "data_offsets": [from, end]}));
    };
    // Scalars first: what is looked at lies in a small part of the file.
    let stacks = [
        ("base_lm", 28, 2048, 6144),
        ("residual_lm", 8, 2048, 6144),
        ("feat_encoder.encoder", 12, 1024, 4096),
        ("feat_decoder.estimator.decoder", 12, 1024, 4096),
    ];
    for (stack, layers, hidden, inner) in stacks {
        put(format!("{stack}.norm.weight"), "BF16", &[hidden]);
        for i in 0..layers {
            let layer = format!("{stack}.layers.{i}");
            put(format!("{layer}.input_layernorm.weight"), "BF16", &[hidden]);
            put(format!("{layer}.post_attention_layernorm.weight"), "BF16", &[hidden]);
            for (module, n, k) in [
                ("self_attn.q_proj", 2048, hidden),
                ("self_attn.k_proj", 256, hidden),
                ("self_attn.v_proj", 256, hidden),
                ("self_attn.o_proj", hidden, 2048),
                ("mlp.gate_proj", inner, hidden),
                ("mlp.up_proj", inner, hidden),
                ("mlp.down_proj", hidden, inner),
            ] {
                let dense = module.ends_with("v_proj") || module.ends_with("down_proj") || !stack.ends_with("_lm");
                if packed && !dense {
                    put(format!("{layer}.{module}.weight_global_scale"), "F32", &[1]);
                    put(format!("{layer}.{module}.weight_packed"), "U8", &[n, k / 2]);
                    put(format!("{layer}.{module}.weight_scale"), "F8_E4M3", &[n, k / 16]);
                } else {
                    put(format!("{layer}.{module}.weight"), "BF16", &[n, k]);
                }
            }
        }
    }
    put("base_lm.embed_tokens.weight".into(), "BF16", &[73448, 2048]);
    put("feat_encoder.special_token".into(), "BF16", &[1, 1, 1, 1024]);
    for (module, n, k) in [
        ("feat_encoder.in_proj", 1024, 64),
        ("feat_decoder.estimator.in_proj", 1024, 64),
        ("feat_decoder.estimator.cond_proj", 1024, 64),
        ("feat_decoder.estimator.out_proj", 64, 1024),
        ("feat_decoder.estimator.time_mlp.linear_1", 1024, 1024),
        ("feat_decoder.estimator.time_mlp.linear_2", 1024, 1024),
        ("feat_decoder.estimator.delta_time_mlp.linear_1", 1024, 1024),
        ("feat_decoder.estimator.delta_time_mlp.linear_2", 1024, 1024),
        ("fsq_layer.in_proj", 512, 2048),
        ("fsq_layer.out_proj", 2048, 512),
        ("enc_to_lm_proj", 2048, 1024),
        ("lm_to_dit_proj", 1024, 2048),
        ("res_to_dit_proj", 1024, 2048),
        ("fusion_concat_proj", 2048, 4096),
        ("stop_proj", 2048, 2048),
    ] {
        put(format!("{module}.weight"), "BF16", &[n, k]);
        put(format!("{module}.bias"), "BF16", &[n]);
    }
    put("stop_head.weight".into(), "BF16", &[2, 2048]);

    let folder = tempfile::tempdir().unwrap();
    let mut text = serde_json::to_vec(&header).unwrap();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut file = std::fs::File::create(folder.path().join("model.safetensors")).unwrap();
    file.write_all(&(text.len() as u64).to_le_bytes()).unwrap();
    file.write_all(&text).unwrap();
    file.set_len((8 + text.len() + end) as u64).unwrap();
    let config = json!({
        "architecture": "voxcpm2", "patch_size": 4, "feat_dim": 64, "residual_lm_num_layers": 8, "max_length": 8192,
        "lm_config": {"hidden_size": 2048, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 2,
                      "kv_channels": 128},
        "audio_vae_config": {"sample_rate": 16000, "out_sample_rate": 48000, "encoder_rates": [2, 5, 8, 8]},
    });
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    folder
}

#[test]
fn the_published_voxcpm2_has_180_packed_matrices() {
    let folder = published(true);
    let checkpoint = Checkpoint::open(Source::Folder(folder.path().into())).unwrap();
    contains(
        &printed(&checkpoint, false, false),
        &[
            "NVFP4 (compressed-tensors); 180 matrices, 1.23 G of 2.29 G parameters, at 4.5 bits",
            "`base_lm.layers.{0..27}.mlp.down_proj`, `base_lm.layers.{0..27}.self_attn.v_proj`",
            "weights only (W4A16): no input scales",
            "in memory: 2.82 GB of weights",
            "context: 36.9 kB of keys and values per position",
        ],
    );
    let facts = Facts::gather(&checkpoint, None, false);
    // The bytes of both published files, headers aside.
    assert_eq!(facts.bytes, 2_816_436_048);
    let folder = published(false);
    let checkpoint = Checkpoint::open(Source::Folder(folder.path().into())).unwrap();
    let facts = Facts::gather(&checkpoint, None, false);
    assert_eq!((facts.bytes, facts.packed_matrices), (4_580_009_088, 0));
}

#[test]
fn json_and_tensors_hold_everything() {
    let text = printed(&fixture("tinyaya-nvfp4"), true, true);
    assert_eq!(text.lines().count(), 1);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["v"], &value["layout"]), (&json!(1), &json!("TinyAya")));
    let tensors = value["tensors"].as_array().unwrap();
    assert_eq!(value["bytes"].as_u64(), Some(tensors.iter().filter_map(|t| t["bytes"].as_u64()).sum::<u64>()));
    let scalar = tensors.iter().find(|t| t["name"] == "model.layers.0.mlp.down_proj.weight_scale_2").unwrap();
    assert_eq!((&scalar["dtype"], &scalar["shape"]), (&json!("F32"), &json!([])));

    let listed = printed(&fixture("tinyaya-nvfp4"), false, true);
    contains(&listed, &["codec/decoder.layers.0.conv.weight", "F8_E4M3", "codec/model.safetensors"]);
    let brief: Value = serde_json::from_str(&printed(&fixture("tinyaya-nvfp4"), true, false)).unwrap();
    assert!(brief.get("tensors").is_none());
}
