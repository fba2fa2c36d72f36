// Attention, one warp for a (row, head): every head walks its positions in order, 32 at a time from the first it sees, so
// its result depends neither on how the positions came in nor on other rows.
#include "base.cuh"

#define MOST_DIM 256

// Keys or values of the cache: blocks of 64 positions, [layers][keys, values][64][width] each.
struct Cache {
    const u64* table;  // [slots, blocks]: where a block of positions lies
    u32 blocks;        // of a slot; position p is in block p / 64 % blocks
    u32 wide;          // f32 instead of bfloat16
    u64 layer;         // values before this layer in a block
    u32 width;         // Nkv * D
};

DEVICE u64 cached(const Cache& c, u32 slot, u32 position) {
    return c.table[(u64)slot * c.blocks + position / 64 % c.blocks];
}

DEVICE u64 offset(const Cache& c, u32 position, u32 which) {
    return c.layer + ((u64)which * 64 + position % 64) * c.width;
}

DEVICE float stored(float x, u32 wide) { return wide ? x : from_bf16(to_bf16(x)); }

// A row of keys or values of a position: in the cache, or among the rows of this call.
struct Line {
    const float* wide;  // one of the two is null
    const u16* narrow;
    bool exact;         // not to be rounded
};

DEVICE float value(const Line& l, u32 i) {
    if (l.narrow) return from_bf16(l.narrow[i]);
    return l.exact ? l.wide[i] : from_bf16(to_bf16(l.wide[i]));
}

// score of one lane's position, dims in order
DEVICE float dot(const Line& k, const float* q, u32 d) {
    float sum = 0.0f;
    if (k.narrow && d % 8 == 0) {
        for (u32 i = 0; i < d; i += 8) {
            uint4 words = *(const uint4*)(k.narrow + i);
            u32 word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                sum = fma_(q[i + 2 * j], __uint_as_float(word[j] << 16), sum);
                sum = fma_(q[i + 2 * j + 1], __uint_as_float(word[j] & 0xffff0000u), sum);
            }
        }
    } else {
        for (u32 i = 0; i < d; ++i) sum = fma_(q[i], value(k, i), sum);
    }
    return sum;
}

// Positions first ..= last with `keys(p)` and `values(p)`; q in shared memory.
template <class Keys, class Values>
DEVICE void attend_one(const float* q, u32 d, u32 first, u32 last, Keys keys, Values values, float* out) {
    const u32 lane = threadIdx.x & 31;
    const float scale = over(1.0f, __fsqrt_rn((float)d));
    float largest = __uint_as_float(0xff800000u), total = 0.0f;
    float sums[MOST_DIM / 32] = {};
    for (u32 base = first; base <= last; base += 32) {
        const u32 position = base + lane;
        const bool seen = position <= last;
        float score = __uint_as_float(0xff800000u);
        if (seen) score = mul(dot(keys(position), q, d), scale);
        const float most = fmaxf(largest, warp_max(score));
        const float weight = seen ? exp_(add(score, -most)) : 0.0f;
        const float fade = exp_(add(largest, -most));
        total = fma_(total, fade, warp_sum(weight));
        largest = most;
#pragma unroll
        for (u32 i = 0; i < MOST_DIM / 32; ++i) sums[i] = mul(sums[i], fade);
        const u32 count = last - base < 31 ? last - base + 1 : 32;
        for (u32 j = 0; j < count; ++j) {
            const float by = __shfl_sync(0xffffffffu, weight, j);
            const Line line = values(base + j);
#pragma unroll
            for (u32 i = 0; i < MOST_DIM / 32; ++i)
                if (i * 32 + lane < d) sums[i] = fma_(by, value(line, i * 32 + lane), sums[i]);
        }
    }
    const float by = over(1.0f, total);
#pragma unroll
    for (u32 i = 0; i < MOST_DIM / 32; ++i)
        if (i * 32 + lane < d) out[i * 32 + lane] = mul(sums[i], by);
}

// Grid (R, heads / 4), 4 warps. Positions before the segment come from the cache, the segment's own from k and v.
KERNEL attend(Cache cache, const float* q, u32 q_cols, const float* k, u32 k_cols, const float* v, u32 v_cols,
              const Place* places, u32 heads, u32 kv_heads, u32 d, u32 window, float* out) {
    __shared__ float shared[4][MOST_DIM];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const u32 head = blockIdx.y * 4 + warp;
    if (head >= heads) return;
    const u64 r = blockIdx.x;
    for (u32 i = lane; i < d; i += 32) shared[warp][i] = q[r * q_cols + head * d + i];
    __syncwarp();
    const Place place = places[r];
    const u32 at = head * kv_heads / heads * d;
    const u32 last = place.position;
    const u32 first = window && last + 1 > window ? last + 1 - window : 0;
    auto line = [&](u32 position, u32 which, const float* rows, u32 cols) {
        Line l = {nullptr, nullptr, cache.wide != 0};
        if (position >= place.start) {
            l.wide = rows + (u64)(place.first + position - place.start) * cols + at;
        } else {
            const u64 block = cached(cache, place.slot, position), from = offset(cache, position, which) + at;
            if (cache.wide) l.wide = (const float*)block + from;
            else l.narrow = (const u16*)block + from;
        }
        return l;
    };
    attend_one(shared[warp], d, first, last, [&](u32 p) { return line(p, 0, k, k_cols); },
               [&](u32 p) { return line(p, 1, v, v_cols); }, out + (r * heads + head) * d);
}

// Keys and values of the call's rows into the cache, a block a row, after the attention that needed what they overwrite.
KERNEL append(Cache cache, const float* k, u32 k_cols, const float* v, u32 v_cols, const Place* places) {
    const u64 r = blockIdx.x;
    const Place place = places[r];
    // Where a segment is longer than the slot's blocks, its end is what stays.
    if (place.position + cache.blocks * 64 < place.end) return;
    const u64 block = cached(cache, place.slot, place.position);
    const u64 keys = offset(cache, place.position, 0), values = offset(cache, place.position, 1);
    for (u32 i = threadIdx.x; i < cache.width; i += blockDim.x) {
        if (cache.wide) {
            ((float*)block)[keys + i] = k[r * k_cols + i];
            ((float*)block)[values + i] = v[r * v_cols + i];
        } else {
            ((u16*)block)[keys + i] = to_bf16(k[r * k_cols + i]);
            ((u16*)block)[values + i] = to_bf16(v[r * v_cols + i]);
        }
    }
}

// Every `group` consecutive rows see each other. Grid (R, heads / 4), 4 warps.
KERNEL attend_within(u32 group, const float* q, u32 q_cols, const float* k, u32 k_cols, const float* v, u32 v_cols,
                     u32 heads, u32 kv_heads, u32 d, float* out) {
    __shared__ float shared[4][MOST_DIM];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const u32 head = blockIdx.y * 4 + warp;
    if (head >= heads) return;
    const u64 r = blockIdx.x;
    for (u32 i = lane; i < d; i += 32) shared[warp][i] = q[r * q_cols + head * d + i];
    __syncwarp();
    const u32 at = head * kv_heads / heads * d;
    const u64 base = r / group * group;
    auto line = [&](u32 position, const float* rows, u32 cols) {
        return Line{rows + (base + position) * cols + at, nullptr, true};
    };
    attend_one(shared[warp], d, 0, group - 1, [&](u32 p) { return line(p, k, k_cols); },
               [&](u32 p) { return line(p, v, v_cols); }, out + (r * heads + head) * d);
}
