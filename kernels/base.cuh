// What every kernel file shares: types, rounding to bfloat16, elementary functions, random words, reductions.
// The elementary functions are those of src/compute/cpu/math.rs, operation by operation, so that the results are the
// CPU's bit for bit; __fmul_rn and __fadd_rn stand where the compiler might otherwise contract.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE __device__ __forceinline__
#define KERNEL extern "C" __global__ void

// One row of a call: its slot, its position, and the segment of the call it belongs to.
struct Place {
    u32 slot;
    u32 position;
    u32 first;  // row of the call where the segment begins
    u32 start;  // position of that row
    u32 end;    // position after the segment's last row
};

DEVICE float from_bf16(u16 bits) { return __uint_as_float((u32)bits << 16); }

// To nearest, ties to even; NaN stays NaN.
DEVICE u16 to_bf16(float x) {
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (u16)((bits >> 16) | 0x40u);
    return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Two of them in one word, the first in the low half.
DEVICE u32 to_bf16x2(float low, float high) {
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

DEVICE float from_f16(u16 bits) {
    float x;
    asm("{.reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h;}" : "=f"(x) : "h"(bits));
    return x;
}

DEVICE float mul(float a, float b) { return __fmul_rn(a, b); }
DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
DEVICE float fma_(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE float over(float a, float b) { return __fdiv_rn(a, b); }

#define ROUND 12582912.0f
#define LN_2_HIGH 0.693359375f
#define LN_2_LOW -2.1219444e-4f

// e^r - 1 for |r| <= ln 2 / 2
DEVICE float exp_m1_near(float r) {
    float p = 0.0013934545f;
    p = fma_(p, r, 0.008363777f);
    p = fma_(p, r, 0.041666456f);
    p = fma_(p, r, 0.16666573f);
    p = fma_(p, r, 0.5f);
    return fma_(mul(r, r), p, r);
}

// x = n ln 2 + r; returns r and leaves n.
DEVICE float reduce(float x, int& n) {
    float rounded = fma_(x, 1.44269504088896340736f, ROUND);
    float whole = add(rounded, -ROUND);
    n = (int)(__float_as_uint(rounded) - __float_as_uint(ROUND));
    return fma_(whole, -LN_2_LOW, fma_(whole, -LN_2_HIGH, x));
}

DEVICE float power(int n) { return __uint_as_float((u32)(n + 127) << 23); }

DEVICE float exp_(float x) {
    x = x < -110.0f ? -110.0f : x;
    x = x > 90.0f ? 90.0f : x;
    int n;
    float r = reduce(x, n);
    int half = n >> 1;
    return mul(mul(add(1.0f, exp_m1_near(r)), power(half)), power(n - half));
}

// e^x - 1 for x <= 0
DEVICE float exp_m1_negative(float x) {
    x = x < -30.0f ? -30.0f : x;
    x = x > 0.0f ? 0.0f : x;
    int n;
    float r = reduce(x, n);
    float scale = power(n);
    return fma_(exp_m1_near(r), scale, add(scale, -1.0f));
}

DEVICE float elu(float x) { return x > 0.0f ? x : exp_m1_negative(x); }

DEVICE float silu(float x) { return over(x, add(1.0f, exp_(-x))); }

DEVICE float erfc_(float a) {
    float t = over(1.0f, fma_(a, 0.5f, 1.0f));
    float p = 0.14493021f;
    p = fma_(p, t, -0.6808272f);
    p = fma_(p, t, 1.1567338f);
    p = fma_(p, t, -0.69625187f);
    p = fma_(p, t, -0.08028043f);
    p = fma_(p, t, 0.0012675864f);
    p = fma_(p, t, 0.0346028f);
    p = fma_(p, t, 0.3866404f);
    p = fma_(p, t, 0.9986328f);
    p = fma_(p, t, -1.265448f);
    return mul(t, exp_(fma_(a, -a, p)));
}

DEVICE float gelu(float z) {
    float a = mul(z, 0.70710678118654752440f);
    float tail = erfc_(fabsf(a));
    float twice = a < 0.0f ? tail : add(2.0f, -tail);
    return mul(mul(0.5f, z), twice);
}

DEVICE float tanh_(float x) {
    float below = exp_m1_negative(mul(-2.0f, fabsf(x)));
    return copysignf(over(-below, add(below, 2.0f)), x);
}

// Absolutely accurate to a unit of 1's last place for |x| up to 1e5.
DEVICE float sin_(float x) {
    float rounded = fma_(x, 0.31830988618379067154f, ROUND);
    float n = add(rounded, -ROUND);
    float r = fma_(n, -1.509958e-7f, fma_(n, -9.675026e-4f, fma_(n, -3.140625f, x)));
    float s = mul(r, r);
    float p = -2.3841988e-8f;
    p = fma_(p, s, 2.7522303e-6f);
    p = fma_(p, s, -1.9840797e-4f);
    p = fma_(p, s, 8.33333e-3f);
    p = fma_(p, s, -0.16666667f);
    float sin = fma_(mul(r, s), p, r);
    return __uint_as_float(__float_as_uint(sin) ^ (__float_as_uint(rounded) << 31));
}

// ln x for x in [2^-24, 1]
DEVICE float ln_(float x) {
    u32 bits = __float_as_uint(x);
    int e = (int)(bits - 0x3f3504f3u) >> 23;
    float m = __uint_as_float(bits - ((u32)e << 23));
    float z = over(add(m, -1.0f), add(m, 1.0f));
    float s = mul(z, z);
    float p = 0.23255804f;
    p = fma_(p, s, 0.2855367f);
    p = fma_(p, s, 0.40000096f);
    p = fma_(p, s, 0.6666667f);
    float whole = (float)e;
    float near = fma_(mul(z, s), p, mul(2.0f, z));
    return fma_(whole, LN_2_HIGH, fma_(whole, LN_2_LOW, near));
}

// Sine and cosine of an f32 angle, computed in f64.
DEVICE void sin_cos(float angle, float& sine, float& cosine) {
    double x = (double)angle;
    double n = rint(__dmul_rn(x, 0.63661977236758134308));
    double r = __dadd_rn(__dadd_rn(x, -__dmul_rn(n, 1.5707963267341256)), -__dmul_rn(n, 6.077100506506192e-11));
    double s = __dmul_rn(r, r);
    double p = __dadd_rn(-1.0 / 39916800.0, __ddiv_rn(s, 6227020800.0));
    p = __dadd_rn(1.0 / 362880.0, __dmul_rn(s, p));
    p = __dadd_rn(-1.0 / 5040.0, __dmul_rn(s, p));
    p = __dadd_rn(1.0 / 120.0, __dmul_rn(s, p));
    p = __dadd_rn(-1.0 / 6.0, __dmul_rn(s, p));
    double sin = __dmul_rn(r, __dadd_rn(1.0, __dmul_rn(s, p)));
    double q = __dadd_rn(-1.0 / 3628800.0, __ddiv_rn(s, 479001600.0));
    q = __dadd_rn(1.0 / 40320.0, __dmul_rn(s, q));
    q = __dadd_rn(-1.0 / 720.0, __dmul_rn(s, q));
    q = __dadd_rn(1.0 / 24.0, __dmul_rn(s, q));
    q = __dadd_rn(-0.5, __dmul_rn(s, q));
    double cos = __dadd_rn(1.0, __dmul_rn(s, q));
    switch ((int)(long long)n & 3) {
        case 0: sine = (float)sin; cosine = (float)cos; break;
        case 1: sine = (float)cos; cosine = (float)-sin; break;
        case 2: sine = (float)-sin; cosine = (float)-cos; break;
        default: sine = (float)-cos; cosine = (float)sin;
    }
}

// Philox4x32-10: four random words for (seed, step, purpose, index), as src/compute/random.rs.
DEVICE void random_words(u64 seed, u32 step, u32 purpose, u32 index, u32 (&out)[4]) {
    u32 c0 = index, c1 = step, c2 = purpose, c3 = 0;
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    for (int i = 0; i < 10; ++i) {
        u32 a_high = __umulhi(c0, 0xD2511F53u), a_low = c0 * 0xD2511F53u;
        u32 b_high = __umulhi(c2, 0xCD9E8D57u), b_low = c2 * 0xCD9E8D57u;
        u32 n0 = b_high ^ c1 ^ k0, n2 = a_high ^ c3 ^ k1;
        c0 = n0; c1 = b_low; c2 = n2; c3 = a_low;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0; out[1] = c1; out[2] = c2; out[3] = c3;
}

#define PURPOSE_TOKEN 1u
#define PURPOSE_NOISE 2u

// The sum over a warp, the same in every lane and always added in the same order.
DEVICE float warp_sum(float x) {
#pragma unroll
    for (int away = 16; away > 0; away >>= 1) x = add(x, __shfl_xor_sync(0xffffffffu, x, away));
    return x;
}

DEVICE float warp_max(float x) {
#pragma unroll
    for (int away = 16; away > 0; away >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, away));
    return x;
}

// The sum over a block of 256 threads, the same in every thread. `shared` has 8 places.
DEVICE float block_sum(float x, float* shared) {
    x = warp_sum(x);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = x;
    __syncthreads();
    float sum = shared[0];
#pragma unroll
    for (int i = 1; i < 8; ++i) sum = add(sum, shared[i]);
    return sum;
}
