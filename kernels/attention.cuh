// Attention of one row over its cache, four query heads on a key/value head of 128, in chunks of 64 positions.
//
// A chunk is taken by four warps: each finds the scores of sixteen positions, then the sums of 32 dimensions over all 64. Both
// are products on the tensor cores, with the f32 operand (query, weight) as the sum of two bfloat16 numbers: queries are the
// instruction's 8 columns, four heads' leading parts and four heads' rests; weights its first 8 rows, likewise. The chunks of
// a row are added in order by whoever finishes last. Nothing depends on other rows or on how many blocks run.
#include "decode.cuh"

#define P_LINE (64 + 8)  // bf16 weights of a head

DEVICE u32 transposed(u32 x) {
    u32 y;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

// All chunks of a (row, head) in order, by 128 threads: thread d takes dimension d of the four heads. `from` is
// [chunks][sums [4][D], largest [4], totals [4]], `shared` has room for largest and totals of all chunks.
DEVICE void merge(u32 chunks, const float* from, float* shared, float (&sums)[4], float (&total)[4]) {
    const u32 d = threadIdx.x & 127;
    constexpr u32 STEP = 4 * (D + 2);
    for (u32 i = d; i < chunks * 8; i += 128) shared[i] = fresh(from + (u64)(i / 8) * STEP + 4 * D + i % 8);
    float s[8][4];
    auto load = [&](u32 i) {
#pragma unroll
        for (u32 j = 0; j < 8; ++j)
#pragma unroll
            for (u32 h = 0; h < 4; ++h) s[j][h] = i + j < chunks ? fresh(from + (u64)(i + j) * STEP + h * D + d) : 0.0f;
    };
    load(0);
    join<2, 128>();
    float largest[4];
#pragma unroll
    for (int h = 0; h < 4; ++h) {
        sums[h] = total[h] = 0.0f;
        largest[h] = shared[h];
    }
    for (u32 i = 1; i < chunks; ++i)
#pragma unroll
        for (int h = 0; h < 4; ++h) largest[h] = fmaxf(largest[h], shared[i * 8 + h]);
    for (u32 i = 0; i < chunks; i += 8) {
        if (i) load(i);
#pragma unroll
        for (int j = 0; j < 8; ++j)
            if (i + j < chunks)
#pragma unroll
                for (int h = 0; h < 4; ++h) {
                    const float by = exp2f(shared[(i + j) * 8 + h] - largest[h]);
                    sums[h] = fma_(s[j][h], by, sums[h]);
                    total[h] = fma_(shared[(i + j) * 8 + 4 + h], by, total[h]);
                }
    }
}

// What a team of 128 threads has to do: chunks of rows, some at a time.
#define UNITS 32

struct Unit {
    u32 row, head, chunk;     // chunk counted from the first the row sees
    u32 first_chunk, chunks;  // of the row
    u32 position, first;      // the last and the first position it sees
    const u16* block;         // of the cache
};

#define MOST_ROWS 128

struct Attention {
    union {
        struct {
            u16 weights[8][P_LINE];  // heads' leading parts, heads' rests; positions
            float largest[4][4];     // warp, head
            float totals[4][4];
        };
        float shared[2048];          // largest and totals of all chunks of a row
    };
    Unit units[UNITS];
    u32 last[UNITS];
    u32 ends[MOST_ROWS];  // units of the rows up to each one
    u32 warps[4];
};

// What a thread has of a chunk: keys of two positions, four times 8 dimensions each; values of eight positions, 8 dimensions
// each; the query of one head, leading part or rest.
struct Loaded {
    uint4 k[2][4], v[8], q[4];

    // Positions from .. to alone.
    DEVICE void load_keys(const Unit& unit, u32 from, u32 to) {
        const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3, chunk = unit.first_chunk + unit.chunk;
        const u16* block = unit.block;
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            const u32 at = warp * 16 + i * 8 + (lane >> 2), position = chunk * CHUNK + at;
            if (position >= from && position <= to)
#pragma unroll
                for (u32 u = 0; u < 4; ++u) k[i][u] = fresh_16(block + at * KVW + unit.head * D + u * 32 + (lane & 3) * 8);
        }
    }
    DEVICE void load_values(const Unit& unit, u32 from, u32 to) {
        const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3, chunk = unit.first_chunk + unit.chunk;
        const u16* block = unit.block + CHUNK * KVW;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            const u32 at = i * 8 + (lane >> 2), position = chunk * CHUNK + at;
            if (position >= from && position <= to) v[i] = fresh_16(block + at * KVW + unit.head * D + warp * 32 + (lane & 3) * 8);
        }
    }
    DEVICE void load_query(const Decode& p, const Unit& unit) {
        const u32 lane = threadIdx.x & 31, g = lane >> 2;
        const u16* at = p.q + ((u64)unit.row * HEADS + unit.head * 4 + (g & 3)) * (2 * D) + (g >> 2) * D + (lane & 3) * 8;
#pragma unroll
        for (u32 u = 0; u < 4; ++u) q[u] = fresh_16(at + u * 32);
    }
    DEVICE void clear_keys() {
#pragma unroll
        for (int i = 0; i < 8; ++i) k[i & 1][i >> 1] = make_uint4(0, 0, 0, 0);
    }
    DEVICE void clear_values() {
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = make_uint4(0, 0, 0, 0);
    }
};

