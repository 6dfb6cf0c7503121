// Widths, strides, address spaces.
#include "prelude.h"

constant int primes[16] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};

typedef struct { uchar tag; short level; int weight; double value; } Item;

kernel GROUP(64, 1, 1) void memory_structs(global const Item *in, global Item *out)
{
    uint i = global_id(0);
    Item x = in[i];
    x.tag += 1;
    x.level = (short)(x.level * 2);
    x.weight -= x.tag;
    x.value = x.value + x.level;
    out[i] = x;
}

kernel GROUP(64, 1, 1) void memory_constant(global const uint *a, global int *out, constant int *table)
{
    uint i = global_id(0);
    out[i] = primes[a[i] & 15] * 1000 + table[a[i] >> 4 & 7] + table[3];
}

kernel GROUP(64, 1, 1) void memory_narrow(global const char *c, global const uchar *u, global const short *s,
                                          global const ushort *w, global long *out)
{
    uint i = global_id(0);
    out[i] = ((long)c[i] << 24) + ((long)u[i * 2] << 16) - s[i ^ 1] + w[255 - i];
}

kernel GROUP(64, 1, 1) void memory_strided(global const float *a, global float *out, uint stride)
{
    uint i = global_id(0);
    float s = 0.0f;
    for (uint k = 0; k < 8; k++)
        s += a[i * stride + k * 3];
    out[i * 2 + 1] = s;
}

kernel GROUP(64, 1, 1) void memory_copy16(global const uint4 *a, global uint4 *out, uint shift)
{
    uint i = global_id(0);
    out[i] = a[(i + shift) % grid_size(0)];
}

kernel GROUP(64, 1, 1) void memory_gather(global const uint *index, global const ulong *a, global ulong *out)
{
    uint i = global_id(0);
    out[index[i]] = a[index[index[i]]];
}

#ifdef __AMDGCN__
// Generic pointers: the same load and store for three address spaces.
__attribute__((noinline)) int through(const int *p, uint k) { return p[k & 15] * 2 + 1; }

kernel GROUP(64, 1, 1) void memory_generic(global const int *a, global int *out)
{
    local int shared[16];
    int own[16];
    uint i = global_id(0), l = local_id(0);
    if (l < 16)
        shared[l] = a[l] * 100;
    for (int k = 0; k < 16; k++)
        own[k] = a[i] - k;
    sync();
    const int *p = (const int *)(a + (i & 31));
    if (i % 3 == 1)
        p = shared;
    if (i % 3 == 2)
        p = own;
    out[i] = through(p, i * 7);
}
#endif
