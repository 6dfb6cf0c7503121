// The mathematical functions of a double: one implementation of each, from which those of float and half are rounded.
//
// A sum of two doubles, `hi` and the much smaller `lo`, carries what one cannot: logarithms that become exponents,
// remainders of pi / 2.
#ifndef SOFTCARD_OPENCL_REAL_H
#define SOFTCARD_OPENCL_REAL_H
#include "types.h"
#include "series.h"

typedef struct { double hi, lo; } __us_pair;

__US_FN double __us_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
__US_FN double __us_scale(double a, int n) { return __builtin_amdgcn_ldexp(a, n); }
__US_FN double __us_abs(double a) { return __builtin_fabs(a); }
__US_FN bool __us_is_odd(double a) { double b = 0.5 * a; return b != __builtin_trunc(b); }

// |a| >= |b|
__US_FN __us_pair __us_fast_sum(double a, double b)
{
    double s = a + b;
    return (__us_pair){s, b - (s - a)};
}
__US_FN __us_pair __us_sum(double a, double b)
{
    double s = a + b, t = s - a;
    return (__us_pair){s, (a - (s - t)) + (b - t)};
}
__US_FN __us_pair __us_product(double a, double b)
{
    double p = a * b;
    return (__us_pair){p, __us_fma(a, b, -p)};
}
__US_FN __us_pair __us_times(__us_pair a, __us_pair b)
{
    __us_pair p = __us_product(a.hi, b.hi);
    return __us_fast_sum(p.hi, p.lo + __us_fma(a.hi, b.lo, a.lo * b.hi));
}
__US_FN __us_pair __us_plus(__us_pair a, __us_pair b)
{
    __us_pair s = __us_sum(a.hi, b.hi);
    return __us_fast_sum(s.hi, s.lo + (a.lo + b.lo));
}

// ---- exponentials ------------------------------------------------------------------------------------------------------

#define __US_LN2 ((__us_pair){0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56})
#define __US_LN10 ((__us_pair){0x1.26bb1bbb55516p+1, -0x1.f48ad494ea3e9p-53})
#define __US_1_LN2 ((__us_pair){0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56})
#define __US_1_LN10 ((__us_pair){0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57})
#define __US_LOG10_2 ((__us_pair){0x1.34413509f79ffp-2, -0x1.9dc1da994fd21p-59})

// exp(r) 2^n for |r| <= 0.35
__US_FN double __us_exp_near(__us_pair r, int n)
{
    double tail = __us_fma(r.hi * r.hi, __us_exp_series(r.hi), r.lo);
    return __us_scale(1.0 + (r.hi + tail), n);
}
// exp(x) 2^n; NaN and what is beyond all exponents included.
__US_FN double __us_exp(__us_pair x, int n)
{
    double most = __builtin_fmin(__builtin_fmax(x.hi, -1600.0), 1600.0);
    double k = __builtin_rint(most * 0x1.71547652b82fep+0);
    double hi = __us_fma(-k, 0x1.62e42fefa0000p-1, most);  // exact: the factor has 16 bits to spare
    __us_pair low = __us_product(k, 0x1.cf79abc9e3b3ap-40);
    __us_pair r = __us_sum(hi, -low.hi);
    double lo = r.lo - low.lo + (most == x.hi ? x.lo : 0.0);
    r = __us_fast_sum(r.hi, lo);
    return x.hi != x.hi ? x.hi : __us_exp_near(r, (int)k + n);
}
__US_FN double __us_exp(double x) { return __us_exp((__us_pair){x, 0.0}, 0); }
__US_FN double __us_exp2(double x)
{
    double most = __builtin_fmin(__builtin_fmax(x, -2200.0), 2200.0), k = __builtin_rint(most), f = most - k;
    __us_pair r = __us_product(f, __US_LN2.hi);
    r.lo = __us_fma(f, __US_LN2.lo, r.lo);
    return x != x ? x : __us_exp_near(r, (int)k);
}
__US_FN double __us_exp10(double x)
{
    double most = __builtin_fmin(__builtin_fmax(x, -700.0), 700.0), k = __builtin_rint(most * 0x1.a934f0979a371p+1);
    double f = __us_fma(-k, 0x1.34413509f7000p-2, most);  // exact, as above
    f = __us_fma(-k, 0x1.3fde623e2566bp-43, f);
    __us_pair r = __us_product(f, __US_LN10.hi);
    r.lo = __us_fma(f, __US_LN10.lo, r.lo);
    return x != x ? x : __us_exp_near(r, (int)k);
}
__US_FN double __us_expm1(double x)
{
    if (x != x || x == 0.0)
        return x;
    if (x < -40.0 || x > 40.0)
        return __us_exp(x) - 1.0;
    double k = __builtin_rint(x * 0x1.71547652b82fep+0);
    double hi = __us_fma(-k, 0x1.62e42fefa0000p-1, x);
    __us_pair r = __us_sum(hi, -k * 0x1.cf79abc9e3b3ap-40);
    double square = r.hi * r.hi, tail = __us_fma(square, __us_exp_series(r.hi), r.lo);
    double one = __us_scale(1.0, (int)k);
    __us_pair near = __us_fast_sum(r.hi, tail);
    __us_pair whole = __us_sum(one - 1.0, one * near.hi);
    return whole.hi + __us_fma(one, near.lo, whole.lo);
}

