//! The tensor contract: a model asks for every tensor it needs by name, shape and dtype before any of them is used.
//!
//! Nothing fails at once. All that is missing, misshapen, of the wrong dtype, not finite or left over is collected, and
//! [`Checkpoint::contract`] reports it in one error, so that a wrong checkpoint is understood in one reading.
//!
//! NVFP4 scales are checked here: a NaN or a sign in an E4M3 byte, a global scale that is not finite and positive, and a
//! *shifted convention*. modelopt's `weight_scale_2` = amax/2688 multiplies, compressed-tensors' `weight_global_scale` =
//! 2688/amax divides; stored the wrong way round, every kernel runs and only noise comes out. The two are told apart by
//! size: no weight matrix of a working network reaches 2688 in magnitude, hence a multiplier lies below 1 and a divisor
//! above, and taking the reciprocal swaps the two sides. Activations do reach thousands in a few layers, so the
//! same test on one input scale could refuse a sound checkpoint; there the majority of all input scales decides.

use std::collections::{HashMap, HashSet};

use safetensors::Dtype;

use super::names;
use super::safetensors::Tensor;
use super::{Checkpoint, detect};
use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::matrix::{Float, Matrix, PlainMatrix};
use crate::nvfp4::{GlobalScale, InputScale, Nvfp4Matrix};

/// Values per block scale.
const BLOCK: usize = 16;
/// Larger plain matrices are not searched for NaN: that would read gigabytes of embedding that a run never touches.
const SEARCHED_BYTES: usize = 64 << 20;
/// Lines of an error message.
const LONGEST: usize = 16;
/// What modelopt may leave behind when it also calibrated the cache, and its own bookkeeping. Harmless.
const BOOKKEEPING: [&str; 3] = ["*.k_scale", "*.v_scale", "*_quantizer*"];

/// Collects what a model asks for. Where something is wrong the methods return an empty value of the right type, which
/// never leaves [`Checkpoint::contract`].
pub struct Contract<'a> {
    checkpoint: &'a Checkpoint,
    asked: HashSet<String>,
    ignored: Vec<String>,
    /// What is wrong, and with which tensor.
    findings: Vec<(String, String)>,
    problems: Vec<String>,
    /// Of every NVFP4 matrix: its scale's tensor and the calibrated scale.
    inputs: Vec<(String, Option<InputScale>)>,
}

impl Checkpoint {
    /// Runs `ask`, which asks for all tensors of a model, and returns what it returns.
    ///
    /// # Errors
    /// One error that names everything missing, misshapen, of the wrong dtype, not finite or left over, in all folders.
    pub fn contract<T>(&self, ask: impl FnOnce(&mut Contract<'_>) -> T) -> Result<T> {
        let mut contract = Contract {
            checkpoint: self,
            asked: HashSet::new(),
            ignored: Vec::new(),
            findings: Vec::new(),
            problems: Vec::new(),
            inputs: Vec::new(),
        };
        let value = ask(&mut contract);
        contract.check_inputs();
        contract.check_left_over();
        match contract.error() {
            None => Ok(value),
            Some(error) => Err(error),
        }
    }
}

impl<'a> Contract<'a> {
    /// The weight `[N, K]` of a linear; `module` is its name without `.weight`. Plain, modelopt NVFP4 or
    /// compressed-tensors NVFP4: what the file holds decides.
    pub fn matrix(&mut self, module: &str, n: usize, k: usize) -> Matrix {
        let packed = format!("{module}.weight_packed");
        let weight = format!("{module}.weight");
        let scaled = self.checkpoint.tensors.contains_key(&format!("{module}.weight_scale"));
        let modelopt = match self.checkpoint.tensors.get(&weight) {
            Some(tensor) => tensor.dtype == Dtype::U8,
            None => scaled && self.checkpoint.packing == detect::Packing::ModeloptNvfp4,
        };
        let compressed = self.checkpoint.tensors.contains_key(&packed)
            || (scaled && self.checkpoint.packing == detect::Packing::CompressedNvfp4);
        if compressed {
            self.nvfp4(module, packed, "weight_global_scale", "input_global_scale", n, k, true)
        } else if modelopt {
            self.nvfp4(module, weight, "weight_scale_2", "input_scale", n, k, false)
        } else {
            Matrix::Plain(self.plain(&weight, n, k))
        }
    }

