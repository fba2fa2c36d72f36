//! `rtts voices`: the speakers of a model, and the saved voices.

use std::path::Path;

use clap::Args;
use serde::Serialize;

use super::console::Console;
use super::saved::{self, Saved};
use super::settings::{MachineArgs, Settings};
use super::{Outcome, open};
use crate::error::Result;

/// Arguments of `rtts voices`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rtts voices -m ORG/NAME
  rtts voices -m ./checkpoint --json")]
pub struct Voices {
    /// Model and machine.
    #[command(flatten)]
    pub machine: MachineArgs,
}

#[derive(Serialize)]
struct Voice<'a> {
    v: u32,
    voice: &'a str,
    default: bool,
    /// The file of a saved voice.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
}

/// Prints the speakers, the default one first, then the saved voices; no weights are read.
///
/// # Errors
/// A model that cannot be found or read.
pub fn run(voices: &Voices, offline: bool, console: &Console) -> Result<Outcome> {
    let settings = Settings::resolve(&voices.machine)?;
    let opened = open::find(settings, offline, console)?;
    let (own, kept) = (opened.voices()?, saved::names());
    if own.is_empty() && kept.is_empty() {
        console.note(
            "the model has no speakers of its own, and no voice is saved: `rtts voice save AUDIO -o NAME` keeps one",
        );
    }
    for (i, voice) in own.iter().enumerate() {
        if console.json() {
            console.object(&Voice { v: 1, voice, default: i == 0, saved: None, seconds: None })?;
        } else {
            console.print(voice)?;
        }
    }
    for name in kept {
        let path = saved::path(&name)?;
        match Saved::read(&path) {
            Ok(Saved { seconds, .. }) if console.json() => {
                let (saved, seconds) = (Some(path.as_path()), Some(seconds));
                console.object(&Voice { v: 1, voice: &name, default: false, saved, seconds })?;
            }
            Ok(voice) => console.print(format_args!("{name}\tsaved, {:.1} s", voice.seconds))?,
            Err(error) => console.warn(error),
        }
    }
    Ok(Outcome::Done)
}
