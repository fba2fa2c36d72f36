//! The tensor contract of the Mimi decoder, and its convolutions in the tap-major order of [`crate::compute`].
//!
//! The file's convolution weights are `[out, in, taps]`, those of transposed convolutions `[in, out, taps]`.

use super::config::Config;
use crate::checkpoint::Contract;
use crate::matrix::{Matrix, PlainMatrix};

/// Everything the decoder reads, on the host.
pub struct Weights {
    /// Quantizer 0.
    pub semantic: Codebooks,
    /// Quantizers 1.. in one table.
    pub acoustic: Codebooks,
    /// `[phases, taps, H]`, oldest tap first.
    pub upsample: Vec<f32>,
    /// Transformer layers in order.
    pub layers: Vec<Layer>,
    /// SEANet's first convolution: H to the widest.
    pub first: Conv,
    /// A stage per ratio.
    pub stages: Vec<Stage>,
    /// Filters to one channel.
    pub last: Conv,
}

/// Codebooks that are summed before one projection.
pub struct Codebooks {
    /// `[books * codes, code_dim]`
    pub table: PlainMatrix,
    /// `[H, code_dim]`
    pub projection: Matrix,
}

/// A pre-norm transformer layer with layer scales and no biases in its linears.
pub struct Layer {
    /// Gain and bias, `[H]` each.
    pub attention_norm: [Vec<f32>; 2],
    /// q, k, v, each `[Nh*D, H]`
    pub qkv: [Matrix; 3],
    /// `[H, Nh*D]`
    pub o: Matrix,
    /// `[H]`
    pub attention_scale: Vec<f32>,
    /// Gain and bias, `[H]` each.
    pub mlp_norm: [Vec<f32>; 2],
    /// `[I, H]`
    pub fc1: Matrix,
    /// `[H, I]`
    pub fc2: Matrix,
    /// `[H]`
    pub mlp_scale: Vec<f32>,
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

/// Upsampling by `ratio`, then a residual block.
pub struct Stage {
    /// `[ratio * C/2, 2 * C]`
    pub up: Conv,
    /// The stride.
    pub ratio: usize,
    /// C/2 to C/2/compress.
    pub narrow: Conv,
    /// Back to C/2.
    pub widen: Conv,
}

impl Weights {
    /// Asks the contract for the decoder's tensors in the folder `codec`; `quantizers` of the stored codebooks are used.
    pub fn ask(c: &mut Contract<'_>, config: &Config, quantizers: usize) -> Self {
        // Needed for encoding only, or bookkeeping of the codec's training.
        for glob in ["encoder*", "downsample.*", "*.input_proj.*", "*.codebook.initialized"] {
            c.ignore(&format!("codec/{glob}"));
        }
        // More codebooks are stored than the model emits.
        c.ignore("codec/quantizer.acoustic_residual_vector_quantizer.layers.*");
        let widest = config.filters << config.ratios.len();
        let mut channels = widest;
        let mut stages = Vec::new();
        for (i, ratio) in config.ratios.iter().enumerate() {
            let half = channels / 2;
            let narrow = half / config.compress;
            let block = format!("decoder.layers.{}.block", 3 * i + 3);
            stages.push(Stage {
                up: transposed(c, &format!("decoder.layers.{}.conv", 3 * i + 2), channels, half, *ratio),
                ratio: *ratio,
                narrow: conv(c, &format!("{block}.1.conv"), half, narrow, config.taps[2]),
                widen: conv(c, &format!("{block}.3.conv"), narrow, half, 1),
            });
            channels = half;
        }
        let last = format!("decoder.layers.{}.conv", 3 * config.ratios.len() + 2);
        Self {
            semantic: codebooks(c, config, "semantic", 1),
            acoustic: codebooks(c, config, "acoustic", quantizers.saturating_sub(1)),
            upsample: upsample(c, config),
            layers: (0..config.layers).map(|i| Layer::ask(c, config, i)).collect(),
            first: conv(c, "decoder.layers.0.conv", config.hidden, widest, config.taps[0]),
            stages,
            last: conv(c, &last, config.filters, 1, config.taps[1]),
        }
    }
}

impl Layer {
    fn ask(c: &mut Contract<'_>, config: &Config, index: usize) -> Self {
        let p = format!("codec/decoder_transformer.layers.{index}");
        let (h, wide) = (config.hidden, config.heads * config.head_dim);
        let norm = |c: &mut Contract<'_>, name: &str| {
            [c.values(&format!("{p}.{name}.weight"), &[h]), c.values(&format!("{p}.{name}.bias"), &[h])]
        };
        Self {
            attention_norm: norm(c, "input_layernorm"),
            qkv: ["q", "k", "v"].map(|n| c.matrix(&format!("{p}.self_attn.{n}_proj"), wide, h)),
            o: c.matrix(&format!("{p}.self_attn.o_proj"), h, wide),
            attention_scale: c.values(&format!("{p}.self_attn_layer_scale.scale"), &[h]),
            mlp_norm: norm(c, "post_attention_layernorm"),
            fc1: c.matrix(&format!("{p}.mlp.fc1"), config.inner, h),
            fc2: c.matrix(&format!("{p}.mlp.fc2"), h, config.inner),
            mlp_scale: c.values(&format!("{p}.mlp_layer_scale.scale"), &[h]),
        }
    }
}