    /// An unquantised matrix `[N, K]` by its full name; sizes of 1 may follow in the file.
    pub fn plain(&mut self, name: &str, n: usize, k: usize) -> PlainMatrix {
        let empty = PlainMatrix { n, k, float: Float::F32, bytes: Bytes::from(Vec::new()) };
        let Some((tensor, float)) = self.float(name) else { return empty };
        let fits =
            tensor.shape.len() >= 2 && tensor.shape[..2] == [n, k] && tensor.shape[2..].iter().all(|&size| size == 1);
        if !fits {
            self.misshapen(name, tensor, &[n, k]);
            return empty;
        }
        if tensor.bytes.len() <= SEARCHED_BYTES {
            let bad = not_finite(float, &tensor.bytes);
            if bad > 0 {
                self.find(name, tensor, format!("{bad} of {} values are not finite", tensor.values()));
                return empty;
            }
        }
        PlainMatrix { n, k, float, bytes: tensor.bytes.clone() }
    }

    /// The values of a small float tensor of exactly this shape; all of them are finite.
    pub fn values(&mut self, name: &str, shape: &[usize]) -> Vec<f32> {
        let Some((tensor, float)) = self.float(name) else { return Vec::new() };
        // Writers disagree on whether a single value has a dimension.
        let scalar = |shape: &[usize]| shape.is_empty() || shape == [1];
        if tensor.shape != shape && !(scalar(&tensor.shape) && scalar(shape)) {
            self.misshapen(name, tensor, shape);
            return Vec::new();
        }
        let values = float.decode(&tensor.bytes);
        let bad = values.iter().filter(|value| !value.is_finite()).count();
        if bad > 0 {
            self.find(name, tensor, format!("{bad} of {} values are not finite", values.len()));
            return Vec::new();
        }
        values
    }

    /// The values of a small integer tensor of exactly this shape.
    pub fn integers(&mut self, name: &str, shape: &[usize]) -> Vec<i64> {
        let Some(tensor) = self.ask(name) else { return Vec::new() };
        if tensor.shape != shape {
            self.misshapen(name, tensor, shape);
            return Vec::new();
        }
        let wide = |b: &[u8]| b.iter().rev().fold(0, |value, &byte| value << 8 | i64::from(byte));
        match tensor.dtype {
            Dtype::I32 => tensor.bytes.chunks_exact(4).map(|b| i64::from(wide(b) as i32)).collect(),
            Dtype::I64 => tensor.bytes.chunks_exact(8).map(wide).collect(),
            other => {
                self.find(name, tensor, format!("dtype {other:?}, needed I32 or I64"));
                Vec::new()
            }
        }
    }

    /// The shape of a tensor, to take a size from; `None` where there is no such tensor. Does not count as asking for it.
    pub fn opt_shape(&self, name: &str) -> Option<Vec<usize>> {
        self.checkpoint.tensors.get(name).map(|tensor| tensor.shape.clone())
    }

    /// Tensors that may be left over; `*` stands for anything.
    pub fn ignore(&mut self, glob: &str) {
        self.ignored.push(glob.to_owned());
    }

    /// A finding of the model's own, for the same error.
    pub fn problem(&mut self, text: String) {
        self.problems.push(text);
    }

    // ---- NVFP4

