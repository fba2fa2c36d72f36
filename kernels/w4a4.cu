// out = x W^T with NVFP4 on both sides, any number of rows: quantisation of activations, packing, the linear.
//
// Pieces are 16 rows x 256 k and 2304 bytes as in tile.cuh, inside in the instruction's own order:
//
//   codes   [4 tiles of 64 k][32 lanes][4 words]  lane 4g + t: k = 64 tile + 8 t + 0..7 of rows g, g + 8, then k + 32 of both
//   scales  [8 g][2 halves][4 tiles][4 bytes]     of row g + 8 half, a byte for each 16 k
//
// Parts and sums are those of tile.cuh, a part one chain of instructions: with the soft body
// the sum of parts of src/nvfp4/dot.rs, bit for bit.
#include "nvf4.cuh"

// As w4a16_pack: source row i becomes row base + i / run * step + i % run. A thread a word (8 k) of codes; grid
// (ceil(k / 8 / 128), n) blocks of 128. The pieces must be zero before.
KERNEL w4a4_pack(const u8* codes, const u8* scales, u32 n, u32 k, u32 base, u32 run, u32 step, u8* pieces) {
    const u32 word = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (word >= k / 8) return;
    const u32 to = base + row / run * step + row % run, kk = word * 8;
    const u32 g = to % 8, lower = to % 16 / 8, tile = kk % 256 / 64, late = kk % 64 / 32, t = kk % 32 / 8;
    u8* piece = pieces + ((u64)(to / 16) * ((k + 255) / 256) + kk / 256) * PIECE;
    const u8* from = codes + (u64)row * (k / 2) + word * 4;
    *(u32*)(piece + tile * 512 + (4 * g + t) * 16 + (late * 2 + lower) * 4) =
        (u32)from[0] | (u32)from[1] << 8 | (u32)from[2] << 16 | (u32)from[3] << 24;
    if (word % 2 == 0) piece[2048 + ((g * 2 + lower) * 4 + tile) * 4 + kk % 64 / 16] = scales[(u64)row * (k / 16) + word / 2];
}

DEVICE u32 to_e4m3(float x) {
    const u32 bits = __float_as_uint(x) & 0x7fffffffu;
    if (bits > 0x7f800000u) return 0x7fu;
    if (bits >= 0x43e00000u) return 0x7eu;
    // Beside 2^14 a float's last bit is worth 2^-9.
    if (bits < 0x3c800000u) return __float_as_uint(add(__uint_as_float(bits), 16384.0f)) - __float_as_uint(16384.0f);
    return ((bits + 0x7ffffu + (bits >> 20 & 1u)) >> 20) - (120u << 3);
}

// To nearest, ties to the even code, saturating; NaN becomes 6; the sign stays.
DEVICE u32 to_e2m1(float x) {
    const float a = fabsf(x);
    const u32 size = a <= 0.25f ? 0u : a < 0.75f ? 1u : a <= 1.25f ? 2u : a < 1.75f ? 3u : a <= 2.5f ? 4u : a < 3.5f ? 5u : a <= 5.0f ? 6u : 7u;
    return size | (__float_as_uint(x) >> 28 & 8u);
}

// Rows of x as codes [R, K'/2] and scales [R, K'/16], K' = K rounded up to 256, zeros beyond K. The rule is that of
// src/nvfp4/quantize.rs. A thread a block of 16; grid (ceil(K' / 16 / 128), R) blocks of 128.
template <class X>
DEVICE void quantise(const X* x, u64 stride, u32 k, float gs, u8* codes, u8* scales) {
    const u32 block = blockIdx.x * blockDim.x + threadIdx.x, padded = (k + 255) / 256 * 256;
    const u64 r = blockIdx.y;
    if (block * 16 >= padded) return;
    u32 word[2] = {}, byte = 0;
    if (block * 16 < k) {
        float v[16];
        u32 top = 0;
#pragma unroll
        for (u32 i = 0; i < 16; ++i) {
            const X value = x[r * stride + block * 16 + i];
            if constexpr (sizeof(X) == 2) v[i] = from_bf16(value);
            else v[i] = value;
            const u32 bits = __float_as_uint(v[i]) & 0x7fffffffu;
            top = bits > top ? bits : top;
        }
        byte = to_e4m3(mul(gs, mul(__uint_as_float(top), 1.0f / 6.0f)));
        const float scale = ue4m3(byte);
        const float inv = scale == 0.0f ? 0.0f : over(1.0f, mul(scale, over(1.0f, gs)));
#pragma unroll
        for (u32 i = 0; i < 16; ++i) word[i / 8] |= to_e2m1(mul(v[i], inv)) << (4 * (i % 8));
    }
    *(uint2*)(codes + r * (padded / 2) + block * 8) = make_uint2(word[0], word[1]);
    scales[r * (padded / 16) + block] = (u8)byte;
}

