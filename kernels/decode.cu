// All layers of a decode step in one launch: up to 8 rows, a block a multiprocessor that stays.
//
//   x -> norm -> q|k|v, gate, up -> rotate, append -> attend   (beside gate and up)
//                                -> silu(gate) * up -> down, o -> x
//
// Sixteen warps of a block multiply: warp 2p + i takes part p of H for every second of the block's tiles of 16 output rows,
// beginning with the i-th; then part 2p + i of I, and with i = 0 part p of Q, for the tile of x that is the block's. What they
// have of a tile goes through a slot of shared memory to three warps that finish it. One warp fetches weights in the order
// they are used, a belt of boxes that runs ahead of every wait, from layer to layer, so that memory is not idle while blocks
// join; few boxes are on their way at a time, or everything else would queue behind them. Four warps attend. Blocks join
// through counters that only grow.
#include "attention.cuh"

#define MULTIPLIERS 512
#define BOX (8 * PIECE)
#define SLOTS 12  // of sums of a tile
// Boxes of the belt; how many of them may be on their way.
#if __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || (__CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200)
#define BOXES (__CUDA_ARCH__ == 800 ? 4 : 6)
#else
#define BOXES 2  // 99 KB of shared memory
#endif
#ifndef FLYING
#define FLYING (2)
#endif
#define H_LINE (256 + 8)  // bf16: a row of a part of the normed x, so that 16-byte loads meet different banks

struct Shared {
    u8 belt[BOXES][BOX];
    union {
        float sums[SLOTS][8][16][8];  // slot, part, row, column
        u16 normed[8][8][H_LINE];     // part of the columns, row; before the tiles
        struct {
            float down[16][16][8];    // part, row, column; after the tiles
            float o[8][16][8];
            u16 mixed[8][8][256];     // part, row, columns in turns of 8 that depend on the row
        };
    };
    Attention attention;
    float2 turns[8][D / 2];             // of each row's position
    u64 block[8];                       // of the cache, where each row's position lies; 0 = DEAD
    u32 place[8];                       // in it, in values
    float2 stats[8];                    // of each row of x: mean, 1 / deviation
    u64 full[BOXES], empty[BOXES];
    u64 summed[SLOTS], taken[SLOTS], staged;
};

extern "C" __global__ void decode_shared_bytes(u32* out) { *out = sizeof(Shared); }

// Before the layers: x = table[ids] with its stats, and the counters at zero. Grid (R), 256 threads; table bf16 [V, H].
KERNEL decode_begin(const u16* table, const u32* ids, float* x, float* stats, u32* counters, u32 count) {
    const u64 r = blockIdx.x;
#pragma unroll
    for (u32 i = threadIdx.x; i < H; i += 256) {
        const float v = from_bf16(table[(u64)ids[r] * H + i]);
        const float2 of = stretch_stats(v);
        x[r * H + i] = v;
        if (i % 16 == 0) *(float2*)(stats + r * (H / 8) + i / 8) = of;
    }
    if (r == 0)
        for (u32 i = threadIdx.x; i < count; i += 256) counters[i] = 0;
}

// Boxes are numbered from the first layer on; number n is in place n % BOXES. A layer of this block is: a box for each of
// its tiles of q|k|v|gate|up; then for each of its tiles of x the boxes of down, the last one partly filled, and one of o.
struct Belt {
    u32 tiles, owned, down;  // of this block: boxes of the first kind, tiles of x; boxes of a tile of down

