/* The functions of math.h that are no single instructions. */
#include <math.h>
#include <stdint.h>

#define LIBRARY __attribute__((weak, visibility("hidden")))

static inline double power_of_two(long exponent)
{
    union { uint64_t bits; double value; } made = { (uint64_t)(exponent + 1023) << 52 };
    return made.value;
}

/* x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its series */
LIBRARY double exp(double x)
{
    if (x != x)
        return x;
    if (x > 709.782712893384)
        return INFINITY;
    if (x < -745.1332191019412)
        return 0;
    double n = rint(x * 1.4426950408889634);
    double high = fma(-n, 0x1.62e42feep-1, x), low = n * 0x1.a39ef35793c76p-33;
    double r = high - low, rest = (high - r) - low;
    double sum = 1.0 / 6227020800;
    static const double terms[] = { 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                                    1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5 };
    for (int i = 0; i < 11; i++)
        sum = fma(sum, r, terms[i]);
    double result = 1 + (r + (rest + r * r * sum));
    long half = (long)n / 2;
    return result * power_of_two(half) * power_of_two((long)n - half);
}

/* x = 2^n m with m in [sqrt(1/2), sqrt(2)]; log m = 2 atanh((m - 1) / (m + 1)) */
LIBRARY double log(double x)
{
    union { double value; uint64_t bits; } given = { x };
    long n = 0;
    if (!(x > 0) || x == INFINITY)
        return x == 0 ? -INFINITY : x > 0 ? x : NAN;
    if (x < 0x1p-1022) {
        given.value = x * 0x1p54;
        n = -54;
    }
    n += (long)(given.bits >> 52) - 1023;
    given.bits = (given.bits & 0xFFFFFFFFFFFFFul) | 0x3FF0000000000000ul;
    double m = given.value;
    if (m > 1.4142135623730951) {
        m /= 2;
        n++;
    }
    double f = m - 1, s = f / (2 + f), z = s * s, sum = 0;
    for (int k = 23; k >= 3; k -= 2)
        sum = fma(sum, z, 2.0 / k);
    double half = 0.5 * f * f;
    return n * 0x1.62e42feep-1 - ((half - (s * (half + z * sum) + n * 0x1.a39ef35793c76p-33)) - f);
}

/* the exponent apart, so that powers of two are exact */
LIBRARY double log2(double x)
{
    union { double value; uint64_t bits; } given = { x };
    long n = 0;
    if (!(x > 0) || x == INFINITY)
        return log(x);
    if (x < 0x1p-1022) {
        given.value = x * 0x1p54;
        n = -54;
    }
    long whole = (long)(given.bits >> 52) - 1023;
    given.bits -= (uint64_t)whole << 52;
    if (given.value > 1.4142135623730951) {
        given.value /= 2;
        whole++;
    }
    double part = log(given.value), high = part * 1.4426950408889634;
    return (double)(n + whole) + (high + (fma(part, 1.4426950408889634, -high) + part * 2.0355273740931033e-17));
}

/* x - n pi/2 as r + rest, with pi/2 in three parts, of which the first two times n are exact; gives n */
static long reduced(double x, double *r, double *rest)
{
    double n = rint(x * 0.6366197723675814);
    double high = fma(-n, 0x1.921fb544p+0, x), middle = n * 0x1.0b4611a6p-34;
    double t = high - middle, lost = (high - (t + middle)) + ((t - (t + middle)) + middle);
    double low = fma(n, 0x1.3198a2e037073p-69, -lost);
    *r = t - low;
    *rest = (t - *r) - low;
    return (long)n;
}

static double sine(double x, double rest)
{
    double z = x * x, sum = 1.0 / 355687428096000;
    static const double terms[] = { -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
                                    -1.0 / 5040, 1.0 / 120, -1.0 / 6 };
    for (int i = 0; i < 7; i++)
        sum = fma(sum, z, terms[i]);
    return x + (z * x * sum + rest * (1 - 0.5 * z));
}

static double cosine(double x, double rest)
{
    double z = x * x, sum = -1.0 / 6402373705728000;
    static const double terms[] = { 1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                                    1.0 / 40320, -1.0 / 720, 1.0 / 24 };
    for (int i = 0; i < 7; i++)
        sum = fma(sum, z, terms[i]);
    double half = 0.5 * z, first = 1 - half;
    return first + (((1 - first) - half) + (z * z * sum - x * rest));
}

static double quarter(double x, long turn)
{
    double r, rest;
    if (!(fabs(x) < 0x1p52)) /* infinite, NaN, or without a fraction left to speak of */
        return NAN;
    turn += reduced(x, &r, &rest);
    double value = turn & 1 ? cosine(r, rest) : sine(r, rest);
    return turn & 2 ? -value : value;
}

LIBRARY double sin(double x)
{
    return x == 0 ? x : quarter(x, 0);
}

LIBRARY double cos(double x)
{
    return quarter(x, 1);
}

/* exact: y times powers of two are taken away while they fit */
LIBRARY double fmod(double x, double y)
{
    double rest = fabs(x), by = fabs(y);
    if (!(by > 0) || !(rest < INFINITY) || by != by)
        return NAN;
    while (rest >= by) {
        double step = by;
        while (step <= rest / 2)
            step *= 2;
        rest -= step;
    }
    return copysign(rest, x);
}

LIBRARY float powf(float x, float y)
{
    if (y == 0 || x == 1)
        return 1;
    int is_whole = rint(y) == y, is_odd = is_whole && fabs(fmod(y, 2)) == 1;
    if (x < 0 && !is_whole && x != -INFINITY)
        return NAN;
    if (x == -1 && is_whole && !is_odd)
        return 1;
    float result = (float)exp((double)y * log(fabs((double)x)));
    return is_odd && copysign(1.0, x) < 0 ? -result : result;
}
