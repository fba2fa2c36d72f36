//! `rtts batch`: every line of a list to a WAV file of its own, many at a time.
//!
//! Lines that an earlier run finished are skipped. A file appears when it is whole, then its line enters the manifest;
//! whatever stops the run in between costs at most the lines under way.

use std::path::PathBuf;

use clap::Args;

use super::cast::{Cast, Model};
use super::console::Console;
use super::guards::Guards;
use super::settings::{MachineArgs, Settings};
use super::sound::{Cutting, Storing};
use super::voice::VoiceArgs;
use super::words::count;
use super::{Outcome, input, interrupt::Interrupt, open, seed};
use crate::audio::file::Kind;
use crate::audio::pcm::Format;
use crate::audio::{flac, place as places, temporary};
use crate::error::{Error, Result};

pub mod claim;
pub mod estimate;
pub mod join;
pub mod list;
pub mod manifest;
pub mod name;
pub mod perform;
pub mod plan;
#[cfg(test)]
mod tests;

use estimate::Estimate;
use join::Joined;
use list::{Form, Shard};
use manifest::Manifest;
use name::Template;

/// Arguments of `rtts batch`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rtts batch lines.txt -d out/
  rtts batch lines.txt -d out/ --name \"{stem}-{n:04}-{voice}\" --voice Ross --seed 7
  rtts batch lines.csv -d out/ --seed 7         columns text, name, voice and more
  rtts batch book.txt -d parts/ --join book.flac --subtitles book.srt
  rtts batch lines.txt -d out/ --shard 2/8      the second of eight machines")]
pub struct Batch {
    /// The list: .txt with a line an utterance, .jsonl, .csv or .tsv; `-` is stdin
    ///
    /// UTF-8. Blank lines are passed over, but keep their number. Objects and tables have a `text` and may have `name`
    /// (of the file), `voice`, `style`, `seed`, `temperature`, `top_k`, `max_seconds`, `cfg`, `steps`, `reference`,
    /// `prompt_audio` and `prompt_text`, which go before the flags. Recordings are looked for in the list's folder, then
    /// in the working directory; a line that names a voice or recording takes none from the flags.
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
    /// the voice, {hash} the first twelve digits of the SHA-256 of the text. Names that end in .flac become FLAC files.
    #[arg(long, value_name = "TEMPLATE", default_value = "{n:04}", help_heading = "Output")]
    pub name: Template,
    /// Join the files of all lines, in their order, into one .wav or .flac file
    ///
    /// It is written once every line is spoken, in this run or an earlier one. Between two lines stands the silence of
    /// --gap.
    #[arg(long, value_name = "FILE", help_heading = "Output", conflicts_with = "shard")]
    pub join: Option<PathBuf>,
    /// Write the time of every line in the joined file, as .srt, .vtt or .json
    #[arg(long, value_name = "FILE", help_heading = "Output", requires = "join")]
    pub subtitles: Option<PathBuf>,
    /// Speak all lines, those that are done already too
    #[arg(long, help_heading = "Output", conflicts_with = "retry_failed")]
    pub force: bool,
    /// Speak only the lines that failed in an earlier run
    #[arg(long, help_heading = "Output")]
    pub retry_failed: bool,
    /// Show which line goes to which file and what it will come to, and speak nothing
    ///
    /// Length and size are estimates, from the lines that were spoken before where there are some; these tell how long
    /// it will take, too.
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
    /// Format and rate.
    #[command(flatten)]
    pub storing: Storing,
    /// Voice and sampling.
    #[command(flatten)]
    pub voice: VoiceArgs,
    /// What is done about slips of the model.
    #[command(flatten)]
    pub guards: Guards,
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
    let mut sources = batch.voice.sources();
    let mut cast = Cast::default();
    cast.look(&sources, console)?;
    if !batch.voice.names_voice() {
        like.voice = settings.voice_over(like.voice);
    }
    let activations = settings.activations.name();
    let opened = open::open(settings, offline, console)?;
    let voices = opened.voices()?;
    let model_can = Model { voices: &voices, clones: opened.clones() };
    // What holds for all lines is wrong for all lines.
    let named = like.voice.clone();
    model_can.fit(&mut like.clone(), &mut sources).map_err(|e| opened.settings.blame("voice", e))?;
    sources.saved = None; // found again for each line, which may name another
    let voice = named.as_deref().or(voices.first().map(String::as_str)).unwrap_or("default");