    #[allow(clippy::too_many_arguments)]
    fn nvfp4(
        &mut self,
        module: &str,
        codes_name: String,
        global: &str,
        input: &str,
        n: usize,
        k: usize,
        divides: bool,
    ) -> Matrix {
        let empty = || Matrix::Plain(PlainMatrix { n, k, float: Float::F32, bytes: Bytes::from(Vec::new()) });
        let name = |suffix: &str| format!("{module}.{suffix}");
        if !k.is_multiple_of(BLOCK) {
            self.problem(format!("`{module}` cannot be NVFP4: its {k} columns are no multiple of {BLOCK}"));
        }
        let order = name("weight_g_idx");
        if self.checkpoint.tensors.contains_key(&order) {
            self.asked.insert(order.clone());
            self.problem(format!(
                "`{order}` reorders columns, which rtts does not do: export without activation ordering"
            ));
        }
        let codes = self.exact(&codes_name, Dtype::U8, &[n, k / 2]);
        let scales = self.block_scales(&name("weight_scale"), n, k / BLOCK);
        let global = self.scale(&name(global));
        if let Some(value) = global {
            self.check_side(&name(if divides { "weight_global_scale" } else { "weight_scale_2" }), value, divides);
        }
        let input = name(input);
        let present = self.checkpoint.tensors.contains_key(&input);
        let value = if present { self.scale(&input) } else { None };
        let convention = if divides { InputScale::Divide } else { InputScale::Multiply };
        let calibrated = value.map(convention);
        if !present || calibrated.is_some() {
            self.inputs.push((input, calibrated));
        }
        match (codes, scales, global) {
            (Some(codes), Some(scales), Some(global)) => {
                let global = if divides { GlobalScale::Divide(global) } else { GlobalScale::Multiply(global) };
                Matrix::Nvfp4(Nvfp4Matrix { n, k, codes, scales, global, input: calibrated })
            }
            _ => empty(),
        }
    }

    /// Block scales `[N, K/16]`: E4M3 bytes, none of them NaN (0x7f, 0xff) or negative.
    fn block_scales(&mut self, name: &str, n: usize, blocks: usize) -> Option<Bytes> {
        let tensor = self.ask(name)?;
        if tensor.shape != [n, blocks] && is_swizzled(&tensor.shape, n, blocks) {
            let text =
                format!("shape {:?} is the swizzled form of [{n}, {blocks}], which rtts does not read", tensor.shape);
            self.find(name, tensor, text);
            return None;
        }
        let bytes = self.exact(name, Dtype::F8_E4M3, &[n, blocks])?;
        let highest = bytes.iter().fold(0, |high, &byte| byte.max(high));
        if highest >= 0x7f {
            let nan = bytes.iter().filter(|&&byte| byte & 0x7f == 0x7f).count();
            let negative = bytes.iter().filter(|&&byte| byte > 0x7f && byte != 0xff).count();
            let first = bytes.iter().position(|&byte| byte >= 0x7f).unwrap_or(0);
            let (row, column) = (first / blocks.max(1), first % blocks.max(1));
            self.find(
                name,
                tensor,
                format!("{nan} block scales are NaN and {negative} negative, the first at row {row}, block {column}"),
            );
            return None;
        }
        Some(bytes)
    }

    /// A scalar scale: F32, finite and above 0.
    fn scale(&mut self, name: &str) -> Option<f32> {
        let tensor = self.ask(name)?;
        if tensor.dtype != Dtype::F32 {
            self.find(name, tensor, format!("dtype {:?}, needed F32", tensor.dtype));
            return None;
        }
        if !(tensor.shape.is_empty() || tensor.shape == [1]) {
            self.find(name, tensor, format!("shape {:?}, needed one value", tensor.shape));
            return None;
        }
        let value = *Float::F32.decode(&tensor.bytes).first()?;
        if !value.is_finite() || value <= 0.0 {
            self.find(name, tensor, format!("the scale is {value}, needed a finite number above 0"));
            return None;
        }
        Some(value)
    }

    /// The shifted-convention test for weights; see the top of this file.
    fn check_side(&mut self, name: &str, value: f32, divides: bool) {
        if (divides && value <= 1.0) || (!divides && value >= 1.0) {
            self.problem(format!("`{name}` is {value:e}: {}", shifted(divides)));
        }
    }

