//! Tokens per second and resident memory of a full-size TinyAya checkpoint with random weights, on the CPU.
//!
//! `cargo bench --bench full_size [-- nvfp4|bf16] [SLOTS]` writes the checkpoint once under the target folder (2.9 GB for
//! NVFP4, 6.9 GB for BF16) in the real layout: names, shapes, dtypes and vocabulary of rumik-oss-1. Its stop head never
//! fires, so a run measures just the steps it asks for. The floor is the bytes a step must read (1.651 GB for NVFP4,
//! 5.694 GB for BF16, and the caches) over the read bandwidth that `cargo bench --bench linear` prints.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rtts::checkpoint::{Checkpoint, Source};
use rtts::compute::cpu::Cpu;
use rtts::models::{self, Options, Utterance};
use serde_json::{Map, Value, json};

const HIDDEN: usize = 2048;
const LAYERS: usize = 36;
const INNER: usize = 11008;
const KV: usize = 512;
const VOCABULARY: usize = 277_404;
const FIRST_UNIT: usize = 261_008;
const CODES: usize = 2048;
const QUANTIZERS: usize = 8;
const STEPS: usize = 24;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let nvfp4 = !words.iter().any(|w| w == "bf16");
    let slots = words.iter().find_map(|w| w.parse().ok()).unwrap_or(1);
    let folder = checkpoint(nvfp4);

    let begin = Instant::now();
    let checkpoint = Checkpoint::open(Source::Folder(folder)).unwrap();
    let options = Options { slots, ..Options::default() };
    let mut speaker = models::load(&checkpoint, Cpu::new(None).unwrap(), &options).unwrap();
    println!("{}: loaded in {:.1} s, {}", speaker.device(), begin.elapsed().as_secs_f64(), resident());

    let begin = Instant::now();
    for slot in 0..slots {
        let text = "The library opens at nine and closes at six, and on Sundays it stays closed all day long.";
        speaker.admit(slot, &Utterance { text: text.into(), seed: slot as u64, ..Utterance::default() }).unwrap();
    }
    println!("prefill of {slots} prompts in {:.2} s", begin.elapsed().as_secs_f64());

    let live: Vec<usize> = (0..slots).collect();
    speaker.step(&live).unwrap();
    let begin = Instant::now();
    for _ in 0..STEPS {
        speaker.step(&live).unwrap();
    }
    let seconds = begin.elapsed().as_secs_f64();
    let (step, rate) = (1000.0 * seconds / STEPS as f64, (STEPS * slots) as f64 / seconds);
    println!("{slots} slots: {step:.0} ms a step, {rate:.2} tokens/s, {}", resident());
}

/// The process's largest resident memory so far, in words.
fn resident() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("unknown");
    format!("peak resident memory {}", peak.trim())
}

/// The folder of the random checkpoint, written where it is missing.
fn checkpoint(nvfp4: bool) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = target.join(if nvfp4 { "random-tinyaya-nvfp4" } else { "random-tinyaya-bf16" });
    if folder.join("complete").exists() {
        return folder;
    }
    println!("writing {}", folder.display());
    fs::create_dir_all(folder.join("codec")).unwrap();
    fs::write(folder.join("config.json"), config().to_string()).unwrap();
    fs::write(folder.join("tokenizer.json"), tokenizer().to_string()).unwrap();
    fs::write(folder.join("codec/config.json"), codec_config().to_string()).unwrap();
    write_safetensors(&folder.join("model.safetensors"), &backbone(nvfp4));
    write_safetensors(&folder.join("codec/model.safetensors"), &codec());
    fs::write(folder.join("complete"), "").unwrap();
    folder
}

/// A tensor to fill.
struct Wanted {
    name: String,
    dtype: &'static str,
    shape: Vec<usize>,
}

impl Wanted {
    fn new(name: impl Into<String>, dtype: &'static str, shape: &[usize]) -> Self {
        Self { name: name.into(), dtype, shape: shape.to_vec() }
    }

    fn bytes(&self) -> usize {
        let value = match self.dtype {
            "F32" => 4,
            "BF16" => 2,
            _ => 1,
        };
        self.shape.iter().product::<usize>() * value
    }

    /// Eight bytes of the tensor: small plausible numbers, from eight random ones.
    fn fill(&self, random: [u8; 8]) -> [u8; 8] {
        let small = |byte: u8| (f32::from(byte) - 127.5) * 2e-4;
        let value = |byte: u8| match self.name.as_str() {
            "stop_predictor.3.bias" => -100.0,
            name if name.contains("norm") => 1.0 + small(byte),
            name if name.ends_with("cluster_usage") => 1.0,
            _ if self.shape.is_empty() => 1e-3,
            _ => small(byte),
        };
        let mut out = random;
        match self.dtype {
            "F8_E4M3" => out.iter_mut().for_each(|b| *b = 0x30 + (*b & 7)),
            "F32" => {
                out.chunks_exact_mut(4).zip(random).for_each(|(o, r)| o.copy_from_slice(&value(r).to_le_bytes()));
            }
            "BF16" => out
                .chunks_exact_mut(2)
                .zip(random)
                .for_each(|(o, r)| o.copy_from_slice(&half::bf16::from_f32(value(r)).to_le_bytes())),
            _ => {}
        }
        out
    }
}

