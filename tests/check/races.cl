// One race each where B is 1, in the line marked BUG or against it; nothing to tell of where B is 0.
#if B
#define FENCE
#define DEVICE_RELEASE memory_order_relaxed
#define DEVICE_ACQUIRE memory_order_relaxed
#define DEVICE_BOTH memory_order_relaxed
#else
#define FENCE barrier(CLK_LOCAL_MEM_FENCE)
#define DEVICE_RELEASE memory_order_release
#define DEVICE_ACQUIRE memory_order_acquire
#define DEVICE_BOTH memory_order_acq_rel
#endif
#define LID get_local_id(0)
#define GID get_global_id(0)
#define GROUP get_group_id(0)

// ---- LDS ------------------------------------------------------------------------------------------------------------
kernel void reduce(global int *out, global const int *in)
{
    local int t[256];
    t[LID] = in[GID];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = 128; s > 0; s >>= 1) {
        if (LID < s)
            t[LID] += t[LID + s]; // BUG
        FENCE;
    }
    if (LID == 0)
        out[GROUP] = t[0];
}

kernel void first_barrier(global int *out, global const int *in)
{
    local int t[256];
    t[LID] = in[GID];
    FENCE;
    out[GID] = t[255 - LID]; // BUG
}

kernel void scan(global int *out, global const int *in)
{
    local int t[256];
    t[LID] = in[GID];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int d = 1; d < 256; d <<= 1) {
        int v = LID >= d ? t[LID - d] : 0; // BUG
        FENCE;
        t[LID] += v;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    out[GID] = t[LID];
}

kernel void transpose(global int *out, global const int *in)
{
    local int t[16][17];
    int x = LID & 15, y = LID >> 4;
    t[y][x] = in[GID];
    FENCE;
    out[GID] = t[x][y]; // BUG
}

kernel void double_buffer(global int *out, global const int *in, int n)
{
    local int t[2][256];
    int sum = 0;
    for (int k = 0; k < n; k++) {
        t[B ? 0 : k & 1][LID] = in[k * 256 + LID];
        barrier(CLK_LOCAL_MEM_FENCE);
        sum += t[B ? 0 : k & 1][LID ^ 64]; // BUG
    }
    out[GID] = sum;
}

kernel void tile(global int *out, global const int *in, int n)
{
    local int t[256];
    int sum = 0;
    for (int k = 0; k < n; k++) {
        t[LID] = in[k * 256 + LID]; // BUG
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < 256; j += 64)
            sum += t[LID + j & 255];
        FENCE;
    }
    out[GID] = sum;
}

kernel void broadcast(global int *out, global const int *in)
{
    local int t;
    if (LID == 0)
        t = in[GROUP];
    FENCE;
    out[GID] = t; // BUG
}

kernel void lds_counter(global int *out, global const int *in)
{
    local int n;
    if (LID == 0)
        n = 0;
    FENCE;
    if (in[GID] & 1)
        atomic_inc(&n); // BUG
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LID == 0)
        out[GROUP] = n;
}

kernel void lds_histogram(global int *out, global const int *in)
{
    local int h[16];
    if (LID < 16)
        h[LID] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
#if B
    h[in[GID] & 15]++; // BUG
#else
    atomic_inc(&h[in[GID] & 15]);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LID < 16)
        atomic_add(&out[LID], h[LID]);
}

kernel void lds_result(global int *out, global const int *in)
{
    local int n;
    if (LID == 0)
        n = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&n, in[GID]);
    FENCE;
    out[GID] = n; // BUG
}

kernel void lds_halo(global int *out, global const int *in)
{
    local int t[258];
    t[LID + 1] = in[GID];
    if (LID == 255)
        t[B ? 0 : 257] = -1; // the other end
    if (LID == 0)
        t[0] = -1;
    FENCE;
    out[GID] = t[LID] + t[LID + 2]; // BUG
}

kernel void lds_overlap(global int *out, global const int *in)
{
    local volatile int t[512];
    t[LID] = in[GID];
    t[LID + (B ? 192 : 256)] = in[GID] + 1; // BUG
    barrier(CLK_LOCAL_MEM_FENCE);
    out[GID] = t[LID] + t[LID + 256];
}

