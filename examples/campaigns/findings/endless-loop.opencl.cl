// clang 14 to 18 with -O1: the branch back to a loop that all lanes have left becomes one that is always taken.
typedef unsigned int uint;
typedef unsigned long ulong;
typedef int int2 __attribute__((ext_vector_type(2)));
typedef int int4 __attribute__((ext_vector_type(4)));
typedef uint uint4 __attribute__((ext_vector_type(4)));
typedef double double2 __attribute__((ext_vector_type(2)));
typedef double double8 __attribute__((ext_vector_type(8)));
struct S0 { int f2; int4 f3; };
struct S1 { uint4 f0; };

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint lid = __builtin_amdgcn_workitem_id_x();
    uint gid = __builtin_amdgcn_workgroup_id_x() * 128 + lid;
    uint x0 = in[gid], x1 = in[(gid * 5 + 1) & 255];
    double8 w = (double8)(0);
    double v = 0;
    int2 a[2];
    for (uint i = 0; i < 2; i++) a[i] = (int2)(0, 0);
    struct S0 s;
    s.f2 = (int)gid;
    s.f3 = (int4)(0, 0, 0, (int)x1);
    struct S1 t;
    t.f0 = (uint4)(0, 0, 0, 0);
    if (x1 & 1u) {
        w.s43 = (double2)(0, 0) * ((x0 & 1u) ? (double2)((double)(int)gid, (double)x0) : (double2)(0, 0));
        if (x0 > 0) s.f3 = ~s.f3;
    } else {
        a[0] = (int2)(0, 0);
        for (uint i = 0; i < (lid & 2u); i++) {
            for (uint j = 0; j < 7u; j++) v = v - (double)i;
            for (uint j = 0; j < ((uint)0 & 2u); j++) { }
        }
        t.f0 = (uint4)(0, 0, x0, 0);
    }
    ulong h = 0, p = 0x9e3779b97f4a7c15ul;
    h = (h ^ __builtin_astype(w.s7, ulong)) * p;
    h = (h ^ __builtin_astype(v, ulong)) * p;
    h = (h ^ (ulong)s.f3.s3) * p;
    h = (h ^ (ulong)t.f0.s3) * p;
    for (uint i = 0; i < 2; i++) h = (h ^ (ulong)a[i].s1) * p;
    out[gid] = h;
}
