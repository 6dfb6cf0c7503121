/* What of the C library's math.h kernels for RefSi's harts have.
 *
 * What the harts have instructions for is exact: sqrt, fma, fabs, copysign, fmin, fmax and the roundings. exp, log, log2, sin
 * and cos are within two units in the last place (sin and cos below 2^20); functions of float are rounded from double.
 * What is declared at the end comes from picolibc, where that is installed.
 */
#ifndef SOFTCARD_MATH_H
#define SOFTCARD_MATH_H

#define M_E 2.71828182845904523536
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_SQRT2 1.41421356237309504880
#define HUGE_VAL __builtin_huge_val()
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)

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
double log2(double x);
double sin(double x);
double cos(double x);
double fmod(double x, double y);
float powf(float x, float y);

static inline float expf(float x) { return (float)exp(x); }
static inline float logf(float x) { return (float)log(x); }
static inline float log2f(float x) { return (float)log2(x); }
static inline float sinf(float x) { return (float)sin(x); }
static inline float cosf(float x) { return (float)cos(x); }
static inline float tanf(float x) { return (float)(sin(x) / cos(x)); }
static inline float tanhf(float x) { return x > 20 ? 1.0f : x < -20 ? -1.0f : (float)(1 - 2 / (exp(2.0 * x) + 1)); }
static inline float fmodf(float x, float y) { return (float)fmod(x, y); }

/* Of picolibc: both widths, then those with an integer. */
#define OF_ONE(name)                                                            \
    double name(double x);                                                      \
    float name##f(float x);
#define OF_TWO(name)                                                            \
    double name(double x, double y);                                            \
    float name##f(float x, float y);
double pow(double x, double y);
double tan(double x);
double tanh(double x);
OF_ONE(acos) OF_ONE(asin) OF_ONE(atan) OF_ONE(acosh) OF_ONE(asinh) OF_ONE(atanh) OF_ONE(sinh) OF_ONE(cosh)
OF_ONE(exp2) OF_ONE(expm1) OF_ONE(log10) OF_ONE(log1p) OF_ONE(logb) OF_ONE(cbrt) OF_ONE(nearbyint)
OF_ONE(erf) OF_ONE(erfc) OF_ONE(tgamma) OF_ONE(lgamma)
OF_TWO(atan2) OF_TWO(hypot) OF_TWO(fdim) OF_TWO(nextafter) OF_TWO(remainder)
#undef OF_ONE
#undef OF_TWO
double ldexp(double x, int n);
float ldexpf(float x, int n);
double scalbn(double x, int n);
float scalbnf(float x, int n);
double frexp(double x, int *n);
float frexpf(float x, int *n);
double modf(double x, double *whole);
float modff(float x, float *whole);
double remquo(double x, double y, int *n);
float remquof(float x, float y, int *n);
int ilogb(double x);
int ilogbf(float x);
long lrint(double x);
long lrintf(float x);
long lround(double x);
long lroundf(float x);
long long llround(double x);
long long llrint(double x);

#ifdef __cplusplus
}
#endif
#endif
