// The measured kernels, for a GPU target without a device library and for any OpenCL platform alike.
#ifdef __AMDGCN__
#define GROUP(d) ((uint)__builtin_amdgcn_workgroup_id_##d())
#define LOCAL(d) ((uint)__builtin_amdgcn_workitem_id_##d())
#define MEET                                                                                                          \
    {                                                                                                                 \
        __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");                                                        \
        __builtin_amdgcn_s_barrier();                                                                                 \
        __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");                                                        \
    }
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#else
#define GROUP(d) ((uint)get_group_id(NUMBER_##d))
#define LOCAL(d) ((uint)get_local_id(NUMBER_##d))
#define NUMBER_x 0
#define NUMBER_y 1
#define MEET barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#define FMA(a, b, c) fma(a, b, c)
#endif
#define LINE __attribute__((reqd_work_group_size(256, 1, 1)))
#define TILE __attribute__((reqd_work_group_size(16, 16, 1)))

LINE kernel void vector_add(global const float *a, global const float *b, global float *c) {
    uint i = GROUP(x) * 256 + LOCAL(x);
    c[i] = a[i] + b[i];
}

TILE kernel void matmul(global const float *a, global const float *b, global float *c, uint n) {
    uint column = GROUP(x) * 16 + LOCAL(x), row = GROUP(y) * 16 + LOCAL(y);
    float sum = 0;
    for (uint k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

TILE kernel void matmul_tiled(global const float *a, global const float *b, global float *c, uint n) {
    local float left[16][16], right[16][16];
    uint lx = LOCAL(x), ly = LOCAL(y), column = GROUP(x) * 16 + lx, row = GROUP(y) * 16 + ly;
    float sum = 0;
    for (uint tile = 0; tile < n; tile += 16) {
        left[ly][lx] = a[row * n + tile + lx];
        right[ly][lx] = b[(tile + ly) * n + column];
        MEET
        for (uint k = 0; k < 16; k++) sum += left[ly][k] * right[k][lx];
        MEET
    }
    c[row * n + column] = sum;
}

LINE kernel void reduction(global const float *a, global float *sums) {
    local float part[256];
    uint l = LOCAL(x);
    part[l] = a[GROUP(x) * 256 + l];
    MEET
    for (uint k = 128; k > 0; k >>= 1) {
        if (l < k) part[l] += part[l + k];
        MEET
    }
    if (l == 0) sums[GROUP(x)] = part[0];
}

LINE kernel void collatz(global uint *steps) {
    uint i = GROUP(x) * 256 + LOCAL(x), x = i + 1, count = 0;
    while (x != 1) {
        x = x & 1 ? 3 * x + 1 : x >> 1;
        count++;
    }
    steps[i] = count;
}

LINE kernel void polynomial(global const float *a, global float *b) {
    uint i = GROUP(x) * 256 + LOCAL(x);
    float x = a[i], y = 0.5f;
    for (uint k = 0; k < 256; k++) {
        y = FMA(y, x, 0.25f);
        y = FMA(y, x, x);
        y = FMA(y, x, -0.125f);
        y = FMA(y, x, -0.5f);
    }
    b[i] = y;
}
