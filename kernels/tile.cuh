// NVFP4 weights as the decode kernels read them, and how they become operands of the bf16 tensor-core instruction.
//
// A piece is 16 rows x 256 k of a matrix, 2304 bytes; a matrix is [N/16][K/256] pieces, N and K padded with zeros.
//
//   codes   [4 tiles of 64 k][32 lanes][16 bytes]   lane 4g + t: k = 64 tile + 16 t + 0..15 of row g, then of row g + 8
//   scales  [32 lanes][8 bytes]                     row g: a byte for each tile; then row g + 8
//
// So a lane holds whole blocks of 16 k: one scale serves sixteen codes. Which k goes into which place of the
// instruction is free as long as both operands agree; here lane t of instruction j takes k = 16 t + 4 j + 0..3.
//
// Eight codes of a word are not in their natural order but where the fewest operations turn two of them into two
// bfloat16 numbers (sign at bit 15, e2m1's three bits at 8..6: the value times 2^-126). In each half of a word, k even low:
//
//   pair 0: bits 15, 8..6     pair 1: bits 12, 5..3     pair 2: bits 9, 2..0     pair 3: sign 11, then 10, 14, 13
//
// Scales are recoded from e4m3 to five bits of exponent and three of mantissa, all normal: byte = (e + 9) << 3 | m. As
// bfloat16 with 228 added to the exponent they are the scale times 2^110. A product is then the weight times 2^-16,
// exact (six significant bits), and 2^16 belongs to alpha. A block with scale 0 has its codes set to 0.
//
// Sums: S pieces of a row are cut into P = 8 parts, or 16 where S is 16 or more; part p = pieces p S / P .. (p + 1) S / P. A
// part is one chain of instructions from zero; the even parts are added in order, so are the odd ones, then the two sums.
// No kernel does otherwise, for any number of rows: a row's bits do not depend on the others.
#include "base.cuh"

#define PIECE 2304

DEVICE u32 parts_of(u32 pieces) { return pieces < 16 ? 8 : 16; }
DEVICE u32 part_begin(u32 pieces, u32 parts, u32 part) { return part * pieces / parts; }

// The sum of PARTS parts `step` floats apart, in the one order.
template <u32 PARTS>
DEVICE float sum_parts(const float* at, u32 step) {
    float even = at[0], odd = at[step];
#pragma unroll
    for (u32 p = 2; p < PARTS; p += 2) {
        even = add(even, at[p * step]);
        odd = add(odd, at[(p + 1) * step]);
    }
    return add(even, odd);
}

DEVICE void mma_bf16(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Both halves times both halves; an addend of -0 changes nothing, and sm_80 has no other form.
DEVICE u32 mul_bf16x2(u32 a, u32 b) {
    u32 d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(0x80008000u));
    return d;
}

// A scale byte, twice, as bfloat16 times 2^110.
DEVICE u32 scale_pair(u32 word, u32 tile) {
    const u32 twice = __byte_perm(word, 0u, 0x4040u | tile * 0x0101u);
    return twice * 16u + 0x72007200u;
}

// Eight codes to four pairs.
DEVICE void decode_word(u32 q, u32 scale, u32 (&w)[4]) {
    const u32 keep = 0x81c081c0u;
    w[0] = mul_bf16x2(q & keep, scale);
    w[1] = mul_bf16x2((q * 8u) & keep, scale);
    w[2] = mul_bf16x2((q * 64u) & keep, scale);
    w[3] = mul_bf16x2((((q >> 7) & 0x00d800d8u) * 0x821u) & keep, scale);
}

// One tile of 64 k as the four instructions' operands: a[j] = {row g low, row g + 8 low, row g high, row g + 8 high}
DEVICE void decode_tile(const uint4& codes, u32 upper, u32 lower, u32 (&a)[4][4]) {
    u32 r[4];
    decode_word(codes.x, upper, r);
    a[0][0] = r[0]; a[0][2] = r[1]; a[1][0] = r[2]; a[1][2] = r[3];
    decode_word(codes.y, upper, r);
    a[2][0] = r[0]; a[2][2] = r[1]; a[3][0] = r[2]; a[3][2] = r[3];
    decode_word(codes.z, lower, r);
    a[0][1] = r[0]; a[0][3] = r[1]; a[1][1] = r[2]; a[1][3] = r[3];
    decode_word(codes.w, lower, r);
    a[2][1] = r[0]; a[2][3] = r[1]; a[3][1] = r[2]; a[3][3] = r[3];
}

// The four instructions of a tile against sixteen k of a column a lane.
DEVICE void mma_tile(float (&d)[4], const u32 (&a)[4][4], const uint4& low, const uint4& high) {
    mma_bf16(d, a[0][0], a[0][1], a[0][2], a[0][3], low.x, low.y);
    mma_bf16(d, a[1][0], a[1][1], a[1][2], a[1][3], low.z, low.w);
    mma_bf16(d, a[2][0], a[2][1], a[2][2], a[2][3], high.x, high.y);
    mma_bf16(d, a[3][0], a[3][1], a[3][2], a[3][3], high.z, high.w);
}

