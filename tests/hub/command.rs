//! `rtts models`, and processes that share one cache.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::stand_in::{MODEL, NEEDED, SIZE, StandIn};

/// `rtts` in an environment of its own.
fn rtts(server: &StandIn, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rtts"));
    environment(&mut command, server);
    command.args(arguments);
    command
}

fn environment(command: &mut Command, server: &StandIn) {
    command.env_clear().env("HOME", server.home.path()).env("HF_HOME", server.home.path());
    command.env("HF_ENDPOINT", &server.address).stdin(Stdio::null());
}

fn run(server: &StandIn, arguments: &[&str]) -> (i32, String, String) {
    split(rtts(server, arguments).output().unwrap())
}

fn split(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_life_of_a_model() {
    let server = StandIn::start();
    let (status, out, err) = run(&server, &["models", "list"]);
    assert_eq!((status, out.as_str()), (0, ""));
    assert!(err.contains("no speech models in"), "{err}");

    let (status, out, err) = run(&server, &["models", "pull", MODEL]);
    assert_eq!(status, 0, "{err}");
    let snapshot = std::path::PathBuf::from(out.trim_end());
    server.assert_whole(&snapshot);
    assert!(err.starts_with("downloading `org/tiny`: 5 files, 2.87 MiB\n"), "{err}");
    assert!(!err.contains(['\r', '\x1b']), "bars are for terminals: {err:?}");
    let commit = snapshot.file_name().unwrap().to_str().unwrap().to_string();

    let (status, out, err) = run(&server, &["models", "pull", MODEL, "--json", "-q"]);
    assert_eq!((status, err.as_str()), (0, ""));
    let pulled = &objects(&out)[0];
    assert_eq!((&pulled["v"], &pulled["model"], &pulled["downloaded"]), (&1.into(), &MODEL.into(), &0.into()));
    assert_eq!((pulled["revision"].as_str(), pulled["files"].as_u64()), (Some(commit.as_str()), Some(5)));

    let (status, out, _) = run(&server, &["models", "list"]);
    assert_eq!((status, out.as_str()), (0, format!("org/tiny  {}    2.87 MiB  complete\n", &commit[..8]).as_str()));
    let (_, out, _) = run(&server, &["models", "list", "--json"]);
    let listed = &objects(&out)[0];
    assert_eq!((&listed["complete"], &listed["references"][0]), (&true.into(), &"main".into()));
    assert_eq!(listed["missing"], Value::Array(Vec::new()));

    let (status, out, _) = run(&server, &["models", "path", MODEL, "--offline"]);
    assert_eq!((status, out.trim_end()), (0, snapshot.to_str().unwrap()));
    let (status, out, err) = run(&server, &["models", "verify"]);
    assert_eq!((status, out.as_str(), err.as_str()), (0, "org/tiny: 5 files are right\n", ""));

    let (status, _, err) = run(&server, &["models", "rm", MODEL]);
    assert_eq!(status, 2);
    assert!(err.contains("--yes"), "{err}");
    assert!(snapshot.is_dir());
    let (status, _, err) = run(&server, &["models", "rm", "org/tiny@main", "--yes"]);
    assert_eq!(status, 2, "{err}");
    let (status, out, err) = run(&server, &["models", "rm", MODEL, "--yes", "--json"]);
    assert_eq!((status, objects(&out)[0]["model"].as_str()), (0, Some(MODEL)), "{err}");
    assert!(!server.cached().exists());
    let (status, _, err) = run(&server, &["models", "rm", MODEL, "--yes"]);
    assert_eq!(status, 1);
    assert!(err.contains("is not in the cache"), "{err}");
}

#[test]
fn what_is_wrong_is_named_and_mended() {
    let server = StandIn::start();
    let (_, out, _) = run(&server, &["models", "pull", MODEL, "-q"]);
    let snapshot = std::path::PathBuf::from(out.trim_end());
    let blob = snapshot.join("model.safetensors").canonicalize().unwrap();
    let mut bytes = std::fs::read(&blob).unwrap();
    bytes[1000] ^= 4;
    std::fs::write(&blob, &bytes).unwrap();
    let codec = snapshot.join("codec/model.safetensors").canonicalize().unwrap();
    std::fs::write(&codec, "short").unwrap();
    std::fs::remove_file(snapshot.join("config.json")).unwrap();

    let (status, out, err) = run(&server, &["models", "verify", MODEL, "--offline"]);
    assert_eq!(status, 1);
    assert!(out.contains("org/tiny: config.json: missing\n"), "{out}");
    assert!(out.contains("org/tiny: codec/model.safetensors: 5 bytes, expected 5000\n"), "{out}");
    assert!(out.contains(&format!("expected {}\n", server.weights_hash())), "{out}");
    assert!(err.contains("`org/tiny` is damaged or incomplete\nhint: run `rtts models pull org/tiny`"), "{err}");
    let (_, out, _) = run(&server, &["models", "verify", "--json"]);
    let verified = &objects(&out)[0];
    let states: Vec<_> =
        verified["files"].as_array().unwrap().iter().map(|file| file["state"].as_str().unwrap()).collect();
    assert_eq!((states, &verified["good"]), (vec!["good", "size", "missing", "hash", "good"], &false.into()));
    let (_, out, _) = run(&server, &["models", "list"]);
    assert!(out.contains("lacks `codec/model.safetensors` (5 of 5000 bytes), `config.json`"), "{out}");
    let (status, out, err) = run(&server, &["models", "path", MODEL]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(err.contains("is not complete: it lacks"), "{err}");

    let (status, _, err) = run(&server, &["models", "pull", MODEL]);
    assert_eq!(status, 0, "{err}");
    server.assert_whole(&snapshot);
    assert_eq!(run(&server, &["models", "verify"]).0, 0);
}

#[test]
fn wrong_names_and_secrets() {
    let server = StandIn::start();
    let (status, _, err) = run(&server, &["models", "pull", "voxpcm2"]);
    assert_eq!(status, 2);
    assert!(err.contains("did you mean `voxcpm2`?"), "{err}");
    let (status, _, err) = run(&server, &["models", "pull", MODEL, "rumk"]);
    assert_eq!((status, server.log().len()), (2, 0), "a typo in the second stops the first: {err}");
    let (status, _, err) = run(&server, &["models", "pull", "."]);
    assert_eq!(status, 2);
    assert!(err.contains("is a folder"), "{err}");
    let (status, _, err) = run(&server, &["models", "path", MODEL]);
    assert_eq!(status, 1);
    assert!(err.contains("is not in the cache"), "{err}");
    server.fault(serde_json::json!({"path": MODEL, "kind": "gated", "token": "hf_right"}));
    let output = rtts(&server, &["models", "pull", MODEL, "-vv"]).env("HF_TOKEN", "hf_secret").output().unwrap();
    let (status, out, err) = split(output);
    assert_eq!(status, 1);
    assert!(err.contains("with the token from `HF_TOKEN` (status 403)") && !(out + &err).contains("hf_secret"));
}

#[test]
fn two_processes_at_once_download_once() {
    let server = StandIn::start();
    server.spoil("model.safetensors", "slow", 30, -1);
    let start = || {
        let mut command = rtts(&server, &["models", "pull", MODEL]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start(), start()].map(|child| split(child.wait_with_output().unwrap()));
    for (status, out, err) in &both {
        assert_eq!(*status, 0, "{err}");
        server.assert_whole(std::path::Path::new(out.trim_end()));
    }
    assert_eq!(server.weights_log(), [(None, 200, SIZE)]);
    let waited = both.iter().filter(|(.., err)| err.contains("waiting for another process that is downloading"));
    assert!(waited.count() >= 1);
}

#[test]
fn a_killed_process_leaves_no_lock_and_its_bytes_are_used() {
    let server = StandIn::start();
    server.spoil("model.safetensors", "slow", 50, 1);
    let mut child = rtts(&server, &["models", "pull", MODEL]).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let arrived = || server.blobs(".part").iter().any(|part| part.metadata().is_ok_and(|meta| meta.len() > 500_000));
    while !arrived() {
        assert!(start.elapsed() < Duration::from_secs(60), "the download did not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let have = server.blobs(".part")[0].metadata().unwrap().len();

    let (status, out, err) = run(&server, &["models", "pull", MODEL]);
    assert_eq!(status, 0, "{err}");
    assert!(!err.contains("waiting"), "{err}");
    server.assert_whole(std::path::Path::new(out.trim_end()));
    // The server notes the killed connection whenever it finds out.
    let resumed = (Some(format!("bytes={have}-")), 206, SIZE - have);
    assert!(server.weights_log().contains(&resumed), "{resumed:?} {:?}", server.weights_log());
}

/// A limit on the size of files stands for a full disk: it stops root too, and needs no file system of its own.
#[cfg(unix)]
#[test]
fn a_full_disk_is_named_and_gets_its_room_back() {
    let server = StandIn::start();
    let mut shell = Command::new("sh");
    environment(&mut shell, &server);
    // In units of 512 bytes, so 1 MB; without the signal the write fails as it does on a full disk.
    let script = r#"trap '' XFSZ; ulimit -f 2000; exec "$0" models pull org/tiny"#;
    let (status, _, err) = split(shell.args(["-c", script, env!("CARGO_BIN_EXE_rtts")]).output().unwrap());
    assert_eq!(status, 1, "{err}");
    assert!(err.contains(&format!("cannot write `{}", server.cached().join("blobs").display())), "{err}");
    assert!(err.contains("hint: make room"), "{err}");
    assert_eq!(server.blobs(".part").len(), 0);
    assert_eq!(run(&server, &["models", "pull", MODEL]).0, 0);
    assert_eq!(server.blobs("").len(), NEEDED.len());
}
