//! The one place that writes to the terminal: messages on stderr, what a command is asked to print on stdout.
//!
//! A reader who closes the pipe ends the run quietly; a message that cannot be written is dropped, since there is
//! nowhere left to say so.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{MultiProgress, ProgressDrawTarget};
use serde::Serialize;

use super::args::{Global, When};
use crate::audio::read::guarded;
use crate::error::{Error, Result};
use crate::hub::Bars;

/// What may be printed, and how.
pub struct Console {
    quiet: bool,
    verbose: u8,
    colour: bool,
    json: bool,
    bars: MultiProgress,
    shows_bars: bool,
    reader_left: AtomicBool,
    /// Audio goes to stdout, so JSON goes to stderr.
    audio_on_stdout: AtomicBool,
    /// A report could not be written, so no more are.
    reports_lost: AtomicBool,
}

impl Console {
    /// A console as the global flags, the environment and the terminal ask for.
    pub fn new(global: &Global) -> Self {
        let terminal = io::stderr().is_terminal();
        let shows_bars = !global.quiet
            && match global.progress {
                When::Always => true,
                When::Never => false,
                When::Auto => terminal && !is_set("CI") && std::env::var_os("TERM").is_none_or(|t| t != "dumb"),
            };
        let target = if shows_bars { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self {
            quiet: global.quiet,
            verbose: global.verbose,
            colour: wants_colour(global.color, terminal),
            json: global.json,
            bars: MultiProgress::with_draw_target(target),
            shows_bars: shows_bars && terminal,
            reader_left: AtomicBool::new(false),
            audio_on_stdout: AtomicBool::new(false),
            reports_lost: AtomicBool::new(false),
        }
    }

    /// An error with its cure: always shown.
    pub fn error(&self, error: &Error) {
        let mut text = format!("{} {error}", self.paint("rtts:", "1;31"));
        if let Some(cure) = error.cure() {
            text.push_str(&format!("\n{} {cure}", self.paint("hint:", "1;36")));
        }
        self.stderr_line(&text);
    }

    /// Something the user should know although the run goes on; silenced by `-q`.
    pub fn warn(&self, text: impl Display) {
        if !self.quiet {
            self.stderr_line(&format!("{} {text}", self.paint("warning:", "1;33")));
        }
    }

    /// One line about the run; silenced by `-q`.
    pub fn note(&self, text: impl Display) {
        if !self.quiet {
            self.stderr_line(&text.to_string());
        }
    }

    /// One line for those who asked with `-v` (level 1) or `-vv` (level 2).
    pub fn detail(&self, level: u8, text: impl Display) {
        if self.verbose >= level && !self.quiet {
            self.stderr_line(&text.to_string());
        }
    }

    /// A line that the command was asked to print, on stdout.
    ///
    /// # Errors
    /// Where stdout cannot be written; a closed pipe ends the run quietly.
    pub fn print(&self, text: impl Display) -> Result<()> {
        let mut out = self.stdout();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|e| stdout_error(&e))
    }

    /// Whether `--json` was asked for.
    pub fn json(&self) -> bool {
        self.json
    }