// ---- shared memory

DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// ---- global memory that another block may have written in this launch: never from the first-level cache

DEVICE uint4 fresh_16(const void* at) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
    return v;
}

DEVICE float fresh(const float* at) {
    float v;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(at) : "memory");
    return v;
}

// ---- a warp's own ring of pieces, filled ahead of use

#if __CUDA_ARCH__ >= 900
#define BULK 1
#else
#define BULK 0
#endif

DEVICE void barrier_init(u32 barrier, u32 count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// The copy engine's accesses to shared memory come after what this thread has done to it.
DEVICE void copy_engine_after() {
#if BULK
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

DEVICE void barrier_arrive(u32 barrier) {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
}

DEVICE void barrier_wait(u32 barrier, u32 parity) {
#if BULK
#define TRY "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
#else
#define TRY "mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
#endif
    asm volatile("{\n.reg .pred done;\nagain:\n" TRY "@!done bra again;\n}" ::"r"(barrier), "r"(parity) : "memory");
#undef TRY
}

// This lane's asynchronous copies so far count as its arrival once they are done.
DEVICE void async_copies_arrive(u32 barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// Weights are read once a step: they shall not drive anything else out of the second-level cache.
DEVICE u64 read_once() {
    u64 policy = 0;
#if BULK
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
#endif
    return policy;
}

// `bytes` from global to shared memory, counted by the barrier. Called by one lane.
DEVICE void bulk_copy(u32 to, const void* from, u32 bytes, u32 barrier, u64 policy) {
#if BULK
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
        ::"r"(to), "l"(from), "r"(bytes), "r"(barrier), "l"(policy) : "memory");
#endif
}

DEVICE void async_copy_16(u32 to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// STAGES places; `put` fills the next one, `take` waits for the oldest but `ahead`, `drop` gives the oldest back. Without the
// bulk copy engine every put is a group of asynchronous copies, and after the last piece puts of nothing keep the count.
template <int STAGES>
struct Ring {
    u8* places;    // [STAGES][PIECE], in shared memory
    u64* barriers; // [STAGES]
    u64 policy;
    u32 in, out;   // next to fill, oldest
    u32 phase;     // of `out`

    DEVICE void start(u8* places_, u64* barriers_) {
        places = places_;
        barriers = barriers_;
        policy = read_once();
        in = out = phase = 0;
        if ((threadIdx.x & 31) == 0)
            for (int i = 0; i < STAGES; ++i) barrier_init(shared_address(barriers + i), 1);
        copy_engine_after();
        __syncwarp();
    }
    DEVICE void put(const u8* from) {
        const u32 to = shared_address(places) + in * PIECE;
#if BULK
        if ((threadIdx.x & 31) == 0) bulk_copy(to, from, PIECE, shared_address(barriers) + 8 * in, policy);
#else
        for (u32 i = threadIdx.x & 31; i < PIECE / 16; i += 32) async_copy_16(to + 16 * i, from + 16 * i);
        asm volatile("cp.async.commit_group;" ::: "memory");
#endif
        in = in + 1 == STAGES ? 0 : in + 1;
    }
    DEVICE void put_nothing() {
#if !BULK
        asm volatile("cp.async.commit_group;" ::: "memory");
        in = in + 1 == STAGES ? 0 : in + 1;
#endif
    }
    // AHEAD = 0 or 1: the oldest piece or the one after, once it is there.
    template <int AHEAD>
    DEVICE const u8* take() {
        const bool wraps = AHEAD != 0 && out + AHEAD == STAGES;
        const u32 at = wraps ? 0 : out + AHEAD;
#if BULK
        barrier_wait(shared_address(barriers) + 8 * at, wraps ? phase ^ 1 : phase);
#else
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1 - AHEAD) : "memory");
        __syncwarp();
#endif
        return places + at * PIECE;
    }
    // Every lane has read what it wanted of the oldest; its place may be filled again.
    DEVICE void drop() {
        copy_engine_after();
        __syncwarp();
        if (++out == STAGES) {
            out = 0;
            phase ^= 1;
        }
    }
};

// One piece against B: 16 k of a column a lane for each tile of 64, b[2 tile], b[2 tile + 1]. After a tile `next` may put
// what comes next into its two places.
template <int COLUMNS, class Next>
DEVICE void multiply_piece(const u8* piece, uint4 (&b)[COLUMNS][8], float (&d)[COLUMNS][4], Next next) {
    const u32 lane = threadIdx.x & 31;
    const uint2 scales = *(const uint2*)(piece + 2048 + lane * 8);
#pragma unroll
    for (u32 tile = 0; tile < 4; ++tile) {
        const uint4 codes = *(const uint4*)(piece + tile * 512 + lane * 16);
        u32 a[4][4];
        decode_tile(codes, scale_pair(scales.x, tile), scale_pair(scales.y, tile), a);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) mma_tile(d[c], a, b[c][2 * tile], b[c][2 * tile + 1]);
        next(tile);
    }
}
