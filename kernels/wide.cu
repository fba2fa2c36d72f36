// A decode step of TinyAya for more than 8 rows: four launches a layer, R up to 128 in groups of up to 48. The same sums in
// the same order as decode.cu: a row has the same bits there and here.
//
//   wide_join    x += o + down of the layer before (parts in order), norm          -> h
//   wide_input   q|k|v|gate|up of h; rotate, append; silu(gate) * up               -> q, cache, gated
//   wide_attend                                                                    -> mixed
//   wide_output  parts of down and o                                               -> parts
//
// Every launch may begin before the one before it has ended (programmatic launch): weights do not depend on it.
#include "attention.cuh"

DEVICE void begun() {
#if BULK
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Returns nothing worth: a zero that loads depend on, so that none of them is done before.
DEVICE u32 await_launch_before() {
    u32 zero;
#if BULK
    asm volatile("griddepcontrol.wait;\nmov.u32 %0, 0;" : "=r"(zero)::"memory");
#else
    asm volatile("mov.u32 %0, 0;" : "=r"(zero)::"memory");
#endif
    return zero;
}

// Past the first-level cache, and free to be moved by the compiler.
DEVICE float4 loose_4(const float* at) {
    float4 v;
    asm("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at));
    return v;
}

// Grid (R), 512 threads, four columns each. `layer` = 0: nothing to add; = layers: no norm follows.
extern "C" __global__ void __launch_bounds__(512) wide_join(const Decode p, const u32 layer) {
    __shared__ float2 stats[H / 16];
    __shared__ float2 row;
    const u32 r = blockIdx.x, tid = threadIdx.x, column = tid * 4;
    begun();
    float gain[4] = {};
    if (layer < p.count) {
        const float4 g = *(const float4*)(p.layers[layer].gain + column);
        gain[0] = g.x; gain[1] = g.y; gain[2] = g.z; gain[3] = g.w;
    }
    const u64 from = (u64)r * H + column + await_launch_before();
    const float4 old = loose_4(p.x + from);
    float x[4] = {old.x, old.y, old.z, old.w};
    if (layer) {
        const DecodeLayer& before = p.layers[layer - 1];
        const u64 step = (u64)p.rows * H;
        float down[16][4], o[8][4];
#pragma unroll
        for (int i = 0; i < 24; ++i) {
            const float4 v = loose_4(p.parts + i * step + from);
            float* to = i < 16 ? down[i] : o[i - 16];
            to[0] = v.x; to[1] = v.y; to[2] = v.z; to[3] = v.w;
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float a = mul(sum_parts<8>(&o[0][j], 4), before.alpha_o);
            const float b = mul(sum_parts<16>(&down[0][j], 4), before.alpha_down);
            x[j] = add(add(x[j], a), b);
        }
        *(float4*)(p.x + from) = make_float4(x[0], x[1], x[2], x[3]);
        // stretch_stats with four values a lane: the same pairs are added.
        float s[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) s[j] = add(x[j], __shfl_xor_sync(0xffffffffu, x[j], 2));
#pragma unroll
        for (int j = 0; j < 4; ++j) s[j] = add(s[j], __shfl_xor_sync(0xffffffffu, s[j], 1));
        const float mean = mul(add(add(s[0], s[2]), add(s[1], s[3])), 1.0f / 16.0f);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float off = add(x[j], -mean), square = mul(off, off);
            s[j] = add(square, __shfl_xor_sync(0xffffffffu, square, 2));
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) s[j] = add(s[j], __shfl_xor_sync(0xffffffffu, s[j], 1));
        if (tid % 4 == 0) {
            const float2 of = make_float2(mean, add(add(s[0], s[2]), add(s[1], s[3])));
            stats[tid / 4] = of;
            *(float2*)(p.stats + (u64)r * (H / 8) + tid / 2) = of;
        }
    } else if (tid < H / 16) {
        stats[tid] = *(const float2*)(p.stats + (u64)r * (H / 8) + tid * 2);
    }
    if (layer == p.count) return;
    __syncthreads();
    if (tid < 32) {
        float mean, by;
        row_stats(*(const uint4*)&stats[tid * 4], *(const uint4*)&stats[tid * 4 + 2], p.eps, mean, by);
        if (tid == 0) row = make_float2(mean, by);
    }
    __syncthreads();
    const float mean = row.x, by = row.y;
    u32 h[2];
#pragma unroll
    for (int j = 0; j < 2; ++j)
        h[j] = to_bf16x2(mul(mul(add(x[2 * j], -mean), by), gain[2 * j]), mul(mul(add(x[2 * j + 1], -mean), by), gain[2 * j + 1]));
    *(uint2*)(p.h + (u64)r * H + column) = make_uint2(h[0], h[1]);
}

// 256 k of rows r0 .. r0 + 8 COLUMNS of x into shared memory, 8 at a time in turns that depend on the row; a warp's work.
template <int COLUMNS>
DEVICE void stage_rows(u16* to, const u16* from, u64 stride, u32 r0, u32 rows) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll 4
    for (u32 r = 0; r < COLUMNS * 8; ++r) {
        u16* at = to + r * 256 + (lane ^ (r & 7)) * 8;
        if (r0 + r < rows) async_copy_16(shared_address(at), from + (r0 + r) * stride + lane * 8);
        else *(uint4*)at = make_uint4(0, 0, 0, 0);
    }
}

