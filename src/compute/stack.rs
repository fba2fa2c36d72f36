//! Decoder layers whose attention and gated MLP stand side by side (Cohere2):
//!
//! ```text
//! h = LN(x)                                            one norm for both branches
//! q|k|v|gate|up = h W                                  one stacked linear
//! x = (x + attend(rot q, rot k, v) Wo) + (silu(gate) * up) Wd
//! ```
//!
//! All layers are one operation, so that a backend can run a step without letting its memory rest between them.
//! [`Stack`] is that operation made of the others: the reference, and what a backend without a faster way uses.

use super::{Activations, Compute, Rope, Rows, View};
use crate::error::Result;
use crate::matrix::Matrix;

/// The shape that the layers share.
#[derive(Clone, Debug)]
pub struct StackSpec {
    /// H, the width of x.
    pub hidden: usize,
    /// Nh, query heads.
    pub heads: usize,
    /// Nkv, key/value heads.
    pub kv_heads: usize,
    /// D, the size of a head.
    pub head_dim: usize,
    /// I, the width of the MLP.
    pub inner: usize,
    /// Of the norms.
    pub eps: f32,
    /// How q and k rotate.
    pub rope: Rope,
    /// A layer each: whether they do.
    pub rotates: Vec<bool>,
    /// A layer each, as in the cache: how many keys a query sees.
    pub windows: Vec<Option<usize>>,
    /// The most positions a slot can hold.
    pub max_positions: usize,
}

/// A layer as the checkpoint holds it.
pub struct StackLayer {
    /// `[H]`
    pub norm: Vec<f32>,
    /// `[Nh*D, H]`
    pub q: Matrix,
    /// `[Nkv*D, H]`
    pub k: Matrix,
    /// `[Nkv*D, H]`
    pub v: Matrix,
    /// `[H, Nh*D]`
    pub o: Matrix,
    /// `[I, H]`
    pub gate: Matrix,
    /// `[I, H]`
    pub up: Matrix,
    /// `[H, I]`
    pub down: Matrix,
}

/// The layers prepared for a device, operation by operation.
pub struct Stack<C: Compute> {
    spec: StackSpec,
    layers: Vec<Layer<C>>,
    // Buffers that live from step to step, so that a step allocates nothing.
    h: C::Buffer,         // [R, H] normed
    projected: C::Buffer, // [R, (Nh + 2 Nkv) * D + 2 I]
    mixed: C::Buffer,     // [R, Nh * D]
    gated: C::Buffer,     // [R, I]
    delta: C::Buffer,     // [R, H]
}

struct Layer<C: Compute> {
    norm: C::Vector,
    /// q|k|v|gate|up stacked: `[(Nh + 2 Nkv) * D + 2 I, H]`
    input: C::Linear,
    o: C::Linear,
    down: C::Linear,
}

impl<C: Compute> Stack<C> {
    /// Prepares the layers.
    ///
    /// # Errors
    /// What the device can refuse: memory above all.
    pub fn new(compute: &C, spec: &StackSpec, layers: &[StackLayer], activations: Activations) -> Result<Self> {
        let layers = layers
            .iter()
            .map(|w| {
                let input = [w.q.clone(), w.k.clone(), w.v.clone(), w.gate.clone(), w.up.clone()];
                Ok(Layer {
                    norm: compute.prepare_vector(&w.norm)?,
                    input: compute.prepare_linear(&input, None, activations)?,
                    o: compute.prepare_linear(std::slice::from_ref(&w.o), None, activations)?,
                    down: compute.prepare_linear(std::slice::from_ref(&w.down), None, activations)?,
                })
            })
            .collect::<Result<_>>()?;
        let buffer = || compute.buffer();
        let (h, projected, mixed, gated, delta) = (buffer(), buffer(), buffer(), buffer(), buffer());
        Ok(Self { spec: spec.clone(), layers, h, projected, mixed, gated, delta })
    }

    /// All layers on x `[R, H]`, in place.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn run(&mut self, compute: &C, cache: &mut C::KvCache, x: &mut C::Buffer, rows: &Rows) -> Result<()> {
        let Self { spec, layers, h, projected, mixed, gated, delta } = self;
        let (heads, kv_heads, inner) = (spec.heads, spec.kv_heads, spec.inner);
        let (q, kv) = (heads * spec.head_dim, kv_heads * spec.head_dim);
        for (index, (layer, rotates)) in layers.iter().zip(&spec.rotates).enumerate() {
            compute.layer_norm(x, &layer.norm, None, spec.eps, h)?;
            compute.linear(&layer.input, View { buffer: h, at: 0, width: spec.hidden }, projected)?;
            if *rotates {
                compute.rope(projected, 0, heads, &spec.rope, rows)?;
                compute.rope(projected, q, kv_heads, &spec.rope, rows)?;
            }
            let view = |at, width| View { buffer: &*projected, at, width };
            compute.attend(cache, index, view(0, q), view(q, kv), view(q + kv, kv), rows, mixed)?;
            compute.silu_mul(view(q + 2 * kv, inner), view(q + 2 * kv + inner, inner), gated)?;
            compute.linear(&layer.o, View { buffer: mixed, at: 0, width: q }, delta)?;
            compute.add(x, delta, None)?;
            compute.linear(&layer.down, View { buffer: gated, at: 0, width: inner }, delta)?;
            compute.add(x, delta, None)?;
        }
        Ok(())
    }
}
