// clang 14 to 16 from -O1 on: an unsigned product of 64 bits becomes a signed one of 48.
typedef unsigned int uint;
typedef unsigned long ulong;

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint gid = __builtin_amdgcn_workgroup_id_x() * 128 + __builtin_amdgcn_workitem_id_x();
    char c = (char)in[gid];
    out[gid] = (ulong)(char)(((ulong)(uint)c * (uint)c) >> 32);
}
