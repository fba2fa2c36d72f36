// mma_nvf4: D (16x8, f32) += A (16x64, e2m1) B (64x8, e2m1), one ue4m3 scale a row (or column) and 16 k. Registers are those of
// mma.sync m16n8k64 kind::mxf4nvf4 scale_vec::4X with byte-id and thread-id 0. The 12.x family has the instruction; elsewhere
// a body of integer dot products does what src/nvfp4/mma.rs does, bit for bit.
#include "tile.cuh"

#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__)
#define NVF4_FAMILY __CUDA_ARCH_FAMILY_SPECIFIC__
#elif defined(__CUDA_ARCH_SPECIFIC__)
#define NVF4_FAMILY __CUDA_ARCH_SPECIFIC__
#else
#define NVF4_FAMILY 0
#endif
#if !defined(NVF4_FORCE_SOFT) && (NVF4_FAMILY == 1200 || NVF4_FAMILY == 1210)
#define NVF4_NATIVE 1
#else
#define NVF4_NATIVE 0
#endif

// Read back by the host: whether this build has the instruction.
extern "C" __constant__ const int nvf4_native = NVF4_NATIVE;

// Four codes (low 16 bits) to four signed bytes of twice their value.
DEVICE u32 doubled_bytes(u32 codes) {
    const u32 sizes = codes & 0x7777u;
    const u32 plus = __byte_perm(0x03020100u, 0x0c080604u, sizes), minus = __byte_perm(0xfdfeff00u, 0xf4f8fafcu, sizes);
    const u32 sign = __byte_perm(0x0000ff00u, 0u, codes >> 3 & 0x1111u);
    return (plus & ~sign) | (minus & sign);
}

// e4m3 without a sign; 0x7f is not a number.
DEVICE float ue4m3(u32 byte) {
    byte &= 0x7fu;
    if (byte == 0x7fu) return __uint_as_float(0x7fc00000u);
    return byte >= 8u ? __uint_as_float((byte << 20) + (120u << 23)) : (float)(int)byte * 0.001953125f;
}

// Group after group of 16 k: an exact sum of integers, the exact product of the scales, one rounding.
DEVICE void mma_nvf4_soft(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], u32 scale_a, u32 scale_b) {
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const u32 all = 0xffffffffu;
    const u32 sa0 = __shfl_sync(all, scale_a, g * 4), sa1 = __shfl_sync(all, scale_a, g * 4 + 1);
    const u32 sb0 = __shfl_sync(all, scale_b, 8 * t), sb1 = __shfl_sync(all, scale_b, 8 * t + 4);
#pragma unroll 1
    for (int group = 0; group < 4; ++group) {
        int sum[4] = {};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int from = (group * 2 + half) & 3, late = group >> 1;
            const u32 a0 = __shfl_sync(all, late ? a[2] : a[0], g * 4 + from), a1 = __shfl_sync(all, late ? a[3] : a[1], g * 4 + from);
            const u32 b0 = __shfl_sync(all, late ? b[1] : b[0], 8 * t + from), b1 = __shfl_sync(all, late ? b[1] : b[0], 8 * t + 4 + from);
#pragma unroll
            for (int w = 0; w < 32; w += 16) {
                const int x0 = doubled_bytes(a0 >> w), x1 = doubled_bytes(a1 >> w);
                const int y0 = doubled_bytes(b0 >> w), y1 = doubled_bytes(b1 >> w);
                sum[0] = __dp4a(x0, y0, sum[0]);
                sum[1] = __dp4a(x0, y1, sum[1]);
                sum[2] = __dp4a(x1, y0, sum[2]);
                sum[3] = __dp4a(x1, y1, sum[3]);
            }
        }
        const float fa0 = ue4m3(sa0 >> (8 * group)), fa1 = ue4m3(sa1 >> (8 * group));
        const float fb0 = mul(ue4m3(sb0 >> (8 * group)), 0.25f), fb1 = mul(ue4m3(sb1 >> (8 * group)), 0.25f);
        d[0] = fma_((float)sum[0], mul(fa0, fb0), d[0]);
        d[1] = fma_((float)sum[1], mul(fa0, fb1), d[1]);
        d[2] = fma_((float)sum[2], mul(fa1, fb0), d[2]);
        d[3] = fma_((float)sum[3], mul(fa1, fb1), d[3]);
    }
}

DEVICE void mma_nvf4(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], u32 scale_a, u32 scale_b) {
#if NVF4_NATIVE
    const u16 first = 0;
    asm volatile(
        "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, {%10}, {%12,%12}, {%11}, {%12,%12};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(scale_a), "r"(scale_b), "h"(first));
#else
    mma_nvf4_soft(d, a, b, scale_a, scale_b);
#endif
}
