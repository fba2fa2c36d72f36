//! AudioVAE v2 (VoxCPM2's codec): 25 latent frames a second, from 16 kHz recordings and to 48 kHz speech.
//!
//! ```text
//! unit_d(x)  = x + pw(snake(dw_d(snake x)))             dw_d: depthwise, 7 taps, dilation d; pw: pointwise
//! snake(x)   = x + sin²(alpha x) / (alpha + 1e-9)       an alpha per channel
//!
//! encode:  x = conv7(samples)                           1 -> 128
//!          for r in 2, 5, 8, 8:
//!              x = unit_9(unit_3(unit_1(x)))
//!              x = strided_r(snake x)                   2r taps, C -> 2C, 1/r of the rate
//!          latents = conv3(x)                           2048 -> 64
//!
//! decode:  x = pw(dw_1(latents))                        64 -> 2048
//!          for r in 8, 6, 5, 2, 2, 2:
//!              x = x * scale + shift                    per channel, of the output rate's bucket
//!              x = convT_r(snake x)                     2r taps, C -> C/2, r times the rate
//!              x = unit_9(unit_3(unit_1(x)))
//!          samples = tanh(conv7(snake x))               32 -> 1
//! ```
//!
//! Everything is causal: a convolution sees zeros before the beginning and nothing of the future. A strided convolution
//! of 2r taps is two taps over rows folded by r; a transposed one is two taps and an unfolding, its last r samples cut.
//! The decoder therefore has bounded state (six rows before a dilated tap, one before a transposed convolution), and
//! [`AudioVae::decode_step`] on any chunking gives the samples of [`AudioVae::decode`] exactly. The encoder walks through
//! a recording in the same way, so its memory does not grow with it.
//!
//! The decoder was trained for several output rates and is told which by a bucket: the number of boundaries below the
//! rate. The number of samples does not change with it, so the codec's own rate is the only one used.
//! Source: the model's published configuration and tensors; the `voxcpm` package's `AudioVAEV2` for the order of operations.

mod config;
mod weights;

pub use config::Config;
pub use weights::Weights;

use self::weights::{DILATIONS, TAPS};
use crate::compute::{Activations, Compute, Rows, Segment, View};
use crate::error::Result;
use crate::models::{Latents, Role};

/// Frames of a stream that are computed at once: more only take memory.
const TOGETHER: usize = 16;

/// New frames of one slot.
pub struct Chunk<'a> {
    /// The slot they belong to.
    pub slot: usize,
    /// `[frames, D]`
    pub latents: &'a [f32],
}

/// The prepared codec, with the streaming state of every slot.
pub struct AudioVae<C: Compute> {
    config: Config,
    encoder: Encoder<C>,
    decoder: Decoder<C>,
    frames_done: Vec<usize>, // per slot
    work: [C::Buffer; 3],
}

struct Encoder<C: Compute> {
    first: Conv<C>,
    stages: Vec<Down<C>>,
    mu: Conv<C>,
}

struct Down<C: Compute> {
    units: [Unit<C>; 3],
    alpha: C::Vector,
    conv: Conv<C>,
    ratio: usize,
}

struct Decoder<C: Compute> {
    depthwise: Depthwise<C>,
    pointwise: C::Linear,
    stages: Vec<Up<C>>,
    alpha: C::Vector,
    last: Conv<C>,
}

struct Up<C: Compute> {
    condition: [C::Vector; 2],
    alpha: C::Vector,
    conv: Conv<C>,
    ratio: usize,
    units: [Unit<C>; 3],
}

struct Unit<C: Compute> {
    alphas: [C::Vector; 2],
    depthwise: Depthwise<C>,
    pointwise: C::Linear,
}

struct Depthwise<C: Compute> {
    weight: C::Vector,
    bias: C::Vector,
    dilation: usize,
    carry: C::Carry,
    channels: usize,
}

struct Conv<C: Compute> {
    weight: C::Linear,
    carry: C::Carry,
}

