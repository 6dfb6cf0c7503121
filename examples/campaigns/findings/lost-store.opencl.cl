// clang 21 with -O1: element 0 of the product, which is 0, is not stored.
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned short ushort;
typedef long long3 __attribute__((ext_vector_type(3)));
typedef ulong ulong3 __attribute__((ext_vector_type(3)));
#define HASH(x) h = (h ^ (ulong)(x)) * 0x9e3779b97f4a7c15ul

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint lid = __builtin_amdgcn_workitem_id_x();
    uint gid = __builtin_amdgcn_workgroup_id_x() * 128 + lid;
    uint x = in[gid];
    ushort v = (ushort)lid;
    long3 a[16];
    for (uint i = 0; i < 16; i++)
        a[i] = (long3)(v, 0, 0);
    long3 quotient = (long3)(5, 0x11c575cd09ddedac, 0) / ((long3)(v, 0, 0) | (long3)(1, 1, 1));
    a[0] = __builtin_astype(__builtin_astype(quotient, ulong3) * (ulong3)(0, 0xdf50ca51fc49d59, x), long3);
    ulong h = 0;
    for (uint i = 0; i < 16; i++) { HASH(a[i].s0); HASH(a[i].s1); HASH(a[i].s2); }
    out[gid] = h;
}
