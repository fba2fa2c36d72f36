//! The command line from outside: what is printed where, what is written, and the exit status.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod batch;
mod bench;
mod man;
mod say;
#[cfg(all(target_os = "linux", feature = "playback"))]
#[path = "../sound/mod.rs"]
#[allow(dead_code)] // the playback tests need more of it
mod sound;
mod usage;
mod voice;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// The tiny BF16 checkpoint.
fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tinyaya-bf16")
}

/// The program, with nothing of this machine's settings, in an empty folder as its home.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Names in the folder, hidden ones too, sorted.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rtts"));
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if ["RTTS_", "HF_", "XDG_", "NO_COLOR", "CLICOLOR"].iter().any(|start| name.starts_with(start)) {
                command.env_remove(&name);
            }
        }
        command.env("HOME", self.folder.path()).env("HF_HUB_OFFLINE", "1").env("RTTS_THREADS", "1");
        command.current_dir(self.folder.path()).stdin(Stdio::null()).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs with `bytes` on stdin.
    fn pipe(&self, bytes: &[u8], arguments: &[&str]) -> Output {
        let input = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut &input, bytes).unwrap();
        std::io::Seek::rewind(&mut &input).unwrap();
        self.command(arguments).stdin(input).output().unwrap()
    }

    /// A greedy, short `rtts say` with the tiny model.
    fn say(&self, arguments: &[&str]) -> Output {
        self.run(&say_arguments(arguments))
    }
}

/// `rtts say` with the tiny model, greedy and short, and more `arguments`.
fn say_arguments<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    static MODEL: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| model().to_str().unwrap().to_owned());
    let usual = ["say", "-m", MODEL.as_str(), "--device", "cpu", "--temperature", "0", "--max-seconds", "0.4"];
    usual.into_iter().chain(arguments.iter().copied()).collect()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts status and that every one of `parts` is said on stderr; never a panic.
#[track_caller]
fn refused(output: &Output, status: i32, parts: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(!said.contains("panicked") && !said.contains("fault in rtts"), "{said}");
    for part in parts {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
}

#[track_caller]
fn done(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
}

/// Stdout whose reader has left already.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Sends a signal by name.
#[cfg(unix)]
fn signal(child: &std::process::Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}
