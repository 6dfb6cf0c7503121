/* What compilers call for long double, which is binary128 on RISC-V, and to convert 128-bit integers: IEEE 754, rounded
 * once in the hart's rounding mode, with its exception flags. NaNs are canonical, as those of the hart's instructions.
 */
#include <stdint.h>

#define LIBRARY __attribute__((weak, visibility("hidden")))

typedef __int128 i128;
typedef unsigned __int128 u128;
typedef union { u128 bits; struct { uint64_t low, high; } half; long double value; } wide;

enum { NEAREST_EVEN, TO_ZERO, DOWN, UP, NEAREST_AWAY }; /* rounding modes, as register frm has them */
enum { INEXACT = 1, UNDERFLOW = 2, OVERFLOW = 4, DIVIDE_BY_ZERO = 8, INVALID = 16 }; /* flags, as register fflags */

/* A format: bits of the fraction, the exponent of infinities and NaNs, and the bit of the sign. */
struct format { int fraction, largest, sign; };
static const struct format SINGLE = { 23, 0xFF, 31 }, DOUBLE = { 52, 0x7FF, 63 }, QUAD = { 112, 0x7FFF, 127 };

/* A number: mantissa times 2^(exponent - 127), its first bit the highest, as all but ZERO has it. */
enum kind { ZERO, FINITE, INFINITE, NOT_A_NUMBER };
struct number { enum kind kind; int negative, exponent; u128 mantissa; };

#ifndef SOFTCARD_HOST
static int rounding_mode(void)
{
    int mode;
    __asm__ volatile("frrm %0" : "=r"(mode));
    return mode;
}

static void raise_flags(int flags)
{
    if (flags)
        __asm__ volatile("csrs fflags, %0" : : "r"(flags));
}
#endif

static u128 left(u128 a, int n)
{
    wide w = { a };
    if (n >= 64) {
        w.half.high = w.half.low << (n - 64);
        w.half.low = 0;
    } else if (n) {
        w.half.high = w.half.high << n | w.half.low >> (64 - n);
        w.half.low <<= n;
    }
    return w.bits;
}

/* To the right; what is lost leaves a 1 in the last bit. */
static u128 right(u128 a, int n)
{
    wide w = { a };
    if (!n)
        return a;
    if (n >= 128)
        return a != 0;
    int is_lost = left(a, 128 - n) != 0;
    if (n >= 64) {
        w.half.low = w.half.high >> (n - 64);
        w.half.high = 0;
    } else {
        w.half.low = w.half.low >> n | w.half.high << (64 - n);
        w.half.high >>= n;
    }
    w.half.low |= (uint64_t)is_lost;
    return w.bits;
}

static int leading_zeros(u128 a)
{
    wide w = { a };
    int n = w.half.high ? 0 : 64;
    for (uint64_t half = w.half.high ? w.half.high : w.half.low; !(half >> 63); half <<= 1)
        n++;
    return n;
}

/* The number of some bits; signalling NaNs raise a flag. */
static struct number number_of(u128 bits, struct format f)
{
    u128 fraction = left(bits, 127 - f.fraction) & ~((u128)1 << 127);
    int exponent = (int)(uint64_t)(right(bits, f.fraction - 1) >> 1) & f.largest, bias = f.largest / 2;
    struct number n = { FINITE, (bits & left(1, f.sign)) != 0, exponent - bias, fraction | (u128)1 << 127 };
    if (exponent == f.largest) {
        n.kind = fraction ? NOT_A_NUMBER : INFINITE;
        if (fraction && !(fraction >> 126))
            raise_flags(INVALID);
    } else if (!exponent) {
        n.kind = fraction ? FINITE : ZERO;
        if (fraction) {
            int zeros = leading_zeros(fraction);
            n.mantissa = left(fraction, zeros);
            n.exponent = 1 - bias - zeros;
        }
    }
    return n;
}

static u128 packed(int negative, int exponent, u128 fraction, struct format f)
{
    return left((u128)(negative != 0), f.sign) | (left((u128)(uint64_t)exponent, f.fraction) + fraction);
}

static u128 not_a_number(struct format f)
{
    return packed(0, f.largest, left(1, f.fraction - 1), f);
}

