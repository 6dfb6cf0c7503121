/* refsi_printf: the conversions of C11 7.21.6.1.
 *
 * Digits of floating-point numbers are exact, and rounded once in the hart's rounding mode. Only integers are computed
 * with, so that printing changes no float register and no flag. A double takes 150 bytes of the stack for its digits, a
 * long double 2.2 KiB.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <softcard_refsi.h>

#define LIBRARY __attribute__((weak, visibility("hidden")))

enum { CHUNK = 256 }; /* of text that one refsi_print takes */
enum { LEFT = 1, PLUS = 2, SPACE = 4, ALTERNATE = 8, ZEROS = 16 };
enum { NEAREST_EVEN, TO_ZERO, DOWN, UP, NEAREST_AWAY }; /* rounding modes, as register frm has them */
enum { LIMB = 1000000000, LIMB_DIGITS = 9 };
/* Words for the digits of the largest, and for the fraction of the smallest: 309 digits and 1,074 bits of a double,
 * 4,933 digits and 16,494 bits of a long double. */
enum { DOUBLE_WORDS = 36, LONG_DOUBLE_WORDS = 552 };

/* The check init of Softcard searches the stack for the mark while a hart is inside of refsi_printf. It then reports a use
 * of an undefined value at the call. */
#define MARK 0x696E746670666572ul
struct call {
    uint64_t mark;
    const void *place; /* the return address */
};

struct output {
    volatile struct call call;
    char text[CHUNK];
    int used;
    long count;
};

struct conversion {
    int flags, width, precision; /* precision -1: none is given */
    char length, kind;           /* length: h, l, j, z, t, L, H for hh, q for ll, 0 for none */
};

static void flush(struct output *out)
{
    out->text[out->used] = 0;
    refsi_print(out->text);
    out->used = 0;
}

static void put(struct output *out, char c)
{
    out->count++;
    if (!c) /* the console takes strings, which cannot hold it */
        return;
    out->text[out->used++] = c;
    if (out->used == CHUNK - 1)
        flush(out);
}

static void put_times(struct output *out, char c, long times)
{
    while (times-- > 0)
        put(out, c);
}

/* What stands before the body of a field. Gives how many spaces follow it. */
static long begin_field(struct output *out, const struct conversion *c, const char *prefix, long body)
{
    long padding = c->width - body;
    for (const char *at = prefix; *at; at++)
        padding--;
    if (!(c->flags & (LEFT | ZEROS)))
        put_times(out, ' ', padding);
    while (*prefix)
        put(out, *prefix++);
    if ((c->flags & (LEFT | ZEROS)) == ZEROS)
        put_times(out, '0', padding);
    return c->flags & LEFT ? padding : 0;
}

static void put_text(struct output *out, struct conversion *c, const char *prefix, const char *text, long length)
{
    c->flags &= ~ZEROS;
    long after = begin_field(out, c, prefix, length);
    while (length--)
        put(out, *text++);
    put_times(out, ' ', after);
}

/* ---- integers ---- */

static const char *sign_of(const struct conversion *c, int negative)
{
    return negative ? "-" : c->flags & PLUS ? "+" : c->flags & SPACE ? " " : "";
}

static void put_integer(struct output *out, struct conversion *c, const char *prefix, uint64_t value)
{
    char text[22]; /* 64 bits in base 8 */
    const char *letters = c->kind == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    unsigned base = c->kind == 'o' ? 8 : c->kind == 'x' || c->kind == 'X' || c->kind == 'p' ? 16 : 10;
    int count = 0;
    for (uint64_t rest = value; rest; rest /= base)
        text[sizeof text - (size_t)++count] = letters[rest % base];
    long zeros = (c->precision < 0 ? 1 : c->precision) - count;
    if (c->kind == 'o' && c->flags & ALTERNATE && zeros <= 0)
        zeros = 1;
    if (zeros < 0)
        zeros = 0;
    if (c->precision >= 0)
        c->flags &= ~ZEROS;
    long after = begin_field(out, c, prefix, zeros + count);
    put_times(out, '0', zeros);
    for (const char *at = text + sizeof text - count; at < text + sizeof text; at++)
        put(out, *at);
    put_times(out, ' ', after);
}

/* ---- floating-point numbers ---- */

