// out = x W^T * alpha + bias for weights in planes of bfloat16 (pack.cu), any number of rows.
//
// Weights are the 16-row operand of the tensor-core instruction, rows of x its 8-wide side. Both go in as sums of
// bfloat16: x in two parts, W in one or two, so that a product is right to about 2^-16, and what is summed is f32. The
// order of every sum is fixed by K and N alone: a row's result does not depend on the rows beside it.
//
// A lane takes 8 consecutive k of a row, 16 bytes, as two of the instruction's k pairs: which k is which does not matter
// as long as both operands agree.
#include "base.cuh"

DEVICE void mma(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

DEVICE uint4 weights(const u16* at) {
    uint4 w;
    asm("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(at));
    return w;
}

struct Gemm {
    const u16* high;     // [N, padded]
    const u16* low;      // [N, padded] or null
    const float* x;      // row r begins at (first ? first[r] : r) * stride
    const u32* first;    // [R] or null
    const float* alpha;  // [N] or null
    const float* bias;   // [N] or null
    float* out;          // [R, out_cols], N columns of it
    u64 stride;
    u32 rows;
    u32 n;
    u32 k;
    u32 padded;          // a multiple of 128
    u32 out_cols;
};

// NT: tiles of 8 rows of x in a block; KS: warps that share a sum; PLANES of W. A block has 8 warps, each takes 16 rows
// of W over its part of every chunk of k.
template <int NT, int KS, int PLANES>
DEVICE void gemm(const Gemm& p) {
    constexpr int PART = KS == 1 ? 64 : 32;  // k of a warp in a chunk
    constexpr int CHUNK = PART * KS;
    constexpr int LINE = CHUNK + 32;         // of shared memory: 16-byte loads of 8 lanes fall into different banks
    constexpr int GROUPS = PART / 32;
    constexpr int PAIRS = NT * 8 * CHUNK / 2 / 256;
    __shared__ __align__(16) u16 shared[2][2][NT * 8][LINE];  // buffer, part, row, k

    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int share = warp % KS;
    const u32 n0 = (blockIdx.y * (8 / KS) + warp / KS) * 16;
    const u32 r0 = blockIdx.x * (NT * 8);
    // Beyond the last row of W its last one is read, and the result left.
    const u32 upper = n0 + g < p.n ? n0 + g : p.n - 1, lower = n0 + g + 8 < p.n ? n0 + g + 8 : p.n - 1;
    const u64 at[2] = {(u64)upper * p.padded + share * PART + t * 8, (u64)lower * p.padded + share * PART + t * 8};

    float sums[NT][4] = {};
    uint4 w[GROUPS][2][PLANES];
    float x[PAIRS][2];

    auto load = [&](u32 k0) {
#pragma unroll
        for (int i = 0; i < GROUPS; ++i)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                w[i][h][0] = weights(p.high + at[h] + k0 + i * 32);
                if (PLANES == 2) w[i][h][PLANES - 1] = weights(p.low + at[h] + k0 + i * 32);
            }
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            const int pair = threadIdx.x + i * 256;
            const u32 r = r0 + pair / (CHUNK / 2), k = k0 + pair % (CHUNK / 2) * 2;
            x[i][0] = x[i][1] = 0.0f;
            if (r < p.rows) {
                const float* row = p.x + (p.first ? p.first[r] : r) * p.stride;
                if (k < p.k) x[i][0] = row[k];
                if (k + 1 < p.k) x[i][1] = row[k + 1];
            }
        }
    };
    auto put = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            const int pair = threadIdx.x + i * 256;
            const int r = pair / (CHUNK / 2), k = pair % (CHUNK / 2) * 2;
            const u32 high = to_bf16x2(x[i][0], x[i][1]);
            const float a = add(x[i][0], -__uint_as_float(high << 16));
            const float b = add(x[i][1], -__uint_as_float(high & 0xffff0000u));
            *(u32*)&shared[buffer][0][r][k] = high;
            *(u32*)&shared[buffer][1][r][k] = to_bf16x2(a, b);
        }
    };

    load(0);
    put(0);
    __syncthreads();
    int buffer = 0;
    for (u32 k0 = 0; k0 < p.padded; k0 += CHUNK) {
        uint4 now[GROUPS][2][PLANES];
#pragma unroll
        for (int i = 0; i < GROUPS; ++i)
#pragma unroll
            for (int h = 0; h < 2; ++h)
#pragma unroll
                for (int plane = 0; plane < PLANES; ++plane) now[i][h][plane] = w[i][h][plane];
        const bool more = k0 + CHUNK < p.padded;
        if (more) load(k0 + CHUNK);
#pragma unroll
        for (int i = 0; i < GROUPS; ++i)
#pragma unroll
            for (int tile = 0; tile < NT; ++tile) {
                const u16* place = &shared[buffer][0][tile * 8 + g][share * PART + i * 32 + t * 8];
                const uint4 high = *(const uint4*)place;
                const uint4 low = *(const uint4*)(place + NT * 8 * LINE);
                const uint4 &a = now[i][0][0], &b = now[i][1][0];
                mma(sums[tile], a.x, b.x, a.y, b.y, high.x, high.y);
                mma(sums[tile], a.z, b.z, a.w, b.w, high.z, high.w);
                mma(sums[tile], a.x, b.x, a.y, b.y, low.x, low.y);
                mma(sums[tile], a.z, b.z, a.w, b.w, low.z, low.w);
                if (PLANES == 2) {
                    const uint4 &c = now[i][0][PLANES - 1], &d = now[i][1][PLANES - 1];
                    mma(sums[tile], c.x, d.x, c.y, d.y, high.x, high.y);
                    mma(sums[tile], c.z, d.z, c.w, d.w, high.z, high.w);
                }
            }
        if (more) put(buffer ^ 1);
        __syncthreads();
        buffer ^= 1;
    }

    if (KS > 1) {
        // The warps of a sum in order, through shared memory: [warps][tiles][lanes][4]
        float* partial = (float*)shared;
#pragma unroll
        for (int tile = 0; tile < NT; ++tile)
#pragma unroll
            for (int j = 0; j < 4; ++j) partial[((warp * NT + tile) * 32 + lane) * 4 + j] = sums[tile][j];
        __syncthreads();
        if (share != 0) return;
#pragma unroll
        for (int tile = 0; tile < NT; ++tile)
#pragma unroll
            for (int j = 0; j < 4; ++j)
#pragma unroll
                for (int other = 1; other < KS; ++other)
                    sums[tile][j] = add(sums[tile][j], partial[(((warp + other) * NT + tile) * 32 + lane) * 4 + j]);
    }

#pragma unroll
    for (int tile = 0; tile < NT; ++tile)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const u32 n = n0 + g + (j >> 1) * 8, r = r0 + tile * 8 + t * 2 + (j & 1);
            if (n < p.n && r < p.rows) {
                float value = sums[tile][j];
                if (p.alpha) value = mul(value, p.alpha[n]);
                if (p.bias) value = add(value, p.bias[n]);
                p.out[(u64)r * p.out_cols + n] = value;
            }
        }
}

#define GEMM(NT, KS, PLANES) \
    extern "C" __global__ void __launch_bounds__(256, 1) gemm_##NT##_##KS##_##PLANES(const Gemm p) { gemm<NT, KS, PLANES>(p); }

GEMM(1, 1, 1)
GEMM(4, 1, 1)
GEMM(8, 1, 1)
GEMM(1, 4, 1)
GEMM(4, 4, 1)
GEMM(1, 1, 2)
GEMM(4, 1, 2)
GEMM(8, 1, 2)
GEMM(1, 4, 2)
GEMM(4, 4, 2)