/// table = embed_sum / max(cluster_usage, 1e-5), row by row.
fn codebooks(c: &mut Contract<'_>, config: &Config, part: &str, books: usize) -> Codebooks {
    let p = format!("codec/quantizer.{part}_residual_vector_quantizer");
    let mut table = Vec::new();
    for book in 0..books {
        let sums = c.values(&format!("{p}.layers.{book}.codebook.embed_sum"), &[config.codebook, config.code_dim]);
        let usage = c.values(&format!("{p}.layers.{book}.codebook.cluster_usage"), &[config.codebook]);
        for (sum, usage) in sums.chunks_exact(config.code_dim).zip(&usage) {
            table.extend(sum.iter().map(|v| v / usage.max(1e-5)));
        }
    }
    let projection = c.values(&format!("{p}.output_proj.weight"), &[config.hidden, config.code_dim, 1]);
    Codebooks {
        table: matrix(books * config.codebook, config.code_dim, table),
        projection: Matrix::Plain(matrix(config.hidden, config.code_dim, projection)),
    }
}

/// `[H, 1, 2s]` to `[s phases, 2 taps, H]`: phase p reads W[p + s] of the step before and W[p] of this one.
fn upsample(c: &mut Contract<'_>, config: &Config) -> Vec<f32> {
    let (h, s) = (config.hidden, config.upsample);
    let w = c.values("codec/upsample.conv.weight", &[h, 1, 2 * s]);
    let at = |channel: usize, tap: usize| w.get(channel * 2 * s + tap).copied().unwrap_or_default();
    let mut out = Vec::with_capacity(w.len());
    for phase in 0..s {
        for tap in [phase + s, phase] {
            out.extend((0..h).map(|channel| at(channel, tap)));
        }
    }
    out
}

/// `[out, in, taps]` to `[out, taps, in]`.
fn conv(c: &mut Contract<'_>, name: &str, input: usize, output: usize, taps: usize) -> Conv {
    let w = c.values(&format!("codec/{name}.weight"), &[output, input, taps]);
    let mut out = vec![0.0; w.len()];
    for (i, v) in w.iter().enumerate() {
        let (o, rest) = (i / (input * taps), i % (input * taps));
        let (channel, tap) = (rest / taps, rest % taps);
        out[(o * taps + tap) * input + channel] = *v;
    }
    let bias = c.values(&format!("codec/{name}.bias"), &[output]);
    Conv { weight: Matrix::Plain(matrix(output, taps * input, out)), bias, channels: input, taps }
}

/// `[in, out, 2r]` to `[r * out, 2 taps, in]`: output step j reads W[j + r] of the input before and W[j] of this one.
fn transposed(c: &mut Contract<'_>, name: &str, input: usize, output: usize, r: usize) -> Conv {
    let w = c.values(&format!("codec/{name}.weight"), &[input, output, 2 * r]);
    let mut out = vec![0.0; w.len()];
    for (i, v) in w.iter().enumerate() {
        let (channel, rest) = (i / (output * 2 * r), i % (output * 2 * r));
        let (o, tap) = (rest / (2 * r), rest % (2 * r));
        let (step, age) = (tap % r, tap / r); // age 1: the input before
        out[((step * output + o) * 2 + 1 - age) * input + channel] = *v;
    }
    let bias = c.values(&format!("codec/{name}.bias"), &[output]).repeat(r);
    Conv { weight: Matrix::Plain(matrix(r * output, 2 * input, out)), bias, channels: input, taps: 2 }
}

/// An f32 matrix; empty where the contract already noted a problem with its tensor.
fn matrix(n: usize, k: usize, values: Vec<f32>) -> PlainMatrix {
    if values.len() == n * k { PlainMatrix::from_f32(n, k, &values) } else { PlainMatrix::from_f32(0, k, &[]) }
}
