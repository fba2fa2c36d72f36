//! What `config.json` says about a VoxCPM2 model (specification 1.2). Keys that only training needs are not read, absent
//! ones take the official default, and what this program can't honour is refused by name.

use crate::checkpoint::{Checkpoint, Config as Json};
use crate::compute::{Rope, RopePairs};
use crate::error::Result;

/// Products of two sizes stay far from overflow below this.
const LARGEST: usize = 1 << 24;
/// No stack is deeper.
const DEEPEST: usize = 1024;

/// The shape of one transformer stack; all four have the same layer.
#[derive(Clone, Debug)]
pub struct Shape {
    /// H
    pub hidden: usize,
    /// I, the inner width of the MLP.
    pub inner: usize,
    /// Nh
    pub heads: usize,
    /// Nkv
    pub kv_heads: usize,
    /// D
    pub head_dim: usize,
    /// How many layers.
    pub layers: usize,
    /// Added to the mean square in every norm.
    pub eps: f32,
    /// `None` = no positions at all.
    pub rope: Option<Rope>,
    /// Factor on what every branch adds to the residual stream.
    pub branch: f32,
}

/// The whole model but its codec.
#[derive(Clone, Debug)]
pub struct Config {
    /// The language model that plans: causal, with positions.
    pub base: Shape,
    /// The language model that adds acoustic detail: causal.
    pub residual: Shape,
    /// LocEnc: a patch becomes one embedding.
    pub encoder: Shape,
    /// LocDiT: estimates velocities.
    pub decoder: Shape,
    /// V, rows of the text embedding.
    pub vocabulary: usize,
    /// Factor on text embeddings.
    pub embedding_scale: f32,
    /// P, latent frames of a patch.
    pub patch: usize,
    /// Latent numbers of a frame.
    pub latent: usize,
    /// Width of the scalar quantisation.
    pub quantised: usize,
    /// Its levels on either side of zero.
    pub levels: f32,
    /// Prompt and audio together.
    pub max_positions: usize,
}

impl Config {
    /// Reads and checks the checkpoint's `config.json`.
    ///
    /// # Errors
    /// A missing or implausible value, or a variant of the architecture that this program does not compute.
    pub fn read(checkpoint: &Checkpoint) -> Result<Self> {
        let json = checkpoint.config();
        let lm = object(json, "lm_config")?;
        let dit = object(json, "dit_config")?;
        if dit.opt_bool("dit_mean_mode")? == Some(true) {
            return Err(dit.wrong("dit_mean_mode", "is true, but only `false` is supported"));
        }
        let mup = lm.opt_bool("use_mup")?.unwrap_or(true);
        let depth = if mup { lm.f32("scale_depth")? } else { 1.0 };
        let base = Shape {
            hidden: size(&lm, "hidden_size")?,
            inner: size(&lm, "intermediate_size")?,
            heads: size(&lm, "num_attention_heads")?,
            kv_heads: size(&lm, "num_key_value_heads")?,
            head_dim: 0,
            layers: deep(&lm, "num_hidden_layers", None)?,
            eps: lm.f32("rms_norm_eps")?,
            rope: None,
            branch: 1.0,
        };
        if base.eps <= 0.0 {
            return Err(lm.wrong("rms_norm_eps", format!("is {}, but must be above zero", base.eps)));
        }
        let finish = |json: &Json, heads: &str, shape: Shape, rotates: bool| -> Result<Shape> {
            let head_dim = head_dim(json, heads, &shape)?;
            Ok(Shape {
                head_dim,
                rope: if rotates { Some(rope(&lm, head_dim)?) } else { None },
                branch: if mup { depth / (shape.layers as f32).sqrt() } else { 1.0 },
                ..shape
            })
        };
        let local = |key: &str| -> Result<Shape> {
            let json = object(json, key)?;
            let shape = Shape {
                hidden: or(&json, "hidden_dim", 1024)?,
                inner: or(&json, "ffn_dim", 4096)?,
                heads: or(&json, "num_heads", 16)?,
                layers: deep(&json, "num_layers", Some(4))?,
                ..base.clone()
            };
            finish(&json, "num_heads", shape, true)
        };
        let encoder = local("encoder_config")?;
        let decoder = local("dit_config")?;
        if decoder.hidden < 4 || !decoder.hidden.is_multiple_of(2) {
            return Err(dit.wrong("hidden_dim", format!("is {}, but times need an even width", decoder.hidden)));
        }
        let stacked = Shape { layers: deep(json, "residual_lm_num_layers", Some(8))?, ..base.clone() };
        let no_rope = json.opt_bool("residual_lm_no_rope")?.unwrap_or(false);
        let residual = finish(&lm, "num_attention_heads", stacked, !no_rope)?;
        let levels = json.opt_f32("scalar_quantization_scale")?.unwrap_or(9.0);
        if levels <= 0.0 {
            return Err(json.wrong("scalar_quantization_scale", format!("is {levels}, but must be above zero")));
        }
        let config = Self {
            base: finish(&lm, "num_attention_heads", base.clone(), true)?,
            residual,
            encoder,
            decoder,
            vocabulary: size(&lm, "vocab_size")?,
            embedding_scale: if mup { lm.f32("scale_emb")? } else { 1.0 },
            patch: or(json, "patch_size", 4)?,
            latent: or(json, "feat_dim", 64)?,
            quantised: or(json, "scalar_quantization_latent_dim", 512)?,
            levels,
            max_positions: or(json, "max_length", 8192)?.min(size(&lm, "max_position_embeddings")?),
        };
        if config.patch > 64 {
            return Err(json.wrong("patch_size", format!("is {}, which is not a plausible size", config.patch)));
        }
        Ok(config)
    }
}