    /// The shifted-convention test for inputs, and that all matrices are calibrated or none is.
    fn check_inputs(&mut self) {
        let calibrated = self.inputs.iter().filter(|(_, input)| input.is_some()).count();
        if calibrated == 0 {
            return;
        }
        let lost: Vec<String> =
            self.inputs.iter().filter(|(_, input)| input.is_none()).map(|(name, _)| name.clone()).collect();
        for name in lost {
            self.findings.push(("missing, though other matrices are calibrated for 4-bit inputs".to_owned(), name));
        }
        let wrong_side = |input: &InputScale| match *input {
            InputScale::Multiply(value) => value >= 1.0,
            InputScale::Divide(value) => value <= 1.0,
        };
        let scales: Vec<&InputScale> = self.inputs.iter().filter_map(|(_, input)| input.as_ref()).collect();
        let wrong = scales.iter().filter(|input| wrong_side(input)).count();
        if wrong * 2 > calibrated {
            let divides = matches!(scales[0], InputScale::Divide(_));
            let text = format!("{wrong} of {calibrated} input scales are implausible: {}", shifted(divides));
            self.problem(text);
        }
    }

    // ---- asking

    /// The tensor of this name; a finding where there is none.
    fn ask(&mut self, name: &str) -> Option<&'a Tensor> {
        self.asked.insert(name.to_owned());
        let tensor = self.checkpoint.tensors.get(name);
        if tensor.is_none() {
            let text = match name.rsplit_once('/') {
                Some(("audiovae", _)) if !self.checkpoint.holds("audiovae/") => {
                    "missing, as there is neither `audiovae.safetensors` nor `audiovae.pth`".to_owned()
                }
                Some((folder, _)) if !self.checkpoint.holds(&format!("{folder}/")) => {
                    format!("missing, as there is no `{folder}/model.safetensors`")
                }
                _ => "missing".to_owned(),
            };
            self.findings.push((text, name.to_owned()));
        }
        tensor
    }

    /// A tensor of F32, F16 or BF16.
    fn float(&mut self, name: &str) -> Option<(&'a Tensor, Float)> {
        let tensor = self.ask(name)?;
        let float = detect::float(tensor.dtype);
        if float.is_none() {
            self.find(name, tensor, format!("dtype {:?}, needed BF16, F16 or F32", tensor.dtype));
        }
        float.map(|float| (tensor, float))
    }

    /// The bytes of a tensor of exactly this dtype and shape.
    fn exact(&mut self, name: &str, dtype: Dtype, shape: &[usize]) -> Option<Bytes> {
        let tensor = self.ask(name)?;
        if tensor.dtype != dtype {
            self.find(name, tensor, format!("dtype {:?}, needed {dtype:?}", tensor.dtype));
            return None;
        }
        if tensor.shape != shape {
            self.misshapen(name, tensor, shape);
            return None;
        }
        Some(tensor.bytes.clone())
    }

    fn misshapen(&mut self, name: &str, tensor: &Tensor, needed: &[usize]) {
        self.find(name, tensor, format!("shape {:?}, needed {needed:?}", tensor.shape));
    }

    fn find(&mut self, name: &str, tensor: &Tensor, text: String) {
        let file = self.checkpoint.short(&tensor.place);
        self.findings.push((format!("{text} (in `{file}`)"), name.to_owned()));
    }

    // ---- reporting

    fn check_left_over(&mut self) {
        let ignored = |name: &str| {
            self.ignored.iter().any(|glob| names::fits(glob, name))
                || (!name.contains('/') && BOOKKEEPING.iter().any(|glob| names::fits(glob, name)))
        };
        let left: Vec<(String, String)> = self
            .checkpoint
            .tensors
            .iter()
            .filter(|(name, _)| !self.asked.contains(*name) && !ignored(name))
            .map(|(name, tensor)| {
                let text =
                    format!("left over, the model has no use for it (in `{}`)", self.checkpoint.short(&tensor.place));
                (text, name.clone())
            })
            .collect();
        self.findings.extend(left);
    }

