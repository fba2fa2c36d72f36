// Rotary position embedding, in place.
#include "base.cuh"

// A block a row. stretch may be null for ones; `halves`: pairs (i, i + half) instead of (2i, 2i + 1).
KERNEL rope(float* x, u32 cols, u32 at, u32 heads, const float* inv_freq, const float* stretch, u32 half,
            float amplitude, u32 halves, const Place* places) {
    float position = (float)places[blockIdx.x].position;
    float* row = x + (u64)blockIdx.x * cols + at;
    for (u32 i = threadIdx.x; i < half; i += blockDim.x) {
        float sin, cos;
        sin_cos(mul(stretch ? mul(position, stretch[i]) : position, inv_freq[i]), sin, cos);
        sin = mul(sin, amplitude);
        cos = mul(cos, amplitude);
        for (u32 head = 0; head < heads; ++head) {
            float* a = row + head * 2 * half + (halves ? i : 2 * i);
            float* b = a + (halves ? half : 1);
            float p = *a, q = *b;
            *a = add(mul(p, cos), -mul(q, sin));
            *b = add(mul(q, cos), mul(p, sin));
        }
    }
}
