//! VoxCPM2 at full size: four stacks of one kind of layer, their projections, and AudioVAE with its weights still split
//! into direction and length, as the published file has them.

use safetensors::Dtype;
use serde_json::{Map, Value, json};

use super::tensors::{Fill, Wanted};

const HIDDEN: usize = 2048;
/// Width of LocEnc and LocDiT.
const LOCAL: usize = 1024;
const VOCABULARY: usize = 73_448;
/// Latent numbers of a frame.
const LATENT: usize = 64;
/// Width of the scalar quantisation.
const QUANTISED: usize = 512;

/// Layers at a prefix: how many, how wide, how wide inside.
struct Stack {
    prefix: &'static str,
    layers: usize,
    hidden: usize,
    inner: usize,
    /// Belongs to the part that is published packed.
    language: bool,
}

const STACKS: [Stack; 4] = [
    Stack { prefix: "base_lm", layers: 28, hidden: HIDDEN, inner: 6144, language: true },
    Stack { prefix: "residual_lm", layers: 8, hidden: HIDDEN, inner: 6144, language: true },
    Stack { prefix: "feat_encoder.encoder", layers: 12, hidden: LOCAL, inner: 4096, language: false },
    Stack { prefix: "feat_decoder.estimator.decoder", layers: 12, hidden: LOCAL, inner: 4096, language: false },
];

pub fn model(packed: bool) -> Vec<Wanted> {
    let mut out = Vec::new();
    for stack in STACKS {
        layers(&stack, packed && stack.language, &mut out);
    }
    let mut weights = |name: &str, shape: &[usize]| out.push(Wanted::weights(name, Dtype::BF16, shape));
    weights("base_lm.embed_tokens.weight", &[VOCABULARY, HIDDEN]);
    weights("feat_encoder.special_token", &[1, 1, 1, LOCAL]);
    for (name, n, k) in [
        ("feat_encoder.in_proj", LOCAL, LATENT),
        ("feat_decoder.estimator.in_proj", LOCAL, LATENT),
        ("feat_decoder.estimator.cond_proj", LOCAL, LATENT),
        ("feat_decoder.estimator.out_proj", LATENT, LOCAL),
        ("feat_decoder.estimator.time_mlp.linear_1", LOCAL, LOCAL),
        ("feat_decoder.estimator.time_mlp.linear_2", LOCAL, LOCAL),
        ("feat_decoder.estimator.delta_time_mlp.linear_1", LOCAL, LOCAL),
        ("feat_decoder.estimator.delta_time_mlp.linear_2", LOCAL, LOCAL),
        ("fsq_layer.in_proj", QUANTISED, HIDDEN),
        ("fsq_layer.out_proj", HIDDEN, QUANTISED),
        ("enc_to_lm_proj", HIDDEN, LOCAL),
        ("lm_to_dit_proj", LOCAL, HIDDEN),
        ("res_to_dit_proj", LOCAL, HIDDEN),
        ("fusion_concat_proj", HIDDEN, 2 * HIDDEN),
    ] {
        weights(&format!("{name}.weight"), &[n, k]);
        weights(&format!("{name}.bias"), &[n]);
    }
    weights("stop_proj.weight", &[HIDDEN, HIDDEN]);
    // Everything that reaches the stop head is positive, and only "go on" likes that.
    out.push(Wanted::new("stop_proj.bias", Dtype::BF16, &[HIDDEN], Fill::All(8.0)));
    out.push(Wanted::new("stop_head.weight", Dtype::BF16, &[2, HIDDEN], Fill::FirstRow(0.01, -0.01)));
    out
}

