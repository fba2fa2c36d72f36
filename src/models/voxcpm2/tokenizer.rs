//! Text to token ids (specification 3): byte-fallback BPE without BOS or EOS, after which every piece that is several Chinese
//! characters becomes its single characters. The model never saw such pieces; fed with them, it slurs.
//!
//! `tokenizer_config.json` registers more added tokens than `tokenizer.json`, and spells two of them otherwise than the
//! vocabulary does. Only those whose id is that of their row are added: the others would get ids past the embedding.

use std::collections::{HashMap, HashSet};
use std::str::FromStr;

use tokenizers::{AddedToken, Tokenizer as Pieces};

use crate::checkpoint::{Checkpoint, Config as Json};
use crate::error::{Error, Result};

const FILE: &str = "tokenizer.json";
const EXTRA: &str = "tokenizer_config.json";
/// Marks a word's beginning inside pieces.
const MARK: &str = "\u{2581}";
/// Begins the audio; the model's code has it as a number.
pub const AUDIO_START: u32 = 101;
/// Begins the reference.
pub const REFERENCE_START: u32 = 103;
/// Ends the reference.
pub const REFERENCE_END: u32 = 104;
/// The rows that frame audio; never part of a text.
const FRAMES: std::ops::RangeInclusive<u32> = AUDIO_START..=REFERENCE_END;
/// Added tokens that writers may use: they describe the speech.
const DESCRIBING: [&str; 4] = ["<|background|>", "<|/background|>", "<|characters|>", "<|/characters|>"];

/// The checkpoint's tokenizer.
pub struct Tokenizer {
    pieces: Pieces,
    origin: String,
    vocabulary: usize,
    /// What becomes of pieces that are several Chinese characters.
    split: HashMap<u32, Vec<u32>>,
    /// Spellings that no text may hold.
    controls: Vec<String>,
}

impl Tokenizer {
    /// Reads both files; `vocabulary` is the number of rows of the embedding.
    ///
    /// # Errors
    /// A tokenizer that can't be read, or one that does not belong to this checkpoint.
    pub fn read(checkpoint: &Checkpoint, vocabulary: usize) -> Result<Self> {
        let bytes = checkpoint.file(FILE)?;
        let origin = format!("{}/{FILE}", checkpoint.origin());
        let broken = |why: &str| {
            Error::new(format!("`{origin}` is not a tokenizer this program can read: {why}"))
                .hint("download the file again with `rtts models verify`, or take it from the model's own repository")
        };
        let text = std::str::from_utf8(&bytes).map_err(|_| broken("it is not UTF-8 text"))?;
        let mut pieces = Pieces::from_str(text).map_err(|e| broken(&e.to_string()))?;
        pieces.with_truncation(None).map_err(|e| broken(&e.to_string()))?;
        pieces.with_padding(None);
        let foreign = |why: String| {
            Error::new(format!("`{origin}` does not belong to this model: {why}"))
                .hint("take tokenizer.json and config.json from the same revision of the model")
        };
        let known = pieces.get_vocab(true);
        if let Some((piece, id)) = known.iter().find(|(_, id)| **id as usize >= vocabulary) {
            return Err(foreign(format!("`{piece}` has id {id}, and the embedding has {vocabulary} rows")));
        }
        for id in FRAMES {
            if !pieces.id_to_token(id).is_some_and(|piece| is_control(&piece)) {
                return Err(foreign(format!("id {id} is no control token")));
            }
        }
        let configured = if checkpoint.has(EXTRA) { added(&checkpoint.json(EXTRA)?)? } else { Vec::new() };
        let mut controls: Vec<String> = pieces
            .get_added_tokens_decoder()
            .values()
            .filter(|token| token.special)
            .map(|token| token.content.clone())
            .chain(configured.iter().filter(|(_, token)| token.special).map(|(_, token)| token.content.clone()))
            .chain(FRAMES.filter_map(|id| pieces.id_to_token(id)))
            .filter(|spelling| is_control(spelling) && !DESCRIBING.contains(&spelling.as_str()))
            .collect();
        controls.sort();
        controls.dedup();
        let same = configured.into_iter().filter(|(id, token)| known.get(&token.content) == Some(id));
        pieces.add_tokens(same.map(|(_, token)| token)).map_err(|e| broken(&e.to_string()))?;
        let split = splits(&pieces.get_vocab(true));
        Ok(Self { pieces, origin, vocabulary, split, controls })
    }

    /// Token ids of a text, all of them rows of the embedding.
    ///
    /// # Errors
    /// What the tokenizer can't encode.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self
            .pieces
            .encode_fast(text, false)
            .map_err(|e| Error::new(format!("`{}` can't encode the text: {e}", self.origin)))?;
        let mut ids = Vec::with_capacity(encoding.len());
        for id in encoding.get_ids() {
            match self.split.get(id) {
                Some(characters) => ids.extend(characters),
                None => ids.push(*id),
            }
        }
        match ids.iter().find(|id| **id as usize >= self.vocabulary) {
            Some(id) => Err(Error::new(format!(
                "`{}` makes id {id} of the text, and the embedding has {} rows",
                self.origin, self.vocabulary
            ))
            .hint("take tokenizer.json and config.json from the same revision of the model")),
            None => Ok(ids),
        }
    }

    /// The first control spelling that a text holds.
    pub fn control(&self, text: &str) -> Option<&str> {
        self.controls.iter().map(String::as_str).find(|spelling| text.contains(spelling))
    }
}

fn is_control(spelling: &str) -> bool {
    spelling.len() > 2 && spelling.starts_with('<') && spelling.ends_with('>')
}

/// `added_tokens_decoder`: id and token.
fn added(json: &Json) -> Result<Vec<(u32, AddedToken)>> {
    let Some(object) = json.object("added_tokens_decoder")? else { return Ok(Vec::new()) };
    let mut tokens = Vec::new();
    for key in object.keys() {
        let Some(token) = object.object(key)? else { continue };
        let id: u32 = key.parse().map_err(|_| object.wrong(key, "is not a token id"))?;
        let flag = |name| token.opt_bool(name).map(Option::unwrap_or_default);
        let special = flag("special")?;
        tokens.push((
            id,
            AddedToken::from(token.str("content")?, special)
                .single_word(flag("single_word")?)
                .lstrip(flag("lstrip")?)
                .rstrip(flag("rstrip")?)
                .normalized(token.opt_bool("normalized")?.unwrap_or(!special)),
        ));
    }
    Ok(tokens)
}

/// Of every piece that is, apart from word marks, several Chinese characters with a row of their own together: the rows of
/// its characters, `<unk>` where one has none.
fn splits(vocabulary: &HashMap<String, u32>) -> HashMap<u32, Vec<u32>> {
    let chinese = |c: char| ('\u{4e00}'..='\u{9fff}').contains(&c);
    let several: HashSet<&str> = vocabulary
        .keys()
        .map(String::as_str)
        .filter(|piece| piece.chars().nth(1).is_some() && piece.chars().all(chinese))
        .collect();
    let unknown = vocabulary.get("<unk>").copied().unwrap_or(0);
    let row = |c: char| vocabulary.get(c.encode_utf8(&mut [0; 4]) as &str).copied().unwrap_or(unknown);
    vocabulary
        .iter()
        .filter_map(|(piece, id)| {
            let bare = piece.replace(MARK, "");
            several.contains(bare.as_str()).then(|| (*id, bare.chars().map(row).collect()))
        })
        .collect()
}
