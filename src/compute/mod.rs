//! The operations the models are written in, and the backends that run them.
//!
//! A model is written once, against [`Compute`]; the CPU backend is the reference, and every backend passes the same
//! conformance suite. Shapes use one vocabulary: `R` rows, `H` hidden, `N` output features, `K` input features,
//! `Nh` heads, `Nkv` key/value heads, `D` head size, `C` channels.
//!
//! Activations are rows: `[R, cols]`, time-major. A [`Rows`] says which slot and which position each row belongs to, so
//! decoding many slots, prefilling one and streaming a codec are the same call. Every operation treats a row the same
//! whatever the other rows are: that is what makes a batch equal to single runs and a stream equal to the whole.

use crate::error::Result;
use crate::matrix::{Matrix, PlainMatrix};

pub mod check;
pub mod cpu;
pub mod cuda;
pub mod random;
pub mod stack;

use stack::{StackLayer, StackSpec};

/// How linears with NVFP4 weights take their input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activations {
    /// As it is: only the weights are 4 bits wide (W4A16).
    Full,
    /// Quantised per 16 values with the checkpoint's input scale (W4A4).
    Fp4,
}

/// Consecutive positions of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The slot the rows belong to.
    pub slot: usize,
    /// The position of the first row, counted from the slot's beginning.
    pub start: usize,
    /// How many rows.
    pub len: usize,
}

/// The rows of a call, segment after segment; a slot appears at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// In the order of the rows.
    pub segments: Vec<Segment>,
}

impl Rows {
    /// R, the number of rows.
    pub fn len(&self) -> usize {
        self.segments.iter().map(|s| s.len).sum()
    }

    /// No rows at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same stretches of time at `factor` times the rate.
    #[must_use]
    pub fn upsampled(&self, factor: usize) -> Self {
        let segments = self
            .segments
            .iter()
            .map(|s| Segment { slot: s.slot, start: s.start * factor, len: s.len * factor })
            .collect();
        Self { segments }
    }
}

/// Columns `at .. at + width` of a buffer.
pub struct View<'a, B> {
    /// `[R, cols]`
    pub buffer: &'a B,
    /// First column.
    pub at: usize,
    /// Number of columns.
    pub width: usize,
}

/// Which two elements of a head rotate together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopePairs {
    /// (2i, 2i+1), as in GPT-J and Cohere.
    Interleaved,
    /// (i, i + D/2), as in GPT-NeoX, Llama and Mimi.
    Halves,
}

/// Rotary position embedding: the pair i at position p turns by `(p * stretch[i]) * inv_freq[i]`.
#[derive(Clone, Debug)]
pub struct Rope {
    /// `[D/2]`
    pub inv_freq: Vec<f32>,
    /// `[D/2]`, or empty for ones: LongRoPE's reciprocal factors, applied to the position before the frequency.
    pub stretch: Vec<f32>,
    /// Cosine and sine are multiplied by this.
    pub amplitude: f32,
    /// Which elements form a pair.
    pub pairs: RopePairs,
}

impl Rope {
    /// `inv_freq[i] = theta^(-2i/D)`
    pub fn plain(theta: f32, head_dim: usize, pairs: RopePairs) -> Self {
        let inv_freq = (0..head_dim / 2).map(|i| 1.0 / theta.powf((2 * i) as f32 / head_dim as f32)).collect();
        Self { inv_freq, stretch: Vec::new(), amplitude: 1.0, pairs }
    }

    /// The angle of pair i at a position, rounded as the reference rounds it.
    pub fn angle(&self, position: usize, i: usize) -> f32 {
        let position = position as f32;
        self.stretch.get(i).map_or(position, |stretch| position * stretch) * self.inv_freq[i]
    }
}

/// The shape of a key/value cache.
#[derive(Clone, Debug)]
pub struct KvSpec {
    /// B, the number of slots.
    pub slots: usize,
    /// Nkv, key/value heads.
    pub kv_heads: usize,
    /// D, the size of a head.
    pub head_dim: usize,
    /// A layer each: how many keys a query sees, itself included; `None` = all before it.
    pub windows: Vec<Option<usize>>,
    /// The most positions a slot can hold.
    pub max_positions: usize,
}