// ---- logarithms --------------------------------------------------------------------------------------------------------

// log(x + low) of finite x > 0, to about 2^-65 of itself.
__US_FN __us_pair __us_log(double x, double low)
{
    int e = __builtin_amdgcn_frexp_exp(x);
    double m = __builtin_amdgcn_frexp_mant(x);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2.0;
        e--;
    }
    double f = m - 1.0;
    __us_pair g = __us_sum(2.0, f);
    double tail = __us_scale(low, -e);  // small beside f or 1
    __us_pair n = __us_sum(f, tail);
    g.lo += tail;
    double s = n.hi / g.hi;
    __us_pair r = {s, (__us_fma(-s, g.hi, n.hi) - s * g.lo + n.lo) / g.hi};
    __us_pair square = __us_times(r, r);
    __us_pair cube = __us_times(__us_times(square, r), (__us_pair){0x1.5555555555555p-1, 0x1.5555555555555p-55});
    cube.lo += square.hi * square.hi * s * __us_log_series(square.hi);
    __us_pair whole = __us_plus((__us_pair){2.0 * r.hi, 2.0 * r.lo}, cube);
    __us_pair power = __us_times((__us_pair){(double)e, 0.0}, __US_LN2);
    return __us_plus(power, whole);
}
// What logarithms of other numbers are, times a factor.
__US_FN double __us_log_times(double x, __us_pair factor)
{
    if (x != x || x == INFINITY)
        return x;
    if (x <= 0.0)
        return x == 0.0 ? -INFINITY : NAN;
    return __us_times(__us_log(x, 0.0), factor).hi;
}
__US_FN double __us_ln(double x) { return __us_log_times(x, (__us_pair){1.0, 0.0}); }
__US_FN double __us_log2(double x)
{
    if (x != x || x == INFINITY)
        return x;
    if (x <= 0.0)
        return x == 0.0 ? -INFINITY : NAN;
    int e = __builtin_amdgcn_frexp_exp(x) - 1;
    double m = __builtin_amdgcn_frexp_mant(x) * 2.0;
    return m == 1.0 ? (double)e : __us_times(__us_log(x, 0.0), __US_1_LN2).hi;
}
__US_FN double __us_log10(double x) { return __us_log_times(x, __US_1_LN10); }
__US_FN double __us_log1p(double x)
{
    if (x != x || x == INFINITY || __us_abs(x) < 0x1p-54)
        return x;
    if (x <= -1.0)
        return x == -1.0 ? -INFINITY : NAN;
    __us_pair u = __us_sum(1.0, x);
    return __us_log(u.hi, u.lo).hi;
}

// ---- powers ------------------------------------------------------------------------------------------------------------