// ---- global memory --------------------------------------------------------------------------------------------------
kernel void stencil(global int *x, global int *y)
{
    int n = get_global_size(0);
    (B ? x : y)[GID] = x[GID] + x[GID + 64 & n - 1]; // BUG
}

kernel void histogram(global int *out, global const int *in)
{
#if B
    out[in[GID] & 15]++; // BUG
#else
    atomic_inc(&out[in[GID] & 15]);
#endif
}

kernel void accumulate(global int *out, global const int *in)
{
    if (LID == 0)
#if B
        out[0] += in[GROUP]; // BUG
#else
        atomic_add(&out[0], in[GROUP]);
#endif
}

kernel void overlap(global int *out)
{
    out[GROUP * (B ? 192 : 256) + LID] = GID; // BUG
}

kernel void reversed(global int *x, global int *y)
{
    int n = get_global_size(0);
    (B ? x : y)[n - 1 - GID] = x[GID]; // BUG
}

kernel void group_fence(global int *x, global int *out)
{
    x[GID] = GID;
    if (!B)
        barrier(CLK_GLOBAL_MEM_FENCE);
    out[GID] = x[GID ^ 64]; // BUG
}

kernel void barrier_of_groups(global int *x, global int *out)
{
    x[GID] = GID;
    barrier(CLK_GLOBAL_MEM_FENCE);
    out[GID] = x[GID ^ (B ? 256 : 64)]; // BUG
}

kernel void bytes(global uchar *x)
{
    x[GID + (B && LID == 255)] = GID; // BUG
}

kernel void halves(global ushort *x)
{
    x[GID * 2 + GROUP % 2] = GID;
    if (B)
        x[GID * 2 + 256] = GID; // BUG
}

kernel void reset(global int *count, global int *out)
{
    if (B && GROUP == 1 && LID < 2)
        count[LID] = 0; // BUG
    atomic_inc(&count[LID & 1]);
    out[GID] = 1;
}

// ---- releases and acquires ------------------------------------------------------------------------------------------
kernel void message(global int *data, global atomic_int *flag, global int *out)
{
    if (LID)
        return;
    if (GROUP == 0) {
        data[0] = 42;
        atomic_store_explicit(flag, 1, DEVICE_RELEASE, memory_scope_device);
    } else {
        while (!atomic_load_explicit(flag, DEVICE_ACQUIRE, memory_scope_device))
            ;
        out[GROUP] = data[0]; // BUG
    }
}

kernel void plain_flag(global int *data, global int *flag, global int *out)
{
    if (LID)
        return;
    if (GROUP == 0) {
        data[0] = 42;
#if B
        flag[0] = 1;
    } else if (flag[0]) { // BUG
#else
        atomic_store_explicit((global atomic_int *)flag, 1, memory_order_release, memory_scope_device);
    } else if (atomic_load_explicit((global atomic_int *)flag, memory_order_acquire, memory_scope_device)) {
#endif
        out[GROUP] = data[0];
    }
}

kernel void last_group(global int *part, global atomic_int *count, global int *out)
{
    local int is_last;
    if (LID == 0) {
        part[GROUP] = GROUP + 1;
        is_last = atomic_fetch_add_explicit(count, 1, DEVICE_BOTH, memory_scope_device) == get_num_groups(0) - 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (is_last && LID < get_num_groups(0))
        out[LID] = part[LID]; // BUG
}

kernel void lock(global int *sum, global atomic_int *held)
{
    if (LID)
        return;
    int free = 0;
    while (!atomic_compare_exchange_strong_explicit(held, &free, 1, DEVICE_ACQUIRE, memory_order_relaxed,
                                                    memory_scope_device))
        free = 0;
    sum[0] += GROUP; // BUG
    atomic_store_explicit(held, 0, DEVICE_RELEASE, memory_scope_device);
}

kernel void only_acquire(global int *data, global atomic_int *flag, global int *out)
{
    if (LID)
        return;
    if (GROUP == 0) {
        data[0] = 42;
        data[1] = 43;
        atomic_fetch_or_explicit(flag, 1, DEVICE_RELEASE, memory_scope_device);
    } else if (atomic_fetch_or_explicit(flag, 0, memory_order_acquire, memory_scope_device))
        out[GROUP] = data[1]; // BUG
}
