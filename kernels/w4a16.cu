// out = x W^T with NVFP4 weights as they are and x in bf16: any number of rows; and the packing of tile.cuh.
#include "tile.cuh"

// e4m3 without a sign to five bits of exponent, three of mantissa: (e + 9) << 3 | m. Zero stays 0; the caller clears codes.
DEVICE u32 recode_scale(u32 byte) {
    const u32 e = byte >> 3 & 15u, m = byte & 7u;
    if (e) return (e + 2u) << 3 | m;  // 2^(e - 7)
    if (!m) return 0u;
    const u32 top = m >= 4u ? 2u : m >= 2u ? 1u : 0u;  // m 2^-9
    return top << 3 | ((m << (3u - top)) & 7u);
}

DEVICE u32 spread_pair(u32 code, u32 pair) {
    const u32 s = code >> 3 & 1u, e1 = code >> 2 & 1u, e0 = code >> 1 & 1u, m = code & 1u;
    if (pair == 3) return s << 11 | e1 << 10 | e0 << 14 | m << 13;
    const u32 down = 3u * pair;
    return s << (15u - down) | (code & 7u) << (6u - down);
}

// A part of a matrix into pieces. Source row i is row base + i / run * step + i % run of the pieces: run = step = 16 for
// rows as they are, run 8 and step 16 for gate (base 0) and up (base 8). codes [n, k/2], scales [n, k/16], k a multiple of
// 16. A thread a block of 16 k; grid (ceil(k / 16 / 128), n) blocks of 128. The pieces must be zero before.
KERNEL w4a16_pack(const u8* codes, const u8* scales, u32 n, u32 k, u32 base, u32 run, u32 step, u8* pieces) {
    const u32 block = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (block >= k / 16) return;
    const u32 to = base + row / run * step + row % run;
    const u32 width = (k + 255) / 256, kk = block * 16;
    u8* piece = pieces + ((u64)(to / 16) * width + kk / 256) * PIECE;
    const u32 tile = kk % 256 / 64, t = kk % 64 / 16, g = to % 8, lower = to % 16 / 8, lane = 4 * g + t;
    const u32 scale = scales[(u64)row * (k / 16) + block] & 0x7fu;
    const u8* from = codes + (u64)row * (k / 2) + block * 8;
    u32 word[2] = {0, 0};
    if (scale)
        for (u32 i = 0; i < 16; ++i) {
            const u32 code = from[i / 2] >> (4 * (i & 1)) & 15u;
            word[i / 8] |= spread_pair(code, i % 8 / 2) << (16 * (i & 1));
        }
    *(uint2*)(piece + tile * 512 + lane * 16 + lower * 8) = make_uint2(word[0], word[1]);
    piece[2048 + lane * 8 + lower * 4 + tile] = (u8)recode_scale(scale);
}

struct Linear {
    const u8* pieces;    // [ceil(N/16)][ceil(K/256)]
    const float* alpha;  // [N]: global scale times 2^16
    const float* bias;   // [N] or null
    const void* x;       // row r at r * stride values
    float* out;          // [R, out_cols]
    u64 stride;
    u32 rows;            // R
    u32 n;
    u32 k;               // a multiple of 16; x is not read beyond it
    u32 out_cols;
};

// Sixteen k of a row of x as bf16; zeros where there are none.
template <class X>
DEVICE void load_x(const X* x, bool there, uint4& low, uint4& high);

template <>
DEVICE void load_x<u16>(const u16* x, bool there, uint4& low, uint4& high) {
    low = high = make_uint4(0, 0, 0, 0);
    if (there) {
        low = *(const uint4*)x;
        high = *(const uint4*)(x + 8);
    }
}

template <>
DEVICE void load_x<float>(const float* x, bool there, uint4& low, uint4& high) {
    low = high = make_uint4(0, 0, 0, 0);
    if (there) {
        float4 a = *(const float4*)x, b = *(const float4*)(x + 4), c = *(const float4*)(x + 8), d = *(const float4*)(x + 12);
        low = make_uint4(to_bf16x2(a.x, a.y), to_bf16x2(a.z, a.w), to_bf16x2(b.x, b.y), to_bf16x2(b.z, b.w));
        high = make_uint4(to_bf16x2(c.x, c.y), to_bf16x2(c.z, c.w), to_bf16x2(d.x, d.y), to_bf16x2(d.z, d.w));
    }
}