/* A finite number: mantissa times 2^exponent; the mantissa, low half first, has `bits` bits below its first. */
struct real {
    int negative, exponent, bits;
    uint64_t mantissa[2];
};

/* Digits of a number from the first to the last, in base 10 or 16. */
struct digits {
    const struct real *real;
    int base, at;    /* base 16: `at` is the mantissa's lowest bit of the next digit */
    uint32_t *words; /* base 10: limbs of the integer, the last first, then of the fraction, 32 bits each */
    int limbs, first, end;
    uint32_t limb, unit; /* digits that are left of a limb, and the weight of the next; 0 where none is left */
};

static uint32_t mantissa_bits(const struct real *real, int at)
{
    uint64_t found = 0;
    for (int half = 0; half < 2; half++) {
        int shift = at - 64 * half;
        if (shift > -32 && shift < 64)
            found |= shift < 0 ? real->mantissa[half] << -shift : real->mantissa[half] >> shift;
    }
    return (uint32_t)found;
}

static void trim_fraction(struct digits *d)
{
    while (d->end > d->first && !d->words[d->end - 1])
        d->end--;
}

static void next_limb(struct digits *d)
{
    if (d->limbs > 0) {
        d->limb = d->words[--d->limbs];
    } else { /* the integer part of a billion times the fraction */
        uint64_t carry = 0;
        for (int i = d->end - 1; i >= d->first; i--) {
            carry += (uint64_t)d->words[i] * LIMB;
            d->words[i] = (uint32_t)carry;
            carry >>= 32;
        }
        trim_fraction(d);
        d->limb = (uint32_t)carry;
    }
    d->unit = LIMB / 10;
}

static int next_digit(struct digits *d)
{
    if (d->base == 16) {
        int digit = d->at < 0 ? 0 : (int)(mantissa_bits(d->real, d->at) & 15);
        d->at -= 4;
        return digit;
    }
    if (!d->unit)
        next_limb(d);
    uint32_t digit = d->limb / d->unit;
    d->limb %= d->unit;
    d->unit /= 10;
    return (int)digit;
}

/* Are all digits that follow 0? */
static int is_rest_zero(const struct digits *d)
{
    if (d->base == 16) {
        for (int at = d->at; at >= 0; at -= 4)
            if (mantissa_bits(d->real, at) & 15)
                return 0;
        return 1;
    }
    for (int i = 0; i < d->limbs; i++)
        if (d->words[i])
            return 0;
    return (!d->unit || !d->limb) && d->first == d->end;
}

/* Gives the exponent of the first digit: of 10 and not 0, or of 2 and as the mantissa has it. */
static int begin_digits(struct digits *d, const struct real *real, int base, uint32_t *words)
{
    int exponent = real->exponent, is_zero = !(real->mantissa[0] | real->mantissa[1]);
    *d = (struct digits){ .real = real, .base = base, .at = real->bits, .words = words };
    if (base == 16)
        return is_zero ? 0 : exponent + real->bits;
    for (int at = (real->bits + 1 + exponent + 31) / 32 * 32 - 32; at >= 0; at -= 32) {
        uint64_t carry = mantissa_bits(real, at - exponent);
        for (int i = 0; i < d->limbs; i++) {
            carry += (uint64_t)words[i] << 32;
            words[i] = (uint32_t)(carry % LIMB);
            carry /= LIMB;
        }
        for (; carry; carry /= LIMB)
            words[d->limbs++] = (uint32_t)(carry % LIMB);
    }
    d->first = d->end = d->limbs;
    for (int at = -exponent - 32; at > -32; at -= 32)
        words[d->end++] = mantissa_bits(real, at) & (at < 0 ? ~0u << -at : ~0u);
    trim_fraction(d);
    int first = LIMB_DIGITS * d->limbs - 1;
    if (is_zero)
        return 0;
    for (;; first--) {
        if (!d->unit)
            next_limb(d);
        if (d->limb >= d->unit)
            return first;
        d->unit /= 10;
    }
}

static int rounding_mode(void)
{
#ifdef REFSI_ROUNDING_MODE
    return REFSI_ROUNDING_MODE;
#else
    int mode;
    __asm__ volatile("frrm %0" : "=r"(mode));
    return mode;
#endif
}

