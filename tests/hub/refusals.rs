//! What the hub refuses, in plain sentences with cures.

use rtts::error::Error;
use rtts::hub::{Silent, resolve};
use serde_json::json;

use super::stand_in::{MODEL, StandIn};

fn refused(server: &StandIn, name: &str, variables: &[(&str, &str)]) -> Error {
    resolve(name, &server.hub_with(variables), &Silent).unwrap_err()
}

#[test]
fn unknown_models() {
    let server = StandIn::start();
    let error = refused(&server, "org/nothing-at-all", &[]);
    assert!(error.to_string().contains("`org/nothing-at-all`: it does not exist, or is private or gated"), "{error}");
    assert!(error.cure().unwrap().contains("HF_TOKEN"));
    let error = refused(&server, "org/nothing-at-all", &[("HF_TOKEN", "hf_any")]);
    assert!(error.to_string().contains("there is no such model"), "{error}");
    let error = refused(&server, "rumik-ai/rumik-os-1", &[]);
    assert!(error.cure().unwrap().starts_with("did you mean `rumik-ai/rumik-oss-1`?"), "{error:?}");
    let error = refused(&server, &format!("{MODEL}@nowhere"), &[]);
    assert!(error.to_string().contains("it has no revision `nowhere`"), "{error}");
    assert!(!server.home.path().join("hub").exists(), "a refusal leaves nothing behind");
}

#[test]
fn gated_models() {
    let server = StandIn::start();
    server.fault(json!({"path": MODEL, "kind": "gated", "token": "hf_right"}));
    let error = refused(&server, MODEL, &[]);
    assert!(error.to_string().contains("the model is gated, and there is no token (status 401)"), "{error}");
    let page = format!("accept its licence at `{}/{MODEL}`, then set `HF_TOKEN`", server.address);
    assert_eq!(error.cure().unwrap(), page);
    let error = refused(&server, MODEL, &[("HF_TOKEN", "hf_wrong")]);
    assert!(error.to_string().contains("access is refused with the token from `HF_TOKEN` (status 403)"), "{error}");
    assert!(!format!("{error:?}").contains("hf_wrong"));

    std::fs::write(server.home.path().join("token"), "hf_right\n").unwrap();
    let snapshot = resolve(MODEL, &server.hub(), &Silent).unwrap();
    server.assert_whole(&snapshot);
    let storage = server.log().into_iter().filter(|entry| entry["path"].as_str().unwrap().starts_with("/cdn"));
    assert!(storage.count() > 0);
}

#[test]
fn a_file_that_the_hub_lists_and_does_not_have() {
    for (status, words) in [(403, "access is refused"), (404, "the hub lists it, but does not have it")] {
        let server = StandIn::start();
        server.spoil("model.safetensors", "status", status, -1);
        let error = refused(&server, MODEL, &[]);
        assert!(error.to_string().contains("cannot download `model.safetensors` of `org/tiny`"), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(server.weights_log().len(), 1, "no second try after {status}");
        assert_eq!(server.blobs(&server.weights_hash()).len(), 0, "an error page is not a model");
    }
}

#[test]
fn other_formats_and_other_servers() {
    let server = StandIn::start();
    let other = server.root.path().join("org/other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("model.gguf"), "x").unwrap();
    let error = refused(&server, "org/other", &[]);
    assert!(error.to_string().contains("no checkpoint for rtts") && error.to_string().contains("`.gguf`"), "{error}");

    // A server that is no hub: plain files.
    let hub = server.hub_with(&[("HF_ENDPOINT", &format!("{}/cdn/{MODEL}/config.json?", server.address))]);
    let error = resolve(MODEL, &hub, &Silent).unwrap_err();
    assert!(error.to_string().contains("does not answer like a model hub"), "{error}");
    assert_eq!(error.cure().unwrap(), "check `HF_ENDPOINT`");
}

#[test]
fn a_clone_without_its_large_files_is_noticed() {
    let server = StandIn::start();
    let clone = tempfile::tempdir().unwrap();
    std::fs::write(clone.path().join("config.json"), "{}").unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3000000\n";
    std::fs::write(clone.path().join("model.safetensors"), pointer).unwrap();
    let error = refused(&server, clone.path().to_str().unwrap(), &[]);
    assert!(error.to_string().contains("`model.safetensors` is a Git LFS pointer"), "{error}");
    assert!(error.cure().unwrap().contains("git lfs pull"));
}
