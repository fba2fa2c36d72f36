//! The CPU backend against the conformance suite, and its own promise: the same bits on every instruction set and with
//! any number of threads.

#![allow(clippy::unwrap_used)]

mod conformance;

use conformance::Backend;
use rtts::compute::cpu::{Cpu, Isa};

fn make() -> Backend<Cpu> {
    Backend { compute: Cpu::new(Some(2)).unwrap(), tolerance: 1e-6 }
}

conformance::suite!(make);

/// The whole suite's numbers must also hold without vector instructions.
mod fallback {
    use super::*;

    fn make() -> Backend<Cpu> {
        Backend { compute: Cpu::with(Isa::named("fallback").unwrap(), Some(1)).unwrap(), tolerance: 1e-6 }
    }

    conformance::suite!(make);
}

mod bits {
    use super::*;
    use conformance::support::{Random, buffer, rows, same, whole};
    use rtts::compute::{Activations, Compute, Draw, Guidance, KvSpec, Rope, RopePairs, View};
    use rtts::matrix::{Float, Matrix};
    use rtts::nvfp4::{InputScale, dot, quantize};

    /// Every operation that computes, on sizes that leave a rest everywhere; all results in a row.
    fn everything(c: &Cpu, count: usize) -> Vec<f32> {
        let mut random = Random(51);
        let mut all = Vec::new();
        let mut out = c.buffer();
        let scale = Some(InputScale::Multiply(0.0005));
        let mut linears = Vec::new();
        for (n, k) in [(37, 96), (6, 352), (70, 1040)] {
            for float in [Float::F32, Float::Bf16, Float::F16] {
                linears.push((Matrix::Plain(random.plain(n, k, float)), k, Activations::Full));
                linears.push((Matrix::Plain(random.plain(n, k + 5, float)), k + 5, Activations::Full));
            }
            for activations in [Activations::Full, Activations::Fp4] {
                linears.push((Matrix::Nvfp4(random.nvfp4(n, k, false, scale)), k, activations));
            }
        }
        for (w, k, activations) in &linears {
            let bias = random.values(w.n());
            let x = buffer(c, &random.values(count * k), *k);
            let w = c.prepare_linear(std::slice::from_ref(w), Some(&bias), *activations).unwrap();
            c.linear(&w, whole(&x, *k), &mut out).unwrap();
            all.extend(c.read(&out).unwrap());
        }

        let cols = 3 * 83;
        let x = buffer(c, &random.values(count * cols), cols);
        let gain = c.prepare_vector(&random.values(cols)).unwrap();
        c.layer_norm(&x, &gain, Some(&gain), 1e-5, &mut out).unwrap();
        all.extend(c.read(&out).unwrap());
        for operation in [|c: &Cpu, x: &mut _| c.gelu(x).unwrap(), |c: &Cpu, x: &mut _| c.scale(x, 1.1).unwrap()] {
            let mut x = buffer(c, &random.values(count * cols), cols);
            operation(c, &mut x);
            c.add(&mut x, &out, Some(&gain)).unwrap();
            all.extend(c.read(&x).unwrap());
        }
        c.rms_norm(&x, &gain, 1e-5, &mut out).unwrap();
        all.extend(c.read(&out).unwrap());
        c.snake(&x, &gain, &mut out).unwrap();
        c.tanh(&mut out).unwrap();
        c.affine(&mut out, &gain, &gain).unwrap();
        c.silu(&mut out).unwrap();
        all.extend(c.read(&out).unwrap());
        c.finite_scalar(&mut out, 9.0).unwrap();
        all.extend(c.read(&out).unwrap());
        let view = |at| View { buffer: &x, at, width: 83 };
        c.attend_within(count, 1, view(0), view(83), view(166), &mut out).unwrap();
        all.extend(c.read(&out).unwrap());
        let v = buffer(c, &random.values(2 * count * cols), cols);
        let mut stepped = buffer(c, &random.values(count * cols), cols);
        c.guided_step(&mut stepped, &v, count, &[Guidance { cfg: 2.0, dt: 0.25 }]).unwrap();
        all.extend(c.read(&stepped).unwrap());
        c.noise(&[Draw { seed: 4, step: 2, scale: 1.5 }], count, cols, &mut out).unwrap();
        all.extend(c.read(&out).unwrap());
        c.elu(&x, &mut out).unwrap();
        all.extend(c.read(&out).unwrap());
        c.silu_mul(View { buffer: &x, at: 0, width: 100 }, View { buffer: &x, at: 120, width: 100 }, &mut out).unwrap();
        all.extend(c.read(&out).unwrap());

        let spec = KvSpec { slots: 1, kv_heads: 1, head_dim: 83, windows: vec![Some(90)], max_positions: 500 };
        let mut cache = c.kv_cache(&spec).unwrap();
        let depthwise = c.prepare_vector(&random.values(2 * 3 * cols)).unwrap();
        let mut carry = c.carry(1, 2, cols).unwrap();
        let rope = Rope::plain(10_000.0, 82, RopePairs::Interleaved);
        for step in 0..30 {
            let rows = rows(&[(0, step * count, count)]);
            let mut x = buffer(c, &random.values(count * cols), cols);
            c.rope(&mut x, 0, 2, &rope, &rows).unwrap();
            let view = |at| View { buffer: &x, at, width: 83 };
            c.attend(&mut cache, 0, view(0), view(83), view(166), &rows, &mut out).unwrap();
            all.extend(c.read(&out).unwrap());
            c.depthwise(&depthwise, None, 2, 1, &mut carry, &x, &rows, &mut out).unwrap();
            all.extend(c.read(&out).unwrap());
        }
        all
    }

