//! compressed-tensors' `config_groups`: which modules a configuration says are quantised, and how, against what the
//! files hold.
//!
//! A target or an ignored module is a name, `re:` and a regular expression that fits the beginning of a name (Python's
//! `re.match`), or a class such as `Linear`, which here stands for every module. Ignoring wins. A matrix that the file holds
//! packed must be packed by some group, in the one form that NVFP4 has. The other way round is harmless: exporters write
//! patterns that fit more than they quantised, and a plain matrix can be read for what it is.

use fancy_regex::Regex;

use super::config::Config;
use super::names;
use crate::error::{Error, Result};

/// Values per block scale.
const BLOCK: usize = 16;
/// Bits of a code.
const BITS: usize = 4;

/// One group of modules.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its key in the file.
    pub name: String,
    /// Which modules.
    pub targets: Vec<String>,
    /// `nvfp4-pack-quantized` where the group says so itself.
    pub format: Option<String>,
    /// Bits of a weight.
    pub bits: Option<usize>,
    /// Values per block scale.
    pub group_size: Option<usize>,
    /// `float` or `int`.
    pub kind: Option<String>,
}

/// The groups of a `quantization_config`, in the order of the file.
///
/// # Errors
/// A value of the wrong kind.
pub fn read(inner: &Config) -> Result<Vec<Group>> {
    let Some(groups) = inner.object("config_groups")? else { return Ok(Vec::new()) };
    let mut read = Vec::new();
    for name in groups.keys() {
        let Some(group) = groups.object(name)? else { continue };
        let weights = group.object("weights")?;
        let weights = weights.as_ref();
        let count = |key| weights.map_or(Ok(None), |weights| weights.opt_usize(key));
        let text = |config: &Config, key| config.opt_str(key).map(|text| text.map(str::to_owned));
        read.push(Group {
            name: name.to_owned(),
            targets: group.opt_strings("targets")?.unwrap_or_else(|| vec!["Linear".to_owned()]),
            format: text(&group, "format")?,
            bits: count("num_bits")?,
            group_size: count("group_size")?,
            kind: weights.map_or(Ok(None), |weights| text(weights, "type"))?,
        });
    }
    Ok(read)
}

