//! The tensor contract of a TinyAya backbone: every tensor by name and shape (specification 1.3 and 1.4).

use super::config::{AudioIds, Config};
use crate::checkpoint::Contract;
use crate::compute::stack::StackLayer;
use crate::matrix::{Matrix, PlainMatrix};

/// The backbone, the audio head and the stop head as the checkpoint holds them.
pub struct Weights {
    /// Token embedding, also the output head. `[V, H]`
    pub embedding: PlainMatrix,
    /// In order.
    pub layers: Vec<StackLayer>,
    /// Gain of the last norm. `[H]`
    pub norm: Vec<f32>,
    /// Ends the utterance.
    pub stop: StopHead,
}

/// `W3 gelu(W1 LN(f) + b1) + b3`
pub struct StopHead {
    /// `[H]`
    pub norm_gain: Vec<f32>,
    /// `[H]`
    pub norm_bias: Vec<f32>,
    /// `[S, H]`
    pub inner: Matrix,
    /// `[S]`
    pub inner_bias: Vec<f32>,
    /// `[1, S]`
    pub outer: Matrix,
    /// `[1]`
    pub outer_bias: Vec<f32>,
}

impl Weights {
    /// Asks the contract for everything; problems are collected there.
    pub fn ask(c: &mut Contract<'_>, config: &Config) -> Self {
        let (h, inner) = (config.hidden, config.inner);
        let (q, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        // Left behind by exporters, without meaning for inference.
        for glob in ["lm_head.*", "*.rotary_emb.inv_freq", "*.k_scale", "*.v_scale", "*_quantizer*"] {
            c.ignore(glob);
        }
        let layers = (0..config.windows.len())
            .map(|i| {
                let p = format!("model.layers.{i}");
                StackLayer {
                    norm: c.values(&format!("{p}.input_layernorm.weight"), &[h]),
                    q: c.matrix(&format!("{p}.self_attn.q_proj"), q, h),
                    k: c.matrix(&format!("{p}.self_attn.k_proj"), kv, h),
                    v: c.matrix(&format!("{p}.self_attn.v_proj"), kv, h),
                    o: c.matrix(&format!("{p}.self_attn.o_proj"), h, q),
                    gate: c.matrix(&format!("{p}.mlp.gate_proj"), inner, h),
                    up: c.matrix(&format!("{p}.mlp.up_proj"), inner, h),
                    down: c.matrix(&format!("{p}.mlp.down_proj"), h, inner),
                }
            })
            .collect();
        // The stop head's inner width is in no configuration: the tensor tells it.
        let width = c
            .opt_shape("stop_predictor.1.weight")
            .and_then(|shape| shape.first().copied())
            .unwrap_or_else(|| (h / 4).max(64));
        Self {
            embedding: c.plain("model.embed_tokens.weight", config.vocabulary, h),
            layers,
            norm: c.values("model.norm.weight", &[h]),
            stop: StopHead {
                norm_gain: c.values("stop_predictor.0.weight", &[h]),
                norm_bias: c.values("stop_predictor.0.bias", &[h]),
                inner: c.matrix("stop_predictor.1", width, h),
                inner_bias: c.values("stop_predictor.1.bias", &[width]),
                outer: c.matrix("stop_predictor.3", 1, width),
                outer_bias: c.values("stop_predictor.3.bias", &[1]),
            },
        }
    }

    /// The rows of the embedding that can be emitted: all units, then `</audio>`. `[Q*C + 1, H]`
    pub fn audio_head(&self, ids: &AudioIds) -> Option<[Matrix; 2]> {
        let units = self.embedding.rows(ids.first_unit as usize, ids.units())?;
        let end = self.embedding.rows(ids.end as usize, 1)?;
        Some([Matrix::Plain(units), Matrix::Plain(end)])
    }
}
