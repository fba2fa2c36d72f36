//! What `config.json` says about a TinyAya model. Every number comes from the file; what this program can't honour is
//! refused by name.

use crate::checkpoint::{Checkpoint, Config as Json};
use crate::compute::{Rope, RopePairs};
use crate::error::{Error, Result};

/// Ids of the vocabulary that concern audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioIds {
    /// Unit (code, quantizer) has id `first_unit + Q * code + quantizer`.
    pub first_unit: u32,
    /// Q, quantizers of a frame.
    pub quantizers: usize,
    /// Codes of a codebook.
    pub codebook: usize,
    /// `<text>`: the prompt's beginning.
    pub text: u32,
    /// `<audio>`: the prompt's end.
    pub audio: u32,
    /// `</audio>`: the utterance's end.
    pub end: u32,
}

impl AudioIds {
    /// How many unit ids there are: Q * codebook.
    pub fn units(&self) -> usize {
        self.quantizers * self.codebook
    }
}

/// The Cohere2 backbone's shape and the audio vocabulary.
#[derive(Clone, Debug)]
pub struct Config {
    /// H
    pub hidden: usize,
    /// Nh
    pub heads: usize,
    /// Nkv
    pub kv_heads: usize,
    /// D
    pub head_dim: usize,
    /// I, the inner width of the MLP.
    pub inner: usize,
    /// V
    pub vocabulary: usize,
    /// A layer each: the window of a sliding layer, which also rotates; `None` = full attention without positions.
    pub windows: Vec<Option<usize>>,
    /// Rotation of the sliding layers.
    pub rope: Rope,
    /// Added to the variance in every norm of the backbone.
    pub eps: f32,
    /// Factor on the logits.
    pub logit_scale: f32,
    /// Prompt and audio together.
    pub max_positions: usize,
    /// First id of every prompt.
    pub bos: u32,
    /// `None` where the file leaves them to the tokenizer.
    pub audio: Option<AudioIds>,
    /// Tokens per second of audio: frame rate times Q.
    pub frame_rate: f64,
    /// Speaker names as the prompt spells them.
    pub speakers: Vec<String>,
    /// What the checkpoint recommends for sampling and length.
    pub advice: Advice,
}

/// Defaults that come with the checkpoint, under the key `rtts` of its configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advice {
    /// Sampling temperature.
    pub temperature: f32,
    /// How many of the likeliest tokens stay.
    pub top_k: usize,
    /// Characters one utterance should hold at most.
    pub longest_text: usize,
    /// Numbers, signs and abbreviations are better written out in English words.
    pub words_only: bool,
}

impl Default for Advice {
    /// The values of the rumik-oss-1 card; about 25 seconds of speech.
    fn default() -> Self {
        Self { temperature: 0.8, top_k: 30, longest_text: 400, words_only: false }
    }
}

/// The ids that must be present all together, or be left to the tokenizer all together.
const AUDIO_KEYS: [&str; 5] =
    ["first_unit_id", "last_unit_id", "text_start_token_id", "audio_start_token_id", "audio_end_token_id"];

