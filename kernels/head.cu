// out = x W^T for up to 8 rows of x and many rows of W in bf16, K a multiple of 256: the audio head. x is the sum of two
// bfloat16 parts; sums go by parts of K as tile.cuh has them, so a row's bits depend neither on the others nor on the grid.
#include "tile.cuh"

struct Head {
    const u16* w;   // [N, K]
    const float* x; // row r at r * stride
    float* out;     // [R, N]
    u64 stride;
    u32 rows;
    u32 n;
    u32 k;
    float scale;    // of the result
};

// Grid: multiprocessors; 256 threads: warp p takes parts p, p + 8. Shared memory: 8 rows of x in both parts, [2][8][K] bf16.
extern "C" __global__ void __launch_bounds__(256, 1) head(const Head p) {
    extern __shared__ __align__(128) u8 raw[];
    __shared__ float sums[16][16][8];
    u16* staged = (u16*)raw;
    const u32 tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
    const u32 width = p.k / 256, tiles = (p.n + 15) / 16, parts = parts_of(width), chunks = p.k / 8;
    uint4 w[16];
    // 256 k of rows g and g + 8 of a tile; beyond the last row that one again.
    auto load = [&](u32 tile, u32 piece) {
        const u32 upper = tile * 16 + g < p.n ? tile * 16 + g : p.n - 1, lower = upper + 8 < p.n ? upper + 8 : p.n - 1;
        const u16 *a = p.w + (u64)upper * p.k + piece * 256 + t * 16, *b = p.w + (u64)lower * p.k + piece * 256 + t * 16;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u16* at[4] = {a + i * 64, a + i * 64 + 8, b + i * 64, b + i * 64 + 8};
#pragma unroll
            for (int j = 0; j < 4; ++j)
                asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                             : "=r"(w[i * 4 + j].x), "=r"(w[i * 4 + j].y), "=r"(w[i * 4 + j].z), "=r"(w[i * 4 + j].w) : "l"(at[j]));
        }
    };
    // The first piece of the next part that has any; `tile` beyond the last if there is none.
    u32 tile = blockIdx.x, part = warp, piece = part_begin(width, parts, warp);
    auto settle = [&]() {
        while (tile < tiles && piece == part_begin(width, parts, part + 1)) {
            part += 8;
            if (part >= parts) {
                part = warp;
                tile += gridDim.x;
            }
            piece = part_begin(width, parts, part);
        }
    };
    settle();
    if (tile < tiles) load(tile, piece);
    for (u32 i = tid; i < 8 * chunks; i += 256) {
        const u32 r = i / chunks, c = i % chunks;
        u32 lead[4] = {}, rest[4] = {};
        if (r < p.rows)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float a = p.x[r * p.stride + c * 8 + 2 * j], b = p.x[r * p.stride + c * 8 + 2 * j + 1];
                lead[j] = to_bf16x2(a, b);
                rest[j] = to_bf16x2(add(a, -__uint_as_float(lead[j] << 16)), add(b, -__uint_as_float(lead[j] & 0xffff0000u)));
            }
        u16* to = staged + (u64)r * p.k + (c ^ r) * 8;
        *(uint4*)to = make_uint4(lead[0], lead[1], lead[2], lead[3]);
        *(uint4*)(to + 8 * p.k) = make_uint4(rest[0], rest[1], rest[2], rest[3]);
    }
    __syncthreads();
    for (u32 own = blockIdx.x; own < tiles; own += gridDim.x) {
        for (u32 q = warp; q < parts; q += 8) {
            float d[4] = {};
            const u32 end = part_begin(width, parts, q + 1);
            for (u32 i = part_begin(width, parts, q); i < end; ++i) {
                uint4 now[16];
#pragma unroll
                for (int j = 0; j < 16; ++j) now[j] = w[j];
                ++piece;
                settle();
                if (tile < tiles) load(tile, piece);
#pragma unroll
                for (int k = 0; k < 4; ++k)
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                        const u16* at = staged + (u64)g * p.k + (i * 32 + k * 8 + t * 2 + h ^ g) * 8;
                        const uint4 x = *(const uint4*)at, y = *(const uint4*)(at + 8 * p.k);
                        const uint4 &a = now[k * 4 + h], &b = now[k * 4 + 2 + h];
                        mma_bf16(d, a.x, b.x, a.y, b.y, x.x, x.y);
                        mma_bf16(d, a.z, b.z, a.w, b.w, x.z, x.w);
                        mma_bf16(d, a.x, b.x, a.y, b.y, y.x, y.y);
                        mma_bf16(d, a.z, b.z, a.w, b.w, y.z, y.w);
                    }
            }
            *(float2*)&sums[q][g][2 * t] = make_float2(d[0], d[1]);
            *(float2*)&sums[q][g + 8][2 * t] = make_float2(d[2], d[3]);
        }
        __syncthreads();
        const u32 row = tid & 15, r = tid >> 4, n = own * 16 + row;
        if (r < p.rows && n < p.n) {
            const float* at = &sums[0][row][r];
            p.out[(u64)r * p.n + n] = mul(parts == 8 ? sum_parts<8>(at, 128) : sum_parts<16>(at, 128), p.scale);
        }
        __syncthreads();
    }
}
