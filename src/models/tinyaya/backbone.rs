//! Cohere2 forward pass and the two heads, written against [`Compute`].
//!
//! ```text
//! x = E[ids]
//! per layer:  h = LN(x)                                one norm for both branches
//!             q|k|v|gate|up = h W                      one stacked linear
//!             x = (x + attend(rot q, rot k, v) Wo) + (silu(gate) * up) Wd
//! f = LN(x);  logits = logit_scale * f Eᵀ[audio rows]; stop = W3 gelu(W1 LNa(f) + b1) + b3
//! ```
//!
//! Sliding layers rotate q and k (interleaved pairs) and see a window; full layers use no position at all.

use super::config::{AudioIds, Config};
use super::weights::{Layer as LayerWeights, Weights};
use crate::compute::{Activations, Compute, KvSpec, Rope, Rows, View};
use crate::error::{Error, Result};
use crate::matrix::Matrix;

/// PyTorch's default, which the stop head's norm keeps.
const STOP_NORM_EPS: f32 = 1e-5;

/// The prepared backbone with its cache and working buffers.
pub struct Backbone<C: Compute> {
    config: Config,
    embedding: C::Table,
    layers: Vec<Layer<C>>,
    norm: C::Vector,
    head: C::Linear,
    stop: StopHead<C>,
    cache: C::KvCache,
    work: Work<C>,
}

struct Layer<C: Compute> {
    norm: C::Vector,
    /// q|k|v|gate|up stacked: `[(Nh + 2 Nkv) * D + 2 I, H]`
    input: C::Linear,
    o: C::Linear,
    down: C::Linear,
    rotates: bool,
}

struct StopHead<C: Compute> {
    gain: C::Vector,
    bias: C::Vector,
    inner: C::Linear, // [S, H]
    outer: C::Linear, // [1, S]
    width: usize,     // S
}

/// Buffers that live from step to step, so that a step allocates nothing.
struct Work<C: Compute> {
    x: C::Buffer,         // [R, H] residual stream
    h: C::Buffer,         // [R, H] normed
    projected: C::Buffer, // [R, (Nh + 2 Nkv) * D + 2 I]
    mixed: C::Buffer,     // [R, Nh * D]
    gated: C::Buffer,     // [R, I]
    delta: C::Buffer,     // [R, H]
    last: C::Buffer,      // [B, H] residual of the rows that predict
    hidden: C::Buffer,    // [B, H] f, the last norm's output
}

/// What the heads say about the rows that predict.
pub struct Heads<C: Compute> {
    /// `[B, Q*C + 1]`, scaled; the last column is `</audio>`.
    pub logits: C::Buffer,
    /// A row each: above zero, the utterance ends.
    pub stop: Vec<f32>,
}

impl<C: Compute> Backbone<C> {
    /// Prepares the weights for the device.
    ///
    /// # Errors
    /// What the device can refuse: memory above all.
    pub fn new(
        compute: &C,
        config: Config,
        weights: &Weights,
        ids: &AudioIds,
        slots: usize,
        activations: Activations,
    ) -> Result<Self> {
        let layers = weights
            .layers
            .iter()
            .zip(&config.windows)
            .map(|(w, window)| Layer::new(compute, w, window.is_some(), activations))
            .collect::<Result<Vec<_>>>()?;
        let head = weights
            .audio_head(ids)
            .ok_or_else(|| Error::new("the embedding does not hold the audio rows that config.json names"))?;
        let stop = &weights.stop;
        let spec = KvSpec {
            slots,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            windows: config.windows.clone(),
            max_positions: config.max_positions,
        };
        Ok(Self {
            embedding: compute.prepare_table(std::slice::from_ref(&weights.embedding))?,
            layers,
            norm: compute.prepare_vector(&weights.norm)?,
            head: compute.prepare_linear(&head, None, Activations::Full)?,
            stop: StopHead {
                gain: compute.prepare_vector(&stop.norm_gain)?,
                bias: compute.prepare_vector(&stop.norm_bias)?,
                inner: full(compute, &stop.inner, &stop.inner_bias)?,
                outer: full(compute, &stop.outer, &stop.outer_bias)?,
                width: stop.inner.n(),
            },
            cache: compute.kv_cache(&spec)?,
            work: Work {
                x: compute.buffer(),
                h: compute.buffer(),
                projected: compute.buffer(),
                mixed: compute.buffer(),
                gated: compute.buffer(),
                delta: compute.buffer(),
                last: compute.buffer(),
                hidden: compute.buffer(),
            },
            config,
        })
    }