    /// One JSON object on a line: on stdout, or on stderr where audio goes to stdout.
    ///
    /// # Errors
    /// Where the stream cannot be written.
    pub fn object(&self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value).map_err(|e| Error::new(format!("cannot write JSON: {e}")))?;
        if self.audio_on_stdout.load(Ordering::Relaxed) {
            self.stderr_line(&text);
            return Ok(());
        }
        self.print(text)
    }

    /// A JSON object about work whose result stands elsewhere. Where it cannot be written the work goes on without:
    /// silently where the reader left, else with one warning.
    ///
    /// # Errors
    /// What cannot be put as JSON.
    pub fn report(&self, value: &impl Serialize) -> Result<()> {
        if self.reports_lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = serde_json::to_string(value).map_err(|e| Error::new(format!("cannot write JSON: {e}")))?;
        let mut out = io::stdout().lock();
        if let Err(cause) = writeln!(out, "{text}").and_then(|()| out.flush()) {
            self.reports_lost.store(true, Ordering::Relaxed);
            if cause.kind() != io::ErrorKind::BrokenPipe {
                self.warn(format_args!("{}; going on without", stdout_error(&cause)));
            }
        }
        Ok(())
    }

    /// From now on stdout carries audio.
    pub fn give_stdout_to_audio(&self) {
        self.audio_on_stdout.store(true, Ordering::Relaxed);
    }

    /// Stdout, noticing when its reader leaves.
    pub fn stdout(&self) -> Stdout<'_> {
        Stdout { console: self }
    }

    /// Whether the reader of stdout closed it.
    pub fn reader_left(&self) -> bool {
        self.reader_left.load(Ordering::Relaxed)
    }

    /// The bars drawn on stderr; hidden where nobody would see them.
    pub fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// What shows a download.
    pub fn download(&self) -> Bars {
        Bars::new(Some(self.shows_bars), !self.quiet)
    }

    /// Whether bars are drawn in place; if not, a long run says a plain line now and then.
    pub fn shows_bars(&self) -> bool {
        self.shows_bars
    }

    /// Asks for a yes; anything else is a no.
    ///
    /// # Errors
    /// Where nobody is there to answer.
    pub fn ask(&self, question: &str) -> Result<bool> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(Error::usage(format!("nobody is there to answer: {question}")).hint("say so with `--yes`"));
        }
        self.stderr_line(&format!("{question} [y/N]"));
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map_err(|error| Error::new(format!("cannot read the answer: {error}")))?;
        Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
    }

    /// Says notes from another thread.
    pub fn messenger(&self) -> Messenger {
        Messenger { quiet: self.quiet, bars: self.bars.clone() }
    }

    fn paint(&self, text: &str, code: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn stderr_line(&self, text: &str) {
        stderr_line(&self.bars, text);
    }
}

fn stderr_line(bars: &MultiProgress, text: &str) {
    // One write, so that lines of parallel processes do not mix.
    let line = format!("{text}\n");
    bars.suspend(|| {
        let _ = io::stderr().lock().write_all(line.as_bytes());
    });
}

/// What other threads say notes with.
pub struct Messenger {
    quiet: bool,
    bars: MultiProgress,
}

impl Messenger {
    /// One line about the run; silenced by `-q`.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            stderr_line(&self.bars, text);
        }
    }
}

/// Stdout of the [`Console`].
pub struct Stdout<'a> {
    console: &'a Console,
}

impl Stdout<'_> {
    fn watch<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            self.console.reader_left.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl Write for Stdout<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.watch(io::stdout().lock().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.watch(io::stdout().lock().flush())
    }
}

/// The error for stdout that cannot be written.
pub fn stdout_error(cause: &io::Error) -> Error {
    Error::new(format!("cannot write to stdout: {cause}"))
}

/// Turns a panic into one line that asks for a report. Nothing is caught, the program still ends with status 101;
/// only what the reader of recordings catches is left to it.
pub fn report_panics() {
    // Of several threads that fail together only the first is worth a report.
    static FIRST: Mutex<bool> = Mutex::new(true);
    std::panic::set_hook(Box::new(|panic| {
        if guarded() {
            return;
        }
        let first = FIRST.lock().map(|mut first| std::mem::take(&mut *first)).unwrap_or(false);
        if !first {
            return;
        }
        let what = panic.payload_as_str().unwrap_or("unknown fault").replace('\n', " ");
        let place = panic.location().map_or_else(String::new, |l| format!(" at {}:{}", l.file(), l.line()));
        let version = env!("CARGO_PKG_VERSION");
        let line = format!(
            "rtts: this is a fault in rtts {version}: {what}{place}; report it with the command that led here\n"
        );
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }));
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|v| !v.is_empty())
}

/// `--color` wins; then `NO_COLOR`, `CLICOLOR_FORCE`, and whether the stream is a terminal that knows colours.
fn wants_colour(choice: When, terminal: bool) -> bool {
    match choice {
        When::Always => true,
        When::Never => false,
        When::Auto if is_set("NO_COLOR") => false,
        When::Auto if std::env::var("CLICOLOR_FORCE").is_ok_and(|v| !v.is_empty() && v != "0") => true,
        When::Auto => terminal && std::env::var_os("TERM").is_none_or(|t| t != "dumb"),
    }
}
