// The extensions cl_khr_extended_bit_ops and cl_khr_integer_dot_product.
#ifndef SOFTCARD_OPENCL_BITS_H
#define SOFTCARD_OPENCL_BITS_H
#include "types.h"
#include "integer.h"

#define cl_khr_extended_bit_ops 1
#define cl_khr_integer_dot_product 1
#define __opencl_c_integer_dot_product_input_4x8bit 1
#define __opencl_c_integer_dot_product_input_4x8bit_packed 1

// ---- fields of bits ---------------------------------------------------------------------------------------------------------

// A mask of `count` bits, 0 to 64.
__US_FN ulong __us_field(uint count) { return count < 64 ? (1ul << count) - 1 : ~0ul; }
// As __US_WIDE1, with a position and a number of bits for all elements.
#define __US_WIDE_FIELD(f, R, T)                                                                                    \
    __US_FN R##2 f(T##2 a, uint at, uint n) { return (R##2)(f(a.x, at, n), f(a.y, at, n)); }                        \
    __US_FN R##3 f(T##3 a, uint at, uint n) { return (R##3)(f(a.xy, at, n), f(a.z, at, n)); }                       \
    __US_FN R##4 f(T##4 a, uint at, uint n) { return (R##4)(f(a.lo, at, n), f(a.hi, at, n)); }                      \
    __US_FN R##8 f(T##8 a, uint at, uint n) { return (R##8)(f(a.lo, at, n), f(a.hi, at, n)); }                      \
    __US_FN R##16 f(T##16 a, uint at, uint n) { return (R##16)(f(a.lo, at, n), f(a.hi, at, n)); }
#define __US_WIDE_FIELD2(f, T)                                                                                      \
    __US_FN T##2 f(T##2 a, T##2 b, uint at, uint n) { return (T##2)(f(a.x, b.x, at, n), f(a.y, b.y, at, n)); }      \
    __US_FN T##3 f(T##3 a, T##3 b, uint at, uint n) { return (T##3)(f(a.xy, b.xy, at, n), f(a.z, b.z, at, n)); }    \
    __US_FN T##4 f(T##4 a, T##4 b, uint at, uint n) { return (T##4)(f(a.lo, b.lo, at, n), f(a.hi, b.hi, at, n)); }  \
    __US_FN T##8 f(T##8 a, T##8 b, uint at, uint n) { return (T##8)(f(a.lo, b.lo, at, n), f(a.hi, b.hi, at, n)); }  \
    __US_FN T##16 f(T##16 a, T##16 b, uint at, uint n) { return (T##16)(f(a.lo, b.lo, at, n), f(a.hi, b.hi, at, n)); }
// S, U: the signed and the unsigned form of T. The field is moved to the top, whose bit is its sign.
#define __US_BIT_OPS(T, S, U, bits)                                                                                 \
    __US_FN T bit_reverse(T a) { return (T)(__builtin_bitreverse64((ulong)(U)a) >> (64 - bits)); }                  \
    __US_FN U bitfield_extract_unsigned(T a, uint at, uint n) { return (U)((ulong)(U)a >> (at & 63) & __us_field(n)); } \
    __US_FN S bitfield_extract_signed(T a, uint at, uint n)                                                         \
    {                                                                                                               \
        return n ? (S)((long)((ulong)(U)a << ((64 - at - n) & 63)) >> ((64 - n) & 63)) : (S)0;                      \
    }                                                                                                               \
    __US_FN T bitfield_insert(T a, T b, uint at, uint n)                                                            \
    {                                                                                                               \
        ulong mask = __us_field(n) << (at & 63);                                                                    \
        return (T)(((ulong)(U)a & ~mask) | ((ulong)(U)b << (at & 63) & mask));                                      \
    }                                                                                                               \
    __US_WIDE1(bit_reverse, T, T) __US_WIDE_FIELD(bitfield_extract_unsigned, U, T)                                  \
    __US_WIDE_FIELD(bitfield_extract_signed, S, T) __US_WIDE_FIELD2(bitfield_insert, T)
__US_BIT_OPS(char, char, uchar, 8) __US_BIT_OPS(uchar, char, uchar, 8) __US_BIT_OPS(short, short, ushort, 16)
__US_BIT_OPS(ushort, short, ushort, 16) __US_BIT_OPS(int, int, uint, 32) __US_BIT_OPS(uint, int, uint, 32)
__US_BIT_OPS(long, long, ulong, 64) __US_BIT_OPS(ulong, long, ulong, 64)

// ---- dot products of four bytes ----------------------------------------------------------------------------------------------

// R: int, or uint if both vectors are of unsigned bytes.
#define __US_DOT_BYTES(R, A, B, name)                                                                               \
    __US_FN R dot(A##4 a, B##4 b)                                                                                   \
    {                                                                                                               \
        return (R)a.x * (R)b.x + (R)a.y * (R)b.y + (R)a.z * (R)b.z + (R)a.w * (R)b.w;                               \
    }                                                                                                               \
    __US_FN R dot_acc_sat(A##4 a, B##4 b, R sum) { return add_sat(dot(a, b), sum); }                                \
    __US_FN R dot_4x8packed_##name(uint a, uint b)                                                                  \
    {                                                                                                               \
        return dot(__builtin_astype(a, A##4), __builtin_astype(b, B##4));                                           \
    }                                                                                                               \
    __US_FN R dot_acc_sat_4x8packed_##name(uint a, uint b, R sum)                                                   \
    {                                                                                                               \
        return add_sat(dot_4x8packed_##name(a, b), sum);                                                            \
    }
__US_DOT_BYTES(uint, uchar, uchar, uu_uint) __US_DOT_BYTES(int, char, char, ss_int)
__US_DOT_BYTES(int, uchar, char, us_int) __US_DOT_BYTES(int, char, uchar, su_int)

#endif
