//! Whole downloads, broken ones that resume, and content that is not what the hub lists.

use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use rtts::error::Kind;
use rtts::hub::{self, Silent, pull, resolve};
use serde_json::json;

use super::stand_in::{Ear, MODEL, NEEDED, SIZE, StandIn, noise};

#[test]
fn a_model_is_fetched_once_and_laid_out_as_python_does_it() {
    let server = StandIn::start();
    let hub = server.hub();
    let snapshot = resolve(MODEL, &hub, &Silent).unwrap();
    server.assert_whole(&snapshot);

    let commit = std::fs::read_to_string(server.cached().join("refs/main")).unwrap();
    assert_eq!(snapshot, server.cached().join("snapshots").join(&commit));
    let link = |file: &str| std::fs::read_link(snapshot.join(file)).unwrap();
    assert_eq!(link("model.safetensors"), Path::new("../../blobs").join(server.weights_hash()));
    assert!(link("codec/config.json").starts_with("../../../blobs"));
    let tree = std::fs::read_to_string(server.cached().join(format!("trees/{commit}.json"))).unwrap();
    let tree: serde_json::Value = serde_json::from_str(&tree).unwrap();
    assert_eq!(tree["files"]["model.safetensors"]["lfs_sha256"], server.weights_hash());
    assert_eq!(tree["files"]["README.md"]["size"], 12, "Python needs the whole listing");
    assert!(!server.log().iter().any(|entry| entry["path"].as_str().unwrap().contains("README")));

    server.reset();
    assert_eq!(resolve(MODEL, &hub, &Silent).unwrap(), snapshot);
    let paths: Vec<_> = server.log().iter().map(|entry| entry["path"].clone()).collect();
    assert_eq!(paths, [format!("/api/models/{MODEL}/revision/main")], "a warm cache costs one request");

    server.reset();
    assert_eq!(resolve(&format!("{MODEL}@{commit}"), &hub, &Silent).unwrap(), snapshot);
    assert!(server.log().is_empty(), "a commit never changes: nothing to ask");
}

#[test]
fn the_endpoint_may_end_in_a_slash_and_the_cache_may_be_elsewhere() {
    let server = StandIn::start();
    let cache = tempfile::tempdir().unwrap();
    let endpoint = format!("{}/", server.address);
    let hub = server.hub_with(&[("HF_ENDPOINT", &endpoint), ("HF_HUB_CACHE", cache.path().to_str().unwrap())]);
    let snapshot = resolve(MODEL, &hub, &Silent).unwrap();
    assert!(snapshot.starts_with(cache.path().join("models--org--tiny/snapshots")));
    server.assert_whole(&snapshot);
    assert!(std::fs::read_dir(server.home.path()).unwrap().next().is_none(), "HF_HOME must stay empty");
}

#[test]
fn a_cut_connection_is_resumed_where_it_broke() {
    let server = StandIn::start();
    server.spoil("model.safetensors", "truncate", 1_000_000, 1);
    let ear = Ear::new();
    let snapshot = resolve(MODEL, &server.hub(), &ear).unwrap();
    server.assert_whole(&snapshot);
    let log = server.weights_log();
    assert_eq!(log[0], (None, 200, 1_000_000));
    assert_eq!(log[1], (Some("bytes=1000000-".to_string()), 206, SIZE - 1_000_000));
    assert_eq!(log.len(), 2);
    assert!(
        ear.heard("the connection broke") && ear.heard("`model.safetensors`: 976.56 KiB of 2.86 MiB"),
        "{:?}",
        ear.all()
    );
}

#[test]
fn the_next_run_resumes_what_this_one_left() {
    let server = StandIn::start();
    let mut hub = server.hub();
    hub.patience.tries = 1;
    server.spoil("model.safetensors", "truncate", 1_000_000, -1);
    let error = resolve(MODEL, &hub, &Silent).unwrap_err();
    assert!(error.to_string().contains("cannot download `model.safetensors` of `org/tiny`"), "{error}");
    assert!(error.cure().unwrap().contains("resumes"));
    let parts = server.blobs(".part");
    assert_eq!(parts.len(), 1);
    assert_eq!(parts[0].metadata().unwrap().len(), 1_000_000);
    assert!(!server.cached().join("refs/main").exists(), "a broken download is no revision");

    server.reset();
    let ear = Ear::new();
    server.assert_whole(&resolve(MODEL, &hub, &ear).unwrap());
    assert_eq!(server.weights_log(), [(Some("bytes=1000000-".to_string()), 206, SIZE - 1_000_000)]);
    assert!(ear.begun.lock().unwrap().contains(&("model.safetensors".to_string(), SIZE, 1_000_000)));
}

#[test]
fn many_cuts_do_not_use_up_the_tries_while_bytes_arrive() {
    let server = StandIn::start();
    server.spoil("model.safetensors", "truncate", 200_000, 12);
    server.assert_whole(&resolve(MODEL, &server.hub(), &Silent).unwrap());
    assert_eq!(server.weights_log().len(), 13);
}

