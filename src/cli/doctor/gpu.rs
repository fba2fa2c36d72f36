//! The GPU: driver, compiler, kernels, and a small piece of work on every device against the CPU.

use super::{Check, State, shown, tiles};
use crate::cli::console::Console;
use crate::cli::info::bytes;
use crate::cli::settings::{Device, Settings};
use crate::compute::Compute;
use crate::compute::cpu::Cpu;
use crate::compute::cuda::{self, Cuda};
use crate::error::Result;

const TOPIC: &str = "gpu";

pub fn look(settings: Option<&Settings>, console: &Console) -> Vec<Check> {
    let wanted = matches!(settings.map(|settings| settings.device), Some(Device::Cuda(_)));
    // Without one rtts computes on the CPU, unless it was told not to.
    let state = if wanted { State::Problem } else { State::Note };
    let (driver, count) = match cuda::driver_version().and_then(|driver| Ok((driver, cuda::Device::count()?))) {
        Ok(found) => found,
        Err(error) => {
            let without = if wanted { "a GPU is configured, but " } else { "the CPU computes: " };
            let check = Check::of(TOPIC, state, &error);
            return vec![Check { text: format!("{without}{}", check.text), ..check }];
        }
    };
    let (major, minor) = driver;
    let mut checks = vec![Check::ok(TOPIC, format!("driver for CUDA {major}.{minor}, {count} GPUs")), kernels()];
    checks.extend((0..count).map(|ordinal| device(ordinal, console)));
    checks
}

/// The kernels that are part of the program, and the compiler for the others.
fn kernels() -> Check {
    let kept = cuda::cache_folder().map_or("nowhere".to_owned(), |folder| format!("`{}`", shown(&folder)));
    let embedded = cuda::embedded_count();
    match cuda::compiler_version() {
        Ok((major, minor)) => Check::ok(
            TOPIC,
            format!("{embedded} kernel files in the program; NVRTC {major}.{minor} compiles others, kept in {kept}"),
        ),
        // Enough where the kernels for this GPU are in the program: the device's own line tells.
        Err(error) => Check::of(TOPIC, State::Note, &error),
    }
}

fn device(ordinal: usize, console: &Console) -> Check {
    match examine(ordinal, console) {
        Ok((about, wrong)) if wrong.is_empty() => Check::ok(TOPIC, format!("{ordinal}: {about}")),
        Ok((about, wrong)) => Check::problem(TOPIC, format!("{ordinal}: {about}; {}", wrong.join("; ")))
            .cure("the GPU, its driver or this build computes wrongly: report it; `--device cpu` works without"),
        Err(error) => Check::of(TOPIC, State::Problem, &error),
    }
}

/// What the GPU is, and which of its results differ from the CPU's.
fn examine(ordinal: usize, console: &Console) -> Result<(String, Vec<String>)> {
    let gpu = Cuda::new(ordinal, &mut |text| console.note(text))?;
    let facts = gpu.device().facts();
    let (free, total) = gpu.device().memory()?;
    let shared = if facts.integrated { ", shared with the machine" } else { "" };
    let (free, total) = (bytes(free as u64), bytes(total as u64));
    let mut about =
        format!("{}, {} multiprocessors, {free} of {total} free{shared}", gpu.describe(), facts.multiprocessors);
    let mut wrong = Vec::new();
    let mut farthest = 0_f32;
    for (name, outcome) in tiles::compare(&gpu, &Cpu::new(None)?) {
        match outcome {
            Ok(away) if away < tiles::MOST => farthest = farthest.max(away),
            Ok(away) => wrong.push(format!("{name} is {away:.0e} from the CPU's")),
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    if wrong.is_empty() {
        about.push_str(&format!("; every kind of kernel agrees with the CPU, within {farthest:.0e}"));
    }
    Ok((about, wrong))
}
