//! What can go wrong between here and the hub, whether trying again may help, and the sentence for the user.

use std::io;
use std::time::Duration;

use super::{Hub, Progress, Repository, name};
use crate::error::{Error, Result};

/// Why a request brought nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// No answer, or one that broke off.
    Unreachable {
        /// In words.
        why: String,
        /// Whether it may pass.
        passing: bool,
    },
    /// The hub refused.
    Status {
        /// The HTTP status.
        code: u16,
        /// `X-Error-Code`: `RepoNotFound`, `RevisionNotFound`, `EntryNotFound`, `GatedRepo`; may be empty.
        reason: String,
        /// `Retry-After`.
        wait: Option<Duration>,
    },
    /// Something that is no matter of the network.
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl From<ureq::Error> for Failure {
    fn from(error: ureq::Error) -> Self {
        let passing = !matches!(
            error,
            ureq::Error::BadUri(_)
                | ureq::Error::InvalidProxyUrl
                | ureq::Error::TooManyRedirects
                | ureq::Error::Tls(_)
                | ureq::Error::Rustls(_)
                | ureq::Error::LargeResponseHeader(..)
        );
        let why = match error {
            ureq::Error::Io(error) => io_words(&error),
            ureq::Error::HostNotFound => "the network does not know that name".to_string(),
            ureq::Error::Timeout(_) => "no answer in time".to_string(),
            ureq::Error::ConnectionFailed => "no connection".to_string(),
            other => other.to_string(),
        };
        Self::Unreachable { why, passing }
    }
}

/// An error that came while an answer was being read; `ureq` hides its own kind of error in it.
pub(super) fn broken_off(error: io::Error) -> Failure {
    Failure::from(ureq::Error::from(error))
}

fn io_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_string(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionAborted => {
            "the connection broke".to_string()
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "no answer in time".to_string(),
        // The standard library has no kind for it.
        _ if error.to_string().contains("failed to lookup address") => {
            "the network does not know that name".to_string()
        }
        _ => error.to_string(),
    }
}

impl Failure {
    /// Whether trying again may help.
    pub fn passing(&self) -> bool {
        match self {
            Self::Unreachable { passing, .. } => *passing,
            Self::Status { code, .. } => matches!(code, 408 | 429 | 500..=599),
            Self::Final(_) => false,
        }
    }

    /// A few words for a line of progress.
    pub fn brief(&self, hub: &Hub) -> String {
        match self {
            Self::Unreachable { why, .. } => format!("cannot reach `{}`: {why}", hub.endpoint),
            Self::Status { code, .. } => format!("`{}` answered {code}", hub.endpoint),
            Self::Final(error) => error.to_string(),
        }
    }

