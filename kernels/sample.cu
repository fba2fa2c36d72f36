// One column per row of logits: temperature, top-k, one draw by inverse CDF over the kept logits in descending order
// (ties: the lower column first). The choice is that of src/compute/cpu/sample.rs.
//
// A column's key orders like that: the logit's bits made monotonic in the high half, the column's complement in the low
// half; keys are all different. The k-th largest is found digit by digit, the keys from it up are sorted.
#include "base.cuh"

struct Choice {
    u64 seed;
    u32 step;
    u32 columns;
    float temperature;
    u32 top_k;
};

#define THREADS 1024
#define NOT_FINITE 0xffffffffu
#define KEPT 2048  // keys that are sorted in shared memory

DEVICE u64 key_of(float logit, u32 column) {
    u32 bits = __float_as_uint(logit);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (u64)bits << 32 | (u32)~column;
}

DEVICE u32 column_of(u64 key) { return ~(u32)key; }

// Sorts `count` keys, a power of two, in descending order.
DEVICE void sort(u64* keys, u32 count) {
    for (u32 size = 2; size <= count; size <<= 1) {
        for (u32 away = size >> 1; away > 0; away >>= 1) {
            __syncthreads();
            for (u32 i = threadIdx.x; i < count / 2; i += THREADS) {
                u32 a = 2 * i - (i & (away - 1)), b = a + away;
                bool falling = (a & size) == 0;
                u64 x = keys[a], y = keys[b];
                if ((x < y) == falling) {
                    keys[a] = y;
                    keys[b] = x;
                }
            }
        }
    }
    __syncthreads();
}

// A block a row. `space` has room for `padded` keys and as many doubles a row, where more than KEPT may stay.
extern "C" __global__ void __launch_bounds__(THREADS)
sample(const float* logits, u32 cols, const Choice* choices, u64* space, u32 padded, u32* out) {
    __shared__ u64 kept_keys[KEPT];
    __shared__ double kept_weights[KEPT];
    __shared__ u32 counts[256];
    __shared__ u64 best[THREADS / 32];
    __shared__ u64 threshold;
    __shared__ u32 wanted, bad, taken, done;

    const Choice choice = choices[blockIdx.x];
    const float* row = logits + (u64)blockIdx.x * cols;
    const u32 columns = choice.columns < cols ? choice.columns : cols;
    if (threadIdx.x == 0) bad = 0;
    __syncthreads();

    u64 mine = 0;
    for (u32 c = threadIdx.x; c < columns; c += THREADS) {
        float x = row[c];
        if (!(x < __uint_as_float(0x7f800000u))) bad = 1;
        u64 key = key_of(x, c);
        mine = key > mine ? key : mine;
    }
#pragma unroll
    for (int away = 16; away > 0; away >>= 1) {
        u64 other = __shfl_xor_sync(0xffffffffu, mine, away);
        mine = other > mine ? other : mine;
    }
    if ((threadIdx.x & 31) == 0) best[threadIdx.x >> 5] = mine;
    __syncthreads();
    if (bad) {
        if (threadIdx.x == 0) out[blockIdx.x] = NOT_FINITE;
        return;
    }
    if (threadIdx.x == 0)
        for (int i = 1; i < THREADS / 32; ++i) best[0] = best[i] > best[0] ? best[i] : best[0];
    __syncthreads();
    const u32 top = column_of(best[0]);
    if (!(choice.temperature > 0.0f)) {
        if (threadIdx.x == 0) out[blockIdx.x] = top;
        return;
    }

    const u32 kept = choice.top_k > 0 && choice.top_k < columns ? choice.top_k : columns;
    if (threadIdx.x == 0) {
        threshold = 0;
        wanted = kept;
        taken = 0;
        done = 0;
    }
    // The kept-th largest key: digits from the highest, each the one in which the wanted key falls, until the digits found
    // are those of exactly the keys that are wanted.
    if (kept < columns) {
        for (int shift = 56; shift >= 0; shift -= 8) {
            if (threadIdx.x < 256) counts[threadIdx.x] = 0;
            __syncthreads();
            const u64 prefix = threshold;
            for (u32 from = 0; from < columns; from += THREADS) {
                const u32 c = from + threadIdx.x;
                const u64 key = c < columns ? key_of(row[c], c) : 0;
                const bool here = c < columns && (shift == 56 || key >> (shift + 8) == prefix >> (shift + 8));
                // Logits are of few magnitudes: a warp counts equal digits at once.
                const u32 among = __ballot_sync(0xffffffffu, here);
                if (here) {
                    const u32 digit = (u32)(key >> shift) & 255u;
                    const u32 equal = __match_any_sync(among, digit);
                    if ((threadIdx.x & 31) == __ffs(equal) - 1) atomicAdd(&counts[digit], __popc(equal));
                }
            }
            __syncthreads();
            if (threadIdx.x < 32) {
                // Lane l has digits 8 l .. 8 l + 7; `above` counts the keys with larger digits.
                u32 own = 0;
                for (int i = 0; i < 8; ++i) own += counts[threadIdx.x * 8 + i];
                u32 above = own;
                for (int away = 1; away < 32; away <<= 1) {
                    const u32 other = __shfl_down_sync(0xffffffffu, above, away);
                    if (threadIdx.x + away < 32) above += other;
                }
                above -= own;
                const u32 want = wanted;
                if (above < want && want <= above + own) {
                    int digit = threadIdx.x * 8 + 7;
                    while (above + counts[digit] < want) above += counts[digit--];
                    threshold = prefix | (u64)digit << shift;
                    wanted = want - above;
                    done = counts[digit] == want - above;
                }
            }
            __syncthreads();
            if (done) break;
        }
    }
    __syncthreads();

    u32 count = 2;
    while (count < kept) count <<= 1;
    u64* keys = kept <= KEPT ? kept_keys : space + (u64)blockIdx.x * 2 * padded;
    double* weights = kept <= KEPT ? kept_weights : (double*)(keys + padded);
    for (u32 i = kept + threadIdx.x; i < count; i += THREADS) keys[i] = 0;
    for (u32 c = threadIdx.x; c < columns; c += THREADS) {
        u64 key = key_of(row[c], c);
        if (key >= threshold) keys[atomicAdd(&taken, 1u)] = key;
    }
    sort(keys, count);

    const double largest = (double)row[top], temperature = (double)choice.temperature;
    for (u32 i = threadIdx.x; i < kept; i += THREADS)
        weights[i] = exp(__ddiv_rn(__dadd_rn((double)row[column_of(keys[i])], -largest), temperature));
    __syncthreads();
    if (threadIdx.x == 0) {
        double total = 0.0;
        for (u32 i = 0; i < kept; ++i) total = __dadd_rn(total, weights[i]);
        u32 words[4];
        random_words(choice.seed, choice.step, PURPOSE_TOKEN, 0, words);
        const double target = __dmul_rn((double)((float)(words[0] >> 8) * (1.0f / 16777216.0f)), total);
        double sum = 0.0;
        u32 at = 0;
        while (at < kept - 1) {
            sum = __dadd_rn(sum, weights[at]);
            if (sum > target) break;
            ++at;
        }
        out[blockIdx.x] = column_of(keys[at]);
    }
}
