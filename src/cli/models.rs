//! `rtts models`: what is in the hub cache, and what comes into it and goes out of it.

use clap::{Args, Subcommand};
use indicatif::HumanBytes;
use serde::Serialize;

use super::Outcome;
use super::config::Config;
use super::console::Console;
use super::words::count;
use crate::error::{Error, Result};
use crate::hub::{self, Cached, Finding, Hub, Missing, Name, Repository, Verdict};

/// Arguments of `rtts models`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rtts models pull rumik                    download, or finish and check what is there
  rtts models list                          names, revisions, sizes, what is missing
  rtts models verify rumik                  sizes and hashes, without a network
  rtts say \"Hello\" -m \"$(rtts models path rumik)\" -o hello.wav")]
pub struct Models {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What `rtts models` can do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Download models, or finish and check what is there
    ///
    /// Broken downloads go on where they broke. Size and hash of every file are checked, also of those that were
    /// there before; wrong ones are fetched again.
    Pull {
        /// An alias, or ORG/NAME[@REVISION] of the hub
        #[arg(required = true, value_name = "MODEL")]
        models: Vec<String>,
    },
    /// List the models in the cache
    List {
        /// Also those that do not look like speech models
        #[arg(long)]
        all: bool,
    },
    /// Print the folder of a model that is in the cache
    Path {
        /// An alias, or ORG/NAME[@REVISION] of the hub
        #[arg(value_name = "MODEL")]
        model: String,
    },
    /// Check sizes and hashes of models in the cache, without a network
    Verify {
        /// Aliases, or ORG/NAME[@REVISION] of the hub; left out: all speech models
        #[arg(value_name = "MODEL")]
        models: Vec<String>,
    },
    /// Take models out of the cache, with all their revisions
    Rm {
        /// Aliases, or ORG/NAME of the hub
        #[arg(required = true, value_name = "MODEL")]
        models: Vec<String>,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
}

/// Does what was asked.
///
/// # Errors
/// Whatever the hub, the network or the cache has against it.
pub fn run(models: &Models, offline: bool, console: &Console) -> Result<Outcome> {
    let hub = Config::load()?.hub(offline)?;
    match &models.action {
        Action::Pull { models } => pull(models, &hub, console)?,
        Action::List { all } => list(*all, &hub, console)?,
        Action::Path { model } => path(model, &hub, console)?,
        Action::Verify { models } => verify(models, &hub, console)?,
        Action::Rm { models, yes } => remove(models, *yes, &hub, console)?,
    }
    Ok(Outcome::Done)
}

#[derive(Serialize)]
struct Pulled<'a> {
    v: u32,
    model: &'a str,
    revision: &'a str,
    path: String,
    files: usize,
    bytes: u64,
    downloaded: u64,
}

fn pull(models: &[String], hub: &Hub, console: &Console) -> Result<()> {
    // All names first: a typo in the last should not wait for the download of the first.
    let repositories: Vec<Repository> = models.iter().map(|name| repository(name, hub)).collect::<Result<_>>()?;
    for repository in &repositories {
        let obtained = hub::pull(repository, hub, &console.download())?;
        let path = obtained.path.display().to_string();
        if console.json() {
            console.object(&Pulled {
                v: 1,
                model: &repository.id,
                revision: &obtained.commit,
                path,
                files: obtained.files,
                bytes: obtained.bytes,
                downloaded: obtained.fetched,
            })?;
        } else {
            let (label, size) = (repository.label(), HumanBytes(obtained.bytes));
            let fetched = match obtained.fetched {
                0 => "nothing to download".to_string(),
                bytes => format!("{} downloaded", HumanBytes(bytes)),
            };
            console.note(format_args!("`{label}`: {}, {size}, {fetched}", count(obtained.files, "file")));
            console.print(path)?;
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Listed<'a> {
    v: u32,
    model: &'a str,
    revision: &'a str,
    references: &'a [String],
    path: String,
    bytes: u64,
    complete: bool,
    missing: Vec<Lacking<'a>>,
}

#[derive(Serialize)]
struct Lacking<'a> {
    file: &'a str,
    have: Option<u64>,
    size: Option<u64>,
}

impl<'a> From<&'a Missing> for Lacking<'a> {
    fn from(missing: &'a Missing) -> Self {
        Self { file: &missing.file, have: missing.have, size: missing.size }
    }
}

