// LDS, barriers, static and dynamic allocation.
#include "prelude.h"

kernel GROUP(256, 1, 1) void lds_reverse(global const int *a, global int *out)
{
    local int s[256];
    uint l = local_id(0), i = global_id(0);
    s[l] = a[i];
    sync();
    out[i] = s[255 - l];
}

kernel GROUP(256, 1, 1) void lds_reduce(global const float *a, global float *out)
{
    local float s[256];
    uint l = local_id(0);
    s[l] = a[global_id(0)];
    sync();
    for (uint k = 128; k > 0; k >>= 1) {
        if (l < k)
            s[l] += s[l + k];
        sync();
    }
    if (l == 0)
        out[group_id(0)] = s[0];
}

kernel GROUP(128, 1, 1) void lds_scan(global const uint *a, global uint *out)
{
    local uint s[2][128];
    uint l = local_id(0), i = global_id(0), from = 0;
    s[0][l] = a[i];
    sync();
    for (uint d = 1; d < 128; d <<= 1) {
        uint x = s[from][l];
        if (l >= d)
            x += s[from][l - d];
        s[1 - from][l] = x;
        from = 1 - from;
        sync();
    }
    out[i] = s[from][l];
}

kernel GROUP(16, 16, 1) void lds_transpose(global const float *a, global float *out, uint width)
{
    local float tile[16][17];
    uint x = local_id(0), y = local_id(1);
    tile[y][x] = a[(group_id(1) * 16 + y) * width + group_id(0) * 16 + x];
    sync();
    out[(group_id(0) * 16 + y) * width + group_id(1) * 16 + x] = tile[x][y];
}

kernel GROUP(16, 16, 1) void lds_matmul(global const float *a, global const float *b, global float *c, uint n)
{
    local float as[16][16], bs[16][16];
    uint x = local_id(0), y = local_id(1), col = group_id(0) * 16 + x, row = group_id(1) * 16 + y;
    float s = 0.0f;
    for (uint t = 0; t < n; t += 16) {
        as[y][x] = a[row * n + t + x];
        bs[y][x] = b[(t + y) * n + col];
        sync();
        for (uint k = 0; k < 16; k++)
            s = fma(as[y][k], bs[k][x], s);
        sync();
    }
    c[row * n + col] = s;
}

kernel GROUP(64, 1, 1) void lds_dynamic(global const int *a, global int *out, local int *first, local uchar *second)
{
    uint l = local_id(0);
    first[l] = a[global_id(0)];
    second[63 - l] = (uchar)l;
    sync();
    out[global_id(0)] = first[(l * 5 + 3) & 63] * 256 + second[l];
}

kernel GROUP(64, 1, 1) void lds_widths(global const ulong *a, global ulong *out)
{
    local ulong w[64];
    local ushort h[128];
    local uchar b[64];
    local float4 v[64];
    uint l = local_id(0), i = global_id(0);
    w[l] = a[i];
    h[l] = (ushort)a[i];
    h[l + 64] = (ushort)(a[i] >> 16);
    b[l] = (uchar)(a[i] >> 8);
    v[l] = (float4)(1.0f, 2.0f, 3.0f, 4.0f) * (float)l;
    sync();
    uint o = 63 - l;
    out[i] = w[o] + ((ulong)h[o] << 1) + (char)b[o] + (short)h[o + 64] + (ulong)(v[o].y + v[o].w);
}
