//! What the configuration files say about quantisation, cross-checked with what the tensors are.
//!
//! The tensors decide; the files only hint. A contradiction that could mean misread weights (another tool, another
//! format, another block size) is refused, a harmless one becomes a note for `rtts info`.
//!
//! Two places: `hf_quant_config.json` (modelopt) and `quantization_config` in `config.json` (modelopt and
//! compressed-tensors). modelopt's `four_over_six` variant scales by amax/(6·256) instead of amax/(6·448): the scale is
//! stored, so a reader does nothing different.

use serde_json::Value;

use super::config::Config;
use super::detect::{Packing, float};
use super::groups::{self, Group};
use super::names;
use super::shards::Tensors;
use super::source::Source;
use crate::error::{Error, Result};

/// What one file says.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The file, and the key inside it.
    pub place: String,
    /// The tool: `modelopt` or `compressed-tensors`.
    pub tool: Option<String>,
    /// The tool's version.
    pub version: Option<String>,
    /// `NVFP4`, `W4A16_NVFP4`, `nvfp4-pack-quantized`…
    pub format: Option<String>,
    /// Values per block scale.
    pub group_size: Option<usize>,
    /// Bits of a weight.
    pub bits: Option<usize>,
    /// Modules that stay plain: names, globs and patterns.
    pub excluded: Vec<String>,
    /// compressed-tensors' groups of modules.
    pub groups: Vec<Group>,
    /// The cache's quantisation, which rtts does not use.
    pub cache: Option<String>,
    /// modelopt's variant with another global scale; nothing changes for a reader.
    pub four_over_six: bool,
}

/// Reads both places.
///
/// # Errors
/// A value of the wrong kind.
pub fn claims(source: &Source, config: &Config) -> Result<Vec<Claim>> {
    let mut claims = Vec::new();
    if source.has("hf_quant_config.json") {
        let place = source.place("hf_quant_config.json");
        let file = Config::parse(&place, &source.read("hf_quant_config.json")?)?;
        let inner = file.object("quantization")?;
        claims.push(claim(place, &file, inner.as_ref().unwrap_or(&file))?);
    }
    if let Some(inner) = config.object("quantization_config")? {
        claims.push(claim(format!("{}: quantization_config", config.place()), &inner, &inner)?);
    }
    Ok(claims)
}

fn claim(place: String, outer: &Config, inner: &Config) -> Result<Claim> {
    let text = |config: &Config, key| config.opt_str(key).map(|text| text.map(str::to_owned));
    let producer = outer.object("producer")?;
    let named = match &producer {
        Some(producer) => text(producer, "name")?,
        None => None,
    };
    let version = match &producer {
        Some(producer) => text(producer, "version")?,
        None => text(inner, "version")?,
    };
    let groups = groups::read(inner)?;
    let weights = weights(inner)?;
    let weights = weights.as_ref();
    let count = |key| weights.map_or(Ok(None), |weights| weights.opt_usize(key));
    let list = |key| inner.opt_strings(key).map(Option::unwrap_or_default);
    let mut excluded = list("exclude_modules")?;
    excluded.extend(list("ignore")?);
    let format = match text(inner, "quant_algo")? {
        Some(algorithm) => Some(algorithm),
        None => text(inner, "format")?,
    };
    let cache = match text(inner, "kv_cache_quant_algo")? {
        Some(algorithm) => Some(algorithm),
        None => inner.object("kv_cache_scheme")?.map(|_| "a scheme of its own".to_owned()),
    };
    Ok(Claim {
        place,
        tool: text(inner, "quant_method")?.or(named),
        version,
        four_over_six: format.as_deref().is_some_and(|name| name.to_ascii_lowercase().contains("four_over_six"))
            || [Some(inner), weights]
                .into_iter()
                .flatten()
                .any(|c| c.value("four_over_six") == Some(&Value::Bool(true))),
        format,
        group_size: inner.opt_usize("group_size")?.or(count("group_size")?),
        bits: count("num_bits")?,
        excluded,
        groups,
        cache,
    })
}