// Two tiles' codes of 64 k against the staged rows.
template <int COLUMNS>
DEVICE void multiply_tiles(const u32 (&a)[2][4][4], const u16* staged, u32 tile, float (&d)[2][COLUMNS][4]) {
    const u32 lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        const u16* row = staged + (c * 8 + g) * 256;
        const uint4 low = *(const uint4*)(row + (tile * 8 + t * 2 ^ g) * 8), high = *(const uint4*)(row + (tile * 8 + t * 2 + 1 ^ g) * 8);
#pragma unroll
        for (int i = 0; i < 2; ++i) mma_bf16(d[i][c], a[i][0][0], a[i][0][1], a[i][0][2], a[i][0][3], low.x, low.y);
#pragma unroll
        for (int i = 0; i < 2; ++i) mma_bf16(d[i][c], a[i][1][0], a[i][1][1], a[i][1][2], a[i][1][3], low.z, low.w);
#pragma unroll
        for (int i = 0; i < 2; ++i) mma_bf16(d[i][c], a[i][2][0], a[i][2][1], a[i][2][2], a[i][2][3], high.x, high.y);
#pragma unroll
        for (int i = 0; i < 2; ++i) mma_bf16(d[i][c], a[i][3][0], a[i][3][1], a[i][3][2], a[i][3][3], high.z, high.w);
    }
}

DEVICE uint4 once_16(const u8* at) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at));
    return v;
}

DEVICE uint2 once_8(const u8* at) {
    uint2 v;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(at));
    return v;
}

// Rows of W in different banks: 8 or 24 beyond a multiple of 32.
#define SUMS_LINE(C) (8 * (C) + ((C) % 2 ? 0 : 8))

template <int COLUMNS>
struct InputShared {
    u16 h[8][COLUMNS * 8][256];           // part, row
    float sums[8][16][SUMS_LINE(COLUMNS)];  // part, row of W, row
};