fn layers(stack: &Stack, packed: bool, out: &mut Vec<Wanted>) {
    let Stack { prefix, hidden, inner, .. } = *stack;
    let ones = |name: String| Wanted::new(name, Dtype::BF16, &[hidden], Fill::All(1.0));
    let heads = 16 * 128;
    let kv = 2 * 128;
    for i in 0..stack.layers {
        let x = format!("{prefix}.layers.{i}");
        out.push(ones(format!("{x}.input_layernorm.weight")));
        out.push(ones(format!("{x}.post_attention_layernorm.weight")));
        for (name, n, k, packs) in [
            ("self_attn.q_proj", heads, hidden, true),
            ("self_attn.k_proj", kv, hidden, true),
            ("self_attn.v_proj", kv, hidden, false),
            ("self_attn.o_proj", hidden, heads, true),
            ("mlp.gate_proj", inner, hidden, true),
            ("mlp.up_proj", inner, hidden, true),
            ("mlp.down_proj", hidden, inner, false),
        ] {
            if packed && packs {
                out.push(Wanted::new(format!("{x}.{name}.weight_packed"), Dtype::U8, &[n, k / 2], Fill::Codes));
                out.push(Wanted::new(format!("{x}.{name}.weight_scale"), Dtype::F8_E4M3, &[n, k / 16], Fill::Scales));
                out.push(Wanted::new(format!("{x}.{name}.weight_global_scale"), Dtype::F32, &[1], Fill::All(1e3)));
            } else {
                out.push(Wanted::weights(format!("{x}.{name}.weight"), Dtype::BF16, &[n, k]));
            }
        }
    }
    out.push(ones(format!("{prefix}.norm.weight")));
}

pub fn audiovae() -> Vec<Wanted> {
    let mut out = Vec::new();
    encoder(&mut out);
    decoder(&mut out);
    out
}

/// A convolution whose weights come as direction and length; the length has one value for each of the first axis.
fn conv(out: &mut Vec<Wanted>, name: &str, v: [usize; 3], bias: usize) {
    out.push(Wanted::new(format!("{name}.weight_g"), Dtype::F32, &[v[0], 1, 1], Fill::All(0.5)));
    out.push(Wanted::weights(format!("{name}.weight_v"), Dtype::F32, &v));
    out.push(Wanted::weights(format!("{name}.bias"), Dtype::F32, &[bias]));
}

fn alpha(out: &mut Vec<Wanted>, name: &str, channels: usize) {
    out.push(Wanted::new(format!("{name}.alpha"), Dtype::F32, &[1, channels, 1], Fill::All(1.0)));
}

/// snake, depthwise, snake, pointwise; with a detour around all four.
fn unit(out: &mut Vec<Wanted>, name: &str, channels: usize) {
    alpha(out, &format!("{name}.block.0"), channels);
    conv(out, &format!("{name}.block.1"), [channels, 1, 7], channels);
    alpha(out, &format!("{name}.block.2"), channels);
    conv(out, &format!("{name}.block.3"), [channels, channels, 1], channels);
}

fn encoder(out: &mut Vec<Wanted>) {
    conv(out, "encoder.block.0", [128, 1, 7], 128);
    let mut channels = 128;
    for (n, stride) in [2, 5, 8, 8].into_iter().enumerate() {
        let block = format!("encoder.block.{}.block", n + 1);
        (0..3).for_each(|u| unit(out, &format!("{block}.{u}"), channels));
        alpha(out, &format!("{block}.3"), channels);
        conv(out, &format!("{block}.4"), [2 * channels, channels, 2 * stride], 2 * channels);
        channels *= 2;
    }
    conv(out, "encoder.fc_mu", [LATENT, channels, 3], LATENT);
    conv(out, "encoder.fc_logvar", [LATENT, channels, 3], LATENT);
}

