//! A batch at work: lines into slots, samples into files, a manifest line for each as it ends.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::claim::Claim;
use super::manifest::{Entry, Manifest};
use super::plan::Task;
use super::{Batch, place};
use crate::audio::loudness::Levelled;
use crate::cli::cast::Cast;
use crate::cli::console::Console;
use crate::cli::interrupt::Interrupt;
use crate::cli::outlet::Outlet;
use crate::cli::progress::Progress;
use crate::cli::say::rtf;
use crate::cli::sound;
use crate::cli::speak::{Event, Told, speak};
use crate::cli::words::count;
use crate::cli::{Outcome, guards, script};
use crate::engine::Flow;
use crate::error::{Error, Result};
use crate::models::Speaker;

/// What a batch works with, besides the speaker and the manifest.
pub struct Run<'a> {
    /// The command line.
    pub batch: &'a Batch,
    /// Lines that an earlier run did.
    pub skipped: usize,
    /// Whether the user asked to stop.
    pub interrupt: &'a Interrupt,
    /// Where messages go.
    pub console: &'a Console,
}

/// How far the batch is.
struct Work<'a, 'w> {
    run: &'w Run<'a>,
    rate: u32,
    begun: Instant,
    /// By line number.
    tasks: HashMap<usize, Task>,
    /// Files under way, by line number.
    outlets: HashMap<usize, Outlet<'static>>,
    manifest: &'w mut Manifest,
    done: usize,
    failed: usize,
    /// Samples of finished lines.
    samples: usize,
    /// What the guards did to them.
    retries: usize,
    trimmed: usize,
}

/// The last line of a batch, as JSON.
#[derive(Serialize)]
struct Summary<'a> {
    v: u32,
    done: usize,
    failed: usize,
    skipped: usize,
    left: usize,
    seconds: f64,
    wall: f64,
    rtf: Option<f64>,
    retries: usize,
    trimmed: f64,
    device: &'a str,
}

impl Run<'_> {
    /// Speaks all tasks.
    ///
    /// # Errors
    /// A failing device, or a manifest that cannot be written.
    pub fn speak(
        &self,
        speaker: &mut dyn Speaker,
        tasks: Vec<Task>,
        mut cast: Cast,
        manifest: &mut Manifest,
    ) -> Result<Outcome> {
        self.interrupt.hold("finishing the lines under way; Ctrl-C again stops at once");
        let rate = speaker.sample_rate();
        let device = speaker.device();
        let begun = Instant::now();
        let all = tasks.len();
        let mut progress = Progress::of(self.console, all as u64, "lines");
        let (done, failed, samples) = (0, 0, 0);
        let (tasks_by_n, outlets, retries, trimmed) = (HashMap::new(), HashMap::new(), 0, 0);
        let mut work = Work {
            run: self,
            rate,
            begun,
            tasks: tasks_by_n,
            outlets,
            manifest,
            done,
            failed,
            samples,
            retries,
            trimmed,
        };

        let mut scripts = Vec::new();
        let mut unreadable: Vec<(usize, String)> = Vec::new();
        for task in tasks {
            // Listening to many recordings takes its time.
            if self.interrupt.asked() {
                break;
            }
            let mut like = task.like.clone();
            let script = match &task.refused {
                Some(error) => Err(error.clone()),
                None => cast
                    .give(&task.sources, &mut like, speaker, self.console)
                    .and_then(|()| script::write(speaker, task.n, &task.text, &like, &self.batch.cutting)),
            };
            match script {
                Ok(script) => {
                    unreadable.extend(script::unreadable(&script, speaker).map(|why| (task.n, why)));
                    scripts.push(script);
                    work.tasks.insert(task.n, task);
                }
                Err(error) => work.fail(&task, &error)?,
            }
        }
        if let [(n, why), more @ ..] = unreadable.as_slice() {
            let more =
                if more.is_empty() { String::new() } else { format!("; {} too", count(more.len(), "more line")) };
            self.console.warn(format_args!("{}, line {n}: {why}{more}", place(self.batch)));
        }
        let mut scripts = scripts.into_iter();
        // What has begun is finished; nothing new begins once the user asked to stop.
        let mut until_asked = std::iter::from_fn(|| if self.interrupt.asked() { None } else { scripts.next() });
        let slots = speaker.slots();
        let manner = self.batch.guards.manner(speaker, true);
        speak(speaker, &mut until_asked, slots, manner, &mut |event| {
            work.take(event)?;
            let seconds = work.samples as f64 / f64::from(rate);
            let message = format!("{seconds:.1} s of audio, RTF {:.2}", rtf(begun.elapsed(), seconds));
            progress.show((work.done + work.failed) as u64, &message);
            Ok(Flow::Continue)
        })?;
        drop(progress);
        let left = all - work.done - work.failed;
        self.summary(&work, left, begun.elapsed(), &device)?;
        Ok(match (left, work.failed) {
            (1.., _) => Outcome::Interrupted,
            (0, 0) => Outcome::Done,
            (0, _) => Outcome::SomeFailed,
        })
    }

    fn summary(&self, work: &Work<'_, '_>, left: usize, wall: Duration, device: &str) -> Result<()> {
        let in_seconds = |samples: usize| samples as f64 / f64::from(work.rate);
        let (done, failed, skipped, retries) = (work.done, work.failed, self.skipped, work.retries);
        let (seconds, trimmed) = (in_seconds(work.samples), in_seconds(work.trimmed));
        if self.console.json() {
            let (rtf, wall) = ((seconds > 0.0).then(|| rtf(wall, seconds)), wall.as_secs_f64());
            let summary = Summary { v: 1, done, failed, skipped, left, seconds, wall, rtf, retries, trimmed, device };
            return self.console.report(&summary);
        }
        let mut line = format!(
            "{} in `{}`: {seconds:.1} s of audio in {:.1} s, RTF {:.2}, {device}",
            count(done, "line"),
            self.batch.directory.display(),
            wall.as_secs_f64(),
            rtf(wall, seconds),
        );
        for (count, what) in
            [(skipped, "skipped"), (failed, "failed"), (left, "left"), (retries, "runaways spoken again")]
        {
            if count > 0 {
                line.push_str(&format!("; {count} {what}"));
            }
        }
        if trimmed > 0.0 {
            line.push_str(&format!("; {trimmed:.1} s of silence trimmed"));
        }
        self.console.note(line);
        if left > 0 {
            self.console.note("run the same command again to go on");
        }
        Ok(())
    }
}

