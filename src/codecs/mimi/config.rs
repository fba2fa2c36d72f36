//! What `codec/config.json` says about a Mimi decoder. Variants this program does not compute are refused by name.

use crate::checkpoint::Config as Json;
use crate::error::{Error, Result};

/// The decoder's shape.
#[derive(Clone, Debug)]
pub struct Config {
    /// Samples per second.
    pub sample_rate: u32,
    /// H, the transformer's and the quantizer output's width.
    pub hidden: usize,
    /// Codes of a codebook.
    pub codebook: usize,
    /// Width of a codebook entry.
    pub code_dim: usize,
    /// Nh; there is no grouping.
    pub heads: usize,
    /// D
    pub head_dim: usize,
    /// Transformer layers.
    pub layers: usize,
    /// Inner width of its MLP.
    pub inner: usize,
    /// How many 25 Hz steps a query sees, itself included.
    pub window: usize,
    /// Base of the rotation.
    pub rope_theta: f32,
    /// Added to the variance in every norm.
    pub eps: f32,
    /// Channels after the last transposed convolution.
    pub filters: usize,
    /// Taps of the first and of the last convolution, and of the residual blocks' first one.
    pub taps: [usize; 3],
    /// Inside a residual block the channels are divided by this.
    pub compress: usize,
    /// Strides of the transposed convolutions, in order.
    pub ratios: Vec<usize>,
    /// Stride of the first, depthwise upsampling: transformer steps per frame.
    pub upsample: usize,
}

impl Config {
    /// Reads and checks the codec's configuration.
    ///
    /// # Errors
    /// A missing or implausible value, or a variant that is not supported.
    pub fn read(json: &Json) -> Result<Self> {
        only_bool(json, "use_causal_conv", true)?;
        only_bool(json, "use_conv_shortcut", false)?;
        only_size(json, "audio_channels", 1)?;
        only_size(json, "num_semantic_quantizers", 1)?;
        only_size(json, "num_residual_layers", 1)?;
        for (key, only) in [("pad_mode", "constant"), ("hidden_act", "gelu")] {
            if let Some(found) = json.opt_str(key)?.filter(|found| *found != only) {
                return Err(unsupported(json, key, found, only));
            }
        }
        if let Some(part) = json.opt_f32("trim_right_ratio")?.filter(|part| *part != 1.0) {
            return Err(unsupported(json, "trim_right_ratio", &part.to_string(), "1.0"));
        }
        let size = |key: &str| match json.usize(key)? {
            value @ 1..=1_048_576 => Ok(value),
            value => Err(json.wrong(key, format!("is {value}, which is not a plausible size"))),
        };
        let or = |key: &str, default: usize| match json.value(key) {
            Some(_) => size(key),
            None => Ok(default),
        };
        let hidden = size("hidden_size")?;
        let heads = size("num_attention_heads")?;
        let head_dim = or("head_dim", hidden / heads)?;
        if or("num_key_value_heads", heads)? != heads {
            return Err(
                json.wrong("num_key_value_heads", "differs from num_attention_heads, which the codec does not support")
            );
        }
        if head_dim % 2 != 0 {
            return Err(json.wrong("head_dim", format!("is {head_dim}, but only an even size can be rotated in pairs")));
        }
        if or("upsample_groups", hidden)? != hidden {
            return Err(
                json.wrong("upsample_groups", "differs from hidden_size, but only a depthwise upsampling is supported")
            );
        }
        let ratios = json.opt_usizes("upsampling_ratios")?.unwrap_or_else(|| vec![8, 6, 5, 4]);
        if ratios.is_empty() || ratios.len() > 16 || ratios.iter().any(|r| !(1..=64).contains(r)) {
            return Err(json.wrong("upsampling_ratios", "holds implausible strides"));
        }
        let sample_rate = size("sampling_rate")?;
        let frame_rate = f64::from(json.f32("frame_rate")?);
        let per_frame = sample_rate as f64 / (ratios.iter().product::<usize>() as f64 * frame_rate);
        if !(per_frame.fract() == 0.0 && (1.0..=16.0).contains(&per_frame)) {
            return Err(json.wrong("frame_rate", "does not follow from sampling_rate and upsampling_ratios"));
        }
        let layers = size("num_hidden_layers")?;
        if layers > 1024 {
            return Err(
                json.wrong("num_hidden_layers", format!("is {layers}, which is not a plausible number of layers"))
            );
        }
        let filters = size("num_filters")?;
        let compress = or("compress", 2)?;
        if filters % compress != 0 {
            return Err(json.wrong("compress", format!("does not divide num_filters {filters}")));
        }
        let rope_theta = match json.object("rope_parameters")? {
            Some(object) => object.f32("rope_theta")?,
            None => json.opt_f32("rope_theta")?.unwrap_or(10_000.0),
        };
        let eps = json.opt_f32("norm_eps")?.unwrap_or(1e-5);
        if rope_theta <= 1.0 || eps <= 0.0 {
            return Err(json.wrong("rope_theta", "must be above one, and `norm_eps` above zero"));
        }
        Ok(Self {
            sample_rate: u32::try_from(sample_rate).map_err(|_| json.wrong("sampling_rate", "is implausible"))?,
            hidden,
            codebook: size("codebook_size")?,
            code_dim: size("codebook_dim")?,
            heads,
            head_dim,
            layers,
            inner: size("intermediate_size")?,
            window: size("sliding_window")?,
            rope_theta,
            eps,
            filters,
            taps: [or("kernel_size", 7)?, or("last_kernel_size", 3)?, or("residual_kernel_size", 3)?],
            compress,
            ratios,
            upsample: per_frame as usize,
        })
    }

    /// Samples of one frame.
    pub fn frame_samples(&self) -> usize {
        self.upsample * self.ratios.iter().product::<usize>()
    }
}

fn unsupported(json: &Json, key: &str, value: &str, only: &str) -> Error {
    json.wrong(key, format!("is `{value}`, but only `{only}` is supported"))
}

fn only_bool(json: &Json, key: &str, only: bool) -> Result<()> {
    match json.opt_bool(key)? {
        Some(found) if found != only => Err(unsupported(json, key, &found.to_string(), &only.to_string())),
        _ => Ok(()),
    }
}

fn only_size(json: &Json, key: &str, only: usize) -> Result<()> {
    match json.opt_usize(key)? {
        Some(found) if found != only => Err(unsupported(json, key, &found.to_string(), &only.to_string())),
        _ => Ok(()),
    }
}
