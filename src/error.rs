//! The one error type: what went wrong, where, and what to do about it.

use std::fmt;
use std::path::Path;

/// A result whose error can be shown to a user as it is.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Decides the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The command line itself is wrong: status 2.
    Usage,
    /// A file, the network, a device or a model failed: status 1.
    Failed,
    /// The user stopped the run: status 130.
    Interrupted,
}

/// An error for the person at the terminal: one sentence that names the thing, and a hint with the cure.
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    what: String,
    hint: Option<String>,
}

impl Error {
    /// Something failed at run time (status 1). `what` names the file, tensor or device concerned.
    pub fn new(what: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, what: what.into(), hint: None }
    }

    /// The command was used wrongly (status 2).
    pub fn usage(what: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, what: what.into(), hint: None }
    }

    /// The user interrupted the run (status 130).
    pub fn interrupted(what: impl Into<String>) -> Self {
        Self { kind: Kind::Interrupted, what: what.into(), hint: None }
    }

    /// An input or output error at `path`; `doing` reads like "cannot write".
    pub fn io(doing: &str, path: &Path, cause: &std::io::Error) -> Self {
        Self::new(format!("{doing} `{}`: {cause}", path.display()))
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Puts `place` (a file, a line number) before the message.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.what = format!("{place}: {}", self.what);
        self
    }

    /// Which exit status the error asks for.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What the user can do about it, where that is known.
    pub fn cure(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Error {}
