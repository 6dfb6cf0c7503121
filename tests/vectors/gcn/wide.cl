// 64-bit integers.
#include "prelude.h"

kernel GROUP(64, 1, 1) void long_arith(global const long *a, global const long *b, global long *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = a[i] + b[i];
    out[i + n] = a[i] - b[i];
    out[i + 2 * n] = a[i] * b[i];
    out[i + 3 * n] = (a[i] & b[i]) ^ ~(a[i] | 0x5555);
    out[i + 4 * n] = -a[i] + (int)b[i];
}

kernel GROUP(64, 1, 1) void long_divmod(global const long *a, global const long *b, global long *out, global ulong *uout)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = a[i] / b[i];
    out[i + n] = a[i] % b[i];
    uout[i] = (ulong)a[i] / (ulong)b[i];
    uout[i + n] = (ulong)a[i] % (ulong)b[i];
}

kernel GROUP(64, 1, 1) void long_shift(global const long *a, global const int *b, global long *out)
{
    uint i = global_id(0), n = grid_size(0), s = b[i] & 63;
    out[i] = a[i] << s;
    out[i + n] = a[i] >> s;
    out[i + 2 * n] = (long)((ulong)a[i] >> s);
    out[i + 3 * n] = a[i] << 33;
    out[i + 4 * n] = (long)((ulong)a[i] << s | (ulong)a[i] >> (-s & 63));
}

kernel GROUP(64, 1, 1) void long_compare(global const long *a, global const long *b, global long *out)
{
    uint i = global_id(0), n = grid_size(0);
    long x = a[i], y = b[i];
    ulong u = x, v = y;
    out[i] = x < y ? x : y;
    out[i + n] = u > v ? x : y;
    out[i + 2 * n] = (x < y) | (u <= v) << 1 | (x == y) << 2 | (x >= 0) << 3 | (u != 0) << 4;
    if (x < 0)
        x = -x;
    out[i + 3 * n] = x;
}

kernel GROUP(64, 1, 1) void long_mulhi(global const ulong *a, global const ulong *b, global ulong *out)
{
    uint i = global_id(0);
    ulong x0 = a[i] & 0xffffffff, x1 = a[i] >> 32, y0 = b[i] & 0xffffffff, y1 = b[i] >> 32;
    ulong low = x0 * y0, middle = x1 * y0 + (low >> 32), cross = x0 * y1 + (middle & 0xffffffff);
    out[i] = x1 * y1 + (middle >> 32) + (cross >> 32);
}

kernel GROUP(64, 1, 1) void long_hash(global const ulong *a, global ulong *out)
{
    uint i = global_id(0);
    ulong x = a[i];
    for (int k = 0; k < 4; k++) {
        x += 0x9e3779b97f4a7c15ul;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ul;
        x = (x ^ x >> 27) * 0x94d049bb133111ebul;
        x ^= x >> 31;
    }
    out[i] = x;
}