fn list(all: bool, hub: &Hub, console: &Console) -> Result<()> {
    let (shown, hidden): (Vec<Cached>, Vec<Cached>) =
        hub::list(hub)?.into_iter().partition(|cached| all || cached.speech);
    let widest = shown.iter().map(|cached| name_of(cached).len()).max().unwrap_or(0);
    for cached in &shown {
        if console.json() {
            console.object(&Listed {
                v: 1,
                model: &cached.id,
                revision: &cached.commit,
                references: &cached.references,
                path: cached.path.display().to_string(),
                bytes: cached.bytes,
                complete: cached.missing.is_empty(),
                missing: cached.missing.iter().map(Lacking::from).collect(),
            })?;
            continue;
        }
        let state = match cached.missing.as_slice() {
            [] => "complete".to_string(),
            missing => {
                format!("lacks {}", missing.iter().map(Missing::to_string).collect::<Vec<_>>().join(", "))
            }
        };
        let size = HumanBytes(cached.bytes).to_string();
        console.print(format_args!("{:widest$}  {}  {size:>10}  {state}", name_of(cached), &cached.commit[..8]))?;
    }
    let more = match hidden.len() {
        0 => String::new(),
        count => format!("; {count} of another kind: `--all` shows everything"),
    };
    if shown.is_empty() {
        console.note(format_args!("no speech models in `{}`{more}", hub.cache.display()));
    }
    Ok(())
}

/// As a user would write it: with a reference, or with the commit where none stands for it.
fn name_of(cached: &Cached) -> String {
    let Cached { id, references, commit, .. } = cached;
    match references.iter().find(|name| *name == "main").or(references.first()) {
        Some(main) if main == "main" => id.clone(),
        Some(reference) => format!("{id}@{reference}"),
        None => format!("{id}@{}", &commit[..8]),
    }
}

#[derive(Serialize)]
struct Found<'a> {
    v: u32,
    model: &'a str,
    path: String,
}

fn path(model: &str, hub: &Hub, console: &Console) -> Result<()> {
    let folder = match Name::parse(model, hub)? {
        Name::Folder(folder) => folder,
        Name::Repository(repository) => {
            let cached = in_cache(&repository, hub)?;
            if !cached.missing.is_empty() {
                let lacking: Vec<String> = cached.missing.iter().map(Missing::to_string).collect();
                let label = repository.label();
                return Err(Error::new(format!("`{label}` is not complete: it lacks {}", lacking.join(", ")))
                    .hint(format!("run `rtts models pull {label}`")));
            }
            cached.path
        }
    };
    let path = folder.display().to_string();
    if console.json() { console.object(&Found { v: 1, model, path }) } else { console.print(path) }
}

#[derive(Serialize)]
struct Verified<'a> {
    v: u32,
    model: &'a str,
    revision: &'a str,
    good: bool,
    files: Vec<Checked<'a>>,
}

#[derive(Serialize)]
struct Checked<'a> {
    file: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actual: Option<String>,
}

impl<'a> From<&'a Finding> for Checked<'a> {
    fn from(finding: &'a Finding) -> Self {
        let (state, pair) = match &finding.verdict {
            Verdict::Good => ("good", None),
            Verdict::Missing => ("missing", None),
            Verdict::Pointer => ("pointer", None),
            Verdict::Unknown => ("unknown", None),
            Verdict::Size { expected, actual } => ("size", Some((expected.to_string(), actual.to_string()))),
            Verdict::Hash { expected, actual } => ("hash", Some((expected.clone(), actual.clone()))),
        };
        let (expected, actual) = pair.unzip();
        Self { file: &finding.file, state, expected, actual }
    }
}

