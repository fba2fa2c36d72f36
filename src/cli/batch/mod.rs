//! `rtts batch`: every line of a list to a WAV file of its own, many at a time.
//!
//! Lines that an earlier run finished are skipped. A file appears when it is whole, then its line enters the manifest;
//! whatever stops the run in between costs at most the lines under way.

use std::path::PathBuf;

use clap::Args;

use super::console::Console;
use super::settings::{MachineArgs, Settings};
use super::sound::{Cutting, Storing};
use super::voice::{VoiceArgs, known_voice};
use super::{Outcome, input, interrupt::Interrupt, open, seed};
use crate::audio::{place as places, temporary};
use crate::error::{Error, Result};

pub mod claim;
pub mod list;
pub mod manifest;
pub mod name;
pub mod perform;
pub mod plan;
#[cfg(test)]
mod tests;

use list::{Form, Shard};
use manifest::Manifest;
use name::Template;

/// Utterances at a time where `--batch-size` leaves it to us: beyond this a CPU gains little.
const USUAL_SLOTS: usize = 8;

/// Arguments of `rtts batch`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rtts batch lines.txt -d out/
  rtts batch lines.txt -d out/ --name \"{stem}-{n:04}-{voice}\" --voice Ross --seed 7
  rtts batch lines.csv -d out/ --seed 7         columns text, name, voice and more
  rtts batch lines.txt -d out/ --shard 2/8      the second of eight machines")]
pub struct Batch {
    /// The list: .txt with a line an utterance, .jsonl, .csv or .tsv; `-` is stdin
    ///
    /// UTF-8. Blank lines are passed over, but keep their number. Objects and tables have a `text` and may have `name`
    /// (of the file), `voice`, `style`, `seed`, `temperature`, `top_k` and `max_seconds`, which go before the flags.
    #[arg(value_name = "LIST", help_heading = "Input")]
    pub list: PathBuf,
    /// How the list is written [default: as its name says; stdin: txt]
    #[arg(long, value_name = "FORM", help_heading = "Input")]
    pub form: Option<Form>,
    /// How long lines are cut.
    #[command(flatten)]
    pub cutting: Cutting,
    /// Speak only every N-th line, from line I: one part of the list for one of N machines
    #[arg(long, value_name = "I/N", help_heading = "Input")]
    pub shard: Option<Shard>,
    /// The folder for the WAV files and `manifest.jsonl`; it is made where it does not exist
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub directory: PathBuf,
    /// File names, from {n:04}, {stem}, {voice} and {hash}
    ///
    /// {n:04} is the line's number with at least four digits ({n:01}: with as many as it needs), {stem} the list's name without its ending, {voice}
    /// the voice, {hash} the first twelve digits of the SHA-256 of the text.
    #[arg(long, value_name = "TEMPLATE", default_value = "{n:04}", help_heading = "Output")]
    pub name: Template,
    /// Speak all lines, those that are done already too
    #[arg(long, help_heading = "Output", conflicts_with = "retry_failed")]
    pub force: bool,
    /// Speak only the lines that failed in an earlier run
    #[arg(long, help_heading = "Output")]
    pub retry_failed: bool,
    /// Show which line goes to which file, and speak nothing
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
    /// Format and rate.
    #[command(flatten)]
    pub storing: Storing,
    /// Voice and sampling.
    #[command(flatten)]
    pub voice: VoiceArgs,
    /// Utterances generated at a time: a number, or auto [default: auto]
    #[arg(long, value_name = "N", value_parser = slots, allow_negative_numbers = true, help_heading = "Model and machine")]
    pub batch_size: Option<Slots>,
    /// Model and machine.
    #[command(flatten)]
    pub machine: MachineArgs,
}

impl Batch {
    /// With what `settings` say where no flag does.
    fn over(&self, settings: &Settings) -> Self {
        Self {
            storing: self.storing.over(settings),
            cutting: self.cutting.over(settings),
            batch_size: self.batch_size.or(settings.batch_size),
            ..self.clone()
        }
    }
}

/// `--batch-size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// As many as are worth it.
    Auto,
    /// So many.
    Exactly(usize),
}

/// A number of slots, as the command line and the settings take it.
///
/// # Errors
/// What is neither `auto` nor a number in the range.
pub fn slots(text: &str) -> Result<Slots, String> {
    match text.parse() {
        _ if text == "auto" => Ok(Slots::Auto),
        Ok(count @ 1..=1024) => Ok(Slots::Exactly(count)),
        _ => Err("a number from 1 to 1024 is needed, or `auto`".into()),
    }
}

/// The list in messages.
fn place(batch: &Batch) -> String {
    if batch.list.as_os_str() == input::STDIN { "stdin".into() } else { format!("`{}`", batch.list.display()) }
}

/// Speaks the list.
///
/// # Errors
/// Whatever stands in the way of the whole; a line that fails is no error.
pub fn run(batch: &Batch, offline: bool, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen(console)?;
    let form = batch.form.map_or_else(|| Form::of(&batch.list), Ok)?;
    if batch.list.as_os_str() == input::STDIN && input::stdin_is_terminal() {
        return Err(Error::usage("there is no list on stdin").hint("name a file, or pipe the list in"));
    }
    input::check_output(&batch.list, &batch.directory.join(manifest::FILE))?;
    let place = place(batch);
    let mut lines = form.lines(&input::read(&batch.list)?, &place)?;
    if lines.is_empty() {
        return Err(Error::new(format!("{place} holds no text")).hint("give a line an utterance"));
    }
    if let Some(shard) = batch.shard {
        lines.retain(|line| shard.holds(line.n));
    }
    let mut settings = Settings::resolve(&batch.machine)?;
    let batch = &batch.over(&settings);
    let mut like = batch.voice.utterance();
    like.voice = settings.voice_over(like.voice);
    let activations = settings.activations.name();
    let opened = open::open(settings, offline, console)?;
    let voices = opened.voices()?;
    if let Some(voice) = &mut like.voice {
        *voice = known_voice(voice, &voices).map_err(|e| opened.settings.blame("voice", e))?.to_owned();
    }
    let voice = like.voice.as_deref().or(voices.first().map(String::as_str)).unwrap_or("default");

    let model = opened.fingerprint()?;
    let common = plan::Common { batch, like: &like, voice, voices: &voices, model: &model, activations };
    let base = batch.voice.seed.unwrap_or_else(seed::draw);
    let tasks = plan::tasks(&lines, base, &common);
    name::check(tasks.iter().map(|task| (task.n, task.file.as_str()))).map_err(|e| e.at(&place))?;
    let known = manifest::read(&batch.directory.join(manifest::FILE))?;
    let (tasks, skipped) = plan::remaining(tasks, &known, batch);
    plan::check_outputs(&tasks, &known, batch)?;
    if !batch.dry_run {
        places::prepare_folder(&batch.directory)?;
    }
    if batch.dry_run {
        return plan::show(&tasks, skipped, batch, console);
    }
    if tasks.is_empty() {
        console.note(format_args!("nothing to do: {skipped} lines in `{}` are done", batch.directory.display()));
        return Ok(Outcome::Done);
    }
    temporary::sweep(&batch.directory);
    let slots = match batch.batch_size {
        Some(Slots::Exactly(count)) => count,
        Some(Slots::Auto) | None => USUAL_SLOTS,
    };
    let mut speaker = opened.load(slots.min(tasks.len().max(1)), console)?;
    let mut manifest = Manifest::open(&batch.directory)?;
    let run = perform::Run { batch, skipped, interrupt: &interrupt, console };
    run.speak(speaker.as_mut(), tasks, &mut manifest)
}
