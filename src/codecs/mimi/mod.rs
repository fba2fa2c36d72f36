//! Mimi's decoder (kyutai/mimi, Hugging Face layout): Q codes per 80 ms frame to 24 kHz samples.
//!
//! ```text
//! z = Ws T0[c0] + Wa (T1[c1] + ... + T7[c7])            12.5 Hz, H channels
//! u = depthwise transposed convolution of z             25 Hz
//! 8 times: u += s_attn * Wo attend(rot(LN1 u));  u += s_mlp * fc2 gelu(fc1 LN2 u)
//! x = conv(u)                                           H -> 1024
//! for r in 8, 6, 5, 4:
//!     x = convT_r(elu x)                                C -> C/2, r times the rate
//!     x = x + conv1(elu(conv3(elu x)))
//! samples = conv(elu x)
//! ```
//!
//! Rotation is in half-split pairs, attention sees 250 steps of the transformer, there is no norm after its last layer.
//! Everything is causal with bounded state, so [`Mimi::decode_step`] on any chunking gives the samples of
//! [`Mimi::decode`] exactly: a row's arithmetic never depends on the rows beside it.
//! Source: the codec's published configuration and tensors; transformers' `MimiModel` for the order of operations.

mod config;
mod weights;

pub use config::Config;
pub use weights::Weights;

use crate::compute::{Activations, Compute, KvSpec, Rope, RopePairs, Rows, Segment, View};
use crate::error::Result;
use crate::matrix::Matrix;

/// New frames of one slot: `[frames, Q]` codes, frame after frame.
pub struct Chunk<'a> {
    /// The slot they belong to.
    pub slot: usize,
    /// The frames' codes.
    pub frames: &'a [Vec<u32>],
}

/// The prepared decoder, with the streaming state of every slot.
pub struct Mimi<C: Compute> {
    config: Config,
    quantizers: usize,
    semantic: Codebooks<C>,
    acoustic: Codebooks<C>,
    upsample: C::Vector,
    upsample_carry: C::Carry,
    layers: Vec<Layer<C>>,
    cache: C::KvCache,
    rope: Rope,
    first: Conv<C>,
    stages: Vec<Stage<C>>,
    last: Conv<C>,
    frames_done: Vec<usize>, // per slot
    work: [C::Buffer; 4],
}

struct Codebooks<C: Compute> {
    table: C::Table,
    projection: C::Linear,
    width: usize,
}

struct Layer<C: Compute> {
    attention_norm: [C::Vector; 2],
    qkv: C::Linear,
    o: C::Linear,
    attention_scale: C::Vector,
    mlp_norm: [C::Vector; 2],
    fc1: C::Linear,
    fc2: C::Linear,
    mlp_scale: C::Vector,
}

struct Conv<C: Compute> {
    weight: C::Linear,
    carry: C::Carry,
}

struct Stage<C: Compute> {
    up: Conv<C>,
    ratio: usize,
    narrow: Conv<C>,
    widen: Conv<C>,
}

