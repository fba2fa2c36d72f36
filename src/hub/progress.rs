//! How a download tells what it is doing: a trait, bars for a terminal, and silence.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Who listens to a download. One file is under way at a time.
pub trait Progress: Sync {
    /// `files` files of `bytes` bytes in all are about to be fetched for `model`.
    fn plan(&self, model: &str, files: usize, bytes: u64);
    /// A file of `size` bytes begins; `have` of them are here from an earlier try.
    fn begin(&self, file: &str, size: u64, have: u64);
    /// A file that is here is about to be read, `size` bytes of it, to see whether it is right.
    fn check(&self, file: &str, size: u64);
    /// So many more bytes are here, or read.
    fn advance(&self, bytes: u64);
    /// The file begins anew, at its first byte.
    fn restart(&self);
    /// The file is whole, or was given up.
    fn end(&self);
    /// One line the user should see.
    fn note(&self, line: &str);
    /// Whether the user wants to stop; asked between blocks.
    fn stopped(&self) -> bool {
        false
    }
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn plan(&self, _model: &str, _files: usize, _bytes: u64) {}
    fn begin(&self, _file: &str, _size: u64, _have: u64) {}
    fn check(&self, _file: &str, _size: u64) {}
    fn advance(&self, _bytes: u64) {}
    fn restart(&self) {}
    fn end(&self) {}
    fn note(&self, _line: &str) {}
}

/// Bars on standard error; off a terminal one plain line for each file in their place.
#[derive(Debug)]
pub struct Bars {
    bars: bool,
    notes: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Bars {
    /// `bars`: whether to draw (`None`: when standard error is a terminal); `notes`: whether to write lines at all.
    pub fn new(bars: Option<bool>, notes: bool) -> Self {
        Self { bars: bars.unwrap_or_else(|| std::io::stderr().is_terminal()), notes, bar: Mutex::new(None) }
    }

    fn show(&self, message: String, size: u64, have: u64) {
        let bar = ProgressBar::with_draw_target(Some(size), ProgressDrawTarget::stderr());
        // A template that does not parse leaves the default look, which is no reason to stop a download.
        if let Ok(style) =
            ProgressStyle::with_template("{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta} left")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(message);
        bar.set_position(have);
        bar.reset_eta();
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar);
    }

    fn with_bar(&self, act: impl FnOnce(&ProgressBar)) {
        if let Some(bar) = self.bar.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            act(bar);
        }
    }
}

impl Progress for Bars {
    fn plan(&self, model: &str, files: usize, bytes: u64) {
        let files = if files == 1 { "1 file".to_string() } else { format!("{files} files") };
        self.note(&format!("downloading `{model}`: {files}, {}", HumanBytes(bytes)));
    }

    fn begin(&self, file: &str, size: u64, have: u64) {
        if !self.bars {
            let rest = if have > 0 { format!(", {} of it here already", HumanBytes(have)) } else { String::new() };
            return self.note(&format!("`{file}`: {}{rest}", HumanBytes(size)));
        }
        self.show(file.to_string(), size, have);
    }

    fn check(&self, file: &str, size: u64) {
        if self.bars {
            self.show(format!("checking {file}"), size, 0);
        }
    }

    fn advance(&self, bytes: u64) {
        self.with_bar(|bar| bar.inc(bytes));
    }

    fn restart(&self) {
        self.with_bar(|bar| {
            bar.set_position(0);
            bar.reset_eta();
        });
    }

    fn end(&self) {
        if let Some(bar) = self.bar.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }

    fn note(&self, line: &str) {
        if !self.notes {
            return;
        }
        // A closed standard error must not stop the work.
        let write = || {
            let _ = writeln!(std::io::stderr(), "{line}");
        };
        match self.bar.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}