#define LINEAR_STAGES 4

template <int COLUMNS>
struct LinearShared {
    u8 ring[8][LINEAR_STAGES][PIECE];
    float sums[16][COLUMNS][16][8];  // part, eight rows of x, row of W, row of x
    u64 barriers[8][LINEAR_STAGES];
};

// A block takes tiles blockIdx.x, + gridDim.x .. of 16 rows of W for COLUMNS * 8 rows of x from blockIdx.y * COLUMNS * 8 on;
// warp p takes part p of K.
template <int COLUMNS, class X>
DEVICE void linear(const Linear& p) {
    extern __shared__ __align__(128) u8 raw[];
    LinearShared<COLUMNS>& s = *(LinearShared<COLUMNS>*)raw;
    const u32 tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
    const u32 width = (p.k + 255) / 256, tiles = (p.n + 15) / 16, r0 = blockIdx.y * COLUMNS * 8;
    const u32 parts = parts_of(width);
    Ring<LINEAR_STAGES> ring;
    ring.start(s.ring[warp][0], s.barriers[warp]);
    // The next piece to fetch: tile by tile, of this warp's parts one after the other.
    u32 tile_ahead = blockIdx.x, part_ahead = warp, ahead = part_begin(width, parts, warp);
    auto fill = [&]() {
        while (tile_ahead < tiles && ahead == part_begin(width, parts, part_ahead + 1)) {
            part_ahead += 8;
            if (part_ahead >= parts) {
                part_ahead = warp;
                tile_ahead += gridDim.x;
            }
            ahead = part_begin(width, parts, part_ahead);
        }
        if (tile_ahead < tiles) ring.put(p.pieces + ((u64)tile_ahead * width + ahead++) * PIECE);
        else ring.put_nothing();
    };
    for (int i = 0; i < LINEAR_STAGES; ++i) fill();
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        for (u32 part = warp; part < parts; part += 8) {
            float d[COLUMNS][4] = {};
            const u32 end = part_begin(width, parts, part + 1);
            for (u32 piece = part_begin(width, parts, part); piece < end; ++piece) {
                const u8* at = ring.template take<0>();
                const uint2 scales = *(const uint2*)(at + 2048 + lane * 8);
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    const uint4 codes = *(const uint4*)(at + i * 512 + lane * 16);
                    u32 a[4][4];
                    decode_tile(codes, scale_pair(scales.x, i), scale_pair(scales.y, i), a);
                    const u32 k = piece * 256 + i * 64 + t * 16;
#pragma unroll
                    for (int c = 0; c < COLUMNS; ++c) {
                        const u32 r = r0 + c * 8 + g;
                        uint4 low, high;
                        load_x<X>((const X*)p.x + r * p.stride + k, r < p.rows && k < p.k, low, high);
                        mma_tile(d[c], a, low, high);
                    }
                }
                ring.drop();
                fill();
            }
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                *(float2*)&s.sums[part][c][g][2 * t] = make_float2(d[c][0], d[c][1]);
                *(float2*)&s.sums[part][c][g + 8][2 * t] = make_float2(d[c][2], d[c][3]);
            }
        }
        __syncthreads();
        for (u32 i = tid; i < COLUMNS * 128; i += 256) {
            const u32 row = i & 15, r = i >> 4, n = tile * 16 + row;
            if (n < p.n && r0 + r < p.rows) {
                const float* at = &s.sums[0][r >> 3][row][r & 7];
                const u32 step = COLUMNS * 128;
                float v = mul(parts == 8 ? sum_parts<8>(at, step) : sum_parts<16>(at, step), p.alpha[n]);
                if (p.bias) v = add(v, p.bias[n]);
                p.out[(u64)(r0 + r) * p.out_cols + n] = v;
            }
        }
        __syncthreads();
    }
}

#define LINEAR(C, X, NAME) \
    extern "C" __global__ void __launch_bounds__(256) w4a16_##NAME##_##C(const Linear p) { linear<C, X>(p); }

LINEAR(1, float, f32)
LINEAR(2, float, f32)
LINEAR(4, float, f32)
LINEAR(1, u16, bf16)
LINEAR(2, u16, bf16)
LINEAR(4, u16, bf16)