impl<C: Compute> AudioVae<C> {
    /// Prepares the codec for `slots` streams of speech.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn new(compute: &C, config: Config, weights: &Weights, slots: usize) -> Result<Self> {
        Ok(Self {
            encoder: Encoder::new(compute, &weights.encoder)?,
            decoder: Decoder::new(compute, &weights.decoder, slots)?,
            frames_done: vec![0; slots],
            work: std::array::from_fn(|_| compute.buffer()),
            config,
        })
    }

    /// The codec's shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Begins a new stream in a slot.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn reset(&mut self, compute: &C, slot: usize) -> Result<()> {
        self.frames_done[slot] = 0;
        self.decoder.reset(compute, slot)
    }

    /// All samples of one utterance at once, in `slot`, which is reset before. latents `[frames, D]`
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn decode(&mut self, compute: &C, slot: usize, latents: &[f32]) -> Result<Vec<f32>> {
        self.reset(compute, slot)?;
        let mut parts = self.decode_step(compute, &[Chunk { slot, latents }])?;
        Ok(parts.pop().unwrap_or_default())
    }

    /// The next samples of every chunk's slot, [`Config::hop_out`] a frame. A slot appears at most once.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn decode_step(&mut self, compute: &C, chunks: &[Chunk<'_>]) -> Result<Vec<Vec<f32>>> {
        let dim = self.config.latent_dim;
        let mut said = vec![Vec::new(); chunks.len()];
        let mut rest: Vec<&[f32]> = chunks.iter().map(|chunk| chunk.latents).collect();
        loop {
            let (mut values, mut segments, mut whose) = (Vec::new(), Vec::new(), Vec::new());
            for (i, chunk) in chunks.iter().enumerate() {
                let len = (rest[i].len() / dim).min(TOGETHER);
                if len > 0 {
                    let (now, later) = rest[i].split_at(len * dim);
                    values.extend_from_slice(now);
                    rest[i] = later;
                    segments.push(Segment { slot: chunk.slot, start: self.frames_done[chunk.slot], len });
                    whose.push(i);
                    self.frames_done[chunk.slot] += len;
                }
            }
            if segments.is_empty() {
                return Ok(said);
            }
            compute.write(&values, dim, &mut self.work[0])?;
            let rows = Rows { segments };
            let samples = self.decoder.run(compute, &mut self.work, &rows)?;
            let mut at = 0;
            for (i, segment) in whose.into_iter().zip(&rows.segments) {
                let end = at + segment.len * self.config.hop_out;
                said[i].extend_from_slice(&samples[at..end]);
                at = end;
            }
        }
    }

    /// A recording, mono at [`Config::sample_rate_in`], as latents: silence on the side that `role` asks for fills it up
    /// to whole patches of `patch` frames.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn encode(&mut self, compute: &C, samples: &[f32], role: Role, patch: usize) -> Result<Latents> {
        let whole = samples.len().next_multiple_of((self.config.hop_in * patch).max(1));
        let silence = std::iter::repeat_n(0.0, whole - samples.len());
        let samples: Vec<f32> = match role {
            Role::Reference => samples.iter().copied().chain(silence).collect(),
            Role::Prompt => silence.chain(samples.iter().copied()).collect(),
        };
        self.encoder.reset(compute)?;
        let (mut values, mut start) = (Vec::new(), 0);
        for part in samples.chunks(TOGETHER * self.config.hop_in) {
            compute.write(part, 1, &mut self.work[0])?;
            let rows = Rows { segments: vec![Segment { slot: 0, start, len: part.len() }] };
            values.extend(self.encoder.run(compute, &mut self.work, &rows)?);
            start += part.len();
        }
        Ok(Latents { values, dim: self.config.latent_dim })
    }
}

impl<C: Compute> Encoder<C> {
    fn new(compute: &C, w: &weights::Encoder) -> Result<Self> {
        let stages = w.stages.iter().map(|stage| {
            Ok(Down {
                units: units(compute, &stage.units, 1)?,
                alpha: compute.prepare_vector(&stage.alpha)?,
                conv: Conv::new(compute, &stage.conv, 1)?,
                ratio: stage.ratio,
            })
        });
        Ok(Self {
            first: Conv::new(compute, &w.first, 1)?,
            stages: stages.collect::<Result<_>>()?,
            mu: Conv::new(compute, &w.mu, 1)?,
        })
    }