/* Does a mantissa that keeps all but `lost` bits grow in size? */
static int grows(u128 mantissa, int lost, int negative, int mode)
{
    u128 rest = mantissa & (left(1, lost) - 1), half = left(1, lost - 1);
    switch (mode) {
    case TO_ZERO:
        return 0;
    case DOWN:
        return negative && rest;
    case UP:
        return !negative && rest;
    case NEAREST_AWAY:
        return rest >= half;
    default:
        return rest > half || (rest == half && (mantissa & left(1, lost)));
    }
}

/* The bits of a number, rounded to a format. */
static u128 bits_of(struct number n, struct format f)
{
    int mode = rounding_mode(), lost = 127 - f.fraction, bias = f.largest / 2, exponent = n.exponent + bias, is_tiny = 0;
    if (n.kind == NOT_A_NUMBER)
        return not_a_number(f);
    if (n.kind == INFINITE)
        return packed(n.negative, f.largest, 0, f);
    if (n.kind == ZERO)
        return packed(n.negative, 0, 0, f);
    if (exponent <= 0) { /* tiny is what would be below the normal range if the exponent had no end */
        u128 unit = left(1, lost);
        is_tiny = exponent < 0 || (n.mantissa | (unit - 1)) != ~(u128)0 || !grows(n.mantissa, lost, n.negative, mode);
        n.mantissa = right(n.mantissa, exponent < -200 ? 201 : 1 - exponent);
        exponent = 0;
    }
    int is_exact = !(n.mantissa & (left(1, lost) - 1));
    u128 fraction = (u128)(n.mantissa & ~((u128)1 << 127));
    fraction = right(fraction & ~(left(1, lost) - 1), lost) + (u128)grows(n.mantissa, lost, n.negative, mode);
    u128 bits = packed(0, exponent, fraction, f), most = packed(0, f.largest, 0, f);
    if (exponent >= f.largest || bits >= most) {
        int is_kept = mode == TO_ZERO || (mode == DOWN && !n.negative) || (mode == UP && n.negative);
        raise_flags(OVERFLOW | INEXACT);
        bits = most - (u128)is_kept;
    } else if (!is_exact) {
        raise_flags(is_tiny ? UNDERFLOW | INEXACT : INEXACT);
    }
    return bits | packed(n.negative, 0, 0, f);
}

static long double value_of(struct number n)
{
    wide w = { bits_of(n, QUAD) };
    return w.value;
}

static struct number quad(long double a)
{
    wide w = { .value = a };
    return number_of(w.bits, QUAD);
}

static struct number normalized(struct number n)
{
    if (!n.mantissa) {
        n.kind = ZERO;
        return n;
    }
    int zeros = leading_zeros(n.mantissa);
    n.mantissa = left(n.mantissa, zeros);
    n.exponent -= zeros;
    return n;
}

static struct number invalid(void)
{
    raise_flags(INVALID);
    return (struct number){ NOT_A_NUMBER, 0, 0, 0 };
}

static const struct number NONE = { NOT_A_NUMBER, 0, 0, 0 };

/* ---- arithmetic ---- */

static struct number sum(struct number a, struct number b)
{
    if (a.kind == NOT_A_NUMBER || b.kind == NOT_A_NUMBER)
        return NONE;
    if (a.kind == INFINITE || b.kind == INFINITE) {
        if (a.kind == b.kind && a.negative != b.negative)
            return invalid();
        return a.kind == INFINITE ? a : b;
    }
    if (a.kind == ZERO || b.kind == ZERO) {
        if (a.kind == b.kind)
            a.negative = a.negative == b.negative ? a.negative : rounding_mode() == DOWN;
        return a.kind == ZERO && b.kind != ZERO ? b : a;
    }
    if (a.exponent < b.exponent || (a.exponent == b.exponent && a.mantissa < b.mantissa)) {
        struct number larger = b;
        b = a;
        a = larger;
    }
    /* room for a carry above; 14 bits are below what stays */
    u128 x = a.mantissa >> 1, y = right(b.mantissa >> 1, a.exponent - b.exponent);
    a.mantissa = a.negative == b.negative ? x + y : x - y;
    a.exponent++;
    a = normalized(a);
    if (a.kind == ZERO)
        a.negative = rounding_mode() == DOWN;
    return a;
}