    #[test]
    fn no_bit_depends_on_instruction_set_or_threads() {
        for count in 1..=9 {
            let expected = everything(&Cpu::with(Isa::named("fallback").unwrap(), Some(1)).unwrap(), count);
            for isa in Isa::available() {
                for threads in [1, 2, 3, 5] {
                    let got = everything(&Cpu::with(isa, Some(threads)).unwrap(), count);
                    same(&format!("{}, {threads} threads, {count} rows", isa.name()), &got, &expected);
                }
            }
        }
    }

    /// W4A4 sums are those of the tensor-core instruction's model.
    #[test]
    fn w4a4_is_the_host_model_bit_for_bit() {
        let mut random = Random(52);
        let scale = InputScale::Multiply(0.0007);
        for (rows, n, k) in [(1, 1, 16), (2, 19, 352), (9, 33, 64), (5, 48, 1040), (3, 16, 256), (4, 40, 512)] {
            let w = random.nvfp4(n, k, true, Some(scale));
            let x = random.values(rows * k);
            let mut expected = Vec::new();
            for x in x.chunks_exact(k) {
                let (mut codes, mut scales) = (vec![0; k / 2], vec![0; k / 16]);
                quantize::activations(x, scale, &mut codes, &mut scales);
                for n in 0..n {
                    let (w_codes, w_scales) = (&w.codes[n * k / 2..][..k / 2], &w.scales[n * k / 16..][..k / 16]);
                    let sum = dot::dot_w4a4(&codes, &scales, w_codes, w_scales, k);
                    expected.push(sum * (scale.factor() * w.global.factor()));
                }
            }
            for isa in Isa::available() {
                let c = Cpu::with(isa, Some(2)).unwrap();
                let prepared = c.prepare_linear(&[Matrix::Nvfp4(w.clone())], None, Activations::Fp4).unwrap();
                let (x, mut out) = (buffer(&c, &x, k), c.buffer());
                c.linear(&prepared, whole(&x, k), &mut out).unwrap();
                same(&format!("{}, {rows} rows of {k} to {n}", isa.name()), &c.read(&out).unwrap(), &expected);
            }
        }
    }

    /// `RTTS_CPU` names a set; a wrong name is the user's error and says what there is.
    #[test]
    fn an_unknown_instruction_set_is_a_usage_error() {
        let error = Isa::named("mmx").unwrap_err();
        assert_eq!(error.kind(), rtts::error::Kind::Usage);
        assert!(error.cure().unwrap().contains("`fallback`"));
        assert!(Cpu::new(Some(0)).is_err());
    }
}
