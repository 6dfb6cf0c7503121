// binary64.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#include "prelude.h"

kernel GROUP(64, 1, 1) void double_arith(global const double *a, global const double *b, global double *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = a[i] + b[i];
    out[i + n] = a[i] - b[i];
    out[i + 2 * n] = a[i] * b[i];
    out[i + 3 * n] = (a[i] + 1.0) * 0.3 - b[i] * a[i];
}

kernel GROUP(64, 1, 1) void double_divide(global const double *a, global const double *b, global double *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = a[i] / b[i];
    out[i + n] = 1.0 / b[i];
}

kernel GROUP(64, 1, 1) void double_convert(global const double *a, global const int *b, global int *w, global float *f,
                                           global double *d)
{
    uint i = global_id(0), n = grid_size(0);
    w[i] = (int)a[i];
    w[i + n] = (int)(uint)(a[i] < 0 ? -a[i] : a[i]);
    f[i] = (float)a[i];
    d[i] = (double)b[i];
    d[i + n] = (double)(uint)b[i];
    d[i + 2 * n] = (double)(float)(a[i] * 1.1);
}

kernel GROUP(64, 1, 1) void double_convert_long(global const double *a, global const long *b, global long *w, global double *d)
{
    uint i = global_id(0), n = grid_size(0);
    w[i] = (long)a[i];
    w[i + n] = (long)(ulong)(a[i] < 0 ? -a[i] : a[i]);
    d[i] = (double)b[i];
    d[i + n] = (double)(ulong)b[i];
}

kernel GROUP(64, 1, 1) void double_compare(global const double *a, global const double *b, global uint *out)
{
    uint i = global_id(0);
    out[i] = (uint)(a[i] < b[i]) | (uint)(a[i] == b[i]) << 1 | (uint)(a[i] >= b[i]) << 2 | (uint)!(a[i] > b[i]) << 3;
}

#ifdef __AMDGCN__
kernel GROUP(64, 1, 1) void double_fma(global const double *a, global const double *b, global const double *c, global double *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = __builtin_fma(a[i], b[i], c[i]);
    out[i + n] = __builtin_fma(-a[i], b[i], a[i]);
}

kernel GROUP(64, 1, 1) void double_round(global const double *a, global double *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = __builtin_floor(a[i]);
    out[i + n] = __builtin_ceil(a[i]);
    out[i + 2 * n] = __builtin_trunc(a[i]);
    out[i + 3 * n] = __builtin_rint(a[i]);
    out[i + 4 * n] = __builtin_fmin(a[i], 2.0);
}

kernel GROUP(64, 1, 1) void double_root(global const double *a, global double *out)
{
    uint i = global_id(0);
    out[i] = __builtin_sqrt(a[i]);
}
#endif