static struct number product(struct number a, struct number b)
{
    int negative = a.negative != b.negative;
    if (a.kind == NOT_A_NUMBER || b.kind == NOT_A_NUMBER)
        return NONE;
    if (a.kind == INFINITE || b.kind == INFINITE) {
        if (a.kind == ZERO || b.kind == ZERO)
            return invalid();
        return (struct number){ INFINITE, negative, 0, 0 };
    }
    if (a.kind == ZERO || b.kind == ZERO)
        return (struct number){ ZERO, negative, 0, 0 };
    wide x = { a.mantissa }, y = { b.mantissa };
    u128 low = (u128)x.half.low * y.half.low, high = (u128)x.half.high * y.half.high;
    u128 one = (u128)x.half.low * y.half.high, other = (u128)x.half.high * y.half.low;
    u128 middle = (low >> 64) + (uint64_t)one + (uint64_t)other;
    high += (one >> 64) + (other >> 64) + (middle >> 64);
    int is_lost = ((uint64_t)middle | (uint64_t)low) != 0;
    return normalized((struct number){ FINITE, negative, a.exponent + b.exponent + 1, high | (u128)is_lost });
}

static struct number quotient(struct number a, struct number b)
{
    int negative = a.negative != b.negative;
    if (a.kind == NOT_A_NUMBER || b.kind == NOT_A_NUMBER)
        return NONE;
    if (a.kind == b.kind && a.kind != FINITE)
        return invalid();
    if (b.kind == ZERO && a.kind == FINITE)
        raise_flags(DIVIDE_BY_ZERO);
    if (a.kind == INFINITE || b.kind == ZERO)
        return (struct number){ INFINITE, negative, 0, 0 };
    if (a.kind == ZERO || b.kind == INFINITE)
        return (struct number){ ZERO, negative, 0, 0 };
    u128 rest = a.mantissa >> 15, by = b.mantissa >> 15, result = 0; /* of 113 bits */
    for (int bit = 0; bit < 116; bit++, rest <<= 1) {
        result <<= 1;
        if (rest >= by) {
            rest -= by;
            result |= 1;
        }
    }
    return normalized((struct number){ FINITE, negative, a.exponent - b.exponent, result << 12 | (rest != 0) });
}

LIBRARY long double __addtf3(long double a, long double b)
{
    return value_of(sum(quad(a), quad(b)));
}

LIBRARY long double __subtf3(long double a, long double b)
{
    struct number y = quad(b);
    y.negative = !y.negative;
    return value_of(sum(quad(a), y));
}

LIBRARY long double __multf3(long double a, long double b)
{
    return value_of(product(quad(a), quad(b)));
}

LIBRARY long double __divtf3(long double a, long double b)
{
    return value_of(quotient(quad(a), quad(b)));
}

LIBRARY long double __negtf2(long double a)
{
    wide w = { .value = a };
    w.half.high ^= 1ul << 63;
    return w.value;
}

LIBRARY long double __powitf2(long double a, int n)
{
    long double result = 1;
    for (unsigned left = n < 0 ? 0u - (unsigned)n : (unsigned)n; left; left /= 2, a *= a)
        if (left & 1)
            result *= a;
    return n < 0 ? 1 / result : result;
}

/* ---- comparisons: negative, 0 or positive; `unordered` for NaNs, which are invalid unless only signalling ones are ---- */

static int compared(long double a, long double b, int unordered, int is_quiet)
{
    wide x = { .value = a }, y = { .value = b };
    struct number one = quad(a), other = quad(b);
    if (one.kind == NOT_A_NUMBER || other.kind == NOT_A_NUMBER) {
        if (!is_quiet)
            raise_flags(INVALID);
        return unordered;
    }
    if (one.kind == ZERO && other.kind == ZERO)
        return 0;
    if (one.negative != other.negative)
        return one.negative ? -1 : 1;
    return x.bits == y.bits ? 0 : (x.bits < y.bits) != one.negative ? -1 : 1;
}

LIBRARY int __eqtf2(long double a, long double b) { return compared(a, b, 1, 1); }
LIBRARY int __netf2(long double a, long double b) { return compared(a, b, 1, 1); }
LIBRARY int __lttf2(long double a, long double b) { return compared(a, b, 1, 0); }
LIBRARY int __letf2(long double a, long double b) { return compared(a, b, 1, 0); }
LIBRARY int __gttf2(long double a, long double b) { return compared(a, b, -1, 0); }
LIBRARY int __getf2(long double a, long double b) { return compared(a, b, -1, 0); }

LIBRARY int __unordtf2(long double a, long double b)
{
    struct number one = quad(a), other = quad(b);
    return one.kind == NOT_A_NUMBER || other.kind == NOT_A_NUMBER;
}

/* ---- other formats ---- */

typedef union { double value; uint64_t bits; } narrow;
typedef union { float value; uint32_t bits; } short_;

