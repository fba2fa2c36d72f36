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

/// A copy of a tiny checkpoint whose configurations can be changed; weights are linked.
struct Copy(tempfile::TempDir);

impl Copy {
    fn new() -> Self {
        fs_copy(
            "tinyaya-nvfp4",
            &["model.safetensors", "codec/model.safetensors"],
            &["config.json", "codec/config.json", "tokenizer.json", "hf_quant_config.json"],
        )
    }

    fn voxcpm2(fixture: &str) -> Self {
        fs_copy(
            fixture,
            &["model.safetensors", "audiovae.pth"],
            &["config.json", "tokenizer.json", "tokenizer_config.json"],
        )
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

fn fs_copy(fixture: &str, linked: &[&str], copied: &[&str]) -> Copy {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(fixture);
    let copy = tempfile::tempdir().unwrap();
    for file in linked.iter().chain(copied) {
        fs::create_dir_all(copy.path().join(file).parent().unwrap()).unwrap();
    }
    for file in linked {
        std::os::unix::fs::symlink(source.join(file), copy.path().join(file)).unwrap();
    }
    for file in copied {
        fs::copy(source.join(file), copy.path().join(file)).unwrap();
    }
    Copy(copy)
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

// ---- VoxCPM2

/// All places of a configuration: keys, and the keys of objects inside.
fn places(value: &Value, above: &str) -> Vec<String> {
    let Some(object) = value.as_object() else { return Vec::new() };
    let mut out = Vec::new();
    for (key, inner) in object {
        let place = format!("{above}/{key}");
        out.extend(places(inner, &place));
        out.push(place);
    }
    out
}

proptest! {
    #[test]
    fn damaged_configurations_of_voxcpm2_are_named_or_work(
        file in prop::sample::select(vec!["config.json", "config.json", "config.json", "tokenizer_config.json"]),
        place in any::<prop::sample::Index>(),
        second in any::<prop::sample::Index>(),
        values in prop::collection::vec(prop::sample::select(replacements()), 2),
        twice in any::<bool>(),
    ) {
        let copy = Copy::voxcpm2("voxcpm2-nvfp4");
        let mut config = copy.json(file);
        let places = places(&config, "");
        *config.pointer_mut(place.get::<String>(&places)).unwrap() = values[0].clone();
        if twice && let Some(inner) = config.pointer_mut(second.get::<String>(&places)) {
            *inner = values[1].clone();
        }
        copy.write(file, &config);
        if let Err(error) = copy.speak() {
            let text = error.to_string();
            // A longer patch is a model that can be, and more than the 0.16 seconds that are asked for.
            let named = [
                "config.json",
                "tokenizer.json",
                "safetensors",
                "does not hold what",
                "and the model holds",
                "shorter than one patch",
            ];
            prop_assert!(named.iter().any(|name| text.contains(name)), "{text}");
        }
    }
}

/// Every tensor of a safetensors file but one, as such a file.
fn without(bytes: &[u8], name: &str) -> Vec<u8> {
    let file = safetensors::SafeTensors::deserialize(bytes).unwrap();
    let kept = file.tensors().into_iter().filter(|(other, _)| other != name);
    safetensors::serialize(kept, None).unwrap()
}

#[test]
fn every_missing_tensor_of_voxcpm2_is_named() {
    for fixture in ["voxcpm2-bf16", "voxcpm2-nvfp4"] {
        let copy = Copy::voxcpm2(fixture);
        copy.speak().unwrap();
        let path = copy.path("model.safetensors");
        let whole = fs::read(&path).unwrap();
        let file = safetensors::SafeTensors::deserialize(&whole).unwrap();
        let names: Vec<String> = file.names().into_iter().map(String::from).collect();
        assert!(names.len() > 90 && names.iter().any(|name| name == "stop_head.weight"));
        for name in &names {
            fs::remove_file(&path).unwrap();
            fs::write(&path, without(&whole, name)).unwrap();
            let text = copy.error();
            assert!(text.contains(name.as_str()) && text.contains("missing"), "without {name}: {text}");
        }
    }
}

#[test]
fn every_missing_tensor_of_the_audiovae_is_named() {
    let copy = Copy::voxcpm2("voxcpm2-bf16");
    // The same tensors as safetensors, which is read in its stead.
    let checkpoint = Checkpoint::open(Source::Folder(copy.0.path().to_path_buf())).unwrap();
    let tensors: Vec<(String, safetensors::Dtype, Vec<usize>, Vec<u8>)> = checkpoint
        .tensors()
        .filter_map(|(name, t)| {
            Some((name.strip_prefix("audiovae/")?.to_owned(), t.dtype, t.shape.clone(), t.bytes.to_vec()))
        })
        .collect();
    let views: Vec<_> = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| {
            (name.clone(), safetensors::tensor::TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        })
        .collect();
    let path = copy.path("audiovae.safetensors");
    let whole = safetensors::serialize(views, None).unwrap();
    fs::write(&path, &whole).unwrap();
    copy.speak().unwrap();
    for (name, ..) in tensors.iter().filter(|(name, ..)| !name.contains("fc_logvar")) {
        fs::write(&path, without(&whole, name)).unwrap();
        let text = copy.error();
        assert!(text.contains(name.as_str()) && text.contains("missing"), "without {name}: {text}");
    }
    fs::remove_file(&path).unwrap();
    fs::remove_file(copy.path("audiovae.pth")).unwrap();
    let text = copy.error();
    assert!(text.contains("audiovae.pth"), "{text}");
}

#[test]
fn packed_and_plain_matrices_stand_side_by_side() {
    // One packed matrix is replaced by a plain one of the same shape: each is read for what it is, and that is noted.
    let copy = Copy::voxcpm2("voxcpm2-nvfp4");
    let path = copy.path("model.safetensors");
    let whole = fs::read(&path).unwrap();
    let plain =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/voxcpm2-bf16/model.safetensors")).unwrap();
    let (whole, plain) = (
        safetensors::SafeTensors::deserialize(&whole).unwrap(),
        safetensors::SafeTensors::deserialize(&plain).unwrap(),
    );
    let module = "base_lm.layers.1.mlp.up_proj.";
    let mut mixed: Vec<_> = whole.tensors().into_iter().filter(|(name, _)| !name.starts_with(module)).collect();
    mixed.extend(plain.tensors().into_iter().filter(|(name, _)| name.starts_with(module)));
    let mixed = safetensors::serialize(mixed, None).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, mixed).unwrap();
    copy.speak().unwrap();
    let checkpoint = Checkpoint::open(Source::Folder(copy.0.path().to_path_buf())).unwrap();
    assert!(checkpoint.notes().iter().any(|note| note.contains("base_lm.layers.1.mlp.up_proj")));
}

#[test]
fn reordered_columns_and_disagreeing_groups_are_refused() {
    let copy = Copy::voxcpm2("voxcpm2-nvfp4");
    let mut config = copy.json("config.json");
    config["quantization_config"]["ignore"] = json!(["re:.*layers\\.1\\.mlp\\.up_proj$"]);
    copy.write("config.json", &config);
    let text = copy.error();
    assert!(text.contains("base_lm.layers.1.mlp.up_proj") && text.contains("config.json"), "{text}");

    let copy = Copy::voxcpm2("voxcpm2-nvfp4");
    let path = copy.path("model.safetensors");
    let whole = fs::read(&path).unwrap();
    let mut tensors = safetensors::SafeTensors::deserialize(&whole).unwrap().tensors();
    let order = [0_u8; 64 * 4];
    let name = "base_lm.layers.0.self_attn.q_proj.weight_g_idx";
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::I32, vec![64], &order).unwrap();
    tensors.push((name.to_owned(), view));
    let changed = safetensors::serialize(tensors, None).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, changed).unwrap();
    let text = copy.error();
    assert!(text.contains(name), "{text}");
}

#[test]
fn a_tokenizer_of_another_model_is_refused_by_voxcpm2() {
    let copy = Copy::voxcpm2("voxcpm2-bf16");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tinyaya-nvfp4/tokenizer.json");
    fs::copy(source, copy.path("tokenizer.json")).unwrap();
    let text = copy.error();
    assert!(text.contains("tokenizer.json") && text.contains("does not belong"), "{text}");
}