fn object(json: &Json, key: &str) -> Result<Json> {
    json.object(key)?.ok_or_else(|| json.wrong(key, "is missing"))
}

fn plausible(json: &Json, key: &str, value: usize, most: usize) -> Result<usize> {
    if (1..=most).contains(&value) {
        Ok(value)
    } else {
        Err(json.wrong(key, format!("is {value}, which is not a plausible size")))
    }
}

fn size(json: &Json, key: &str) -> Result<usize> {
    plausible(json, key, json.usize(key)?, LARGEST)
}

fn or(json: &Json, key: &str, default: usize) -> Result<usize> {
    plausible(json, key, json.opt_usize(key)?.unwrap_or(default), LARGEST)
}

fn deep(json: &Json, key: &str, default: Option<usize>) -> Result<usize> {
    let layers = match (json.opt_usize(key)?, default) {
        (Some(layers), _) | (None, Some(layers)) => layers,
        (None, None) => json.usize(key)?,
    };
    plausible(json, key, layers, DEEPEST)
}

/// `kv_channels`, or the hidden size over the heads.
fn head_dim(json: &Json, heads_key: &str, shape: &Shape) -> Result<usize> {
    if !shape.heads.is_multiple_of(shape.kv_heads) {
        let why = format!("is {}, no multiple of {} key/value heads", shape.heads, shape.kv_heads);
        return Err(json.wrong(heads_key, why));
    }
    let stated = json.opt_usize("kv_channels")?;
    let dim = match stated {
        Some(dim) => plausible(json, "kv_channels", dim, 65536)?,
        None if shape.hidden.is_multiple_of(shape.heads) => shape.hidden / shape.heads,
        None => {
            let why = format!("is {}, which does not divide a hidden size of {}", shape.heads, shape.hidden);
            return Err(json.wrong(heads_key, why));
        }
    };
    if !dim.is_multiple_of(2) {
        return Err(json.wrong("kv_channels", format!("makes heads of {dim}, which cannot rotate in halves")));
    }
    Ok(dim)
}

/// LongRoPE: one list of factors, chosen by the configuration and not by the length of a text.
fn rope(lm: &Json, head_dim: usize) -> Result<Rope> {
    let theta = lm.f32("rope_theta")?;
    if theta <= 1.0 {
        return Err(lm.wrong("rope_theta", format!("is {theta}, which is not a plausible base")));
    }
    let mut rope = Rope::plain(theta, head_dim, RopePairs::Halves);
    let Some(scaling) = lm.object("rope_scaling")? else { return Ok(rope) };
    let kind = match scaling.opt_str("type")? {
        Some(kind) => Some(("type", kind)),
        None => scaling.opt_str("rope_type")?.map(|kind| ("rope_type", kind)),
    };
    if let Some((key, kind)) = kind.filter(|(_, kind)| *kind != "longrope") {
        return Err(scaling.wrong(key, format!("is `{kind}`, but only `longrope` is supported")));
    }
    let most = size(lm, "max_position_embeddings")?;
    let original = size(&scaling, "original_max_position_embeddings")?;
    let key = if most > original { "long_factor" } else { "short_factor" };
    let factors = numbers(&scaling, key)?;
    if factors.len() != head_dim / 2 || factors.iter().any(|factor| *factor <= 0.0) {
        let why =
            format!("needs {} numbers above zero for heads of {head_dim}, but has {}", head_dim / 2, factors.len());
        return Err(scaling.wrong(key, why));
    }
    let amplitude = (1.0 + (most as f64 / original as f64).ln() / (original as f64).ln()).sqrt();
    if !amplitude.is_finite() {
        return Err(
            scaling.wrong("original_max_position_embeddings", format!("is {original}, against {most} positions"))
        );
    }
    rope.stretch = factors.iter().map(|factor| 1.0 / factor).collect();
    rope.amplitude = amplitude as f32;
    Ok(rope)
}

fn numbers(json: &Json, key: &str) -> Result<Vec<f32>> {
    let Some(items) = json.value(key).and_then(serde_json::Value::as_array) else {
        return Err(json.wrong(key, "should be a list of numbers"));
    };
    let number = |item: &serde_json::Value| item.as_f64().map(|n| n as f32).filter(|n| n.is_finite());
    items.iter().map(|item| number(item).ok_or_else(|| json.wrong(key, "should hold numbers only"))).collect()
}
