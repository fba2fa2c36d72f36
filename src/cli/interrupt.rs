//! Ctrl-C and SIGTERM: asked once, a run ends in order; asked twice, or before anything is being written, it ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::{Error, Result};

/// Exit status of an interrupted run.
const STATUS: i32 = 130;

/// Whether the user asked to stop.
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    /// The next signal ends the process inside the handler.
    at_once: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens from now on. Until [`Interrupt::hold`] a signal ends the process at once.
    ///
    /// # Errors
    /// Where the system refuses the handlers.
    pub fn listen() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let at_once = Arc::new(AtomicBool::new(true));
        for signal in [SIGINT, SIGTERM] {
            // Handlers run in the order of their registration, so the first signal only arms the second.
            flag::register_conditional_shutdown(signal, STATUS, Arc::clone(&at_once))
                .and_then(|_| flag::register(signal, Arc::clone(&at_once)))
                .and_then(|_| flag::register(signal, Arc::clone(&asked)))
                .map_err(|e| Error::new(format!("cannot listen for Ctrl-C: {e}")))?;
        }
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
