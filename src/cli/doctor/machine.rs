//! The program itself, system, memory, processor, and whether that computes what it should.

use super::{Check, features};
use crate::cli::info::bytes;
use crate::cli::settings::Settings;
use crate::compute::check;
use crate::compute::cpu::{Cpu, Isa};
use crate::machine;

/// Below this a run of the built-in voice is in danger.
const LITTLE: u64 = 500_000_000;
/// What f32 may be off by, relative to the size of what is added up.
const TOLERANCE: f64 = 1e-5;

pub fn program() -> Check {
    if cfg!(debug_assertions) {
        return Check::note("program", format!("{}, built without optimisation: several times slower", features()))
            .cure("build it with `cargo build --release`");
    }
    Check::ok("program", features())
}

pub fn system() -> Check {
    Check::ok("system", machine::system())
}

pub fn memory() -> Check {
    let Some(memory) = machine::memory() else {
        return Check::note("memory", "this system does not say how much memory there is");
    };
    let text = format!("{}, of which {} can be had now", bytes(memory.total), bytes(memory.available));
    if memory.available < LITTLE {
        return Check::note("memory", text).cure("end other programs before a model is loaded");
    }
    Check::ok("memory", text)
}

/// The processor, and every instruction set's arithmetic.
pub fn compute(settings: Option<&Settings>) -> Vec<Check> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let name = machine::processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let sets = Isa::available();
    let all: Vec<&str> = sets.iter().map(|isa| isa.name()).collect();
    let processor = match Isa::chosen() {
        Ok(isa) => {
            let wanted = settings.and_then(|settings| settings.threads);
            let text = format!(
                "{name}, {cores} cores for this process; {} of {} in use on {} threads",
                isa.name(),
                all.join(", "),
                wanted.unwrap_or(cores)
            );
            match wanted {
                Some(threads) if threads > cores => Check::note("processor", text)
                    .cure(format!("more threads than cores slow each other down: set `threads` to {cores}")),
                _ => Check::ok("processor", text),
            }
        }
        Err(error) => Check::of("processor", super::State::Problem, &error),
    };
    let wrong: Vec<String> = sets.iter().flat_map(|isa| on(*isa)).collect();
    let arithmetic = if wrong.is_empty() {
        Check::ok(
            "arithmetic",
            format!("one operation of each kind agrees with plain arithmetic on {}", all.join(", ")),
        )
    } else {
        Check::problem("arithmetic", wrong.join("; "))
            .cure("the processor or this build computes wrongly: report it; `RTTS_CPU=fallback` may help")
    };
    vec![processor, arithmetic]
}

/// What an instruction set gets wrong.
fn on(isa: Isa) -> Vec<String> {
    match Cpu::with(isa, Some(1)) {
        Ok(cpu) => check::all(&cpu, TOLERANCE)
            .into_iter()
            .filter_map(|outcome| Some(format!("{} on {}: {}", outcome.name, isa.name(), outcome.wrong?)))
            .collect(),
        Err(error) => vec![format!("{}: {error}", isa.name())],
    }
}
