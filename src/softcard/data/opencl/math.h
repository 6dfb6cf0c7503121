// Mathematical, common and geometric functions of float, double, half, and vectors of them.
//
// What the hardware rounds as IEEE 754 asks is the hardware's. All else is computed as double (real.h), and rounded.
#ifndef SOFTCARD_OPENCL_MATH_H
#define SOFTCARD_OPENCL_MATH_H
#include "types.h"
#include "integer.h"
#include "real.h"

#define __US_WIDE1_SAME(f, T) __US_WIDE1(f, T, T)
#define __US_WIDE2_SAME(f, T) __US_WIDE2(f, T, T, T)
#define __US_WIDE3_SAME(f, T) __US_WIDE3(f, T, T)
#define __US_FOR_FLOATS(do, f) do(f, half) do(f, float) do(f, double)

// ---- from double ---------------------------------------------------------------------------------------------------------

#define __US_REAL1(name)                                                            \
    __US_FN half name(half x) { return (half)__us_##name((double)x); }              \
    __US_FN float name(float x) { return (float)__us_##name((double)x); }           \
    __US_FN double name(double x) { return __us_##name(x); }                        \
    __US_FOR_FLOATS(__US_WIDE1_SAME, name)
#define __US_REAL2(name)                                                                                    \
    __US_FN half name(half x, half y) { return (half)__us_##name((double)x, (double)y); }                   \
    __US_FN float name(float x, float y) { return (float)__us_##name((double)x, (double)y); }               \
    __US_FN double name(double x, double y) { return __us_##name(x, y); }                                   \
    __US_FOR_FLOATS(__US_WIDE2_SAME, name)
#define __US_REAL_INT(name)                                                                                 \
    __US_FN half name(half x, int n) { return (half)__us_##name((double)x, n); }                            \
    __US_FN float name(float x, int n) { return (float)__us_##name((double)x, n); }                         \
    __US_FN double name(double x, int n) { return __us_##name(x, n); }                                      \
    __US_WIDE2(name, half, half, int) __US_WIDE2(name, float, float, int) __US_WIDE2(name, double, double, int)
__US_FN double __us_log(double x) { return __us_ln(x); }
__US_REAL1(exp) __US_REAL1(exp2) __US_REAL1(exp10) __US_REAL1(expm1) __US_REAL1(log) __US_REAL1(log2) __US_REAL1(log10)
__US_REAL1(log1p) __US_REAL1(cbrt) __US_REAL1(rsqrt) __US_REAL1(sin) __US_REAL1(cos) __US_REAL1(tan) __US_REAL1(sinpi)
__US_REAL1(cospi) __US_REAL1(tanpi) __US_REAL1(asin) __US_REAL1(acos) __US_REAL1(atan) __US_REAL1(asinpi)
__US_REAL1(acospi) __US_REAL1(atanpi) __US_REAL1(sinh) __US_REAL1(cosh) __US_REAL1(tanh) __US_REAL1(asinh)
__US_REAL1(acosh) __US_REAL1(atanh) __US_REAL1(erf) __US_REAL1(erfc) __US_REAL1(tgamma)
__US_REAL2(pow) __US_REAL2(powr) __US_REAL2(hypot) __US_REAL2(atan2) __US_REAL2(atan2pi) __US_REAL2(fmod)
__US_REAL2(remainder)
__US_REAL_INT(pown) __US_REAL_INT(rootn)

// ---- the hardware's --------------------------------------------------------------------------------------------------------

#define __US_HARDWARE1(name)                                                        \
    __US_FN half name(half x) { return (half)__builtin_##name##f((float)x); }       \
    __US_FN float name(float x) { return __builtin_##name##f(x); }                  \
    __US_FN double name(double x) { return __builtin_##name(x); }                   \
    __US_FOR_FLOATS(__US_WIDE1_SAME, name)
#define __US_HARDWARE2(name)                                                                                \
    __US_FN half name(half x, half y) { return (half)__builtin_##name##f((float)x, (float)y); }             \
    __US_FN float name(float x, float y) { return __builtin_##name##f(x, y); }                              \
    __US_FN double name(double x, double y) { return __builtin_##name(x, y); }                              \
    __US_FOR_FLOATS(__US_WIDE2_SAME, name)
__US_HARDWARE1(fabs) __US_HARDWARE1(floor) __US_HARDWARE1(ceil) __US_HARDWARE1(trunc) __US_HARDWARE1(rint)
__US_HARDWARE1(round) __US_HARDWARE1(sqrt) __US_HARDWARE2(fmin) __US_HARDWARE2(fmax) __US_HARDWARE2(copysign)
#define __US_FMIN_FMAX(T, n) __US_LAST1(fmin, T, n) __US_LAST1(fmax, T, n)
__US_SIZES(__US_FMIN_FMAX, half) __US_SIZES(__US_FMIN_FMAX, float) __US_SIZES(__US_FMIN_FMAX, double)

__US_FN half fma(half a, half b, half c) { return (half)__builtin_fma((double)a, (double)b, (double)c); }
__US_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__US_FN double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
__US_FOR_FLOATS(__US_WIDE3_SAME, fma)
#define __US_MAD(T) \
    __US_FN T mad(T a, T b, T c) { return a * b + c; }
__US_FLOATS(__US_MAD)
__US_FOR_FLOATS(__US_WIDE3_SAME, mad)

__US_FN double ldexp(double x, int n) { return __builtin_amdgcn_ldexp(x, n); }
__US_FN float ldexp(float x, int n) { return __builtin_amdgcn_ldexpf(x, n); }
__US_FN half ldexp(half x, int n) { return (half)__builtin_amdgcn_ldexp((double)x, n); }
#define __US_LAST_INT(f, T, n) \
    __US_FN T##n f(T##n a, int b) { return f(a, (int##n)(b)); }
#define __US_LDEXPS(T)                                                                                      \
    __US_WIDE2(ldexp, T, T, int) __US_LAST_INT(ldexp, T, 2) __US_LAST_INT(ldexp, T, 3)                      \
    __US_LAST_INT(ldexp, T, 4) __US_LAST_INT(ldexp, T, 8) __US_LAST_INT(ldexp, T, 16)
__US_FLOATS(__US_LDEXPS)

// ---- parts of numbers --------------------------------------------------------------------------------------------------------

__US_FN int ilogb(double x)
{
    return x == 0.0 ? FP_ILOGB0 : x != x || __us_abs(x) == INFINITY ? INT_MAX : __builtin_amdgcn_frexp_exp(x) - 1;
}
__US_FN int ilogb(float x) { return ilogb((double)x); }
__US_FN int ilogb(half x) { return ilogb((double)x); }
__US_WIDE1(ilogb, int, half) __US_WIDE1(ilogb, int, float) __US_WIDE1(ilogb, int, double)
__US_FN double __us_logb(double x)
{
    return x == 0.0 ? -INFINITY : __us_abs(x) < INFINITY ? (double)(__builtin_amdgcn_frexp_exp(x) - 1) : x * x;
}
__US_REAL1(logb)
__US_FN double __us_fract(double x)
{
    return __us_abs(x) == INFINITY ? __builtin_copysign(0.0, x) : x == 0.0 ? x : x - __builtin_floor(x);
}
#define __US_UNDER_ONE_half 0x1.ffcp-1h
#define __US_UNDER_ONE_float 0x1.fffffep-1f
#define __US_UNDER_ONE_double 0x1.fffffffffffffp-1
__US_FN double __us_frexp(double x, int *e)
{
    bool finite = __us_abs(x) < INFINITY;
    *e = finite ? __builtin_amdgcn_frexp_exp(x) : 0;
    return finite ? __builtin_amdgcn_frexp_mant(x) : x;
}
__US_FN double __us_modf(double x, double *whole)
{
    *whole = __builtin_trunc(x);
    return __builtin_copysign(__us_abs(x) == INFINITY ? 0.0 : x - *whole, x);
}
__US_FN double __us_sincos(double x, double *c)
{
    double size = __us_abs(x);
    if (!(size < INFINITY)) {
        *c = NAN;
        return NAN;
    }
    __us_angle a = __us_reduce(size);
    *c = __us_cos_of(a);
    return x == 0.0 ? x : x < 0.0 ? -__us_sin_of(a) : __us_sin_of(a);
}
#define __US_POINTED(T, S)                                                                                          \
    __US_FN T fract(T x, S T *whole)                                                                                \
    {                                                                                                               \
        *whole = floor(x);                                                                                          \
        return x != x ? x : (T)__builtin_fmin((double)(T)__us_fract((double)x), (double)__US_UNDER_ONE_##T);        \
    }                                                                                                               \
    __US_FN T frexp(T x, S int *e) { int n; T r = (T)__us_frexp((double)x, &n); *e = n; return r; }                 \
    __US_FN T modf(T x, S T *whole) { double w; T r = (T)__us_modf((double)x, &w); *whole = (T)w; return r; }       \
    __US_FN T sincos(T x, S T *c) { double w; T r = (T)__us_sincos((double)x, &w); *c = (T)w; return r; }           \
    __US_FN T lgamma_r(T x, S int *s) { int n; T r = (T)__us_lgamma((double)x, &n); *s = n; return r; }             \
    __US_FN T remquo(T x, T y, S int *q)                                                                            \
    {                                                                                                               \
        int n;                                                                                                      \
        T r = (T)__us_remquo((double)x, (double)y, &n);                                                             \
        *q = n;                                                                                                     \
        return r;                                                                                                   \
    }                                                                                                               \
    __US_POINTED_SIZE(T, S, 2) __US_POINTED_SIZE(T, S, 3) __US_POINTED_SIZE(T, S, 4) __US_POINTED_SIZE(T, S, 8)     \
    __US_POINTED_SIZE(T, S, 16)
#define __US_POINTED_SIZE(T, S, n)                                                                                  \
    __US_POINTED_ONE(fract, T, T, S, n) __US_POINTED_ONE(frexp, T, int, S, n) __US_POINTED_ONE(modf, T, T, S, n)    \
    __US_POINTED_ONE(sincos, T, T, S, n) __US_POINTED_ONE(lgamma_r, T, int, S, n)                                   \
    __US_FN T##n remquo(T##n x, T##n y, S int##n *out)                                                              \
    {                                                                                                               \
        T##n r;                                                                                                     \
        int##n q;                                                                                                   \
        for (int i = 0; i < n; i++) { int one; r[i] = remquo(x[i], y[i], &one); q[i] = one; }                       \
        *out = q;                                                                                                   \
        return r;                                                                                                   \
    }
#define __US_POINTED_ONE(f, T, U, S, n)                                                                             \
    __US_FN T##n f(T##n x, S U##n *out)                                                                             \
    {                                                                                                               \
        T##n r;                                                                                                     \
        U##n q;                                                                                                     \
        for (int i = 0; i < n; i++) { U one; r[i] = f(x[i], &one); q[i] = one; }                                    \
        *out = q;                                                                                                   \
        return r;                                                                                                   \
    }
#define __US_POINTED_ALL(T)                                                                                         \
    __US_POINTED(T, private) __US_POINTED(T, local) __US_POINTED(T, global) __US_GENERIC(__US_POINTED(T, generic))
__US_FLOATS(__US_POINTED_ALL)

#define __US_LGAMMA(T) \
    __US_FN T lgamma(T x) { int sign; return (T)__us_lgamma((double)x, &sign); }
__US_FLOATS(__US_LGAMMA)
__US_FOR_FLOATS(__US_WIDE1_SAME, lgamma)

// I, U: the integers as wide as T. One step of the representation, through zero.
#define __US_BITS(T, I, U)                                                                                          \
    __US_FN T nextafter(T x, T y)                                                                                   \
    {                                                                                                               \
        if (x != x || y != y)                                                                                       \
            return x + y;                                                                                           \
        if (x == y)                                                                                                 \
            return y;                                                                                               \
        U bits = __builtin_astype(x, U), sign = (U)((U)1 << (sizeof(T) * 8 - 1));                                   \
        if (!(U)(bits & (U)~sign))                                                                                  \
            return __builtin_astype((U)(y > x ? 1 : sign | 1), T);                                                  \
        return __builtin_astype((U)(bits + ((y > x) == !(bits & sign) ? 1 : -1)), T);                               \
    }                                                                                                               \
    __US_FN T nan(U code) { return (T)NAN; }                                                                        \
    __US_FN T fdim(T x, T y) { return x != x || y != y ? x + y : x > y ? x - y : (T)0; }                            \
    __US_FN T maxmag(T x, T y) { T a = fabs(x), b = fabs(y); return a > b ? x : b > a ? y : fmax(x, y); }           \
    __US_FN T minmag(T x, T y) { T a = fabs(x), b = fabs(y); return a < b ? x : b < a ? y : fmin(x, y); }           \
    __US_WIDE2(nextafter, T, T, T) __US_WIDE1(nan, T, U) __US_WIDE2(fdim, T, T, T) __US_WIDE2(maxmag, T, T, T)      \
    __US_WIDE2(minmag, T, T, T)
__US_BITS(half, short, ushort) __US_BITS(float, int, uint) __US_BITS(double, long, ulong)

// ---- native_ and half_ functions: of float. The latter are the full ones --------------------------------------------------------

#define __US_NATIVE1(name, expression)                                              \
    __US_FN float native_##name(float x) { return expression; }                     \
    __US_WIDE1(native_##name, float, float)
__US_NATIVE1(sqrt, __builtin_amdgcn_sqrtf(x))
__US_NATIVE1(rsqrt, __builtin_amdgcn_rsqf(x))
__US_NATIVE1(recip, __builtin_amdgcn_rcpf(x))
__US_NATIVE1(exp2, __builtin_exp2f(x))
__US_NATIVE1(log2, __builtin_log2f(x))
__US_NATIVE1(exp, __builtin_exp2f(x * 0x1.715476p+0f))
__US_NATIVE1(exp10, __builtin_exp2f(x * 0x1.a934f0p+1f))
__US_NATIVE1(log, __builtin_log2f(x) * 0x1.62e430p-1f)
__US_NATIVE1(log10, __builtin_log2f(x) * 0x1.344136p-2f)
__US_NATIVE1(sin, __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(x * 0x1.45f306p-3f)))
__US_NATIVE1(cos, __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(x * 0x1.45f306p-3f)))
__US_NATIVE1(tan, native_sin(x) * __builtin_amdgcn_rcpf(native_cos(x)))
__US_FN float native_divide(float x, float y) { return x * __builtin_amdgcn_rcpf(y); }
__US_FN float native_powr(float x, float y) { return __builtin_exp2f(y * __builtin_log2f(x)); }
__US_WIDE2(native_divide, float, float, float) __US_WIDE2(native_powr, float, float, float)

#define __US_HALF1(name)                                                            \
    __US_FN float half_##name(float x) { return name(x); }                          \
    __US_WIDE1(half_##name, float, float)
__US_HALF1(sqrt) __US_HALF1(rsqrt) __US_HALF1(exp) __US_HALF1(exp2) __US_HALF1(exp10) __US_HALF1(log) __US_HALF1(log2)
__US_HALF1(log10) __US_HALF1(sin) __US_HALF1(cos) __US_HALF1(tan)
__US_FN float half_recip(float x) { return 1.0f / x; }
__US_FN float half_divide(float x, float y) { return x / y; }
__US_FN float half_powr(float x, float y) { return powr(x, y); }
__US_WIDE1(half_recip, float, float) __US_WIDE2(half_divide, float, float, float) __US_WIDE2(half_powr, float, float, float)

// ---- common functions -------------------------------------------------------------------------------------------------------------

#define __US_COMMON(T)                                                                                              \
    __US_FN T min(T a, T b) { return b < a ? b : a; }                                                               \
    __US_FN T max(T a, T b) { return a < b ? b : a; }                                                               \
    __US_FN T clamp(T a, T low, T high) { return fmin(fmax(a, low), high); }                                        \
    __US_FN T mix(T a, T b, T t) { return a + (b - a) * t; }                                                        \
    __US_FN T step(T edge, T x) { return x < edge ? (T)0 : (T)1; }                                                  \
    __US_FN T smoothstep(T low, T high, T x)                                                                        \
    {                                                                                                               \
        T t = clamp((x - low) / (high - low), (T)0, (T)1);                                                          \
        return t * t * ((T)3 - (T)2 * t);                                                                           \
    }                                                                                                               \
    __US_FN T sign(T x) { return x > (T)0 ? (T)1 : x < (T)0 ? (T)-1 : x == (T)0 ? x : (T)0; }                       \
    __US_FN T degrees(T x) { return (T)((double)x * 57.29577951308232); }                                           \
    __US_FN T radians(T x) { return (T)((double)x * 0.017453292519943295); }                                        \
    __US_WIDE2(min, T, T, T) __US_WIDE2(max, T, T, T) __US_WIDE3(clamp, T, T) __US_WIDE3(mix, T, T)                 \
    __US_WIDE2(step, T, T, T) __US_WIDE3(smoothstep, T, T) __US_WIDE1(sign, T, T) __US_WIDE1(degrees, T, T)         \
    __US_WIDE1(radians, T, T) __US_SIZES(__US_COMMON_SCALARS, T)
#define __US_COMMON_SCALARS(T, n)                                                                                   \
    __US_LAST1(min, T, n) __US_LAST1(max, T, n) __US_LAST2(clamp, T, n)                                             \
    __US_FN T##n mix(T##n a, T##n b, T t) { return mix(a, b, (T##n)(t)); }                                          \
    __US_FN T##n step(T edge, T##n x) { return step((T##n)(edge), x); }                                             \
    __US_FN T##n smoothstep(T low, T high, T##n x) { return smoothstep((T##n)(low), (T##n)(high), x); }
__US_FLOATS(__US_COMMON)

// ---- geometric functions: sums as double, rounded once ------------------------------------------------------------------------------

#define __US_DOT(T)                                                                                                 \
    __US_FN double __us_dot(T a, T b) { return (double)a * (double)b; }                                             \
    __US_FN double __us_dot(T##2 a, T##2 b) { return __us_dot(a.x, b.x) + __us_dot(a.y, b.y); }                     \
    __US_FN double __us_dot(T##3 a, T##3 b) { return __us_dot(a.xy, b.xy) + __us_dot(a.z, b.z); }                   \
    __US_FN double __us_dot(T##4 a, T##4 b) { return __us_dot(a.lo, b.lo) + __us_dot(a.hi, b.hi); }                 \
    __US_FN T __us_most(T a) { return fabs(a); }                                                                    \
    __US_FN T __us_most(T##2 a) { return fmax(fabs(a.x), fabs(a.y)); }                                              \
    __US_FN T __us_most(T##3 a) { return fmax(__us_most(a.xy), fabs(a.z)); }                                        \
    __US_FN T __us_most(T##4 a) { return fmax(__us_most(a.lo), __us_most(a.hi)); }                                  \
    __US_GEOMETRIC(T, T) __US_GEOMETRIC(T, T##2) __US_GEOMETRIC(T, T##3) __US_GEOMETRIC(T, T##4)                    \
    __US_FN T##3 cross(T##3 a, T##3 b)                                                                              \
    {                                                                                                               \
        return (T##3)((T)((double)a.y * b.z - (double)a.z * b.y), (T)((double)a.z * b.x - (double)a.x * b.z),       \
                      (T)((double)a.x * b.y - (double)a.y * b.x));                                                  \
    }                                                                                                               \
    __US_FN T##4 cross(T##4 a, T##4 b) { return (T##4)(cross(a.xyz, b.xyz), (T)0); }
// Vectors of double are brought near 1 first: squares would overflow.
#define __US_GEOMETRIC(T, V)                                                                                        \
    __US_FN T dot(V a, V b) { return (T)__us_dot(a, b); }                                                           \
    __US_FN T length(V a)                                                                                           \
    {                                                                                                               \
        double most = (double)__us_most(a);                                                                         \
        if (sizeof(T) < 8 || most == 0.0 || !(most < INFINITY))                                                     \
            return (T)__builtin_sqrt(__us_dot(a, a));                                                               \
        int e = __builtin_amdgcn_frexp_exp(most);                                                                   \
        V b = ldexp(a, -e);                                                                                         \
        return (T)__us_scale(__builtin_sqrt(__us_dot(b, b)), e);                                                    \
    }                                                                                                               \
    __US_FN T distance(V a, V b) { return length(a - b); }                                                          \
    __US_FN V normalize(V a)                                                                                        \
    {                                                                                                               \
        double most = (double)__us_most(a);                                                                         \
        if (most == INFINITY)                                                                                       \
            a = fabs(a) == (V)INFINITY ? copysign((V)1, a) : (V)0 * a;                                              \
        else if (most != 0.0)                                                                                       \
            a = ldexp(a, -__builtin_amdgcn_frexp_exp(most));                                                        \
        T size = (T)__builtin_sqrt(__us_dot(a, a));                                                                 \
        return size == (T)0 ? a : a / size;                                                                         \
    }
#define __US_FAST(V)                                                                                                \
    __US_FN float fast_length(V a) { return length(a); }                                                            \
    __US_FN float fast_distance(V a, V b) { return distance(a, b); }                                                \
    __US_FN V fast_normalize(V a) { return normalize(a); }
__US_FLOATS(__US_DOT)
__US_FAST(float) __US_FAST(float2) __US_FAST(float3) __US_FAST(float4)

#endif
