/* The functions of understudy_refsi.h, string.h and math.h that are no single instructions. They are hidden, so that no
 * one takes them for kernels, and weak, so that a program may have its own.
 */
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <understudy_refsi.h>

#define LIBRARY __attribute__((weak, visibility("hidden")))

/* ---- string.h ---- */

LIBRARY void *memcpy(void *destination, const void *source, size_t bytes)
{
    char *to = destination;
    const char *from = source;
    if (!(((size_t)to | (size_t)from) & 7))
        for (; bytes >= 8; bytes -= 8, to += 8, from += 8)
            *(uint64_t __attribute__((may_alias)) *)to = *(const uint64_t __attribute__((may_alias)) *)from;
    while (bytes--)
        *to++ = *from++;
    return destination;
}

LIBRARY void *memmove(void *destination, const void *source, size_t bytes)
{
    char *to = destination;
    const char *from = source;
    if ((size_t)to - (size_t)from >= bytes)
        return memcpy(destination, source, bytes);
    while (bytes--)
        to[bytes] = from[bytes];
    return destination;
}

LIBRARY void *memset(void *destination, int byte, size_t bytes)
{
    unsigned char *to = destination;
    while (bytes && (size_t)to & 7)
        *to++ = (unsigned char)byte, bytes--;
    for (; bytes >= 8; bytes -= 8, to += 8)
        *(uint64_t __attribute__((may_alias)) *)to = (unsigned char)byte * 0x0101010101010101ul;
    while (bytes--)
        *to++ = (unsigned char)byte;
    return destination;
}

LIBRARY int memcmp(const void *one, const void *other, size_t bytes)
{
    const unsigned char *a = one, *b = other;
    for (; bytes; bytes--, a++, b++)
        if (*a != *b)
            return *a - *b;
    return 0;
}

