//! Which instruction set the kernels use: chosen once, at run time.
//!
//! A kernel is written once, generic over [`Lanes`](super::lanes::Lanes), and compiled once per instruction set by
//! [`kernel!`]. All of them give the same bits, so the choice is one of speed only.

use crate::error::{Error, Result};

/// An instruction set this machine has. There is no way to make one that was not detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Set);

/// The sets kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    /// AVX-512 F, BW, DQ, VL and VBMI: Ice Lake, Zen 4 and later.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2, FMA and F16C: Haswell, Zen and later.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Any machine.
    Fallback,
}

impl Isa {
    /// Every set of this machine, the fastest first.
    pub fn available() -> Vec<Self> {
        let mut sets = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 =
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi");
            if avx512 {
                sets.push(Self(Set::Avx512));
            }
            if avx2 {
                sets.push(Self(Set::Avx2));
            }
        }
        sets.push(Self(Set::Fallback));
        sets
    }

    /// The set called `name`, where this machine has it.
    pub fn named(name: &str) -> Result<Self> {
        Self::available().into_iter().find(|isa| isa.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::available().iter().map(|isa| format!("`{}`", isa.name())).collect();
            Error::usage(format!("RTTS_CPU: this machine has no instruction set `{name}`"))
                .hint(format!("leave RTTS_CPU unset, or use {}", names.join(", ")))
        })
    }

    /// What `RTTS_CPU` asks for, else the fastest.
    pub fn chosen() -> Result<Self> {
        match std::env::var("RTTS_CPU") {
            Ok(name) if !name.is_empty() => Self::named(&name),
            _ => Ok(Self::available().first().copied().unwrap_or(Self(Set::Fallback))),
        }
    }

    /// Its name in `RTTS_CPU`.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            Set::Fallback => "fallback",
        }
    }

    pub(super) fn set(self) -> Set {
        self.0
    }
}

/// Compiles one generic function for every instruction set, and picks by the [`Isa`] its first argument becomes.
///
/// `kernel! { fn f<L>(args) { body } }` makes `fn f(isa: Isa, args)`; the body names its lanes `L`.
macro_rules! kernel {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$lanes:ident>($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name(isa: $crate::compute::cpu::isa::Isa, $($arg: $ty),*) {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, clippy::extra_unused_type_parameters)]
            fn generic<$lanes: $crate::compute::cpu::lanes::Lanes>($($arg: $ty),*) $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            fn avx512($($arg: $ty),*) {
                generic::<$crate::compute::cpu::lanes::avx512::Avx512>($($arg),*);
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            fn avx2($($arg: $ty),*) {
                generic::<$crate::compute::cpu::lanes::avx2::Avx2>($($arg),*);
            }

            match isa.set() {
                // SAFETY: an `Isa` of this set exists only where its features were detected.
                #[cfg(target_arch = "x86_64")]
                $crate::compute::cpu::isa::Set::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::compute::cpu::isa::Set::Avx2 => unsafe { avx2($($arg),*) },
                $crate::compute::cpu::isa::Set::Fallback => {
                    generic::<$crate::compute::cpu::lanes::fallback::Fallback>($($arg),*);
                }
            }
        }
    };
}
pub(super) use kernel;
