//! `rtts info`: what a checkpoint is, how its weights are packed, what a step of it reads.
//!
//! `facts` gathers from the headers and the configuration, `text` writes for people; `--json` prints the facts.

use std::io::Write;

use clap::Args;

use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};

mod facts;
mod licence;
pub mod reads;
#[cfg(test)]
mod tests;
mod text;
mod units;

pub use facts::Facts;
pub use licence::licence;
pub use units::bytes;

/// Explain a model: its kind, its packing, its sizes
///
/// Reads the headers of the files only, so it takes no time on a model of any size.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rtts info rumik
  rtts info ./checkpoint --tensors
  rtts info ./checkpoint --json")]
pub struct InfoArgs {
    /// A folder, a hub model `ORG/NAME[@REVISION]`, an alias, or `builtin`
    #[arg(value_name = "MODEL")]
    pub model: Option<String>,
    /// List every tensor: name, type, shape, bytes, file
    #[arg(long)]
    pub tensors: bool,
}

/// Prints what the checkpoint is to `out`, as text or as one JSON object. `device` describes where it would run.
///
/// # Errors
/// `out` cannot be written.
pub fn run(
    args: &InfoArgs,
    checkpoint: &Checkpoint,
    device: Option<&str>,
    json: bool,
    out: &mut dyn Write,
) -> Result<()> {
    let facts = Facts::gather(checkpoint, device, args.tensors);
    let written = if json {
        serde_json::to_string(&facts).map_err(std::io::Error::from).and_then(|line| writeln!(out, "{line}"))
    } else {
        text::write(&facts, out)
    };
    written.and_then(|()| out.flush()).map_err(|cause| Error::new(format!("cannot print: {cause}")))
}
