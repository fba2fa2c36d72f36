//! The tensor contract of the AudioVAE, and its convolutions in the tap-major order of [`crate::compute`].
//!
//! The file's convolution weights are `[out, in, taps]`, those of transposed convolutions `[in, out, taps]`, and each is
//! stored as a direction v and a length g for every slice of its first dimension: `w = g v / ||v||`, which is computed
//! here. Both spellings of that are read (`weight_g`, `weight_v` and `parametrizations.weight.original0`, `original1`),
//! and a weight that was multiplied out before (`weight`).

use super::config::Config;
use crate::checkpoint::Contract;
use crate::matrix::{Matrix, PlainMatrix};

/// Taps of every convolution that neither changes the rate nor is pointwise.
pub const TAPS: usize = 7;
/// Dilations of a stage's residual units, in order.
pub const DILATIONS: [usize; 3] = [1, 3, 9];
/// Taps of the encoder's last convolution.
const MU_TAPS: usize = 3;

/// Everything the codec reads, on the host.
pub struct Weights {
    /// Recordings to latents.
    pub encoder: Encoder,
    /// Latents to samples.
    pub decoder: Decoder,
}

/// Recordings to latents.
pub struct Encoder {
    /// One channel to the narrowest.
    pub first: Conv,
    /// A stage per stride.
    pub stages: Vec<Down>,
    /// The widest to D.
    pub mu: Conv,
}

/// Residual units, then a strided convolution.
pub struct Down {
    /// In order of [`DILATIONS`].
    pub units: [Unit; 3],
    /// `[C]`
    pub alpha: Vec<f32>,
    /// `[2 C, 2 * stride * C]`: two taps over rows of `stride * C`.
    pub conv: Conv,
    /// The stride.
    pub ratio: usize,
}

/// Latents to samples.
pub struct Decoder {
    /// Over D channels.
    pub depthwise: Depthwise,
    /// D to the widest.
    pub pointwise: Conv,
    /// A stage per stride.
    pub stages: Vec<Up>,
    /// `[C]` of the last stage's output.
    pub alpha: Vec<f32>,
    /// To one channel.
    pub last: Conv,
}

/// A transposed convolution, then residual units.
pub struct Up {
    /// Scale and shift for the output's sample rate, `[C]` each.
    pub condition: [Vec<f32>; 2],
    /// `[C]`
    pub alpha: Vec<f32>,
    /// `[stride * C/2, 2 * C]`
    pub conv: Conv,
    /// The stride.
    pub ratio: usize,
    /// In order of [`DILATIONS`].
    pub units: [Unit; 3],
}

/// `x + pointwise(snake(depthwise(snake(x))))`
pub struct Unit {
    /// `[C]` of both snakes.
    pub alphas: [Vec<f32>; 2],
    /// Dilated.
    pub depthwise: Depthwise,
    /// `[C, C]`
    pub pointwise: Conv,
}

/// A causal depthwise convolution of [`TAPS`] taps.
pub struct Depthwise {
    /// `[TAPS, C]`, oldest tap first.
    pub weight: Vec<f32>,
    /// `[C]`
    pub bias: Vec<f32>,
}

/// A causal convolution as a linear over `taps` rows of `channels`.
pub struct Conv {
    /// `[N, taps * channels]`, oldest tap first.
    pub weight: Matrix,
    /// `[N]`
    pub bias: Vec<f32>,
    /// C, input channels.
    pub channels: usize,
    /// Input rows that an output row sees.
    pub taps: usize,
}

impl Weights {
    /// Asks the contract for the codec's tensors.
    pub fn ask(c: &mut Contract<'_>, config: &Config) -> Self {
        // The spread of the latents, which only training draws from.
        c.ignore("audiovae/encoder.fc_logvar.*");
        let boundaries = c.integers("audiovae/decoder.sr_bin_boundaries", &[config.boundaries.len()]);
        if !boundaries.is_empty() && boundaries.iter().zip(&config.boundaries).any(|(a, b)| *a != i64::from(*b)) {
            c.problem(format!(
                "`audiovae/decoder.sr_bin_boundaries` is {boundaries:?}, but `config.json` says {:?}",
                config.boundaries
            ));
        }
        Self { encoder: encoder(c, config), decoder: decoder(c, config) }
    }
}

fn encoder(c: &mut Contract<'_>, config: &Config) -> Encoder {
    let first = conv(c, "encoder.block.0", 1, config.encoder_dim, TAPS);
    let mut channels = config.encoder_dim;
    let mut stages = Vec::new();
    for (i, &ratio) in config.encoder_rates.iter().enumerate() {
        let p = format!("encoder.block.{}.block", i + 1);
        let mut strided = conv(c, &format!("{p}.4"), channels, 2 * channels, 2 * ratio);
        // 2 * stride taps over single rows are two taps over folded ones: the values lie in the same order.
        (strided.channels, strided.taps) = (ratio * channels, 2);
        stages.push(Down {
            units: std::array::from_fn(|u| unit(c, &format!("{p}.{u}"), channels)),
            alpha: alpha(c, &format!("{p}.3"), channels),
            conv: strided,
            ratio,
        });
        channels *= 2;
    }
    Encoder { first, stages, mu: conv(c, "encoder.fc_mu", channels, config.latent_dim, MU_TAPS) }
}

