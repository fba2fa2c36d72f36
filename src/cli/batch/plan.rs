//! What a batch will do, before a model is loaded: a task for every line, less those that are done.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, Metadata};
use std::path::Path;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Batch;
use super::estimate::Estimate;
use super::list::Line;
use super::manifest::Entry;
use super::name::{self, Fill};
use super::{claim, place};
use crate::cli::cast::{Cast, Model, Sources};
use crate::cli::console::Console;
use crate::cli::input;
use crate::cli::words::count;
use crate::cli::{Outcome, seed};
use crate::error::{Error, Result};
use crate::models::Utterance;

/// One line to speak.
#[derive(Clone, Debug)]
pub struct Task {
    /// The line's number.
    pub n: usize,
    /// What to say.
    pub text: String,
    /// The WAV file, relative to the output folder.
    pub file: String,
    /// Voice, sampling and seed; the text is not in it.
    pub like: Utterance,
    /// The recordings it is spoken with.
    pub sources: Sources,
    /// The same where text, settings and model are the same.
    pub key: String,
    /// Why the line cannot be spoken, where its settings tell.
    pub refused: Option<Error>,
}

/// What all lines of a batch share.
pub struct Common<'a> {
    /// The command line.
    pub batch: &'a Batch,
    /// Voice and sampling, as far as the command line and the settings say.
    pub like: &'a Utterance,
    /// The voice that speaks where nobody names one.
    pub voice: &'a str,
    /// The recordings of the command line.
    pub sources: &'a Sources,
    /// What the model can do.
    pub model_can: Model<'a>,
    /// Where messages go.
    pub console: &'a Console,
    /// Stands for the model's files.
    pub model: &'a str,
    /// How 4-bit linears take their input.
    pub activations: &'a str,
}

/// All that the bytes of a line depend on. A seed counts only where it was given: a drawn one is as good as another.
#[derive(Serialize)]
struct Identity<'a> {
    text: &'a str,
    voice: &'a str,
    style: Option<&'a str>,
    seed: Option<u64>,
    temperature: Option<f32>,
    top_k: Option<usize>,
    max_seconds: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cfg: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<usize>,
    /// Stands for the content of the recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    recordings: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    no_trim: bool,
    split: String,
    normalize: String,
    gap: Option<u32>,
    format: String,
    rate: Option<u32>,
    activations: &'a str,
    model: &'a str,
    // Later than the others: left out where it is not used, so that batches of earlier versions stay done.
    #[serde(skip_serializing_if = "Option::is_none")]
    lufs: Option<f64>,
}

/// The tasks of all `lines`; `base` is the seed of the batch, and `cast` looks at the recordings.
pub fn tasks(lines: &[Line], base: u64, common: &Common<'_>, cast: &mut Cast) -> Vec<Task> {
    let stem = match common.batch.list.file_stem() {
        Some(stem) if stem != "-" => stem.to_string_lossy().into_owned(),
        _ => "stdin".to_owned(),
    };
    lines.iter().map(|line| task(line, &stem, base, common, cast)).collect()
}

fn task(line: &Line, stem: &str, base: u64, common: &Common<'_>, cast: &mut Cast) -> Task {
    let mut like = line.own.over(common.like);
    like.seed = line.own.seed.unwrap_or_else(|| seed::of_line(base, line.n));
    let folder = common.batch.list.parent().unwrap_or(Path::new(""));
    let mut sources = line.own.sources(common.sources, folder);
    let named = like.voice.clone();
    let fit = common.model_can.fit(&mut like, &mut sources).and_then(|()| cast.look(&sources, common.console));
    let (recordings, refused) = match fit {
        Ok(recordings) => (recordings, None),
        Err(error) => (None, Some(error)),
    };
    let voice = like.voice.as_deref().or(sources.name()).or(named.as_deref()).unwrap_or(common.voice);
    let hash = digest(line.text.as_bytes(), 12);
    let file = match &line.name {
        Some(name) => name::file(name),
        None => common.batch.name.fill(Fill { n: line.n, stem, voice, hash: &hash }),
    };
    let given = line.own.seed.is_some() || common.batch.voice.seed.is_some();
    let identity = Identity {
        text: &line.text,
        voice,
        style: like.style.as_deref(),
        seed: given.then_some(like.seed),
        temperature: like.temperature,
        top_k: like.top_k,
        max_seconds: like.max_seconds,
        cfg: like.cfg,
        steps: like.solver_steps,
        recordings: recordings.as_deref(),
        retry: common.batch.guards.retry,
        no_trim: common.batch.guards.no_trim,
        split: format!("{:?}", common.batch.cutting.split),
        normalize: format!("{:?}", common.batch.cutting.normalize),
        gap: common.batch.cutting.gap,
        format: common.batch.storing.format().to_string(),
        rate: common.batch.storing.rate,
        activations: common.activations,
        model: common.model,
        lufs: common.batch.storing.lufs,
    };
    // Plain data with string keys always becomes JSON.
    let key = digest(&serde_json::to_vec(&identity).unwrap_or_default(), 16);
    Task { n: line.n, text: line.text.clone(), file, like, sources, key, refused }
}