// One chunk by 128 threads that share barrier 2; meanwhile what `next` needs is fetched, if there is one. The result goes to
// `partial`, or to `mixed` if the row has no other chunk.
DEVICE void attend_chunk(const Decode& p, const Unit& unit, const Unit* next, Loaded& of, Attention& s) {
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3, g = lane >> 2, t = lane & 3;
    const float lowest = __uint_as_float(0xff800000u);
    // d[0], d[1]: position g, columns 2t, 2t + 1; d[2], d[3]: position g + 8
    float d[4] = {};
#pragma unroll
    for (int u = 0; u < 4; ++u) {
        mma_bf16(d, of.k[0][u].x, of.k[1][u].x, of.k[0][u].y, of.k[1][u].y, of.q[u].x, of.q[u].y);
        mma_bf16(d, of.k[0][u].z, of.k[1][u].z, of.k[0][u].w, of.k[1][u].w, of.q[u].z, of.q[u].w);
    }
    if (next) {
        of.clear_keys();
        of.load_keys(*next, next->first, next->position);
        of.load_query(p, *next);
    }
    const float scale = 0.08838834764831845f * 1.4426950408889634f;  // 1 / sqrt(128), and powers of two below
    const u32 base = (unit.first_chunk + unit.chunk) * CHUNK + warp * 16 + g;
    // Now both halves of a quad have heads 2 (t & 1) and + 1.
    float most[2] = {lowest, lowest};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const u32 position = base + (i >> 1) * 8;
        d[i] = add(d[i], __shfl_xor_sync(0xffffffffu, d[i], 2));
        d[i] = position <= unit.position && position >= unit.first ? mul(d[i], scale) : lowest;
        most[i & 1] = fmaxf(most[i & 1], d[i]);
    }
#pragma unroll
    for (int away = 4; away <= 16; away <<= 1)
#pragma unroll
        for (int h = 0; h < 2; ++h) most[h] = fmaxf(most[h], __shfl_xor_sync(0xffffffffu, most[h], away));
    if (lane < 2) *(float2*)&s.largest[warp][2 * lane] = make_float2(most[0], most[1]);
    join<2, 128>();
    float sum[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const u32 head = 2 * (t & 1) + h;
        most[h] = fmaxf(fmaxf(s.largest[0][head], s.largest[1][head]), fmaxf(s.largest[2][head], s.largest[3][head]));
        const float a = exp2f(d[h] - most[h]), b = exp2f(d[2 + h] - most[h]);
        sum[h] = add(a, b);
        // Lanes of the lower half of a quad store leading parts, the others rests.
        const u16 a0 = to_bf16(a), b0 = to_bf16(b);
        const u32 row = head + (t & 2) * 2;
        s.weights[row][warp * 16 + g] = t & 2 ? to_bf16(add(a, -from_bf16(a0))) : a0;
        s.weights[row][warp * 16 + g + 8] = t & 2 ? to_bf16(add(b, -from_bf16(b0))) : b0;
    }
