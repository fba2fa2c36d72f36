// The noise that a solver starts from, and its steps.
#include "base.cuh"

struct Draw {
    u64 seed;
    u32 step;
    float scale;
};

DEVICE float unit(u32 word) { return (float)(word >> 8) * (1.0f / 16777216.0f); }

// Value c of row r of a draw is its number c * rows + r: a thread makes four of them. Grid (quads, draws).
KERNEL noise(const Draw* draws, u32 rows, u32 cols, float* out) {
    u32 size = rows * cols;
    u32 quad = blockIdx.x * blockDim.x + threadIdx.x;
    if (quad * 4 >= size) return;
    Draw draw = draws[blockIdx.y];
    out += (u64)blockIdx.y * size;
    u32 words[4];
    random_words(draw.seed, draw.step, PURPOSE_NOISE, quad, words);
    float numbers[4];
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
        float radius = __fsqrt_rn(mul(-2.0f, ln_(add(1.0f, -unit(words[2 * pair])))));
        float turn = unit(words[2 * pair + 1]);
        numbers[2 * pair] = mul(radius, sin_(mul(6.28318530717958647692f, add(turn, 0.25f))));
        numbers[2 * pair + 1] = mul(radius, sin_(mul(6.28318530717958647692f, turn)));
    }
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        u32 i = quad * 4 + j;
        if (i < size) out[i % rows * cols + i / rows] = mul(draw.scale, numbers[j]);
    }
}

struct Guidance {
    float cfg;
    float dt;
};

// A block of 256 threads a draw of `size` values: the conditioned velocity follows the unconditioned one by their
// projection (CFG-Zero*), then one Euler step.
KERNEL guided_step(float* x, const float* v, u64 size, u64 all, const Guidance* steps) {
    __shared__ float shared[8];
    u64 from = blockIdx.x * size;
    const float* with = v + from;
    const float* without = v + all + from;
    float both = 0.0f, own = 0.0f;
    for (u64 i = threadIdx.x; i < size; i += 256) {
        both = fma_(with[i], without[i], both);
        own = fma_(without[i], without[i], own);
    }
    both = block_sum(both, shared);
    own = block_sum(own, shared);
    float alpha = over(both, add(own, 1e-8f));
    Guidance step = steps[blockIdx.x];
    for (u64 i = threadIdx.x; i < size; i += 256) {
        float base = mul(alpha, without[i]);
        float velocity = fma_(step.cfg, add(with[i], -base), base);
        x[from + i] = add(x[from + i], -mul(step.dt, velocity));
    }
}
