/* What of the C library's math.h kernels for RefSi's harts have.
 *
 * What the harts have instructions for is exact: sqrt, fma, fabs, copysign, fmin, fmax and the roundings. exp, log, sin
 * and cos are within two units in the last place (sin and cos below 2^20); functions of float are rounded from double.
 */
#ifndef UNDERSTUDY_MATH_H
#define UNDERSTUDY_MATH_H

#define M_PI 3.14159265358979323846
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)

#ifdef __cplusplus
extern "C" {
#endif

#define UNARY(name, instruction)                                                \
    static inline double name(double x)                                         \
    {                                                                           \
        double r;                                                               \
        __asm__(instruction ".d %0, %1" : "=f"(r) : "f"(x));                    \
        return r;                                                               \
    }                                                                           \
    static inline float name##f(float x)                                        \
    {                                                                           \
        float r;                                                                \
        __asm__(instruction ".s %0, %1" : "=f"(r) : "f"(x));                    \
        return r;                                                               \
    }
#define BINARY(name, instruction)                                               \
    static inline double name(double x, double y)                               \
    {                                                                           \
        double r;                                                               \
        __asm__(instruction ".d %0, %1, %2" : "=f"(r) : "f"(x), "f"(y));        \
        return r;                                                               \
    }                                                                           \
    static inline float name##f(float x, float y)                               \
    {                                                                           \
        float r;                                                                \
        __asm__(instruction ".s %0, %1, %2" : "=f"(r) : "f"(x), "f"(y));        \
        return r;                                                               \
    }
UNARY(sqrt, "fsqrt")
UNARY(fabs, "fabs")
BINARY(copysign, "fsgnj")
BINARY(fmin, "fmin")
BINARY(fmax, "fmax")
#undef UNARY
#undef BINARY

/* Where a number may have a fraction, to an integer and back. */
#define ROUNDING(name, mode)                                                    \
    static inline double name(double x)                                         \
    {                                                                           \
        long n;                                                                 \
        if (!(fabs(x) < 0x1p52))                                                \
            return x;                                                           \
        __asm__("fcvt.l.d %0, %1, " mode : "=r"(n) : "f"(x));                   \
        return copysign((double)n, x);                                          \
    }                                                                           \
    static inline float name##f(float x)                                        \
    {                                                                           \
        return (float)name((double)x);                                          \
    }
ROUNDING(floor, "rdn")
ROUNDING(ceil, "rup")
ROUNDING(trunc, "rtz")
ROUNDING(round, "rmm")
ROUNDING(rint, "dyn")
#undef ROUNDING

static inline double fma(double x, double y, double z)
{
    double r;
    __asm__("fmadd.d %0, %1, %2, %3" : "=f"(r) : "f"(x), "f"(y), "f"(z));
    return r;
}

static inline float fmaf(float x, float y, float z)
{
    float r;
    __asm__("fmadd.s %0, %1, %2, %3" : "=f"(r) : "f"(x), "f"(y), "f"(z));
    return r;
}

double exp(double x);
double log(double x);
double sin(double x);
double cos(double x);
double fmod(double x, double y);
float powf(float x, float y);

static inline float expf(float x) { return (float)exp(x); }
static inline float logf(float x) { return (float)log(x); }
static inline float sinf(float x) { return (float)sin(x); }
static inline float cosf(float x) { return (float)cos(x); }
static inline float tanf(float x) { return (float)(sin(x) / cos(x)); }
static inline float tanhf(float x) { return x > 20 ? 1.0f : x < -20 ? -1.0f : (float)(1 - 2 / (exp(2.0 * x) + 1)); }
static inline float fmodf(float x, float y) { return (float)fmod(x, y); }

#ifdef __cplusplus
}
#endif
#endif