// |x|^y of finite x other than 0, y of two parts
__US_FN double __us_power(double x, __us_pair y)
{
    __us_pair log = __us_log(__us_abs(x), 0.0);
    double p = log.hi * y.hi;
    if (__us_abs(p) > 1500.0)
        return p > 0.0 ? INFINITY : 0.0;
    return __us_exp(__us_times(log, y), 0);
}
__US_FN double __us_pow(double x, double y)
{
    if (y == 0.0 || x == 1.0)
        return 1.0;
    if (x != x || y != y)
        return x + y;
    double size = __us_abs(x);
    bool whole = y == __builtin_trunc(y), odd = whole && __us_is_odd(y);
    if (__us_abs(y) == INFINITY)
        return size == 1.0 ? 1.0 : (size > 1.0) == (y > 0.0) ? INFINITY : 0.0;
    double r;
    if (size == 0.0)
        r = y > 0.0 ? 0.0 : INFINITY;
    else if (size == INFINITY)
        r = y > 0.0 ? INFINITY : 0.0;
    else if (x < 0.0 && !whole)
        return NAN;
    else
        r = __us_power(x, (__us_pair){y, 0.0});
    return odd ? __builtin_copysign(r, x) : r;
}
__US_FN double __us_powr(double x, double y)
{
    if (x != x || y != y || x < 0.0)
        return NAN;
    if (y == 0.0)
        return x == 0.0 || x == INFINITY ? NAN : 1.0;
    if (x == 1.0)
        return __us_abs(y) == INFINITY ? NAN : 1.0;
    return __us_pow(__us_abs(x), y);
}
__US_FN double __us_pown(double x, int n) { return __us_pow(x, (double)n); }
__US_FN double __us_rootn(double x, int n)
{
    if (n == 0 || (x < 0.0 && !(n & 1)) || x != x)
        return NAN;
    double size = __us_abs(x), r;
    if (size == 0.0)
        r = n > 0 ? 0.0 : INFINITY;
    else if (size == INFINITY)
        r = n > 0 ? INFINITY : 0.0;
    else {
        double y = 1.0 / (double)n;
        r = __us_power(x, (__us_pair){y, __us_fma(-y, (double)n, 1.0) * y});
    }
    return n & 1 ? __builtin_copysign(r, x) : r;
}
__US_FN double __us_cbrt(double x) { return __us_rootn(x, 3); }
__US_FN double __us_sqrt(double x) { return __builtin_sqrt(x); }
__US_FN double __us_rsqrt(double x)
{
    if (!(x > 0.0) || x == INFINITY)
        return x == 0.0 ? __builtin_copysign((double)INFINITY, x) : x == INFINITY ? 0.0 : NAN;
    return 1.0 / __builtin_sqrt(x);
}
__US_FN double __us_hypot(double x, double y)
{
    double a = __us_abs(x), b = __us_abs(y), big = __builtin_fmax(a, b), small = __builtin_fmin(a, b);
    if (a == INFINITY || b == INFINITY)
        return INFINITY;
    if (a != a || b != b)
        return x + y;
    if (big == 0.0)
        return 0.0;
    int e = __builtin_amdgcn_frexp_exp(big);
    big = __us_scale(big, -e);
    small = __us_scale(small, -e);
    __us_pair one = __us_product(big, big), two = __us_product(small, small);
    __us_pair sum = __us_plus(one, two);
    return __us_scale(__builtin_sqrt(sum.hi + sum.lo), e);
}

// ---- circular functions ------------------------------------------------------------------------------------------------

typedef struct { __us_pair rest; int quarter; } __us_angle;

