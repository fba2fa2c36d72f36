//! `rtts man`: the manual pages, made from the definition of the command line. `man/` holds them; a test compares.

use std::path::PathBuf;

use clap::Args;

use super::console::Console;
use super::{Outcome, args};
use crate::audio::place;
use crate::error::{Error, Result};

/// Arguments of `rtts man`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  rtts man -o ~/.local/share/man/man1")]
pub struct Man {
    /// The folder for the pages; it is made where it does not exist
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Writes `rtts.1` and a page for every command.
///
/// # Errors
/// Where the folder cannot be written.
pub fn run(man: &Man, console: &Console) -> Result<Outcome> {
    place::prepare_folder(&man.output)?;
    let pages = pages()?;
    for (name, page) in &pages {
        place::write_whole(&man.output.join(name), page)?;
    }
    console.note(format_args!("{} pages in `{}`", pages.len(), man.output.display()));
    Ok(Outcome::Done)
}

/// File names and contents, `rtts.1` first.
fn pages() -> Result<Vec<(String, Vec<u8>)>> {
    let mut whole = args::command();
    whole.build();
    let mut pages = vec![("rtts.1".to_owned(), page(whole.clone())?)];
    collect(&whole, "rtts", &mut pages)?;
    Ok(pages)
}

fn collect(command: &clap::Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        let full = format!("{name}-{}", sub.get_name());
        pages.push((format!("{full}.1"), page(sub.clone().name(&full))?));
        collect(sub, &full, pages)?;
    }
    Ok(())
}

fn page(command: clap::Command) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    clap_mangen::Man::new(command)
        .source(concat!("rtts ", env!("CARGO_PKG_VERSION")))
        .render(&mut bytes)
        .map_err(|e| Error::new(format!("cannot make a manual page: {e}")))?;
    Ok(bytes)
}
