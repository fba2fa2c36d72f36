//! How far a run is: a bar where stderr is a terminal, else a plain line every ten seconds.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::console::Console;

/// Time between plain lines.
const PAUSE: Duration = Duration::from_secs(10);

/// One bar, or its plain lines.
pub struct Progress<'a> {
    console: &'a Console,
    bar: ProgressBar,
    unit: &'static str,
    said: Instant,
}

impl<'a> Progress<'a> {
    /// Progress over `total` things called `unit`.
    pub fn of(console: &'a Console, total: u64, unit: &'static str) -> Self {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").unwrap_or(ProgressStyle::default_bar());
        let bar = console.bars().add(ProgressBar::new(total).with_style(style));
        Self { console, bar, unit, said: Instant::now() }
    }

    /// Progress without an end in sight: a spinner, and nothing where no bars are drawn.
    pub fn spinner(console: &'a Console) -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg}").unwrap_or(ProgressStyle::default_spinner());
        let bar = console.bars().add(ProgressBar::new_spinner().with_style(style));
        Self { console, bar, unit: "", said: Instant::now() }
    }

    /// `done` of the things are through; `message` stands behind the bar.
    pub fn show(&mut self, done: u64, message: &str) {
        self.bar.set_position(done);
        self.bar.set_message(message.to_owned());
        if !self.console.shows_bars() && !self.unit.is_empty() && self.said.elapsed() >= PAUSE {
            self.said = Instant::now();
            let total = self.bar.length().unwrap_or_default();
            self.console.note(format_args!("{done}/{total} {}, {message}", self.unit));
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