impl Config {
    /// Reads and checks the checkpoint's `config.json`.
    ///
    /// # Errors
    /// A missing or implausible value, or a variant of the architecture that this program does not compute.
    pub fn read(checkpoint: &Checkpoint) -> Result<Self> {
        let json = checkpoint.config();
        refuse(json, "use_qk_norm", true)?;
        refuse(json, "attention_bias", true)?;
        refuse(json, "tie_word_embeddings", false)?;
        refuse(json, "use_parallel_block", false)?;
        refuse(json, "use_gated_activation", false)?;
        if let Some(act) = json.opt_str("hidden_act")?.filter(|act| *act != "silu") {
            return Err(unsupported(json, "hidden_act", act, "silu"));
        }
        if let Some(kind) = json.opt_str("position_embedding_type")?.filter(|kind| *kind != "rope_gptj") {
            return Err(unsupported(json, "position_embedding_type", kind, "rope_gptj"));
        }
        if let Some(part) = json.opt_f32("rotary_pct")?.filter(|part| *part != 1.0) {
            return Err(unsupported(json, "rotary_pct", &part.to_string(), "1.0"));
        }

        let hidden = positive(json, "hidden_size")?;
        let heads = positive(json, "num_attention_heads")?;
        let kv_heads = positive(json, "num_key_value_heads")?;
        if hidden % heads != 0 || heads % kv_heads != 0 || (hidden / heads) % 2 != 0 {
            return Err(json.wrong(
                "num_attention_heads",
                format!("is {heads}, which with {kv_heads} key/value heads does not divide a hidden size of {hidden}"),
            ));
        }
        let head_dim = hidden / heads;
        if let Some(stated) = json.opt_usize("head_dim")?.filter(|stated| *stated != head_dim) {
            return Err(unsupported(json, "head_dim", &stated.to_string(), &head_dim.to_string()));
        }
        let eps = json.f32("layer_norm_eps")?;
        let logit_scale = json.opt_f32("logit_scale")?.unwrap_or(0.0625);
        if eps <= 0.0 || logit_scale <= 0.0 {
            return Err(json.wrong("layer_norm_eps", "and `logit_scale` must be above zero"));
        }
        let speakers = json.strings("speakers")?;
        if speakers.is_empty() || speakers.iter().any(String::is_empty) {
            return Err(json.wrong("speakers", "must name at least one speaker, none of them empty"));
        }
        let frame_rate = json.opt_f32("frame_rate_hz")?.unwrap_or(12.5);
        if frame_rate <= 0.0 {
            return Err(json.wrong("frame_rate_hz", "must be above zero"));
        }
        Ok(Self {
            hidden,
            heads,
            kv_heads,
            head_dim,
            inner: positive(json, "intermediate_size")?,
            vocabulary: positive(json, "vocab_size")?,
            windows: windows(json)?,
            rope: Rope::plain(rope_theta(json)?, head_dim, RopePairs::Interleaved),
            eps,
            logit_scale,
            max_positions: positive(json, "max_position_embeddings")?,
            bos: id(json, "bos_token_id")?,
            audio: audio_ids(json)?,
            frame_rate: f64::from(frame_rate),
            speakers,
            advice: advice(json)?,
        })
    }
}

/// A variant that is part of the file's format but not of this program.
fn unsupported(json: &Json, key: &str, value: &str, only: &str) -> Error {
    json.wrong(key, format!("is `{value}`, but only `{only}` is supported"))
}

fn refuse(json: &Json, key: &str, value: bool) -> Result<()> {
    match json.opt_bool(key)? {
        Some(found) if found == value => Err(unsupported(json, key, &value.to_string(), &(!value).to_string())),
        _ => Ok(()),
    }
}

fn positive(json: &Json, key: &str) -> Result<usize> {
    // An upper bound keeps products of two sizes far from overflow.
    match json.usize(key)? {
        value @ 1..=16_777_216 => Ok(value),
        value => Err(json.wrong(key, format!("is {value}, which is not a plausible size"))),
    }
}

fn id(json: &Json, key: &str) -> Result<u32> {
    u32::try_from(json.usize(key)?).map_err(|_| json.wrong(key, "is not a token id"))
}

/// `layer_types`, or a full layer after every `sliding_window_pattern - 1` sliding ones.
fn windows(json: &Json) -> Result<Vec<Option<usize>>> {
    let layers = positive(json, "num_hidden_layers")?;
    let window = positive(json, "sliding_window")?;
    if layers > 1024 {
        return Err(json.wrong("num_hidden_layers", format!("is {layers}, which is not a plausible number of layers")));
    }
    let Some(types) = json.opt_strings("layer_types")? else {
        let pattern = json.opt_usize("sliding_window_pattern")?.unwrap_or(4);
        if pattern == 0 {
            return Err(json.wrong("sliding_window_pattern", "must be above zero"));
        }
        return Ok((1..=layers).map(|i| (i % pattern != 0).then_some(window)).collect());
    };
    if types.len() != layers {
        return Err(json.wrong("layer_types", format!("has {} entries for {layers} layers", types.len())));
    }
    types
        .iter()
        .map(|kind| match kind.as_str() {
            "sliding_attention" => Ok(Some(window)),
            "full_attention" => Ok(None),
            other => Err(unsupported(json, "layer_types", other, "sliding_attention and full_attention")),
        })
        .collect()
}

