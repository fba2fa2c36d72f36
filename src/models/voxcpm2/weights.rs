//! The tensor contract of VoxCPM2: every tensor by name and shape (specification 1.3 and 1.4). Which matrices are packed is
//! decided tensor by tensor; the codec has a contract of its own.

use super::config::{Config, Shape};
use crate::checkpoint::Contract;
use crate::matrix::{Matrix, PlainMatrix};

/// Everything but the codec, as the checkpoint holds it.
pub struct Weights {
    /// Text embedding. `[V, H]`
    pub embedding: PlainMatrix,
    /// Plans the speech.
    pub base: Stack,
    /// Adds acoustic detail.
    pub residual: Stack,
    /// A patch becomes one embedding.
    pub encoder: Encoder,
    /// Estimates velocities.
    pub decoder: Decoder,
    /// Into the scalar quantisation. `[F, H]`
    pub fsq_in: Biased,
    /// Out of it. `[H, F]`
    pub fsq_out: Biased,
    /// From LocEnc to the language models. `[H, He]`
    pub enc_to_lm: Biased,
    /// From the base model to LocDiT. `[Hd, H]`
    pub lm_to_dit: Biased,
    /// From the residual model to LocDiT. `[Hd, H]`
    pub res_to_dit: Biased,
    /// Plan and patch into the residual model. `[H, 2 H]`
    pub fusion: Biased,
    /// `[H, H]`
    pub stop_inner: Biased,
    /// `[2, H]`
    pub stop_outer: Matrix,
}

/// A matrix and its bias.
pub struct Biased {
    /// `[N, K]`
    pub matrix: Matrix,
    /// `[N]`
    pub bias: Vec<f32>,
}

/// One transformer stack.
pub struct Stack {
    /// In order.
    pub layers: Vec<Layer>,
    /// Gain of the last norm. `[H]`
    pub norm: Vec<f32>,
}

/// Attention and MLP, each behind a norm.
pub struct Layer {
    /// `[H]`
    pub attention_norm: Vec<f32>,
    /// `[Nh * D, H]`
    pub q: Matrix,
    /// `[Nkv * D, H]`
    pub k: Matrix,
    /// `[Nkv * D, H]`
    pub v: Matrix,
    /// `[H, Nh * D]`
    pub o: Matrix,
    /// `[H]`
    pub mlp_norm: Vec<f32>,
    /// `[I, H]`
    pub gate: Matrix,
    /// `[I, H]`
    pub up: Matrix,
    /// `[H, I]`
    pub down: Matrix,
}

/// LocEnc.
pub struct Encoder {
    /// The token whose last state stands for the patch. `[He]`
    pub special: Vec<f32>,
    /// `[He, latent]`
    pub input: Biased,
    /// The layers.
    pub stack: Stack,
}

/// LocDiT.
pub struct Decoder {
    /// The noisy patch. `[Hd, latent]`
    pub input: Biased,
    /// The patch before. `[Hd, latent]`
    pub cond: Biased,
    /// `[latent, Hd]`
    pub output: Biased,
    /// Of the solver's time.
    pub time: [Biased; 2],
    /// Of the solver's step, which is always zero.
    pub delta: [Biased; 2],
    /// The layers.
    pub stack: Stack,
}

impl Weights {
    /// Asks the contract for everything; problems are collected there.
    pub fn ask(c: &mut Contract<'_>, config: &Config) -> Self {
        c.ignore("*.rotary_emb.*");
        c.ignore("*.rope_emb.*");
        let (h, he, hd) = (config.base.hidden, config.encoder.hidden, config.decoder.hidden);
        let (latent, quantised) = (config.latent, config.quantised);
        let estimator = "feat_decoder.estimator";
        let mlp = |c: &mut Contract<'_>, name: &str| {
            [1, 2].map(|i| Biased::ask(c, &format!("{estimator}.{name}.linear_{i}"), hd, hd))
        };
        let (time, delta) = (mlp(c, "time_mlp"), mlp(c, "delta_time_mlp"));
        Self {
            embedding: c.plain("base_lm.embed_tokens.weight", config.vocabulary, h),
            base: Stack::ask(c, "base_lm", &config.base),
            residual: Stack::ask(c, "residual_lm", &config.residual),
            encoder: Encoder {
                special: c.values("feat_encoder.special_token", &[1, 1, 1, he]),
                input: Biased::ask(c, "feat_encoder.in_proj", he, latent),
                stack: Stack::ask(c, "feat_encoder.encoder", &config.encoder),
            },
            decoder: Decoder {
                input: Biased::ask(c, &format!("{estimator}.in_proj"), hd, latent),
                cond: Biased::ask(c, &format!("{estimator}.cond_proj"), hd, latent),
                output: Biased::ask(c, &format!("{estimator}.out_proj"), latent, hd),
                time,
                delta,
                stack: Stack::ask(c, &format!("{estimator}.decoder"), &config.decoder),
            },
            fsq_in: Biased::ask(c, "fsq_layer.in_proj", quantised, h),
            fsq_out: Biased::ask(c, "fsq_layer.out_proj", h, quantised),
            enc_to_lm: Biased::ask(c, "enc_to_lm_proj", h, he),
            lm_to_dit: Biased::ask(c, "lm_to_dit_proj", hd, h),
            res_to_dit: Biased::ask(c, "res_to_dit_proj", hd, h),
            fusion: Biased::ask(c, "fusion_concat_proj", h, 2 * h),
            stop_inner: Biased::ask(c, "stop_proj", h, h),
            stop_outer: c.matrix("stop_head", 2, h),
        }
    }
}

impl Biased {
    fn ask(c: &mut Contract<'_>, module: &str, n: usize, k: usize) -> Self {
        Self { matrix: c.matrix(module, n, k), bias: c.values(&format!("{module}.bias"), &[n]) }
    }
}

impl Stack {
    fn ask(c: &mut Contract<'_>, prefix: &str, shape: &Shape) -> Self {
        let (h, inner) = (shape.hidden, shape.inner);
        let (q, kv) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
        let layers = (0..shape.layers)
            .map(|i| {
                let p = format!("{prefix}.layers.{i}");
                Layer {
                    attention_norm: c.values(&format!("{p}.input_layernorm.weight"), &[h]),
                    q: c.matrix(&format!("{p}.self_attn.q_proj"), q, h),
                    k: c.matrix(&format!("{p}.self_attn.k_proj"), kv, h),
                    v: c.matrix(&format!("{p}.self_attn.v_proj"), kv, h),
                    o: c.matrix(&format!("{p}.self_attn.o_proj"), h, q),
                    mlp_norm: c.values(&format!("{p}.post_attention_layernorm.weight"), &[h]),
                    gate: c.matrix(&format!("{p}.mlp.gate_proj"), inner, h),
                    up: c.matrix(&format!("{p}.mlp.up_proj"), inner, h),
                    down: c.matrix(&format!("{p}.mlp.down_proj"), h, inner),
                }
            })
            .collect();
        Self { layers, norm: c.values(&format!("{prefix}.norm.weight"), &[h]) }
    }
}
