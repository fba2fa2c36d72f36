//! Caches that cannot be written to, are full, or were filled by someone else.

use std::path::Path;

use rtts::hub::{self, Silent, resolve};

use super::stand_in::{Ear, MODEL, NEEDED, StandIn};

/// Runs `act` without the right to write everywhere, which root has: on Linux user and capabilities belong to the
/// thread, so a fresh one becomes `nobody`. Who is not root has no such right to begin with.
#[cfg(target_os = "linux")]
fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: both calls take plain numbers; the raw one changes this thread alone, which ends with `act`.
            let changed = unsafe {
                let nobody: libc::uid_t = 65534;
                libc::geteuid() != 0 || libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody) == 0
            };
            assert!(changed, "root must be able to become nobody");
            act()
        });
        thread.join().unwrap()
    })
}

#[cfg(target_os = "linux")]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Takes or gives back the right to write in every folder below `root`.
#[cfg(target_os = "linux")]
fn set_modes(root: &Path, mode: u32) {
    set_mode(root, 0o755);
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            set_modes(&path, mode);
        }
    }
    set_mode(root, mode);
}

#[cfg(target_os = "linux")]
#[test]
fn a_cache_without_the_right_to_write_serves_what_it_has() {
    let server = StandIn::start();
    let cold = tempfile::tempdir().unwrap();
    set_mode(cold.path(), 0o555);
    set_mode(server.home.path(), 0o755);
    let hub = server.hub_with(&[("HF_HUB_CACHE", cold.path().to_str().unwrap())]);
    let error = as_nobody(|| resolve(MODEL, &hub, &Silent).unwrap_err());
    let folder = cold.path().join("models--org--tiny");
    assert!(error.to_string().contains(folder.to_str().unwrap()), "{error}");
    assert!(error.to_string().contains("Permission denied"), "{error}");
    assert!(error.cure().unwrap().contains("HF_HUB_CACHE"));

    let snapshot = resolve(MODEL, &server.hub(), &Silent).unwrap();
    set_modes(&server.home.path().join("hub"), 0o555);
    let ear = Ear::new();
    assert_eq!(as_nobody(|| resolve(MODEL, &server.hub(), &ear).unwrap()), snapshot);
    assert_eq!(ear.all(), Vec::<String>::new());
    // A revision that was never noted cannot be noted now, and need not be.
    assert_eq!(as_nobody(|| resolve(&format!("{MODEL}@v1"), &server.hub(), &ear).unwrap()), snapshot);
    let repository = hub::Repository::new(MODEL, "main").unwrap();
    assert_eq!(as_nobody(|| hub::pull(&repository, &server.hub(), &ear).unwrap()).path, snapshot);
    set_modes(&server.home.path().join("hub"), 0o755);
}

#[test]
fn a_cache_below_a_file_is_named() {
    let server = StandIn::start();
    let file = server.home.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let cache = file.join("hub");
    let hub = server.hub_with(&[("HF_HUB_CACHE", cache.to_str().unwrap())]);
    let error = resolve(MODEL, &hub, &Silent).unwrap_err();
    assert!(error.to_string().contains(cache.to_str().unwrap()), "{error}");
    assert!(error.cure().unwrap().contains("HF_HUB_CACHE"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_model_that_cannot_fit_is_refused_before_it_begins() {
    let server = StandIn::start();
    server.spoil("model.safetensors", "listed", 1 << 60, -1);
    let error = resolve(MODEL, &server.hub(), &Silent).unwrap_err();
    assert!(error.to_string().contains("not enough room in"), "{error}");
    assert!(error.cure().unwrap().contains("rtts models rm"));
    assert_eq!(server.weights_log(), []);
}

#[test]
fn a_cache_that_python_filled_is_understood() {
    let server = StandIn::start();
    let snapshot = resolve(MODEL, &server.hub(), &Silent).unwrap();
    // Older versions of Python's library keep no listing.
    std::fs::remove_dir_all(server.cached().join("trees")).unwrap();
    let offline = server.hub_with(&[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(resolve(MODEL, &offline, &Silent).unwrap(), snapshot);
    let cached = hub::list(&offline).unwrap().remove(0);
    assert!(cached.missing.is_empty() && cached.speech);
    let findings = hub::verify(&cached, &offline, &Silent).unwrap();
    assert_eq!(findings.len(), NEEDED.len());
    assert!(findings.iter().all(|finding| finding.verdict == hub::Verdict::Good), "{findings:?}");

    // A blob that was deleted leaves a link to nowhere.
    std::fs::remove_file(snapshot.join("model.safetensors").canonicalize().unwrap()).unwrap();
    std::fs::remove_file(snapshot.join("tokenizer.json")).unwrap();
    let error = resolve(MODEL, &offline, &Silent).unwrap_err().to_string();
    assert!(error.contains("it lacks `model.safetensors`, `tokenizer.json`"), "{error}");
    server.assert_whole(&resolve(MODEL, &server.hub(), &Silent).unwrap());
}

#[test]
fn a_sharded_model_without_a_shard_is_incomplete() {
    let server = StandIn::start();
    let snapshot = resolve(MODEL, &server.hub(), &Silent).unwrap();
    std::fs::remove_dir_all(server.cached().join("trees")).unwrap();
    let index = r#"{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model.safetensors"}}"#;
    std::fs::write(snapshot.join("model.safetensors.index.json"), index).unwrap();
    let cached = hub::list(&server.hub()).unwrap().remove(0);
    assert_eq!(cached.missing.len(), 1);
    assert_eq!(cached.missing[0].file, "model-00001-of-00002.safetensors");
}

#[test]
fn listing_and_removing() {
    let server = StandIn::start();
    let hub = server.hub();
    assert!(hub::list(&hub).unwrap().is_empty());
    assert_eq!(hub::last_pulled(&hub), None);
    let snapshot = resolve(MODEL, &hub, &Silent).unwrap();
    let other = server.home.path().join("hub/models--org--other/snapshots");
    std::fs::create_dir_all(&other).unwrap();

    let all = hub::list(&hub).unwrap();
    assert_eq!(all.len(), 1);
    let sizes: u64 = NEEDED.iter().map(|file| snapshot.join(file).metadata().unwrap().len()).sum();
    assert_eq!(
        (all[0].id.as_str(), all[0].bytes, all[0].references.as_slice()),
        (MODEL, sizes, &["main".to_string()][..])
    );
    assert_eq!(hub::last_pulled(&hub).as_deref(), Some(MODEL));

    let freed = hub::remove(MODEL, &hub).unwrap();
    assert!(freed >= sizes && freed < sizes + 10_000, "{freed}");
    assert!(!server.cached().exists() && other.exists(), "only that model goes");
    let error = hub::remove(MODEL, &hub).unwrap_err();
    assert!(error.to_string().contains("is not in the cache"), "{error}");
}