// x = quarter * pi / 2 + rest, |rest| <= pi / 4; Payne and Hanek's way with large x: the hardware keeps 1200 bits of 2 / pi.
__US_FN __us_angle __us_reduce_large(double x)
{
    __us_pair turn = {0.0, 0.0};  // quarters, exact up to the third part
    double whole = 0.0, y = x >= 0x1p945 ? x * 0x1p-128 : x;
    for (int i = 0; i < 4; i++) {
        __us_pair p = __us_product(y, __builtin_amdgcn_trig_preop(x, i));
        p.hi -= 4.0 * __builtin_rint(p.hi * 0.25);
        p.lo -= 4.0 * __builtin_rint(p.lo * 0.25);
        turn = __us_plus(turn, (__us_pair){p.hi, 0.0});
        if (i == 1) {
            whole = __builtin_rint(turn.hi);
            turn = __us_sum(turn.hi - whole, turn.lo);
        }
        turn = __us_plus(turn, (__us_pair){p.lo, 0.0});
    }
    return (__us_angle){__us_times(turn, (__us_pair){0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54}), (int)whole};
}
__US_FN __us_angle __us_reduce(double x)
{
    double size = __us_abs(x);
    __us_angle a;
    if (size < 0x1p30) {
        double k = __builtin_rint(size * 0x1.45f306dc9c883p-1);
        double r = __us_fma(-k, 0x1.921fb54442d18p+0, size);
        __us_pair second = __us_product(k, 0x1.1a62633145c07p-54);
        __us_pair d = __us_sum(r, -second.hi);
        d.lo = __us_fma(k, 0x1.f1976b7ed8fbcp-110, d.lo - second.lo);
        a = (__us_angle){__us_fast_sum(d.hi, d.lo), (int)k};
    } else {
        a = __us_reduce_large(size);
    }
    return a;
}
__US_FN double __us_sin_near(__us_pair r)
{
    double z = r.hi * r.hi;
    return r.hi + __us_fma(r.hi * z, __us_sin_series(z), r.lo * __us_fma(-0.5, z, 1.0));
}
__US_FN double __us_cos_near(__us_pair r)
{
    double z = r.hi * r.hi, h = 0.5 * z, w = 1.0 - h;
    return w + (((1.0 - w) - h) + (__us_fma(z * z, __us_cos_series(z), -r.hi * r.lo)));
}
__US_FN double __us_sin_of(__us_angle a)
{
    double r = a.quarter & 1 ? __us_cos_near(a.rest) : __us_sin_near(a.rest);
    return a.quarter & 2 ? -r : r;
}
__US_FN double __us_cos_of(__us_angle a)
{
    a.quarter++;
    return __us_sin_of(a);
}
__US_FN double __us_tan_of(__us_angle a)
{
    double s = __us_sin_near(a.rest), c = __us_cos_near(a.rest);
    return a.quarter & 1 ? -c / s : s / c;
}
__US_FN double __us_sin(double x)
{
    if (!(__us_abs(x) < INFINITY))
        return NAN;
    double r = __us_sin_of(__us_reduce(x));
    return x == 0.0 ? x : x < 0.0 ? -r : r;
}
__US_FN double __us_cos(double x)
{
    return __us_abs(x) < INFINITY ? __us_cos_of(__us_reduce(x)) : NAN;
}
__US_FN double __us_tan(double x)
{
    if (!(__us_abs(x) < INFINITY))
        return NAN;
    double r = __us_tan_of(__us_reduce(x));
    return x == 0.0 ? x : x < 0.0 ? -r : r;
}
// Of pi x: the angle is exact but for the factor.
__US_FN __us_angle __us_reduce_pi(double x)
{
    double size = __us_abs(x);
    size -= 2.0 * __builtin_trunc(0.5 * size);
    double k = __builtin_rint(2.0 * size), f = __us_fma(-0.5, k, size);
    __us_pair r = __us_product(f, 0x1.921fb54442d18p+1);
    r.lo = __us_fma(f, 0x1.1a62633145c07p-53, r.lo);
    return (__us_angle){r, (int)k};
}
__US_FN double __us_sinpi(double x)
{
    if (!(__us_abs(x) < INFINITY))
        return NAN;
    if (x == __builtin_trunc(x))
        return __builtin_copysign(0.0, x);
    return __builtin_copysign(1.0, x) * __us_sin_of(__us_reduce_pi(x));
}
__US_FN double __us_cospi(double x)
{
    if (!(__us_abs(x) < INFINITY))
        return NAN;
    double r = __us_cos_of(__us_reduce_pi(x));
    return r == 0.0 ? 0.0 : r;
}
__US_FN double __us_tanpi(double x)
{
    if (!(__us_abs(x) < INFINITY))
        return NAN;
    __us_angle a = __us_reduce_pi(x);
    if (a.rest.hi == 0.0) {
        bool odd = a.quarter & 2;
        double r = a.quarter & 1 ? (double)INFINITY : 0.0;
        return __builtin_copysign(1.0, x) * (odd ? -r : r);
    }
    return __builtin_copysign(1.0, x) * __us_tan_of(a);
}
// Of the vector (x, y) with 0 <= y and 0 <= x, not both 0 or infinite.
__US_FN double __us_atan_quadrant(double y, double x)
{
    bool swapped = y > x;
    double a = swapped ? x : y, b = swapped ? y : x;  // a <= b
    bool turned = a > 0x1.a827999fcef32p-2 * b;
    __us_pair n = {a, 0.0}, d = {b, 0.0};
    if (turned) {
        double unit = b > 0x1p1000 ? 0.25 : b < 0x1p-900 ? 0x1p100 : 1.0;
        n = __us_sum(a * unit, -b * unit);
        d = __us_sum(b * unit, a * unit);
    }
    double q = n.hi / d.hi, z = q * q;
    double rest = q == 0.0 || __us_abs(n.hi) < 0x1p-900 ? 0.0 : (__us_fma(-q, d.hi, n.hi) + n.lo - q * d.lo) / d.hi;
    double tail = __us_fma(q * z, __us_atan_series(z), rest);
    if (!turned && !swapped)
        return q + tail;
    // A quarter or half of pi, and this, with its sign
    double sign = swapped ? -1.0 : 1.0;
    __us_pair base = !turned ? (__us_pair){0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54}
                             : (__us_pair){0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55};
    __us_pair whole = __us_fast_sum(base.hi, sign * q);
    return whole.hi + (whole.lo + (base.lo + sign * tail));
}
__US_FN double __us_atan2(double y, double x)
{
    if (x != x || y != y)
        return x + y;
    double a = __us_abs(y), b = __us_abs(x), r;
    if (a == INFINITY && b == INFINITY)
        a = b = 1.0;
    if (a == 0.0)
        r = 0.0;
    else
        r = b == INFINITY ? 0.0 : a == INFINITY ? 0x1.921fb54442d18p+0 : __us_atan_quadrant(a, b);
    if (as_long(x) < 0)
        r = 0x1.921fb54442d18p+1 - (r - 0x1.1a62633145c07p-53);
    return __builtin_copysign(r, y);
}
__US_FN double __us_atan(double x)
{
    return x != x || x == 0.0 ? x : __us_atan2(x, 1.0);
}
__US_FN double __us_asin(double x)
{
    if (!(__us_abs(x) <= 1.0))
        return NAN;
    return x == 0.0 ? x : __us_atan2(x, __builtin_sqrt((1.0 - x) * (1.0 + x)));
}
__US_FN double __us_acos(double x)
{
    if (!(__us_abs(x) <= 1.0))
        return NAN;
    return 2.0 * __us_atan2(__builtin_sqrt(1.0 - x), __builtin_sqrt(1.0 + x));
}
#define __US_1_PI 0x1.45f306dc9c883p-2
__US_FN double __us_atanpi(double x) { return __us_atan(x) * __US_1_PI; }
__US_FN double __us_asinpi(double x) { return __us_asin(x) * __US_1_PI; }
__US_FN double __us_acospi(double x) { return __us_acos(x) * __US_1_PI; }
__US_FN double __us_atan2pi(double y, double x) { return __us_atan2(y, x) * __US_1_PI; }

