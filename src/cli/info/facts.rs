//! What can be said about a checkpoint from its headers, its scales and its configuration.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};

use super::licence::licence;
use super::reads::{self, Reads};
use crate::checkpoint::{Checkpoint, Dtype, Layout, Packing, Tensor, architecture, names};
use crate::matrix::Float;

/// Everything `rtts info` knows; the JSON form of the command.
#[derive(Debug, Serialize)]
pub struct Facts {
    /// Version of this schema.
    pub v: u32,
    /// The folder, or `builtin`.
    pub model: String,
    /// `TinyAya` or `VoxCPM2`.
    pub layout: String,
    /// What `config.json` calls it.
    pub architecture: Option<String>,
    /// `BF16`, `NVFP4 (modelopt)`…
    pub packing: String,
    /// The tool that packed it and its version, as far as the files say.
    pub packed_by: Option<String>,
    /// How a weight is computed, where it is packed.
    pub convention: Option<String>,
    /// How inputs may be taken: weights only, or 4-bit inputs too.
    pub inputs: Option<String>,
    /// Smallest and largest global scale.
    pub global_scales: Option<[f32; 2]>,
    /// Smallest and largest calibrated input scale.
    pub input_scales: Option<[f32; 2]>,
    /// Layers whose parallel linears share one input scale: shared, and all.
    pub shared_inputs: Option<[usize; 2]>,
    /// How many matrices are packed.
    pub packed_matrices: usize,
    /// In a packed checkpoint, the matrices that are not.
    pub unpacked: Option<String>,
    /// Harmless disagreements between files.
    pub notes: Vec<String>,
    /// The model's speakers; the first is the default.
    pub speakers: Vec<String>,
    /// Samples a second.
    pub sample_rate: Option<u64>,
    /// Values of the configuration that decide what is computed.
    pub configuration: Map<String, Value>,
    /// The model, part by part.
    pub parts: Vec<Part>,
    /// All parameters.
    pub parameters: u64,
    /// All tensors' bytes.
    pub bytes: u64,
    /// What one step reads.
    pub reads: Option<Reads>,
    /// The files that hold tensors, and their bytes of tensors.
    pub files: BTreeMap<String, u64>,
    /// The machine it would run on.
    pub device: Option<String>,
    /// A notice its owners ask for.
    pub licence: Option<&'static str>,
    /// Every tensor, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensors: Option<Vec<Listed>>,
}

/// One part of the model.
#[derive(Debug, Default, Serialize)]
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// How many tensors.
    pub tensors: usize,
    /// Parameters; scales do not count.
    pub parameters: u64,
    /// Bytes, scales included.
    pub bytes: u64,
    /// Parameters by how they are stored.
    pub stored: BTreeMap<&'static str, u64>,
}

/// One tensor.
#[derive(Debug, Serialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// How values are stored.
    pub dtype: String,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// Bytes.
    pub bytes: u64,
    /// The file.
    pub file: String,
}

impl Facts {
    /// Looks at everything but the weights. What the configuration lacks is left out: `info` explains, it does not judge.
    pub fn gather(checkpoint: &Checkpoint, device: Option<&str>, tensors: bool) -> Self {
        let packing = checkpoint.packing();
        let parts = parts(checkpoint);
        let multiplies = packing == Packing::ModeloptNvfp4;
        let inputs = scales(checkpoint, if multiplies { ".input_scale" } else { ".input_global_scale" });
        let listed = |(name, tensor): (&str, &Tensor)| Listed {
            name: name.to_owned(),
            dtype: format!("{:?}", tensor.dtype),
            shape: tensor.shape.clone(),
            bytes: tensor.bytes.len() as u64,
            file: checkpoint.short(&tensor.place).to_owned(),
        };
        let mut files = BTreeMap::new();
        for (_, tensor) in checkpoint.tensors() {
            *files.entry(checkpoint.short(&tensor.place).to_owned()).or_insert(0) += tensor.bytes.len() as u64;
        }
        Self {
            v: 1,
            model: checkpoint.origin().to_owned(),
            layout: checkpoint.layout().to_string(),
            architecture: architecture(checkpoint.config()),
            packing: packing.to_string(),
            packed_by: packed_by(checkpoint),
            convention: convention(packing),
            inputs: input_kind(packing, &inputs),
            global_scales: range(&scales(
                checkpoint,
                if multiplies { ".weight_scale_2" } else { ".weight_global_scale" },
            )),
            input_scales: range(&inputs),
            shared_inputs: shared_inputs(checkpoint),
            packed_matrices: checkpoint.tensors().filter(|(name, tensor)| is_packed(name, tensor)).count(),
            unpacked: unpacked(checkpoint),
            notes: checkpoint.notes().to_vec(),
            speakers: checkpoint.config().opt_strings("speakers").ok().flatten().unwrap_or_default(),
            sample_rate: sample_rate(checkpoint),
            configuration: configuration(checkpoint),
            parameters: parts.iter().map(|part| part.parameters).sum(),
            bytes: parts.iter().map(|part| part.bytes).sum(),
            reads: reads::of(checkpoint),
            parts,
            files,
            device: device.map(str::to_owned),
            licence: licence(checkpoint),
            tensors: tensors.then(|| checkpoint.tensors().map(listed).collect()),
        }
    }
}

