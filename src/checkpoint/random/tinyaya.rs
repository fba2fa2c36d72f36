//! rumik-oss-1 at full size: 36 layers of Cohere2 with a stop head, and Mimi's decoder.

use safetensors::Dtype;
use serde_json::{Map, Value, json};

use super::tensors::{Fill, Wanted};

const HIDDEN: usize = 2048;
const LAYERS: usize = 36;
const INNER: usize = 11008;
const KV: usize = 512;
const VOCABULARY: usize = 277_404;
const FIRST_UNIT: usize = 261_008;
const CODES: usize = 2048;
const QUANTIZERS: usize = 8;

pub fn backbone(packed: bool) -> Vec<Wanted> {
    let bf16 = |name: &str, shape: &[usize]| Wanted::weights(name, Dtype::BF16, shape);
    let ones = |name: String| Wanted::new(name, Dtype::BF16, &[HIDDEN], Fill::All(1.0));
    let mut out = vec![
        bf16("model.embed_tokens.weight", &[VOCABULARY, HIDDEN]),
        ones("model.norm.weight".into()),
        ones("stop_predictor.0.weight".into()),
        bf16("stop_predictor.0.bias", &[HIDDEN]),
        bf16("stop_predictor.1.weight", &[HIDDEN / 4, HIDDEN]),
        bf16("stop_predictor.1.bias", &[HIDDEN / 4]),
        bf16("stop_predictor.3.weight", &[1, HIDDEN / 4]),
        // Never: the rest of the sum is far smaller.
        Wanted::new("stop_predictor.3.bias", Dtype::BF16, &[1], Fill::All(-100.0)),
    ];
    let linears = [
        ("self_attn.q_proj", HIDDEN, HIDDEN),
        ("self_attn.k_proj", KV, HIDDEN),
        ("self_attn.v_proj", KV, HIDDEN),
        ("self_attn.o_proj", HIDDEN, HIDDEN),
        ("mlp.gate_proj", INNER, HIDDEN),
        ("mlp.up_proj", INNER, HIDDEN),
        ("mlp.down_proj", HIDDEN, INNER),
    ];
    for i in 0..LAYERS {
        out.push(ones(format!("model.layers.{i}.input_layernorm.weight")));
        for (name, n, k) in linears {
            let x = format!("model.layers.{i}.{name}");
            if packed {
                out.push(Wanted::new(format!("{x}.weight"), Dtype::U8, &[n, k / 2], Fill::Codes));
                out.push(Wanted::new(format!("{x}.weight_scale"), Dtype::F8_E4M3, &[n, k / 16], Fill::Scales));
                out.push(Wanted::new(format!("{x}.weight_scale_2"), Dtype::F32, &[], Fill::All(1e-3)));
                out.push(Wanted::new(format!("{x}.input_scale"), Dtype::F32, &[], Fill::All(1e-3)));
            } else {
                out.push(Wanted::weights(format!("{x}.weight"), Dtype::BF16, &[n, k]));
            }
        }
    }
    out
}

