//! From a model's name to a speaker: settings, hub, checkpoint, device, weights.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Instant, UNIX_EPOCH};

use super::batch::plan::digest;
use super::console::Console;
use super::settings::{Device, Settings};
use crate::checkpoint::{Checkpoint, Layout, Source};
use crate::error::{Error, Result};
use crate::models::Speaker;

/// A model whose files are known to be there, before any weight is read.
pub struct Opened {
    /// What it was asked for by.
    pub name: String,
    /// Its files.
    pub checkpoint: Checkpoint,
    folder: PathBuf,
    settings: Settings,
}

/// Finds the model that `settings` ask for, downloading what is missing.
///
/// # Errors
/// No model chosen, or one that cannot be found or read.
pub fn open(settings: Settings, offline: bool, console: &Console) -> Result<Opened> {
    if let Device::Cuda(_) = settings.device {
        return Err(Error::new(format!("`--device {}`: this version has no CUDA backend yet", settings.device))
            .hint("leave --device out, or use `--device cpu`"));
    }
    let name =
        settings.model.clone().ok_or_else(|| Error::usage("no model is chosen").hint("name one with `-m FOLDER`"))?;
    let folder = std::path::PathBuf::from(&name);
    let _ = (offline, console);
    let checkpoint = Checkpoint::open(Source::Folder(folder.clone()))?;
    Ok(Opened { name, checkpoint, folder, settings })
}

impl Opened {
    /// The checkpoint's speakers, as its configuration names them.
    ///
    /// # Errors
    /// A model that is not spoken yet, or a broken configuration.
    pub fn voices(&self) -> Result<Vec<String>> {
        match self.checkpoint.layout() {
            Layout::TinyAya => Ok(self.checkpoint.config().opt_strings("speakers")?.unwrap_or_default()),
            Layout::VoxCpm2 => Err(Error::new(format!("`{}`: VoxCPM2 is not spoken by this version yet", self.name))
                .hint("use a TinyAya model, such as `rumik`")),
        }
    }

    /// Stands for the model's files: names, sizes and times of change, since reading gigabytes to compare would take long.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn fingerprint(&self) -> Result<String> {
        let mut files = Vec::new();
        for folder in [self.folder.clone(), self.folder.join("codec")] {
            list(&folder, &mut files).map_err(|e| Error::io("cannot read", &folder, &e))?;
        }
        files.sort();
        Ok(digest(files.join("\n").as_bytes(), 16))
    }

    /// Reads the weights, for `slots` utterances at a time.
    ///
    /// # Errors
    /// Whatever is wrong with the weights.
    pub fn load(&self, slots: usize, console: &Console) -> Result<Box<dyn Speaker>> {
        let _ = (slots, console, Instant::now(), &self.settings);
        Err(Error::new("no model can be loaded yet"))
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