#[test]
fn a_server_that_ignores_the_range_does_not_spoil_the_file() {
    let server = StandIn::start();
    let weights = std::fs::read(server.root.path().join(MODEL).join("model.safetensors")).unwrap();
    server.leave_part(&weights[..1_000_000]);
    server.spoil("model.safetensors", "norange", 0, 1);
    server.assert_whole(&resolve(MODEL, &server.hub(), &Silent).unwrap());
    assert_eq!(server.weights_log(), [(Some("bytes=1000000-".to_string()), 200, SIZE)]);
}

#[test]
fn a_complete_part_is_taken_without_a_request() {
    let server = StandIn::start();
    let weights = std::fs::read(server.root.path().join(MODEL).join("model.safetensors")).unwrap();
    server.leave_part(&weights);
    server.assert_whole(&resolve(MODEL, &server.hub(), &Silent).unwrap());
    assert_eq!(server.weights_log(), []);
}

#[test]
fn a_part_with_other_bytes_is_thrown_away() {
    for length in [SIZE as usize, SIZE as usize + 10, 1_000_000] {
        let server = StandIn::start();
        server.leave_part(&noise(length, 99));
        server.assert_whole(&resolve(MODEL, &server.hub(), &Silent).unwrap());
        let last = server.weights_log().pop().unwrap();
        assert_eq!(last, (None, 200, SIZE), "part of {length} bytes");
    }
}

#[test]
fn wrong_content_is_fetched_once_more() {
    for (kind, bytes) in [("short", 2_000_000), ("corrupt", 1_234_567), ("pointer", 0)] {
        let server = StandIn::start();
        server.spoil("model.safetensors", kind, bytes, 1);
        let ear = Ear::new();
        server.assert_whole(&resolve(MODEL, &server.hub(), &ear).unwrap());
        assert!(ear.heard("once more from the start"), "{kind}: {:?}", ear.all());
    }
}

#[test]
fn wrong_content_twice_is_an_error_that_leaves_nothing() {
    for (file, kind, bytes, expected) in [
        ("model.safetensors", "short", 2_000_000, "the server has 2000000 bytes, expected 3000000"),
        ("model.safetensors", "pointer", 0, "the server sent a Git LFS pointer of 132 bytes, expected 3000000 bytes"),
        ("model.safetensors", "corrupt", 0, "SHA-256 is "),
        ("config.json", "corrupt", 0, "git SHA-1 is "),
    ] {
        let server = StandIn::start();
        server.spoil(file, kind, bytes, -1);
        let error = resolve(MODEL, &server.hub(), &Silent).unwrap_err().to_string();
        assert!(error.contains(&format!("`{file}` of `{MODEL}`: {expected}")), "{kind}: {error}");
        if kind == "corrupt" {
            let digits = if file == "config.json" { 40 } else { 64 };
            let (actual, listed) = error.split_once(expected).unwrap().1.split_once(", expected ").unwrap();
            assert_eq!((actual.len(), listed.len()), (digits, digits), "{error}");
            assert!(actual != listed, "{error}");
        }
        assert_eq!(server.blobs(".part"), Vec::<std::path::PathBuf>::new());
        let snapshots = server.cached().join("snapshots");
        for commit in std::fs::read_dir(snapshots).into_iter().flatten() {
            assert!(!commit.unwrap().path().join(file).is_symlink(), "{kind}: a pointer was left");
        }
        assert!(!server.cached().join("refs/main").exists());
    }
}

#[test]
fn a_listing_that_is_wrong_about_a_size_is_an_error_too() {
    let server = StandIn::start();
    let weights = std::fs::read(server.root.path().join(MODEL).join("model.safetensors")).unwrap();
    server.leave_part(&weights);
    // With the whole file here and more expected, the server can only answer 416.
    server.spoil("model.safetensors", "listed", SIZE + 100, -1);
    let error = resolve(MODEL, &server.hub(), &Silent).unwrap_err().to_string();
    assert!(error.contains("the server has 3000000 bytes, expected 3000100"), "{error}");
    assert_eq!(server.weights_log()[0], (Some("bytes=3000000-".to_string()), 416, 0));
}

#[test]
fn faults_of_the_server_pass() {
    let server = StandIn::start();
    server.fault(json!({"path": MODEL, "kind": "info", "bytes": 503}));
    server.spoil("model.safetensors", "status", 503, 2);
    server.spoil("config.json", "status", 429, 1);
    server.spoil("codec/model.safetensors", "status", 408, 1);
    let ear = Ear::new();
    server.assert_whole(&resolve(MODEL, &server.hub(), &ear).unwrap());
    assert!(ear.heard("answered 503; try 2 of 3") && ear.heard("answered 429; try 2 of 5"), "{:?}", ear.all());

    let server = StandIn::start();
    server.spoil("model.safetensors", "status", 503, -1);
    let error = resolve(MODEL, &server.hub(), &Silent).unwrap_err();
    assert!(error.to_string().contains("`model.safetensors`") && error.to_string().contains("503"), "{error}");
    assert_eq!(server.weights_log().len(), 5);
}