    let model = opened.fingerprint()?;
    let (like, sources) = (&like, &sources);
    let common = plan::Common { batch, like, voice, sources, model_can, console, model: &model, activations };
    let base = batch.voice.seed.unwrap_or_else(seed::draw);
    let all = plan::tasks(&lines, base, &common, &mut cast);
    name::check(all.iter().map(|task| (task.n, task.file.as_str()))).map_err(|e| e.at(&place))?;
    if let Some(task) = all.iter().find(|task| no_room(task, batch)) {
        return Err(flac::no_floats(&batch.directory.join(&task.file)));
    }
    let joined = Joined::wanted(batch, &all)?;
    let known = manifest::read(&batch.directory.join(manifest::FILE))?;
    let (tasks, skipped) = plan::remaining(&all, &known, batch);
    plan::check_outputs(&tasks, &known, batch)?;
    if batch.dry_run {
        plan::changed(&tasks, &known, batch).inspect(|what| console.note(what));
        let bytes = batch.storing.rate.unwrap_or(opened.usual_rate()) as usize * batch.storing.format().bytes();
        let estimate = Estimate::of(&tasks, &known, bytes as f64);
        return plan::show(&tasks, skipped, &estimate, batch, console);
    }
    places::prepare_folder(&batch.directory)?;
    let mut manifest = Manifest::open(&batch.directory, batch.shard.is_some())?;
    // Another run may have been at work until now.
    let (tasks, skipped) = plan::remaining(&all, manifest.known(), batch);
    if tasks.is_empty() {
        let verb = if skipped == 1 { "is" } else { "are" };
        let lines = count(skipped, "line");
        console.note(format_args!("nothing to do: {lines} in `{}` {verb} done", batch.directory.display()));
        return finish(joined.as_ref(), &all, Outcome::Done, console);
    }
    plan::changed(&tasks, manifest.known(), batch).inspect(|what| console.note(what));
    temporary::sweep(&batch.directory);
    let most = tasks.len().max(1);
    let mut speaker = match batch.batch_size {
        Some(Slots::Exactly(count)) => opened.load(count.min(most), console)?,
        Some(Slots::Auto) | None => opened.load_fitting(most, console)?,
    };
    let run = perform::Run { batch, skipped, interrupt: &interrupt, console };
    let outcome = run.speak(speaker.as_mut(), tasks, cast, &mut manifest)?;
    finish(joined.as_ref(), &all, outcome, console)
}

/// Whether the file of `task` cannot hold the samples that were asked for.
fn no_room(task: &plan::Task, batch: &Batch) -> bool {
    Kind::named(task.file.as_ref()) == Some(Kind::Flac) && batch.storing.format() == Format::F32
}

/// Joins what was spoken, where that was asked for and every line is there.
fn finish(joined: Option<&Joined<'_>>, all: &[plan::Task], outcome: Outcome, console: &Console) -> Result<Outcome> {
    let Some(joined) = joined else { return Ok(outcome) };
    let path = joined.path().display();
    match outcome {
        Outcome::Done => {
            let seconds = joined.write(all)?.seconds;
            console.note(format_args!("`{path}`: {} joined, {seconds:.1} s of audio", count(all.len(), "line")));
        }
        Outcome::SomeFailed => console.warn(format_args!("`{path}` is not written: not every line was spoken")),
        Outcome::Interrupted => {}
    }
    Ok(outcome)
}
