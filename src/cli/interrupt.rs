//! Ctrl-C, SIGTERM and SIGHUP: asked once, a run ends in order; asked twice, or before anything is being written, it
//! ends at once, without the files under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::audio::temporary;
use crate::error::{Error, Result};

/// Exit status of an interrupted run.
const STATUS: i32 = 130;

/// Whether the user asked to stop.
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    /// The next signal ends the process.
    at_once: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens from now on. Until [`Interrupt::hold`] a signal ends the process at once.
    ///
    /// # Errors
    /// Where the system refuses the handlers or the thread.
    pub fn listen() -> Result<Self> {
        let failed = |e: std::io::Error| Error::new(format!("cannot listen for Ctrl-C: {e}"));
        let asked = Arc::new(AtomicBool::new(false));
        let at_once = Arc::new(AtomicBool::new(true));
        // `nohup` asks for the end of the terminal to go unheard.
        let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !ignored(SIGHUP));
        let mut signals = Signals::new(heard).map_err(failed)?;
        let (noted, armed) = (Arc::clone(&asked), Arc::clone(&at_once));
        // A thread, not a handler: files must not be removed inside one.
        let listener = move || {
            for _ in signals.forever() {
                // Noted before it is armed: see `hold`.
                noted.store(true, Ordering::SeqCst);
                if armed.swap(true, Ordering::SeqCst) {
                    let _cleared = temporary::clear();
                    low_level::exit(STATUS);
                }
            }
        };
        thread::Builder::new().name("signals".into()).spawn(listener).map_err(failed)?;
        Ok(Self { asked, at_once })
    }

    /// From now on the first signal is only noted; a second one still ends the process.
    pub fn hold(&self) {
        self.at_once.store(self.asked(), Ordering::SeqCst);
    }

    /// From now on a signal ends the process at once again.
    pub fn release(&self) {
        self.at_once.store(true, Ordering::SeqCst);
    }

    /// Whether a signal came.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// One that nobody listens for, to be asked by [`Interrupt::ask`].
    #[cfg(test)]
    pub fn silent() -> Self {
        Self { asked: Arc::default(), at_once: Arc::default() }
    }

    /// As if a signal had come.
    #[cfg(test)]
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
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