    /// Forgets a slot.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn reset(&mut self, compute: &C, slot: usize) -> Result<()> {
        compute.reset_kv(&mut self.cache, slot)
    }

    /// Runs `ids`, one per row, and returns the heads of the last row of every segment.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn forward(&mut self, compute: &C, ids: &[u32], rows: &Rows) -> Result<Heads<C>> {
        compute.embed(&self.embedding, ids, 1, &mut self.work.x)?;
        for index in 0..self.layers.len() {
            self.layer(compute, index, rows)?;
        }
        self.heads(compute, rows)
    }

    /// f of the rows that predicted in the last call. `[B, H]`
    #[cfg(test)]
    pub fn hidden(&self) -> &C::Buffer {
        &self.work.hidden
    }

    fn layer(&mut self, compute: &C, index: usize, rows: &Rows) -> Result<()> {
        let Work { x, h, projected, mixed, gated, delta, .. } = &mut self.work;
        let layer = &self.layers[index];
        let (heads, kv_heads, inner) = (self.config.heads, self.config.kv_heads, self.config.inner);
        let (q, kv) = (heads * self.config.head_dim, kv_heads * self.config.head_dim);
        let rope: &Rope = &self.config.rope;

        compute.layer_norm(x, &layer.norm, None, self.config.eps, h)?;
        compute.linear(&layer.input, View { buffer: h, at: 0, width: self.config.hidden }, projected)?;
        if layer.rotates {
            compute.rope(projected, 0, heads, rope, rows)?;
            compute.rope(projected, q, kv_heads, rope, rows)?;
        }
        let view = |at, width| View { buffer: &*projected, at, width };
        compute.attend(&mut self.cache, index, view(0, q), view(q, kv), view(q + kv, kv), rows, mixed)?;
        compute.silu_mul(view(q + 2 * kv, inner), view(q + 2 * kv + inner, inner), gated)?;
        compute.linear(&layer.o, View { buffer: mixed, at: 0, width: q }, delta)?;
        compute.add(x, delta, None)?;
        compute.linear(&layer.down, View { buffer: gated, at: 0, width: inner }, delta)?;
        compute.add(x, delta, None)
    }

    fn heads(&mut self, compute: &C, rows: &Rows) -> Result<Heads<C>> {
        let mut end = 0;
        let predicting: Vec<usize> = rows
            .segments
            .iter()
            .map(|segment| {
                end += segment.len;
                end - 1
            })
            .collect();
        let Work { x, h, delta, last, hidden, .. } = &mut self.work;
        let width = self.config.hidden;
        let mut logits = compute.buffer();
        compute.gather(x, &predicting, last)?;
        compute.layer_norm(last, &self.norm, None, self.config.eps, hidden)?;

        compute.linear(&self.head, View { buffer: hidden, at: 0, width }, &mut logits)?;
        if self.config.logit_scale != 1.0 {
            compute.scale(&mut logits, self.config.logit_scale)?;
        }

        compute.layer_norm(hidden, &self.stop.gain, Some(&self.stop.bias), STOP_NORM_EPS, h)?;
        compute.linear(&self.stop.inner, View { buffer: h, at: 0, width }, delta)?;
        compute.gelu(delta)?;
        let mut stop = compute.buffer();
        compute.linear(&self.stop.outer, View { buffer: delta, at: 0, width: self.stop.width }, &mut stop)?;
        Ok(Heads { logits, stop: compute.read(&stop)? })
    }
}

impl<C: Compute> Layer<C> {
    fn new(compute: &C, w: &LayerWeights, rotates: bool, activations: Activations) -> Result<Self> {
        let input = [w.q.clone(), w.k.clone(), w.v.clone(), w.gate.clone(), w.up.clone()];
        Ok(Self {
            norm: compute.prepare_vector(&w.norm)?,
            input: compute.prepare_linear(&input, None, activations)?,
            o: compute.prepare_linear(std::slice::from_ref(&w.o), None, activations)?,
            down: compute.prepare_linear(std::slice::from_ref(&w.down), None, activations)?,
            rotates,
        })
    }
}

/// A linear with a bias whose input is never quantised.
fn full<C: Compute>(compute: &C, matrix: &Matrix, bias: &[f32]) -> Result<C::Linear> {
    compute.prepare_linear(std::slice::from_ref(matrix), Some(bias), Activations::Full)
}