/// `config_groups.*.weights` of the first group.
fn weights(inner: &Config) -> Result<Option<Config>> {
    let Some(groups) = inner.object("config_groups")? else { return Ok(None) };
    let Some(first) = groups.keys().next() else { return Ok(None) };
    match groups.object(first)? {
        Some(group) => group.object("weights"),
        None => Ok(None),
    }
}

/// Notes on harmless disagreements.
///
/// # Errors
/// The files describe another quantisation than the tensors have.
pub fn check(claims: &[Claim], packing: Packing, tensors: &Tensors) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for claim in claims {
        if matches!(packing, Packing::Plain(_)) {
            notes.push(format!("`{}` speaks of quantisation, but the weights are {packing}", claim.place));
            continue;
        }
        contradiction(claim, packing)?;
        if let Some(cache) = &claim.cache {
            notes.push(format!("made for a quantised cache ({cache}); rtts keeps the cache in full"));
        }
        if claim.four_over_six {
            notes.push("scaled with `four_over_six`; nothing changes for a reader".to_owned());
        }
        if packing == Packing::CompressedNvfp4 && !claim.groups.is_empty() {
            let (packed, plain) = modules(tensors);
            notes.extend(groups::check(&claim.place, &claim.groups, &claim.excluded, &packed, &plain)?);
            continue;
        }
        let packed: Vec<&str> = tensors
            .keys()
            .filter_map(|name| name.strip_suffix(".weight_scale"))
            .filter(|module| claim.excluded.iter().any(|glob| names::fits(glob, module)))
            .collect();
        if !packed.is_empty() {
            let modules = names::list(packed);
            notes.push(format!("`{}` excludes {modules}, which the file holds as NVFP4", claim.place));
        }
    }
    if claims.is_empty() && !matches!(packing, Packing::Plain(_)) {
        notes.push("no file describes the quantisation; the tensors' names and types do".to_owned());
    }
    notes.sort();
    notes.dedup();
    Ok(notes)
}

/// The modules that are packed, and those that are plain matrices, in the model's own folder.
fn modules(tensors: &Tensors) -> (Vec<&str>, Vec<&str>) {
    let own = || tensors.iter().filter(|(name, _)| !name.contains('/'));
    let packed = own().filter_map(|(name, _)| name.strip_suffix(".weight_packed")).collect();
    let matrix = |(_, tensor): &(&String, &super::Tensor)| tensor.shape.len() == 2 && float(tensor.dtype).is_some();
    let plain = own().filter(matrix).filter_map(|(name, _)| name.strip_suffix(".weight")).collect();
    (packed, plain)
}

fn contradiction(claim: &Claim, packing: Packing) -> Result<()> {
    let refuse = |says: String, holds: &str| {
        Err(Error::new(format!("`{}` says {says}, but the files hold {holds}", claim.place)).hint(
            "configuration and weights belong to different checkpoints: download one of them into an empty folder",
        ))
    };
    let own = match packing {
        Packing::CompressedNvfp4 => "compressed-tensors",
        _ => "modelopt",
    };
    if let Some(tool) = &claim.tool
        && tool != own
        && matches!(tool.as_str(), "modelopt" | "compressed-tensors")
    {
        return refuse(format!("`{tool}`"), &format!("NVFP4 tensors as `{own}` names them"));
    }
    if let Some(format) = &claim.format
        && !format.to_ascii_uppercase().contains("NVFP4")
        && !format.eq_ignore_ascii_case("MIXED_PRECISION")
        && !format.eq_ignore_ascii_case("mixed-precision")
    {
        return refuse(format!("the format is `{format}`"), "NVFP4");
    }
    // Groups are judged one by one, against the modules they are for.
    if packing == Packing::CompressedNvfp4 && !claim.groups.is_empty() {
        return Ok(());
    }
    if let Some(size) = claim.group_size
        && size != 16
    {
        return refuse(format!("a block has {size} values"), "NVFP4, whose blocks have 16");
    }
    if let Some(bits) = claim.bits
        && bits != 4
    {
        return refuse(format!("weights have {bits} bits"), "NVFP4, whose weights have 4");
    }
    Ok(())
}
