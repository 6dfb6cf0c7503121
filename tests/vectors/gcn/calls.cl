// Functions that are really called.
#include "prelude.h"
#define NOINLINE __attribute__((noinline))

NOINLINE int poly(int x, int y) { return x * x * 3 - y * 7 + 1; }

NOINLINE int twice(int x, int y) { return poly(x, y) + poly(y, x) * 2; }

typedef struct { int low, high; float scale; } Range;

NOINLINE Range range(int a, int b, float s)
{
    Range r = {a, b, s * 0.5f};
    if (a > b) {
        r.low = b;
        r.high = a;
    }
    return r;
}

NOINLINE long many(int a, int b, int c, int d, long e, long f, float g, float h, int i, int j, int k, int l, int m, int n,
                   int4 o, int4 p, int4 q, int4 r, int s)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + (long)(g * 7.0f + h * 8.0f) + i - j + k - l + m - n + o.x - o.w + p.y +
           q.z + r.w * 3 + s;
}

NOINLINE void store_all(global int *out, int *from, int count)
{
    for (int k = 0; k < count; k++)
        out[k] = from[count - 1 - k];
}

kernel GROUP(64, 1, 1) void call_nested(global const int *a, global const int *b, global int *out)
{
    uint i = global_id(0);
    if (a[i] > b[i])
        out[i] = twice(a[i], b[i]);
    else
        out[i] = poly(b[i], a[i]);
}

kernel GROUP(64, 1, 1) void call_struct(global const int *a, global const int *b, global int *out)
{
    uint i = global_id(0), n = grid_size(0);
    Range r = range(a[i], b[i], (float)(a[i] & 255));
    out[i] = r.low;
    out[i + n] = r.high;
    out[i + 2 * n] = (int)(r.scale * 4.0f);
}

kernel GROUP(64, 1, 1) void call_many(global const int *a, global long *out)
{
    uint i = global_id(0);
    int x = a[i];
    int4 v = (int4)(x, x + 1, x + 2, x + 3);
    out[i] = many(x, x + 1, x + 2, x + 3, (long)x << 20, (long)x * x, (float)(x & 31), (float)(x & 15), x, x ^ 5, 3, 4, x, 6, v,
                  v + 1, v * 2, v - 3, x & 7);
}

kernel GROUP(64, 1, 1) void call_pointer(global const int *a, global int *out)
{
    uint i = global_id(0);
    int v[6];
    for (int k = 0; k < 6; k++)
        v[k] = a[i] + k * k;
    store_all(out + i * 6, v, 6);
}
