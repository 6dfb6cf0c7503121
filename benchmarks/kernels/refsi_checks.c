/* What harts do with memory that they share, for benchmarks/refsi_checks.py. x and y: int32, n of them. */
#include <stdint.h>

typedef uint64_t u64;
#define DMA ((volatile u64 *)0x20002000)
#define HARTS 4

static void barrier(void)
{
    register u64 call __asm__("a7") = 2;
    register u64 link __asm__("a0") = 0;
    __asm__ volatile("ecall" : "+r"(link) : "r"(call) : "memory");
}

void copy_bytes(u64 i, int *x, int *y, u64 n)
{
    const volatile uint8_t *from = (const uint8_t *)(x + i * n / HARTS);
    volatile uint8_t *to = (uint8_t *)(y + i * n / HARTS);
    for (u64 k = 0; k < n; k++)
        to[k] = from[k];
}

void smooth(u64 i, volatile int *x, volatile int *y, u64 n)
{
    u64 part = n / HARTS, first = i * part, last = first + part;
    for (int round = 0; round < 4; round++) {
        for (u64 k = first; k < last; k++)
            y[k] = (x[k ? k - 1 : k] + x[k < n - 1 ? k + 1 : k]) / 2;
        barrier();
        for (u64 k = first; k < last; k++)
            x[k] = y[k];
        barrier();
    }
}

void vector_add(u64 i, int *x, int *y, u64 n)
{
    u64 left = n / HARTS, vl;
    for (x += i * left, y += i * left; left; left -= vl, x += vl, y += vl)
        __asm__ volatile(".option push\n.option arch, +v\n"
                         "vsetvli %0, %1, e32, m8, ta, ma\nvle32.v v0, (%2)\nvle32.v v8, (%3)\n"
                         "vadd.vv v8, v8, v0\nvse32.v v8, (%3)\n.option pop"
                         : "=&r"(vl) : "r"(left), "r"(x), "r"(y) : "memory");
}

void vector_stride(u64 i, int *x, int *y, u64 n)
{
    u64 left = n / HARTS, vl;
    for (x += i * left, y += i * left; left > 1; left -= 2 * vl, x += 2 * vl, y += vl)
        __asm__ volatile(".option push\n.option arch, +v\n"
                         "vsetvli %0, %1, e32, m4, ta, ma\nvlse32.v v0, (%2), %4\nvse32.v v0, (%3)\n.option pop"
                         : "=&r"(vl) : "r"(left / 2), "r"(x), "r"(y), "r"(8L) : "memory");
}

void count(u64 i, int *x, int *y, u64 n)
{
    for (u64 k = i * n / HARTS; k < (i + 1) * n / HARTS; k++)
        __asm__ volatile("amoadd.w zero, %0, (%1)" : : "r"(1), "r"(y + (x[k] & 63)) : "memory");
}

void reserve(u64 i, int *x, int *y, u64 n)
{
    int v, failed;
    for (u64 k = 0; k < n / 16; k++)
        do {
            __asm__ volatile("lr.w %0, (%1)" : "=r"(v) : "r"(y) : "memory");
            __asm__ volatile("sc.w %0, %1, (%2)" : "=&r"(failed) : "r"(v + 1), "r"(y) : "memory");
        } while (failed);
}

void lock(u64 i, volatile int *x, volatile int *y, u64 n)
{
    int old;
    for (u64 k = 0; k < n / 16; k++) {
        do
            __asm__ volatile("amoswap.w.aq %0, %1, (%2)" : "=r"(old) : "r"(1), "r"(y) : "memory");
        while (old);
        y[16] += x[k];
        __asm__ volatile("amoswap.w.rl zero, zero, (%0)" : : "r"(y) : "memory");
    }
}

/* Hart 0 stores rows and says so by a flag, the others wait for it and read them. */
void pass(u64 i, volatile int *x, volatile int *y, u64 n)
{
    u64 row = 256;
    for (u64 k = 0; k + row <= n; k += row) {
        if (i == 0) {
            for (u64 j = 0; j < row; j++)
                y[k + j] = x[k + j] + 1;
            __asm__ volatile("fence rw, w" ::: "memory");
            x[n] = k + 1;
        } else {
            int sum = 0;
            while (x[n] < k + 1)
                ;
            __asm__ volatile("fence r, rw" ::: "memory");
            for (u64 j = 0; j < row; j++)
                sum += y[k + j];
            x[n + 16 * i] = sum;
        }
    }
}

/* Tiles by DMA into the hart's part of TCDM, the next one while it works on one. */
void tiles(u64 i, volatile int *x, volatile int *y, u64 n)
{
    const u64 tile = 1024;
    volatile int *own = (volatile int *)(0x10200000 + i * 0x10000);
    u64 first = i * n / HARTS, count = n / HARTS / tile;
    DMA[3] = (u64)(x + first), DMA[4] = (u64)own, DMA[5] = 4 * tile, DMA[0] = 1 | 1 << 4;
    for (u64 k = 0; k < count; k++) {
        volatile int *at = own + (k & 1) * tile;
        DMA[2] = DMA[1];
        if (k + 1 < count) {
            DMA[3] = (u64)(x + first + (k + 1) * tile), DMA[4] = (u64)(own + (k + 1 & 1) * tile);
            DMA[0] = 1 | 1 << 4;
        }
        for (int round = 0; round < 4; round++)
            for (u64 j = 0; j < tile; j++)
                at[j] = at[j] * 3 + 1;
        for (u64 j = 0; j < tile; j++)
            y[first + k * tile + j] = at[j];
    }
}

/* Many small instances: one element each. */
void element(u64 i, int *x, int *y, u64 n)
{
    y[i] = x[i] + 1;
}