/// How a tensor's parameters are stored, and how many there are. Scales are no parameters.
pub fn parameters(name: &str, tensor: &Tensor) -> Option<(&'static str, u64)> {
    let last = name.rsplit('.').next().unwrap_or(name);
    if matches!(last, "weight_scale" | "weight_scale_2" | "weight_global_scale" | "input_scale" | "input_global_scale")
    {
        return None;
    }
    let values = tensor.values() as u64;
    Some(match tensor.dtype {
        _ if is_packed(name, tensor) => ("NVFP4", values * 2),
        Dtype::BF16 => ("BF16", values),
        Dtype::F16 => ("F16", values),
        Dtype::F32 => ("F32", values),
        _ => ("other", values),
    })
}

/// The codes of a packed matrix.
fn is_packed(name: &str, tensor: &Tensor) -> bool {
    tensor.dtype == Dtype::U8 && (name.ends_with(".weight") || name.ends_with(".weight_packed"))
}

/// The part of the model a tensor belongs to; parts print in the order of this list.
fn part(layout: Layout, name: &str) -> &'static str {
    const TINYAYA: [(&str, &str); 3] = [
        ("codec/", "codec (Mimi)"),
        ("stop_predictor.", "stop head"),
        ("model.embed_tokens.", "embedding, also the head"),
    ];
    const VOXCPM2: [(&str, &str); 6] = [
        ("audiovae/", "codec (AudioVAE)"),
        ("base_lm.embed_tokens.", "text embedding"),
        ("base_lm.", "base language model"),
        ("residual_lm.", "residual language model"),
        ("feat_encoder.", "patch encoder"),
        ("feat_decoder.", "diffusion decoder"),
    ];
    let (table, rest): (&[_], _) = match layout {
        Layout::TinyAya => (&TINYAYA, "norms and others"),
        Layout::VoxCpm2 => (&VOXCPM2, "projections and stop head"),
    };
    let linear = layout == Layout::TinyAya && name.contains("_proj.") && name.starts_with("model.layers.");
    if linear {
        return "linears of the layers";
    }
    table.iter().find(|(prefix, _)| name.starts_with(prefix)).map_or(rest, |(_, part)| part)
}

fn parts(checkpoint: &Checkpoint) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (name, tensor) in checkpoint.tensors() {
        let name_of_part = part(checkpoint.layout(), name);
        let at = parts.iter().position(|part| part.name == name_of_part).unwrap_or_else(|| {
            parts.push(Part { name: name_of_part, ..Part::default() });
            parts.len() - 1
        });
        let part = &mut parts[at];
        part.tensors += 1;
        part.bytes += tensor.bytes.len() as u64;
        if let Some((stored, count)) = parameters(name, tensor) {
            part.parameters += count;
            *part.stored.entry(stored).or_insert(0) += count;
        }
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    parts
}

/// The values of all scalar tensors with this ending.
fn scales(checkpoint: &Checkpoint, ending: &str) -> Vec<f32> {
    checkpoint
        .tensors()
        .filter(|(name, tensor)| name.ends_with(ending) && tensor.dtype == Dtype::F32 && tensor.values() == 1)
        .flat_map(|(_, tensor)| Float::F32.decode(&tensor.bytes))
        .collect()
}

fn range(values: &[f32]) -> Option<[f32; 2]> {
    let smallest = values.iter().copied().reduce(f32::min)?;
    let largest = values.iter().copied().reduce(f32::max)?;
    Some([smallest, largest])
}

fn convention(packing: Packing) -> Option<String> {
    let how = match packing {
        Packing::Plain(_) => return None,
        Packing::ModeloptNvfp4 => "× weight_scale_2, which is amax / 2688 and multiplies",
        Packing::CompressedNvfp4 => "÷ weight_global_scale, which is 2688 / amax and divides",
    };
    Some(format!("code (E2M1) × block scale (E4M3, one per 16 columns) {how}; low nibble first"))
}

fn input_kind(packing: Packing, inputs: &[f32]) -> Option<String> {
    match packing {
        Packing::Plain(_) => None,
        _ if inputs.is_empty() => Some("weights only (W4A16): no input scales".to_owned()),
        _ => Some("calibrated for 4-bit inputs (W4A4), also runs with unquantised inputs (W4A16)".to_owned()),
    }
}

