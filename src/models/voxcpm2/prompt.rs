//! What stands before the audio (specification 3.1), T tokens of the text, A `audio start`, r and p patches:
//!
//! ```text
//! zero-shot      T A                       text = target
//! reference      < r… > T A                text = target
//! continuation   T A p…                    text = prompt text + target, as they are
//! combined       < r… > T A p…             text = prompt text + target, as they are
//! ```
//!
//! A style is `(style)` right before the target, in half-width parentheses; where a recording is continued the model reads it
//! aloud, so that is refused.

use super::config::Config;
use super::tokenizer::{AUDIO_START, REFERENCE_END, REFERENCE_START, Tokenizer};
use crate::error::{Error, Result};
use crate::models::{Latents, Utterance};

/// A prompt, position by position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    /// A token each; 0 where there is audio.
    pub ids: Vec<u32>,
    /// The positions that hold audio, ascending.
    pub audio: Vec<usize>,
    /// Their patches. `[audio, P, latent]`
    pub patches: Vec<f32>,
    /// Tokens of the target text, style included.
    pub target: usize,
}

impl Prompt {
    /// How many positions it takes.
    pub fn positions(&self) -> usize {
        self.ids.len()
    }

    /// Is a recording continued?
    pub fn continues(&self) -> bool {
        self.audio.last().is_some_and(|last| last + 1 == self.ids.len())
    }

    fn token(&mut self, id: u32) {
        self.ids.push(id);
    }

    fn recording(&mut self, latents: &Latents, per_patch: usize) {
        for patch in latents.values.chunks_exact(per_patch) {
            self.audio.push(self.ids.len());
            self.ids.push(0);
            self.patches.extend_from_slice(patch);
        }
    }
}

/// Lays an utterance out.
///
/// # Errors
/// No text, control tokens in it, a style for a continued recording, recordings of another codec.
pub fn prompt(tokenizer: &Tokenizer, config: &Config, utterance: &Utterance) -> Result<Prompt> {
    if let Some(voice) = &utterance.voice {
        return Err(Error::new(format!("this model has no voice `{voice}`: it has no speakers of its own"))
            .hint("take a voice from a recording with `--reference`, or describe one with `--style`"));
    }
    if utterance.text.trim().is_empty() {
        return Err(Error::new("there is no text to speak").hint("give at least one word"));
    }
    refuse_controls(tokenizer, &utterance.text, "the text")?;
    let style = utterance.style.as_deref().map(bare).unwrap_or_default();
    refuse_controls(tokenizer, &style, "the style")?;
    if !style.is_empty() && utterance.prompt.is_some() {
        return Err(Error::usage(
            "a style and a recording to continue exclude each other: the model would read it aloud",
        )
        .hint("leave the style out, or give the recording as `--reference` instead"));
    }
    let text = one_spaced(&utterance.text);
    let target = if style.is_empty() { text } else { format!("({style}){text}") };

    let per_patch = config.patch * config.latent;
    let mut prompt = Prompt { target: tokenizer.encode(&target)?.len(), ..Prompt::default() };
    if let Some(reference) = &utterance.reference {
        fits(reference, config, "the reference")?;
        prompt.token(REFERENCE_START);
        prompt.recording(reference, per_patch);
        prompt.token(REFERENCE_END);
    }
    let text = match &utterance.prompt {
        None => target,
        Some(continued) => {
            if continued.text.trim().is_empty() {
                return Err(Error::usage("the words of the recording to continue are missing")
                    .hint("write down with `--prompt-text` what is said in it"));
            }
            refuse_controls(tokenizer, &continued.text, "the prompt's text")?;
            fits(&continued.latents, config, "the recording to continue")?;
            format!("{}{target}", continued.text)
        }
    };
    prompt.ids.extend(tokenizer.encode(&text)?);
    prompt.token(AUDIO_START);
    if let Some(continued) = &utterance.prompt {
        prompt.recording(&continued.latents, per_patch);
    }
    Ok(prompt)
}

fn refuse_controls(tokenizer: &Tokenizer, text: &str, place: &str) -> Result<()> {
    match tokenizer.control(text) {
        Some(spelling) => Err(Error::new(format!("{place} holds `{spelling}`, one of the model's own control tokens"))
            .hint("remove it, or put a space after the `<`")),
        None => Ok(()),
    }
}

fn fits(latents: &Latents, config: &Config, what: &str) -> Result<()> {
    let per_patch = config.patch * config.latent;
    let whole = latents.dim == config.latent && latents.values.len().is_multiple_of(per_patch);
    if latents.values.is_empty() || !whole {
        return Err(Error::new(format!(
            "{what} holds {} numbers in frames of {}, but the model needs patches of {} frames of {}",
            latents.values.len(),
            latents.dim,
            config.patch,
            config.latent
        ))
        .hint("encode the recording again with this model"));
    }
    Ok(())
}

/// The style without parentheses, which would end it early.
fn bare(style: &str) -> String {
    one_spaced(style.replace(['(', ')', '（', '）'], "").trim())
}

/// Runs of white space become one space; nothing is cut off at the ends. What counts is what Python's `\s` does.
fn one_spaced(text: &str) -> String {
    let space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match space(c) {
            true if out.ends_with(' ') => {}
            true => out.push(' '),
            false => out.push(c),
        }
    }
    out
}