/* Does a number round up in size, whose last digit that stays is odd or not, and whose next digit is this? */
static int rounds_up(const struct digits *d, int is_odd, int next, int is_exact)
{
    switch (rounding_mode()) {
    case TO_ZERO:
        return 0;
    case DOWN:
        return d->real->negative && (next || !is_exact);
    case UP:
        return !d->real->negative && (next || !is_exact);
    case NEAREST_AWAY:
        return next >= d->base / 2;
    default:
        return next > d->base / 2 || (next == d->base / 2 && (is_odd || !is_exact));
    }
}

/* A number as it is rounded: its first `count` digits, of which the last that is not the largest is number `grows`.
 * Where it is rounded up, that digit grows by one, and those after it are 0. */
struct rounded {
    long exponent, count, grows, last; /* `last` is the number of the last digit that is not 0 */
    int is_up;
};

/* Round to `count` digits, or where that is 0 to so many places after the point. */
static struct rounded rounded(const struct real *real, int base, uint32_t *words, long count, long places)
{
    struct digits d;
    struct rounded r = { .exponent = begin_digits(&d, real, base, words), .count = count };
    int is_odd = 0, next = 0;
    if (!count)
        r.count = r.exponent + 1 + places;
    for (long i = 1; i <= r.count; i++) {
        int digit = next_digit(&d);
        is_odd = digit & 1;
        r.last = digit ? i : r.last;
        r.grows = digit == base - 1 ? r.grows : i;
    }
    if (r.count >= 0)
        next = next_digit(&d);
    r.is_up = rounds_up(&d, is_odd, next, is_rest_zero(&d));
    if (r.count <= 0) { /* all is lost, or one unit in the last place is left */
        r.exponent = r.is_up ? -places : 0;
        r.count = 0;
    } else if (r.is_up && !r.grows) {
        r.exponent++;
    }
    if (r.is_up)
        r.last = r.grows ? r.grows : 1;
    return r;
}

static void put_real(struct output *out, struct conversion *c, const struct real *real, uint32_t *words)
{
    int kind = c->kind | 32, is_upper = c->kind < 'a', base = kind == 'a' ? 16 : 10;
    long precision = c->precision < 0 ? 6 : c->precision;
    struct rounded r;
    if (kind == 'a') {
        long all = real->bits / 4;
        r = rounded(real, base, words, 1 + (c->precision >= 0 && precision < all ? precision : all), 0);
        if (c->precision < 0)
            precision = r.last ? r.last - 1 : 0;
    } else if (kind == 'g') {
        if (!precision)
            precision = 1;
        r = rounded(real, base, words, precision, 0);
        long stays = c->flags & ALTERNATE ? precision : r.last ? r.last : 1;
        kind = r.exponent >= -4 && r.exponent < precision ? 'f' : 'e';
        precision = kind == 'e' ? stays - 1 : stays - 1 - r.exponent;
        if (precision < 0)
            precision = 0;
    } else {
        r = rounded(real, base, words, kind == 'e' ? precision + 1 : 0, precision);
    }

    char exponent[8]; /* e-16445 */
    int length = 0, least = kind == 'a' ? 1 : 2;
    if (kind != 'f') {
        for (long rest = r.exponent < 0 ? -r.exponent : r.exponent; rest || length < least; rest /= 10)
            exponent[sizeof exponent - (size_t)++length] = (char)('0' + rest % 10);
        exponent[sizeof exponent - (size_t)++length] = r.exponent < 0 ? '-' : '+';
        exponent[sizeof exponent - (size_t)++length] = (char)((kind == 'a' ? 'p' : 'e') - 32 * is_upper);
    }
    char prefix[4]; /* -0x */
    char *end = prefix;
    if (*sign_of(c, real->negative))
        *end++ = *sign_of(c, real->negative);
    if (kind == 'a') {
        *end++ = '0';
        *end++ = is_upper ? 'X' : 'x';
    }
    *end = 0;

    long whole = kind == 'f' && r.exponent > 0 ? r.exponent + 1 : 1;
    int has_point = precision > 0 || c->flags & ALTERNATE;
    long after = begin_field(out, c, prefix, whole + has_point + precision + length);
    struct digits d;
    begin_digits(&d, real, base, words);
    long first = kind == 'f' && r.exponent < 0 ? r.exponent : 0; /* as many zeros stand before the first digit */
    for (long place = 0; place < whole + precision; place++) {
        long number = place + 1 + first;
        int digit = 0;
        if (place == whole)
            put(out, '.');
        if (number >= 1 && r.is_up && !r.grows)
            digit = number == 1;
        else if (number >= 1 && number <= r.count) {
            digit = next_digit(&d);
            if (r.is_up && number >= r.grows)
                digit = number == r.grows ? digit + 1 : 0;
        }
        put(out, (is_upper ? "0123456789ABCDEF" : "0123456789abcdef")[digit]);
    }
    if (has_point && !precision)
        put(out, '.');
    for (const char *at = exponent + sizeof exponent - length; at < exponent + sizeof exponent; at++)
        put(out, *at);
    put_times(out, ' ', after);
}