fn packed_by(checkpoint: &Checkpoint) -> Option<String> {
    let claim = checkpoint.claims().iter().find(|claim| claim.tool.is_some())?;
    let version = checkpoint.claims().iter().find_map(|claim| claim.version.as_deref());
    let format = claim.format.as_deref().map(|format| format!(", format {format}")).unwrap_or_default();
    let version = version.map(|version| format!(" {version}")).unwrap_or_default();
    Some(format!("{}{version}{format}", claim.tool.as_deref().unwrap_or_default()))
}

/// The matrices that stay plain in a packed checkpoint, codecs aside.
fn unpacked(checkpoint: &Checkpoint) -> Option<String> {
    if matches!(checkpoint.packing(), Packing::Plain(_)) {
        return None;
    }
    let plain = checkpoint
        .tensors()
        .filter(|(name, tensor)| !name.contains('/') && tensor.shape.len() == 2 && tensor.dtype != Dtype::U8)
        .filter_map(|(name, _)| name.strip_suffix(".weight"));
    Some(names::list(plain))
}

/// In how many layers q, k, v, gate and up, which read the same input, share one input scale: a backend then quantises
/// the input once.
fn shared_inputs(checkpoint: &Checkpoint) -> Option<[usize; 2]> {
    if checkpoint.layout() != Layout::TinyAya {
        return None;
    }
    let mut layers: BTreeMap<&str, BTreeSet<&[u8]>> = BTreeMap::new();
    for (name, tensor) in checkpoint.tensors() {
        let Some(module) = name.strip_suffix(".input_scale") else { continue };
        let Some((layer, linear)) =
            module.rsplit_once('.').and_then(|(block, linear)| Some((block.rsplit_once('.')?.0, linear)))
        else {
            continue;
        };
        if ["q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"].contains(&linear) {
            layers.entry(layer).or_default().insert(&tensor.bytes);
        }
    }
    let shared = layers.values().filter(|scales| scales.len() == 1).count();
    (!layers.is_empty()).then_some([shared, layers.len()])
}

fn sample_rate(checkpoint: &Checkpoint) -> Option<u64> {
    let rate = match checkpoint.layout() {
        Layout::TinyAya => checkpoint.json("codec/config.json").ok()?.opt_usize("sampling_rate"),
        Layout::VoxCpm2 => checkpoint.config().object("audio_vae_config").ok()??.opt_usize("out_sample_rate"),
    };
    rate.ok().flatten().map(|rate| rate as u64)
}

/// The values that decide what is computed, under the names of the file.
fn configuration(checkpoint: &Checkpoint) -> Map<String, Value> {
    const TINYAYA: [&str; 20] = [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
        "sliding_window",
        "rope_theta",
        "rope_parameters",
        "layer_norm_eps",
        "logit_scale",
        "num_quantizers",
        "codebook_size",
        "frame_rate_hz",
        "first_unit_id",
        "last_unit_id",
        "text_start_token_id",
        "audio_start_token_id",
        "audio_end_token_id",
    ];
    const VOXCPM2: [&str; 7] = [
        "patch_size",
        "feat_dim",
        "scalar_quantization_latent_dim",
        "scalar_quantization_scale",
        "residual_lm_num_layers",
        "residual_lm_no_rope",
        "max_length",
    ];
    const INNER: [(&str, &[&str]); 4] = [
        (
            "lm_config",
            &[
                "hidden_size",
                "intermediate_size",
                "num_hidden_layers",
                "num_attention_heads",
                "num_key_value_heads",
                "kv_channels",
                "vocab_size",
                "rope_theta",
                "use_mup",
            ],
        ),
        ("encoder_config", &["hidden_dim", "ffn_dim", "num_heads", "num_layers"]),
        ("dit_config", &["hidden_dim", "ffn_dim", "num_heads", "num_layers"]),
        ("audio_vae_config", &["sample_rate", "out_sample_rate", "latent_dim"]),
    ];
    let config = checkpoint.config();
    let mut out = Map::new();
    let keys: &[&str] = match checkpoint.layout() {
        Layout::TinyAya => &TINYAYA,
        Layout::VoxCpm2 => &VOXCPM2,
    };
    for &key in keys {
        if let Some(value) = config.value(key).filter(|value| !value.is_null()) {
            out.insert(key.to_owned(), value.clone());
        }
    }
    if checkpoint.layout() == Layout::VoxCpm2 {
        for (group, keys) in INNER {
            let Ok(Some(inner)) = config.object(group) else { continue };
            for &key in keys {
                if let Some(value) = inner.value(key).filter(|value| !value.is_null()) {
                    out.insert(format!("{group}.{key}"), value.clone());
                }
            }
        }
    }
    out
}
