//! `rtts voices`: the speakers of a model.

use clap::Args;
use serde::Serialize;

use super::console::Console;
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
}

/// Prints the speakers, the default one first; no weights are read.
///
/// # Errors
/// A model that cannot be found or read.
pub fn run(voices: &Voices, offline: bool, console: &Console) -> Result<Outcome> {
    let settings = Settings::resolve(&voices.machine)?;
    let opened = open::find(settings, offline, console)?;
    for (i, voice) in opened.voices()?.iter().enumerate() {
        if console.json() {
            console.object(&Voice { v: 1, voice, default: i == 0 })?;
        } else {
            console.print(voice)?;
        }
    }
    Ok(Outcome::Done)
}
