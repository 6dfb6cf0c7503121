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

// Rounds of byte substitution: four bytes of each lane come from anywhere in a table of 256.
LINE kernel void substitution(global const uchar *table, global const uint *a, global uint *b) {
    uint i = GROUP(x) * 256 + LOCAL(x), x = a[i];
    for (uint k = 0; k < 32; k++)
        x = (table[x >> 24] | table[x & 255] << 8 | table[x >> 8 & 255] << 16 | (uint)table[x >> 16 & 255] << 24) ^ k;
    b[i] = x;
}

LINE kernel void substitution_local(global const uchar *table, global const uint *a, global uint *b) {
    local uchar t[256];
    uint i = GROUP(x) * 256 + LOCAL(x), x = a[i];
    t[LOCAL(x)] = table[LOCAL(x)];
    MEET
    for (uint k = 0; k < 32; k++)
        x = (t[x >> 24] | t[x & 255] << 8 | t[x >> 8 & 255] << 16 | (uint)t[x >> 16 & 255] << 24) ^ k;
    b[i] = x;
}

// The same with four tables of dwords.
LINE kernel void tables(global const uint *table, global const uint *a, global uint *b) {
    uint i = GROUP(x) * 256 + LOCAL(x), x = a[i];
    for (uint k = 0; k < 32; k++)
        x = table[x & 255] ^ table[256 + (x >> 8 & 255)] ^ table[512 + (x >> 16 & 255)] ^ table[768 + (x >> 24)] ^ k;
    b[i] = x;
}

LINE kernel void gather(global const uint *index, global const float *a, global float *sums) {
    uint i = GROUP(x) * 256 + LOCAL(x), at = index[i];
    float sum = 0;
    for (uint k = 0; k < 64; k++) {
        sum += a[at];
        at = at * 1664525u + 1013904223u & 0xffff;
    }
    sums[i] = sum;
}

// One row of a matrix per work-item: lanes are n floats apart.
LINE kernel void rows(global const float *a, global const float *x, global float *y, uint n) {
    uint i = GROUP(x) * 256 + LOCAL(x);
    float sum = 0;
    for (uint k = 0; k < n; k++) sum = FMA(a[i * n + k], x[k], sum);
    y[i] = sum;
}

// One column: lanes lie side by side.
LINE kernel void columns(global const float *a, global const float *x, global float *y, uint n) {
    uint i = GROUP(x) * 256 + LOCAL(x);
    float sum = 0;
    for (uint k = 0; k < n; k++) sum = FMA(a[k * n + i], x[k], sum);
    y[i] = sum;
}

// Squares of 4 x 4, one per work-item.
TILE kernel void transpose4(global const float4 *a, global float4 *b, uint n) {
    uint x = GROUP(x) * 16 + LOCAL(x), y = GROUP(y) * 16 + LOCAL(y), w = n / 4;
    float4 p = a[4 * y * w + x], q = a[(4 * y + 1) * w + x], r = a[(4 * y + 2) * w + x], s = a[(4 * y + 3) * w + x];
    b[4 * x * w + y] = (float4)(p.x, q.x, r.x, s.x);
    b[(4 * x + 1) * w + y] = (float4)(p.y, q.y, r.y, s.y);
    b[(4 * x + 2) * w + y] = (float4)(p.z, q.z, r.z, s.z);
    b[(4 * x + 3) * w + y] = (float4)(p.w, q.w, r.w, s.w);
}