    fn error(self) -> Option<Error> {
        // Tensors with the same trouble share a line; lines stand in the order in which the model asked.
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut group_of: HashMap<&str, usize> = HashMap::new();
        for (text, name) in &self.findings {
            let at = *group_of.entry(text).or_insert(groups.len());
            match groups.get_mut(at) {
                Some((_, tensors)) => tensors.push(name),
                None => groups.push((text, vec![name])),
            }
        }
        let line = |(text, tensors): (&str, Vec<&str>)| format!("{}: {text}", names::list(tensors));
        let mut lines: Vec<String> = groups.into_iter().map(line).collect();
        lines.extend(self.problems.iter().cloned());
        if lines.is_empty() {
            return None;
        }
        let more = lines.len().saturating_sub(LONGEST);
        lines.truncate(LONGEST);
        if more > 0 {
            lines.push(format!("and {more} more findings like these"));
        }
        let layout = self.checkpoint.layout();
        Some(
            Error::new(format!(
                "`{}` does not hold what a {layout} model needs:\n  {}",
                self.checkpoint.origin(),
                lines.join("\n  ")
            ))
            .hint(
                "compare with `rtts info MODEL --tensors`; if the files should be right, `rtts models verify` finds a \
                 damaged download, else export the checkpoint again",
            ),
        )
    }
}

fn shifted(divides: bool) -> &'static str {
    if divides {
        "a divisor (2688/amax) lies above 1, so this is a multiplier stored in its place (shifted global-scale convention)"
    } else {
        "a multiplier (amax/2688) lies below 1, so this is a divisor stored in its place (shifted global-scale convention)"
    }
}

/// The shapes in which scales `[N, blocks]` come when laid out in tiles of 128 × 4 for tensor cores.
fn is_swizzled(shape: &[usize], n: usize, blocks: usize) -> bool {
    let (rows, columns) = (n.div_ceil(128), blocks.div_ceil(4));
    let padded = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
    padded.is_some() && padded == rows.checked_mul(columns).and_then(|tiles| tiles.checked_mul(512))
}

/// How many values are NaN or infinite.
fn not_finite(float: Float, bytes: &[u8]) -> usize {
    if !has_full_exponent(float, bytes) {
        return 0;
    }
    float.decode(bytes).iter().filter(|value| !value.is_finite()).count()
}

