// clang 22 from -O1 on: work-items of "default" get what case 4 assigned, or nothing.
typedef unsigned int uint;
typedef unsigned long ulong;
typedef uint uint4 __attribute__((ext_vector_type(4)));
typedef int int4 __attribute__((ext_vector_type(4)));
typedef long long2 __attribute__((ext_vector_type(2)));
typedef long long4 __attribute__((ext_vector_type(4)));
typedef float float2 __attribute__((ext_vector_type(2)));
typedef float float4 __attribute__((ext_vector_type(4)));
#define GROUP_BARRIER __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); __builtin_amdgcn_s_barrier(); \
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup")
#define HASH(x) h = (h ^ (ulong)(x)) * 0x9e3779b97f4a7c15ul

static inline uint4 bits(float4 x)
{
    uint4 m = __builtin_astype((x == x), uint4);
    return (__builtin_astype(x, uint4) & m) | ((uint4)(0x7fc00000u, 0x7fc00000u, 0x7fc00000u, 0x7fc00000u) & ~m);
}

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint lid = __builtin_amdgcn_workitem_id_x();
    uint gid = __builtin_amdgcn_workgroup_id_x() * 128 + lid;
    uint x = in[gid];
    __local float4 lds[128];
    long4 v1 = (long4)(0, 0, 0, 0);
    ulong v2 = 0;
    float4 f;
    lds[lid] = (float4)(0, 0, 0, 0);
    GROUP_BARRIER;
    f = lds[0];
    GROUP_BARRIER;
    switch (gid & 7u) {
    case 0: v2 -= (x & 1u) ? 5ul : 0ul; break;
    case 2: v1.s30 = (long2)(0, lid); break;
    case 4: f.s13 = (float2)(1.5f, 0); break;
    default: v2 = (ulong)__builtin_popcount(x);
    }
    ulong h = 0;
    HASH(v1.s0); HASH(v1.s1); HASH(v1.s2); HASH(v1.s3);
    HASH(v2);
    HASH(bits(f).s0); HASH(bits(f).s1); HASH(bits(f).s2); HASH(bits(f).s3);
    out[gid] = h;
}
