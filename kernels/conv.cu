// Causal convolutions over time: the rows carried from before are put in front of the new ones, and then a convolution is
// a linear over overlapping rows (gemm.cu) or a few taps a column.
#include "base.cuh"

// One segment of a call: `len` new rows from row `from` of x; its joined rows begin at row `at`.
struct Stretch {
    u32 slot;
    u32 from;
    u32 len;
    u32 at;
};

// first[r] = the first joined row that row r sees. Grid (rows, segments).
KERNEL conv_first(const Stretch* stretches, u32* first) {
    Stretch s = stretches[blockIdx.y];
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < s.len; i += gridDim.x * blockDim.x) first[s.from + i] = s.at + i;
}

// joined[at ..] = carried rows, then new rows. Grid (rows, segments).
KERNEL conv_join(const Stretch* stretches, const float* carry, u32 before, const float* x, float* joined, u32 cols) {
    Stretch s = stretches[blockIdx.y];
    for (u32 r = blockIdx.x; r < before + s.len; r += gridDim.x) {
        const float* from = r < before ? carry + ((u64)s.slot * before + r) * cols : x + ((u64)s.from + r - before) * cols;
        float* to = joined + ((u64)s.at + r) * cols;
        for (u32 c = threadIdx.x; c < cols; c += blockDim.x) to[c] = from[c];
    }
}

// Overlapping rows made rows of their own: out [R, K] from (first ? first[r] : r) * stride. Grid (R).
KERNEL unroll(const float* x, const u32* first, u64 stride, u32 k, float* out) {
    const u64 r = blockIdx.x;
    x += (first ? first[r] : r) * stride;
    for (u32 c = threadIdx.x; c < k; c += blockDim.x) out[r * k + c] = x[c];
}

// The last rows of every segment become its slot's carried ones. Grid (before, segments).
KERNEL conv_carry(const Stretch* stretches, float* carry, u32 before, const float* joined, u32 cols) {
    Stretch s = stretches[blockIdx.y];
    u32 r = blockIdx.x;
    const float* from = joined + ((u64)s.at + s.len + r) * cols;
    float* to = carry + ((u64)s.slot * before + r) * cols;
    for (u32 c = threadIdx.x; c < cols; c += blockDim.x) to[c] = from[c];
}

// w [phases, taps, C], out [R, phases * C]; a block a row; first[r] is the first joined row that row r sees.
KERNEL depthwise(const float* joined, const u32* first, const float* w, const float* bias, u32 phases, u32 taps,
                 u32 dilation, u32 cols, float* out) {
    const float* seen = joined + (u64)first[blockIdx.x] * cols;
    out += (u64)blockIdx.x * phases * cols;
    for (u32 i = threadIdx.x; i < phases * cols; i += blockDim.x) {
        u32 p = i / cols, c = i % cols;
        float sum = bias ? bias[c] : 0.0f;
        for (u32 j = 0; j < taps; ++j) sum = fma_(w[((u64)p * taps + j) * cols + c], seen[(u64)j * dilation * cols + c], sum);
        out[i] = sum;
    }
}