    fn reset(&mut self, compute: &C) -> Result<()> {
        for stage in &mut self.stages {
            stage.units.iter_mut().try_for_each(|unit| compute.reset_carry(&mut unit.depthwise.carry, 0))?;
            compute.reset_carry(&mut stage.conv.carry, 0)?;
        }
        compute.reset_carry(&mut self.first.carry, 0)?;
        compute.reset_carry(&mut self.mu.carry, 0)
    }

    /// Samples `[R, 1]` in work[0] to latents, a row a frame.
    fn run(&mut self, compute: &C, work: &mut [C::Buffer; 3], rows: &Rows) -> Result<Vec<f32>> {
        let mut rows = rows.clone();
        self.first.run(compute, work, &rows)?;
        for stage in &mut self.stages {
            rows = stage.run(compute, work, rows)?;
        }
        self.mu.run(compute, work, &rows)?;
        compute.read(&work[0])
    }
}

impl<C: Compute> Down<C> {
    /// On work[0]; returns the rows at the lower rate.
    fn run(&mut self, compute: &C, work: &mut [C::Buffer; 3], rows: Rows) -> Result<Rows> {
        self.units.iter_mut().try_for_each(|unit| unit.run(compute, work, &rows))?;
        let [x, a, _] = work;
        compute.snake(x, &self.alpha, a)?;
        compute.fold(a, self.ratio)?;
        let rows = downsampled(&rows, self.ratio);
        compute.conv(&self.conv.weight, &mut self.conv.carry, a, &rows, x)?;
        Ok(rows)
    }
}

impl<C: Compute> Decoder<C> {
    fn new(compute: &C, w: &weights::Decoder, slots: usize) -> Result<Self> {
        let stages = w.stages.iter().map(|stage| {
            let [scale, shift] = &stage.condition;
            Ok(Up {
                condition: [compute.prepare_vector(scale)?, compute.prepare_vector(shift)?],
                alpha: compute.prepare_vector(&stage.alpha)?,
                conv: Conv::new(compute, &stage.conv, slots)?,
                ratio: stage.ratio,
                units: units(compute, &stage.units, slots)?,
            })
        });
        Ok(Self {
            depthwise: Depthwise::new(compute, &w.depthwise, 1, slots)?,
            pointwise: linear(compute, &w.pointwise)?,
            stages: stages.collect::<Result<_>>()?,
            alpha: compute.prepare_vector(&w.alpha)?,
            last: Conv::new(compute, &w.last, slots)?,
        })
    }

    fn reset(&mut self, compute: &C, slot: usize) -> Result<()> {
        for stage in &mut self.stages {
            stage.units.iter_mut().try_for_each(|unit| compute.reset_carry(&mut unit.depthwise.carry, slot))?;
            compute.reset_carry(&mut stage.conv.carry, slot)?;
        }
        compute.reset_carry(&mut self.depthwise.carry, slot)?;
        compute.reset_carry(&mut self.last.carry, slot)
    }

    /// Latents `[R, D]` in work[0] to samples, one after the other.
    fn run(&mut self, compute: &C, work: &mut [C::Buffer; 3], rows: &Rows) -> Result<Vec<f32>> {
        let mut rows = rows.clone();
        self.widen(compute, work, &rows)?;
        for stage in &mut self.stages {
            rows = stage.run(compute, work, rows)?;
        }
        self.finish(compute, work, &rows)
    }

    /// From D to the widest, on work[0].
    fn widen(&mut self, compute: &C, work: &mut [C::Buffer; 3], rows: &Rows) -> Result<()> {
        let [z, a, _] = work;
        self.depthwise.run(compute, z, rows, a)?;
        compute.linear(&self.pointwise, View { buffer: a, at: 0, width: self.depthwise.channels }, z)
    }

