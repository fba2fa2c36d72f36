// Before decode_layers, where x is there already: its stats, and the counters at zero. Grid (R), 256 threads.
#include "decode.cuh"

KERNEL decode_enter(const float* x, float* stats, u32* counters, u32 count) {
    const u64 r = blockIdx.x;
    for (u32 i = threadIdx.x; i < H; i += 256) {
        const float2 of = stretch_stats(x[r * H + i]);
        if (i % 16 == 0) *(float2*)(stats + r * (H / 8) + i / 8) = of;
    }
    if (r == 0)
        for (u32 i = threadIdx.x; i < count; i += 256) counters[i] = 0;
}
