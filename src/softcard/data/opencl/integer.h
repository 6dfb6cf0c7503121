// Integer functions.
#ifndef SOFTCARD_OPENCL_INTEGER_H
#define SOFTCARD_OPENCL_INTEGER_H
#include "types.h"

// On GFX8, LLVM from 15 to 22 loses the saturation of a sum of a uint and a literal, which it folds into an instruction
// without clamp: there, both terms are kept in registers.
#ifdef __GFX8__
#define __US_KEEP_uint(a) __asm("" : "+v"(a))
#else
#define __US_KEEP_uint(a)
#endif
#define __US_KEEP_char(a)
#define __US_KEEP_uchar(a)
#define __US_KEEP_short(a)
#define __US_KEEP_ushort(a)
#define __US_KEEP_int(a)
#define __US_KEEP_long(a)
#define __US_KEEP_ulong(a)

// T: the type, U: its unsigned form, bits: of both, least, most: values of T.
#define __US_INTEGER(T, U, bits, least, most)                                                                         \
    __US_FN T min(T a, T b) { return b < a ? b : a; }                                                                 \
    __US_FN T max(T a, T b) { return a < b ? b : a; }                                                                 \
    __US_FN T clamp(T a, T low, T high) { return min(max(a, low), high); }                                            \
    __US_FN U abs(T a) { return a < 0 ? (U)(0 - (U)a) : (U)a; }                                                       \
    __US_FN U abs_diff(T a, T b) { return a < b ? (U)((U)b - (U)a) : (U)((U)a - (U)b); }                              \
    __US_FN T hadd(T a, T b) { return (T)((a >> 1) + (b >> 1) + (a & b & 1)); }                                       \
    __US_FN T rhadd(T a, T b) { return (T)((a >> 1) + (b >> 1) + ((a | b) & 1)); }                                    \
    __US_FN T rotate(T a, T n)                                                                                        \
    {                                                                                                                 \
        return (T)((U)((U)a << ((U)n & (bits - 1))) | (U)((U)a >> ((bits - ((U)n & (bits - 1))) & (bits - 1))));      \
    }                                                                                                                 \
    __US_FN T popcount(T a) { return (T)__builtin_popcountl((ulong)(U)a); }                                           \
    __US_FN T clz(T a) { return (T)((U)a ? __builtin_clzl((ulong)(U)a) - (64 - bits) : bits); }                       \
    __US_FN T ctz(T a) { return (T)((U)a ? __builtin_ctzl((ulong)(U)a) : bits); }                                     \
    __US_FN T add_sat(T a, T b)                                                                                       \
    {                                                                                                                 \
        T r;                                                                                                          \
        __US_KEEP_##T(a);                                                                                             \
        __US_KEEP_##T(b);                                                                                             \
        return __builtin_add_overflow(a, b, &r) ? (b < 0 ? least : most) : r;                                         \
    }                                                                                                                 \
    __US_FN T sub_sat(T a, T b)                                                                                       \
    {                                                                                                                 \
        T r;                                                                                                          \
        __US_KEEP_##T(a);                                                                                             \
        __US_KEEP_##T(b);                                                                                             \
        return __builtin_sub_overflow(a, b, &r) ? (least < 0 && b < 0 ? most : least) : r;                            \
    }
__US_INTEGER(char, uchar, 8, CHAR_MIN, CHAR_MAX)
__US_INTEGER(uchar, uchar, 8, 0, UCHAR_MAX)
__US_INTEGER(short, ushort, 16, SHRT_MIN, SHRT_MAX)
__US_INTEGER(ushort, ushort, 16, 0, USHRT_MAX)
__US_INTEGER(int, uint, 32, INT_MIN, INT_MAX)
__US_INTEGER(uint, uint, 32, 0u, UINT_MAX)
__US_INTEGER(long, ulong, 64, LONG_MIN, LONG_MAX)
__US_INTEGER(ulong, ulong, 64, 0ul, ULONG_MAX)

