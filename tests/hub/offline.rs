//! Without a network, and with the network switched off.

use rtts::hub::{Silent, resolve};

use super::stand_in::{Ear, MODEL, StandIn};

/// An address where nobody listens: the port was free a moment ago.
fn nobody() -> String {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    format!("http://127.0.0.1:{port}")
}

#[test]
fn without_a_network_the_cache_is_used_and_one_line_says_so() {
    let server = StandIn::start();
    let snapshot = resolve(MODEL, &server.hub(), &Silent).unwrap();
    let ear = Ear::new();
    let nobody = nobody();
    let hub = server.hub_with(&[("HF_ENDPOINT", &nobody)]);
    assert_eq!(resolve(MODEL, &hub, &ear).unwrap(), snapshot);
    let notes = ear.all();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains(&nobody) && notes[0].contains("connection refused"), "{notes:?}");
    assert!(notes[0].contains("using `org/tiny` from the cache"), "{notes:?}");
}

#[test]
fn without_a_network_and_a_cache_the_error_says_both() {
    let server = StandIn::start();
    let nobody = nobody();
    let hub = server.hub_with(&[("HF_ENDPOINT", &nobody)]);
    let error = resolve(MODEL, &hub, &Silent).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&format!("cannot reach `{nobody}`: connection refused")), "{text}");
    assert!(text.contains(&format!("it is not in the cache `{}`", hub.cache.display())), "{text}");
    assert!(error.cure().unwrap().contains("HF_ENDPOINT"));
}

#[test]
fn an_unknown_host_is_no_network() {
    let server = StandIn::start();
    let hub = server.hub_with(&[("HF_ENDPOINT", "http://hub.invalid")]);
    let error = resolve(MODEL, &hub, &Silent).unwrap_err().to_string();
    assert!(error.contains("cannot reach `http://hub.invalid`: the network does not know that name"), "{error}");
}

#[test]
fn offline_never_asks() {
    let server = StandIn::start();
    let offline = server.hub_with(&[("HF_HUB_OFFLINE", "1")]);
    let error = resolve(MODEL, &offline, &Silent).unwrap_err();
    assert!(error.to_string().contains("HF_HUB_OFFLINE") && error.to_string().contains("not in the cache"), "{error}");
    assert_eq!(error.cure().unwrap(), "run `rtts models pull org/tiny` where there is a network");
    assert!(server.log().is_empty());

    let snapshot = resolve(MODEL, &server.hub(), &Silent).unwrap();
    server.reset();
    let ear = Ear::new();
    assert_eq!(resolve(MODEL, &offline, &ear).unwrap(), snapshot);
    assert_eq!(ear.all(), Vec::<String>::new());
    // Python may have left no reference; the only snapshot is then the one.
    std::fs::remove_file(server.cached().join("refs/main")).unwrap();
    assert_eq!(resolve(MODEL, &offline, &ear).unwrap(), snapshot);
    let commit = snapshot.file_name().unwrap().to_str().unwrap();
    assert_eq!(resolve(&format!("{MODEL}@{}", &commit[..8]), &offline, &ear).unwrap(), snapshot);
    assert!(server.log().is_empty());

    let error = resolve("org/tinny", &offline, &Silent).unwrap_err();
    assert!(error.cure().unwrap().contains("did you mean `org/tiny`?"), "{error:?}");
}

#[test]
fn offline_a_broken_download_is_named() {
    let server = StandIn::start();
    let mut hub = server.hub();
    hub.patience.tries = 1;
    server.spoil("model.safetensors", "truncate", 1_000_000, -1);
    resolve(MODEL, &hub, &Silent).unwrap_err();
    let offline = server.hub_with(&[("HF_HUB_OFFLINE", "1")]);
    let error = resolve(MODEL, &offline, &Silent).unwrap_err().to_string();
    assert!(
        error.contains("in the cache it lacks `model.safetensors` (1000000 of 3000000 bytes), `tokenizer.json`"),
        "{error}"
    );
}

#[test]
fn a_refusal_does_not_take_away_what_is_cached() {
    let server = StandIn::start();
    let snapshot = resolve(MODEL, &server.hub(), &Silent).unwrap();
    server.fault(serde_json::json!({"path": MODEL, "kind": "gated", "token": "hf_right"}));
    let ear = Ear::new();
    assert_eq!(resolve(MODEL, &server.hub(), &ear).unwrap(), snapshot);
    assert!(ear.heard("answered 401: using `org/tiny` from the cache"), "{:?}", ear.all());
    let repository = rtts::hub::Repository::new(MODEL, "main").unwrap();
    let error = rtts::hub::pull(&repository, &server.hub(), &Silent).unwrap_err().to_string();
    assert!(error.contains("gated"), "whoever pulls wants to hear of it: {error}");
}
