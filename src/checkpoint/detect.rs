//! Which model a checkpoint is and how its weights are packed, judged by what the files hold; `config.json` only hints.

use std::fmt;

use safetensors::Dtype;

use super::config::Config;
use super::names;
use super::shards::Tensors;
use crate::error::{Error, Result};
use crate::matrix::Float;

/// The model families this program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// rumik-oss-1: a Cohere2 language model over Mimi codes.
    TinyAya,
    /// VoxCPM2: two MiniCPM4 language models and a diffusion decoder over AudioVAE latents.
    VoxCpm2,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::TinyAya => "TinyAya",
            Layout::VoxCpm2 => "VoxCPM2",
        })
    }
}

/// How the weights of the linears are stored. Other tensors stay plain in every packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not quantised; the type most of the bytes have.
    Plain(Float),
    /// NVFP4 as nvidia-modelopt exports it: `weight`, `weight_scale`, `weight_scale_2`.
    ModeloptNvfp4,
    /// NVFP4 as compressed-tensors writes it: `weight_packed`, `weight_scale`, `weight_global_scale`.
    CompressedNvfp4,
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Packing::Plain(Float::Bf16) => "BF16",
            Packing::Plain(Float::F16) => "F16",
            Packing::Plain(Float::F32) => "F32",
            Packing::ModeloptNvfp4 => "NVFP4 (modelopt)",
            Packing::CompressedNvfp4 => "NVFP4 (compressed-tensors)",
        })
    }
}

/// The float type behind a stored type, where it is one the program computes with.
pub fn float(dtype: Dtype) -> Option<Float> {
    match dtype {
        Dtype::F32 => Some(Float::F32),
        Dtype::F16 => Some(Float::F16),
        Dtype::BF16 => Some(Float::Bf16),
        _ => None,
    }
}

/// The model family.
///
/// # Errors
/// The tensors belong to no family this program knows; the message says what was found.
pub fn layout(origin: &str, config: &Config, tensors: &Tensors) -> Result<Layout> {
    let holds =
        |prefix: &str| tensors.range(prefix.to_owned()..).next().is_some_and(|(name, _)| name.starts_with(prefix));
    let architecture = architecture(config);
    let hint = |word: &str| architecture.as_deref().is_some_and(|name| name.to_ascii_lowercase().contains(word));

    if holds("feat_decoder.") || holds("feat_encoder.") || (holds("base_lm.") && hint("voxcpm")) {
        if holds("fusion_concat_proj.") || hint("voxcpm2") {
            return Ok(Layout::VoxCpm2);
        }
        return Err(Error::new(format!("`{origin}` is an older VoxCPM (no `fusion_concat_proj`), not VoxCPM2"))
            .hint("use `openbmb/VoxCPM2` or its NVFP4 variant"));
    }
    let tinyaya = hint("tinyaya") || hint("rumik") || config.value("first_unit_id").is_some();
    if (holds("model.layers.") || holds("model.embed_tokens.")) && (holds("stop_predictor.") || tinyaya) {
        return Ok(Layout::TinyAya);
    }

    let called = architecture.map_or_else(|| "no `architectures`".to_owned(), |name| format!("`{name}`"));
    let held = match tensors.len() {
        0 => "it holds no tensors".to_owned(),
        count => format!("its {count} tensors are {}", names::list(tensors.keys().map(String::as_str))),
    };
    Err(Error::new(format!("`{origin}` is no model rtts knows: its `config.json` says {called}, and {held}")).hint(
        "rtts speaks with two layouts: TinyAya (rumik-oss-1: `model.layers.*` and `stop_predictor.*`) and VoxCPM2 \
         (`base_lm.*`, `feat_decoder.*`)",
    ))
}

/// What `config.json` calls the model, if anything: `architectures[0]`, VoxCPM2's `architecture`, or `model_type`.
pub fn architecture(config: &Config) -> Option<String> {
    let first = config.opt_strings("architectures").ok().flatten().and_then(|list| list.into_iter().next());
    let text = |key| config.opt_str(key).ok().flatten().map(str::to_owned);
    first.or_else(|| text("architecture")).or_else(|| text("model_type"))
}

/// How the weights are packed. Only the model's own folder counts; codecs are plain.
///
/// # Errors
/// A quantisation this program does not read, or two packings at once.
pub fn packing(origin: &str, tensors: &Tensors) -> Result<Packing> {
    let mut bytes = [0_usize; 3];
    let (mut modelopt, mut compressed) = (None, None);
    for (name, tensor) in tensors.iter().filter(|(name, _)| !name.contains('/')) {
        if let Some(what) = foreign(name, tensor.dtype) {
            return Err(Error::new(format!("`{origin}` is quantised as {what}, which rtts does not read (`{name}`)"))
                .hint("use the BF16 checkpoint, or an NVFP4 one of modelopt or compressed-tensors"));
        }
        if name.ends_with(".weight_packed") {
            compressed = compressed.or(Some(name));
        } else if tensor.dtype == Dtype::U8 && name.ends_with(".weight") {
            modelopt = modelopt.or(Some(name));
        }
        if let Some(float) = float(tensor.dtype) {
            bytes[float as usize] += tensor.bytes.len();
        }
    }
    match (modelopt, compressed) {
        (Some(one), Some(other)) => Err(Error::new(format!(
            "`{origin}` mixes two NVFP4 packings: `{one}` is modelopt's, `{other}` is compressed-tensors'"
        ))
        .hint("the folder mixes files of two checkpoints: download one of them into an empty folder")),
        (Some(_), None) => Ok(Packing::ModeloptNvfp4),
        (None, Some(_)) => Ok(Packing::CompressedNvfp4),
        (None, None) => {
            let most = [Float::Bf16, Float::F16, Float::F32].into_iter().max_by_key(|float| bytes[*float as usize]);
            Ok(Packing::Plain(most.unwrap_or(Float::Bf16)))
        }
    }
}

/// The name of a quantisation that is not NVFP4, if this tensor gives one away.
fn foreign(name: &str, dtype: Dtype) -> Option<&'static str> {
    let last = name.rsplit('.').next().unwrap_or(name);
    match (last, dtype) {
        ("qweight" | "qzeros", _) => Some("GPTQ or AWQ"),
        ("SCB" | "absmax" | "quant_map", _) => Some("bitsandbytes"),
        ("weight_packed", dtype) if dtype != Dtype::U8 => Some("packed integers (compressed-tensors `pack-quantized`)"),
        ("weight_scale_inv", _) => Some("FP8 in blocks"),
        ("weight", Dtype::F8_E4M3 | Dtype::F8_E5M2 | Dtype::F8_E4M3FNUZ | Dtype::F8_E5M2FNUZ) => Some("FP8"),
        ("weight", Dtype::I8) => Some("INT8"),
        ("weight_scale", Dtype::F8_E8M0) => Some("MXFP4 or MXFP8"),
        _ => None,
    }
}
