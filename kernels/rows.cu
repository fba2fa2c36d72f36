// Rows looked up, moved and put side by side.
#include "base.cuh"

// A segment of a call: `len` rows from row `first`.
struct Segment {
    u32 slot;
    u32 start;
    u32 first;
    u32 len;
};

// What is known of every row. Grid (rows, segments).
KERNEL places(const Segment* segments, Place* out) {
    Segment s = segments[blockIdx.y];
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < s.len; i += gridDim.x * blockDim.x)
        out[s.first + i] = Place{s.slot, s.start + i, s.first, s.start, s.start + s.len};
}

// out[r] = sum over j of table[ids[r * per_row + j]], in order of j. A block a row; `wide` says the table is f32.
KERNEL embed(const void* table, u32 wide, u32 cols, const u32* ids, u32 per_row, float* out) {
    u64 r = blockIdx.x;
    for (u32 c = threadIdx.x; c < cols; c += blockDim.x) {
        float sum = 0.0f;
        for (u32 j = 0; j < per_row; ++j) {
            u64 at = (u64)ids[r * per_row + j] * cols + c;
            sum = add(sum, wide ? ((const float*)table)[at] : from_bf16(((const u16*)table)[at]));
        }
        out[r * cols + c] = sum;
    }
}

// out[i] = x[from[i]], a block a row.
KERNEL gather(const float* x, const u32* from, float* out, u32 cols) {
    const float* source = x + (u64)from[blockIdx.x] * cols;
    float* to = out + (u64)blockIdx.x * cols;
    for (u32 c = threadIdx.x; c < cols; c += blockDim.x) to[c] = source[c];
}

// out[to[i]] = x[i], a block a row.
KERNEL scatter(const float* x, const u32* to, float* out, u32 cols) {
    const float* source = x + (u64)blockIdx.x * cols;
    float* place = out + (u64)to[blockIdx.x] * cols;
    for (u32 c = threadIdx.x; c < cols; c += blockDim.x) place[c] = source[c];
}

// out[r] = a[r] | b[r], a block a row.
KERNEL join(const float* a, u32 a_cols, u32 a_width, const float* b, u32 b_cols, u32 b_width, float* out) {
    u64 r = blockIdx.x;
    float* to = out + r * (a_width + b_width);
    for (u32 c = threadIdx.x; c < a_width; c += blockDim.x) to[c] = a[r * a_cols + c];
    for (u32 c = threadIdx.x; c < b_width; c += blockDim.x) to[a_width + c] = b[r * b_cols + c];
}
