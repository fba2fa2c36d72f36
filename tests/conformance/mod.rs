//! What every backend must do, operation by operation, against plain f64 code, and what it must keep: a row's result
//! does not depend on the other rows, a stream's not on how it is cut, a slot's not on other slots.
//!
//! A backend's test file says `conformance::suite!(make)`, with `make() -> Backend<C>`, or runs `conformance::suite!(list)`.

#![allow(clippy::unwrap_used, dead_code)]

pub mod attention;
pub mod convolution;
pub mod linear;
pub mod rows;
pub mod sampling;
pub mod solver;
pub mod support;
pub mod within;

/// A backend under test.
pub struct Backend<C> {
    /// It.
    pub compute: C,
    /// How far results may be from the exact ones, relative to the size of what was summed. About 1e-6 for f32, and more
    /// for a backend that stores activations in fewer bits.
    pub tolerance: f64,
}

/// All checks: `suite!(make)` makes a test of each; `suite!(list)` is `(name, function)` of each, for a harness of its own.
macro_rules! suite {
    (list) => {
        conformance::suite!(@list)
    };
    ($make:ident) => {
        conformance::suite!(@tests $make);
    };
    (@$what:ident $($make:ident)?) => {
        conformance::suite! { @$what $($make)?:
            linear { plain, nvfp4, stacked, columns, fp4, fp4_with_different_scales, rows_do_not_depend_on_each_other, faults },
            rows {
                embed, layer_norm, rms_norm, rope, long_rope, silu_mul, silu_alone, tanh, finite_scalar, snake, affine, gelu,
                elu, add, scale, unfold, fold, blank_and_scatter, join, gather, read_and_write,
            },
            attention { exact, windows, chunks, slots, long, order },
            convolution { convolves, depthwise, transposed, chunks, slots, quantised },
            within { exact, groups },
            solver { replays, distribution, guided },
            sampling { greedy, replays, distribution },
        }
    };
    (@tests $make:ident: $($area:ident { $($check:ident),* $(,)? }),* $(,)?) => {
        $(mod $area {
            $(#[test]
            fn $check() {
                crate::conformance::$area::$check(&super::$make());
            })*
        })*
    };
    (@list: $($area:ident { $($check:ident),* $(,)? }),* $(,)?) => {
        [$($((concat!(stringify!($area), "::", stringify!($check)), conformance::$area::$check as fn(&_)),)*)*]
    };
}
pub(crate) use suite;
