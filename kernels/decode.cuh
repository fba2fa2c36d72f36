// What the kernels of a decode step of TinyAya share: the shapes compiled in, the description of a step, joining blocks.
//
// H = 2048, Nh = 16, Nkv = 4, D = 128, Q = Nh D = 2048, KV = Nkv D = 512; I is any multiple of 256. R rows, a slot each.
#include "tile.cuh"

#define H 2048u
#define HEADS 16u
#define KV_HEADS 4u
#define D 128u
#define QW 2048u
#define KVW 512u
#define QKV_TILES 192u   // tiles of 16 rows in q|k|v
#define H_PIECES 8u      // pieces of a row of K = H
#define CHUNK 64u        // positions that are attended to as one, and a block of the cache
#define DEAD 0xffffffffu // slot of a row that takes no part

// A layer, in device memory. alpha is a tensor's global scale times 2^16.
struct __align__(16) DecodeLayer {
    const u8* input;    // pieces of [q | k | v | gate and up in turns of 8 rows]: [3072 + 2 I, H]
    const u8* o;        // pieces of [H, Q]
    const u8* down;     // pieces of [H, I]
    const float* gain;  // [H] of the norm before
    u64 cache;          // values before this layer's keys in a block of the cache
    float alpha_q, alpha_k, alpha_v, alpha_gate, alpha_up, alpha_o, alpha_down;
    u32 rotates;        // 1: q and k turn with the position
    u32 window;         // how many positions a row sees, itself included; 0 = all
    u32 unused;
};

// A step. Everything that changes from step to step is behind a pointer.
struct Decode {
    const DecodeLayer* layers;  // [layers]
    const u32* slot;            // [R], DEAD = leave alone
    const u32* position;        // [R]
    const u64* table;           // [slots, blocks]: where 64 positions of a slot lie, bf16 [layers][keys, values][64][KV]
    const float* turns;         // [positions, D/2, 2]: cosine and sine
    float* x;                   // [R, H] residual, in and out
    float* stats;               // [R, H/16, 2]: of 16 columns of x, their mean and the squares of what is away from it
    u16* q;                     // [R, Nh, 2, D] bf16: rotated, the leading part and the rest of each head
    u16* mixed;                 // [R, Q] bf16
    u16* gated;                 // [R, I] bf16
    float* partial;             // [R, Nkv, chunks, 4 * (D + 2)]: of a chunk, four heads' sums, largest, total
    u16* h;                     // [R, H] bf16, and the rest of these: for more than 8 rows only
    float* parts;               // [16 of down, 8 of o][R, H]
    u32* counters;              // see below; zero before the step
    u32 count;                  // layers
    u32 rows;                   // R
    u32 inner;                  // I
    u32 blocks;                 // of a slot in `table`; position p is in block p / 64 % blocks
    u32 chunks;                 // the most chunks a row can see
    float eps;
};

// counters: one a cache line, then one a (row, key/value head).
#define COUNT_QKV 0u
#define COUNT_GATED 32u
#define COUNT_MIXED 64u
#define COUNT_X 96u
#define COUNT_HEADS 128u

// One block tells, another reads: what was written before is there for whoever has seen the count. What it then reads it
// reads past the first-level cache (`fresh`), so nothing has to be thrown out of that, as an acquiring load would.
DEVICE void arrive(u32* counter) { asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory"); }

DEVICE u32 arrive_counted(u32* counter) {
    u32 before;
    asm volatile("atom.release.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}

// Until `counter` has reached `target`; for one thread, which lets the others on by a barrier.
DEVICE void await(const u32* counter, u32 target) {
    u32 v;
    do {
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(counter) : "memory");
    } while ((int)(v - target) < 0);
}

template <int ID, int THREADS>
DEVICE void join() {
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}

// Mean and 1 / sqrt(variance + eps) of a row from the stats of its H/16 = 128 stretches, for a whole warp: a lane has four,
// (mean, squares) each.
DEVICE void row_stats(const uint4& a, const uint4& b, float eps, float& mean, float& by) {
    const float m[4] = {__uint_as_float(a.x), __uint_as_float(a.z), __uint_as_float(b.x), __uint_as_float(b.z)};
    const float q[4] = {__uint_as_float(a.y), __uint_as_float(a.w), __uint_as_float(b.y), __uint_as_float(b.w)};
    mean = mul(warp_sum(add(add(m[0], m[1]), add(m[2], m[3]))), 1.0f / 128.0f);
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float away = add(m[i], -mean);
        squares = add(squares, fma_(mul(away, 16.0f), away, q[i]));
    }
    by = over(1.0f, __fsqrt_rn(add(mul(warp_sum(squares), 1.0f / H), eps)));
}

// Stats of 16 values, one in each lane of half a warp; every lane has them.
DEVICE float2 stretch_stats(float x) {
    float sum = x;
#pragma unroll
    for (int away = 8; away > 0; away >>= 1) sum = add(sum, __shfl_xor_sync(0xffffffffu, sum, away));
    const float mean = mul(sum, 1.0f / 16.0f), off = add(x, -mean);
    float squares = mul(off, off);
#pragma unroll
    for (int away = 8; away > 0; away >>= 1) squares = add(squares, __shfl_xor_sync(0xffffffffu, squares, away));
    return make_float2(mean, squares);
}

DEVICE void turned(float& a, float& b, float2 turn) {
    const float u = add(mul(a, turn.x), -mul(b, turn.y)), w = add(mul(b, turn.x), mul(a, turn.y));
    a = u;
    b = w;
}

// Two dimensions of a rotated query as the sum of bfloat16 numbers. `row` is a row of q's weights, even.
DEVICE void store_query(const Decode& p, u32 r, u32 row, float a, float b) {
    const u32 lead = to_bf16x2(a, b);
    const u32 rest = to_bf16x2(add(a, -__uint_as_float(lead << 16)), add(b, -__uint_as_float(lead & 0xffff0000u)));
    u16* at = p.q + ((u64)r * HEADS + row / D) * (2 * D) + row % D;
    *(u32*)at = lead;
    *(u32*)(at + D) = rest;
}