impl Work<'_, '_> {
    fn take(&mut self, event: Event<'_>) -> Result<()> {
        match event {
            Event::Made { .. } => Ok(()),
            Event::Audio { id, samples } => {
                if let Err(error) = self.write(id, samples) {
                    self.outlets.remove(&id);
                    self.give_up(id, &error)?;
                }
                Ok(())
            }
            Event::Done { id, told } => {
                let folder = &self.run.batch.directory;
                // Until the line is in the manifest.
                let _claim = self.tasks.get(&id).map(|task| Claim::set(folder, &task.file));
                match self.outlets.remove(&id).map(Outlet::finish) {
                    Some(Ok(finished)) => {
                        self.explain(id, finished.levelled);
                        self.enter(id, &told)
                    }
                    Some(Err(error)) => self.give_up(id, &error),
                    // Given up before, or not one sample came.
                    None => self.give_up(id, &Error::new("the model ended without a sound")),
                }
            }
            Event::Failed { id, error } => {
                self.outlets.remove(&id);
                self.give_up(id, &error)
            }
        }
    }

    fn write(&mut self, id: usize, samples: &[f32]) -> Result<()> {
        let Some(task) = self.tasks.get(&id) else { return Ok(()) };
        if !self.outlets.contains_key(&id) {
            let path = self.run.batch.directory.join(&task.file);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(|e| Error::io("cannot make the folder", folder, &e))?;
            }
            self.outlets.insert(id, Outlet::file(&path, self.rate, &self.run.batch.storing)?);
        }
        match self.outlets.get_mut(&id) {
            Some(outlet) => outlet.push(samples).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Says where a loudness that was asked for was not reached.
    fn explain(&self, id: usize, levelled: Option<Levelled>) {
        let levelled = levelled.zip(self.run.batch.storing.lufs);
        if let Some(why) = levelled.and_then(|(levelled, wanted)| sound::explain(&levelled, wanted)) {
            self.run.console.warn(format_args!("{}, line {id}: loudness: {why}", place(self.run.batch)));
        }
    }

    /// A line is done: its file stands, so it enters the manifest.
    fn enter(&mut self, id: usize, told: &Told) -> Result<()> {
        let Some(task) = self.tasks.remove(&id) else { return Ok(()) };
        let seconds = told.samples as f64 / f64::from(self.rate);
        self.done += 1;
        self.samples += told.samples;
        let console = self.run.console;
        if told.cuts > 0 {
            let why = guards::cut(told.stop);
            console.warn(format_args!("{}, line {}: {why}", place(self.run.batch), task.n));
        }
        if let Some(acted) = guards::acted(told, self.rate) {
            console.detail(1, format_args!("{}, line {}: {acted}", place(self.run.batch), task.n));
        }
        self.retries += told.retries;
        self.trimmed += told.trimmed;
        let mut entry = entry(&task);
        entry.seconds = Some(rounded(seconds));
        let path = self.run.batch.directory.join(&task.file);
        entry.bytes = fs::metadata(path).ok().map(|data| data.len());
        entry.steps = Some(told.steps);
        entry.stop = Some(told.stop.name().to_owned());
        entry.retries = Some(told.retries);
        entry.trimmed = Some(rounded(told.trimmed as f64 / f64::from(self.rate)));
        entry.rtf = Some(rounded(rtf(told.wall, seconds)));
        let so_far = self.samples as f64 / f64::from(self.rate);
        entry.speed = Some(rounded(so_far / self.begun.elapsed().as_secs_f64().max(1e-6)));
        self.add(&entry)
    }

    fn give_up(&mut self, id: usize, error: &Error) -> Result<()> {
        match self.tasks.remove(&id) {
            Some(task) => self.fail(&task, error),
            None => Ok(()),
        }
    }

    fn fail(&mut self, task: &Task, error: &Error) -> Result<()> {
        self.failed += 1;
        self.run.console.error(&error.clone().at(format_args!("{}, line {}", place(self.run.batch), task.n)));
        let mut entry = entry(task);
        entry.error = Some(error.to_string());
        self.add(&entry)
    }

    fn add(&mut self, entry: &Entry) -> Result<()> {
        self.manifest.add(entry)?;
        if self.run.console.json() {
            self.run.console.report(entry)?;
        }
        Ok(())
    }
}

fn entry(task: &Task) -> Entry {
    Entry {
        v: 1,
        n: task.n,
        text: task.text.clone(),
        file: task.file.clone(),
        seed: task.like.seed,
        key: task.key.clone(),
        ..Entry::default()
    }
}

/// To a ten-thousandth: enough for people, and short.
fn rounded(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}