// ---- hyperbolic functions ------------------------------------------------------------------------------------------------

__US_FN double __us_sinh(double x)
{
    double a = __us_abs(x), r;
    if (x != x || x == 0.0)
        return x;
    if (a < 1.0) {
        double t = __us_expm1(a);
        r = 0.5 * (t + t / (t + 1.0));
    } else {
        r = __us_exp((__us_pair){a, 0.0}, -1) - __us_exp((__us_pair){-a, 0.0}, -1);
    }
    return __builtin_copysign(r, x);
}
__US_FN double __us_cosh(double x)
{
    double a = __us_abs(x);
    return __us_exp((__us_pair){a, 0.0}, -1) + __us_exp((__us_pair){-a, 0.0}, -1);
}
__US_FN double __us_tanh(double x)
{
    double a = __us_abs(x);
    if (x != x || x == 0.0)
        return x;
    double t = __us_expm1(2.0 * __builtin_fmin(a, 30.0));
    return __builtin_copysign(a > 22.0 ? 1.0 : t / (t + 2.0), x);
}
__US_FN double __us_asinh(double x)
{
    double a = __us_abs(x), r;
    if (!(a < INFINITY) || a < 0x1p-28)
        return x;
    if (a > 0x1p28)
        r = __us_log(a, 0.0).hi + 0x1.62e42fefa39efp-1;
    else
        r = __us_log1p(a + a * a / (1.0 + __builtin_sqrt(__us_fma(a, a, 1.0))));
    return __builtin_copysign(r, x);
}
__US_FN double __us_acosh(double x)
{
    if (!(x >= 1.0))
        return NAN;
    if (x > 0x1p28)
        return x == INFINITY ? x : __us_log(x, 0.0).hi + 0x1.62e42fefa39efp-1;
    double t = x - 1.0;
    return __us_log1p(t + __builtin_sqrt(__us_fma(t, t, 2.0 * t)));
}
__US_FN double __us_atanh(double x)
{
    double a = __us_abs(x);
    if (!(a <= 1.0))
        return NAN;
    if (a < 0x1p-28)
        return x;
    return __builtin_copysign(a == 1.0 ? (double)INFINITY : 0.5 * __us_log1p(2.0 * a / (1.0 - a)), x);
}