static struct number double_(double a)
{
    narrow n = { a };
    return number_of(n.bits, DOUBLE);
}

static struct number single(float a)
{
    short_ n = { a };
    return number_of(n.bits, SINGLE);
}

static double to_double(struct number n)
{
    narrow made = { .bits = (uint64_t)bits_of(n, DOUBLE) };
    return made.value;
}

static float to_single(struct number n)
{
    short_ made = { .bits = (uint32_t)(uint64_t)bits_of(n, SINGLE) };
    return made.value;
}

LIBRARY long double __extenddftf2(double a) { return value_of(double_(a)); }
LIBRARY long double __extendsftf2(float a) { return value_of(single(a)); }
LIBRARY double __trunctfdf2(long double a) { return to_double(quad(a)); }
LIBRARY float __trunctfsf2(long double a) { return to_single(quad(a)); }

/* ---- integers ---- */

/* Towards zero to an integer of some bits; as the hart's instructions the nearest there is where it does not fit, and
 * the largest for NaNs. */
static u128 integer(struct number n, int width, int is_signed)
{
    u128 most = right(~(u128)0, 128 - width + is_signed), least = is_signed ? left(1, width - 1) : 0, limit, size;
    if (n.kind == ZERO)
        return 0;
    limit = n.negative && n.kind != NOT_A_NUMBER ? least : most;
    size = n.exponent < 0 ? 0 : right(n.mantissa, 127 - n.exponent > 0 ? 127 - n.exponent : 0);
    if (n.exponent >= 0 && n.exponent < 127) /* without the last bit's note of what is lost */
        size = right(n.mantissa & ~(left(1, 127 - n.exponent) - 1), 127 - n.exponent);
    if (n.kind != FINITE || n.exponent > 127 || size > limit) {
        raise_flags(INVALID);
        return n.negative && n.kind != NOT_A_NUMBER ? 0 - least : most;
    }
    if (n.exponent < 0 || (n.exponent < 127 && n.mantissa & (left(1, 127 - n.exponent) - 1)))
        raise_flags(INEXACT);
    return n.negative ? 0 - size : size;
}

LIBRARY int32_t __fixtfsi(long double a) { return (int32_t)(uint64_t)integer(quad(a), 32, 1); }
LIBRARY int64_t __fixtfdi(long double a) { return (int64_t)(uint64_t)integer(quad(a), 64, 1); }
LIBRARY i128 __fixtfti(long double a) { return (i128)integer(quad(a), 128, 1); }
LIBRARY uint32_t __fixunstfsi(long double a) { return (uint32_t)(uint64_t)integer(quad(a), 32, 0); }
LIBRARY uint64_t __fixunstfdi(long double a) { return (uint64_t)integer(quad(a), 64, 0); }
LIBRARY u128 __fixunstfti(long double a) { return integer(quad(a), 128, 0); }
LIBRARY i128 __fixdfti(double a) { return (i128)integer(double_(a), 128, 1); }
LIBRARY u128 __fixunsdfti(double a) { return integer(double_(a), 128, 0); }
LIBRARY i128 __fixsfti(float a) { return (i128)integer(single(a), 128, 1); }
LIBRARY u128 __fixunssfti(float a) { return integer(single(a), 128, 0); }

static struct number of_size(u128 size, int negative)
{
    return normalized((struct number){ FINITE, negative, 127, size });
}

static struct number of_integer(i128 a)
{
    return of_size(a < 0 ? 0 - (u128)a : (u128)a, a < 0);
}

LIBRARY long double __floatsitf(int32_t a) { return value_of(of_integer(a)); }
LIBRARY long double __floatditf(int64_t a) { return value_of(of_integer(a)); }
LIBRARY long double __floattitf(i128 a) { return value_of(of_integer(a)); }
LIBRARY long double __floatunsitf(uint32_t a) { return value_of(of_size(a, 0)); }
LIBRARY long double __floatunditf(uint64_t a) { return value_of(of_size(a, 0)); }
LIBRARY long double __floatuntitf(u128 a) { return value_of(of_size(a, 0)); }
LIBRARY double __floattidf(i128 a) { return to_double(of_integer(a)); }
LIBRARY double __floatuntidf(u128 a) { return to_double(of_size(a, 0)); }
LIBRARY float __floattisf(i128 a) { return to_single(of_integer(a)); }
LIBRARY float __floatuntisf(u128 a) { return to_single(of_size(a, 0)); }
