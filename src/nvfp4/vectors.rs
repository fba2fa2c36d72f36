//! Reads the recorded vectors in `tests/data/nvfp4-vectors.json`, made by running modelopt's and compressed-tensors' own
//! CPU code.

use serde_json::Value;

/// The whole file.
pub fn load() -> Value {
    serde_json::from_str(include_str!("../../tests/data/nvfp4-vectors.json")).unwrap()
}

/// A list of bytes.
pub fn bytes(list: &Value) -> Vec<u8> {
    list.as_array().unwrap().iter().map(|v| u8::try_from(v.as_u64().unwrap()).unwrap()).collect()
}

/// A list of 32-bit words.
pub fn words(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|v| u32::try_from(v.as_u64().unwrap()).unwrap()).collect()
}

/// A list of decimal numbers.
pub fn f32s(list: &Value) -> Vec<f32> {
    list.as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect()
}

/// An f32 written as "0x3f800000".
pub fn hex_f32(text: &Value) -> f32 {
    f32::from_bits(u32::from_str_radix(text.as_str().unwrap().trim_start_matches("0x"), 16).unwrap())
}

/// A list of f32 written as "0x3f800000", as bits.
pub fn hex_bits(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|v| hex_f32(v).to_bits()).collect()
}

/// A safetensors file under `tests/data`.
pub struct Tensors(Vec<u8>);

impl Tensors {
    /// Reads the file.
    pub fn load(name: &str) -> Self {
        Self(std::fs::read(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap())
    }

    /// A tensor's bytes.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        safetensors::SafeTensors::deserialize(&self.0).unwrap().tensor(name).unwrap().data().to_vec()
    }

    /// An F32 tensor.
    pub fn f32s(&self, name: &str) -> Vec<f32> {
        crate::matrix::Float::F32.decode(&self.bytes(name))
    }
}

/// The query projection of layer 0 of the tiny TinyAya checkpoint, `[128, 128]`, which the recorded `linear/*` tensors
/// belong to.
pub fn q_proj() -> super::Nvfp4Matrix {
    let file = Tensors::load("tinyaya-nvfp4/model.safetensors");
    let tensor = |leaf: &str| file.bytes(&format!("model.layers.0.self_attn.q_proj.{leaf}"));
    let scalar = |leaf: &str| crate::matrix::Float::F32.decode(&tensor(leaf))[0];
    super::Nvfp4Matrix::checked(
        128,
        128,
        tensor("weight").into(),
        tensor("weight_scale").into(),
        super::GlobalScale::Multiply(scalar("weight_scale_2")),
        Some(super::InputScale::Multiply(scalar("input_scale"))),
    )
    .unwrap()
}