pub fn codec() -> Vec<Wanted> {
    let mut out = Vec::new();
    let mut add = |name: String, shape: &[usize], fill: Fill| out.push(Wanted::new(name, Dtype::F32, shape, fill));
    for (part, books) in [("semantic", 1), ("acoustic", QUANTIZERS - 1)] {
        let p = format!("quantizer.{part}_residual_vector_quantizer");
        add(format!("{p}.output_proj.weight"), &[512, 256, 1], Fill::Weights);
        for b in 0..books {
            add(format!("{p}.layers.{b}.codebook.embed_sum"), &[CODES, 256], Fill::Weights);
            add(format!("{p}.layers.{b}.codebook.cluster_usage"), &[CODES], Fill::All(1.0));
        }
    }
    add("upsample.conv.weight".into(), &[512, 1, 4], Fill::Weights);
    for i in 0..8 {
        let p = format!("decoder_transformer.layers.{i}");
        for n in ["q", "k", "v", "o"] {
            add(format!("{p}.self_attn.{n}_proj.weight"), &[512, 512], Fill::Weights);
        }
        add(format!("{p}.mlp.fc1.weight"), &[2048, 512], Fill::Weights);
        add(format!("{p}.mlp.fc2.weight"), &[512, 2048], Fill::Weights);
        for n in ["input_layernorm", "post_attention_layernorm"] {
            add(format!("{p}.{n}.weight"), &[512], Fill::All(1.0));
            add(format!("{p}.{n}.bias"), &[512], Fill::Weights);
        }
        add(format!("{p}.self_attn_layer_scale.scale"), &[512], Fill::All(0.01));
        add(format!("{p}.mlp_layer_scale.scale"), &[512], Fill::All(0.01));
    }
    let mut conv = |layer: &str, weight: &[usize], bias: usize| {
        add(format!("decoder.layers.{layer}.conv.weight"), weight, Fill::Weights);
        add(format!("decoder.layers.{layer}.conv.bias"), &[bias], Fill::Weights);
    };
    conv("0", &[1024, 512, 7], 1024);
    let mut channels = 1024;
    for (i, r) in [8, 6, 5, 4].into_iter().enumerate() {
        let half = channels / 2;
        conv(&(3 * i + 2).to_string(), &[channels, half, 2 * r], half);
        conv(&format!("{}.block.1", 3 * i + 3), &[half / 2, half, 3], half / 2);
        conv(&format!("{}.block.3", 3 * i + 3), &[half, half / 2, 1], half);
        channels = half;
    }
    conv("14", &[1, 64, 3], 1);
    out
}

pub fn config() -> Value {
    json!({
        "architectures": ["TinyAyaForCausalLM"], "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": INNER,
        "vocab_size": VOCABULARY, "sliding_window": 4096, "sliding_window_pattern": 4, "rope_theta": 50000.0,
        "position_embedding_type": "rope_gptj", "layer_norm_eps": 1e-5, "logit_scale": 1.0,
        "max_position_embeddings": 8192, "tie_word_embeddings": true, "hidden_act": "silu", "bos_token_id": 2,
        "num_quantizers": QUANTIZERS, "codebook_size": CODES, "frame_rate_hz": 12.5, "first_unit_id": FIRST_UNIT,
        "last_unit_id": FIRST_UNIT + QUANTIZERS * CODES - 1, "text_start_token_id": 277_392,
        "audio_start_token_id": 277_393, "audio_end_token_id": 277_394, "speakers": ["Random"],
    })
}

pub fn codec_config() -> Value {
    json!({
        "sampling_rate": 24000, "frame_rate": 12.5, "hidden_size": 512, "codebook_size": CODES, "codebook_dim": 256,
        "num_quantizers": 32, "num_hidden_layers": 8, "num_attention_heads": 8, "head_dim": 64,
        "intermediate_size": 2048, "sliding_window": 250, "rope_theta": 10000.0, "norm_eps": 1e-5, "num_filters": 64,
        "upsampling_ratios": [8, 6, 5, 4],
    })
}

/// A byte-level tokenizer without merges whose vocabulary is filled up to the real ids.
pub fn tokenizer() -> Value {
    let specials = ["<PAD>", "<MASK_TOKEN>", "<BOS_TOKEN>", "<EOS_TOKEN>"];
    // The printable characters that byte-level tokenizers write bytes with.
    let bytes = (33u32..127).chain(161..173).chain(174..324).filter_map(char::from_u32).map(String::from);
    let texts: Vec<String> = specials.into_iter().map(String::from).chain(bytes).collect();
    let fillers = (texts.len()..FIRST_UNIT).map(|i| format!("filler{i}"));
    let vocabulary: Map<String, Value> =
        texts.iter().cloned().chain(fillers).enumerate().map(|(id, text)| (text, json!(id))).collect();
    let token = |id: usize, content: String| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    let units = (0..CODES * QUANTIZERS).map(|u| format!("<{}_{}>", u / QUANTIZERS, u % QUANTIZERS));
    let after = ["<text>", "<audio>", "</audio>"].into_iter().map(String::from);
    let mut added: Vec<Value> = specials.iter().enumerate().map(|(i, s)| token(i, (*s).to_string())).collect();
    added.extend(units.chain(after).enumerate().map(|(i, content)| token(FIRST_UNIT + i, content)));
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": []},
    })
}
