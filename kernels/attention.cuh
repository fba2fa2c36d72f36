// Attention of one row over its cache, four query heads on a key/value head of 128, in chunks of 64 positions.
//
// A chunk is taken by four warps, sixteen positions each; their sums are merged in order, and the chunks of a row in order
// by whoever finishes last. Nothing depends on other rows or on how many blocks run.
#include "decode.cuh"

#define ATTEND_SHARED (4 * 4 * (D + 2) + 4 * 64)  // floats: four warps' sums, largest, totals; weights

DEVICE void unpack8(const uint4& v, float (&x)[8]) {
    x[0] = __uint_as_float(v.x << 16); x[1] = __uint_as_float(v.x & 0xffff0000u);
    x[2] = __uint_as_float(v.y << 16); x[3] = __uint_as_float(v.y & 0xffff0000u);
    x[4] = __uint_as_float(v.z << 16); x[5] = __uint_as_float(v.z & 0xffff0000u);
    x[6] = __uint_as_float(v.w << 16); x[7] = __uint_as_float(v.w & 0xffff0000u);
}

// All chunks of a (row, head) in order, by 128 threads: thread d takes dimension d of the four heads. `from` is
// [chunks][sums [4][D], largest [4], totals [4]], `shared` has room for largest and totals of all chunks.
DEVICE void merge(u32 chunks, const float* from, float* shared, float (&sums)[4], float (&total)[4]) {
    const u32 d = threadIdx.x & 127;
    constexpr u32 STEP = 4 * (D + 2);
    for (u32 i = d; i < chunks * 8; i += 128) shared[i] = fresh(from + (u64)(i / 8) * STEP + 4 * D + i % 8);
    float s[4][4];
    auto load = [&](u32 i) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
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
    for (u32 i = 0; i < chunks; i += 4) {
        float now[4][4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int h = 0; h < 4; ++h) now[j][h] = s[j][h];
        load(i + 4);
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (i + j < chunks)
#pragma unroll
                for (int h = 0; h < 4; ++h) {
                    const float by = exp2f(shared[(i + j) * 8 + h] - largest[h]);
                    sums[h] = fma_(now[j][h], by, sums[h]);
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
    u32 slot;
};

#define MOST_ROWS 128

struct Attention {
    float shared[ATTEND_SHARED];
    Unit units[UNITS];
    u32 last[UNITS];
    u32 ends[MOST_ROWS];  // units of the rows up to each one
    u32 warps[4];
};

// One chunk by 128 threads that share barrier 2, which wait until COUNT_QKV is `ready` (0: it is) before they look at the
// row's own position and queries. The result goes to `partial`, or to `mixed` if there is no other chunk.
DEVICE void attend_chunk(const Decode& p, const DecodeLayer& layer, const Unit& unit, u32 ready, float* shared) {
    const u32 lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3, half = lane >> 4, part = lane & 15;
    const u32 row = unit.row, head = unit.head, position = unit.position, first = unit.first;
    const u32 chunk = unit.first_chunk + unit.chunk;
    const u16* block = (const u16*)p.table[(u64)unit.slot * p.blocks + chunk % p.blocks] + layer.cache;
    const u32 from = chunk * CHUNK + warp * 16;

    // Keys and values of sixteen positions, two at a time: a half-warp a position, eight dimensions a lane.
    uint4 k[8], v[8];
    const u32 offset = (warp * 16 + half) * KVW + head * D + part * 8;
    auto load = [&](u32 i) {
        k[i] = fresh_16(block + offset + i * 2 * KVW);
        v[i] = fresh_16(block + CHUNK * KVW + offset + i * 2 * KVW);
    };
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        const u32 of = from + 2 * i + half;
        k[i] = v[i] = make_uint4(0, 0, 0, 0);
        if (of < position && of >= first) load(i);
    }
    if (ready) {
        if ((threadIdx.x & 127) == 0) await(p.counters + COUNT_QKV, ready);
        join<2, 128>();
    }
    if (from <= position && position < from + 16) {
#pragma unroll
        for (u32 i = 0; i < 8; ++i)
            if (from + 2 * i + half == position) load(i);
    }

    // scores[i][h] of this lane's eight dimensions
    float scores[32];
    {
        float q[4][8];
#pragma unroll
        for (int h = 0; h < 4; ++h) {
            const float* at = p.q + (u64)row * QW + (head * 4 + h) * D + part * 8;
            const uint4 a = fresh_16(at), b = fresh_16(at + 4);
            q[h][0] = __uint_as_float(a.x); q[h][1] = __uint_as_float(a.y); q[h][2] = __uint_as_float(a.z); q[h][3] = __uint_as_float(a.w);
            q[h][4] = __uint_as_float(b.x); q[h][5] = __uint_as_float(b.y); q[h][6] = __uint_as_float(b.z); q[h][7] = __uint_as_float(b.w);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float x[8];
            unpack8(k[i], x);
#pragma unroll
            for (int h = 0; h < 4; ++h) {
                float s = mul(q[h][0], x[0]);
#pragma unroll
                for (int j = 1; j < 8; ++j) s = fma_(q[h][j], x[j], s);
                scores[i * 4 + h] = s;
            }
        }
    }
    // Over the sixteen lanes of a half: every exchange halves what a lane keeps, until two scores are whole.
#pragma unroll
    for (int width = 16, bit = 8; width >= 2; width >>= 1, bit >>= 1) {
        const bool upper = (part & bit) != 0;
#pragma unroll
        for (int j = 0; j < width; ++j) {
            const float give = upper ? scores[j] : scores[j + width], keep = upper ? scores[j + width] : scores[j];
            scores[j] = add(keep, __shfl_xor_sync(0xffffffffu, give, bit));
        }
    }
    // Lane `part` now has scores index 2 part and 2 part + 1, that is load part / 2, heads 2 (part & 1) and + 1.
    const u32 mine = from + 2 * (part >> 1) + half;
    const bool there = mine <= position && mine >= first;
    const float scale = 0.08838834764831845f * 1.4426950408889634f;  // 1 / sqrt(128), and powers of two below
    const float lowest = __uint_as_float(0xff800000u);
    float s0 = there ? mul(scores[0], scale) : lowest, s1 = there ? mul(scores[1], scale) : lowest;
    float m0 = s0, m1 = s1;
#pragma unroll
    for (int away = 2; away <= 16; away <<= 1) {
        m0 = fmaxf(m0, __shfl_xor_sync(0xffffffffu, m0, away));
        m1 = fmaxf(m1, __shfl_xor_sync(0xffffffffu, m1, away));
    }
    const float w0 = there ? exp2f(s0 - m0) : 0.0f, w1 = there ? exp2f(s1 - m1) : 0.0f;
    float l0 = w0, l1 = w1;
#pragma unroll
    for (int away = 2; away <= 16; away <<= 1) {
        l0 = add(l0, __shfl_xor_sync(0xffffffffu, l0, away));
        l1 = add(l1, __shfl_xor_sync(0xffffffffu, l1, away));
    }
    float* sums_at = shared + warp * 4 * (D + 2);
    float* weights = shared + 4 * 4 * (D + 2) + warp * 64;  // [16 positions][4 heads]
    *(float2*)(weights + (2 * (part >> 1) + half) * 4 + 2 * (part & 1)) = make_float2(w0, w1);
    if (lane < 2) {
        sums_at[4 * D + 2 * lane] = m0;
        sums_at[4 * D + 2 * lane + 1] = m1;
        sums_at[4 * D + 4 + 2 * lane] = l0;
        sums_at[4 * D + 4 + 2 * lane + 1] = l1;
    }
    __syncwarp();
    float o[4][8] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        float x[8];
        unpack8(v[i], x);
        const float4 w = *(const float4*)(weights + (2 * i + half) * 4);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            o[0][j] = fma_(w.x, x[j], o[0][j]);
            o[1][j] = fma_(w.y, x[j], o[1][j]);
            o[2][j] = fma_(w.z, x[j], o[2][j]);
            o[3][j] = fma_(w.w, x[j], o[3][j]);
        }
    }
    // The two halves; each then stores two heads.
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const float give = half ? o[h][j] : o[h + 2][j], keep = half ? o[h + 2][j] : o[h][j];
            o[h][j] = add(keep, __shfl_xor_sync(0xffffffffu, give, 16));
        }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float* at = sums_at + (2 * half + h) * D + part * 8;
        *(float4*)at = make_float4(o[h][0], o[h][1], o[h][2], o[h][3]);
        *(float4*)(at + 4) = make_float4(o[h][4], o[h][5], o[h][6], o[h][7]);
    }
    join<2, 128>();

    const u32 d = threadIdx.x & 127;
    float sums[4], largest[4], total[4];
