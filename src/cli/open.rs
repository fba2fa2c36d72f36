//! From a model's name to a speaker: settings, hub, checkpoint, device, weights.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Instant, UNIX_EPOCH};

use super::batch::plan::digest;
use super::config::Config;
use super::console::Console;
use super::info::reads;
use super::once;
use super::settings::{Device, Settings};
use crate::builtin;
use crate::checkpoint::random::Random;
use crate::checkpoint::{Checkpoint, Layout, Source};
use crate::compute::Activations;
use crate::compute::cpu::Cpu;
use crate::compute::cuda::{self, Cuda};
use crate::error::{Error, Result};
use crate::hub::{self, Hub};
use crate::models::{self, Options, Speaker};

/// Utterances at a time where it is left to us: beyond this a CPU gains little.
const USUAL_SLOTS: usize = 8;
/// The same for a GPU.
const MOST_SLOTS: usize = 128;
/// Positions for which there shall be room in every slot: about 20 s of TinyAya.
const USUAL_POSITIONS: usize = 2048;
/// Bytes of a slot beside its keys and values: the codec's state and work.
const SLOT: usize = 32 << 20;
/// Bytes that work beside the weights.
const WORK: usize = 1 << 30;

/// A model whose files are known to be there, before any weight is read.
pub struct Opened {
    /// What it was asked for by.
    pub name: String,
    /// Its files.
    pub checkpoint: Checkpoint,
    source: Source,
    /// What it is run with.
    pub settings: Settings,
}

/// Finds the model that `settings` ask for, to be run.
///
/// # Errors
/// As [`find`], and a device that there is not.
pub fn open(settings: Settings, offline: bool, console: &Console) -> Result<Opened> {
    // Before gigabytes are downloaded for it.
    check_device(&settings)?;
    find(settings, offline, console)
}

/// A model full of random numbers, made in memory, to be run.
///
/// # Errors
/// A device that there is not, or too little memory.
pub fn made_up(random: Random, settings: Settings) -> Result<Opened> {
    check_device(&settings)?;
    let source = random.make()?;
    let checkpoint = Checkpoint::open(source.clone())?;
    Ok(Opened { name: source.origin(), checkpoint, source, settings })
}

fn check_device(settings: &Settings) -> Result<()> {
    if let Device::Cuda(number) = settings.device {
        cuda::Device::look(number).map_err(|error| settings.blame("device", error))?;
    }
    Ok(())
}

/// Finds the model that `settings` ask for, to be looked at, downloading what is missing.
///
/// # Errors
/// A model that cannot be found or read.
pub fn find(settings: Settings, offline: bool, console: &Console) -> Result<Opened> {
    let hub = Config::load()?.hub(offline)?;
    let name = match &settings.model {
        Some(name) => name.clone(),
        None => default(&hub, console),
    };
    let source = if name == builtin::NAME {
        builtin::source()
    } else {
        let folder = hub::resolve(&name, &hub, &console.download()).map_err(|error| settings.blame("model", error))?;
        console.detail(1, format_args!("model `{name}` in `{}`", folder.display()));
        Source::Folder(folder)
    };
    let checkpoint = Checkpoint::open(source.clone()).map_err(|error| settings.blame("model", error))?;
    Ok(Opened { name, checkpoint, source, settings })
}

/// The last pulled model, or the built-in voice.
fn default(hub: &Hub, console: &Console) -> String {
    if let Some(name) = hub::last_pulled(hub) {
        console.note(format_args!("model: `{name}`, the last one pulled"));
        return name;
    }
    let more = if once::first_time("larger-models") { "; `rtts models pull rumik` fetches a large one" } else { "" };
    console.note(format_args!("model: the built-in voice{more}"));
    builtin::NAME.into()
}

impl Opened {
    /// The checkpoint's speakers, as its configuration names them.
    ///
    /// # Errors
    /// A broken configuration.
    pub fn voices(&self) -> Result<Vec<String>> {
        match self.checkpoint.layout() {
            Layout::TinyAya => Ok(self.checkpoint.config().opt_strings("speakers")?.unwrap_or_default()),
            // It speaks with the voice of a recording, or with one of its own making.
            Layout::VoxCpm2 => Ok(Vec::new()),
        }
    }

    /// The sample rate of models of this kind, for estimates.
    pub fn usual_rate(&self) -> u32 {
        match self.checkpoint.layout() {
            Layout::TinyAya => 24_000,
            Layout::VoxCpm2 => 48_000,
        }
    }

