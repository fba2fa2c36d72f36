//! `rtts doctor`: looks at everything a run depends on, and says what to do about what is not right.
//!
//! One file a subject; each gives lines of one form. Nothing is downloaded, nothing is left behind, no secret is shown.

use clap::Args;
use serde::Serialize;

use super::config::Config;
use super::console::Console;
use super::settings::{MachineArgs, Settings};
use super::{Outcome, args};
use crate::error::{Error, Result};
use crate::hub::Hub;

mod configuration;
mod gpu;
mod machine;
mod models;
mod sound;
#[cfg(test)]
mod tests;
mod tiles;

/// Look for what could keep rtts from working here
///
/// Checks machine, memory, settings, model cache, hub, sound card and GPU, and runs one small operation of each kind
/// against plain arithmetic. Every line says ok, note or problem, with the cure; the whole makes a block for a bug
/// report. Tokens are never shown. The exit status is 0 unless something that is needed is broken.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rtts doctor
  rtts doctor --offline --json")]
pub struct Doctor {}

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Worth knowing; rtts works without.
    Note,
    /// Something that is needed, or that was asked for, does not work.
    Problem,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Note => "note",
            State::Problem => "problem",
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is about.
    pub topic: &'static str,
    /// How it is.
    pub state: State,
    /// What was found.
    pub text: String,
    /// What helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

impl Check {
    /// All is well.
    pub fn ok(topic: &'static str, text: impl Into<String>) -> Self {
        Self { topic, state: State::Ok, text: text.into(), cure: None }
    }

    /// Worth knowing.
    pub fn note(topic: &'static str, text: impl Into<String>) -> Self {
        Self { state: State::Note, ..Self::ok(topic, text) }
    }

    /// Broken.
    pub fn problem(topic: &'static str, text: impl Into<String>) -> Self {
        Self { state: State::Problem, ..Self::ok(topic, text) }
    }

    /// An error of a part of the program, as a line of this state.
    pub fn of(topic: &'static str, state: State, error: &Error) -> Self {
        Self { topic, state, text: error.to_string(), cure: error.cure().map(str::to_owned) }
    }

    /// Adds what helps.
    #[must_use]
    pub fn cure(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into());
        self
    }
}

/// The whole report.
#[derive(Debug, Serialize)]
struct Report<'a> {
    v: u32,
    rtts: &'static str,
    problems: usize,
    notes: usize,
    checks: &'a [Check],
}

/// Looks and prints.
///
/// # Errors
/// Stdout cannot be written, or a problem was found.
pub fn run(_doctor: &Doctor, offline: bool, console: &Console) -> Result<Outcome> {
    let checks = look(offline, console);
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (problems, notes) = (count(State::Problem), count(State::Note));
    if console.json() {
        console.object(&Report { v: 1, rtts: env!("CARGO_PKG_VERSION"), problems, notes, checks: &checks })?;
    } else {
        console.print(text(&checks))?;
    }
    match problems {
        0 => Ok(Outcome::Done),
        1 => Err(Error::new("1 problem was found").hint("the line after `problem` says what to do")),
        many => Err(Error::new(format!("{many} problems were found")).hint("the lines after `problem` say what to do")),
    }
}

fn look(offline: bool, console: &Console) -> Vec<Check> {
    let mut checks = vec![machine::program(), machine::system(), machine::memory()];
    let (lines, settings) = configuration::look();
    checks.extend(machine::compute(settings.as_ref()));
    checks.extend(lines);
    // Aliases are in the configuration; where that is broken it is said above.
    match Config::load().map_or_else(|_| Hub::from_env(offline), |config| config.hub(offline)) {
        Ok(hub) => {
            let progress = console.download();
            checks.extend(models::look(&hub, settings.as_ref(), &progress));
        }
        Err(error) => checks.push(Check::of("cache", State::Problem, &error)),
    }
    checks.push(sound::look());
    checks.extend(gpu::look(settings.as_ref(), console));
    checks
}

/// What a run without flags would use.
fn settings() -> Result<Settings> {
    Settings::resolve(&MachineArgs::default())
}

/// A line each, the cure below it.
fn text(checks: &[Check]) -> String {
    let widest = checks.iter().map(|check| check.topic.len()).max().unwrap_or(0);
    let line = |check: &Check| {
        let cure = check.cure.as_ref().map(|cure| format!("\n{:8} {:widest$}  cure: {cure}", "", ""));
        // What a library says may go over several lines.
        let text = check.text.replace('\n', &format!("\n{:8} {:widest$}  ", "", ""));
        format!("{:8} {:widest$}  {text}{}", check.state.name(), check.topic, cure.unwrap_or_default())
    };
    checks.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A path as it may be shown to others: the home folder is `~`.
fn shown(path: &std::path::Path) -> String {
    match dirs::home_dir().and_then(|home| path.strip_prefix(home).ok().map(std::path::Path::to_path_buf)) {
        Some(rest) if !rest.as_os_str().is_empty() => format!("~/{}", rest.display()),
        _ => path.display().to_string(),
    }
}

/// What this program was built with.
fn features() -> String {
    let playback = if cfg!(feature = "playback") { "playback" } else { "no playback" };
    let command = args::command();
    format!(
        "{} {}, {playback}, {}-{}",
        command.get_name(),
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        std::env::consts::OS
    )
}
