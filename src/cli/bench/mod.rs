//! `rtts bench`: how fast a model speaks here, and how much of what the memory allows that is.
//!
//! `measure` drives the speaker and reads the clock, `statistics` condenses, `report` knows the numbers and the floor,
//! `text` and `compare` write for people.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use self::measure::{Plan, measure};
use self::report::{Rate, Report, Row};
use super::console::Console;
use super::info::reads;
use super::progress::Progress;
use super::settings::{MachineArgs, Settings};
use super::{Outcome, open};
use crate::checkpoint::random::Random;
use crate::error::{Error, Result};
use crate::machine;

mod compare;
mod measure;
mod report;
mod statistics;
#[cfg(test)]
mod tests;
mod text;

/// More slots than any machine speaks in.
const MOST_SLOTS: usize = 1024;

/// Measure how fast a model speaks here
///
/// For every batch size: milliseconds for a step, tokens or patches a second, real-time factor, time to the first audio
/// (TTFA). Beside them stands the floor: a step must read the weights, and the memory of this machine, measured now,
/// is only so fast. Nothing is written and nothing is played.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rtts bench
  rtts bench rumik --batch 1,8,32
  rtts bench --random tinyaya:nvfp4 --batch 1,8 --json > before.json
  rtts bench --random tinyaya:nvfp4 --batch 1,8 --compare before.json")]
pub struct Bench {
    /// The model, as with --model
    #[arg(value_name = "MODEL", conflicts_with = "model")]
    pub name: Option<String>,
    /// A full-size model of random weights, in memory: tinyaya or voxcpm2, with :bf16 or :nvfp4
    ///
    /// Names, shapes and packing are those of the published checkpoint; what it says is noise, at the same speed. No
    /// file is written. Without `:bf16` or `:nvfp4` the packed form is made.
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["name", "model"])]
    pub random: Option<Random>,
    /// Batch sizes: how many utterances are spoken side by side
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,8", value_parser = slots)]
    #[arg(allow_negative_numbers = true)]
    pub batch: Vec<usize>,
    /// Runs of every batch size; the middle one counts, and the spread is shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Steps of a run before the clock starts [default: 32 tokens or 4 patches]
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub warmup: Option<u32>,
    /// Steps of a run that are timed [default: 64 tokens or 16 patches]
    ///
    /// Tokens are best counted in multiples of 32: the codec turns so many into sound at a time.
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub timed: Option<u32>,
    /// Compare with an earlier result, written with --json
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,
    /// Model and machine.
    #[command(flatten)]
    pub machine: MachineArgs,
}

fn slots(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(count @ 1..=MOST_SLOTS) => Ok(count),
        _ => Err(format!("numbers from 1 to {MOST_SLOTS} are needed, with commas between")),
    }
}

/// Measures and prints.
///
/// # Errors
/// A model that cannot be opened or loaded, a device that fails, an earlier result that cannot be read.
pub fn run(bench: &Bench, offline: bool, console: &Console) -> Result<Outcome> {
    // Before minutes are spent on what it is to be compared with.
    let before = bench.compare.as_deref().map(compare::read).transpose()?;
    let mut machine = bench.machine.clone();
    machine.model = machine.model.or_else(|| bench.name.clone());
    let settings = Settings::resolve(&machine)?;
    let activations = settings.activations.name();
    let begun = Instant::now();
    let opened = match bench.random {
        Some(random) => {
            console.note(format_args!("making {random}: {} of random weights", text::bytes(random.bytes())));
            let opened = open::made_up(random, settings)?;
            console.detail(1, format_args!("made in {:.1} s", begun.elapsed().as_secs_f64()));
            opened
        }
        None => open::open(settings, offline, console)?,
    };
    let checkpoint = &opened.checkpoint;
    let reads = reads::of(checkpoint).ok_or_else(|| {
        Error::new(format!("`{}`: its `config.json` does not say how long a step is", opened.name))
            .hint("`rtts info` shows what is known")
    })?;
    let plan = Plan::new(bench, reads.step);

    let begun = Instant::now();
    let most = bench.batch.iter().copied().max().unwrap_or(1);
    let mut speaker = opened.load(most, console)?;
    let load = begun.elapsed();
    let mut report = Report {
        v: 1,
        rtts: env!("CARGO_PKG_VERSION").to_owned(),
        model: opened.name.clone(),
        packing: checkpoint.packing().to_string(),
        bytes: checkpoint.tensors().map(|(_, tensor)| tensor.bytes.len() as u64).sum(),
        device: speaker.device(),
        activations: activations.to_owned(),
        load_s: load.as_secs_f64(),
        read_rate: None,
        step: reads.step.to_owned(),
        steps_a_second: reads.steps_a_second,
        read_per_step: reads.bytes,
        read_per_position: reads.cache_a_position,
        repeat: plan.repeat,
        warmup: plan.warmup,
        timed: plan.timed,
        resident_bytes: None,
        peak_bytes: None,
        results: Vec::new(),
    };

    let mut progress = Progress::of(console, bench.batch.len() as u64 * u64::from(plan.repeat), "runs");
    let mut measured = Vec::new();
    for (i, &slots) in bench.batch.iter().enumerate() {
        let mut runs = Vec::new();
        for run in 0..u64::from(plan.repeat) {
            progress.show(i as u64 * u64::from(plan.repeat) + run, &format!("{slots} side by side"));
            runs.push(measure(speaker.as_mut(), slots, &plan, run)?);
        }
        measured.push((slots, runs));
    }
    drop(progress);
    // Before the probe, which takes memory of its own.
    let resident = machine::resident();
    report.resident_bytes = resident.map(|r| r.now);
    report.peak_bytes = resident.map(|r| r.peak);
    report.read_rate = speaker.read_rate()?.map(|rate| Rate { best: rate.best, median: rate.median });
    report.results = measured.iter().map(|(slots, runs)| Row::of(*slots, runs, &report)).collect();

    if console.json() {
        console.object(&report)?;
    } else {
        console.print(text::write(&report).trim_end())?;
    }
    if let Some(before) = before {
        let comparison = compare::text(&before, &report);
        // One object a line is what `--json` promises of stdout.
        if console.json() {
            console.note(comparison.trim_end())
        } else {
            console.print(format_args!("\n{}", comparison.trim_end()))?
        }
    }
    Ok(Outcome::Done)
}
