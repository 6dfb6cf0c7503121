// binary16: native from GFX8 on, through binary32 on GFX7; packed on GFX9.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#include "prelude.h"
#ifdef __AMDGCN__
typedef half half2 __attribute__((ext_vector_type(2)));
typedef half half4 __attribute__((ext_vector_type(4)));
#endif

kernel GROUP(64, 1, 1) void half_arith(global const half *a, global const half *b, global half *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = a[i] + b[i];
    out[i + n] = a[i] - b[i];
    out[i + 2 * n] = a[i] * b[i];
    out[i + 3 * n] = -a[i] + (half)1.5f;
}

kernel GROUP(64, 1, 1) void half_packed(global const half2 *a, global const half2 *b, global half2 *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = a[i] + b[i];
    out[i + n] = a[i] * b[i].yx;
    out[i + 2 * n] = (half2)(a[i].x - b[i].y, a[i].y - b[i].x);
}

kernel GROUP(64, 1, 1) void half_convert(global const float *a, global const half *b, global half *h, global float *f,
                                         global int *w)
{
    uint i = global_id(0), n = grid_size(0);
    h[i] = (half)a[i];
    f[i] = (float)b[i];
    w[i] = (int)b[i];
    h[i + n] = (half)(int)a[i];
    f[i + n] = (float)(half)(a[i] * 0.333f);
}

kernel GROUP(64, 1, 1) void half_compare(global const half *a, global const half *b, global ushort *out)
{
    uint i = global_id(0);
    out[i] = (ushort)((a[i] < b[i]) | (a[i] == b[i]) << 1 | (a[i] >= b[i]) << 2 | (a[i] != b[i]) << 3);
}

#ifdef __AMDGCN__
kernel GROUP(64, 1, 1) void half_fma(global const half *a, global const half *b, global const half *c, global half *out)
{
    uint i = global_id(0);
    out[i] = __builtin_fmaf16(a[i], b[i], c[i]);
}
#endif
