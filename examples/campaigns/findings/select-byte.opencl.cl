// clang 14 and 15 from -O1 on: byte 1 is written into byte 2 as well.
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned short ushort;
typedef char char4 __attribute__((ext_vector_type(4)));
typedef char char8 __attribute__((ext_vector_type(8)));

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint lid = __builtin_amdgcn_workitem_id_x();
    uint gid = __builtin_amdgcn_workgroup_id_x() * 128 + lid;
    uint x = in[gid];
    ushort y = (ushort)lid;
    char4 v = (char4)(0, 0, 0, 0);
    v = 0 >= gid ? ((char8)(0, 0, 0, 0, 0, (char)x, (char)y, 0)).s5362 : (char4)((char)x, (char)y, 0, 0);
    ulong h = 0;
    h = (h ^ (ulong)v.s0) << 8;
    h = (h ^ (ulong)v.s1) << 8;
    h = (h ^ (ulong)v.s2) << 8;
    out[gid] = h ^ (ulong)v.s3;
}