/// The first `digits` of the SHA-256 of `bytes`, in hexadecimal.
pub fn digest(bytes: &[u8], digits: usize) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text.truncate(digits);
    text
}

/// The tasks still to be done, and how many are not.
pub fn remaining(tasks: &[Task], known: &HashMap<String, Entry>, batch: &Batch) -> (Vec<Task>, usize) {
    let wanted = |task: &&Task| {
        let entry = known.get(&task.file);
        let failed = entry.is_some_and(|e| e.error.is_some());
        if batch.retry_failed {
            return failed;
        }
        batch.force || !entry.is_some_and(|e| e.key == task.key && stands(task, e, batch))
    };
    let left: Vec<Task> = tasks.iter().filter(wanted).cloned().collect();
    let skipped = tasks.len() - left.len();
    (left, skipped)
}

/// Whether the file of `task` is the one that `entry` tells of.
fn stands(task: &Task, entry: &Entry, batch: &Batch) -> bool {
    entry.error.is_none() && entry.bytes.is_some() && entry.bytes == size(&batch.directory.join(&task.file))
}

/// Says how many of the `tasks` were spoken before and will be spoken again because something changed.
pub fn changed(tasks: &[Task], known: &HashMap<String, Entry>, batch: &Batch) -> Option<String> {
    if batch.force || batch.retry_failed {
        return None;
    }
    let spoken = tasks.iter().filter_map(|task| Some((task, known.get(&task.file)?)));
    let again: Vec<_> = spoken.filter(|(task, entry)| stands(task, entry, batch)).collect();
    let texts = again.iter().filter(|(task, entry)| task.text != entry.text).count();
    let what = match (again.len(), texts) {
        (0, _) => return None,
        (_, 0) => "settings or model are",
        (all, texts) if all == texts => "their text is",
        _ => "text, settings or model are",
    };
    let folder = batch.directory.display();
    Some(format!("{} in `{folder}` will be spoken again: {what} not as before", count(again.len(), "line")))
}

/// The size of a regular file.
fn size(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().filter(Metadata::is_file).map(|data| data.len())
}

/// Checks that no task replaces the list itself, or a file that no batch wrote.
///
/// # Errors
/// The first file in the way.
pub fn check_outputs(tasks: &[Task], known: &HashMap<String, Entry>, batch: &Batch) -> Result<()> {
    for task in tasks {
        let path = batch.directory.join(&task.file);
        input::check_output(&batch.list, &path)?;
        let ours = || known.contains_key(&task.file) || claim::stands(&batch.directory, &task.file);
        if !batch.force && path.is_file() && !ours() {
            let what = format!("`{}` is there already, and no batch is known to have written it", path.display());
            return Err(
                Error::usage(what).hint("move it away, choose other names with --name, or replace it with --force")
            );
        }
    }
    Ok(())
}

/// Prints what would be done.
///
/// # Errors
/// Where stdout cannot be written.
pub fn show(tasks: &[Task], skipped: usize, estimate: &Estimate, batch: &Batch, console: &Console) -> Result<Outcome> {
    #[derive(Serialize)]
    struct Shown<'a> {
        v: u32,
        n: usize,
        file: &'a str,
        text: &'a str,
    }
    #[derive(Serialize)]
    struct Planned<'a> {
        v: u32,
        lines: usize,
        skipped: usize,
        #[serde(flatten)]
        estimate: &'a Estimate,
    }
    for task in tasks {
        if console.json() {
            console.object(&Shown { v: 1, n: task.n, file: &task.file, text: &task.text })?;
        } else {
            console.print(format_args!("{}\t{}", task.file, task.text))?;
        }
    }
    let refused = tasks.iter().filter_map(|task| Some((task.n, task.refused.clone()?)));
    let refused: Vec<Error> = refused.map(|(n, error)| error.at(format_args!("{}, line {n}", place(batch)))).collect();
    refused.iter().for_each(|error| console.error(error));
    if console.json() {
        console.object(&Planned { v: 1, lines: tasks.len(), skipped, estimate })?;
    } else {
        let lines = count(tasks.len(), "line");
        console.note(format_args!("{lines} to speak, {skipped} skipped{estimate}; nothing was done"));
    }
    Ok(if refused.is_empty() { Outcome::Done } else { Outcome::SomeFailed })
}
