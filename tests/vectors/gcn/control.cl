// Control flow that differs from lane to lane.
#include "prelude.h"

kernel GROUP(64, 1, 1) void control_collatz(global uint *out)
{
    uint i = global_id(0), x = i + 1, c = 0;
    while (x != 1) {
        x = x & 1 ? 3 * x + 1 : x >> 1;
        c++;
    }
    out[i] = c;
}

kernel GROUP(64, 1, 1) void control_gcd(global const uint *a, global const uint *b, global uint *out)
{
    uint i = global_id(0), x = a[i], y = b[i];
    while (y) {
        uint t = x % y;
        x = y;
        y = t;
    }
    out[i] = x;
}

kernel GROUP(64, 1, 1) void control_early(global const int *a, global int *out)
{
    uint i = global_id(0);
    if (a[i] < 0)
        return;
    if (a[i] & 1) {
        out[i] = -1;
        return;
    }
    int s = 0;
    for (int k = 0; k < 20; k++) {
        if (k == (a[i] & 15))
            continue;
        if (s > 60)
            break;
        s += k;
    }
    out[i] = s;
}

kernel GROUP(64, 1, 1) void control_switch(global const int *a, global int *out)
{
    uint i = global_id(0);
    int x = a[i], r;
    switch (x & 31) {
    case 0: r = x + 1; break;
    case 1: r = x * 3; break;
    case 2: r = x ^ 0x55; break;
    case 3: r = -x; break;
    case 4: r = x << 3; break;
    case 5: r = x >> 2; break;
    case 6: r = x & 0xff; break;
    case 7: r = x | 0x1000; // falls through
    case 8: r = x - 9; break;
    case 9: r = x / 3; break;
    case 10: r = x % 11; break;
    case 11: r = x * x; break;
    case 12: r = ~x; break;
    case 13: r = x + 13; break;
    case 14: r = 14; break;
    case 15: r = x * 15; break;
    case 16: r = x ^ x >> 16; break;
    case 17: r = x > 1000 ? 17 : 71; break;
    case 18: r = x - 18; break;
    case 19: r = x * 19 + 19; break;
    case 20: r = x & x - 1; break;
    case 21: r = x & -x; break;
    case 22: r = x | x - 1; break;
    case 23: r = (int)((uint)x >> 23); break;
    case 25: r = 25 - x; break;
    case 27: r = x + x; break;
    default: r = x + 100000; break;
    }
    out[i] = r;
}

kernel GROUP(64, 1, 1) void control_machine(global const uint *program, global uint *out, uint length)
{
    // A small interpreter: every lane runs its own path through the same program.
    uint i = global_id(0), acc = i, reg = 1, pc = 0, steps = 0;
    while (pc < length && steps < 64) {
        uint op = program[pc] & 7, arg = program[pc] >> 3;
        steps++;
        pc++;
        switch (op) {
        case 0: acc += arg; break;
        case 1: acc ^= arg; break;
        case 2: reg = acc; break;
        case 3: acc = acc * 3 + reg; break;
        case 4: if (acc & 1) pc = arg; break;
        case 5: if (!(acc & 2)) pc += arg; break;
        case 6: acc >>= 1; break;
        default: acc -= reg; break;
        }
    }
    out[i] = acc * 64 + steps;
}

kernel GROUP(64, 1, 1) void control_mandelbrot(global int *out, uint width, float step)
{
    uint x = global_id(0), y = global_id(1);
    float cr = (float)x * step - 2.0f, ci = (float)y * step - 1.0f, r = 0.0f, j = 0.0f;
    int k = 0;
    while (k < 24 && r * r + j * j <= 4.0f) {
        float t = r * r - j * j + cr;
        j = 2.0f * r * j + ci;
        r = t;
        k++;
    }
    out[y * width + x] = k;
}

kernel GROUP(64, 1, 1) void control_search(global const int *sorted, global const int *keys, global int *out, uint count)
{
    uint i = global_id(0), low = 0, high = count;
    while (low < high) {
        uint middle = low + (high - low) / 2;
        if (sorted[middle] < keys[i])
            low = middle + 1;
        else
            high = middle;
    }
    out[i] = low < count && sorted[low] == keys[i] ? (int)low : -1;
}

kernel GROUP(128, 1, 1) void control_bitonic(global const uint *a, global uint *out)
{
    local uint s[128];
    uint l = local_id(0), i = global_id(0);
    s[l] = a[i];
    sync();
    for (uint k = 2; k <= 128; k <<= 1)
        for (uint j = k >> 1; j > 0; j >>= 1) {
            uint o = l ^ j;
            if (o > l && (s[l] > s[o]) == ((l & k) == 0)) {
                uint t = s[l];
                s[l] = s[o];
                s[o] = t;
            }
            sync();
        }
    out[i] = s[l];
}
