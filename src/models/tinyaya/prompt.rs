//! The prompt: `[BOS]<text>{SPEAKER}: <description="{STYLE}"> {TEXT}<audio>`, as token ids.
//!
//! Without a style the whole description element is left out. The framing ids are checked at load and for every prompt:
//! where the tokenizer splits an added token, the model answers with speech-like rubbish instead of an error.

use std::str::FromStr;

use tokenizers::{AddedToken, Tokenizer};

use super::config::{AudioIds, Config, check_ids};
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::models::Utterance;

const FILE: &str = "tokenizer.json";
const DESCRIPTION: &str = "<description=";

/// Turns utterances into prompts.
pub struct Prompter {
    tokenizer: Tokenizer,
    origin: String,
    speakers: Vec<String>,
    bos: u32,
    vocabulary: usize,
    ids: AudioIds,
    /// Control tokens that no text may hold. What follows `</audio>` are sounds to be asked for, such as `<laugh>`.
    controls: Vec<String>,
}

impl Prompter {
    /// Reads `tokenizer.json`, settles the audio ids and tries one real prompt.
    ///
    /// # Errors
    /// A tokenizer that can't be read, or one that does not belong to this checkpoint.
    pub fn read(checkpoint: &Checkpoint, config: &Config) -> Result<Self> {
        let bytes = checkpoint.file(FILE)?;
        let origin = format!("{}/{FILE}", checkpoint.origin());
        let broken = |why: &str| {
            Error::new(format!("`{origin}` is not a tokenizer this program can read: {why}"))
                .hint("download the file again with `rtts models verify`, or take it from the model's own repository")
        };
        let text = std::str::from_utf8(&bytes).map_err(|_| broken("it is not UTF-8 text"))?;
        let tokenizer = Tokenizer::from_str(text).map_err(|e| broken(&e.to_string()))?;
        let ids = match config.audio {
            Some(ids) => ids,
            None => {
                let ids = ids_of(&tokenizer, &origin)?;
                check_ids(checkpoint.config(), &ids, None)?;
                ids
            }
        };
        let added = tokenizer.get_added_tokens_decoder();
        let control = |(id, token): (&u32, &AddedToken)| {
            let marked = token.special && token.content.starts_with('<') && token.content.ends_with('>');
            (marked && *id <= ids.end).then(|| token.content.clone())
        };
        let mut controls: Vec<String> = added.iter().filter_map(control).collect();
        controls.extend(["<text>", "<audio>", "</audio>"].map(String::from));
        controls.sort();
        let prompter = Self {
            controls,
            tokenizer,
            origin,
            speakers: config.speakers.clone(),
            bos: config.bos,
            vocabulary: config.vocabulary,
            ids,
        };
        prompter.encode(&format!("<text>{}: ok<audio>", prompter.speakers[0]))?;
        Ok(prompter)
    }

    /// The ids of the audio vocabulary.
    pub fn ids(&self) -> AudioIds {
        self.ids
    }

    /// The prompt's token ids.
    ///
    /// # Errors
    /// An unknown voice, an empty text, or text that holds the model's own markers.
    pub fn prompt(&self, utterance: &Utterance) -> Result<Vec<u32>> {
        let text = utterance.text.trim();
        if text.is_empty() {
            return Err(Error::new("there is no text to speak").hint("give at least one word"));
        }
        self.refuse_markers(text, "the text")?;
        let speaker = self.speaker(utterance.voice.as_deref())?;
        let style = utterance.style.as_deref().map(str::trim).filter(|style| !style.is_empty());
        let description = match style {
            Some(style) if style.contains('"') => {
                return Err(Error::new("the style holds a `\"`, which ends the model's description")
                    .hint("write the style without quotation marks"));
            }
            Some(_) if text.starts_with(DESCRIPTION) => {
                return Err(Error::new("the text brings its own description and a style was given too")
                    .hint("give one of the two"));
            }
            Some(style) => {
                self.refuse_markers(style, "the style")?;
                format!("{DESCRIPTION}\"{style}\"> ")
            }
            None => String::new(),
        };
        self.encode(&format!("<text>{speaker}: {description}{text}<audio>"))
    }