/* A number by its fields; `largest` is the exponent of infinities and NaNs. Gives 0 after it has put one of those. */
static int begin_real(struct output *out, struct conversion *c, struct real *real, int exponent, int largest)
{
    if (exponent == largest) {
        int is_nan = (real->mantissa[0] | real->mantissa[1]) != 0, is_upper = c->kind < 'a';
        put_text(out, c, sign_of(c, real->negative), is_nan ? is_upper ? "NAN" : "nan" : is_upper ? "INF" : "inf", 3);
        return 0;
    }
    if (exponent)
        real->mantissa[real->bits / 64] |= 1ul << real->bits % 64;
    real->exponent = (exponent ? exponent : 1) - largest / 2 - real->bits;
    return 1;
}

/* Neither function is a part of its caller: only who prints numbers, or long ones, has their words on the stack. */
static __attribute__((noinline)) void put_double(struct output *out, struct conversion *c, double value)
{
    union { double value; uint64_t bits; } given = { value };
    struct real real = { .negative = (int)(given.bits >> 63), .bits = 52, .mantissa = { given.bits & ~0ul >> 12 } };
    uint32_t words[DOUBLE_WORDS];
    if (begin_real(out, c, &real, (int)(given.bits >> 52) & 0x7FF, 0x7FF))
        put_real(out, c, &real, words);
}

static __attribute__((noinline)) void put_long_double(struct output *out, struct conversion *c, const uint64_t *bits)
{
    struct real real = { .negative = (int)(bits[1] >> 63), .bits = 112, .mantissa = { bits[0], bits[1] & ~0ul >> 16 } };
    uint32_t words[LONG_DOUBLE_WORDS];
    if (begin_real(out, c, &real, (int)(bits[1] >> 48) & 0x7FFF, 0x7FFF))
        put_real(out, c, &real, words);
}

/* ---- wide characters ---- */

/* The UTF-8 of a character; gives how many bytes it has, 0 where there is no such character. */
static int utf8(char *text, uint32_t c)
{
    if (c < 0x80) {
        text[0] = (char)c;
        return 1;
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        return 0;
    int size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = size - 1; i > 0; i--, c >>= 6)
        text[i] = (char)(0x80 | (c & 0x3F));
    text[0] = (char)(0xF00 >> size | c);
    return size;
}

/* Gives 0 where a character is none. */
static int put_wide(struct output *out, struct conversion *c, const wchar_t *given)
{
    char text[4];
    long length = 0;
    int size;
    const wchar_t *end = given;
    for (; *end; end++, length += size) {
        size = utf8(text, (uint32_t)*end);
        if (!size)
            return 0;
        if (c->precision >= 0 && length + size > c->precision)
            break;
    }
    c->flags &= ~ZEROS;
    long after = begin_field(out, c, "", length);
    for (; given < end; given++) {
        size = utf8(text, (uint32_t)*given);
        for (int i = 0; i < size; i++)
            put(out, text[i]);
    }
    put_times(out, ' ', after);
    return 1;
}

/* ---- formats ---- */

static int number(const char **at)
{
    int value = 0;
    for (; **at >= '0' && **at <= '9'; ++*at)
        value = 10 * value + **at - '0';
    return value;
}

