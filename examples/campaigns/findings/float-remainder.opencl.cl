// clang 15 to 19, and 22 with -O0: a remainder of 32 bits is computed by way of float, as in division.opencl.cl.
typedef unsigned int uint;
typedef unsigned long ulong;

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint lid = __builtin_amdgcn_workitem_id_x(), gid = __builtin_amdgcn_workgroup_id_x() * 128 + lid;
    out[gid] = 7u * lid + 0xfffffffbu % ((lid & 63u) + 1u);
}