impl<C: Compute> Mimi<C> {
    /// Prepares the decoder for `slots` streams.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn new(compute: &C, config: Config, weights: &Weights, quantizers: usize, slots: usize) -> Result<Self> {
        let conv = |c: &weights::Conv| {
            Ok(Conv {
                weight: compute.prepare_linear(std::slice::from_ref(&c.weight), Some(&c.bias), Activations::Full)?,
                carry: compute.carry(slots, c.taps - 1, c.channels)?,
            })
        };
        let codebooks = |c: &weights::Codebooks| {
            Ok(Codebooks {
                table: compute.prepare_table(std::slice::from_ref(&c.table))?,
                projection: linear(compute, std::slice::from_ref(&c.projection))?,
                width: config.code_dim,
            })
        };
        let spec = KvSpec {
            slots,
            kv_heads: config.heads,
            head_dim: config.head_dim,
            windows: vec![Some(config.window); config.layers],
            max_positions: usize::MAX,
        };
        Ok(Self {
            quantizers,
            semantic: codebooks(&weights.semantic)?,
            acoustic: codebooks(&weights.acoustic)?,
            upsample: compute.prepare_vector(&weights.upsample)?,
            upsample_carry: compute.carry(slots, 1, config.hidden)?,
            layers: weights.layers.iter().map(|w| Layer::new(compute, w)).collect::<Result<_>>()?,
            cache: compute.kv_cache(&spec)?,
            rope: Rope::plain(config.rope_theta, config.head_dim, RopePairs::Halves),
            first: conv(&weights.first)?,
            stages: weights
                .stages
                .iter()
                .map(|s| {
                    Ok(Stage { up: conv(&s.up)?, ratio: s.ratio, narrow: conv(&s.narrow)?, widen: conv(&s.widen)? })
                })
                .collect::<Result<_>>()?,
            last: conv(&weights.last)?,
            frames_done: vec![0; slots],
            work: std::array::from_fn(|_| compute.buffer()),
            config,
        })
    }

    /// The decoder's shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Begins a new stream in a slot.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn reset(&mut self, compute: &C, slot: usize) -> Result<()> {
        self.frames_done[slot] = 0;
        compute.reset_kv(&mut self.cache, slot)?;
        compute.reset_carry(&mut self.upsample_carry, slot)?;
        let stages = self.stages.iter_mut().flat_map(|s| [&mut s.up, &mut s.narrow, &mut s.widen]);
        for conv in stages.chain([&mut self.first, &mut self.last]) {
            compute.reset_carry(&mut conv.carry, slot)?;
        }
        Ok(())
    }

    /// All samples of one utterance at once, in `slot`, which is reset before.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn decode(&mut self, compute: &C, slot: usize, frames: &[Vec<u32>]) -> Result<Vec<f32>> {
        self.reset(compute, slot)?;
        let mut parts = self.decode_step(compute, &[Chunk { slot, frames }])?;
        Ok(parts.pop().unwrap_or_default())
    }

    /// The next samples of every chunk's slot, [`Config::frame_samples`] a frame. A slot appears at most once.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn decode_step(&mut self, compute: &C, chunks: &[Chunk<'_>]) -> Result<Vec<Vec<f32>>> {
        let rows = Rows {
            segments: chunks
                .iter()
                .map(|c| Segment { slot: c.slot, start: self.frames_done[c.slot], len: c.frames.len() })
                .collect(),
        };
        if rows.is_empty() {
            return Ok(vec![Vec::new(); chunks.len()]);
        }
        self.quantizer(compute, chunks)?;
        let steps = self.upsampled_steps(compute, &rows)?;
        for index in 0..self.layers.len() {
            self.layer(compute, index, &steps)?;
        }
        let samples = self.seanet(compute, &steps)?;
        let mut at = 0;
        Ok(chunks
            .iter()
            .map(|chunk| {
                self.frames_done[chunk.slot] += chunk.frames.len();
                let len = chunk.frames.len() * self.config.frame_samples();
                at += len;
                samples[at - len..at].to_vec()
            })
            .collect())
    }

    /// Codes to z `[frames, H]`, in work[0].
    fn quantizer(&mut self, compute: &C, chunks: &[Chunk<'_>]) -> Result<()> {
        let [z, a, b, _] = &mut self.work;
        let codes = self.config.codebook as u32;
        let frames = || chunks.iter().flat_map(|c| c.frames.iter());
        let semantic: Vec<u32> = frames().map(|f| f[0]).collect();
        // The acoustic books lie one after the other in their table.
        let acoustic: Vec<u32> =
            frames().flat_map(|f| f[1..].iter().enumerate().map(|(book, code)| book as u32 * codes + code)).collect();
        compute.embed(&self.semantic.table, &semantic, 1, a)?;
        compute.linear(&self.semantic.projection, View { buffer: a, at: 0, width: self.semantic.width }, z)?;
        if self.quantizers > 1 {
            compute.embed(&self.acoustic.table, &acoustic, self.quantizers - 1, a)?;
            compute.linear(&self.acoustic.projection, View { buffer: a, at: 0, width: self.acoustic.width }, b)?;
            compute.add(z, b, None)?;
        }
        Ok(())
    }

    /// z at the frame rate to u `[steps, H]` at the transformer's, both in work[0].
    fn upsampled_steps(&mut self, compute: &C, rows: &Rows) -> Result<Rows> {
        let [z, u, ..] = &mut self.work;
        let factor = self.config.upsample;
        compute.depthwise(&self.upsample, None, factor, 1, &mut self.upsample_carry, z, rows, u)?;
        compute.unfold(u, factor)?;
        std::mem::swap(z, u);
        Ok(rows.upsampled(factor))
    }

    /// One transformer layer on work[0].
    fn layer(&mut self, compute: &C, index: usize, rows: &Rows) -> Result<()> {
        let [x, h, wide, y] = &mut self.work;
        let layer = &self.layers[index];
        let (heads, hidden, inner) = (self.config.heads, self.config.hidden, self.config.inner);
        let width = heads * self.config.head_dim;

        compute.layer_norm(x, &layer.attention_norm[0], Some(&layer.attention_norm[1]), self.config.eps, h)?;
        compute.linear(&layer.qkv, View { buffer: h, at: 0, width: hidden }, wide)?;
        compute.rope(wide, 0, heads, &self.rope, rows)?;
        compute.rope(wide, width, heads, &self.rope, rows)?;
        let view = |at| View { buffer: &*wide, at, width };
        compute.attend(&mut self.cache, index, view(0), view(width), view(2 * width), rows, h)?;
        compute.linear(&layer.o, View { buffer: h, at: 0, width }, y)?;
        compute.add(x, y, Some(&layer.attention_scale))?;

        compute.layer_norm(x, &layer.mlp_norm[0], Some(&layer.mlp_norm[1]), self.config.eps, h)?;
        compute.linear(&layer.fc1, View { buffer: h, at: 0, width: hidden }, wide)?;
        compute.gelu(wide)?;
        compute.linear(&layer.fc2, View { buffer: wide, at: 0, width: inner }, y)?;
        compute.add(x, y, Some(&layer.mlp_scale))
    }

    /// u in work[0] to samples.
    fn seanet(&mut self, compute: &C, steps: &Rows) -> Result<Vec<f32>> {
        let [x, a, b, _] = &mut self.work;
        let mut rows = steps.clone();
        compute.conv(&self.first.weight, &mut self.first.carry, x, &rows, a)?;
        std::mem::swap(x, a);
        for stage in &mut self.stages {
            compute.elu(x, a)?;
            compute.conv(&stage.up.weight, &mut stage.up.carry, a, &rows, x)?;
            compute.unfold(x, stage.ratio)?;
            rows = rows.upsampled(stage.ratio);
            compute.elu(x, a)?;
            compute.conv(&stage.narrow.weight, &mut stage.narrow.carry, a, &rows, b)?;
            compute.elu(b, a)?;
            compute.conv(&stage.widen.weight, &mut stage.widen.carry, a, &rows, b)?;
            compute.add(x, b, None)?;
        }
        compute.elu(x, a)?;
        compute.conv(&self.last.weight, &mut self.last.carry, a, &rows, b)?;
        compute.read(b)
    }
}

impl<C: Compute> Layer<C> {
    fn new(compute: &C, w: &weights::Layer) -> Result<Self> {
        let vector = |v: &Vec<f32>| compute.prepare_vector(v);
        Ok(Self {
            attention_norm: [vector(&w.attention_norm[0])?, vector(&w.attention_norm[1])?],
            qkv: linear(compute, &w.qkv)?,
            o: linear(compute, std::slice::from_ref(&w.o))?,
            attention_scale: vector(&w.attention_scale)?,
            mlp_norm: [vector(&w.mlp_norm[0])?, vector(&w.mlp_norm[1])?],
            fc1: linear(compute, std::slice::from_ref(&w.fc1))?,
            fc2: linear(compute, std::slice::from_ref(&w.fc2))?,
            mlp_scale: vector(&w.mlp_scale)?,
        })
    }
}

fn linear<C: Compute>(compute: &C, parts: &[Matrix]) -> Result<C::Linear> {
    compute.prepare_linear(parts, None, Activations::Full)
}

#[cfg(test)]
mod tests;
