//! The transformer stack that all four parts of VoxCPM2 are made of, MiniCPM4's layer:
//!
//! ```text
//! per layer:  a = RMS(x);  q|k|v = a W                one stacked linear; no biases
//!             x = x + attend(rot q, rot k, v) Wo      8 or so query heads share a key head
//!             b = RMS(x);  gate|up = b W
//!             x = x + (silu(gate) * up) Wd
//! y = RMS(x)
//! ```
//!
//! The language models attend to all before through a cache; LocEnc and LocDiT among the few rows of a group, without one.

use super::config::Shape;
use super::weights;
use crate::compute::{Activations, Compute, KvSpec, Rows, View};
use crate::error::Result;

/// A prepared stack with its working buffers.
pub struct Stack<C: Compute> {
    shape: Shape,
    layers: Vec<Layer<C>>,
    norm: C::Vector,
    work: Work<C>,
}

struct Layer<C: Compute> {
    attention_norm: C::Vector,
    /// q|k|v stacked: `[(Nh + 2 Nkv) * D, H]`
    qkv: C::Linear,
    o: C::Linear,
    mlp_norm: C::Vector,
    /// gate|up stacked: `[2 I, H]`
    input: C::Linear,
    down: C::Linear,
}

/// Buffers that live from call to call.
struct Work<C: Compute> {
    x: C::Buffer,         // [R, H] residual stream
    kept: C::Buffer,      // [R', H] the rows of it that are wanted
    h: C::Buffer,         // [R, H] normed
    projected: C::Buffer, // [R, (Nh + 2 Nkv) * D], then [R, 2 I]
    mixed: C::Buffer,     // [R, Nh * D]
    picked: C::Buffer,    // [R', Nh * D]
    gated: C::Buffer,     // [R, I]
    delta: C::Buffer,     // [R, H]
}

/// Which rows see which.
pub enum Sight<'a, C: Compute> {
    /// Every row its slot's rows so far, through a cache.
    Past(&'a mut C::KvCache),
    /// Every `0` consecutive rows each other.
    Group(usize),
}

impl<C: Compute> Stack<C> {
    /// Prepares the weights for the device.
    ///
    /// # Errors
    /// What the device can refuse: memory above all.
    pub fn new(compute: &C, shape: Shape, weights: &weights::Stack, activations: Activations) -> Result<Self> {
        let layers = weights.layers.iter().map(|w| Layer::new(compute, w, activations)).collect::<Result<Vec<_>>>()?;
        let buffer = || compute.buffer();
        Ok(Self {
            layers,
            norm: compute.prepare_vector(&weights.norm)?,
            work: Work {
                x: buffer(),
                kept: buffer(),
                h: buffer(),
                projected: buffer(),
                mixed: buffer(),
                picked: buffer(),
                gated: buffer(),
                delta: buffer(),
            },
            shape,
        })
    }

    /// A cache for this stack.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn cache(&self, compute: &C, slots: usize, max_positions: usize) -> Result<C::KvCache> {
        compute.kv_cache(&KvSpec {
            slots,
            kv_heads: self.shape.kv_heads,
            head_dim: self.shape.head_dim,
            windows: vec![None; self.layers.len()],
            max_positions,
        })
    }

    /// Where the caller puts the input. `[R, H]`
    pub fn input(&mut self) -> &mut C::Buffer {
        &mut self.work.x
    }

    /// The output of the last call. `[R, H]`, or the rows that were kept.
    pub fn output(&self) -> &C::Buffer {
        &self.work.h
    }

    /// Runs the input through all layers and the last norm. With `keep`, only those rows come out, and the last layer
    /// computes no others beyond what attention needs of them.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn run(&mut self, compute: &C, mut sight: Sight<'_, C>, rows: &Rows, keep: Option<&[usize]>) -> Result<()> {
        let last = self.layers.len() - 1;
        for index in 0..=last {
            self.layer(compute, index, &mut sight, rows, keep.filter(|_| index == last))?;
        }
        let x = if keep.is_some() { &self.work.kept } else { &self.work.x };
        compute.rms_norm(x, &self.norm, self.shape.eps, &mut self.work.h)
    }

    fn layer(
        &mut self,
        compute: &C,
        index: usize,
        sight: &mut Sight<'_, C>,
        rows: &Rows,
        keep: Option<&[usize]>,
    ) -> Result<()> {
        let Work { x, kept, h, projected, mixed, picked, gated, delta } = &mut self.work;
        let Shape { hidden, inner, heads, kv_heads, head_dim, eps, branch, .. } = self.shape;
        let (q, kv) = (heads * head_dim, kv_heads * head_dim);
        let layer = &self.layers[index];

        compute.rms_norm(x, &layer.attention_norm, eps, h)?;
        compute.linear(&layer.qkv, View { buffer: h, at: 0, width: hidden }, projected)?;
        if let Some(rope) = &self.shape.rope {
            compute.rope(projected, 0, heads + kv_heads, rope, rows)?;
        }
        let view = |at, width| View { buffer: &*projected, at, width };
        match sight {
            Sight::Past(cache) => {
                compute.attend(cache, index, view(0, q), view(q, kv), view(q + kv, kv), rows, mixed)?;
            }
            Sight::Group(size) => {
                compute.attend_within(*size, kv_heads, view(0, q), view(q, kv), view(q + kv, kv), mixed)?;
            }
        }
        let (x, mixed) = match keep {
            None => (x, mixed),
            Some(keep) => {
                compute.gather(x, keep, kept)?;
                compute.gather(mixed, keep, picked)?;
                (kept, picked)
            }
        };
        compute.linear(&layer.o, View { buffer: mixed, at: 0, width: q }, delta)?;
        add(compute, x, delta, branch)?;
        compute.rms_norm(x, &layer.mlp_norm, eps, h)?;
        compute.linear(&layer.input, View { buffer: h, at: 0, width: hidden }, projected)?;
        let view = |at| View { buffer: &*projected, at, width: inner };
        compute.silu_mul(view(0), view(inner), gated)?;
        compute.linear(&layer.down, View { buffer: gated, at: 0, width: inner }, delta)?;
        add(compute, x, delta, branch)
    }
}

fn add<C: Compute>(compute: &C, x: &mut C::Buffer, delta: &mut C::Buffer, branch: f32) -> Result<()> {
    if branch != 1.0 {
        compute.scale(delta, branch)?;
    }
    compute.add(x, delta, None)
}

impl<C: Compute> Layer<C> {
    fn new(compute: &C, w: &weights::Layer, activations: Activations) -> Result<Self> {
        let one = |matrix| compute.prepare_linear(std::slice::from_ref(matrix), None, activations);
        Ok(Self {
            attention_norm: compute.prepare_vector(&w.attention_norm)?,
            qkv: compute.prepare_linear(&[w.q.clone(), w.k.clone(), w.v.clone()], None, activations)?,
            o: one(&w.o)?,
            mlp_norm: compute.prepare_vector(&w.mlp_norm)?,
            input: compute.prepare_linear(&[w.gate.clone(), w.up.clone()], None, activations)?,
            down: one(&w.down)?,
        })
    }
}
