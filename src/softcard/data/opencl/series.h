// Polynomials of the mathematical functions, lowest coefficient last.
#ifndef SOFTCARD_OPENCL_SERIES_H
#define SOFTCARD_OPENCL_SERIES_H
#include "types.h"

// (exp(x) - 1 - x) / x^2 for |x| <= ln(2) / 2: its Taylor series.
__US_FN double __us_exp_series(double x)
{
    double r = 0x1.93974a8c07c9dp-37;
    r = __builtin_fma(r, x, 0x1.6124613a86d09p-33);
    r = __builtin_fma(r, x, 0x1.1eed8eff8d898p-29);
    r = __builtin_fma(r, x, 0x1.ae64567f544e4p-26);
    r = __builtin_fma(r, x, 0x1.27e4fb7789f5cp-22);
    r = __builtin_fma(r, x, 0x1.71de3a556c734p-19);
    r = __builtin_fma(r, x, 0x1.a01a01a01a01ap-16);
    r = __builtin_fma(r, x, 0x1.a01a01a01a01ap-13);
    r = __builtin_fma(r, x, 0x1.6c16c16c16c17p-10);
    r = __builtin_fma(r, x, 0x1.1111111111111p-7);
    r = __builtin_fma(r, x, 0x1.5555555555555p-5);
    r = __builtin_fma(r, x, 0x1.5555555555555p-3);
    r = __builtin_fma(r, x, 0x1.0000000000000p-1);
    return r;
}
// 2/5 + 2/7 x + ...: behind 2 s + 2/3 s^3, s^5 times this of s^2 gives log((1 + s) / (1 - s)), s^2 <= 0.0295.
__US_FN double __us_log_series(double x)
{
    double r = 0x1.47ae147ae147bp-4;
    r = __builtin_fma(r, x, 0x1.642c8590b2164p-4);
    r = __builtin_fma(r, x, 0x1.8618618618618p-4);
    r = __builtin_fma(r, x, 0x1.af286bca1af28p-4);
    r = __builtin_fma(r, x, 0x1.e1e1e1e1e1e1ep-4);
    r = __builtin_fma(r, x, 0x1.1111111111111p-3);
    r = __builtin_fma(r, x, 0x1.3b13b13b13b14p-3);
    r = __builtin_fma(r, x, 0x1.745d1745d1746p-3);
    r = __builtin_fma(r, x, 0x1.c71c71c71c71cp-3);
    r = __builtin_fma(r, x, 0x1.2492492492492p-2);
    r = __builtin_fma(r, x, 0x1.999999999999ap-2);
    return r;
}
// (sin(r) - r) / r^3, x = r^2, |r| <= pi / 4.
__US_FN double __us_sin_series(double x)
{
    double r = -0x1.2f49b46814157p-57;
    r = __builtin_fma(r, x, 0x1.952c77030ad4ap-49);
    r = __builtin_fma(r, x, -0x1.ae7f3e733b81fp-41);
    r = __builtin_fma(r, x, 0x1.6124613a86d09p-33);
    r = __builtin_fma(r, x, -0x1.ae64567f544e4p-26);
    r = __builtin_fma(r, x, 0x1.71de3a556c734p-19);
    r = __builtin_fma(r, x, -0x1.a01a01a01a01ap-13);
    r = __builtin_fma(r, x, 0x1.1111111111111p-7);
    r = __builtin_fma(r, x, -0x1.5555555555555p-3);
    return r;
}
// (cos(r) - 1 + r^2 / 2) / r^4, x = r^2, |r| <= pi / 4.
__US_FN double __us_cos_series(double x)
{
    double r = 0x1.e542ba4020225p-62;
    r = __builtin_fma(r, x, -0x1.6827863b97d97p-53);
    r = __builtin_fma(r, x, 0x1.ae7f3e733b81fp-45);
    r = __builtin_fma(r, x, -0x1.93974a8c07c9dp-37);
    r = __builtin_fma(r, x, 0x1.1eed8eff8d898p-29);
    r = __builtin_fma(r, x, -0x1.27e4fb7789f5cp-22);
    r = __builtin_fma(r, x, 0x1.a01a01a01a01ap-16);
    r = __builtin_fma(r, x, -0x1.6c16c16c16c17p-10);
    r = __builtin_fma(r, x, 0x1.5555555555555p-5);
    return r;
}
// (atan(r) - r) / r^3, x = r^2, r <= sqrt(2) - 1; interpolated at Chebyshev's nodes, to 1e-16.
__US_FN double __us_atan_series(double x)
{
    double r = -0x1.3a31b1c0fd3b7p-6;
    r = __builtin_fma(r, x, 0x1.4162c02b1dda3p-5);
    r = __builtin_fma(r, x, -0x1.a0999c632b6edp-5);
    r = __builtin_fma(r, x, 0x1.dfe6497e96323p-5);
    r = __builtin_fma(r, x, -0x1.10fa77b1a6d57p-4);
    r = __builtin_fma(r, x, 0x1.3b1263064f6b9p-4);
    r = __builtin_fma(r, x, -0x1.745d0b28a7e37p-4);
    r = __builtin_fma(r, x, 0x1.c71c71853d7fap-4);
    r = __builtin_fma(r, x, -0x1.2492492436201p-3);
    r = __builtin_fma(r, x, 0x1.999999999934cp-3);
    r = __builtin_fma(r, x, -0x1.5555555555555p-2);
    return r;
}
// erf(r) / r, x = r^2 <= 1; interpolated, to 2e-17.
__US_FN double __us_erf_series(double x)
{
    double r = 0x1.05ffd737fb32ep-34;
    r = __builtin_fma(r, x, -0x1.389d4f2641625p-30);
    r = __builtin_fma(r, x, 0x1.f7b4bf3b13964p-27);
    r = __builtin_fma(r, x, -0x1.5f1ecb6f0764cp-23);
    r = __builtin_fma(r, x, 0x1.b9df224ca4b97p-20);
    r = __builtin_fma(r, x, -0x1.f4d1e3183f7aep-17);
    r = __builtin_fma(r, x, 0x1.f9a321d5b8e1ep-14);
    r = __builtin_fma(r, x, -0x1.c02db3dac435fp-11);
    r = __builtin_fma(r, x, 0x1.565bcd0dbaa38p-8);
    r = __builtin_fma(r, x, -0x1.b82ce31284e00p-6);
    r = __builtin_fma(r, x, 0x1.ce2f21a042b30p-4);
    r = __builtin_fma(r, x, -0x1.812746b0379e6p-2);
    r = __builtin_fma(r, x, 0x1.20dd750429b6dp+0);
    return r;
}
// erfc(r) exp(r^2) (1 + 2 r), x = (r - 4) / (r + 4), r >= 0; interpolated, to 1e-17.
__US_FN double __us_erfc_series(double x)
{
    double r = -0x1.2feb115e10ff8p-32;
    r = __builtin_fma(r, x, 0x1.ff247156a53a2p-31);
    r = __builtin_fma(r, x, 0x1.bc41def3d5cc5p-29);
    r = __builtin_fma(r, x, -0x1.a7f4a11380e73p-27);
    r = __builtin_fma(r, x, -0x1.64110b1736fb3p-26);
    r = __builtin_fma(r, x, 0x1.c8a212189b424p-24);
    r = __builtin_fma(r, x, 0x1.4dcd6b6d85452p-24);
    r = __builtin_fma(r, x, -0x1.b8ce493292da5p-21);
    r = __builtin_fma(r, x, 0x1.393f4d359a7fdp-22);
    r = __builtin_fma(r, x, 0x1.7ef644c7815aap-18);
    r = __builtin_fma(r, x, -0x1.7884d2487d5efp-17);
    r = __builtin_fma(r, x, -0x1.99537515467bep-16);
    r = __builtin_fma(r, x, 0x1.3be0432bfa860p-13);
    r = __builtin_fma(r, x, -0x1.a1df5e81f57b4p-13);
    r = __builtin_fma(r, x, -0x1.8d4a9a6465372p-11);
    r = __builtin_fma(r, x, 0x1.49c672e199469p-8);
    r = __builtin_fma(r, x, -0x1.09623884747dbp-6);
    r = __builtin_fma(r, x, 0x1.3079edf5181dfp-5);
    r = __builtin_fma(r, x, -0x1.0fb06dfe4c6c0p-4);
    r = __builtin_fma(r, x, 0x1.7fee004e1eefep-4);
    r = __builtin_fma(r, x, -0x1.9ddb23c3e8f13p-4);
    r = __builtin_fma(r, x, 0x1.16ecefcfa4d10p-4);
    r = __builtin_fma(r, x, 0x1.f7f5df66fd797p-7);
    r = __builtin_fma(r, x, -0x1.1df1ad154a286p-3);
    r = __builtin_fma(r, x, 0x1.3ba5916e9fd7fp+0);
    return r;
}
// Stirling's series of lgamma times r, x = 1 / r^2, r >= 10.
__US_FN double __us_stirling_series(double x)
{
    double r = -0x1.6476701181f3ap+0;
    r = __builtin_fma(r, x, 0x1.6fe96381e0680p-3);
    r = __builtin_fma(r, x, -0x1.e4286cb0f5398p-6);
    r = __builtin_fma(r, x, 0x1.a41a41a41a41ap-8);
    r = __builtin_fma(r, x, -0x1.f6ab0d9993c7dp-10);
    r = __builtin_fma(r, x, 0x1.b951e2b18ff23p-11);
    r = __builtin_fma(r, x, -0x1.3813813813814p-11);
    r = __builtin_fma(r, x, 0x1.a01a01a01a01ap-11);
    r = __builtin_fma(r, x, -0x1.6c16c16c16c17p-9);
    r = __builtin_fma(r, x, 0x1.5555555555555p-4);
    return r;
}

#endif
