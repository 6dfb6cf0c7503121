/* Misaligned accesses of every width, across pages, in loops that grow hot; prints what came of them. */
typedef unsigned long u64;
typedef unsigned u32;
typedef unsigned short u16;
static unsigned char b[3 * 4096 + 64] __attribute__((aligned(4096)));
#define AT(T, p) (*(volatile T *)(p))

static void put(u64 value)
{
    char text[17];
    for (int i = 0; i < 16; i++)
        text[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
    text[16] = '\n';
    register long a0 __asm__("a0") = 1, a1 __asm__("a1") = (long)text, a2 __asm__("a2") = 17, a7 __asm__("a7") = 64;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
}

__attribute__((used)) void start(void)
{
    u64 sum = 1;
    for (int i = 0; i < 3 * 4096; i++) {
        unsigned char *p = b + i;
        AT(u64, p) = sum * 0x9E3779B97F4A7C15ul + i;
        sum += AT(u64, p + 1) ^ ((u64)AT(u32, p + 3) + AT(u16, p + 5) + AT(int, p) + AT(short, p + 7));
        AT(u32, p + 2) = (u32)sum;
        AT(u16, p + 9) = (u16)(sum >> 7);
        AT(double, p + 4) += 1.0;
        AT(float, p + 1) = AT(float, p + 3);
    }
    put(sum);
    for (int i = 0; i < 8; i++)
        put(AT(u64, b + 4093 + i));
#ifdef VECTORS
    for (int i = 0; i < 50; i++) {
        u64 n = 500, step = 37;
        unsigned char *from = b + 4000 + i, *to = b + 7 + i;
        __asm__ volatile("vsetvli t0, %0, e32, m8, ta, ma\n\tvle32.v v8, (%1)\n\tvse32.v v8, (%2)\n\t"
                         "vsetvli t0, %0, e64, m4, ta, ma\n\tvlse64.v v8, (%1), %3\n\tvse64.v v8, (%2)\n\t"
                         "vl2re32.v v8, (%1)\n\tvs2r.v v8, (%2)"
                         : : "r"(n), "r"(from), "r"(to), "r"(step) : "t0", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "memory");
        sum = sum * 3 + AT(u64, to + 11);
    }
    put(sum);
#endif
    register long a0 __asm__("a0") = 0, a7 __asm__("a7") = 93;
    __asm__ volatile("ecall" : : "r"(a0), "r"(a7));
    for (;;)
        ;
}
__asm__(".globl _start\n_start: andi sp, sp, -16\ncall start\n");
