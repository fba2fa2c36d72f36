// Normalisation over the columns: a block of 256 threads a row, sums in one order.
#include "base.cuh"

KERNEL layer_norm(const float* x, const float* gain, const float* bias, float eps, float* out, u32 cols) {
    __shared__ float shared[8];
    x += (u64)blockIdx.x * cols;
    out += (u64)blockIdx.x * cols;
    float sum = 0.0f;
    for (u32 c = threadIdx.x; c < cols; c += 256) sum = add(sum, x[c]);
    float mean = over(block_sum(sum, shared), (float)cols);
    float squares = 0.0f;
    for (u32 c = threadIdx.x; c < cols; c += 256) {
        float away = add(x[c], -mean);
        squares = fma_(away, away, squares);
    }
    float variance = over(block_sum(squares, shared), (float)cols);
    float by = over(1.0f, __fsqrt_rn(add(variance, eps)));
    for (u32 c = threadIdx.x; c < cols; c += 256) {
        float normed = mul(add(x[c], -mean), by);
        out[c] = bias ? fma_(normed, gain[c], bias[c]) : mul(normed, gain[c]);
    }
}

KERNEL rms_norm(const float* x, const float* gain, float eps, float* out, u32 cols) {
    __shared__ float shared[8];
    x += (u64)blockIdx.x * cols;
    out += (u64)blockIdx.x * cols;
    float squares = 0.0f;
    for (u32 c = threadIdx.x; c < cols; c += 256) squares = fma_(x[c], x[c], squares);
    float mean = over(block_sum(squares, shared), (float)cols);
    float by = over(1.0f, __fsqrt_rn(add(mean, eps)));
    for (u32 c = threadIdx.x; c < cols; c += 256) out[c] = mul(mul(x[c], by), gain[c]);
}
