//! Models with damaged configurations and tokenizers: an error that names the file, or a model that works; never a panic.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rtts::checkpoint::{Checkpoint, Source};
use rtts::compute::cpu::Cpu;
use rtts::error::Result;
use rtts::models::{self, Options, Speaker, Utterance};
use serde_json::{Value, json};

/// A copy of the tiny NVFP4 checkpoint whose configurations can be changed; weights are linked.
struct Copy(tempfile::TempDir);

impl Copy {
    fn new() -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tinyaya-nvfp4");
        let copy = tempfile::tempdir().unwrap();
        fs::create_dir(copy.path().join("codec")).unwrap();
        for file in ["model.safetensors", "codec/model.safetensors"] {
            std::os::unix::fs::symlink(source.join(file), copy.path().join(file)).unwrap();
        }
        for file in ["config.json", "codec/config.json", "tokenizer.json", "hf_quant_config.json"] {
            fs::copy(source.join(file), copy.path().join(file)).unwrap();
        }
        Self(copy)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn json(&self, file: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(file)).unwrap()).unwrap()
    }

    fn write(&self, file: &str, value: &Value) {
        fs::write(self.path(file), value.to_string()).unwrap();
    }

    /// Loads the model and, where that works, speaks one frame.
    fn speak(&self) -> Result<Box<dyn Speaker>> {
        let checkpoint = Checkpoint::open(Source::Folder(self.0.path().to_path_buf()))?;
        let mut speaker = models::load(&checkpoint, Cpu::new(Some(1))?, &Options::default())?;
        let utterance = Utterance { text: "ok".into(), max_seconds: Some(0.16), ..Utterance::default() };
        speaker.admit(0, &utterance)?;
        while speaker.step(&[0])?[0].end.is_none() {}
        Ok(speaker)
    }

    fn error(&self) -> String {
        match self.speak() {
            Ok(_) => panic!("the model loads"),
            Err(error) => error.to_string(),
        }
    }
}

fn replacements() -> Vec<Value> {
    vec![
        Value::Null,
        json!(-1),
        json!(0),
        json!(1),
        json!(3),
        json!(7),
        json!(1_048_576),
        json!(16_777_216),
        json!(1e300),
        json!(0.5),
        json!("text"),
        json!(true),
        json!(false),
        json!([]),
        json!([1, 2]),
        json!({}),
    ]
}

proptest! {
    #[test]
    fn damaged_configurations_are_named_or_work(
        codec in any::<bool>(),
        key in any::<prop::sample::Index>(),
        second in any::<prop::sample::Index>(),
        values in prop::collection::vec(prop::sample::select(replacements()), 2),
        twice in any::<bool>(),
    ) {
        let copy = Copy::new();
        let file = if codec { "codec/config.json" } else { "config.json" };
        let mut config = copy.json(file);
        let keys: Vec<String> = config.as_object().unwrap().keys().cloned().collect();
        config[key.get(&keys)] = values[0].clone();
        if twice {
            config[second.get(&keys)] = values[1].clone();
        }
        copy.write(file, &config);
        if let Err(error) = copy.speak() {
            let text = error.to_string();
            // A context of a few tokens is no damage, but no prompt fits into it.
            let named = ["config.json", "tokenizer.json", "safetensors", "does not hold what", "and the model holds"];
            prop_assert!(named.iter().any(|name| text.contains(name)), "{text}");
        }
    }
}

#[test]
fn the_copy_itself_speaks() {
    assert!(Copy::new().speak().is_ok());
}

#[test]
fn audio_ids_come_from_the_tokenizer_only_where_none_is_configured() {
    let copy = Copy::new();
    let mut config = copy.json("config.json");
    let audio = ["first_unit_id", "last_unit_id", "text_start_token_id", "audio_start_token_id", "audio_end_token_id"];
    let object = config.as_object_mut().unwrap();
    object.remove(audio[0]);
    copy.write("config.json", &Value::Object(object.clone()));
    let text = copy.error();
    assert!(text.contains("config.json") && text.contains(audio[0]), "{text}");

    for key in audio {
        object.remove(key);
    }
    copy.write("config.json", &Value::Object(object.clone()));
    assert!(copy.speak().is_ok(), "the vLLM export may leave them to the tokenizer");

    object["architectures"] = json!(["RumikOSSForCausalLM"]);
    copy.write("config.json", &Value::Object(object.clone()));
    let text = copy.error();
    assert!(text.contains("config.json") && text.contains(audio[0]), "{text}");

    object["architectures"] = json!(["TinyAyaForCausalLM"]);
    copy.write("config.json", &Value::Object(object.clone()));
    let mut tokenizer = copy.json("tokenizer.json");
    tokenizer["added_tokens"].as_array_mut().unwrap().retain(|t| t["content"] != "</audio>");
    copy.write("tokenizer.json", &tokenizer);
    let text = copy.error();
    assert!(text.contains("config.json") && text.contains("</audio>"), "{text}");
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let copy = Copy::new();
    let mut tokenizer = copy.json("tokenizer.json");
    // Without the added token `<text>` the prompt's beginning falls apart.
    tokenizer["added_tokens"].as_array_mut().unwrap().retain(|t| t["content"] != "<text>");
    copy.write("tokenizer.json", &tokenizer);
    let text = copy.error();
    assert!(text.contains("tokenizer.json"), "{text}");
    fs::write(copy.path("tokenizer.json"), b"{\"version\": \"1.0\"").unwrap();
    assert!(copy.error().contains("tokenizer.json"));
}
