// Small programs as people write them.
#include "prelude.h"

kernel GROUP(64, 1, 1) void program_saxpy(global const float *x, global float *y, float a)
{
    uint i = global_id(0);
    y[i] = a * x[i] + y[i];
}

kernel GROUP(16, 16, 1) void program_matmul(global const float *a, global const float *b, global float *c, uint n)
{
    uint x = global_id(0), y = global_id(1);
    float s = 0.0f;
    for (uint k = 0; k < n; k++)
        s = fma(a[y * n + k], b[k * n + x], s);
    c[y * n + x] = s;
}

kernel GROUP(64, 1, 1) void program_stencil(global const float *a, global float *out, uint n)
{
    uint i = global_id(0);
    float l = 0.0f, r = 0.0f;
    if (i)
        l = a[i - 1];
    if (i + 1 < n)
        r = a[i + 1];
    out[i] = 0.25f * l + 0.5f * a[i] + 0.25f * r;
}

kernel GROUP(64, 1, 1) void program_crc32(global const uchar *data, global uint *out, uint length)
{
    uint i = global_id(0), crc = 0xffffffffu;
    for (uint k = 0; k < length; k++) {
        crc ^= data[i * length + k];
        for (int b = 0; b < 8; b++)
            crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
    }
    out[i] = ~crc;
}

kernel GROUP(64, 1, 1) void program_fft(global const float2 *a, global float2 *out, constant float2 *roots)
{
    // 64 points, decimation in time, one butterfly for each pair of lanes.
    local float2 s[64];
    uint l = local_id(0), i = global_id(0), r = 0;
    for (uint k = 0; k < 6; k++)
        r |= (l >> k & 1) << (5 - k);
    s[r] = a[i];
    sync();
    for (uint half_ = 1; half_ < 64; half_ <<= 1) {
        float2 next = s[l];
        uint k = l & (half_ - 1);
        float2 w = roots[k * (32 / half_)], x = s[l & ~half_], y = s[l | half_];
        float2 t = (float2)(fma(y.x, w.x, -(y.y * w.y)), fma(y.x, w.y, y.y * w.x));
        next = x + t;
        if (l & half_)
            next = x - t;
        sync();
        s[l] = next;
        sync();
    }
    out[i] = s[l];
}

kernel GROUP(64, 1, 1) void program_nbody(global const float4 *bodies, global float4 *out, uint count)
{
    uint i = global_id(0);
    float4 me = bodies[i];
    float x = 0.0f, y = 0.0f, z = 0.0f;
    for (uint k = 0; k < count; k++) {
        float4 o = bodies[k];
        float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
        float d = fma(dx, dx, fma(dy, dy, fma(dz, dz, 0.5f)));
        float f = o.w / (d * d);
        x = fma(dx, f, x);
        y = fma(dy, f, y);
        z = fma(dz, f, z);
    }
    out[i] = (float4)(x, y, z, 0.0f);
}

kernel GROUP(64, 1, 1) void program_histogram(global const uchar *a, global uint *out, uint each)
{
    // Counts of one work-item in private memory, then summed over the group in LDS.
    local uint all[64][16];
    uint own[16], l = local_id(0);
    for (int k = 0; k < 16; k++)
        own[k] = 0;
    for (uint k = 0; k < each; k++)
        own[a[global_id(0) * each + k] >> 4]++;
    for (int k = 0; k < 16; k++)
        all[l][k] = own[k];
    sync();
    if (l < 16) {
        uint s = 0;
        for (int k = 0; k < 64; k++)
            s += all[k][l];
        out[group_id(0) * 16 + l] = s;
    }
}
