//! Random numbers that belong to a request: a counter-based generator (Philox4x32-10, Salmon et al. 2011),
//! keyed by the request's seed and addressed by (step, purpose, index). The same on every backend, whatever the batch.

/// What a random number is for; different purposes never share numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Choosing a token.
    Token = 1,
    /// Noise that a solver starts from.
    Noise = 2,
}

/// Four random words for (seed, step, purpose, index).
pub fn words(seed: u64, step: u32, purpose: Purpose, index: u32) -> [u32; 4] {
    let mut counter = [index, step, purpose as u32, 0];
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let a = u64::from(counter[0]) * 0xD251_1F53;
        let b = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [(b >> 32) as u32 ^ counter[1] ^ key[0], b as u32, (a >> 32) as u32 ^ counter[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// A uniform number in [0, 1) with 24 random bits, exact in f32 and f64.
pub fn uniform(seed: u64, step: u32, purpose: Purpose) -> f32 {
    (words(seed, step, purpose, 0)[0] >> 8) as f32 * (1.0 / 16_777_216.0)
}