    /// The sentence for the user. `file` is the file that was asked for, where it was one.
    pub fn explain(self, hub: &Hub, repository: &Repository, file: Option<&str>) -> Error {
        let Repository { id, revision } = repository;
        let page = format!("{}/{id}", hub.endpoint);
        let what = match file {
            Some(file) => format!("cannot download `{file}` of `{id}`"),
            None => format!("cannot open `{id}`"),
        };
        let (code, reason) = match self {
            Self::Final(error) => return error,
            Self::Unreachable { why, .. } => {
                return Error::new(format!("{what}: cannot reach `{}`: {why}", hub.endpoint))
                    .hint("check the network, the proxy (`HTTPS_PROXY`) and `HF_ENDPOINT`, then run the same again: it resumes");
            }
            Self::Status { code, reason, .. } => (code, reason),
        };
        let typo = name::suggestion(id, hub).map(|near| format!("did you mean `{near}`? "));
        let typo = typo.unwrap_or_default();
        let origin = hub.token.as_ref().map(|token| token.origin().to_string());
        match (code, reason.as_str(), origin) {
            (401 | 403, "GatedRepo", None) => {
                Error::new(format!("{what}: the model is gated, and there is no token (status {code})"))
                    .hint(format!("accept its licence at `{page}`, then set `HF_TOKEN`"))
            }
            (401, _, None) => {
                Error::new(format!("{what}: it does not exist, or is private or gated (status 401)")).hint(format!(
                    "{typo}check the spelling; for a private or gated model set `HF_TOKEN` and accept the licence at `{page}`"
                ))
            }
            (401, _, Some(origin)) => {
                Error::new(format!("{what}: the hub does not accept the token from {origin} (status 401)"))
                    .hint(format!("make a new one at `{}/settings/tokens` and set `HF_TOKEN`", hub.endpoint))
            }
            (403, _, origin) => {
                let token = origin.map_or("without a token".to_string(), |origin| format!("with the token from {origin}"));
                Error::new(format!("{what}: access is refused {token} (status 403)"))
                    .hint(format!("accept the licence at `{page}`, and use a token that may read it"))
            }
            (404, "RevisionNotFound", _) => {
                Error::new(format!("{what}: it has no revision `{revision}` (status 404)"))
                    .hint(format!("see the branches and tags at `{page}/tree/main`"))
            }
            (404, _, _) if file.is_some() || reason == "EntryNotFound" => {
                Error::new(format!("{what}: the hub lists it, but does not have it (status 404)"))
                    .hint(format!("try again later, or look at `{page}`"))
            }
            (404, _, _) => Error::new(format!("{what}: there is no such model or revision (status 404)")).hint(format!(
                "{typo}check the spelling, and that the token may see it: `{page}`"
            )),
            (429, _, _) => Error::new(format!("{what}: the hub refuses more requests for now (status 429)"))
                .hint("try again later; with a token (`HF_TOKEN`) it allows more"),
            (500..=599, _, _) => Error::new(format!("{what}: the hub has a fault of its own (status {code})"))
                .hint("try again later: what was downloaded is kept"),
            _ => Error::new(format!("{what}: the hub answered with status {code}"))
                .hint(format!("look at `{page}`, and check `HF_ENDPOINT`")),
        }
    }
}

/// The pauses between tries.
pub(super) struct Backoff<'a> {
    hub: &'a Hub,
    progress: &'a dyn Progress,
    most: u32,
    made: u32,
}

impl<'a> Backoff<'a> {
    /// At most `most` tries in a row without getting further.
    pub fn new(hub: &'a Hub, progress: &'a dyn Progress, most: u32) -> Self {
        Self { hub, progress, most, made: 1 }
    }

    /// The last try got further, so it does not count.
    pub fn got_further(&mut self) {
        self.made = 1;
    }

    /// Waits before the next try; gives `failure` back where there is no point in one.
    pub fn again(&mut self, failure: Failure) -> Result<(), Failure> {
        if !failure.passing() || self.made >= self.most {
            return Err(failure);
        }
        let asked = match &failure {
            Failure::Status { wait, .. } => wait.map(|wait| wait.min(Duration::from_secs(60))),
            _ => None,
        };
        let pause = asked.unwrap_or(self.hub.patience.pause * (1 << (self.made - 1).min(6)));
        self.made += 1;
        let next = format!("try {} of {}", self.made, self.most);
        self.progress.note(&format!("{}; {next} in {:.1} s", failure.brief(self.hub), pause.as_secs_f32()));
        sleep(pause, self.progress)?;
        Ok(())
    }
}

/// Sleeps, unless the user wants to stop.
pub(super) fn sleep(pause: Duration, progress: &dyn Progress) -> Result<()> {
    let step = Duration::from_millis(50);
    let mut left = pause;
    while !left.is_zero() {
        stop_if_asked(progress)?;
        let now = left.min(step);
        std::thread::sleep(now);
        left -= now;
    }
    stop_if_asked(progress)
}

/// The error of an interrupted download, where the user wants to stop.
pub(super) fn stop_if_asked(progress: &dyn Progress) -> Result<()> {
    if progress.stopped() { Err(interrupted()) } else { Ok(()) }
}

pub(super) fn interrupted() -> Error {
    Error::interrupted("download interrupted").hint("run the same again: it resumes")
}