    /// Whether the model speaks with the voices of recordings.
    pub fn clones(&self) -> bool {
        self.checkpoint.layout() == Layout::VoxCpm2
    }

    /// Stands for the model's files: names, sizes and times of change, since reading gigabytes to compare would take long.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn fingerprint(&self) -> Result<String> {
        let mut files = Vec::new();
        let folder = match &self.source {
            Source::Folder(folder) => folder,
            Source::Embedded(embedded) => {
                let contents: Vec<u8> = embedded.iter().flat_map(|(_, content)| content.iter().copied()).collect();
                return Ok(digest(&contents, 16));
            }
            // The same name stands for the same numbers.
            Source::Memory(_) => return Ok(digest(self.name.as_bytes(), 16)),
        };
        for folder in [folder.clone(), folder.join("codec")] {
            list(&folder, &mut files).map_err(|e| Error::io("cannot read", &folder, &e))?;
        }
        files.sort();
        Ok(digest(files.join("\n").as_bytes(), 16))
    }

    /// Reads the weights, for `slots` utterances at a time.
    ///
    /// # Errors
    /// Whatever is wrong with the weights or the device.
    pub fn load(&self, slots: usize, console: &Console) -> Result<Box<dyn Speaker>> {
        self.load_for(console, |_| slots)
    }

    /// Reads the weights, for as many utterances at a time as are worth it here, at most `useful`.
    ///
    /// # Errors
    /// Whatever is wrong with the weights or the device.
    pub fn load_fitting(&self, useful: usize, console: &Console) -> Result<Box<dyn Speaker>> {
        self.load_for(console, |gpu| {
            let fitting = match gpu {
                None => USUAL_SLOTS,
                Some(gpu) => gpu.device().memory().map_or(USUAL_SLOTS, |(free, _)| self.fitting(free)),
            };
            console.detail(1, format_args!("up to {fitting} utterances at a time"));
            useful.clamp(1, fitting)
        })
    }

    /// `slots` says how many, given the GPU or none.
    fn load_for(&self, console: &Console, slots: impl Fn(Option<&Cuda>) -> usize) -> Result<Box<dyn Speaker>> {
        let begun = Instant::now();
        let options = |gpu: Option<&Cuda>| Options {
            slots: slots(gpu),
            activations: self.settings.activations.wanted(),
            ..Options::default()
        };
        let cpu = || models::load(&self.checkpoint, Cpu::new(self.settings.threads)?, &options(None));
        let on = |gpu: Cuda| {
            let options = options(Some(&gpu));
            models::load(&self.checkpoint, gpu, &options)
        };
        let mut note = |text: &str| console.note(text);
        let speaker = match self.settings.device {
            Device::Cpu => cpu()?,
            Device::Cuda(number) => on(Cuda::new(number, &mut note)?)?,
            Device::Auto => {
                let (speaker, why) = match Cuda::first(&mut note) {
                    Ok(gpu) => (on(gpu)?, String::new()),
                    Err(error) => (cpu()?, format!(" ({error})")),
                };
                console.note(format_args!("device: {}{why}", speaker.device()));
                speaker
            }
        };
        console.detail(1, format_args!("loaded in {:.1} s", begun.elapsed().as_secs_f64()));
        Ok(speaker)
    }

    /// How many utterances fit into so many free bytes beside the weights.
    fn fitting(&self, free: usize) -> usize {
        let weights: usize = self.checkpoint.tensors().map(|(_, tensor)| tensor.bytes.len()).sum();
        let position = reads::of(&self.checkpoint).and_then(|reads| reads.cache_a_position).unwrap_or(0) as usize;
        // Four-bit inputs have their weights unpacked to sixteen bits.
        let weights = if self.settings.activations.wanted() == Some(Activations::Fp4) { 4 * weights } else { weights };
        let rest = free.saturating_sub(weights + weights / 8 + WORK);
        (rest / (USUAL_POSITIONS * position + SLOT)).clamp(1, MOST_SLOTS)
    }
}

/// A line for every file directly in `folder`, which may be missing.
fn list(folder: &Path, files: &mut Vec<String>) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // Links of a hub snapshot are followed to what they stand for.
        let data = fs::metadata(&path)?;
        if data.is_file() {
            let changed = data.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            files.push(format!("{name} {} {changed}", data.len()));
        }
    }
    Ok(())
}