/// Is any exponent all ones? Adding 1 at its lowest bit then carries into the sign bit, which was masked out; two 16-bit
/// values are tried at a time. Written so that the compiler turns it into wide instructions: it reads whole models.
fn has_full_exponent(float: Float, bytes: &[u8]) -> bool {
    let (exponent, lowest, sign) = match float {
        Float::F32 => (0x7f80_0000, 0x0080_0000, 0x8000_0000),
        Float::F16 => (0x7c00_7c00, 0x0400_0400, 0x8000_8000),
        Float::Bf16 => (0x7f80_7f80, 0x0080_0080, 0x8000_8000),
    };
    let carries = |word: u32| (word & exponent).wrapping_add(lowest) & sign;
    let words = bytes.chunks_exact(4);
    let last = words.remainder().first_chunk::<2>().map_or(0, |b| u32::from(u16::from_le_bytes(*b)));
    words.fold(carries(last), |any, b| any | carries(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))) != 0
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::checkpoint::{Packing, Source};

    fn fixture(name: &str) -> Checkpoint {
        let folder = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
        Checkpoint::open(Source::Folder(folder.into())).unwrap()
    }

    fn ask_layer(c: &mut Contract<'_>) -> Matrix {
        c.ignore("*");
        c.values("model.norm.weight", &[128]);
        c.values("stop_predictor.3.bias", &[1]);
        c.plain("model.embed_tokens.weight", 924, 128);
        c.plain("codec/quantizer.semantic_residual_vector_quantizer.output_proj.weight", 64, 16);
        c.matrix("model.layers.3.mlp.down_proj", 128, 352)
    }

    #[test]
    fn both_packings_give_matrices() {
        let bf16 = fixture("tinyaya-bf16");
        assert_eq!(bf16.packing(), Packing::Plain(Float::Bf16));
        let Matrix::Plain(plain) = bf16.contract(ask_layer).unwrap() else { panic!("plain expected") };
        assert_eq!((plain.n, plain.k, plain.float, plain.bytes.len()), (128, 352, Float::Bf16, 128 * 352 * 2));

        let nvfp4 = fixture("tinyaya-nvfp4");
        assert_eq!(nvfp4.packing(), Packing::ModeloptNvfp4);
        let Matrix::Nvfp4(packed) = nvfp4.contract(ask_layer).unwrap() else { panic!("packed expected") };
        assert_eq!((packed.codes.len(), packed.scales.len()), (128 * 352 / 2, 128 * 352 / 16));
        assert!(matches!(packed.global, GlobalScale::Multiply(s) if s > 0.0 && s < 1e-2));
        assert!(matches!(packed.input, Some(InputScale::Multiply(_))));
    }

    #[test]
    fn everything_wrong_is_in_one_error() {
        let error = fixture("tinyaya-nvfp4")
            .contract(|c| {
                c.ignore("model.*");
                c.ignore("codec/*");
                c.matrix("model.layers.0.mlp.down_proj", 128, 704);
                c.values("model.norm.weight", &[64]);
                c.plain("stop_predictor.9.weight", 1, 1);
                c.plain("audio/x", 1, 1);
                c.problem("the model's own finding".to_owned());
                c.opt_shape("model.norm.weight")
            })
            .unwrap_err();
        let text = error.to_string();
        for part in [
            "tinyaya-nvfp4` does not hold what a TinyAya model needs",
            "`model.layers.0.mlp.down_proj.weight`: shape [128, 176], needed [128, 352] (in `model.safetensors`)",
            "`model.layers.0.mlp.down_proj.weight_scale`: shape [128, 22], needed [128, 44]",
            "`model.norm.weight`: shape [128], needed [64]",
            "`stop_predictor.9.weight`: missing",
            "`audio/x`: missing, as there is no `audio/model.safetensors`",
            "the model's own finding",
            "`stop_predictor.{0,1,3}.bias`, `stop_predictor.{0,1,3}.weight` (6 in all): left over",
        ] {
            assert!(text.contains(part), "{text}\nlacks\n{part}");
        }
    }

    #[test]
    fn values_that_are_not_finite_are_counted() {
        // Every 16-bit pattern, at every place of a word and as the odd one at the end.
        for (float, finite) in [
            (Float::F16, (|bits| half::f16::from_bits(bits).is_finite()) as fn(u16) -> bool),
            (Float::Bf16, |bits| half::bf16::from_bits(bits).is_finite()),
        ] {
            for bits in 0..=u16::MAX {
                for (at, len) in [(0, 2), (1, 2), (2, 3)] {
                    let mut bytes = vec![0; len * 2];
                    bytes[at * 2..][..2].copy_from_slice(&bits.to_le_bytes());
                    assert_eq!(not_finite(float, &bytes), usize::from(!finite(bits)), "{float:?} {bits:#x} at {at}");
                }
            }
        }
        let values = [1.0, f32::MAX, f32::MIN, f32::NAN, 0.0, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN];
        for (i, value) in values.iter().enumerate() {
            assert_eq!(not_finite(Float::F32, &value.to_le_bytes()), usize::from(!value.is_finite()), "value {i}");
        }
        assert_eq!(not_finite(Float::F32, &values.map(f32::to_le_bytes).concat()), 4);
    }

    #[test]
    fn swizzled_shapes_are_told_from_wrong_ones() {
        assert!(
            is_swizzled(&[128, 8], 100, 5) && is_swizzled(&[1, 2, 32, 4, 4], 100, 5) && is_swizzled(&[1024], 100, 5)
        );
        assert!(!is_swizzled(&[100, 6], 100, 5) && !is_swizzled(&[usize::MAX, 2], 100, 5));
    }
}
