// binary32.
#include "prelude.h"

kernel GROUP(64, 1, 1) void float_arith(global const float *a, global const float *b, global float *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = a[i] + b[i];
    out[i + n] = a[i] - b[i];
    out[i + 2 * n] = a[i] * b[i];
    out[i + 3 * n] = (a[i] + 2.0f) * (b[i] - 0.5f) - a[i];
    out[i + 4 * n] = -a[i] * fabs(b[i]);
}

kernel GROUP(64, 1, 1) void float_fma(global const float *a, global const float *b, global const float *c, global float *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = fma(a[i], b[i], c[i]);
    out[i + n] = fma(-a[i], b[i], fabs(c[i]));
    float s = 0.0f;
    for (int k = 0; k < 8; k++)
        s = fma(s, a[i], b[i]);
    out[i + 2 * n] = s;
}

kernel GROUP(64, 1, 1) void float_compare(global const float *a, global const float *b, global uint *out)
{
    uint i = global_id(0);
    float x = a[i], y = b[i];
    uint r = x < y;
    r |= (uint)(x <= y) << 1;
    r |= (uint)(x > y) << 2;
    r |= (uint)(x >= y) << 3;
    r |= (uint)(x == y) << 4;
    r |= (uint)(x != y) << 5;
    r |= (uint)!(x < y) << 6;
    r |= (uint)(x != x || y != y) << 7;
    r |= (uint)(fabs(x) == __builtin_inff()) << 8;
    out[i] = r;
}

kernel GROUP(64, 1, 1) void float_select(global const float *a, global const float *b, global float *out)
{
    uint i = global_id(0), n = grid_size(0);
    float x = a[i], y = b[i];
    out[i] = x < y ? x : y;
    out[i + n] = fmin(x, y);
    out[i + 2 * n] = fmax(x, y);
    out[i + 3 * n] = fmax(fmin(x, 1.0f), -1.0f);
}

kernel GROUP(64, 1, 1) void float_convert(global const float *a, global const int *b, global int *out, global float *f)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = (int)a[i];
    out[i + n] = (int)(uint)fabs(a[i]);
    f[i] = (float)b[i];
    f[i + n] = (float)(uint)b[i];
    f[i + 2 * n] = (float)(short)b[i] + (float)(uchar)b[i];
    f[i + 3 * n] = as_float(as_uint(a[i]) ^ 0x80000000u);
}

kernel GROUP(64, 1, 1) void float_convert_long(global const float *a, global const long *b, global long *out, global float *f)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = (long)a[i];
    out[i + n] = (long)(ulong)fabs(a[i]);
    f[i] = (float)b[i];
    f[i + n] = (float)(ulong)b[i];
}

#ifdef __AMDGCN__
kernel GROUP(64, 1, 1) void float_round(global const float *a, global float *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = __builtin_floorf(a[i]);
    out[i + n] = __builtin_ceilf(a[i]);
    out[i + 2 * n] = __builtin_truncf(a[i]);
    out[i + 3 * n] = __builtin_rintf(a[i]);
    out[i + 4 * n] = __builtin_roundf(a[i]);
    out[i + 5 * n] = __builtin_copysignf(1.5f, a[i]);
}

// Hardware approximations: 1 to 2 units in the last place, or an absolute error for sine and cosine.
kernel GROUP(64, 1, 1) void float_approximate(global const float *a, global float *out)
{
    uint i = global_id(0), n = grid_size(0);
    float x = a[i];
    out[i] = __builtin_amdgcn_rcpf(x);
    out[i + n] = __builtin_amdgcn_rsqf(x);
    out[i + 2 * n] = __builtin_amdgcn_sqrtf(x);
    out[i + 3 * n] = __builtin_exp2f(x);
    out[i + 4 * n] = __builtin_log2f(x);
    out[i + 5 * n] = 1.0f / x; // 2.5 units allowed by OpenCL
    out[i + 6 * n] = __builtin_amdgcn_sinf(x);
    out[i + 7 * n] = __builtin_amdgcn_cosf(x);
}

kernel GROUP(64, 1, 1) void float_parts(global const float *a, global const int *b, global float *out, global int *e)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = __builtin_amdgcn_frexp_mantf(a[i]);
    e[i] = __builtin_amdgcn_frexp_expf(a[i]);
    out[i + n] = __builtin_amdgcn_ldexpf(a[i], b[i] & 15);
    out[i + 2 * n] = __builtin_amdgcn_fractf(a[i]);
    e[i + n] = __builtin_amdgcn_classf(a[i], 0x204);
    out[i + 3 * n] = __builtin_amdgcn_fmed3f(a[i], -1.0f, 2.0f);
}
#endif

kernel GROUP(64, 1, 1) void float_poly(global const float *a, global float *out)
{
    uint i = global_id(0);
    float x = a[i], y = 0.5f;
    for (int k = 0; k < 12; k++) {
        y = fma(y, x, 1.25f);
        y = fma(y, x, -0.75f);
        y = y * 0.5f + x;
    }
    out[i] = y;
}