fn backbone(nvfp4: bool) -> Vec<Wanted> {
    let mut out: Vec<Wanted> = [
        ("model.embed_tokens.weight", vec![VOCABULARY, HIDDEN]),
        ("model.norm.weight", vec![HIDDEN]),
        ("stop_predictor.0.weight", vec![HIDDEN]),
        ("stop_predictor.0.bias", vec![HIDDEN]),
        ("stop_predictor.1.weight", vec![HIDDEN / 4, HIDDEN]),
        ("stop_predictor.1.bias", vec![HIDDEN / 4]),
        ("stop_predictor.3.weight", vec![1, HIDDEN / 4]),
        ("stop_predictor.3.bias", vec![1]),
    ]
    .into_iter()
    .map(|(name, shape)| Wanted::new(name, "BF16", &shape))
    .collect();
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
        out.push(Wanted::new(format!("model.layers.{i}.input_layernorm.weight"), "BF16", &[HIDDEN]));
        for (name, n, k) in linears {
            let x = format!("model.layers.{i}.{name}");
            if nvfp4 {
                out.push(Wanted::new(format!("{x}.weight"), "U8", &[n, k / 2]));
                out.push(Wanted::new(format!("{x}.weight_scale"), "F8_E4M3", &[n, k / 16]));
                out.push(Wanted::new(format!("{x}.weight_scale_2"), "F32", &[]));
                out.push(Wanted::new(format!("{x}.input_scale"), "F32", &[]));
            } else {
                out.push(Wanted::new(format!("{x}.weight"), "BF16", &[n, k]));
            }
        }
    }
    out
}

fn codec() -> Vec<Wanted> {
    let mut out = Vec::new();
    let mut add = |name: String, shape: &[usize]| out.push(Wanted::new(name, "F32", shape));
    for (part, books) in [("semantic", 1), ("acoustic", QUANTIZERS - 1)] {
        let p = format!("quantizer.{part}_residual_vector_quantizer");
        add(format!("{p}.output_proj.weight"), &[512, 256, 1]);
        for b in 0..books {
            add(format!("{p}.layers.{b}.codebook.embed_sum"), &[CODES, 256]);
            add(format!("{p}.layers.{b}.codebook.cluster_usage"), &[CODES]);
        }
    }
    add("upsample.conv.weight".into(), &[512, 1, 4]);
    for i in 0..8 {
        let p = format!("decoder_transformer.layers.{i}");
        for n in ["q", "k", "v", "o"] {
            add(format!("{p}.self_attn.{n}_proj.weight"), &[512, 512]);
        }
        add(format!("{p}.mlp.fc1.weight"), &[2048, 512]);
        add(format!("{p}.mlp.fc2.weight"), &[512, 2048]);
        for n in ["input_layernorm", "post_attention_layernorm"] {
            add(format!("{p}.{n}.weight"), &[512]);
            add(format!("{p}.{n}.bias"), &[512]);
        }
        add(format!("{p}.self_attn_layer_scale.scale"), &[512]);
        add(format!("{p}.mlp_layer_scale.scale"), &[512]);
    }
    let mut conv = |layer: &str, weight: &[usize], bias: usize| {
        add(format!("decoder.layers.{layer}.conv.weight"), weight);
        add(format!("decoder.layers.{layer}.conv.bias"), &[bias]);
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

/// Writes the tensors with random contents, streaming.
fn write_safetensors(path: &Path, tensors: &[Wanted]) {
    let (mut header, mut at) = (Map::new(), 0);
    for w in tensors {
        let end = at + w.bytes();
        header.insert(w.name.clone(), json!({"dtype": w.dtype, "shape": w.shape, "data_offsets": [at, end]}));
        at = end;
    }
    let mut text = Value::Object(header).to_string();
    text.push_str(&" ".repeat((8 - text.len() % 8) % 8));
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    file.write_all(&(text.len() as u64).to_le_bytes()).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut state = 0x9E37_79B9_7F4A_7C15u64; // xorshift
    for w in tensors {
        let mut left = w.bytes();
        while left > 0 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let count = left.min(8);
            file.write_all(&w.fill(state.to_le_bytes())[..count]).unwrap();
            left -= count;
        }
    }
    file.flush().unwrap();
}

fn config() -> Value {
    json!({
        "architectures": ["TinyAyaForCausalLM"], "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": INNER,
        "vocab_size": VOCABULARY, "sliding_window": 4096, "sliding_window_pattern": 4, "rope_theta": 50000.0,
        "position_embedding_type": "rope_gptj", "layer_norm_eps": 1e-5, "logit_scale": 1.0,
        "max_position_embeddings": 8192, "tie_word_embeddings": true, "hidden_act": "silu", "bos_token_id": 2,
        "num_quantizers": QUANTIZERS, "codebook_size": CODES, "frame_rate_hz": 12.5, "first_unit_id": FIRST_UNIT,
        "last_unit_id": FIRST_UNIT + QUANTIZERS * CODES - 1, "text_start_token_id": 277_392,
        "audio_start_token_id": 277_393, "audio_end_token_id": 277_394, "speakers": ["Ira", "Aisha", "Siya", "Zoya"],
    })
}

fn codec_config() -> Value {
    json!({
        "sampling_rate": 24000, "frame_rate": 12.5, "hidden_size": 512, "codebook_size": CODES, "codebook_dim": 256,
        "num_quantizers": 32, "num_hidden_layers": 8, "num_attention_heads": 8, "head_dim": 64,
        "intermediate_size": 2048, "sliding_window": 250, "rope_theta": 10000.0, "norm_eps": 1e-5, "num_filters": 64,
        "upsampling_ratios": [8, 6, 5, 4],
    })
}

/// A byte-level tokenizer without merges whose vocabulary is filled up to the real ids.
fn tokenizer() -> Value {
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
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": []},
    })
}