/// How one row's token is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Only the first `columns` logits may be chosen.
    pub columns: usize,
    /// 0 or less: the largest logit, the lowest column among equals.
    pub temperature: f32,
    /// How many of the largest logits stay; 0 = all.
    pub top_k: usize,
    /// The request's seed.
    pub seed: u64,
    /// The request's step.
    pub step: u32,
}

/// The noise of one draw: as many standard normal numbers as fill its rows.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// The request's seed.
    pub seed: u64,
    /// The request's step.
    pub step: u32,
    /// Multiplies every number; 0 = silence.
    pub scale: f32,
}

/// One solver step of one draw: classifier-free guidance with the projected scale of CFG-Zero*, then Euler.
#[derive(Clone, Copy, Debug)]
pub struct Guidance {
    /// How strongly the conditioned velocity is followed; 1 = as it is.
    pub cfg: f32,
    /// The length of the step in time.
    pub dt: f32,
}

/// How fast a device reads its memory, measured. Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadRate {
    /// The fastest pass: what the device can do.
    pub best: f64,
    /// The pass in the middle: what it does beside its other work.
    pub median: f64,
}

/// The operation set. Buffers are `[R, cols]` of numbers the backend stores as it likes and computes with in f32;
/// an operation that writes `out` gives it its shape.
///
/// Shapes are the model's responsibility: a mismatch is a fault of the program, not of the input, and backends check it
/// with `debug_assert!`. Errors are what a device or an allocation can do.
pub trait Compute: Send + Sync + 'static {
    /// Activations `[R, cols]`.
    type Buffer: Send;
    /// A prepared matrix `[N, K]`, possibly several stacked, with an optional bias `[N]`.
    type Linear: Send + Sync;
    /// A prepared table of rows to look up.
    type Table: Send + Sync;
    /// A prepared parameter vector.
    type Vector: Send + Sync;
    /// Keys and values of all slots and layers.
    type KvCache: Send;
    /// The last input rows of a causal convolution, per slot.
    type Carry: Send;
    /// Prepared decoder layers.
    type Stack: Send;

    /// One line for people: the device and the instruction set or architecture in use.
    fn describe(&self) -> String;
    /// Measures how fast everything that computes reads memory together; `None` where the backend has no way to.
    fn read_rate(&self) -> Result<Option<ReadRate>> {
        Ok(None)
    }

    // ---- preparing

    /// Matrices over the same input, stacked along N, with a bias `[N]` over all of them. `activations` concerns NVFP4
    /// parts only; `Fp4` needs an input scale in each, and parts that share one quantise the input once.
    fn prepare_linear(&self, parts: &[Matrix], bias: Option<&[f32]>, activations: Activations) -> Result<Self::Linear>;
    /// Rows that [`Compute::embed`] looks up; several matrices of one width are stacked along N.
    fn prepare_table(&self, parts: &[PlainMatrix]) -> Result<Self::Table>;
    /// A parameter vector: norm gains, biases, scales, depthwise taps.
    fn prepare_vector(&self, values: &[f32]) -> Result<Self::Vector>;
    /// Decoder layers; `activations` as in [`Compute::prepare_linear`].
    fn prepare_stack(&self, spec: &StackSpec, layers: &[StackLayer], activations: Activations) -> Result<Self::Stack>;
    /// An empty buffer; operations shape it.
    fn buffer(&self) -> Self::Buffer;
    /// An empty cache.
    fn kv_cache(&self, spec: &KvSpec) -> Result<Self::KvCache>;
    /// Zero history of `rows` input rows of `cols` columns for each of `slots` slots.
    fn carry(&self, slots: usize, rows: usize, cols: usize) -> Result<Self::Carry>;
    /// Forgets a slot's keys and values.
    fn reset_kv(&self, cache: &mut Self::KvCache, slot: usize) -> Result<()>;
    /// Sets a slot's history to zero.
    fn reset_carry(&self, carry: &mut Self::Carry, slot: usize) -> Result<()>;

    // ---- running

    /// `out[r] = Σ_j table[ids[r * per_row + j]]`, summed in order of j. `[R, cols]`
    fn embed(&self, table: &Self::Table, ids: &[u32], per_row: usize, out: &mut Self::Buffer) -> Result<()>;
    /// `out = gain * (x - mean) / sqrt(var + eps) + bias`, over the columns, biased variance. `[R, cols]`
    fn layer_norm(
        &self,
        x: &Self::Buffer,
        gain: &Self::Vector,
        bias: Option<&Self::Vector>,
        eps: f32,
        out: &mut Self::Buffer,
    ) -> Result<()>;
    /// `out = x / sqrt(mean(x²) + eps) * gain`, over the columns. `[R, cols]`
    fn rms_norm(&self, x: &Self::Buffer, gain: &Self::Vector, eps: f32, out: &mut Self::Buffer) -> Result<()>;
    /// `out = x Wᵀ + bias`. x `[R, K]`, out `[R, N]`
    fn linear(&self, w: &Self::Linear, x: View<'_, Self::Buffer>, out: &mut Self::Buffer) -> Result<()>;
    /// Rotates `heads` heads of size `2 * inv_freq.len()`, starting at column `at`, in place.
    fn rope(&self, x: &mut Self::Buffer, at: usize, heads: usize, rope: &Rope, rows: &Rows) -> Result<()>;
    /// Appends k and v `[R, Nkv * D]` to the cache, then attends: query head j uses key/value head `j * Nkv / Nh`,
    /// scores are scaled by `1/sqrt(D)`, row r sees its own slot's positions up to its own, within the layer's window.
    /// q and out `[R, Nh * D]`
    #[allow(clippy::too_many_arguments)]
    fn attend(
        &self,
        cache: &mut Self::KvCache,
        layer: usize,
        q: View<'_, Self::Buffer>,
        k: View<'_, Self::Buffer>,
        v: View<'_, Self::Buffer>,
        rows: &Rows,
        out: &mut Self::Buffer,
    ) -> Result<()>;
    /// Attention without a cache and without a mask among every `group` consecutive rows: query head j uses key/value
    /// head `j * kv_heads / Nh`, scores are scaled by `1/sqrt(D)`, `D = k.width / kv_heads`. q and out `[R, Nh * D]`
    fn attend_within(
        &self,
        group: usize,
        kv_heads: usize,
        q: View<'_, Self::Buffer>,
        k: View<'_, Self::Buffer>,
        v: View<'_, Self::Buffer>,
        out: &mut Self::Buffer,
    ) -> Result<()>;
    /// All layers of a [`stack`] on x `[R, H]`, in place, with the cache of as many layers.
    fn run_stack(
        &self,
        stack: &mut Self::Stack,
        cache: &mut Self::KvCache,
        x: &mut Self::Buffer,
        rows: &Rows,
    ) -> Result<()>;
    /// `out = silu(gate) * up`. `[R, cols]`
    fn silu_mul(&self, gate: View<'_, Self::Buffer>, up: View<'_, Self::Buffer>, out: &mut Self::Buffer) -> Result<()>;
    /// `x = z/2 (1 + erf(z/√2))`, in place.
    fn gelu(&self, x: &mut Self::Buffer) -> Result<()>;
    /// `x / (1 + e⁻ˣ)`, in place.
    fn silu(&self, x: &mut Self::Buffer) -> Result<()>;
    /// In place.
    fn tanh(&self, x: &mut Self::Buffer) -> Result<()>;
    /// `out = x + sin²(alpha x) / (alpha + 1e-9)`, an alpha per column.
    fn snake(&self, x: &Self::Buffer, alpha: &Self::Vector, out: &mut Self::Buffer) -> Result<()>;
    /// `x = x * scale + shift`, per column, in place.
    fn affine(&self, x: &mut Self::Buffer, scale: &Self::Vector, shift: &Self::Vector) -> Result<()>;
    /// Finite scalar quantisation, in place: `round(levels * tanh x) / levels`, halves to even.
    fn finite_scalar(&self, x: &mut Self::Buffer, levels: f32) -> Result<()>;
    /// `out = x > 0 ? x : eˣ - 1`
    fn elu(&self, x: &Self::Buffer, out: &mut Self::Buffer) -> Result<()>;
    /// `x += y`, or `x += scale * y` with a scale per column.
    fn add(&self, x: &mut Self::Buffer, y: &Self::Buffer, scale: Option<&Self::Vector>) -> Result<()>;
    /// Causal convolution over time: w is `[N, taps * C]`, tap-major, oldest tap first, and the carry holds the slot's
    /// last `taps - 1` rows. x `[R, C]`, out `[R, N]`. A transposed convolution of stride r and kernel 2r is the same
    /// with two taps and N = r * C', followed by [`Compute::unfold`].
    fn conv(
        &self,
        w: &Self::Linear,
        carry: &mut Self::Carry,
        x: &Self::Buffer,
        rows: &Rows,
        out: &mut Self::Buffer,
    ) -> Result<()>;
    /// Depthwise causal convolution: w `[phases, taps, C]`, oldest tap first, `dilation` rows between taps;
    /// `out[r, p * C + c] = bias[c] + Σ_j w[p, j, c] * x[r - (taps - 1 - j) * dilation, c]`. x `[R, C]`, out
    /// `[R, phases * C]`; `(taps - 1) * dilation` rows are carried.
    #[allow(clippy::too_many_arguments)]
    fn depthwise(
        &self,
        w: &Self::Vector,
        bias: Option<&Self::Vector>,
        phases: usize,
        dilation: usize,
        carry: &mut Self::Carry,
        x: &Self::Buffer,
        rows: &Rows,
        out: &mut Self::Buffer,
    ) -> Result<()>;
    /// `[R, factor * C]` becomes `[R * factor, C]`; nothing moves.
    fn unfold(&self, x: &mut Self::Buffer, factor: usize) -> Result<()>;
    /// `[R, C]` becomes `[R / factor, factor * C]`; nothing moves. What [`Compute::unfold`] undoes.
    fn fold(&self, x: &mut Self::Buffer, factor: usize) -> Result<()>;
    /// Zeros `[rows, cols]`.
    fn blank(&self, rows: usize, cols: usize, out: &mut Self::Buffer) -> Result<()>;
    /// Copies row i of x to row `to[i]` of out, which keeps its shape and its other rows.
    fn scatter(&self, x: &Self::Buffer, to: &[usize], out: &mut Self::Buffer) -> Result<()>;
    /// Columns side by side: `[R, a.width + b.width]`
    fn join(&self, a: View<'_, Self::Buffer>, b: View<'_, Self::Buffer>, out: &mut Self::Buffer) -> Result<()>;
    /// Copies row `from[i]` of x to row i of out.
    fn gather(&self, x: &Self::Buffer, from: &[usize], out: &mut Self::Buffer) -> Result<()>;
    /// Multiplies by a constant, in place.
    fn scale(&self, x: &mut Self::Buffer, factor: f32) -> Result<()>;
    /// One column per row of logits `[R, N]`: temperature, then top-k, then one draw by inverse CDF over the kept logits
    /// in descending order (ties: lower column first), with the request's own random number.
    fn sample(&self, logits: &Self::Buffer, choices: &[Choice]) -> Result<Vec<u32>>;
    /// Standard normal numbers, `rows` rows of `cols` a draw: value c of row r of a draw is number `c * rows + r` of its
    /// (seed, step), times its scale.
    fn noise(&self, draws: &[Draw], rows: usize, cols: usize, out: &mut Self::Buffer) -> Result<()>;
    /// One Euler step of every draw: the rows of x in order of the draws; v holds the conditioned
    /// velocities of all draws, then the unconditioned ones. With `alpha = <v⁺, v⁻> / (<v⁻, v⁻> + 1e-8)` over a draw,
    /// `x -= dt * (alpha v⁻ + cfg * (v⁺ - alpha v⁻))`. x `[S * per_draw, cols]`, v `[2 * S * per_draw, cols]`
    fn guided_step(&self, x: &mut Self::Buffer, v: &Self::Buffer, per_draw: usize, steps: &[Guidance]) -> Result<()>;
    /// The values, row-major.
    fn read(&self, x: &Self::Buffer) -> Result<Vec<f32>>;
    /// A buffer `[R, cols]` with these values, row-major.
    fn write(&self, values: &[f32], cols: usize, out: &mut Self::Buffer) -> Result<()>;
}
