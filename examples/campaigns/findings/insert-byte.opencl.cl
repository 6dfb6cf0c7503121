// clang 15 from -O1 on: a byte that is put into an array at an index takes its neighbour along.
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned char uchar;

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint gid = __builtin_amdgcn_workgroup_id_x() * 128 + __builtin_amdgcn_workitem_id_x();
    uint x = in[gid], y = in[(gid * 5 + 1) & 255];
    uchar a[8];
    for (uint i = 0; i < 8; i++)
        a[i] = (uchar)x;
    a[y & 7u] = 0;
    ulong h = 0;
    for (uint i = 0; i < 8; i++)
        h |= (ulong)a[i] << 8 * i;
    out[gid] = h;
}
