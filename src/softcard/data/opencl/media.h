// Functions of the extensions cl_amd_media_ops and cl_amd_media_ops2, as the Khronos registry defines them.
#ifndef SOFTCARD_OPENCL_MEDIA_H
#define SOFTCARD_OPENCL_MEDIA_H
#include "integer.h"
#include "math.h"

// Vectors, element by element, where the types of the arguments are not all the same.
#define __US_MEDIA(f, R, A, B, C)                                                                           \
    __US_FN R##2 f(A##2 a, B##2 b, C##2 c) { return (R##2)(f(a.x, b.x, c.x), f(a.y, b.y, c.y)); }           \
    __US_FN R##3 f(A##3 a, B##3 b, C##3 c) { return (R##3)(f(a.xy, b.xy, c.xy), f(a.z, b.z, c.z)); }        \
    __US_FN R##4 f(A##4 a, B##4 b, C##4 c) { return (R##4)(f(a.lo, b.lo, c.lo), f(a.hi, b.hi, c.hi)); }     \
    __US_FN R##8 f(A##8 a, B##8 b, C##8 c) { return (R##8)(f(a.lo, b.lo, c.lo), f(a.hi, b.hi, c.hi)); }     \
    __US_FN R##16 f(A##16 a, B##16 b, C##16 c) { return (R##16)(f(a.lo, b.lo, c.lo), f(a.hi, b.hi, c.hi)); }

// cl_amd_media_ops
__US_FN uint amd_pack(float4 a)
{
    return ((uint)a.x & 0xff) | ((uint)a.y & 0xff) << 8 | ((uint)a.z & 0xff) << 16 | ((uint)a.w & 0xff) << 24;
}
__US_FN float amd_unpack0(uint a) { return (float)(a & 0xff); }
__US_FN float amd_unpack1(uint a) { return (float)(a >> 8 & 0xff); }
__US_FN float amd_unpack2(uint a) { return (float)(a >> 16 & 0xff); }
__US_FN float amd_unpack3(uint a) { return (float)(a >> 24); }
__US_WIDE1(amd_unpack0, float, uint) __US_WIDE1(amd_unpack1, float, uint)
__US_WIDE1(amd_unpack2, float, uint) __US_WIDE1(amd_unpack3, float, uint)
__US_FN uint amd_bitalign(uint a, uint b, uint c) { return __builtin_amdgcn_alignbit(a, b, c & 31); }
__US_FN uint amd_bytealign(uint a, uint b, uint c) { return __builtin_amdgcn_alignbit(a, b, (c & 3) << 3); }
__US_FN uint amd_lerp(uint a, uint b, uint c) { return __builtin_amdgcn_lerp(a, b, c); }
__US_FN uint amd_sad(uint a, uint b, uint c) { return __builtin_amdgcn_sad_u8(a, b, c); }
__US_FN uint amd_sadhi(uint a, uint b, uint c) { return __builtin_amdgcn_sad_hi_u8(a, b, c); }
__US_FN uint amd_sad4(uint4 a, uint4 b, uint c)
{
    return amd_sad(a.w, b.w, amd_sad(a.z, b.z, amd_sad(a.y, b.y, amd_sad(a.x, b.x, c))));
}
__US_WIDE3(amd_bitalign, uint, uint) __US_WIDE3(amd_bytealign, uint, uint) __US_WIDE3(amd_lerp, uint, uint)
__US_WIDE3(amd_sad, uint, uint) __US_WIDE3(amd_sadhi, uint, uint)

// cl_amd_media_ops2
__US_FN uint amd_msad(uint a, uint b, uint c) { return __builtin_amdgcn_msad_u8(a, b, c); }
__US_FN uint amd_sadw(uint a, uint b, uint c) { return __builtin_amdgcn_sad_u16(a, b, c); }
__US_FN uint amd_sadd(uint a, uint b, uint c) { return abs_diff(a, b) + c; }
// The sums for the four bytes from each of the bytes 0 to 3 of `a` on; each is of 16 bits.
#define __US_QUAD(f, one)                                                                              \
    __US_FN ulong f(ulong a, uint b, ulong c)                                                          \
    {                                                                                                  \
        ushort4 sums = as_ushort4(c);                                                                  \
        return as_ulong((ushort4)((ushort)one((uint)a, b, sums.x), (ushort)one((uint)(a >> 8), b, sums.y), \
                                  (ushort)one((uint)(a >> 16), b, sums.z), (ushort)one((uint)(a >> 24), b, sums.w))); \
    }                                                                                                  \
    __US_MEDIA(f, ulong, ulong, uint, ulong)
__US_QUAD(amd_qsad, amd_sad) __US_QUAD(amd_mqsad, amd_msad)
__US_FN uint amd_bfm(uint a, uint b) { return ((1u << (a & 31)) - 1) << (b & 31); }
__US_FN uint amd_bfe(uint a, uint b, uint c) { return __builtin_amdgcn_ubfe(a, b & 31, c & 31); }
__US_FN int amd_bfe(int a, uint b, uint c) { return __builtin_amdgcn_sbfe(a, b & 31, c & 31); }
__US_WIDE3(amd_msad, uint, uint) __US_WIDE3(amd_sadw, uint, uint) __US_WIDE3(amd_sadd, uint, uint)
__US_WIDE2(amd_bfm, uint, uint, uint) __US_WIDE3(amd_bfe, uint, uint) __US_MEDIA(amd_bfe, int, int, uint, uint)

#define __US_OF_THREE(T, least, most)                                                                          \
    __US_FN T amd_min3(T a, T b, T c) { return least(least(a, b), c); }                                        \
    __US_FN T amd_max3(T a, T b, T c) { return most(most(a, b), c); }                                          \
    __US_FN T amd_median3(T a, T b, T c) { return most(least(a, b), least(most(a, b), c)); }                   \
    __US_WIDE3(amd_min3, T, T) __US_WIDE3(amd_max3, T, T) __US_WIDE3(amd_median3, T, T)
__US_OF_THREE(int, min, max) __US_OF_THREE(uint, min, max) __US_OF_THREE(float, fmin, fmax)

#endif