    /// The speaker as the checkpoint spells it; the first where none is named.
    fn speaker(&self, voice: Option<&str>) -> Result<&str> {
        let Some(voice) = voice else { return Ok(&self.speakers[0]) };
        let known = self.speakers.iter().find(|s| s.to_lowercase() == voice.trim().to_lowercase());
        known.map(String::as_str).ok_or_else(|| {
            Error::new(format!("this model has no voice `{voice}`"))
                .hint(format!("its voices are {}", self.speakers.join(", ")))
        })
    }

    fn refuse_markers(&self, text: &str, place: &str) -> Result<()> {
        let refused = |marker: &str| {
            Error::new(format!("{place} holds `{marker}`, one of the model's own control tokens"))
                .hint("remove it, or put a space after the `<`")
        };
        if let Some(marker) = self.controls.iter().find(|marker| text.contains(marker.as_str())) {
            return Err(refused(marker));
        }
        let unit = text.match_indices('<').find_map(|(at, _)| {
            let (inner, _) = text[at + 1..].split_once('>')?;
            let (code, quantizer) = inner.split_once('_')?;
            let number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
            (number(code) && number(quantizer)).then_some(inner)
        });
        match unit {
            Some(unit) => Err(refused(&format!("<{unit}>"))),
            None => Ok(()),
        }
    }

    /// Token ids with exactly one BOS in front; the framing is checked.
    fn encode(&self, prompt: &str) -> Result<Vec<u32>> {
        let encoding = self
            .tokenizer
            .encode(prompt, true)
            .map_err(|e| Error::new(format!("`{}` can't encode the prompt: {e}", self.origin)))?;
        let mut ids = encoding.get_ids().to_vec();
        if ids.first() != Some(&self.bos) {
            ids.insert(0, self.bos);
        }
        let framed = ids.len() > 3 && ids[1] == self.ids.text && ids.last() == Some(&self.ids.audio);
        let inside = ids.iter().all(|id| (*id as usize) < self.vocabulary);
        if framed && inside {
            return Ok(ids);
        }
        Err(Error::new(format!(
            "`{}` does not belong to this model: a prompt does not become BOS {}, `<text>` {}, ..., `<audio>` {}",
            self.origin, self.bos, self.ids.text, self.ids.audio
        ))
        .hint("take tokenizer.json and config.json from the same revision of the model"))
    }
}

/// The audio vocabulary as the tokenizer's added tokens tell it, for checkpoints whose configuration leaves it out.
fn ids_of(tokenizer: &Tokenizer, origin: &str) -> Result<AudioIds> {
    let missing = |token: &str| {
        Error::new(format!(
            "config.json has no audio token ids, and `{origin}` has no token `{token}` to take them from"
        ))
        .hint("take config.json from the model's own repository: it names first_unit_id and the ids after it")
    };
    let id = |token: &str| tokenizer.token_to_id(token).ok_or_else(|| missing(token));
    let first_unit = id("<0_0>")?;
    let mut quantizers = 1;
    while tokenizer.token_to_id(&format!("<0_{quantizers}>")) == Some(first_unit + quantizers) {
        quantizers += 1;
    }
    let mut codebook = 1;
    while tokenizer.token_to_id(&format!("<{codebook}_0>")) == Some(first_unit + quantizers * codebook) {
        codebook += 1;
    }
    let last = format!("<{}_{}>", codebook - 1, quantizers - 1);
    if id(&last)? != first_unit + quantizers * codebook - 1 {
        return Err(missing(&last));
    }
    Ok(AudioIds {
        first_unit,
        quantizers: quantizers as usize,
        codebook: codebook as usize,
        text: id("<text>")?,
        audio: id("<audio>")?,
        end: id("</audio>")?,
    })
}
