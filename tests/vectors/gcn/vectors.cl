// Vector types.
#include "prelude.h"

kernel GROUP(64, 1, 1) void vector_float4(global const float4 *a, global const float4 *b, global float4 *out, float s)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = a[i] * s + b[i];
    out[i + n] = a[i].wzyx - b[i].xxzz;
    out[i + 2 * n] = (float4)(a[i].lo, b[i].hi);
}

kernel GROUP(64, 1, 1) void vector_char4(global const uchar4 *a, global const uchar4 *b, global uchar4 *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = a[i] + b[i];
    out[i + n] = a[i] * b[i].wzyx;
    out[i + 2 * n] = (a[i] >> (uchar4)(1, 2, 3, 4)) | (b[i] & (uchar4)0x0f);
}

kernel GROUP(64, 1, 1) void vector_short8(global const short8 *a, global short8 *out)
{
    uint i = global_id(0), n = grid_size(0);
    short8 x = a[i];
    out[i] = x.s76543210;
    out[i + n] = x * x - (short8)3;
    out[i + 2 * n] = x >> (short8)2;
}

kernel GROUP(64, 1, 1) void vector_int3(global const int *a, global int *out)
{
    uint i = global_id(0);
    int3 v = (int3)(a[3 * i], a[3 * i + 1], a[3 * i + 2]);
    v = v.zxy * 3 + v;
    out[3 * i] = v.x;
    out[3 * i + 1] = v.y;
    out[3 * i + 2] = v.z;
}

kernel GROUP(64, 1, 1) void vector_long2(global const long2 *a, global const long2 *b, global long2 *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = a[i] + b[i].yx;
    out[i + n] = a[i] < b[i];
}

kernel GROUP(64, 1, 1) void vector_dot(global const float4 *a, global const float4 *b, global float *out)
{
    uint i = global_id(0);
    float4 p = a[i] * b[i];
    out[i] = (p.x + p.y) + (p.z + p.w);
}
