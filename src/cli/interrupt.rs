//! Ctrl-C, SIGTERM and SIGHUP: asked once, a run ends in order; asked twice, or before anything is being written, it
//! ends at once, without the files under way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use super::console::{Console, Messenger};
use crate::audio::temporary;
use crate::error::{Error, Result};

/// Exit status of an interrupted run.
const STATUS: i32 = 130;

/// Whether the user asked to stop.
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    /// The next signal ends the process.
    at_once: Arc<AtomicBool>,
    words: Arc<Mutex<Words>>,
}

/// What is said when a signal comes: at once, also in the middle of a long step.
#[derive(Clone, Copy, Default)]
struct Words {
    /// When the first signal is noted.
    noted: Option<&'static str>,
    /// When the process ends.
    last: Option<&'static str>,
}

impl Interrupt {
    /// Listens from now on. Until [`Interrupt::hold`] a signal ends the process at once.
    ///
    /// # Errors
    /// Where the system refuses the handlers or the thread.
    pub fn listen(console: &Console) -> Result<Self> {
        let failed = |e: std::io::Error| Error::new(format!("cannot listen for Ctrl-C: {e}"));
        let asked = Arc::new(AtomicBool::new(false));
        let at_once = Arc::new(AtomicBool::new(true));
        // `nohup` asks for the end of the terminal to go unheard.
        let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !ignored(SIGHUP));
        let mut signals = Signals::new(heard).map_err(failed)?;
        let (noted, armed) = (Arc::clone(&asked), Arc::clone(&at_once));
        // A thread, not a handler: files must not be removed inside one.
        let words = Arc::<Mutex<Words>>::default();
        let (to_say, messenger) = (Arc::clone(&words), console.messenger());
        let listener = move || {
            for _ in signals.forever() {
                // Noted before it is armed: see `hold`.
                noted.store(true, Ordering::SeqCst);
                let words = *to_say.lock().unwrap_or_else(PoisonError::into_inner);
                if armed.swap(true, Ordering::SeqCst) {
                    let _cleared = temporary::clear();
                    say(&messenger, words.last);
                    low_level::exit(STATUS);
                }
                say(&messenger, words.noted);
            }
        };
        thread::Builder::new().name("signals".into()).spawn(listener).map_err(failed)?;
        Ok(Self { asked, at_once, words })
    }

    /// What the process says when a signal ends it.
    pub fn last_words(&self, words: &'static str) {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).last = Some(words);
    }

    /// From now on the first signal is only noted, with `words`; a second one still ends the process.
    pub fn hold(&self, words: &'static str) {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).noted = Some(words);
        self.at_once.store(self.asked(), Ordering::SeqCst);
    }

    /// From now on a signal ends the process at once again.
    pub fn release(&self) {
        *self.words.lock().unwrap_or_else(PoisonError::into_inner) = Words::default();
        self.at_once.store(true, Ordering::SeqCst);
    }

    /// Whether a signal came.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// One that nobody listens for, to be asked by [`Interrupt::ask`].
    #[cfg(test)]
    pub fn silent() -> Self {
        Self { asked: Arc::default(), at_once: Arc::default(), words: Arc::default() }
    }

    /// As if a signal had come.
    #[cfg(test)]
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }
}

fn say(messenger: &Messenger, words: Option<&str>) {
    if let Some(words) = words {
        messenger.note(words);
    }
}

/// Whether `signal` goes unheard by the wish of whoever started this process.
fn ignored(signal: libc::c_int) -> bool {
    // SAFETY: zeros are a valid `sigaction`, and without a new action the call only fills in the present one.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut present) == 0 && present.sa_sigaction == libc::SIG_IGN
    }
}