__US_FN ulong mul_hi(ulong a, ulong b)
{
    ulong low = (a & UINT_MAX) * (b & UINT_MAX), one = (a >> 32) * (b & UINT_MAX), two = (a & UINT_MAX) * (b >> 32);
    ulong middle = (low >> 32) + (one & UINT_MAX) + (two & UINT_MAX);
    return (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32) + (middle >> 32);
}
__US_FN long mul_hi(long a, long b)
{
    return (long)(mul_hi((ulong)a, (ulong)b) - (a < 0 ? (ulong)b : 0) - (b < 0 ? (ulong)a : 0));
}
__US_FN ulong mad_sat(ulong a, ulong b, ulong c)
{
    return mul_hi(a, b) ? ULONG_MAX : add_sat(a * b, c);
}
__US_FN long mad_sat(long a, long b, long c)
{
    ulong low = (ulong)a * (ulong)b, sum = low + (ulong)c;
    long high = mul_hi(a, b) + (c < 0 ? -1 : 0) + (sum < low ? 1 : 0);
    return high == (long)sum >> 63 ? (long)sum : high < 0 ? LONG_MIN : LONG_MAX;
}
// Products of narrower types fit a long, with what is added to them.
#define __US_NARROW(T, W, bits, least, most)                                             \
    __US_FN T mul_hi(T a, T b) { return (T)((W)a * (W)b >> bits); }                      \
    __US_FN T mad_sat(T a, T b, T c)                                                     \
    {                                                                                    \
        W r = (W)a * (W)b + (W)c;                                                        \
        return r > (W)most ? (T)most : least < 0 && r < (W)least ? (T)least : (T)r;      \
    }
__US_NARROW(char, int, 8, CHAR_MIN, CHAR_MAX) __US_NARROW(uchar, uint, 8, 0, UCHAR_MAX)
__US_NARROW(short, int, 16, SHRT_MIN, SHRT_MAX) __US_NARROW(ushort, uint, 16, 0, USHRT_MAX)
__US_NARROW(int, long, 32, INT_MIN, INT_MAX) __US_NARROW(uint, ulong, 32, 0, UINT_MAX)

#define __US_INTEGER_VECTORS(T, U)                                                                                  \
    __US_WIDE2(min, T, T, T) __US_WIDE2(max, T, T, T) __US_WIDE3(clamp, T, T) __US_WIDE1(abs, U, T)                 \
    __US_WIDE2(abs_diff, U, T, T) __US_WIDE2(hadd, T, T, T) __US_WIDE2(rhadd, T, T, T) __US_WIDE2(rotate, T, T, T)  \
    __US_WIDE1(popcount, T, T) __US_WIDE1(clz, T, T) __US_WIDE1(ctz, T, T) __US_WIDE2(add_sat, T, T, T)             \
    __US_WIDE2(sub_sat, T, T, T) __US_WIDE2(mul_hi, T, T, T) __US_WIDE3(mad_sat, T, T)                              \
    __US_FN T mad_hi(T a, T b, T c) { return (T)(mul_hi(a, b) + c); }                                               \
    __US_WIDE3(mad_hi, T, T)                                                                                        \
    __US_SIZES(__US_MIN_MAX, T)
#define __US_MIN_MAX(T, n) __US_LAST1(min, T, n) __US_LAST1(max, T, n) __US_LAST2(clamp, T, n)
__US_INTEGER_VECTORS(char, uchar) __US_INTEGER_VECTORS(uchar, uchar) __US_INTEGER_VECTORS(short, ushort)
__US_INTEGER_VECTORS(ushort, ushort) __US_INTEGER_VECTORS(int, uint) __US_INTEGER_VECTORS(uint, uint)
__US_INTEGER_VECTORS(long, ulong) __US_INTEGER_VECTORS(ulong, ulong)

#define __US_UPSAMPLE(R, T, U, bits)                                                  \
    __US_FN R upsample(T a, U b) { return (R)((R)((R)a << bits) | (R)b); }            \
    __US_WIDE2(upsample, R, T, U)
__US_UPSAMPLE(short, char, uchar, 8) __US_UPSAMPLE(ushort, uchar, uchar, 8) __US_UPSAMPLE(int, short, ushort, 16)
__US_UPSAMPLE(uint, ushort, ushort, 16) __US_UPSAMPLE(long, int, uint, 32) __US_UPSAMPLE(ulong, uint, uint, 32)

__US_FN int mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
__US_FN uint mul24(uint a, uint b) { return (a & 0xffffffu) * (b & 0xffffffu); }
__US_FN int mad24(int a, int b, int c) { return mul24(a, b) + c; }
__US_FN uint mad24(uint a, uint b, uint c) { return mul24(a, b) + c; }
__US_WIDE2(mul24, int, int, int) __US_WIDE2(mul24, uint, uint, uint)
__US_WIDE3(mad24, int, int) __US_WIDE3(mad24, uint, uint)

#endif