// Grid (SMs, ceil(R / (8 COLUMNS))), 256 threads: warp p takes part p of pairs of tiles.
template <int COLUMNS>
DEVICE void input(const Decode& p, u32 index) {
    extern __shared__ __align__(128) u8 raw[];
    InputShared<COLUMNS>& s = *(InputShared<COLUMNS>*)raw;
    const DecodeLayer& layer = p.layers[index];
    const u32 tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
    const u32 pairs = (QKV_TILES + p.inner / 8) / 2, r0 = blockIdx.y * COLUMNS * 8;
    const u32 rows = p.rows - r0 < COLUMNS * 8 ? p.rows - r0 : COLUMNS * 8;
    begun();
    uint4 codes[2][4];
    uint2 scales[2];
    auto load = [&](u32 pair) {
        if (pair >= pairs) return;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const u8* piece = layer.input + ((u64)(pair * 2 + i) * H_PIECES + warp) * PIECE;
#pragma unroll
            for (int k = 0; k < 4; ++k) codes[i][k] = once_16(piece + k * 512 + lane * 16);
            scales[i] = once_8(piece + 2048 + lane * 8);
        }
    };
    load(blockIdx.x);
    await_launch_before();
    stage_rows<COLUMNS>(s.h[warp][0], p.h + warp * 256, H, r0, p.rows);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
    for (u32 pair = blockIdx.x; pair < pairs; pair += gridDim.x) {
        float d[2][COLUMNS][4] = {};
        uint2 sc[2] = {scales[0], scales[1]};
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            u32 a[2][4][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) decode_tile(codes[i][k], scale_pair(sc[i].x, k), scale_pair(sc[i].y, k), a[i]);
            // The place is free: the same tile of the next pair.
            if (pair + gridDim.x < pairs)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const u8* piece = layer.input + ((u64)((pair + gridDim.x) * 2 + i) * H_PIECES + warp) * PIECE;
                    codes[i][k] = once_16(piece + k * 512 + lane * 16);
                    if (k == 3) scales[i] = once_8(piece + 2048 + lane * 8);
                }
            multiply_tiles<COLUMNS>(a, s.h[warp][0], k, d);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const u32 tile = pair * 2 + i;
            __syncthreads();
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                *(float2*)&s.sums[warp][g][c * 8 + 2 * t] = make_float2(d[i][c][0], d[i][c][1]);
                *(float2*)&s.sums[warp][g + 8][c * 8 + 2 * t] = make_float2(d[i][c][2], d[i][c][3]);
            }
            __syncthreads();
            constexpr u32 step = 16 * SUMS_LINE(COLUMNS);
            for (u32 j = tid; j < 8 * rows; j += 256) {
                const u32 n = j & 7, r = j >> 3;
                if (tile < QKV_TILES) {
                    const u32 row = tile * 16 + n * 2, slot = p.slot[r0 + r], position = p.position[r0 + r];
                    if (slot == DEAD) continue;
                    const float alpha = row < QW ? layer.alpha_q : row < QW + KVW ? layer.alpha_k : layer.alpha_v;
                    float a = mul(sum_parts<8>(&s.sums[0][n * 2][r], step), alpha);
                    float b = mul(sum_parts<8>(&s.sums[0][n * 2 + 1][r], step), alpha);
                    if (layer.rotates && row < QW + KVW) turned(a, b, ((const float2*)p.turns)[(u64)position * (D / 2) + row % D / 2]);
                    if (row < QW) {
                        store_query(p, r0 + r, row, a, b);
                    } else {
                        const u32 at = row - QW, values = at >= KVW;
                        u16* block = (u16*)p.table[(u64)slot * p.blocks + position / CHUNK % p.blocks] + layer.cache;
                        *(u32*)(block + (values * CHUNK + position % CHUNK) * KVW + at % KVW) = to_bf16x2(a, b);
                    }
                } else {
                    const float gate = mul(sum_parts<8>(&s.sums[0][n][r], step), layer.alpha_gate);
                    const float up = mul(sum_parts<8>(&s.sums[0][n + 8][r], step), layer.alpha_up);
                    p.gated[(u64)(r0 + r) * p.inner + (tile - QKV_TILES) * 8 + n] = to_bf16(mul(silu(gate), up));
                }
            }
        }
    }
}

// Grid (several teams a multiprocessor), 128 threads.
extern "C" __global__ void __launch_bounds__(128) wide_attend(const Decode p, const u32 layer) {
    __shared__ Attention s;
    begun();
    attend_rows(p, p.layers[layer], blockIdx.x, gridDim.x, s, []() { await_launch_before(); });
}

// Pieces of a warp's ring: what the shared memory of a target has room for.
#if __CUDA_ARCH__ == 800
#define OUTPUT_STAGES 4
#elif __CUDA_ARCH__ == 900 || (__CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200)
#define OUTPUT_STAGES 6
#else
#define OUTPUT_STAGES 2
#endif

template <int COLUMNS>
struct OutputShared {
    u16 x[4][COLUMNS * 8][256];  // pieces of this part, row; the last is of o
    u8 ring[8][OUTPUT_STAGES][PIECE];
    u64 barriers[8][OUTPUT_STAGES];
};