    /// From the last stage in work[0] to samples.
    fn finish(&mut self, compute: &C, work: &mut [C::Buffer; 3], rows: &Rows) -> Result<Vec<f32>> {
        let [x, a, _] = work;
        compute.snake(x, &self.alpha, a)?;
        compute.conv(&self.last.weight, &mut self.last.carry, a, rows, x)?;
        compute.tanh(x)?;
        compute.read(x)
    }
}

impl<C: Compute> Up<C> {
    /// On work[0]; returns the rows at the higher rate.
    fn run(&mut self, compute: &C, work: &mut [C::Buffer; 3], rows: Rows) -> Result<Rows> {
        let [x, a, _] = work;
        compute.affine(x, &self.condition[0], &self.condition[1])?;
        compute.snake(x, &self.alpha, a)?;
        compute.conv(&self.conv.weight, &mut self.conv.carry, a, &rows, x)?;
        compute.unfold(x, self.ratio)?;
        let rows = rows.upsampled(self.ratio);
        self.units.iter_mut().try_for_each(|unit| unit.run(compute, work, &rows))?;
        Ok(rows)
    }
}

impl<C: Compute> Unit<C> {
    /// On work[0], in place.
    fn run(&mut self, compute: &C, work: &mut [C::Buffer; 3], rows: &Rows) -> Result<()> {
        let [x, a, b] = work;
        compute.snake(x, &self.alphas[0], a)?;
        self.depthwise.run(compute, a, rows, b)?;
        compute.snake(b, &self.alphas[1], a)?;
        compute.linear(&self.pointwise, View { buffer: a, at: 0, width: self.depthwise.channels }, b)?;
        compute.add(x, b, None)
    }
}

impl<C: Compute> Depthwise<C> {
    fn new(compute: &C, w: &weights::Depthwise, dilation: usize, slots: usize) -> Result<Self> {
        let channels = w.bias.len();
        Ok(Self {
            weight: compute.prepare_vector(&w.weight)?,
            bias: compute.prepare_vector(&w.bias)?,
            dilation,
            carry: compute.carry(slots, (TAPS - 1) * dilation, channels)?,
            channels,
        })
    }

    fn run(&mut self, compute: &C, x: &C::Buffer, rows: &Rows, out: &mut C::Buffer) -> Result<()> {
        compute.depthwise(&self.weight, Some(&self.bias), 1, self.dilation, &mut self.carry, x, rows, out)
    }
}

impl<C: Compute> Conv<C> {
    fn new(compute: &C, w: &weights::Conv, slots: usize) -> Result<Self> {
        Ok(Self { weight: linear(compute, w)?, carry: compute.carry(slots, w.taps - 1, w.channels)? })
    }

    /// On work[0], which the result replaces.
    fn run(&mut self, compute: &C, work: &mut [C::Buffer; 3], rows: &Rows) -> Result<()> {
        let [x, a, _] = work;
        compute.conv(&self.weight, &mut self.carry, x, rows, a)?;
        std::mem::swap(x, a);
        Ok(())
    }
}

fn units<C: Compute>(compute: &C, units: &[weights::Unit; 3], slots: usize) -> Result<[Unit<C>; 3]> {
    let [a, b, c] = units;
    let prepare = |unit: &weights::Unit, dilation| {
        Ok(Unit {
            alphas: [compute.prepare_vector(&unit.alphas[0])?, compute.prepare_vector(&unit.alphas[1])?],
            depthwise: Depthwise::new(compute, &unit.depthwise, dilation, slots)?,
            pointwise: linear(compute, &unit.pointwise)?,
        })
    };
    Ok([prepare(a, DILATIONS[0])?, prepare(b, DILATIONS[1])?, prepare(c, DILATIONS[2])?])
}

fn linear<C: Compute>(compute: &C, w: &weights::Conv) -> Result<C::Linear> {
    compute.prepare_linear(std::slice::from_ref(&w.weight), Some(&w.bias), Activations::Full)
}

/// The same stretches of time at a `factor`-th of the rate.
fn downsampled(rows: &Rows, factor: usize) -> Rows {
    let segments =
        rows.segments.iter().map(|s| Segment { slot: s.slot, start: s.start / factor, len: s.len / factor }).collect();
    Rows { segments }
}

#[cfg(test)]
mod tests;
