//! `rtts completions`: a script that lets a shell complete the command line.

use clap::Args;
use clap_complete::Shell;

use super::console::{Console, stdout_error};
use super::{Outcome, args};
use crate::error::Result;
use std::io::Write;

/// Arguments of `rtts completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rtts completions bash > ~/.local/share/bash-completion/completions/rtts
  rtts completions zsh > ~/.zfunc/_rtts
  rtts completions fish > ~/.config/fish/completions/rtts.fish")]
pub struct Completions {
    /// The shell to write for
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// Where stdout cannot be written.
pub fn run(completions: &Completions, console: &Console) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut args::command(), "rtts", &mut script);
    let mut out = console.stdout();
    out.write_all(&script).and_then(|()| out.flush()).map_err(|e| stdout_error(&e))?;
    Ok(Outcome::Done)
}
