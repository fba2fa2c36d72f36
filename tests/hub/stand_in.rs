//! The stand-in hub (`tests/fake_hub.py`) as a child of the test, and a listener that remembers what it was told.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rtts::hub::{Hub, Progress};
use serde_json::Value;

/// The model that is served.
pub const MODEL: &str = "org/tiny";

/// The size of its `model.safetensors`.
pub const SIZE: u64 = 3_000_000;

/// What a checkpoint needs of it.
pub const NEEDED: [&str; 5] =
    ["codec/config.json", "codec/model.safetensors", "config.json", "model.safetensors", "tokenizer.json"];

pub struct StandIn {
    child: Child,
    pub address: String,
    pub root: tempfile::TempDir,
    pub home: tempfile::TempDir,
}

impl StandIn {
    /// Serves [`MODEL`] and gives it a fresh, empty cache.
    pub fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let model = root.path().join(MODEL);
        std::fs::create_dir_all(model.join("codec")).unwrap();
        std::fs::write(model.join("config.json"), r#"{"model_type": "cohere2"}"#).unwrap();
        std::fs::write(model.join("tokenizer.json"), noise(2000, 2)).unwrap();
        std::fs::write(model.join("model.safetensors"), noise(SIZE as usize, 3)).unwrap();
        std::fs::write(model.join("codec/config.json"), "{}").unwrap();
        std::fs::write(model.join("codec/model.safetensors"), noise(5000, 4)).unwrap();
        std::fs::write(model.join("README.md"), "# not needed").unwrap();
        std::fs::write(model.join("modeling.py"), "print('not needed')").unwrap();
        std::fs::write(model.join("pytorch_model.bin"), noise(9000, 5)).unwrap();

        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_hub.py");
        let mut child = Command::new("python3")
            .arg(script)
            .arg(root.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the tests of the hub need python3");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("LISTENING ").unwrap().to_string();
        Self { child, address, root, home: tempfile::tempdir().unwrap() }
    }

    /// Settings as the environment would give them, quick to lose patience.
    pub fn hub(&self) -> Hub {
        self.hub_with(&[])
    }

    pub fn hub_with(&self, more: &[(&str, &str)]) -> Hub {
        let mut variables: HashMap<&str, OsString> = HashMap::new();
        variables.insert("HF_HOME", self.home.path().into());
        variables.insert("HF_ENDPOINT", self.address.clone().into());
        variables.extend(more.iter().map(|(name, value)| (*name, OsString::from(value))));
        let mut hub = Hub::from_variables(false, |name| variables.get(name).cloned()).unwrap();
        hub.patience.pause = Duration::from_millis(10);
        hub
    }

    pub fn fault(&self, fault: Value) {
        ureq::post(format!("{}/__fault", self.address)).send(fault.to_string()).unwrap();
    }

    /// A fault of a file of [`MODEL`], `times` times (-1: for ever).
    pub fn spoil(&self, file: &str, kind: &str, bytes: u64, times: i64) {
        let path = format!("{MODEL}/{file}");
        self.fault(serde_json::json!({"path": path, "kind": kind, "bytes": bytes, "times": times}));
    }

    pub fn reset(&self) {
        ureq::post(format!("{}/__reset", self.address)).send("").unwrap();
    }

    pub fn log(&self) -> Vec<Value> {
        let text = ureq::get(format!("{}/__log", self.address)).call().unwrap().body_mut().read_to_string().unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Range, status and sent bytes of every request for the content of `model.safetensors`.
    pub fn weights_log(&self) -> Vec<(Option<String>, u64, u64)> {
        let cdn = format!("/cdn/{MODEL}/model.safetensors");
        let of = |entry: &Value| {
            let range = entry["range"].as_str().map(str::to_string);
            (range, entry["status"].as_u64().unwrap(), entry["sent"].as_u64().unwrap())
        };
        self.log().iter().filter(|entry| entry["path"] == cdn.as_str()).map(of).collect()
    }

    /// The folder of [`MODEL`] in the cache.
    pub fn cached(&self) -> PathBuf {
        self.home.path().join("hub/models--org--tiny")
    }

    /// Everything in the cached blobs with this at the end of its name.
    pub fn blobs(&self, ending: &str) -> Vec<PathBuf> {
        let Ok(read) = std::fs::read_dir(self.cached().join("blobs")) else { return Vec::new() };
        let all = read.map(|entry| entry.unwrap().path());
        all.filter(|path| path.to_str().unwrap().ends_with(ending)).collect()
    }

    /// Whether a snapshot holds exactly what a checkpoint needs, byte for byte.
    pub fn assert_whole(&self, snapshot: &Path) {
        let mut files: Vec<String> = Vec::new();
        for (prefix, folder) in [("", snapshot.to_path_buf()), ("codec/", snapshot.join("codec"))] {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if !entry.path().is_dir() {
                    files.push(format!("{prefix}{}", entry.file_name().into_string().unwrap()));
                }
            }
        }
        files.sort();
        assert_eq!(files, NEEDED);
        for file in NEEDED {
            let (here, there) = (snapshot.join(file), self.root.path().join(MODEL).join(file));
            assert!(std::fs::read(here).unwrap() == std::fs::read(there).unwrap(), "{file} differs");
        }
        assert_eq!(self.blobs(".part"), Vec::<PathBuf>::new(), "a partial file was left");
    }

    /// The SHA-256 of the served `model.safetensors`, which is the name of its blob.
    pub fn weights_hash(&self) -> String {
        use sha2::Digest;
        let bytes = std::fs::read(self.root.path().join(MODEL).join("model.safetensors")).unwrap();
        sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Puts bytes where an earlier, broken download of `model.safetensors` would have left them.
    pub fn leave_part(&self, bytes: &[u8]) {
        let blobs = self.cached().join("blobs");
        std::fs::create_dir_all(&blobs).unwrap();
        std::fs::write(blobs.join(format!("{}.part", self.weights_hash())), bytes).unwrap();
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes that do not repeat, the same every time.
pub fn noise(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// Remembers what it was told; asks to stop after so many bytes.
pub struct Ear {
    pub notes: Mutex<Vec<String>>,
    pub begun: Mutex<Vec<(String, u64, u64)>>,
    pub arrived: AtomicU64,
    pub stop_after: u64,
}

impl Ear {
    pub fn new() -> Self {
        Self { notes: Mutex::default(), begun: Mutex::default(), arrived: AtomicU64::new(0), stop_after: u64::MAX }
    }

    pub fn heard(&self, words: &str) -> bool {
        self.notes.lock().unwrap().iter().any(|note| note.contains(words))
    }

    pub fn all(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }
}

impl Progress for Ear {
    fn plan(&self, _model: &str, _files: usize, _bytes: u64) {}

    fn begin(&self, file: &str, size: u64, have: u64) {
        self.begun.lock().unwrap().push((file.to_string(), size, have));
    }

    fn check(&self, _file: &str, _size: u64) {}

    fn advance(&self, bytes: u64) {
        self.arrived.fetch_add(bytes, Ordering::Relaxed);
    }

    fn restart(&self) {}

    fn end(&self) {}

    fn note(&self, line: &str) {
        self.notes.lock().unwrap().push(line.to_string());
    }

    fn stopped(&self) -> bool {
        self.arrived.load(Ordering::Relaxed) >= self.stop_after
    }
}
