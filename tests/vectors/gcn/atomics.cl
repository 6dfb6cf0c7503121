// Atomics on global memory and LDS, 32 and 64 bits. Only for compilers that know C11 atomics.
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
#include "prelude.h"

kernel GROUP(64, 1, 1) void atomic_add32(global atomic_int *sums, global const int *a, global int *old)
{
    uint i = global_id(0);
    old[i] = FETCH(add, &sums[i & 3], a[i]);
    FETCH(sub, &sums[4], a[i]);
}

kernel GROUP(64, 1, 1) void atomic_minmax32(global atomic_int *s, global atomic_uint *u, global const int *a)
{
    uint i = global_id(0);
    FETCH(min, &s[0], a[i]);
    FETCH(max, &s[1], a[i]);
    FETCH(min, &u[0], (uint)a[i]);
    FETCH(max, &u[1], (uint)a[i]);
}

kernel GROUP(64, 1, 1) void atomic_bits32(global atomic_uint *u, global const uint *a)
{
    uint i = global_id(0);
    FETCH(and, &u[0], a[i] | 0xf0f);
    FETCH(or, &u[1], a[i] & 0xff00ff);
    FETCH(xor, &u[2], a[i]);
}

kernel GROUP(64, 1, 1) void atomic_swap32(global atomic_uint *u, global uint *got)
{
    uint i = global_id(0);
    got[i] = EXCHANGE(&u[i & 15], i + 1);
}

kernel GROUP(64, 1, 1) void atomic_cas32(global atomic_uint *u, global const float *a)
{
    // A float sum by compare and exchange; the values make every order give the same sum.
    uint i = global_id(0), expected = LOAD(&u[0]);
    while (!COMPARE_EXCHANGE(&u[0], &expected, as_uint(as_float(expected) + a[i])))
        ;
}

kernel GROUP(64, 1, 1) void atomic_add64(global atomic_ulong *u, global atomic_long *s, global const long *a)
{
    uint i = global_id(0);
    FETCH(add, &u[i & 1], (ulong)a[i]);
    FETCH(min, &s[0], a[i]);
    FETCH(max, &s[1], a[i]);
    FETCH(xor, &u[2], (ulong)a[i]);
    FETCH(or, &u[3], (ulong)a[i] & 0x00ff00ff00ff00fful);
}

kernel GROUP(64, 1, 1) void atomic_cas64(global atomic_ulong *u, global const ulong *a)
{
    uint i = global_id(0);
    ulong expected = LOAD(&u[0]);
    while (!COMPARE_EXCHANGE(&u[0], &expected, (expected ^ a[i]) + (1ul << 32) - (1ul << 32)))
        ;
}

kernel GROUP(128, 1, 1) void atomic_lds32(global const uint *a, global uint *out)
{
    local atomic_uint bins[16];
    local atomic_int low, high;
    uint l = local_id(0), i = global_id(0);
    if (l < 16)
        STORE(&bins[l], 0u);
    if (l == 0) {
        STORE(&low, 0x7fffffff);
        STORE(&high, (int)0x80000000);
    }
    sync();
    FETCH(add, &bins[a[i] & 15], 1u);
    FETCH(min, &low, (int)a[i]);
    FETCH(max, &high, (int)a[i]);
    sync();
    if (l < 16)
        out[group_id(0) * 18 + l] = LOAD(&bins[l]);
    if (l == 16)
        out[group_id(0) * 18 + 16] = (uint)LOAD(&low);
    if (l == 17)
        out[group_id(0) * 18 + 17] = (uint)LOAD(&high);
}

kernel GROUP(128, 1, 1) void atomic_lds64(global const ulong *a, global ulong *out)
{
    local atomic_ulong sum, mix;
    local atomic_ulong slots[2];
    uint l = local_id(0), i = global_id(0);
    if (l == 0) {
        STORE(&sum, 0ul);
        STORE(&mix, 0ul);
        STORE(&slots[0], ~0ul);
        STORE(&slots[1], 0ul);
    }
    sync();
    FETCH(add, &sum, a[i]);
    FETCH(xor, &mix, a[i]);
    FETCH(min, &slots[0], a[i]);
    FETCH(max, &slots[1], a[i]);
    sync();
    if (l == 0) {
        out[group_id(0) * 4] = LOAD(&sum);
        out[group_id(0) * 4 + 1] = LOAD(&mix);
        out[group_id(0) * 4 + 2] = LOAD(&slots[0]);
        out[group_id(0) * 4 + 3] = LOAD(&slots[1]);
    }
}

kernel GROUP(128, 1, 1) void atomic_ticket(global atomic_uint *next, global uint *order)
{
    // Every work-item gets a number of its own.
    uint mine = FETCH(add, next, 1u);
    order[mine] = mine * mine;
}
