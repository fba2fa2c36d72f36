//! Parse, run, exit.

use std::process::ExitCode;

fn main() -> ExitCode {
    rtts::cli::console::report_panics();
    match rtts::cli::args::parse() {
        Ok(arguments) => ExitCode::from(rtts::cli::run(&arguments)),
        Err(error) => ExitCode::from(rtts::cli::args::explain(&error)),
    }
}