// ---- error and gamma functions ---------------------------------------------------------------------------------------------

// erfc(a), a >= 0
__US_FN double __us_erfc_positive(double a)
{
    if (a > 28.0)
        return 0.0;
    __us_pair square = __us_product(a, a);
    double scaled = __us_erfc_series((a - 4.0) / (a + 4.0)) / __us_fma(2.0, a, 1.0);
    // exp(-a^2) is perhaps denormal: the factor comes before.
    double e = __us_exp((__us_pair){-square.hi, -square.lo}, 1000);
    return __us_scale(e * scaled, -1000);
}
__US_FN double __us_erf(double x)
{
    double a = __us_abs(x);
    if (a < 1.0)
        return x * __us_erf_series(x * x);
    return x != x ? x : __builtin_copysign(1.0 - __us_erfc_positive(a), x);
}
__US_FN double __us_erfc(double x)
{
    if (x != x)
        return x;
    if (x < 0.5)
        return 1.0 - __us_erf(x);
    return __us_erfc_positive(x);
}
// log(gamma(x)), x >= 10
__US_FN __us_pair __us_stirling(double x)
{
    __us_pair log = __us_log(x, 0.0), middle = __us_sum(x, -0.5);
    __us_pair r = __us_plus(__us_times(middle, log), (__us_pair){-x, 0.0});
    double y = 1.0 / x;
    r = __us_plus(r, (__us_pair){0x1.d67f1c864beb5p-1, -0x1.65b5a1b7ff5dfp-55});
    return __us_plus(r, (__us_pair){y * __us_stirling_series(y * y), 0.0});
}
// x (x + 1) ... up to the first of them that is 10 or more, which x becomes, and its rounding error `low`.
__US_FN __us_pair __us_rising(__us_pair *x)
{
    __us_pair product = {1.0, 0.0};
    while (x->hi < 10.0) {
        product = __us_times(product, *x);
        *x = __us_plus(*x, (__us_pair){1.0, 0.0});
    }
    return product;
}
// gamma(x), x > 0
__US_FN double __us_gamma_positive(double x, double low)
{
    if (x > 1000.0)
        return INFINITY;
    __us_pair at = {x, low}, product = __us_rising(&at), log = __us_stirling(at.hi);
    // The derivative of the logarithm is about log(x) - 1 / 2x.
    log.lo += at.lo * (__us_ln(at.hi) - 0.5 / at.hi);
    return __us_exp(log, 0) / product.hi;
}
__US_FN double __us_tgamma(double x)
{
    if (x != x || x == INFINITY)
        return x;
    if (x == 0.0)
        return __builtin_copysign((double)INFINITY, x);
    if (x > 0.0)
        return __us_gamma_positive(x, 0.0);
    if (x == __builtin_trunc(x))
        return NAN;
    if (x < -200.0)
        return __us_is_odd(__builtin_trunc(x)) ? 0.0 : -0.0;
    if (x > -0x1p-54)
        return 1.0 / x;
    // gamma(x) gamma(1 - x) = pi / sin(pi x)
    __us_pair y = __us_sum(1.0, -x), at = y, product = __us_rising(&at), log = __us_stirling(at.hi);
    log.lo += at.lo * (__us_ln(at.hi) - 0.5 / at.hi);
    double inverse = __us_exp((__us_pair){-log.hi, -log.lo}, 200);
    return __us_scale(0x1.921fb54442d18p+1 / __us_sinpi(x) * product.hi * inverse, -200);
}
__US_FN double __us_lgamma_positive(double x)
{
    if (x >= 0x1p60)
        return x * (__us_ln(x) - 1.0);
    if (x == 1.0 || x == 2.0)
        return 0.0;
    __us_pair at = {x, 0.0}, product = __us_rising(&at), log = __us_stirling(at.hi);
    log.lo += at.lo * (__us_ln(at.hi) - 0.5 / at.hi);
    if (product.hi == 1.0 && product.lo == 0.0)
        return log.hi;
    __us_pair less = __us_log(product.hi, product.lo);
    return __us_plus(log, (__us_pair){-less.hi, -less.lo}).hi;
}
__US_FN double __us_lgamma(double x, int *sign)
{
    *sign = 1;
    if (x != x)
        return x;
    if (__us_abs(x) == INFINITY)
        return INFINITY;
    if (x > 0.0)
        return __us_lgamma_positive(x);
    if (x == __builtin_trunc(x)) {
        *sign = 0;
        return INFINITY;
    }
    double s = __us_sinpi(x);
    *sign = s < 0.0 ? -1 : 1;
    return __us_ln(0x1.921fb54442d18p+1 / __us_abs(s * x)) - __us_lgamma_positive(-x);
}