#pragma unroll
    for (int away = 4; away <= 16; away <<= 1)
#pragma unroll
        for (int h = 0; h < 2; ++h) sum[h] = add(sum[h], __shfl_xor_sync(0xffffffffu, sum[h], away));
    if (lane < 2) *(float2*)&s.totals[warp][2 * lane] = make_float2(sum[0], sum[1]);
    join<2, 128>();

    // o[j][0], o[j][1]: row g, dimensions 32 warp + 8 t + 2 j, + 1
    float o[4][4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const u32 a0 = *(const u32*)&s.weights[g][i * 16 + 2 * t], a2 = *(const u32*)&s.weights[g][i * 16 + 8 + 2 * t];
        const uint4 &v = of.v[2 * i], &w = of.v[2 * i + 1];
        mma_bf16(o[0], a0, 0u, a2, 0u, transposed(v.x), transposed(w.x));
        mma_bf16(o[1], a0, 0u, a2, 0u, transposed(v.y), transposed(w.y));
        mma_bf16(o[2], a0, 0u, a2, 0u, transposed(v.z), transposed(w.z));
        mma_bf16(o[3], a0, 0u, a2, 0u, transposed(v.w), transposed(w.w));
    }
    if (next) {
        of.clear_values();
        of.load_values(*next, next->first, next->position);
    }
    float out[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = add(o[i >> 1][i & 1], __shfl_xor_sync(0xffffffffu, o[i >> 1][i & 1], 16));
    const u32 column = warp * 32 + t * 8;
    if (lane < 16) {
        const float total = add(add(s.totals[0][g], s.totals[1][g]), add(s.totals[2][g], s.totals[3][g]));
        if (unit.chunks == 1) {
            u32 words[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) words[i] = to_bf16x2(over(out[2 * i], total), over(out[2 * i + 1], total));
            *(uint4*)(p.mixed + (u64)unit.row * QW + (unit.head * 4 + g) * D + column) = make_uint4(words[0], words[1], words[2], words[3]);
        } else {
            float* to = p.partial + ((u64)(unit.row * KV_HEADS + unit.head) * p.chunks + unit.chunk) * (4 * (D + 2));
            *(float4*)(to + g * D + column) = make_float4(out[0], out[1], out[2], out[3]);
            *(float4*)(to + g * D + column + 4) = make_float4(out[4], out[5], out[6], out[7]);
            if (warp == 0 && t == 0) {
                to[4 * D + g] = fmaxf(fmaxf(s.largest[0][g], s.largest[1][g]), fmaxf(s.largest[2][g], s.largest[3][g]));
                to[4 * D + 4 + g] = total;
            }
        }
    }
    join<2, 128>();
}

// What a row sees: its first chunk and how many.
DEVICE u32 row_chunks(const Decode& p, const DecodeLayer& layer, u32 row, u32& first, u32& first_chunk) {
    const u32 position = p.position[row];
    first = layer.window && position + 1 > layer.window ? position + 1 - layer.window : 0;
    first_chunk = first / CHUNK;
    return p.slot[row] == DEAD ? 0 : position / CHUNK - first_chunk + 1;
}

// How many units there are up to the end of each row: thread r of 128 has row r.
DEVICE void count_units(const Decode& p, const DecodeLayer& layer, Attention& s) {
    const u32 tid = threadIdx.x & 127, lane = tid & 31;
    u32 first, first_chunk, n = tid < p.rows ? row_chunks(p, layer, tid, first, first_chunk) * KV_HEADS : 0;
#pragma unroll
    for (int away = 1; away < 32; away <<= 1) {
        const u32 below = __shfl_up_sync(0xffffffffu, n, away);
        if (lane >= away) n += below;
    }
    if (lane == 31) s.warps[tid >> 5] = n;
    join<2, 128>();
    for (u32 i = 0; i < tid >> 5; ++i) n += s.warps[i];
    s.ends[tid] = n;
    join<2, 128>();
}