/// Compares the groups with the modules that are packed in the files, and those that are plain matrices there.
///
/// # Errors
/// A packed module that no group packs, that is ignored, or that is packed in another form; a pattern that cannot be read.
pub fn check(
    place: &str,
    groups: &[Group],
    ignored: &[String],
    packed: &[&str],
    plain: &[&str],
) -> Result<Option<String>> {
    let rules = |names: &[String]| names.iter().map(|name| Rule::read(place, name)).collect::<Result<Vec<_>>>();
    let ignored = rules(ignored)?;
    let targets = groups.iter().map(|group| rules(&group.targets)).collect::<Result<Vec<_>>>()?;
    let group_of = |module: &str| -> Result<Option<usize>> {
        for (at, rules) in targets.iter().enumerate() {
            if any(rules, place, module)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    };
    let (mut left_out, mut untargeted, mut used) = (Vec::new(), Vec::new(), vec![None; groups.len()]);
    for module in packed {
        if any(&ignored, place, module)? {
            left_out.push(*module);
        } else {
            match group_of(module)? {
                Some(at) => used[at] = Some(*module),
                None => untargeted.push(*module),
            }
        }
    }
    if !left_out.is_empty() {
        return Err(disagree(place, &format!("ignores {}", names::list(left_out)), "packed as NVFP4"));
    }
    if !untargeted.is_empty() {
        let says = format!("has no group for {}", names::list(untargeted));
        return Err(disagree(place, &says, "packed as NVFP4"));
    }
    for (group, module) in groups.iter().zip(used) {
        let Some(module) = module else { continue };
        if let Some(what) = group.stranger() {
            let says = format!("gives `{module}` {what} (group `{}`)", group.name);
            return Err(disagree(place, &says, "packed as NVFP4: floats of 4 bits in blocks of 16"));
        }
    }
    // A class says nothing about one module, so only names and patterns count here.
    let mut expected = Vec::new();
    for module in plain {
        let mut named = false;
        for rule in targets.iter().flatten().filter(|rule| !matches!(rule, Rule::Class(_))) {
            named |= rule.fits(place, module)?;
        }
        if named && !any(&ignored, place, module)? {
            expected.push(*module);
        }
    }
    Ok((!expected.is_empty())
        .then(|| format!("`{place}` has {} among what is quantised; the files hold them plain", names::list(expected))))
}

impl Group {
    /// What in this group is not NVFP4, if anything.
    fn stranger(&self) -> Option<String> {
        if let Some(bits) = self.bits.filter(|bits| *bits != BITS) {
            return Some(format!("{bits} bits"));
        }
        if let Some(size) = self.group_size.filter(|size| *size != BLOCK) {
            return Some(format!("blocks of {size} values"));
        }
        if let Some(kind) = self.kind.as_deref().filter(|kind| *kind != "float") {
            return Some(format!("numbers of type `{kind}`"));
        }
        let format = self.format.as_deref().filter(|format| !format.to_ascii_lowercase().contains("nvfp4"));
        format.map(|format| format!("the format `{format}`"))
    }
}

fn disagree(place: &str, says: &str, holds: &str) -> Error {
    Error::new(format!("`{place}` {says}, but the files hold that {holds}"))
        .hint("configuration and weights belong to different checkpoints: download one of them into an empty folder")
}

/// One entry of `targets` or `ignore`.
enum Rule {
    Name(String),
    Pattern(Box<Regex>),
    Class(String),
}

impl Rule {
    fn read(place: &str, text: &str) -> Result<Self> {
        let Some(pattern) = text.strip_prefix("re:") else {
            let class = text.starts_with(|c: char| c.is_ascii_uppercase()) && !text.contains('.');
            return Ok(if class { Rule::Class(text.to_owned()) } else { Rule::Name(text.to_owned()) });
        };
        let regex = Regex::new(&format!("^(?:{pattern})")).map_err(|cause| unreadable(place, text, &cause))?;
        Ok(Rule::Pattern(Box::new(regex)))
    }

    fn fits(&self, place: &str, module: &str) -> Result<bool> {
        match self {
            Rule::Name(name) => Ok(name == module || names::fits(name, module)),
            Rule::Pattern(regex) => regex.is_match(module).map_err(|cause| unreadable(place, regex.as_str(), &cause)),
            // The other classes there are hold no packed matrices.
            Rule::Class(class) => Ok(class == "Linear"),
        }
    }
}

fn any(rules: &[Rule], place: &str, module: &str) -> Result<bool> {
    for rule in rules {
        if rule.fits(place, module)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn unreadable(place: &str, pattern: &str, cause: &fancy_regex::Error) -> Error {
    Error::new(format!("`{place}` has a pattern that cannot be read, `{pattern}`: {cause}"))
        .hint("the file is damaged; download it again")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PACKED: [&str; 2] = ["base_lm.layers.0.mlp.up_proj", "residual_lm.layers.1.self_attn.q_proj"];
    const PLAIN: [&str; 2] = ["base_lm.layers.0.mlp.down_proj", "feat_encoder.encoder.layers.0.self_attn.q_proj"];

    fn judge(config: &str) -> Result<Option<String>> {
        let config = Config::parse("config.json", config.as_bytes()).unwrap();
        let ignored = config.opt_strings("ignore")?.unwrap_or_default();
        check("config.json", &read(&config)?, &ignored, &PACKED, &PLAIN)
    }

    fn group(targets: &str, weights: &str) -> String {
        format!("{{\"targets\": [{targets}], \"weights\": {{{weights}}}}}")
    }

    const NVFP4: &str = r#""num_bits": 4, "type": "float", "group_size": 16"#;

    #[test]
    fn several_groups_and_patterns_that_agree() {
        let base = group(r#""re:^base_lm\\..*\\.up_proj$""#, NVFP4);
        let residual = group(r#""residual_lm.layers.1.self_attn.q_proj""#, NVFP4);
        let wide = group(r#""re:visual.*""#, r#""num_bits": 8"#);
        let groups = format!(r#"{{"config_groups": {{"a": {wide}, "b": {base}, "c": {residual}}}}}"#);
        assert_eq!(judge(&groups).unwrap(), None);
        // A class is every module; what is ignored is none of the group's business.
        let all = group(r#""Linear""#, NVFP4);
        let config = format!(r#"{{"config_groups": {{"a": {all}}}, "ignore": ["re:.*\\.down_proj", "lm_head"]}}"#);
        assert_eq!(judge(&config).unwrap(), None);
        // Lookahead, as Python has it.
        let not = group(r#""re:(?!.*down_proj).*lm\\.""#, NVFP4);
        assert_eq!(judge(&format!(r#"{{"config_groups": {{"a": {not}}}}}"#)).unwrap(), None);
    }

    #[test]
    fn plain_matrices_that_should_be_packed_are_noted() {
        let all = group(r#""re:.*_proj""#, NVFP4);
        let note = judge(&format!(r#"{{"config_groups": {{"a": {all}}}}}"#)).unwrap().unwrap();
        assert!(PLAIN.iter().all(|module| note.contains(module)), "{note}");
    }

    #[test]
    fn disagreements_are_refused_by_module() {
        let all = group(r#""Linear""#, NVFP4);
        let one = group(r#""re:base_lm.*""#, NVFP4);
        let anchored = group(r#""re:layers.*""#, NVFP4);
        let with = |weights: &str| format!(r#"{{"config_groups": {{"g": {}}}}}"#, group(r#""Linear""#, weights));
        let cases = [
            (format!(r#"{{"config_groups": {{"g": {all}}}, "ignore": ["re:.*up_proj$"]}}"#), "ignores `base_lm"),
            (format!(r#"{{"config_groups": {{"g": {one}}}}}"#), "no group for `residual_lm.layers.1.self_attn.q_proj`"),
            (format!(r#"{{"config_groups": {{"g": {anchored}}}}}"#), "no group for `base_lm"),
            (with(r#""num_bits": 8, "type": "float""#), "8 bits (group `g`)"),
            (with(r#""num_bits": 4, "type": "int""#), "type `int`"),
            (with(r#""num_bits": 4, "group_size": 32"#), "blocks of 32"),
            (r#"{"config_groups": {"g": {"targets": ["re:("]}}}"#.to_owned(), "`re:(`"),
        ];
        for (config, part) in cases {
            let text = judge(&config).unwrap_err().to_string();
            assert!(text.starts_with("`config.json`") && text.contains(part), "{text} lacks {part}");
        }
    }
}
