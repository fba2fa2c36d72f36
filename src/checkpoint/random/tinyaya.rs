//! rumik-oss-1 at full size: 36 layers of Cohere2 with a stop head, and Mimi's decoder.
//!
//! Tokens at random would hardly ever make a frame, as a frame is eight units in the order of their quantizers, and the
//! codec would have nothing to do. So a few numbers are not random: the embedding of quantizer q's units holds 1 in the
//! columns q and 8 + q; the first MLP, of which rows 0 to 7 look at column q alone, writes a large number to column
//! 8 + (q + 1) mod 8; and the head, which is the embedding again, then finds the units of the next quantizer far likelier
//! than everything else. `<audio>` counts as the last quantizer.

use safetensors::Dtype;
use serde_json::{Map, Value, json};

use super::tensors::{Fill, Touch, Wanted};

const HIDDEN: usize = 2048;
const LAYERS: usize = 36;
const INNER: usize = 11008;
const KV: usize = 512;
const VOCABULARY: usize = 277_404;
const FIRST_UNIT: usize = 261_008;
const CODES: usize = 2048;
const QUANTIZERS: usize = 8;
/// `<audio>`
const AUDIO: usize = 277_393;
/// Bytes of a row of the embedding.
const ROW: usize = 2 * HIDDEN;

/// Says of units which quantizer they are of.
fn mark_units(from: usize, out: &mut [u8]) {
    for (i, row) in out.chunks_exact_mut(ROW).enumerate() {
        let id = from / ROW + i;
        let quantizer = match id {
            AUDIO => QUANTIZERS - 1,
            _ if (FIRST_UNIT..FIRST_UNIT + CODES * QUANTIZERS).contains(&id) => (id - FIRST_UNIT) % QUANTIZERS,
            _ => continue,
        };
        put(row, quantizer, 1.0);
        // What `<audio>` is followed by is said by column q alone; it is never to follow itself.
        put(row, QUANTIZERS + quantizer, if id == AUDIO { 0.0 } else { 1.0 });
    }
}

fn put(row: &mut [u8], column: usize, value: f32) {
    row[2 * column..][..2].copy_from_slice(&half::bf16::from_f32(value).to_le_bytes());
}

/// Row q of gate and up looks at column q alone. BF16 `[INNER, HIDDEN]`
fn look(from: usize, out: &mut [u8]) {
    if from == 0 {
        for (q, row) in out.chunks_exact_mut(ROW).take(QUANTIZERS).enumerate() {
            row.fill(0);
            put(row, q, 1.0);
        }
    }
}

/// Column q of the first `2 * QUANTIZERS` rows writes to row `8 + (q + 1) mod 8` alone. BF16 `[HIDDEN, INNER]`
fn write(from: usize, out: &mut [u8]) {
    if from == 0 {
        for (n, row) in out.chunks_exact_mut(2 * INNER).take(2 * QUANTIZERS).enumerate() {
            (0..QUANTIZERS).for_each(|q| put(row, q, if n == next(q) { 1.0 } else { 0.0 }));
        }
    }
}

/// The row that stands for the quantizer after q.
fn next(q: usize) -> usize {
    QUANTIZERS + (q + 1) % QUANTIZERS
}

/// [`look`] in E2M1 codes.
fn look_codes(from: usize, out: &mut [u8]) {
    if from == 0 {
        for (q, row) in out.chunks_exact_mut(HIDDEN / 2).take(QUANTIZERS).enumerate() {
            row.fill(0);
            row[q / 2] = SIX[q % 2];
        }
    }
}

/// [`write`] in E2M1 codes.
fn write_codes(from: usize, out: &mut [u8]) {
    if from == 0 {
        for (n, row) in out.chunks_exact_mut(INNER / 2).take(2 * QUANTIZERS).enumerate() {
            // The whole block of 16 columns, whose scale is large.
            row[..8].fill(0);
            (0..QUANTIZERS).filter(|q| n == next(*q)).for_each(|q| row[q / 2] = SIX[q % 2]);
        }
    }
}

/// The code of 6 in the first and in the second place of a byte.
const SIX: [u8; 2] = [0x07, 0x70];

/// The scale of the first block is the largest that E4M3 has: 448. `[INNER, HIDDEN / 16]`
fn look_scales(from: usize, out: &mut [u8]) {
    large(from, HIDDEN, QUANTIZERS, out);
}

/// The same. `[HIDDEN, INNER / 16]`
fn write_scales(from: usize, out: &mut [u8]) {
    large(from, INNER, 2 * QUANTIZERS, out);
}

fn large(from: usize, k: usize, rows: usize, out: &mut [u8]) {
    if from == 0 {
        out.chunks_exact_mut(k / 16).take(rows).for_each(|row| row[0] = 0x7e);
    }
}

pub fn backbone(packed: bool) -> Vec<Wanted> {
    let bf16 = |name: &str, shape: &[usize]| Wanted::weights(name, Dtype::BF16, shape);
    let ones = |name: String| Wanted::new(name, Dtype::BF16, &[HIDDEN], Fill::All(1.0));
    let mut out = vec![
        bf16("model.embed_tokens.weight", &[VOCABULARY, HIDDEN]).touched(mark_units),
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
            let [plain, codes, scales]: [Touch; 3] = match name {
                _ if i > 0 => [untouched; 3],
                "mlp.gate_proj" | "mlp.up_proj" => [look, look_codes, look_scales],
                "mlp.down_proj" => [write, write_codes, write_scales],
                _ => [untouched; 3],
            };
            if packed {
                let tensor =
                    |end: &str, dtype, shape: &[usize], fill| Wanted::new(format!("{x}.{end}"), dtype, shape, fill);
                out.push(tensor("weight", Dtype::U8, &[n, k / 2], Fill::Codes).touched(codes));
                out.push(tensor("weight_scale", Dtype::F8_E4M3, &[n, k / 16], Fill::Scales).touched(scales));
                out.push(tensor("weight_scale_2", Dtype::F32, &[], Fill::All(1e-3)));
                out.push(tensor("input_scale", Dtype::F32, &[], Fill::All(1e-3)));
            } else {
                out.push(Wanted::weights(format!("{x}.weight"), Dtype::BF16, &[n, k]).touched(plain));
            }
        }
    }
    out
}

fn untouched(_from: usize, _out: &mut [u8]) {}

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
        "audio_start_token_id": AUDIO, "audio_end_token_id": 277_394, "speakers": ["Random"],
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