// Grid (128, groups), 256 threads: block 8 q + i takes part q of I, and part q / 2 of Q where q is even, for sixteen tiles
// of 16 columns of x, two a warp. A part of I has at most three pieces.
template <int COLUMNS>
DEVICE void output(const Decode& p, u32 index) {
    extern __shared__ __align__(128) u8 raw[];
    OutputShared<COLUMNS>& s = *(OutputShared<COLUMNS>*)raw;
    const DecodeLayer& layer = p.layers[index];
    const u32 tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
    const u32 part = blockIdx.x >> 3, tile = (blockIdx.x & 7) * 16 + warp * 2, r0 = blockIdx.y * COLUMNS * 8;
    const u32 pieces = p.inner / 256, begin = part_begin(pieces, 16, part), count = part_begin(pieces, 16, part + 1) - begin;
    const u32 total = count + (part % 2 == 0);
    begun();
    Ring<OUTPUT_STAGES> ring;
    ring.start(s.ring[warp][0], s.barriers[warp]);
    auto fill = [&](u32 i) {  // piece i of both tiles
#pragma unroll
        for (u32 j = 0; j < 2; ++j) {
            if (i < count) ring.put(layer.down + ((u64)(tile + j) * pieces + begin + i) * PIECE);
            else if (i < total) ring.put(layer.o + ((u64)(tile + j) * H_PIECES + part / 2) * PIECE);
            else ring.put_nothing();
        }
    };
    for (u32 i = 0; i < OUTPUT_STAGES / 2; ++i) fill(i);
    await_launch_before();
    // A warp stages every eighth row of eight of all pieces.
    for (u32 i = 0; i < total; ++i) {
        const u16* from = i < count ? p.gated + (begin + i) * 256 : p.mixed + part / 2 * 256;
        const u64 stride = i < count ? p.inner : QW;
        for (u32 r = warp; r < COLUMNS * 8; r += 8) {
            u16* at = &s.x[i < count ? i : 3][r][(lane ^ (r & 7)) * 8];
            if (r0 + r < p.rows) async_copy_16(shared_address(at), from + (r0 + r) * stride + lane * 8);
            else *(uint4*)at = make_uint4(0, 0, 0, 0);
        }
    }
#if !BULK
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    float d[2][COLUMNS][4] = {};
    auto store = [&](u32 of) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const u32 r = r0 + c * 8 + 2 * t + (j & 1);
                    if (r < p.rows) p.parts[((u64)of * p.rows + r) * H + (tile + i) * 16 + g + (j >> 1) * 8] = d[i][c][j];
                    d[i][c][j] = 0.0f;
                }
    };
    for (u32 i = 0; i < total; ++i) {
        if (i == count) store(part);
        const u8* const piece[2] = {ring.template take<0>(), ring.template take<1>()};
        const uint2 scales[2] = {*(const uint2*)(piece[0] + 2048 + lane * 8), *(const uint2*)(piece[1] + 2048 + lane * 8)};
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            u32 a[2][4][4];
#pragma unroll
            for (int j = 0; j < 2; ++j)
                decode_tile(*(const uint4*)(piece[j] + k * 512 + lane * 16), scale_pair(scales[j].x, k), scale_pair(scales[j].y, k), a[j]);
            multiply_tiles<COLUMNS>(a, s.x[i < count ? i : 3][0], k, d);
        }
        ring.drop();
        ring.drop();
        fill(i + OUTPUT_STAGES / 2);
    }
    store(total > count ? 16 + part / 2 : part);
}

#define WIDE(C)                                                                                                           \
    extern "C" __global__ void __launch_bounds__(256, 1) wide_input_##C(const Decode p, const u32 layer) { input<C>(p, layer); }   \
    extern "C" __global__ void __launch_bounds__(256, 1) wide_output_##C(const Decode p, const u32 layer) { output<C>(p, layer); } \
    extern "C" __global__ void wide_shared_bytes_##C(u32* out) {                                                          \
        out[0] = sizeof(InputShared<C>);                                                                                  \
        out[1] = sizeof(OutputShared<C>);                                                                                 \
    }

WIDE(2)
WIDE(3)
WIDE(4)
WIDE(6)
