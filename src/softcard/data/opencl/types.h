// Types, their constants, reinterpretation, and the macros that make functions of vectors out of those of scalars.
#ifndef SOFTCARD_OPENCL_TYPES_H
#define SOFTCARD_OPENCL_TYPES_H

#include "standard.h"

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef unsigned long uintptr_t;
typedef long intptr_t;

#define __US_INTEGERS(do) do(char) do(uchar) do(short) do(ushort) do(int) do(uint) do(long) do(ulong)
#define __US_FLOATS(do) do(half) do(float) do(double)
#define __US_TYPES(do) __US_INTEGERS(do) __US_FLOATS(do)
#define __US_SIZES(do, T) do(T, 2) do(T, 3) do(T, 4) do(T, 8) do(T, 16)

#define __US_VECTOR(T, n) typedef T T##n __attribute__((ext_vector_type(n)));
#define __US_VECTORS(T) __US_SIZES(__US_VECTOR, T)
__US_TYPES(__US_VECTORS)

// A function of the library: every one is inlined, and a kernel pays only for what it calls.
// Without debug information of their own, so that tools name the line that calls them.
#define __US_FN static inline __attribute__((always_inline, overloadable, nodebug))
#define __US_CONVERGENT __US_FN __attribute__((convergent))

// Functions of vectors, element by element, out of those of scalars. R: of the result, T: of the arguments.
#define __US_WIDE1(f, R, T)                                        \
    __US_FN R##2 f(T##2 a) { return (R##2)(f(a.x), f(a.y)); }      \
    __US_FN R##3 f(T##3 a) { return (R##3)(f(a.xy), f(a.z)); }     \
    __US_FN R##4 f(T##4 a) { return (R##4)(f(a.lo), f(a.hi)); }    \
    __US_FN R##8 f(T##8 a) { return (R##8)(f(a.lo), f(a.hi)); }    \
    __US_FN R##16 f(T##16 a) { return (R##16)(f(a.lo), f(a.hi)); }
#define __US_WIDE2(f, R, T, U)                                                      \
    __US_FN R##2 f(T##2 a, U##2 b) { return (R##2)(f(a.x, b.x), f(a.y, b.y)); }     \
    __US_FN R##3 f(T##3 a, U##3 b) { return (R##3)(f(a.xy, b.xy), f(a.z, b.z)); }   \
    __US_FN R##4 f(T##4 a, U##4 b) { return (R##4)(f(a.lo, b.lo), f(a.hi, b.hi)); } \
    __US_FN R##8 f(T##8 a, U##8 b) { return (R##8)(f(a.lo, b.lo), f(a.hi, b.hi)); } \
    __US_FN R##16 f(T##16 a, U##16 b) { return (R##16)(f(a.lo, b.lo), f(a.hi, b.hi)); }
#define __US_WIDE3(f, R, T)                                                                             \
    __US_FN R##2 f(T##2 a, T##2 b, T##2 c) { return (R##2)(f(a.x, b.x, c.x), f(a.y, b.y, c.y)); }       \
    __US_FN R##3 f(T##3 a, T##3 b, T##3 c) { return (R##3)(f(a.xy, b.xy, c.xy), f(a.z, b.z, c.z)); }    \
    __US_FN R##4 f(T##4 a, T##4 b, T##4 c) { return (R##4)(f(a.lo, b.lo, c.lo), f(a.hi, b.hi, c.hi)); } \
    __US_FN R##8 f(T##8 a, T##8 b, T##8 c) { return (R##8)(f(a.lo, b.lo, c.lo), f(a.hi, b.hi, c.hi)); } \
    __US_FN R##16 f(T##16 a, T##16 b, T##16 c) { return (R##16)(f(a.lo, b.lo, c.lo), f(a.hi, b.hi, c.hi)); }
// The last arguments may be one scalar for all elements.
#define __US_LAST1(f, T, n) \
    __US_FN T##n f(T##n a, T b) { return f(a, (T##n)(b)); }
#define __US_LAST2(f, T, n) \
    __US_FN T##n f(T##n a, T b, T c) { return f(a, (T##n)(b), (T##n)(c)); }

#ifdef __OPENCL_CPP_VERSION__
#define NULL nullptr
#else
#define NULL ((void *)0)
#endif
#define CHAR_BIT 8
#define CHAR_MAX 127
#define CHAR_MIN (-128)
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 0x7fffffff
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 0xffffffffu
#define LONG_MAX 0x7fffffffffffffffL
#define LONG_MIN (-LONG_MAX - 1)
#define ULONG_MAX 0xffffffffffffffffUL

#define MAXFLOAT FLT_MAX
#define HUGE_VALF (__builtin_huge_valf())
#define HUGE_VAL (__builtin_huge_val())
#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_10_EXP 38
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MIN_EXP (-125)
#define FLT_RADIX 2
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1.0p-126f
#define FLT_EPSILON 0x1.0p-23f
#define DBL_DIG 15
#define DBL_MANT_DIG 53
#define DBL_MAX_10_EXP 308
#define DBL_MAX_EXP 1024
#define DBL_MIN_10_EXP (-307)
#define DBL_MIN_EXP (-1021)
#define DBL_MAX 0x1.fffffffffffffp1023
#define DBL_MIN 0x1.0p-1022
#define DBL_EPSILON 0x1.0p-52
#define HALF_DIG 3
#define HALF_MANT_DIG 11
#define HALF_MAX_10_EXP 4
#define HALF_MAX_EXP 16
#define HALF_MIN_10_EXP (-4)
#define HALF_MIN_EXP (-13)
#define HALF_RADIX 2
#define HALF_MAX 0x1.ffcp15h
#define HALF_MIN 0x1.0p-14h
#define HALF_EPSILON 0x1.0p-10h
#define FP_ILOGB0 INT_MIN
#define FP_ILOGBNAN INT_MAX

