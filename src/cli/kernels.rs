//! `rtts kernels`: the GPU kernels compiled ahead, without a GPU. A build with `RTTS_KERNELS` naming the folder embeds them,
//! after which the driver alone suffices.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::Outcome;
use super::console::Console;
use crate::compute::cuda;
use crate::error::{Error, Result};

/// Arguments of `rtts kernels`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rtts kernels -o kernels/
  rtts kernels --arch sm_90a,sm_120f -o kernels/
  RTTS_KERNELS=$PWD/kernels cargo build --release    a program that needs the driver alone")]
pub struct Kernels {
    /// The targets
    ///
    /// sm_80: A100 and all Ampere; sm_89: RTX 40 and L4; sm_90a: H100 and H200; sm_100f: B200 and B300; sm_120f: RTX 50,
    /// RTX PRO 6000 and GB10, with their 4-bit instruction.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "sm_80,sm_89,sm_90a,sm_100f,sm_120f")]
    pub arch: Vec<String>,
    /// The folder for the compiled kernels; it is made where it does not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}

#[derive(Serialize)]
struct Compiled<'a> {
    v: u32,
    arch: &'a str,
    files: usize,
    bytes: usize,
}

/// Compiles every kernel for every target.
///
/// # Errors
/// No compiler, a target it does not know, or a folder that cannot be written.
pub fn run(kernels: &Kernels, console: &Console) -> Result<Outcome> {
    let folder = &kernels.output;
    fs::create_dir_all(folder).map_err(|e| Error::io("cannot make the folder", folder, &e))?;
    for arch in &kernels.arch {
        if !arch.starts_with("sm_") {
            return Err(Error::usage(format!("`{arch}` is no target")).hint("targets are called like `sm_90a`"));
        }
        let files = cuda::compile_all(arch)?;
        for (name, cubin) in &files {
            let path = folder.join(name);
            fs::write(&path, cubin).map_err(|e| Error::io("cannot write", &path, &e))?;
        }
        let bytes = files.iter().map(|(_, cubin)| cubin.len()).sum();
        if console.json() {
            console.object(&Compiled { v: 1, arch, files: files.len(), bytes })?;
        } else {
            console.note(format_args!("{arch}: {} kernel files, {} KiB", files.len(), bytes / 1024));
        }
    }
    Ok(Outcome::Done)
}
