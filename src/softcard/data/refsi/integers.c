/* What compilers call for 128-bit integers, and for bits where the harts have no instruction (Zbb). Nothing here may be
 * compiled to a call of itself: shifts and products are made of 64-bit halves.
 */
#include <stdint.h>

#define LIBRARY __attribute__((weak, visibility("hidden")))

typedef __int128 i128;
typedef unsigned __int128 u128;
typedef union { u128 whole; struct { uint64_t low, high; } half; } halves;

LIBRARY int __clzdi2(uint64_t a)
{
    int n = 0;
    for (int step = 32; step; step /= 2)
        if (!(a >> (64 - step)))
            n += step, a <<= step;
    return n;
}

LIBRARY int __ctzdi2(uint64_t a)
{
    return 63 - __clzdi2(a & (0 - a));
}

LIBRARY int __popcountdi2(uint64_t a)
{
    a -= a >> 1 & 0x5555555555555555ul;
    a = (a & 0x3333333333333333ul) + (a >> 2 & 0x3333333333333333ul);
    return (int)(((a + (a >> 4)) & 0x0F0F0F0F0F0F0F0Ful) * 0x0101010101010101ul >> 56);
}

LIBRARY uint64_t __bswapdi2(uint64_t a)
{
    a = (a >> 8 & 0x00FF00FF00FF00FFul) | (a & 0x00FF00FF00FF00FFul) << 8;
    a = (a >> 16 & 0x0000FFFF0000FFFFul) | (a & 0x0000FFFF0000FFFFul) << 16;
    return a >> 32 | a << 32;
}

LIBRARY int __clzsi2(uint32_t a) { return __clzdi2(a) - 32; }
LIBRARY int __ctzsi2(uint32_t a) { return __ctzdi2(a); }
LIBRARY int __popcountsi2(uint32_t a) { return __popcountdi2(a); }
LIBRARY int __paritysi2(uint32_t a) { return __popcountdi2(a) & 1; }
LIBRARY int __paritydi2(uint64_t a) { return __popcountdi2(a) & 1; }
LIBRARY int __ffsdi2(uint64_t a) { return a ? __ctzdi2(a) + 1 : 0; }
LIBRARY int __ffssi2(uint32_t a) { return __ffsdi2(a); }
LIBRARY uint32_t __bswapsi2(uint32_t a) { return (uint32_t)(__bswapdi2(a) >> 32); }

LIBRARY int __clzti2(u128 a)
{
    halves h = { a };
    return h.half.high ? __clzdi2(h.half.high) : 64 + __clzdi2(h.half.low);
}

LIBRARY int __ctzti2(u128 a)
{
    halves h = { a };
    return h.half.low ? __ctzdi2(h.half.low) : 64 + __ctzdi2(h.half.high);
}

LIBRARY int __popcountti2(u128 a)
{
    halves h = { a };
    return __popcountdi2(h.half.low) + __popcountdi2(h.half.high);
}

LIBRARY int __parityti2(u128 a) { return __popcountti2(a) & 1; }
LIBRARY int __ffsti2(u128 a) { return a ? __ctzti2(a) + 1 : 0; }

LIBRARY u128 __ashlti3(u128 a, int n)
{
    halves h = { a };
    if (n >= 64) {
        h.half.high = h.half.low << (n - 64);
        h.half.low = 0;
    } else if (n) {
        h.half.high = h.half.high << n | h.half.low >> (64 - n);
        h.half.low <<= n;
    }
    return h.whole;
}

LIBRARY u128 __lshrti3(u128 a, int n)
{
    halves h = { a };
    if (n >= 64) {
        h.half.low = h.half.high >> (n - 64);
        h.half.high = 0;
    } else if (n) {
        h.half.low = h.half.low >> n | h.half.high << (64 - n);
        h.half.high >>= n;
    }
    return h.whole;
}

LIBRARY i128 __ashrti3(i128 a, int n)
{
    halves h = { (u128)a };
    int64_t high = (int64_t)h.half.high;
    if (n >= 64) {
        h.half.low = (uint64_t)(high >> (n - 64));
        h.half.high = (uint64_t)(high >> 63);
    } else if (n) {
        h.half.low = h.half.low >> n | h.half.high << (64 - n);
        h.half.high = (uint64_t)(high >> n);
    }
    return (i128)h.whole;
}

LIBRARY u128 __multi3(u128 a, u128 b)
{
    halves x = { a }, y = { b }, r;
    __asm__("mulhu %0, %1, %2" : "=r"(r.half.high) : "r"(x.half.low), "r"(y.half.low));
    r.half.high += x.half.high * y.half.low + x.half.low * y.half.high;
    r.half.low = x.half.low * y.half.low;
    return r.whole;
}

LIBRARY u128 __udivmodti4(u128 a, u128 b, u128 *rest)
{
    halves n = { a }, d = { b }, q = { 0 };
    if (!(n.half.high | d.half.high)) {
        q.half.low = n.half.low / d.half.low;
        if (rest)
            *rest = n.half.low % d.half.low;
        return q.whole;
    }
    int steps = b ? __clzti2(b) - __clzti2(a) : 127;
    if (steps >= 0) {
        for (b = __ashlti3(b, steps); steps >= 0; steps--, b >>= 1) {
            q.whole <<= 1;
            if (a >= b) {
                a -= b;
                q.half.low |= 1;
            }
        }
    }
    if (rest)
        *rest = a;
    return q.whole;
}

LIBRARY u128 __udivti3(u128 a, u128 b)
{
    return __udivmodti4(a, b, 0);
}

LIBRARY u128 __umodti3(u128 a, u128 b)
{
    u128 rest;
    __udivmodti4(a, b, &rest);
    return rest;
}

LIBRARY i128 __divmodti4(i128 a, i128 b, i128 *rest)
{
    u128 left, quotient = __udivmodti4(a < 0 ? 0 - (u128)a : (u128)a, b < 0 ? 0 - (u128)b : (u128)b, &left);
    *rest = (i128)(a < 0 ? 0 - left : left);
    return (i128)((a < 0) != (b < 0) ? 0 - quotient : quotient);
}

LIBRARY i128 __divti3(i128 a, i128 b)
{
    i128 rest;
    return __divmodti4(a, b, &rest);
}

LIBRARY i128 __modti3(i128 a, i128 b)
{
    i128 rest;
    __divmodti4(a, b, &rest);
    return rest;
}

LIBRARY i128 __negti2(i128 a)
{
    return (i128)(0 - (u128)a);
}

/* The product, and whether it is not the true one. */
LIBRARY i128 __muloti4(i128 a, i128 b, int *overflows)
{
    i128 product = (i128)__multi3((u128)a, (u128)b), least = (i128)((u128)1 << 127);
    *overflows = (a == -1 && b == least) || (b == -1 && a == least) || (a && a != -1 && __divti3(product, a) != b);
    return product;
}

LIBRARY double __powidf2(double a, int n)
{
    double result = 1;
    for (unsigned left = n < 0 ? 0u - (unsigned)n : (unsigned)n; left; left /= 2, a *= a)
        if (left & 1)
            result *= a;
    return n < 0 ? 1 / result : result;
}

LIBRARY float __powisf2(float a, int n)
{
    float result = 1;
    for (unsigned left = n < 0 ? 0u - (unsigned)n : (unsigned)n; left; left /= 2, a *= a)
        if (left & 1)
            result *= a;
    return n < 0 ? 1 / result : result;
}