// Unit `number`; one with no chunks if there are fewer.
DEVICE Unit find_unit(const Decode& p, const DecodeLayer& layer, const Attention& s, u32 number) {
    Unit unit = {};
    if (number >= s.ends[p.rows - 1]) return unit;
    u32 low = 0, high = p.rows - 1;
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if (number < s.ends[middle]) high = middle;
        else low = middle + 1;
    }
    number -= low ? s.ends[low - 1] : 0;
    unit.row = low;
    unit.chunks = row_chunks(p, layer, low, unit.first, unit.first_chunk);
    unit.head = number % KV_HEADS;
    unit.chunk = number / KV_HEADS;
    unit.position = p.position[low];
    unit.block = (const u16*)p.table[(u64)p.slot[low] * p.blocks + (unit.first_chunk + unit.chunk) % p.blocks] + layer.cache;
    return unit;
}

// The chunks of all rows, dealt to `teams` teams of 128 threads; this is team `team`. `wait()` is called once, by all of
// them, before anything of this step is looked at; what was in the cache before need not wait for it.
template <class Wait>
DEVICE void attend_rows(const Decode& p, const DecodeLayer& layer, u32 team, u32 teams, Attention& s, Wait wait) {
    const u32 tid = threadIdx.x & 127;
    bool waited = false;
    count_units(p, layer, s);
    for (u32 base = team;; base += UNITS * teams) {
        if (tid < UNITS) s.units[tid] = find_unit(p, layer, s, base + tid * teams);
        join<2, 128>();
        u32 count = 0;
        while (count < UNITS && s.units[count].chunks) ++count;
        Loaded of;
        of.clear_keys();
        of.clear_values();
        if (count) {
            const Unit& unit = s.units[0];
            if (!waited) {
                if (unit.position) {
                    of.load_keys(unit, unit.first, unit.position - 1);
                    of.load_values(unit, unit.first, unit.position - 1);
                }
                wait();
                waited = true;
                of.load_keys(unit, unit.position, unit.position);
                of.load_values(unit, unit.position, unit.position);
            } else {
                of.load_keys(unit, unit.first, unit.position);
                of.load_values(unit, unit.first, unit.position);
            }
            of.load_query(p, unit);
        }
        for (u32 i = 0; i < count; ++i) attend_chunk(p, s.units[i], i + 1 < count ? &s.units[i + 1] : nullptr, of, s);
        // The last to finish a (row, head) adds its chunks up.
        if (tid < count) {
            const Unit& unit = s.units[tid];
            u32 last = 0;
            if (unit.chunks > 1) {
                u32* counter = p.counters + COUNT_HEADS + unit.row * KV_HEADS + unit.head;
                const u32 before = arrive_counted(counter);
                last = before + 1 == unit.chunks;
                if (last) *counter = 0;
            }
            s.last[tid] = last;
        }
        join<2, 128>();
        for (u32 i = 0; i < count; ++i)
            if (s.last[i]) {
                const Unit& unit = s.units[i];
                float sums[4], total[4];
                merge(unit.chunks, p.partial + (u64)(unit.row * KV_HEADS + unit.head) * p.chunks * (4 * (D + 2)), s.shared, sums, total);
#pragma unroll
                for (int h = 0; h < 4; ++h)
                    p.mixed[(u64)unit.row * QW + (unit.head * 4 + h) * D + tid] = to_bf16(over(sums[h], total[h]));
                join<2, 128>();
            }
        if (count < UNITS) break;
        join<2, 128>();
    }
    if (!waited) wait();
    join<2, 128>();
}