LIBRARY size_t strlen(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

LIBRARY int strcmp(const char *one, const char *other)
{
    for (; *one && *one == *other; one++, other++)
        ;
    return *(const unsigned char *)one - *(const unsigned char *)other;
}

/* ---- math.h ---- */

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

/* ---- refsi_printf ---- */

enum { LINE = 256 };

struct out {
    char text[LINE];
    int length;
};

static void put(struct out *out, char c)
{
    out->text[out->length++] = c;
    if (out->length == LINE - 1) {
        out->text[out->length] = 0;
        refsi_print(out->text);
        out->length = 0;
    }
}

/* text of some length, behind a sign, padded to a width */
static void put_padded(struct out *out, const char *sign, const char *text, int length, int width, int left, int zeros)
{
    int pad = width - length - (int)strlen(sign);
    for (; !left && !zeros && pad > 0; pad--)
        put(out, ' ');
    while (*sign)
        put(out, *sign++);
    for (; !left && pad > 0; pad--)
        put(out, '0');
    while (length--)
        put(out, *text++);
    for (; pad > 0; pad--)
        put(out, ' ');
}

static int digits(char *end, uint64_t value, unsigned base)
{
    int count = 0;
    do {
        *--end = "0123456789abcdef"[value % base];
        value /= base;
        count++;
    } while (value);
    return count;
}

/* a number's digits as %f (below 2^63), or as %e; gives how many characters there are */
static int decimal(char *text, double value, char kind, int precision)
{
    int exponent = 0, length;
    char *at = text;
    double unit = 1;
    if (precision > 17)
        precision = 17;
    if (kind == 'g')
        precision = precision ? precision - 1 : 0;
    if (value >= 0x1p63 || kind != 'f') {
        while (value >= 10)
            value /= 10, exponent++;
        while (value && value < 1)
            value *= 10, exponent--;
        if (kind == 'g' && exponent >= -4 && exponent <= precision) {
            for (; exponent > 0; exponent--)
                value *= 10, precision--;
            for (; exponent < 0; exponent++)
                value /= 10, precision++;
        } else {
            kind = kind == 'g' ? 'h' : 'e';
        }
    }
    for (int i = 0; i < precision; i++)
        unit *= 10;
    uint64_t whole = (uint64_t)value;
    uint64_t part = (uint64_t)rint((value - (double)whole) * unit);
    if (part >= (uint64_t)unit) {
        whole++;
        part -= (uint64_t)unit;
    }
    char buffer[24];
    length = digits(buffer + 24, whole, 10);
    memcpy(at, buffer + 24 - length, (size_t)length);
    at += length;
    if (precision > 0) {
        length = digits(buffer + 24, part, 10);
        *at++ = '.';
        for (int i = length; i < precision; i++)
            *at++ = '0';
        memcpy(at, buffer + 24 - length, (size_t)length);
        at += length;
        while ((kind == 'g' || kind == 'h') && (at[-1] == '0' || at[-1] == '.'))
            if (*--at == '.')
                break;
    }
    if (kind == 'e' || kind == 'h') {
        *at++ = 'e';
        *at++ = exponent < 0 ? '-' : '+';
        exponent = exponent < 0 ? -exponent : exponent;
        if (exponent < 10)
            *at++ = '0';
        length = digits(buffer + 24, (uint64_t)exponent, 10);
        memcpy(at, buffer + 24 - length, (size_t)length);
        at += length;
    }
    return (int)(at - text);
}

static void put_float(struct out *out, double value, char kind, int precision, int width, int left, int zeros)
{
    char text[64];
    const char *sign = copysign(1.0, value) < 0 ? "-" : "";
    if (value != value)
        put_padded(out, "", "nan", 3, width, left, 0);
    else if (fabs(value) == INFINITY)
        put_padded(out, sign, "inf", 3, width, left, 0);
    else
        put_padded(out, sign, text, decimal(text, fabs(value), kind, precision < 0 ? 6 : precision), width, left, zeros);
}

LIBRARY void refsi_printf(const char *format, ...)
{
    struct out out = { .length = 0 };
    va_list values;
    va_start(values, format);
    for (; *format; format++) {
        if (*format != '%') {
            put(&out, *format);
            continue;
        }
        int left = 0, zeros = 0, width = 0, precision = -1, is_long = 0;
        char text[24];
        for (format++; *format == '-' || *format == '0'; format++)
            *format == '-' ? (left = 1) : (zeros = 1);
        for (; *format >= '0' && *format <= '9'; format++)
            width = 10 * width + *format - '0';
        if (*format == '.')
            for (precision = 0, format++; *format >= '0' && *format <= '9'; format++)
                precision = 10 * precision + *format - '0';
        for (; *format == 'l' || *format == 'z'; format++)
            is_long = 1;
        switch (*format) {
        case 'd':
        case 'i': {
            long value = is_long ? va_arg(values, long) : va_arg(values, int);
            int count = digits(text + 24, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
            put_padded(&out, value < 0 ? "-" : "", text + 24 - count, count, width, left, zeros);
            break;
        }
        case 'u':
        case 'x':
        case 'o':
        case 'p': {
            int is_wide = is_long || *format == 'p';
            unsigned base = *format == 'u' ? 10 : *format == 'o' ? 8 : 16;
            uint64_t value = is_wide ? va_arg(values, uint64_t) : va_arg(values, unsigned);
            int count = digits(text + 24, value, base);
            put_padded(&out, *format == 'p' ? "0x" : "", text + 24 - count, count, width, left, zeros);
            break;
        }
        case 'c':
            text[0] = (char)va_arg(values, int);
            put_padded(&out, "", text, 1, width, left, 0);
            break;
        case 's': {
            const char *given = va_arg(values, const char *);
            int count = 0;
            while (count != precision && given[count])
                count++;
            put_padded(&out, "", given, count, width, left, 0);
            break;
        }
        case 'f':
        case 'e':
        case 'g':
            put_float(&out, va_arg(values, double), *format, precision, width, left, zeros);
            break;
        case 0:
            format--;
            break;
        default:
            put(&out, *format);
        }
    }
    va_end(values);
    out.text[out.length] = 0;
    refsi_print(out.text);
}
