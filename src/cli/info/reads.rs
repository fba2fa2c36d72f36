//! How many bytes one step of the model has to read: with the memory's bandwidth, the floor of its time.

use serde::Serialize;

use crate::checkpoint::{Checkpoint, Config, Layout, Tensor};
use crate::error::Result;

/// Euler steps of VoxCPM2's diffusion decoder; the first of them is not evaluated.
const SOLVER_STEPS: u64 = 10;

/// What one step reads, for one utterance without any context.
#[derive(Debug, Serialize)]
pub struct Reads {
    /// `token` or `patch`.
    pub step: &'static str,
    /// Steps for a second of audio.
    pub steps_a_second: f64,
    /// Bytes of weights.
    pub bytes: u64,
    /// What they are made of.
    pub of: Vec<(String, u64)>,
    /// Bytes of keys and values for each position of the context, at 16 bits each.
    pub cache_a_position: Option<u64>,
}

/// Bytes read by a step; `None` where the configuration does not tell.
pub fn of(checkpoint: &Checkpoint) -> Option<Reads> {
    match checkpoint.layout() {
        Layout::TinyAya => tinyaya(checkpoint).ok().flatten(),
        Layout::VoxCpm2 => voxcpm2(checkpoint),
    }
}

fn sum(checkpoint: &Checkpoint, wanted: impl Fn(&str) -> bool) -> u64 {
    checkpoint.tensors().filter(|(name, _)| wanted(name)).map(|(_, tensor)| tensor.bytes.len() as u64).sum()
}

/// Every weight of the layers once, the stop head, and of the embedding only the rows that can be emitted.
fn tinyaya(checkpoint: &Checkpoint) -> Result<Option<Reads>> {
    let config = checkpoint.config();
    let quantizers = config.usize("num_quantizers")? as u64;
    let frames = config.f64("frame_rate_hz")?;
    let embedding =
        checkpoint.tensors().find(|(name, _)| *name == "model.embed_tokens.weight").map(|(_, tensor)| tensor);
    let (Some(first), Some(last), Some(embedding)) =
        (config.opt_usize("first_unit_id")?, config.opt_usize("last_unit_id")?, embedding)
    else {
        return Ok(None);
    };
    // Units and the token that ends the audio.
    let rows = last.saturating_sub(first) as u64 + 2;
    let layers = sum(checkpoint, |name| name.starts_with("model.layers.") || name == "model.norm.weight");
    let stop = sum(checkpoint, |name| name.starts_with("stop_predictor."));
    let head = rows.saturating_mul(row_bytes(embedding));
    Ok(Some(Reads {
        step: "token",
        steps_a_second: frames * quantizers as f64,
        bytes: layers.saturating_add(head).saturating_add(stop),
        of: vec![
            ("layers".to_owned(), layers),
            (format!("{rows} rows of the head"), head),
            ("stop head".to_owned(), stop),
        ],
        cache_a_position: cache(config, "num_hidden_layers")?,
    }))
}

/// Both language models and the patch encoder once, the diffusion decoder once per evaluated step.
fn voxcpm2(checkpoint: &Checkpoint) -> Option<Reads> {
    let stack = |prefix: &'static str| sum(checkpoint, |name| name.starts_with(prefix));
    let language = stack("base_lm.").saturating_sub(stack("base_lm.embed_tokens.")) + stack("residual_lm.");
    let encoder = stack("feat_encoder.");
    let decoder = stack("feat_decoder.").saturating_mul(SOLVER_STEPS - 1);
    let codec = stack("audiovae/decoder.");
    let rest = sum(checkpoint, |name| {
        !["base_lm.", "residual_lm.", "feat_encoder.", "feat_decoder.", "audiovae/"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    });
    let config = checkpoint.config();
    let patch = config.opt_usize("patch_size").ok()??;
    let vae = config.object("audio_vae_config").ok()??;
    let rate = vae.opt_usize("sample_rate").ok()??;
    let stride: usize = vae.opt_usizes("encoder_rates").ok()??.iter().try_fold(1_usize, |p, &r| p.checked_mul(r))?;
    let samples = stride.checked_mul(patch).filter(|&samples| samples > 0)?;
    Some(Reads {
        step: "patch",
        steps_a_second: rate as f64 / samples as f64,
        bytes: language.saturating_add(encoder).saturating_add(decoder).saturating_add(rest).saturating_add(codec),
        of: vec![
            ("language models".to_owned(), language),
            ("patch encoder".to_owned(), encoder),
            (format!("diffusion decoder × {} (of {SOLVER_STEPS} solver steps)", SOLVER_STEPS - 1), decoder),
            ("projections and stop head".to_owned(), rest),
            ("AudioVAE decoder".to_owned(), codec),
        ],
        cache_a_position: voxcpm2_cache(config).ok().flatten(),
    })
}

fn row_bytes(tensor: &Tensor) -> u64 {
    tensor.shape.first().map_or(0, |&rows| tensor.bytes.len() as u64 / (rows as u64).max(1))
}

fn voxcpm2_cache(config: &Config) -> Result<Option<u64>> {
    let Some(language) = config.object("lm_config")? else { return Ok(None) };
    let layers = language.usize("num_hidden_layers")? + config.usize("residual_lm_num_layers")?;
    let head = match language.opt_usize("kv_channels")? {
        Some(size) => size,
        None => language.usize("hidden_size")? / language.usize("num_attention_heads")?.max(1),
    };
    Ok(cache_bytes(layers, language.usize("num_key_value_heads")?, head))
}

fn cache(config: &Config, layers: &str) -> Result<Option<u64>> {
    let head = config.usize("hidden_size")? / config.usize("num_attention_heads")?.max(1);
    Ok(cache_bytes(config.usize(layers)?, config.usize("num_key_value_heads")?, head))
}

/// Keys and values of all layers at 16 bits.
fn cache_bytes(layers: usize, heads: usize, head_dim: usize) -> Option<u64> {
    [heads, head_dim, 2, 2]
        .iter()
        .try_fold(layers, |product, &size| product.checked_mul(size))
        .map(|bytes| bytes as u64)
}
