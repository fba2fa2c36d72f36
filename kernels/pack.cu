// Weights as the checkpoint holds them become planes of bfloat16, once at load: a value is the sum of its planes. Rows
// are padded with zeros to `padded` columns. And activations through NVFP4 and back, for W4A4.
#include "base.cuh"

#define FLOAT_F32 0u
#define FLOAT_F16 1u
#define FLOAT_BF16 2u

// A block a row; raw [rows, cols] of `kind`; the second plane is null where one is enough (bfloat16).
KERNEL pack_plain(const void* raw, u32 kind, u32 cols, u32 padded, u16* high, u16* low) {
    u64 r = blockIdx.x;
    for (u32 c = threadIdx.x; c < padded; c += blockDim.x) {
        float x = 0.0f;
        if (c < cols) {
            u64 at = r * cols + c;
            x = kind == FLOAT_F32   ? ((const float*)raw)[at]
                : kind == FLOAT_F16 ? from_f16(((const u16*)raw)[at])
                                    : from_bf16(((const u16*)raw)[at]);
        }
        u16 h = to_bf16(x);
        high[r * padded + c] = h;
        if (low) low[r * padded + c] = to_bf16(add(x, -from_bf16(h)));
    }
}

DEVICE float e2m1(u32 code) {
    u32 size = code & 7u;
    float x = size < 2u ? 0.5f * (float)size : __uint_as_float(((size >> 1) + 126u) << 23 | (size & 1u) << 22);
    return code & 8u ? -x : x;
}

DEVICE float e4m3(u32 byte) {
    if (byte == 0x7fu) return __uint_as_float(0x7fc00000u);
    return byte >= 8u ? __uint_as_float((byte << 20) + (120u << 23)) : (float)byte * (1.0f / 512.0f);
}

// A block a row; codes [rows, cols / 2], scales [rows, cols / 16]. The global scale stays out: the products are exact.
KERNEL pack_nvfp4(const u8* codes, const u8* scales, u32 cols, u32 padded, u16* high) {
    u64 r = blockIdx.x;
    for (u32 c = threadIdx.x; c < padded; c += blockDim.x) {
        float x = 0.0f;
        if (c < cols) {
            u32 byte = codes[r * (cols / 2) + c / 2];
            x = mul(e2m1(c & 1u ? byte >> 4 : byte & 15u), e4m3(scales[r * (cols / 16) + c / 16]));
        }
        high[r * padded + c] = to_bf16(x);
    }
}

// A table row as f32. A block a row.
KERNEL pack_f32(const void* raw, u32 kind, u32 cols, float* out) {
    u64 r = blockIdx.x;
    for (u32 c = threadIdx.x; c < cols; c += blockDim.x) {
        u64 at = r * cols + c;
        out[at] = kind == FLOAT_F32   ? ((const float*)raw)[at]
                  : kind == FLOAT_F16 ? from_f16(((const u16*)raw)[at])
                                      : from_bf16(((const u16*)raw)[at]);
    }
}

DEVICE u32 to_e4m3(float x) {
    u32 bits = __float_as_uint(x) & 0x7fffffffu;
    if (bits > 0x7f800000u) return 0x7fu;
    if (bits >= 0x43e00000u) return 0x7eu;
    // Beside 2^14 a float's last bit is worth 2^-9.
    if (bits < 0x3c800000u) return __float_as_uint(add(__uint_as_float(bits), 16384.0f)) - __float_as_uint(16384.0f);
    return ((bits + 0x7ffffu + ((bits >> 20) & 1u)) >> 20) - (120u << 3);
}

// To nearest, ties to the even code, saturating; NaN becomes 6.
DEVICE float through_e2m1(float x) {
    float a = fabsf(x);
    float y = a <= 0.25f ? 0.0f : a < 0.75f ? 0.5f : a <= 1.25f ? 1.0f : a < 1.75f ? 1.5f : a <= 2.5f ? 2.0f
              : a < 3.5f ? 3.0f : a <= 5.0f ? 4.0f : 6.0f;
    return copysignf(y, x);
}

// out [R, K] = e2m1 * e4m3 of every value: what 4-bit activations stand for, times gs. The rule is that of
// src/nvfp4/quantize.rs. A thread a block of 16; grid (blocks, R); row r of x begins at (first ? first[r] : r) * stride.
KERNEL through_fp4(const float* x, const u32* first, u64 stride, u32 k, float gs, float* out) {
    u32 block = blockIdx.x * blockDim.x + threadIdx.x;
    if (block * 16 >= k) return;
    u64 r = blockIdx.y;
    x += (first ? first[r] : r) * stride + block * 16;
    out += r * k + block * 16;
    u32 top = 0;
    for (int i = 0; i < 16; ++i) {
        u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        top = bits > top ? bits : top;
    }
    u32 byte = to_e4m3(mul(gs, mul(__uint_as_float(top), 1.0f / 6.0f)));
    float scale = e4m3(byte);
    float inv = scale == 0.0f ? 0.0f : over(1.0f, mul(scale, over(1.0f, gs)));
    for (int i = 0; i < 16; ++i) out[i] = mul(through_e2m1(mul(x[i], inv)), scale);
}
