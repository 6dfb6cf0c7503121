// clang 14 to 22 from -O1 on (gfx900: 22): x | -1 becomes x in the pass "SI Fold Operands".
typedef unsigned int uint;
typedef unsigned long ulong;
typedef int int2 __attribute__((ext_vector_type(2)));
typedef float float2 __attribute__((ext_vector_type(2)));

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint lid = __builtin_amdgcn_workitem_id_x();
    uint gid = __builtin_amdgcn_workgroup_id_x() * 128 + lid;
    int2 v = (float2)(0, 0) >= (float2)(0, lid);
    if (gid & 7)
        ;
    else
        v.s10 = (int2)((unsigned short)in[gid], 0) | v;
    out[gid] = v.s1;
}
