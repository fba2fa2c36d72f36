// What is done to every value by itself. Values are f32; `at` and `cols` cut columns out of wider rows.
#include "base.cuh"

#define EACH(count) \
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += (u64)gridDim.x * blockDim.x)

// gate and up [R, ...], out [R, width]
KERNEL silu_mul(const float* gate, u32 gate_cols, const float* up, u32 up_cols, float* out, u32 width, u64 count) {
    EACH(count) {
        u64 r = i / width, c = i % width;
        out[i] = mul(silu(gate[r * gate_cols + c]), up[r * up_cols + c]);
    }
}

KERNEL each_gelu(float* x, u64 count) { EACH(count) x[i] = gelu(x[i]); }

KERNEL each_silu(float* x, u64 count) { EACH(count) x[i] = silu(x[i]); }

KERNEL each_tanh(float* x, u64 count) { EACH(count) x[i] = tanh_(x[i]); }

KERNEL each_elu(const float* x, float* out, u64 count) { EACH(count) out[i] = elu(x[i]); }

KERNEL each_scale(float* x, float factor, u64 count) { EACH(count) x[i] = mul(x[i], factor); }

KERNEL finite_scalar(float* x, float levels, u64 count) {
    EACH(count) x[i] = over(rintf(mul(levels, tanh_(x[i]))), levels);
}

KERNEL snake(const float* x, const float* alpha, float* out, u32 cols, u64 count) {
    EACH(count) {
        float a = alpha[i % cols];
        float sin = sin_(mul(a, x[i]));
        out[i] = fma_(mul(sin, sin), over(1.0f, add(a, 1e-9f)), x[i]);
    }
}

KERNEL affine(float* x, const float* scale, const float* shift, u32 cols, u64 count) {
    EACH(count) x[i] = fma_(x[i], scale[i % cols], shift[i % cols]);
}

KERNEL add_to(float* x, const float* y, u64 count) { EACH(count) x[i] = add(x[i], y[i]); }

KERNEL add_scaled(float* x, const float* y, const float* scale, u32 cols, u64 count) {
    EACH(count) x[i] = fma_(scale[i % cols], y[i], x[i]);
}