// ---- remainders: exact -----------------------------------------------------------------------------------------------------

// |x| modulo |y| of finite x, and the low bits of the whole quotient.
__US_FN double __us_modulo(double x, double y, uint *quotient)
{
    double a = __us_abs(x), b = __us_abs(y);
    uint q = 0;
    while (a >= b) {
        int n = __builtin_amdgcn_frexp_exp(a) - __builtin_amdgcn_frexp_exp(b) - 50;
        n = n < 0 ? 0 : n;
        double step = __us_scale(b, n), k = __builtin_trunc(a / step);
        double r = __us_fma(-k, step, a);
        if (r < 0.0) {
            k -= 1.0;
            r = __us_fma(-k, step, a);
        }
        q += n < 32 ? (uint)(ulong)k << n : 0;
        a = r;
    }
    *quotient = q;
    return a;
}
__US_FN double __us_fmod(double x, double y)
{
    if (!(__us_abs(x) < INFINITY) || y != y || y == 0.0)
        return NAN;
    uint q;
    return __builtin_copysign(__us_modulo(x, y, &q), x);
}
__US_FN double __us_remquo(double x, double y, int *quotient)
{
    *quotient = 0;
    if (!(__us_abs(x) < INFINITY) || y != y || y == 0.0)
        return NAN;
    uint q;
    double b = __us_abs(y), r = __us_modulo(x, y, &q);
    if (b < INFINITY && (b < 0x1p-1000 ? 2.0 * r > b || (2.0 * r == b && (q & 1))
                                       : r > 0.5 * b || (r == 0.5 * b && (q & 1)))) {
        r -= b;
        q++;
    }
    int low = (int)(q & 127);
    *quotient = (as_long(x) ^ as_long(y)) < 0 ? -low : low;
    return r == 0.0 ? __builtin_copysign(0.0, x) : as_long(x) < 0 ? -r : r;
}
__US_FN double __us_remainder(double x, double y)
{
    int q;
    return __us_remquo(x, y, &q);
}

#endif