KERNEL w4a4_quantise_f32(const float* x, u64 stride, u32 k, float gs, u8* codes, u8* scales) {
    quantise<float>(x, stride, k, gs, codes, scales);
}

KERNEL w4a4_quantise_bf16(const u16* x, u64 stride, u32 k, float gs, u8* codes, u8* scales) {
    quantise<u16>(x, stride, k, gs, codes, scales);
}

struct Linear4 {
    const u8* pieces;    // [ceil(N/16)][K'/256]
    const float* alpha;  // [N]: global scale of the weights divided by gs
    const float* bias;   // [N] or null
    const u8* codes;     // [R, K'/2]
    const u8* scales;    // [R, K'/16]
    float* out;          // [R, out_cols]
    u32 rows;            // R
    u32 n;
    u32 k;
    u32 out_cols;
};

// A block takes tiles blockIdx.x, + gridDim.x .. of 16 rows of W for COLUMNS * 8 rows of x from blockIdx.y * COLUMNS * 8 on;
// warp p takes parts p, p + 8 of K. Weights come straight from memory.
template <int COLUMNS>
DEVICE void linear4(const Linear4& p) {
    __shared__ float sums[16][COLUMNS][16][8];
    const u32 tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
    const u32 width = (p.k + 255) / 256, tiles = (p.n + 15) / 16, r0 = blockIdx.y * COLUMNS * 8, parts = parts_of(width);
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        for (u32 part = warp; part < parts; part += 8) {
            float d[COLUMNS][4] = {};
            const u32 end = part_begin(width, parts, part + 1);
            for (u32 piece = part_begin(width, parts, part); piece < end; ++piece) {
                const u8* at = p.pieces + ((u64)tile * width + piece) * PIECE;
                uint4 codes[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) codes[i] = *(const uint4*)(at + i * 512 + lane * 16);
                const uint4 words = *(const uint4*)(at + 2048 + (g * 2 + (t & 1)) * 16);
                const u32 scale[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const u32 a[4] = {codes[i].x, codes[i].y, codes[i].z, codes[i].w};
#pragma unroll
                    for (int c = 0; c < COLUMNS; ++c) {
                        const u64 r = r0 + c * 8 + g;
                        u32 b[2] = {}, s = 0;
                        if (r < p.rows) {
                            const u8* x = p.codes + r * (width * 128) + piece * 128 + i * 32 + t * 4;
                            b[0] = *(const u32*)x;
                            b[1] = *(const u32*)(x + 16);
                            s = *(const u32*)(p.scales + r * (width * 16) + piece * 16 + i * 4);
                        }
                        mma_nvf4(d[c], a, b, scale[i], s);
                    }
                }
            }
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                *(float2*)&sums[part][c][g][2 * t] = make_float2(d[c][0], d[c][1]);
                *(float2*)&sums[part][c][g + 8][2 * t] = make_float2(d[c][2], d[c][3]);
            }
        }
        __syncthreads();
        for (u32 i = tid; i < COLUMNS * 128; i += 256) {
            const u32 row = i & 15, r = i >> 4, n = tile * 16 + row;
            if (n < p.n && r0 + r < p.rows) {
                const float* at = &sums[0][r >> 3][row][r & 7];
                float v = mul(parts == 8 ? sum_parts<8>(at, COLUMNS * 128) : sum_parts<16>(at, COLUMNS * 128), p.alpha[n]);
                if (p.bias) v = add(v, p.bias[n]);
                p.out[(u64)(r0 + r) * p.out_cols + n] = v;
            }
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(256) w4a4_1(const Linear4 p) { linear4<1>(p); }
extern "C" __global__ void __launch_bounds__(256) w4a4_2(const Linear4 p) { linear4<2>(p); }
extern "C" __global__ void __launch_bounds__(256) w4a4_4(const Linear4 p) { linear4<4>(p); }
