//! The command line: arguments become settings, settings become a run, the run becomes an exit status.
//!
//! One file per subcommand. Everything printed goes through [`console`], everything generated through [`speak`].

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "the comments of arguments are help text, where brackets mean optional"
)]

use crate::compute::Compute;
use crate::compute::cpu::Cpu;
use crate::error::{Kind, Result};

pub mod args;
pub mod batch;
pub mod bench;
pub mod cast;
pub mod completions;
pub mod config;
pub mod console;
pub mod doctor;
#[cfg(test)]
pub mod fake;
pub mod guards;
pub mod info;
pub mod input;
pub mod interrupt;
pub mod joiner;
pub mod kernels;
pub mod man;
pub mod models;
pub mod once;
pub mod open;
pub mod outlet;
pub mod progress;
pub mod saved;
pub mod say;
pub mod script;
pub mod seed;
pub mod settings;
pub mod sound;
pub mod speak;
pub mod subtitles;
pub mod voice;
pub mod voice_save;
pub mod voices;
pub mod words;

use args::{Arguments, Command};
use console::Console;
use settings::{MachineArgs, Settings};

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything asked for was done: status 0.
    Done,
    /// A batch ended, and some of its lines failed: status 3.
    SomeFailed,
    /// The user stopped the run after its finished parts were kept: status 130.
    Interrupted,
}

impl Outcome {
    /// The exit status.
    pub fn status(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::SomeFailed => 3,
            Outcome::Interrupted => 130,
        }
    }
}

/// Runs the chosen command and returns the exit status; errors are shown here, and only here.
pub fn run(arguments: &Arguments) -> u8 {
    let console = Console::new(&arguments.global);
    match dispatch(&arguments.command, arguments.global.offline, &console) {
        // Whoever read our output has seen enough: not a failure of ours.
        _ if console.reader_left() => 0,
        Ok(outcome) => outcome.status(),
        Err(error) => {
            console.error(&error);
            match error.kind() {
                Kind::Failed => 1,
                Kind::Usage => 2,
                Kind::Interrupted => 130,
            }
        }
    }
}

fn dispatch(command: &Command, offline: bool, console: &Console) -> Result<Outcome> {
    match command {
        Command::Say(say) => say::run(say, offline, console),
        Command::Batch(batch) => batch::run(batch, offline, console),
        Command::Models(models) => models::run(models, offline, console),
        Command::Bench(bench) => bench::run(bench, offline, console),
        Command::Doctor(doctor) => doctor::run(doctor, offline, console),
        Command::Info(info) => explain(info, offline, console),
        Command::Voice(command) => voice_save::run(command, offline, console),
        Command::Voices(voices) => voices::run(voices, offline, console),
        Command::Kernels(kernels) => kernels::run(kernels, console),
        Command::Completions(completions) => completions::run(completions, console),
        Command::Man(man) => man::run(man, console),
    }
}

/// `rtts info`, for the model that the settings choose where none is named.
fn explain(info: &info::InfoArgs, offline: bool, console: &Console) -> Result<Outcome> {
    let machine = MachineArgs { model: info.model.clone(), ..MachineArgs::default() };
    let settings = Settings::resolve(&machine)?;
    let device = Cpu::new(settings.threads)?.describe();
    let opened = open::find(settings, offline, console)?;
    info::run(info, &opened.checkpoint, Some(&device), console.json(), &mut console.stdout())?;
    Ok(Outcome::Done)
}