#pragma unroll
    for (int h = 0; h < 4; ++h) {
        sums[h] = total[h] = 0.0f;
        largest[h] = lowest;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float* of = shared + i * 4 * (D + 2);
#pragma unroll
        for (int h = 0; h < 4; ++h) {
            const float m = of[4 * D + h], most = fmaxf(largest[h], m);
            const float fade = largest[h] == most ? 1.0f : exp2f(largest[h] - most);
            const float by = m == most ? 1.0f : exp2f(m - most);
            sums[h] = fma_(of[h * D + d], by, mul(sums[h], fade));
            total[h] = fma_(of[4 * D + 4 + h], by, mul(total[h], fade));
            largest[h] = most;
        }
    }
    if (unit.chunks == 1) {
#pragma unroll
        for (int h = 0; h < 4; ++h)
            p.mixed[(u64)row * QW + (head * 4 + h) * D + d] = to_bf16(over(sums[h], total[h]));
    } else {
        float* out = p.partial + ((u64)(row * KV_HEADS + head) * p.chunks + unit.chunk) * (4 * (D + 2));
#pragma unroll
        for (int h = 0; h < 4; ++h) out[h * D + d] = sums[h];
        if (d < 4) {
            float m = largest[0], l = total[0];
#pragma unroll
            for (int h = 1; h < 4; ++h)
                if (d == h) m = largest[h], l = total[h];
            out[4 * D + d] = m;
            out[4 * D + 4 + d] = l;
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
    unit.slot = p.slot[low];
    return unit;
}

// The chunks of all rows, dealt to `teams` teams of 128 threads; this is team `team`. COUNT_QKV is awaited in any case.
DEVICE void attend_rows(const Decode& p, const DecodeLayer& layer, u32 team, u32 teams, u32 ready, Attention& s) {
    const u32 tid = threadIdx.x & 127;
    count_units(p, layer, s);
    for (u32 base = team;; base += UNITS * teams) {
        if (tid < UNITS) s.units[tid] = find_unit(p, layer, s, base + tid * teams);
        join<2, 128>();
        u32 count = 0;
        for (; count < UNITS && s.units[count].chunks; ++count) {
            attend_chunk(p, layer, s.units[count], ready, s.shared);
            ready = 0;
        }
        // The last to finish a (row, head) adds its chunks up.
        if (tid < count) {
            const Unit& unit = s.units[tid];
            u32 last = 0;
            if (unit.chunks > 1) {
                u32* counter = p.counters + COUNT_HEADS + unit.row * KV_HEADS + unit.head;
                u32 before;
                asm volatile("fence.acq_rel.gpu;\natom.relaxed.gpu.global.add.u32 %0, [%1], 1;\nfence.acq_rel.gpu;"
                             : "=r"(before) : "l"(counter) : "memory");
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
    if (ready) {
        if (tid == 0) await(p.counters + COUNT_QKV, ready);
    }
    join<2, 128>();
}
