// clang 14 to 19 from -O1 on, remainders of 64 bits 14 to 16: numbers of more than 24 bits divided as if they had 24.
typedef unsigned int uint;
typedef unsigned long ulong;

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint gid = __builtin_amdgcn_workgroup_id_x() * 128 + __builtin_amdgcn_workitem_id_x();
    uint x = in[gid];
    if (gid & 1)
        out[gid] = (0u - (x & 7u)) / ((x >> 3 & 0xffffu) | 1u);
    else
        out[gid] = x % ((ulong)(char)x | 1ul);
}
