/* Planted races, for groups of 4 RISC-V harts: with B = 1 nothing orders the accesses at the line marked BUG and those
   of another hart, with B = 0 all is in order. x: 64 int32, zeros. */
#include <stdint.h>

typedef uint64_t u64;
#ifndef B
#define B 0
#endif
#define BUGGY(bad, right) if (B) { bad; } else { right; }

static void barrier(void)
{
    register u64 call __asm__("a7") = 2;
    register u64 link __asm__("a0") = 0;
    __asm__ volatile("ecall" : "+r"(link) : "r"(call) : "memory");
}
static void fence(void) { __asm__ volatile("fence rw, rw" ::: "memory"); }

void same_place(u64 i, volatile int *x)
{
    x[B ? 0 : i] = i + 1; /* BUG */
}

void neighbour(u64 i, volatile int *x)
{
    x[i] = i + 1;
    if (!B)
        barrier();
    x[16 + i] = x[i + 1 & 3]; /* BUG */
}

void before(u64 i, volatile int *x)
{
    int v = x[(i + 1) & 3];
    if (!B)
        barrier();
    x[i] = v + 1; /* BUG */
}

void counter(u64 i, volatile int *x)
{
    if (B)
        x[0] = x[0] + 1; /* BUG */
    else
        __asm__ volatile("amoadd.w zero, %0, (%1)" : : "r"(1), "r"(x) : "memory");
}

void mixed(u64 i, volatile int *x)
{
    __asm__ volatile("amoadd.w zero, %0, (%1)" : : "r"(1), "r"(x) : "memory");
    if (!B)
        barrier();
    x[16 + i] = x[0]; /* BUG */
}

/* Hart 1 stores data and sets a flag; hart 0 waits for the flag. */
void no_release(u64 i, volatile int *x)
{
    if (i == 1) {
        x[0] = 7;
        if (!B)
            fence();
        x[32] = 1;
    } else if (i == 0) {
        while (!x[32]) /* BUG */
            ;
        fence();
        x[16] = x[0];
    }
}

void no_acquire(u64 i, volatile int *x)
{
    if (i == 1) {
        x[0] = 7;
        fence();
        x[32] = 1;
    } else if (i == 0) {
        while (!x[32])
            ;
        if (!B)
            fence();
        x[16] = x[0]; /* BUG */
    }
}

static void lock(volatile int *x, int acquires)
{
    int old;
    do
        if (acquires)
            __asm__ volatile("amoswap.w.aq %0, %1, (%2)" : "=r"(old) : "r"(1), "r"(x) : "memory");
        else
            __asm__ volatile("amoswap.w %0, %1, (%2)" : "=r"(old) : "r"(1), "r"(x) : "memory");
    while (old);
}

void lock_without_aq(u64 i, volatile int *x)
{
    lock(x + 32, !B);
    x[0] += i; /* BUG */
    __asm__ volatile("amoswap.w.rl zero, zero, (%0)" : : "r"(x + 32) : "memory");
}

void lock_without_rl(u64 i, volatile int *x)
{
    lock(x + 32, 1);
    x[0] += i; /* BUG */
    BUGGY(__asm__ volatile("amoswap.w zero, zero, (%0)" : : "r"(x + 32) : "memory"),
          __asm__ volatile("amoswap.w.rl zero, zero, (%0)" : : "r"(x + 32) : "memory"))
}

void reserved(u64 i, volatile int *x)
{
    int v, failed;
    do {
        __asm__ volatile("lr.w %0, (%1)" : "=r"(v) : "r"(x) : "memory");
        if (B) {
            x[0] = v + 1; /* BUG */
            break;
        }
        __asm__ volatile("sc.w %0, %1, (%2)" : "=r"(failed) : "r"(v + 1), "r"(x) : "memory");
    } while (failed);
}

void tcdm(u64 i, volatile int *x)
{
    volatile int *t = (volatile int *)0x10200000;
    t[B ? 0 : i] = i + 1; /* BUG */
}

#define DMA ((volatile u64 *)0x20002000)
static u64 copy(volatile int *to, volatile int *from, u64 size)
{
    DMA[3] = (u64)from;
    DMA[4] = (u64)to;
    DMA[5] = size;
    DMA[0] = 1 | 1 << 4;
    return DMA[1];
}

void transfer_not_waited_for(u64 i, volatile int *x)
{
    if (i)
        return;
    u64 id = copy(x + 16, x, 16);
    if (!B)
        DMA[2] = id;
    x[32] = x[17]; /* BUG */
    if (B)
        DMA[2] = id;
}

void transfer_of_another(u64 i, volatile int *x)
{
    if (i == 0)
        DMA[2] = copy(x + 16, x, 16);
    if (!B)
        barrier();
    if (i == 1)
        x[32] = x[17]; /* BUG */
}

void halves(u64 i, volatile int *x)
{
    volatile short *s = (volatile short *)x;
    if (B)
        *(volatile int *)(s + (i & 2)) = i; /* BUG */
    else
        s[i] = i;
}