fn verify(models: &[String], hub: &Hub, console: &Console) -> Result<()> {
    let chosen = if models.is_empty() {
        hub::list(hub)?.into_iter().filter(|cached| cached.speech).collect()
    } else {
        let cached = |name: &String| in_cache(&repository(name, hub)?, hub);
        models.iter().map(cached).collect::<Result<Vec<_>>>()?
    };
    if chosen.is_empty() {
        console.note(format_args!("no speech models in `{}`", hub.cache.display()));
    }
    let mut bad = Vec::new();
    for cached in &chosen {
        let findings = hub::verify(cached, hub, &console.download())?;
        let name = name_of(cached);
        let good = findings.iter().all(|finding| matches!(finding.verdict, Verdict::Good | Verdict::Unknown));
        if !good {
            bad.push(name.clone());
        }
        if console.json() {
            let files = findings.iter().map(Checked::from).collect();
            console.object(&Verified { v: 1, model: &cached.id, revision: &cached.commit, good, files })?;
            continue;
        }
        for finding in &findings {
            if let Some(words) = words(&finding.verdict) {
                console.print(format_args!("{name}: {}: {words}", finding.file))?;
            }
        }
        if good {
            let sure = findings.iter().filter(|finding| finding.verdict == Verdict::Good).count();
            let verb = if sure == 1 { "is" } else { "are" };
            console.print(format_args!("{name}: {} {verb} right", count(sure, "file")))?;
        }
    }
    match bad.as_slice() {
        [] => Ok(()),
        [one] => {
            Err(Error::new(format!("`{one}` is damaged or incomplete")).hint(format!("run `rtts models pull {one}`")))
        }
        many => Err(Error::new(format!("{} of {} models are damaged or incomplete", many.len(), chosen.len()))
            .hint(format!("run `rtts models pull {}`", many.join(" ")))),
    }
}

/// What is wrong with a file, for a line of its own.
fn words(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Good => None,
        Verdict::Missing => Some("missing".to_string()),
        Verdict::Pointer => Some("a Git LFS pointer, not the real content".to_string()),
        Verdict::Unknown => Some("cannot be checked: nothing here tells its hash".to_string()),
        Verdict::Size { expected, actual } => Some(format!("{actual} bytes, expected {expected}")),
        Verdict::Hash { expected, actual } => Some(format!("hash {actual}, expected {expected}")),
    }
}

#[derive(Serialize)]
struct Removed<'a> {
    v: u32,
    model: &'a str,
    freed: u64,
}

fn remove(models: &[String], yes: bool, hub: &Hub, console: &Console) -> Result<()> {
    for name in models {
        let Repository { id, revision } = repository(name, hub)?;
        if name.contains('@') {
            return Err(Error::usage(format!("`{id}` is removed with all its revisions, not `{revision}` alone"))
                .hint(format!("leave out `@{revision}`")));
        }
        if !yes
            && hub::is_cached(&id, hub)
            && !console.ask(&format!("remove `{id}` from `{}`?", hub.cache.display()))?
        {
            console.note(format_args!("`{id}` stays"));
            continue;
        }
        let freed = hub::remove(&id, hub)?;
        if console.json() {
            console.object(&Removed { v: 1, model: &id, freed })?;
        } else {
            console.note(format_args!("removed `{id}`, which freed {}", HumanBytes(freed)));
        }
    }
    Ok(())
}

/// A name that must be one of the hub.
fn repository(name: &str, hub: &Hub) -> Result<Repository> {
    match Name::parse(name, hub)? {
        Name::Repository(repository) => Ok(repository),
        Name::Folder(folder) => {
            Err(Error::usage(format!("`{}` is a folder, not a model of the hub", folder.display()))
                .hint("give an alias, or `ORG/NAME[@REVISION]`"))
        }
    }
}

/// A model that must be in the cache, whole or not.
fn in_cache(repository: &Repository, hub: &Hub) -> Result<Cached> {
    hub::find(repository, hub).ok_or_else(|| {
        let label = repository.label();
        Error::new(format!("`{label}` is not in the cache `{}`", hub.cache.display()))
            .hint(format!("run `rtts models pull {label}`, or see `rtts models list`"))
    })
}