#[test]
fn a_server_that_falls_silent_is_asked_again() {
    let server = StandIn::start();
    server.spoil("model.safetensors", "slow", 2_000, 1);
    let mut hub = server.hub();
    hub.patience.stall = Duration::from_millis(300);
    let ear = Ear::new();
    server.assert_whole(&resolve(MODEL, &hub, &ear).unwrap());
    assert!(ear.heard("no answer in time"), "{:?}", ear.all());
}

#[test]
fn a_user_who_stops_keeps_what_is_there() {
    let server = StandIn::start();
    let ear = Ear { stop_after: 1_500_000, ..Ear::new() };
    let error = resolve(MODEL, &server.hub(), &ear).unwrap_err();
    assert_eq!(error.kind(), Kind::Interrupted);
    assert!(server.blobs(".part")[0].metadata().unwrap().len() >= 1_400_000);
    server.assert_whole(&resolve(MODEL, &server.hub(), &Silent).unwrap());
    let resumed = server.weights_log().pop().unwrap();
    assert!(resumed.1 == 206 && resumed.2 <= SIZE - 1_400_000, "{resumed:?}");
}

#[test]
fn two_at_once_fetch_everything_once() {
    let server = StandIn::start();
    server.spoil("model.safetensors", "slow", 20, -1);
    let start = Barrier::new(2);
    let ears = [Ear::new(), Ear::new()];
    std::thread::scope(|scope| {
        for ear in &ears {
            let (server, start) = (&server, &start);
            scope.spawn(move || {
                start.wait();
                resolve(MODEL, &server.hub(), ear).unwrap();
            });
        }
    });
    server.assert_whole(&resolve(MODEL, &server.hub(), &Silent).unwrap());
    assert_eq!(server.weights_log(), [(None, 200, SIZE)], "one waits, one downloads");
    let waited = ears.iter().filter(|ear| ear.heard("waiting for another process")).count();
    assert_eq!(waited, 1);
}

#[test]
fn a_moved_model_is_followed_with_the_token() {
    let server = StandIn::start();
    server.fault(json!({"path": "old/name", "kind": "moved", "to": MODEL}));
    server.fault(json!({"path": MODEL, "kind": "gated", "token": "hf_right"}));
    let hub = server.hub_with(&[("HF_TOKEN", "hf_right")]);
    let snapshot = resolve("old/name", &hub, &Silent).unwrap();
    assert!(NEEDED.iter().all(|file| snapshot.join(file).is_file()));
}

#[test]
fn a_new_commit_fetches_only_what_changed() {
    let server = StandIn::start();
    let hub = server.hub();
    let old = resolve(MODEL, &hub, &Silent).unwrap();
    std::fs::write(server.root.path().join(MODEL).join("tokenizer.json"), noise(2500, 7)).unwrap();

    // While the new commit cannot be had whole, the old one stays what `main` means here.
    server.reset();
    server.spoil("tokenizer.json", "corrupt", 0, -1);
    resolve(MODEL, &hub, &Silent).unwrap_err();
    let offline = server.hub_with(&[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(resolve(MODEL, &offline, &Silent).unwrap(), old);

    server.reset();
    let new = resolve(MODEL, &hub, &Silent).unwrap();
    assert_ne!(new, old);
    server.assert_whole(&new);
    assert_eq!(server.weights_log(), [], "the weights did not change");
    assert_eq!(resolve(MODEL, &offline, &Silent).unwrap(), new);
}

#[test]
fn pull_repairs_what_verify_finds() {
    let server = StandIn::start();
    let hub = server.hub();
    let snapshot = resolve(MODEL, &hub, &Silent).unwrap();
    let blob = snapshot.join("model.safetensors").canonicalize().unwrap();
    let mut bytes = std::fs::read(&blob).unwrap();
    bytes[77] ^= 1;
    std::fs::write(&blob, &bytes).unwrap();
    std::fs::remove_file(snapshot.join("config.json")).unwrap();

    let repository = hub::Repository::new(MODEL, "main").unwrap();
    let cached = hub::find(&repository, &hub).unwrap();
    let findings = hub::verify(&cached, &hub, &Silent).unwrap();
    let bad: Vec<_> = findings.iter().filter(|finding| finding.verdict != hub::Verdict::Good).collect();
    assert_eq!(bad.len(), 2, "{bad:?}");
    assert_eq!((bad[0].file.as_str(), &bad[0].verdict), ("config.json", &hub::Verdict::Missing));
    assert!(matches!(&bad[1].verdict, hub::Verdict::Hash { expected, .. } if *expected == server.weights_hash()));

    let ear = Ear::new();
    let obtained = pull(&repository, &hub, &ear).unwrap();
    assert_eq!(obtained.fetched, SIZE, "the blob of `config.json` was still there");
    assert_eq!(obtained.files, NEEDED.len());
    assert!(ear.heard("`model.safetensors` in the cache is not what the hub lists"), "{:?}", ear.all());
    server.assert_whole(&obtained.path);
}