fn decoder(c: &mut Contract<'_>, config: &Config) -> Decoder {
    let depthwise = depthwise(c, "decoder.model.0", config.latent_dim);
    let pointwise = conv(c, "decoder.model.1", config.latent_dim, config.decoder_dim, 1);
    let mut channels = config.decoder_dim;
    let mut stages = Vec::new();
    for (i, &ratio) in config.decoder_rates.iter().enumerate() {
        let p = format!("decoder.model.{}.block", i + 2);
        let half = channels / 2;
        stages.push(Up {
            condition: ["scale", "bias"].map(|part| {
                let name = format!("audiovae/decoder.sr_cond_model.{}.{part}_embed.weight", i + 2);
                let table = c.values(&name, &[config.boundaries.len() + 1, channels]);
                table.chunks_exact(channels).nth(config.bucket()).unwrap_or_default().to_vec()
            }),
            alpha: alpha(c, &format!("{p}.0"), channels),
            conv: transposed(c, &format!("{p}.1"), channels, half, ratio),
            ratio,
            units: std::array::from_fn(|u| unit(c, &format!("{p}.{}", u + 2), half)),
        });
        channels = half;
    }
    let last = config.decoder_rates.len() + 2;
    let alpha = alpha(c, &format!("decoder.model.{last}"), channels);
    let last = conv(c, &format!("decoder.model.{}", last + 1), channels, 1, TAPS);
    Decoder { depthwise, pointwise, stages, alpha, last }
}

fn unit(c: &mut Contract<'_>, name: &str, channels: usize) -> Unit {
    Unit {
        alphas: [0, 2].map(|i| alpha(c, &format!("{name}.block.{i}"), channels)),
        depthwise: depthwise(c, &format!("{name}.block.1"), channels),
        pointwise: conv(c, &format!("{name}.block.3"), channels, channels, 1),
    }
}

fn alpha(c: &mut Contract<'_>, name: &str, channels: usize) -> Vec<f32> {
    c.values(&format!("audiovae/{name}.alpha"), &[1, channels, 1])
}

fn bias(c: &mut Contract<'_>, name: &str, len: usize) -> Vec<f32> {
    c.values(&format!("audiovae/{name}.bias"), &[len])
}

/// `[C, 1, taps]` to `[taps, C]`.
fn depthwise(c: &mut Contract<'_>, name: &str, channels: usize) -> Depthwise {
    let w = folded(c, name, [channels, 1, TAPS]);
    let mut weight = vec![0.0; w.len()];
    for (i, v) in w.iter().enumerate() {
        weight[i % TAPS * channels + i / TAPS] = *v;
    }
    Depthwise { weight, bias: bias(c, name, channels) }
}

/// `[out, in, taps]` to `[out, taps, in]`.
fn conv(c: &mut Contract<'_>, name: &str, input: usize, output: usize, taps: usize) -> Conv {
    let w = folded(c, name, [output, input, taps]);
    let mut weight = vec![0.0; w.len()];
    for (from, to) in w.chunks_exact(input * taps).zip(weight.chunks_exact_mut(input * taps)) {
        for (channel, row) in from.chunks_exact(taps).enumerate() {
            for (tap, v) in row.iter().enumerate() {
                to[tap * input + channel] = *v;
            }
        }
    }
    Conv { weight: matrix(output, taps * input, &weight), bias: bias(c, name, output), channels: input, taps }
}

/// `[in, out, 2r]` to `[r * out, 2 taps, in]`: output step j reads W[j + r] of the input before and W[j] of this one.
fn transposed(c: &mut Contract<'_>, name: &str, input: usize, output: usize, r: usize) -> Conv {
    /// Channels that are written side by side, so that whole stretches of memory are read and written.
    const BLOCK: usize = 8;
    let w = folded(c, name, [input, output, 2 * r]);
    let mut weight = vec![0.0; w.len()];
    for (block, rows) in w.chunks(BLOCK * output * 2 * r).enumerate() {
        for o in 0..output {
            for tap in 0..2 * r {
                let (step, age) = (tap % r, tap / r); // age 1: the input before
                let to = ((step * output + o) * 2 + 1 - age) * input + block * BLOCK;
                for (v, row) in weight[to..].iter_mut().zip(rows.chunks_exact(output * 2 * r)) {
                    *v = row[o * 2 * r + tap];
                }
            }
        }
    }
    let bias = bias(c, name, output).repeat(r);
    Conv { weight: matrix(r * output, 2 * input, &weight), bias, channels: input, taps: 2 }
}

/// The weight of this shape: direction times length of every slice of the first dimension.
fn folded(c: &mut Contract<'_>, name: &str, shape: [usize; 3]) -> Vec<f32> {
    let name = format!("audiovae/{name}");
    let part = |old: &str, new: &str| {
        let new = format!("{name}.parametrizations.weight.{new}");
        if c.opt_shape(&new).is_some() { new } else { format!("{name}.{old}") }
    };
    let (lengths, directions) = (part("weight_g", "original0"), part("weight_v", "original1"));
    let whole = format!("{name}.weight");
    if c.opt_shape(&whole).is_some() && c.opt_shape(&directions).is_none() && c.opt_shape(&lengths).is_none() {
        return c.values(&whole, &shape);
    }
    let lengths = c.values(&lengths, &[shape[0], 1, 1]);
    let mut weight = c.values(&directions, &shape);
    for (row, length) in weight.chunks_exact_mut(shape[1] * shape[2]).zip(lengths) {
        let norm = row.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>().sqrt() as f32;
        let scale = length / norm;
        if !scale.is_finite() {
            c.problem(format!("`{directions}` has a row of zeros, which cannot be given the length {length}"));
            break;
        }
        row.iter_mut().for_each(|v| *v *= scale);
    }
    weight
}

/// An f32 matrix; empty where the contract already noted a problem with its tensor.
fn matrix(n: usize, k: usize, values: &[f32]) -> Matrix {
    let whole = values.len() == n * k;
    Matrix::Plain(if whole { PlainMatrix::from_f32(n, k, values) } else { PlainMatrix::from_f32(0, k, &[]) })
}
