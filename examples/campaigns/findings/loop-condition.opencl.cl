// clang 14 to 16 with -O1: what was compared in a loop is lost for work-items that leave it before others.
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef long long4 __attribute__((ext_vector_type(4)));
typedef char char4 __attribute__((ext_vector_type(4)));
typedef uchar uchar4 __attribute__((ext_vector_type(4)));
typedef ushort ushort4 __attribute__((ext_vector_type(4)));
#define HASH(x) h = (h ^ (ulong)(x)) * 0x9e3779b97f4a7c15ul

static inline uint bits(float x) { return x == x ? __builtin_astype(x, uint) : 0x7fc00000u; }

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint lid = __builtin_amdgcn_workitem_id_x();
    uint gid = __builtin_amdgcn_workgroup_id_x() * 128 + lid;
    uint x = in[(gid * 5 + 1) & 255];
    uchar4 bytes = (uchar4)(0, 0, 0, 0);
    long v = 0;
    long4 a[4];
    for (uint i = 0; i < 4; i++)
        a[i] = (long4)(0, 0, 0, 0);
    for (uint i = 0; i < 2; i++) {
        for (uint j = 0; j < 3u && (float)(short)((ulong)v < (ulong)gid) != (float)lid; j++) {
            v = (long)(int)bits((float)(ulong)v + (float)i);
            bytes = __builtin_convertvector(__builtin_convertvector((char4)(0, 0, 0, (char)v), ushort4), uchar4);
            a[lid & 3u] = (long4)(0, 0, (long)bits((int)v > 0 ? (float)lid : (float)x), 0);
        }
    }
    ulong h = 0;
    HASH(bytes.s0); HASH(bytes.s1); HASH(bytes.s2); HASH(bytes.s3);
    for (uint i = 0; i < 4; i++) { HASH(a[i].s0); HASH(a[i].s1); HASH(a[i].s2); HASH(a[i].s3); }
    out[gid] = h;
}
