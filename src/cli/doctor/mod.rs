//! `rtts doctor`: what works on this machine, as a block to put into a report.

use clap::Args;
use serde::Serialize;

use super::Outcome;
use super::console::Console;
use crate::compute::Compute;
use crate::compute::cpu::Cpu;
use crate::compute::cuda::{self, Cuda};
use crate::error::{Error, Result};

mod tiles;

/// Arguments of `rtts doctor`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rtts doctor
  rtts doctor --json")]
pub struct Doctor {}

/// A line of the report.
#[derive(Serialize)]
struct Line {
    v: u32,
    what: String,
    /// Nothing is wrong with it.
    ok: bool,
    says: String,
}

/// Examines the machine. That there is no GPU is no failure; a GPU that computes wrongly is.
///
/// # Errors
/// A GPU that computes wrongly, or where stdout cannot be written.
pub fn run(_: &Doctor, console: &Console) -> Result<Outcome> {
    let mut sound = true;
    let mut tell = |what: &str, ok: bool, says: String| {
        sound &= ok;
        if console.json() {
            console.object(&Line { v: 1, what: what.into(), ok, says })
        } else {
            console.print(format_args!("{what:<10} {says}{}", if ok { "" } else { "  <- wrong" }))
        }
    };
    let version = env!("CARGO_PKG_VERSION");
    tell("rtts", true, format!("{version} on {} {}", std::env::consts::OS, std::env::consts::ARCH))?;
    let cpu = Cpu::new(None)?;
    tell("cpu", true, cpu.describe())?;
    let why = |error: Error| error.to_string();
    tell("driver", true, cuda::driver_version().map_or_else(why, |(a, b)| format!("made for CUDA {a}.{b}")))?;
    tell("compiler", true, cuda::compiler_version().map_or_else(why, |(a, b)| format!("NVRTC {a}.{b}")))?;
    let cache = cuda::cache_folder().map_or("no folder".into(), |folder| format!("`{}`", folder.display()));
    tell("kernels", true, format!("{} files in the program, others kept in {cache}", cuda::embedded_count()))?;
    for ordinal in 0..cuda::Device::count().unwrap_or(0) {
        let what = format!("gpu {ordinal}");
        match Cuda::new(ordinal, &mut |text| console.note(text)) {
            Err(error) => tell(&what, false, error.to_string())?,
            Ok(gpu) => {
                let facts = gpu.device().facts();
                let (free, total) = gpu.device().memory()?;
                let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
                let shared = if facts.integrated { ", shared with the machine" } else { "" };
                tell(
                    &what,
                    true,
                    format!(
                        "{}, {} multiprocessors, {:.1} of {:.1} GiB free{shared}",
                        gpu.describe(),
                        facts.multiprocessors,
                        gib(free),
                        gib(total)
                    ),
                )?;
                for (name, outcome) in tiles::compare(&gpu, &cpu) {
                    match outcome {
                        Ok(away) => tell("", away < tiles::MOST, format!("{name}: {away:.0e} from the CPU's"))?,
                        Err(error) => tell("", false, format!("{name}: {error}"))?,
                    }
                }
            }
        }
    }
    #[cfg(feature = "playback")]
    tell("sound", true, crate::audio::play::Player::open(24_000).map_or_else(why, |_| "a card that plays".into()))?;
    if sound { Ok(Outcome::Done) } else { Err(Error::new("something here does not work as it should")) }
}