    DEVICE Belt(const Decode& p) {
        const u32 all = QKV_TILES + p.inner / 8;
        tiles = blockIdx.x < all ? (all - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
        owned = blockIdx.x < H / 16 ? (H / 16 - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
        down = (p.inner / 256 + 7) / 8;
    }
    DEVICE u32 layer() const { return tiles + owned * (down + 1); }
};

// The piece `index` of box `box`, once it is there.
DEVICE const u8* piece_of(const Shared& s, u32 box, u32 index) {
    const u32 place = box % BOXES;
    barrier_wait(shared_address(&s.full[place]), box / BOXES & 1);
    return s.belt[place] + index * PIECE;
}

// A warp has read its piece of `box`. The copy engine, which fills the place again, is told in its own terms.
DEVICE void drop_piece(Shared& s, u32 box) {
    copy_engine_after();
    __syncwarp();
    if ((threadIdx.x & 31) == 0) barrier_arrive(shared_address(&s.empty[box % BOXES]));
}

// The warp that fetches.
DEVICE void fetch(const Decode& p, Shared& s) {
    const Belt belt(p);
    const u32 pieces = p.inner / 256, lane = threadIdx.x & 31;
    const u64 policy = read_once();
    u32 box = 0;
    auto put = [&](const u8* from, u32 count) {
        const u32 place = box % BOXES;
        if (box >= BOXES) barrier_wait(shared_address(&s.empty[place]), box / BOXES + 1 & 1);
        if (box >= FLYING) barrier_wait(shared_address(&s.full[(box - FLYING) % BOXES]), (box - FLYING) / BOXES & 1);
        const u32 full = shared_address(&s.full[place]);
#if BULK
        if (lane == 0) {
            bulk_copy(shared_address(s.belt[place]), from, count * PIECE, full, policy);
        }
#else
        for (u32 i = lane; i < count * (PIECE / 16); i += 32) async_copy_16(shared_address(s.belt[place]) + 16 * i, from + 16 * i);
        async_copies_arrive(full);
#endif
        // Nobody takes the pieces that a box lacks.
        if (lane == 0)
            for (u32 i = count; i < 8; ++i) barrier_arrive(shared_address(&s.empty[place]));
        ++box;
    };
    for (u32 l = 0; l < p.count; ++l) {
        const DecodeLayer& layer = p.layers[l];
        const u8 *input = layer.input, *down = layer.down, *o = layer.o;
        // What the others will look at first.
        if (lane < 3) asm volatile("prefetch.global.L1 [%0];" ::"l"((const u8*)&layer + lane * 32));
        asm volatile("prefetch.global.L2 [%0];" ::"l"(layer.gain + lane * 32));
        asm volatile("prefetch.global.L2 [%0];" ::"l"(layer.gain + lane * 32 + H / 2));
        for (u32 i = 0; i < belt.tiles; ++i) put(input + (u64)(blockIdx.x + i * gridDim.x) * BOX, 8);
        for (u32 i = 0; i < belt.owned; ++i) {
            const u64 tile = blockIdx.x + i * gridDim.x;
            for (u32 j = 0; j < pieces; j += 8) put(down + (tile * pieces + j) * PIECE, pieces - j < 8 ? pieces - j : 8);
            put(o + tile * BOX, 8);
        }
    }
}

// Two warps that share a part of H.
DEVICE void join_pair() {
    asm volatile("bar.sync %0, 64;" ::"r"(4 + (threadIdx.x >> 6)) : "memory");
}

// The norm of every row, in bf16, in this pair's part of the columns: this warp takes every second row. Mean and deviation of
// row r are found by warp r alone: what all blocks ask for at the same time should be asked for once by each.
DEVICE void normed(const Decode& p, Shared& s, const float (&gain)[8]) {
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, part = warp >> 1;
    uint4 a, b;
    if (warp < p.rows) {
        const float* stats = p.stats + (u64)warp * (H / 8) + lane * 8;
        a = fresh_16(stats);
        b = fresh_16(stats + 4);
    }
#pragma unroll 1
    for (u32 base = 0; base < p.rows; base += 4) {
        uint4 of[2][2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const u32 r = base + (warp & 1) + 2 * i;
            if (r < p.rows) {
                const float* x = p.x + (u64)r * H + part * 256 + lane * 8;
                of[i][0] = fresh_16(x);
                of[i][1] = fresh_16(x + 4);
            }
        }
        if (base == 0) {
            if (warp < p.rows) {
                float mean, by;
                row_stats(a, b, p.eps, mean, by);
                if (lane == 0) s.stats[warp] = make_float2(mean, by);
            }
            join<1, MULTIPLIERS>();
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const u32 r = base + (warp & 1) + 2 * i;
            if (r < p.rows) {
                const float mean = s.stats[r].x, by = s.stats[r].y;
                const uint4 &u = of[i][0], &w = of[i][1];
                const float v[8] = {__uint_as_float(u.x), __uint_as_float(u.y), __uint_as_float(u.z), __uint_as_float(u.w),
                                    __uint_as_float(w.x), __uint_as_float(w.y), __uint_as_float(w.z), __uint_as_float(w.w)};
                u32 h[4];
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    h[j] = to_bf16x2(mul(mul(add(v[2 * j], -mean), by), gain[2 * j]),
                                     mul(mul(add(v[2 * j + 1], -mean), by), gain[2 * j + 1]));
                *(uint4*)&s.normed[part][r][lane * 8] = make_uint4(h[0], h[1], h[2], h[3]);
            }
        }
    }
}

// Eight k of a column that other blocks have written, or zeros.
DEVICE uint4 share_16(const u16* at, bool there) { return there ? fresh_16(at) : make_uint4(0, 0, 0, 0); }

DEVICE void store_sums(float (&to)[16][8], const float (&d)[1][4]) {
    const u32 lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    *(float2*)&to[g][2 * t] = make_float2(d[0][0], d[0][1]);
    *(float2*)&to[g + 8][2 * t] = make_float2(d[0][2], d[0][3]);
}

// q, k or v: pairs of output rows turn together; q to its buffer, k and v to the cache.
DEVICE void finish_qkv(const Decode& p, const DecodeLayer& layer, const Shared& s, const float (&sums)[8][16][8], u32 tile,
                       u32 pair, u32 r) {
    const u32 row = tile * 16 + pair * 2;
    if (s.block[r] == 0) return;
    const float alpha = row < QW ? layer.alpha_q : row < QW + KVW ? layer.alpha_k : layer.alpha_v;
    float a = mul(sum_parts<8>(&sums[0][pair * 2][r], 128), alpha), b = mul(sum_parts<8>(&sums[0][pair * 2 + 1][r], 128), alpha);
    if (layer.rotates && row < QW + KVW) {
        turned(a, b, s.turns[r][row % D / 2]);
    }
    if (row < QW) {
        store_query(p, r, row, a, b);
    } else {
        const u32 at = row - QW, values = at >= KVW;
        u16* block = (u16*)s.block[r] + layer.cache;
        *(u32*)(block + values * CHUNK * KVW + s.place[r] + at % KVW) = to_bf16x2(a, b);
    }
}

// The warps that finish tiles; the last of them also stages what attention made for the multiplication by o.
#define FINISHERS 3

DEVICE void finish(const Decode& p, Shared& s) {
    const Belt belt(p);
    const u32 lane = threadIdx.x & 31, rows = p.rows, own = (threadIdx.x >> 5) & 3;
    u32 base = 0;  // number of the layer's first tile
    for (u32 l = 0; l < p.count; ++l, base += belt.tiles) {
        const DecodeLayer& layer = p.layers[l];
        for (u32 i = own; i < belt.tiles; i += FINISHERS) {
            const u32 slot = (base + i) % SLOTS, tile = blockIdx.x + i * gridDim.x;
            barrier_wait(shared_address(&s.summed[slot]), (base + i) / SLOTS & 1);
            const float (&sums)[8][16][8] = s.sums[slot];
            if (tile < QKV_TILES) {
                for (u32 j = lane; j < 8 * rows; j += 32) finish_qkv(p, layer, s, sums, tile, j & 7, j >> 3);
                __syncwarp();
                if (lane == 0) arrive(p.counters + COUNT_QKV);
            } else {
                for (u32 j = lane; j < 8 * rows; j += 32) {
                    const u32 row = j & 7, r = j >> 3;
                    const float gate = mul(sum_parts<8>(&sums[0][row][r], 128), layer.alpha_gate);
                    const float up = mul(sum_parts<8>(&sums[0][row + 8][r], 128), layer.alpha_up);
                    p.gated[(u64)r * p.inner + (tile - QKV_TILES) * 8 + row] = to_bf16(mul(silu(gate), up));
                }
                __syncwarp();
            }
            if (lane == 0) barrier_arrive(shared_address(&s.taken[slot]));
        }
        if (lane == 0) arrive(p.counters + COUNT_GATED);
        if (own == FINISHERS - 1 && belt.owned) {
            if (lane == 0) {
                await(p.counters + COUNT_GATED, FINISHERS * gridDim.x * (l + 1));
                await(p.counters + COUNT_MIXED, gridDim.x * (l + 1));
            }
            __syncwarp();
            for (u32 r = 0; r < rows; ++r)
#pragma unroll
                for (u32 part = 0; part < 8; ++part)
                    async_copy_16(shared_address(&s.mixed[part][r][(lane ^ r) * 8]), p.mixed + (u64)r * QW + part * 256 + lane * 8);
            asm volatile("cp.async.wait_all;" ::: "memory");
            __syncwarp();
            if (lane == 0) barrier_arrive(shared_address(&s.staged));
        }
    }
}

DEVICE void multiply(const Decode& p, Shared& s) {
    const u32 tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3, rows = p.rows;
    const u32 pieces = p.inner / 256, finishing = (rows + 1) / 2;
    const u32 begin = part_begin(pieces, 16, warp), end = part_begin(pieces, 16, warp + 1);
    const Belt belt(p);
    u32 box = 0, number = 0;  // of the belt; of the next tile
    for (u32 l = 0; l < p.count; ++l) {
        const DecodeLayer& layer = p.layers[l];
        uint4 b[1][8];
        {
            const float4* gains = (const float4*)(layer.gain + (tid >> 6) * 256 + lane * 8);
            const float4 a = gains[0], c = gains[1];
            const float gain[8] = {a.x, a.y, a.z, a.w, c.x, c.y, c.z, c.w};
            if (l && tid == 0) await(p.counters + COUNT_X, H / 16 * finishing * l);
            join<1, MULTIPLIERS>();
            normed(p, s, gain);
            join_pair();
#pragma unroll
            for (int i = 0; i < 8; ++i)
                b[0][i] = g < rows ? *(const uint4*)&s.normed[warp >> 1][g][t * 16 + (i >> 1) * 64 + (i & 1) * 8] : make_uint4(0, 0, 0, 0);
            join<1, MULTIPLIERS>();
        }

        // q|k|v first, then gate and up
        for (u32 i = warp & 1; i < belt.tiles; i += 2) {
            const u32 slot = (number + i) % SLOTS, use = (number + i) / SLOTS;
            float d[1][4] = {};
            multiply_piece<1>(piece_of(s, box + i, warp >> 1), b, d, [](u32) {});
            drop_piece(s, box + i);
            if (use) barrier_wait(shared_address(&s.taken[slot]), use + 1 & 1);
            store_sums(s.sums[slot][warp >> 1], d);
            __syncwarp();
            if (lane == 0) barrier_arrive(shared_address(&s.summed[slot]));
        }
        box += belt.tiles;
        number += belt.tiles;

        // down and o into x
        if (tid == 0) await(p.counters + COUNT_GATED, FINISHERS * gridDim.x * (l + 1));
        join<1, MULTIPLIERS>();
        for (u32 tile = blockIdx.x; tile < H / 16; tile += gridDim.x) {
            const u32 row = tid & 15, r = tid >> 4;
            const float alpha_o = layer.alpha_o, alpha_down = layer.alpha_down;
            float old = 0.0f;
            if (r < rows) old = fresh(p.x + (u64)r * H + tile * 16 + row);
            {
                float d[1][4] = {};
                const u16* gated = p.gated + (u64)g * p.inner + begin * 256 + t * 16;
                if (begin < end)
#pragma unroll
                    for (int i = 0; i < 8; ++i) b[0][i] = share_16(gated + (i >> 1) * 64 + (i & 1) * 8, g < rows);
                for (u32 piece = begin; piece < end; ++piece) {
                    const bool more = g < rows && piece + 1 < end;
                    gated += 256;
                    multiply_piece<1>(piece_of(s, box + piece / 8, piece % 8), b, d, [&](u32 i) {
                        b[0][2 * i] = share_16(gated + i * 64, more);
                        b[0][2 * i + 1] = share_16(gated + i * 64 + 8, more);
                    });
                    drop_piece(s, box + piece / 8);
                }
                box += belt.down;
                store_sums(s.down[warp], d);
            }
            if ((warp & 1) == 0) {
                float d[1][4] = {};
                barrier_wait(shared_address(&s.staged), l & 1);
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    b[0][i] = g < rows ? *(const uint4*)&s.mixed[warp >> 1][g][((i >> 1) * 8 + t * 2 + (i & 1) ^ g) * 8] : make_uint4(0, 0, 0, 0);
                multiply_piece<1>(piece_of(s, box, warp >> 1), b, d, [](u32) {});
                drop_piece(s, box);
                store_sums(s.o[warp >> 1], d);
            }
            ++box;
            join<1, MULTIPLIERS>();
            if (warp < finishing) {
                float x = 0.0f;
                if (r < rows) {
                    const float o = mul(sum_parts<8>(&s.o[0][row][r], 128), alpha_o);
                    const float down = mul(sum_parts<16>(&s.down[0][row][r], 128), alpha_down);
                    x = add(add(old, o), down);
                }
                const float2 stats = stretch_stats(x);
                if (r < rows) {
                    p.x[(u64)r * H + tile * 16 + row] = x;
                    if (row == 0) *(float2*)(p.stats + (u64)r * (H / 8) + tile * 2) = stats;
                }
                __syncwarp();
                if (lane == 0) arrive(p.counters + COUNT_X);
            }
            if (tile + gridDim.x < H / 16) join<1, MULTIPLIERS>();
        }
    }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define REGISTERS(CHANGE, N) asm volatile("setmaxnreg." CHANGE ".sync.aligned.u32 " N ";")
#else
#define REGISTERS(CHANGE, N)
#endif

#define RA "120"
#define RH "40"
// Sixteen warps that multiply, four that attend, three that finish, one that fetches.
extern "C" __global__ void __launch_bounds__(MULTIPLIERS + 256, 1) decode_layers(const Decode p) {
    extern __shared__ __align__(128) u8 raw[];
    Shared& s = *(Shared*)raw;
    const u32 tid = threadIdx.x;
    if (tid < BOXES) {
        barrier_init(shared_address(&s.full[tid]), BULK ? 1 : 32);
        barrier_init(shared_address(&s.empty[tid]), 8);
    }
    if (tid < SLOTS) {
        barrier_init(shared_address(&s.summed[tid]), 8);
        barrier_init(shared_address(&s.taken[tid]), 1);
    }
    if (tid == 0) barrier_init(shared_address(&s.staged), 1);
    copy_engine_after();
    for (u32 i = tid; i < p.rows * (D / 2); i += MULTIPLIERS + 256)
        s.turns[i / (D / 2)][i % (D / 2)] = ((const float2*)p.turns)[(u64)p.position[i / (D / 2)] * (D / 2) + i % (D / 2)];
    if (tid < p.rows) {
        const u32 slot = p.slot[tid], position = p.position[tid];
        s.block[tid] = slot == DEAD ? 0 : p.table[(u64)slot * p.blocks + position / CHUNK % p.blocks];
        s.place[tid] = position % CHUNK * KVW;
    }
    __syncthreads();
    // Registers a thread at the start: 80
    if (tid < MULTIPLIERS) {
        multiply(p, s);
    } else if (tid < MULTIPLIERS + 128) {
        REGISTERS("inc", RA);
        for (u32 l = 0; l < p.count; ++l) {
            attend_rows(p, p.layers[l], blockIdx.x, gridDim.x, s.attention, [&]() {
                if (tid == MULTIPLIERS) await(p.counters + COUNT_QKV, QKV_TILES * (l + 1));
                join<2, 128>();
            });
            if (tid == MULTIPLIERS) arrive(p.counters + COUNT_MIXED);
        }
    } else {
        REGISTERS("dec", RH);
        if (tid < MULTIPLIERS + 128 + 32 * FINISHERS) finish(p, s);
        else fetch(p, s);
    }
}
