// clang 16 with -O0: a register is loaded from the stack before all work-items are back that need it.
typedef unsigned int uint;
typedef unsigned long ulong;
typedef char char2 __attribute__((ext_vector_type(2)));
typedef char char8 __attribute__((ext_vector_type(8)));

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint lid = __builtin_amdgcn_workitem_id_x();
    uint gid = __builtin_amdgcn_workgroup_id_x() * 128 + lid;
    char zero = 0;
    char8 v = (char8)(0, 0, 0, 0, 0, 0, 0, 0);
    v.s02 = (char2)(zero, (char)((lid & 1u) || 0));
    out[gid] = __builtin_astype(v, ulong);
}
