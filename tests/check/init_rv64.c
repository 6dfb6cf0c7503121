/* Planted uses of what nobody has written, for RISC-V harts: with B = 1 the line marked BUG reads it, with 0 nothing
   does. x: 16 int32, of which the host writes the first 8. */
#include <stdint.h>

typedef uint64_t u64;
#ifndef B
#define B 0
#endif
#define HIDE(v) __asm__ volatile("" : "+r"(v))

void branch(u64 i, const int *x, int *y)
{
    int v = x[i + 8 * B];
    HIDE(v);
    __asm__ volatile goto("bltz %0, %l1" : : "r"(v) : : less); /* BUG */
    y[i] = 1;
    return;
less:
    y[i] = 2;
}

void address(u64 i, const int *x, int *y)
{
    y[i] = y[(i & 7) + (x[i + 8 * B] & 4)]; /* BUG */
}

void atomic(u64 i, int *x, int *y)
{
    int v = x[i + 8 * B];
    __asm__ volatile("amoadd.w zero, %0, (%1)" : : "r"(v), "r"(y) : "memory"); /* BUG */
}

void result(u64 i, const int *x, int *y)
{
    y[i] = x[i + 8 * B]; /* BUG */
}

void half_result(u64 i, const short *x, int *y)
{
    y[i] = x[i] + x[B ? i + 16 : i]; /* BUG */
}

void through_float(u64 i, const float *x, int *y)
{
    float v = x[i + 8 * B] * 2.0f;
    int less = v < 3.0f;
    HIDE(less);
    __asm__ volatile goto("beqz %0, %l1" : : "r"(less) : : zero); /* BUG */
    y[i] = 1;
    return;
zero:
    y[i] = 0;
}

void float_result(u64 i, const float *x, float *y)
{
    y[i] = x[i + 8 * B] + 1.0f; /* BUG */
}

/* The bit that nobody has written is looked at, or is not. */
void one_bit(u64 i, const unsigned char *x, int *y)
{
    unsigned v = x[0] | x[32] << 8;
    int bit = B ? v & 256 : v & 1;
    HIDE(bit);
    __asm__ volatile goto("beqz %0, %l1" : : "r"(bit) : : zero); /* BUG */
    y[i] = 1;
    return;
zero:
    y[i] = 0;
}

void stack(u64 i, const int *x, int *y)
{
    volatile int t[8];
    for (int k = 0; k < 8 - B; k++)
        t[k] = k;
    int v = t[7];
    HIDE(v);
    __asm__ volatile goto("beqz %0, %l1" : : "r"(v) : : zero); /* BUG */
    y[i] = 1;
    return;
zero:
    y[i] = 0;
}

void saved_register(u64 i, const int *x, int *y)
{
    u64 v = 0;
    if (B)
        __asm__ volatile("mv %0, s3" : "=r"(v));
    __asm__ volatile goto("beqz %0, %l1" : : "r"(v) : : zero); /* BUG */
    y[i] = 1;
    return;
zero:
    y[i] = 0;
}

void float_register(u64 i, const int *x, int *y)
{
    u64 v = 0;
    if (B)
        __asm__ volatile("fmv.x.d %0, fs3" : "=r"(v));
    __asm__ volatile goto("beqz %0, %l1" : : "r"(v) : : zero); /* BUG */
    y[i] = 1;
    return;
zero:
    y[i] = 0;
}

/* A function that takes one argument more than the launch gives. */
void argument(u64 i, const int *x, int *y, u64 n)
{
    u64 v = B ? n : 3;
    HIDE(v);
    __asm__ volatile goto("beqz %0, %l1" : : "r"(v) : : zero); /* BUG */
    y[i] = 1;
    return;
zero:
    y[i] = 0;
}

void jump(u64 i, const int *x, int *y)
{
    u64 target;
    __asm__ volatile("la %0, 1f\n" /* the same, whatever is added to it */
                     "lw t1, 0(%1)\n"
                     "andi t1, t1, 0x40\n"
                     "andi t1, t1, 0x20\n"
                     "beqz x0, 2f\n"
                     "2: mul t1, t1, %2\n"
                     "add %0, %0, t1\n"
                     "jr %0\n" /* BUG */
                     "1:\n"
                     : "=&r"(target) : "r"(x + i + 8 * B), "r"(x[0]) : "t1");
    y[i] = 1;
}

void copied(u64 i, int *x, int *y)
{
    volatile int t[2];
    t[0] = x[i + 8 * B];
    t[1] = 5;
    int v = t[0];
    HIDE(v);
    __asm__ volatile goto("beqz %0, %l1" : : "r"(v) : : zero); /* BUG */
    y[i] = 1;
    return;
zero:
    y[i] = 0;
}

void tcdm(u64 i, const int *x, int *y)
{
    volatile int *t = (volatile int *)0x10200000 + i;
    if (!B)
        *t = 1;
    int v = *t;
    HIDE(v);
    __asm__ volatile goto("beqz %0, %l1" : : "r"(v) : : zero); /* BUG */
    y[i] = 1;
    return;
zero:
    y[i] = 0;
}