LIBRARY int refsi_printf(const char *format, ...)
{
    struct output out;
    out.call.place = __builtin_return_address(0);
    out.call.mark = MARK;
    out.used = 0;
    out.count = 0;
    va_list values;
    va_start(values, format);
    while (*format) {
        const char *start = format;
        if (*format++ != '%') {
            put(&out, *start);
            continue;
        }
        struct conversion c = { .precision = -1 };
        for (;; format++) {
            int flag = *format == '-' ? LEFT : *format == '+' ? PLUS : *format == ' ' ? SPACE
                     : *format == '#' ? ALTERNATE : *format == '0' ? ZEROS : 0;
            if (!flag)
                break;
            c.flags |= flag;
        }
        if (*format == '*') {
            format++;
            c.width = va_arg(values, int);
            if (c.width < 0) {
                c.flags |= LEFT;
                c.width = -c.width;
            }
        } else {
            c.width = number(&format);
        }
        if (*format == '.') {
            format++;
            if (*format == '*') {
                format++;
                c.precision = va_arg(values, int);
                if (c.precision < 0)
                    c.precision = -1;
            } else {
                c.precision = number(&format);
            }
        }
        if (*format == 'h' || *format == 'l' || *format == 'j' || *format == 'z' || *format == 't' || *format == 'L') {
            c.length = *format++;
            if ((c.length == 'h' || c.length == 'l') && *format == c.length) {
                c.length = c.length == 'h' ? 'H' : 'q';
                format++;
            }
        }
        c.kind = *format++;
        switch (c.kind) {
        case 'd':
        case 'i': {
            long value = c.length && c.length != 'h' && c.length != 'H' ? va_arg(values, long) : va_arg(values, int);
            value = c.length == 'h' ? (short)value : c.length == 'H' ? (signed char)value : value;
            put_integer(&out, &c, sign_of(&c, value < 0), value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
            break;
        }
        case 'u':
        case 'o':
        case 'x':
        case 'X': {
            uint64_t value =
                c.length && c.length != 'h' && c.length != 'H' ? va_arg(values, uint64_t) : va_arg(values, unsigned);
            value = c.length == 'h' ? (unsigned short)value : c.length == 'H' ? (unsigned char)value : value;
            int has_prefix = c.flags & ALTERNATE && value;
            put_integer(&out, &c, has_prefix && c.kind == 'x' ? "0x" : has_prefix && c.kind == 'X' ? "0X" : "", value);
            break;
        }
        case 'p':
            put_integer(&out, &c, "0x", (uint64_t)va_arg(values, void *));
            break;
        case 'c': {
            char text[4] = { 0 };
            int size = 1;
            uint32_t value = va_arg(values, unsigned);
            if (c.length == 'l')
                size = utf8(text, value);
            else
                text[0] = (char)value;
            if (!size)
                goto none;
            put_text(&out, &c, "", text, size);
            break;
        }
        case 's':
            if (c.length == 'l') {
                if (!put_wide(&out, &c, va_arg(values, const wchar_t *)))
                    goto none;
            } else {
                const char *text = va_arg(values, const char *);
                long length = 0;
                while (length != c.precision && text[length])
                    length++;
                put_text(&out, &c, "", text, length);
            }
            break;
        case 'a':
        case 'A':
        case 'e':
        case 'E':
        case 'f':
        case 'F':
        case 'g':
        case 'G':
            if (c.length == 'L') {
                union { long double value; uint64_t bits[2]; } given = { va_arg(values, long double) };
                put_long_double(&out, &c, given.bits);
            } else {
                put_double(&out, &c, va_arg(values, double));
            }
            break;
        case 'n': {
            void *count = va_arg(values, void *);
            if (c.length == 'H')
                *(signed char *)count = (signed char)out.count;
            else if (c.length == 'h')
                *(short *)count = (short)out.count;
            else if (c.length)
                *(long *)count = out.count;
            else
                *(int *)count = (int)out.count;
            break;
        }
        case '%':
            put(&out, '%');
            break;
        default: /* no conversion: it stands as it is */
            format -= !c.kind;
            while (start < format)
                put(&out, *start++);
        }
    }
    va_end(values);
    flush(&out);
    out.call.mark = 0;
    return (int)out.count;
none: /* an encoding error, C11 7.21.6.1 p14 */
    va_end(values);
    flush(&out);
    out.call.mark = 0;
    return -1;
}
