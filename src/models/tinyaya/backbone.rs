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
use super::weights::Weights;
use crate::compute::stack::StackSpec;
use crate::compute::{Activations, Compute, KvSpec, Rows, View};
use crate::error::{Error, Result};
use crate::matrix::Matrix;

/// PyTorch's default, which the stop head's norm keeps.
const STOP_NORM_EPS: f32 = 1e-5;

/// The prepared backbone with its cache and working buffers.
pub struct Backbone<C: Compute> {
    config: Config,
    embedding: C::Table,
    layers: C::Stack,
    norm: C::Vector,
    head: C::Linear,
    stop: StopHead<C>,
    cache: C::KvCache,
    work: Work<C>,
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
    x: C::Buffer,      // [R, H] residual stream
    h: C::Buffer,      // [R, H] normed
    delta: C::Buffer,  // [B, S]
    last: C::Buffer,   // [B, H] residual of the rows that predict
    hidden: C::Buffer, // [B, H] f, the last norm's output
}

/// What the heads say about the rows that predict.
pub struct Heads<C: Compute> {
    /// `[B, Q*C + 1]`, scaled; the last column is `</audio>`.
    pub logits: C::Buffer,
    /// `[B, 1]`: above zero, the utterance ends.
    pub stop: C::Buffer,
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
        let stack = StackSpec {
            hidden: config.hidden,
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            inner: config.inner,
            eps: config.eps,
            rope: config.rope.clone(),
            // Full layers use no position at all.
            rotates: config.windows.iter().map(Option::is_some).collect(),
            windows: config.windows.clone(),
            max_positions: config.max_positions,
        };
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
            layers: compute.prepare_stack(&stack, &weights.layers, activations)?,
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
        compute.run_stack(&mut self.layers, &mut self.cache, &mut self.work.x, rows)?;
        self.heads(compute, rows)
    }

    /// f of the rows that predicted in the last call. `[B, H]`
    #[cfg(test)]
    pub fn hidden(&self) -> &C::Buffer {
        &self.work.hidden
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
        Ok(Heads { logits, stop })
    }
}

/// A linear with a bias whose input is never quantised.
fn full<C: Compute>(compute: &C, matrix: &Matrix, bias: &[f32]) -> Result<C::Linear> {
    compute.prepare_linear(std::slice::from_ref(matrix), Some(bias), Activations::Full)
}