#define M_E 2.718281828459045
#define M_LOG2E 1.4426950408889634
#define M_LOG10E 0.4342944819032518
#define M_LN2 0.6931471805599453
#define M_LN10 2.302585092994046
#define M_PI 3.141592653589793
#define M_PI_2 1.5707963267948966
#define M_PI_4 0.7853981633974483
#define M_1_PI 0.3183098861837907
#define M_2_PI 0.6366197723675814
#define M_2_SQRTPI 1.1283791670955126
#define M_SQRT2 1.4142135623730951
#define M_SQRT1_2 0.7071067811865476
#define M_E_F ((float)M_E)
#define M_LOG2E_F ((float)M_LOG2E)
#define M_LOG10E_F ((float)M_LOG10E)
#define M_LN2_F ((float)M_LN2)
#define M_LN10_F ((float)M_LN10)
#define M_PI_F ((float)M_PI)
#define M_PI_2_F ((float)M_PI_2)
#define M_PI_4_F ((float)M_PI_4)
#define M_1_PI_F ((float)M_1_PI)
#define M_2_PI_F ((float)M_2_PI)
#define M_2_SQRTPI_F ((float)M_2_SQRTPI)
#define M_SQRT2_F ((float)M_SQRT2)
#define M_SQRT1_2_F ((float)M_SQRT1_2)

#define as_char(x) __builtin_astype(x, char)
#define as_char2(x) __builtin_astype(x, char2)
#define as_char3(x) __builtin_astype(x, char3)
#define as_char4(x) __builtin_astype(x, char4)
#define as_char8(x) __builtin_astype(x, char8)
#define as_char16(x) __builtin_astype(x, char16)
#define as_uchar(x) __builtin_astype(x, uchar)
#define as_uchar2(x) __builtin_astype(x, uchar2)
#define as_uchar3(x) __builtin_astype(x, uchar3)
#define as_uchar4(x) __builtin_astype(x, uchar4)
#define as_uchar8(x) __builtin_astype(x, uchar8)
#define as_uchar16(x) __builtin_astype(x, uchar16)
#define as_short(x) __builtin_astype(x, short)
#define as_short2(x) __builtin_astype(x, short2)
#define as_short3(x) __builtin_astype(x, short3)
#define as_short4(x) __builtin_astype(x, short4)
#define as_short8(x) __builtin_astype(x, short8)
#define as_short16(x) __builtin_astype(x, short16)
#define as_ushort(x) __builtin_astype(x, ushort)
#define as_ushort2(x) __builtin_astype(x, ushort2)
#define as_ushort3(x) __builtin_astype(x, ushort3)
#define as_ushort4(x) __builtin_astype(x, ushort4)
#define as_ushort8(x) __builtin_astype(x, ushort8)
#define as_ushort16(x) __builtin_astype(x, ushort16)
#define as_int(x) __builtin_astype(x, int)
#define as_int2(x) __builtin_astype(x, int2)
#define as_int3(x) __builtin_astype(x, int3)
#define as_int4(x) __builtin_astype(x, int4)
#define as_int8(x) __builtin_astype(x, int8)
#define as_int16(x) __builtin_astype(x, int16)
#define as_uint(x) __builtin_astype(x, uint)
#define as_uint2(x) __builtin_astype(x, uint2)
#define as_uint3(x) __builtin_astype(x, uint3)
#define as_uint4(x) __builtin_astype(x, uint4)
#define as_uint8(x) __builtin_astype(x, uint8)
#define as_uint16(x) __builtin_astype(x, uint16)
#define as_long(x) __builtin_astype(x, long)
#define as_long2(x) __builtin_astype(x, long2)
#define as_long3(x) __builtin_astype(x, long3)
#define as_long4(x) __builtin_astype(x, long4)
#define as_long8(x) __builtin_astype(x, long8)
#define as_long16(x) __builtin_astype(x, long16)
#define as_ulong(x) __builtin_astype(x, ulong)
#define as_ulong2(x) __builtin_astype(x, ulong2)
#define as_ulong3(x) __builtin_astype(x, ulong3)
#define as_ulong4(x) __builtin_astype(x, ulong4)
#define as_ulong8(x) __builtin_astype(x, ulong8)
#define as_ulong16(x) __builtin_astype(x, ulong16)
#define as_half(x) __builtin_astype(x, half)
#define as_half2(x) __builtin_astype(x, half2)
#define as_half3(x) __builtin_astype(x, half3)
#define as_half4(x) __builtin_astype(x, half4)
#define as_half8(x) __builtin_astype(x, half8)
#define as_half16(x) __builtin_astype(x, half16)
#define as_float(x) __builtin_astype(x, float)
#define as_float2(x) __builtin_astype(x, float2)
#define as_float3(x) __builtin_astype(x, float3)
#define as_float4(x) __builtin_astype(x, float4)
#define as_float8(x) __builtin_astype(x, float8)
#define as_float16(x) __builtin_astype(x, float16)
#define as_double(x) __builtin_astype(x, double)
#define as_double2(x) __builtin_astype(x, double2)
#define as_double3(x) __builtin_astype(x, double3)
#define as_double4(x) __builtin_astype(x, double4)
#define as_double8(x) __builtin_astype(x, double8)
#define as_double16(x) __builtin_astype(x, double16)

#endif
