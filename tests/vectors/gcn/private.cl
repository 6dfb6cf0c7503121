// Private arrays: scratch memory.
#include "prelude.h"

kernel GROUP(64, 1, 1) void private_index(global const int *a, global int *out)
{
    uint i = global_id(0);
    int table[16];
    for (int k = 0; k < 16; k++)
        table[k] = a[i] * k + k;
    int s = 0;
    for (int k = 0; k < 8; k++)
        s = s * 3 + table[(a[i] + k * 5) & 15];
    out[i] = s;
}

kernel GROUP(64, 1, 1) void private_sort(global const int *a, global int *out)
{
    uint i = global_id(0);
    int v[8];
    for (int k = 0; k < 8; k++)
        v[k] = a[i * 8 + k];
    for (int k = 1; k < 8; k++) {
        int x = v[k], j = k;
        while (j > 0 && v[j - 1] > x) {
            v[j] = v[j - 1];
            j--;
        }
        v[j] = x;
    }
    for (int k = 0; k < 8; k++)
        out[i * 8 + k] = v[k];
}

kernel GROUP(64, 1, 1) void private_bytes(global const uchar *a, global uint *out)
{
    uint i = global_id(0);
    uchar seen[64];
    ushort twice[16];
    for (int k = 0; k < 64; k++)
        seen[k] = (uchar)(a[i] + k * 7);
    for (int k = 0; k < 16; k++)
        twice[k] = (ushort)(seen[(a[i] + k) & 63] * 300);
    uint s = 0;
    for (int k = 0; k < 16; k++)
        s = s * 5 + (uint)(short)twice[(a[i] * k) & 15] + (uint)(char)seen[twice[k] & 63];
    out[i] = s;
}

kernel GROUP(64, 1, 1) void private_double(global const double *a, global double *out)
{
    uint i = global_id(0);
    double v[12];
    for (int k = 0; k < 12; k++)
        v[k] = a[i] * k;
    uint at = (uint)(a[i] < 0 ? -a[i] : a[i]);
    out[i] = v[at % 12] + v[(at + 5) % 12];
}
