// 32-bit and narrower integers.
#include "prelude.h"

kernel GROUP(64, 1, 1) void int_arith(global const int *a, global const int *b, global int *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = a[i] + b[i];
    out[i + n] = a[i] - b[i];
    out[i + 2 * n] = a[i] * b[i];
    out[i + 3 * n] = ~a[i] ^ (b[i] & 0x0ff0);
    out[i + 4 * n] = -a[i] | b[i];
}

kernel GROUP(64, 1, 1) void int_divmod(global const int *a, global const int *b, global int *out, global uint *uout)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = a[i] / b[i];
    out[i + n] = a[i] % b[i];
    uout[i] = (uint)a[i] / (uint)b[i];
    uout[i + n] = (uint)a[i] % (uint)b[i];
    out[i + 2 * n] = a[i] / 7;
    out[i + 3 * n] = a[i] % 1000;
    uout[i + 2 * n] = (uint)a[i] / 10u;
}

kernel GROUP(64, 1, 1) void int_shift(global const int *a, global const int *b, global int *out)
{
    uint i = global_id(0), n = grid_size(0), s = b[i] & 31;
    out[i] = a[i] << s;
    out[i + n] = a[i] >> s;
    out[i + 2 * n] = (int)((uint)a[i] >> s);
    out[i + 3 * n] = (int)((uint)a[i] << s | (uint)a[i] >> (-s & 31));
    out[i + 4 * n] = (a[i] << 5) + (a[i] >> 3);
}

kernel GROUP(64, 1, 1) void int_bits(global const uint *a, global uint *out)
{
    uint i = global_id(0), n = grid_size(0), x = a[i];
    out[i] = popcount(x);
    uint lead = 0, trail = 0, reversed = 0;
    for (uint k = 0; k < 32; k++)
        reversed |= (x >> k & 1) << (31 - k);
    while (lead < 32 && !(x & 0x80000000u >> lead))
        lead++;
    while (trail < 32 && !(x >> trail & 1))
        trail++;
    out[i + n] = lead;
    out[i + 2 * n] = trail;
    out[i + 3 * n] = reversed;
#ifdef __AMDGCN__
    uint wrong = 0;
    if (x)
        wrong = (__builtin_clz(x) - lead) | (__builtin_ctz(x) - trail);
    out[i + 4 * n] = wrong;
    out[i + 5 * n] = __builtin_bitreverse32(x) ^ reversed;
    out[i + 6 * n] = __builtin_bswap32(x);
#else
    out[i + 4 * n] = out[i + 5 * n] = 0;
    out[i + 6 * n] = x >> 24 | (x >> 8 & 0xff00) | (x << 8 & 0xff0000) | x << 24;
#endif
}

kernel GROUP(64, 1, 1) void int_minmax(global const int *a, global const int *b, global int *out)
{
    uint i = global_id(0), n = grid_size(0);
    int x = a[i], y = b[i];
    uint u = x, v = y;
    out[i] = x < y ? x : y;
    out[i + n] = x > y ? x : y;
    out[i + 2 * n] = u < v ? u : v;
    out[i + 3 * n] = u > v ? u : v;
    out[i + 4 * n] = x < -1000 ? -1000 : x > 1000 ? 1000 : x;
    out[i + 5 * n] = x < 0 ? -x : x;
    out[i + 6 * n] = (x < y) + 2 * (u < v) + 4 * (x == y) + 8 * (x >= y) + 16 * (u >= v) + 32 * (x != 0);
}

kernel GROUP(64, 1, 1) void int_narrow(global const char *a, global const short *b, global char *c, global short *s,
                                       global uchar *u, global ushort *w)
{
    uint i = global_id(0);
    c[i] = (char)(a[i] * 3 + b[i]);
    s[i] = (short)(b[i] * a[i] - (b[i] >> 2));
    u[i] = (uchar)((uchar)a[i] / (uchar)((b[i] & 7) + 1));
    w[i] = (ushort)((ushort)b[i] >> (a[i] & 7)) + (ushort)(uchar)a[i];
}

kernel GROUP(64, 1, 1) void int_fields(global const uint *a, global const uint *b, global uint *out)
{
    uint i = global_id(0), n = grid_size(0), x = a[i], y = b[i];
    out[i] = x >> 5 & 0x7ff;
    out[i + n] = (uint)((int)(x << 11) >> 20);
    out[i + 2 * n] = (x & 0x00ffff00) | (y & ~0x00ffff00);
    out[i + 3 * n] = x << 8 | y >> 24;
    out[i + 4 * n] = (x & 0xffffff) * (y & 0xffffff) + 5;
    out[i + 5 * n] = ((x & y) | (x ^ y)) + ((x << 3) + y);
    out[i + 6 * n] = (x & 0xff) + (x >> 8 & 0xff) + (x >> 16 & 0xff) + (x >> 24);
}

kernel GROUP(64, 1, 1) void int_mulhi(global const int *a, global const int *b, global int *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = mul_hi_s(a[i], b[i]);
    out[i + n] = (int)mul_hi_u((uint)a[i], (uint)b[i]);
}

kernel GROUP(64, 1, 1) void int_chain(global const uint *a, global uint *out, uint rounds)
{
    uint i = global_id(0), x = a[i];
    for (uint k = 0; k < rounds; k++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x = x * 1664525u + 1013904223u;
    }
    out[i] = x;
}
