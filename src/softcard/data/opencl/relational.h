// Relations, and what chooses by them. Of scalars they give 0 or 1, of vectors 0 or -1 in each element.
#ifndef SOFTCARD_OPENCL_RELATIONAL_H
#define SOFTCARD_OPENCL_RELATIONAL_H
#include "types.h"

#define __US_SIGN_half(x) (as_ushort(x) >> 15)
#define __US_SIGN_float(x) (as_uint(x) >> 31)
#define __US_SIGN_double(x) (as_ulong(x) >> 63)
#define __US_LEAST_half 0x1p-14h
#define __US_LEAST_float FLT_MIN
#define __US_LEAST_double DBL_MIN
#define __US_ABS_half(x) as_half((ushort)(as_ushort(x) & 0x7fff))
#define __US_ABS_float(x) __builtin_fabsf(x)
#define __US_ABS_double(x) __builtin_fabs(x)

#define __US_WIDE_RELATION1(f, I, T, n) \
    __US_FN I##n f(T##n a) { I##n r; for (int i = 0; i < n; i++) r[i] = f(a[i]) ? -1 : 0; return r; }
#define __US_RELATION2(f, expression, I, T) __US_FN int f(T a, T b) { return expression; }
#define __US_WIDE_RELATION2(f, expression, I, T, n) \
    __US_FN I##n f(T##n a, T##n b) { return __builtin_convertvector(expression, I##n); }
#define __US_RELATIONS2(f, expression, I, T)                                                                \
    __US_RELATION2(f, expression, I, T)                                                                     \
    __US_WIDE_RELATION2(f, expression, I, T, 2) __US_WIDE_RELATION2(f, expression, I, T, 3)                 \
    __US_WIDE_RELATION2(f, expression, I, T, 4) __US_WIDE_RELATION2(f, expression, I, T, 8)                 \
    __US_WIDE_RELATION2(f, expression, I, T, 16)
#define __US_RELATIONS1(f, expression, I, T)                                                                \
    __US_FN int f(T a) { return expression; }                                                               \
    __US_WIDE_RELATION1(f, I, T, 2) __US_WIDE_RELATION1(f, I, T, 3) __US_WIDE_RELATION1(f, I, T, 4)         \
    __US_WIDE_RELATION1(f, I, T, 8) __US_WIDE_RELATION1(f, I, T, 16)
#define __US_RELATIONAL(T, I)                                                                               \
    __US_RELATIONS2(isequal, a == b, I, T) __US_RELATIONS2(isnotequal, a != b, I, T)                        \
    __US_RELATIONS2(isgreater, a > b, I, T) __US_RELATIONS2(isgreaterequal, a >= b, I, T)                   \
    __US_RELATIONS2(isless, a < b, I, T) __US_RELATIONS2(islessequal, a <= b, I, T)                         \
    __US_RELATIONS2(islessgreater, (a < b) | (a > b), I, T)                                                 \
    __US_RELATIONS2(isordered, (a == a) & (b == b), I, T)                                                   \
    __US_RELATIONS2(isunordered, (a != a) | (b != b), I, T)                                                 \
    __US_RELATIONS1(isnan, a != a, I, T) __US_RELATIONS1(isinf, __US_ABS_##T(a) == (T)INFINITY, I, T)       \
    __US_RELATIONS1(isfinite, __US_ABS_##T(a) < (T)INFINITY, I, T)                                          \
    __US_RELATIONS1(isnormal, __US_ABS_##T(a) < (T)INFINITY && __US_ABS_##T(a) >= __US_LEAST_##T, I, T)     \
    __US_RELATIONS1(signbit, (int)__US_SIGN_##T(a), I, T)
__US_RELATIONAL(half, short) __US_RELATIONAL(float, int) __US_RELATIONAL(double, long)

#define __US_ANY_ALL(T)                                                                                     \
    __US_FN int any(T a) { return a < 0; }                                                                  \
    __US_FN int all(T a) { return a < 0; }                                                                  \
    __US_FN int any(T##2 a) { return (a.x | a.y) < 0; }                                                     \
    __US_FN int all(T##2 a) { return (a.x & a.y) < 0; }                                                     \
    __US_FN int any(T##3 a) { return (a.x | a.y | a.z) < 0; }                                               \
    __US_FN int all(T##3 a) { return (a.x & a.y & a.z) < 0; }                                               \
    __US_FN int any(T##4 a) { return any(a.lo | a.hi); }                                                    \
    __US_FN int all(T##4 a) { return all(a.lo & a.hi); }                                                    \
    __US_FN int any(T##8 a) { return any(a.lo | a.hi); }                                                    \
    __US_FN int all(T##8 a) { return all(a.lo & a.hi); }                                                    \
    __US_FN int any(T##16 a) { return any(a.lo | a.hi); }                                                   \
    __US_FN int all(T##16 a) { return all(a.lo & a.hi); }
__US_ANY_ALL(char) __US_ANY_ALL(short) __US_ANY_ALL(int) __US_ANY_ALL(long)

// I, U: the integers as wide as T. Scalars are selected by truth, elements of vectors by the most significant bit.
#define __US_SELECT(T, C, n) \
    __US_FN T##n select(T##n a, T##n b, C##n c) { return __builtin_astype(c < (C##n)0 ? __US_AS(b, C, n) : __US_AS(a, C, n), T##n); }
#define __US_AS(v, C, n) __builtin_astype(v, C##n)
#define __US_SELECT_U(T, C, U, n) \
    __US_FN T##n select(T##n a, T##n b, U##n c) { return select(a, b, __builtin_astype(c, C##n)); }
#define __US_SELECTS(T, C, U, n)                                                                            \
    __US_SELECT(T, C, n) __US_SELECT_U(T, C, U, n)                                                          \
    __US_FN T##n bitselect(T##n a, T##n b, T##n c)                                                          \
    {                                                                                                       \
        return __builtin_astype((__US_AS(a, U, n) & ~__US_AS(c, U, n)) | (__US_AS(b, U, n) & __US_AS(c, U, n)), T##n); \
    }
#define __US_CHOICE(T, C, U)                                                                                \
    __US_FN T select(T a, T b, C c) { return c ? b : a; }                                                   \
    __US_FN T select(T a, T b, U c) { return c ? b : a; }                                                   \
    __US_FN T bitselect(T a, T b, T c)                                                                      \
    {                                                                                                       \
        U x = __builtin_astype(a, U), y = __builtin_astype(b, U), m = __builtin_astype(c, U);               \
        U r = (U)((x & (U)~m) | (y & m));                                                                   \
        return __builtin_astype(r, T);                                                                      \
    }                                                                                                       \
    __US_SELECTS(T, C, U, 2) __US_SELECTS(T, C, U, 3) __US_SELECTS(T, C, U, 4) __US_SELECTS(T, C, U, 8)     \
    __US_SELECTS(T, C, U, 16)
__US_CHOICE(char, char, uchar) __US_CHOICE(uchar, char, uchar) __US_CHOICE(short, short, ushort)
__US_CHOICE(ushort, short, ushort) __US_CHOICE(int, int, uint) __US_CHOICE(uint, int, uint)
__US_CHOICE(long, long, ulong) __US_CHOICE(ulong, long, ulong) __US_CHOICE(half, short, ushort)
__US_CHOICE(float, int, uint) __US_CHOICE(double, long, ulong)

#endif