fn decoder(out: &mut Vec<Wanted>) {
    conv(out, "decoder.model.0", [LATENT, 1, 7], LATENT);
    conv(out, "decoder.model.1", [2048, LATENT, 1], 2048);
    let mut channels = 2048;
    for (m, stride) in (2..).zip([8, 6, 5, 2, 2, 2]) {
        let block = format!("decoder.model.{m}.block");
        alpha(out, &format!("{block}.0"), channels);
        conv(out, &format!("{block}.1"), [channels, channels / 2, 2 * stride], channels / 2);
        let condition = format!("decoder.sr_cond_model.{m}");
        out.push(Wanted::new(format!("{condition}.scale_embed.weight"), Dtype::F32, &[4, channels], Fill::All(1.0)));
        out.push(Wanted::weights(format!("{condition}.bias_embed.weight"), Dtype::F32, &[4, channels]));
        channels /= 2;
        (2..5).for_each(|u| unit(out, &format!("{block}.{u}"), channels));
    }
    alpha(out, "decoder.model.8", channels);
    conv(out, "decoder.model.9", [1, channels, 7], 1);
    let boundaries = Fill::Integers(&[20_000, 30_000, 40_000]);
    out.push(Wanted::new("decoder.sr_bin_boundaries", Dtype::I32, &[3], boundaries));
}

pub fn config() -> Value {
    // What LongRoPE multiplies with takes the same time whatever it is.
    let factors = vec![1.0; 64];
    let local = json!({"hidden_dim": LOCAL, "ffn_dim": 4096, "num_heads": 16, "num_layers": 12, "kv_channels": 128});
    let mut decoder = local.clone();
    decoder["mean_mode"] = json!(false);
    decoder["cfm_config"] =
        json!({"sigma_min": 1e-6, "solver": "euler", "t_scheduler": "log-norm", "inference_cfg_rate": 2.0});
    json!({
        "architecture": "voxcpm2",
        "lm_config": {
            "bos_token_id": 1, "eos_token_id": 2, "hidden_size": HIDDEN, "intermediate_size": 6144,
            "max_position_embeddings": 32768, "num_attention_heads": 16, "num_hidden_layers": 28,
            "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000, "kv_channels": 128,
            "rope_scaling": {"type": "longrope", "long_factor": factors, "short_factor": factors,
                             "original_max_position_embeddings": 32768},
            "vocab_size": VOCABULARY, "use_mup": false, "scale_emb": 12, "dim_model_base": 256, "scale_depth": 1.4,
        },
        "patch_size": 4, "feat_dim": LATENT, "scalar_quantization_latent_dim": QUANTISED,
        "scalar_quantization_scale": 9, "residual_lm_num_layers": 8, "residual_lm_no_rope": true,
        "encoder_config": local, "dit_config": decoder,
        "audio_vae_config": {
            "encoder_dim": 128, "encoder_rates": [2, 5, 8, 8], "latent_dim": LATENT, "decoder_dim": 2048,
            "decoder_rates": [8, 6, 5, 2, 2, 2], "sr_bin_boundaries": [20000, 30000, 40000], "sample_rate": 16000,
            "out_sample_rate": 48000,
        },
        "max_length": 8192, "device": "cuda", "dtype": "bfloat16",
    })
}

/// A tokenizer that spells every text in bytes, with the control tokens in their rows and the rest filled up.
pub fn tokenizer() -> Value {
    let controls = [
        "<|audio_start|>",
        "<|audio_end|>",
        "<|ref_audio_start|>",
        "<|ref_audio_end|>",
        "<|background|>",
        "<|/background|>",
        "<|characters|>",
        "<|/characters|>",
    ];
    let specials = ["<unk>", "<s>", "</s>"];
    let mut bytes = (0..=255_u8).map(|byte| format!("<0x{byte:02X}>"));
    let vocabulary: Map<String, Value> = (0..VOCABULARY)
        .map(|id| {
            let text = match id {
                0..3 => specials[id].to_owned(),
                101..109 => controls[id - 101].to_owned(),
                _ => bytes.next().unwrap_or_else(|| format!("filler{id}")),
            };
            (text, json!(id))
        })
        .collect();
    let added: Vec<Value> = specials
        .iter()
        .enumerate()
        .map(|(id, content)| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": true})
        })
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u{2581}"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}]},
        "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "ByteFallback"},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
                  "vocab": vocabulary, "merges": []},
    })
}