/// Top-level `rope_theta`, or the newer `rope_parameters` object; only plain rotation.
fn rope_theta(json: &Json) -> Result<f32> {
    for key in ["rope_parameters", "rope_scaling"] {
        if let Some(object) = json.object(key)? {
            let kind = match object.opt_str("rope_type")? {
                Some(kind) => Some(kind),
                None => object.opt_str("type")?,
            };
            if let Some(kind) = kind.filter(|kind| *kind != "default") {
                return Err(unsupported(json, key, kind, "default"));
            }
        }
    }
    let nested = match json.object("rope_parameters")? {
        Some(object) => object.opt_f32("rope_theta")?,
        None => None,
    };
    let theta = match nested {
        Some(theta) => theta,
        None => json.f32("rope_theta")?,
    };
    if theta <= 1.0 {
        return Err(json.wrong("rope_theta", format!("is {theta}, which is not a plausible base")));
    }
    Ok(theta)
}

fn audio_ids(json: &Json) -> Result<Option<AudioIds>> {
    let present = AUDIO_KEYS.iter().filter(|key| json.value(key).is_some()).count();
    let upstream = json.opt_strings("architectures")?.is_some_and(|a| a.iter().any(|a| a == "RumikOSSForCausalLM"));
    // Only the vLLM export's configuration is known to do without; upstream's own always has them.
    if present == 0 && !upstream {
        return Ok(None);
    }
    let ids = AudioIds {
        first_unit: id(json, AUDIO_KEYS[0])?,
        quantizers: positive(json, "num_quantizers")?,
        codebook: positive(json, "codebook_size")?,
        text: id(json, AUDIO_KEYS[2])?,
        audio: id(json, AUDIO_KEYS[3])?,
        end: id(json, AUDIO_KEYS[4])?,
    };
    let last = id(json, AUDIO_KEYS[1])?;
    check_ids(json, &ids, Some(last))?;
    Ok(Some(ids))
}

/// Ids must lie inside the vocabulary, and the units must be one unbroken run.
pub(super) fn check_ids(json: &Json, ids: &AudioIds, last: Option<u32>) -> Result<()> {
    let vocabulary = positive(json, "vocab_size")?;
    let expected = ids.first_unit as usize + ids.units() - 1;
    if let Some(last) = last.filter(|last| *last as usize != expected) {
        return Err(json.wrong(
            "last_unit_id",
            format!(
                "is {last}, but first_unit_id {} with {} quantizers of {} codes ends at {expected}",
                ids.first_unit, ids.quantizers, ids.codebook
            ),
        ));
    }
    let units = ids.first_unit as usize..=expected;
    for (name, id) in
        [("text_start_token_id", ids.text), ("audio_start_token_id", ids.audio), ("audio_end_token_id", ids.end)]
    {
        if id as usize >= vocabulary || units.contains(&(id as usize)) {
            return Err(json.wrong(name, format!("is {id}, outside the vocabulary or one of the audio units")));
        }
    }
    if expected >= vocabulary {
        return Err(json.wrong("last_unit_id", format!("is {expected}, outside the vocabulary of {vocabulary}")));
    }
    Ok(())
}

fn advice(json: &Json) -> Result<Advice> {
    let mut advice = Advice::default();
    if let Some(object) = json.object("rtts")? {
        if let Some(t) = object.opt_f32("temperature")? {
            advice.temperature = t;
        }
        if let Some(k) = object.opt_usize("top_k")? {
            advice.top_k = k;
        }
        if let Some(n) = object.opt_usize("longest_text")?.filter(|n| *n > 0) {
            advice.longest_text = n;
        }
        advice.words_only = object.opt_bool("words_only")?.unwrap_or(advice.words_only);
    }
    Ok(advice)
}
