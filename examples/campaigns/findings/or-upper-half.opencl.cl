// clang 14 to 21 with -O2, 18 to 21 with -O1 too: the upper half is that of the right operand, not all ones.
typedef unsigned int uint;
typedef unsigned long ulong;

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint lid = __builtin_amdgcn_workitem_id_x();
    uint gid = __builtin_amdgcn_workgroup_id_x() * 128 + lid;
    uint x0 = in[gid], x1 = in[(gid * 5 + 1) & 255];
    out[gid] = ~(ulong)x0 | (ulong)(short)x1;
}
