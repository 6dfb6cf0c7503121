/* Guest code for rv64_extensions.py: what Zba, Zbb, Zbs, Zbc and Zfh are for. As a user program for qemu-riscv64,
   "rv64x WHICH COUNT" runs function WHICH (its place in the table) COUNT times. */
typedef unsigned long u64;

#define N (1 << 14)

static u64 words[N], mixed[N];
static _Float16 x[N], y[N];
static unsigned next[N];

static inline u64 clmul(u64 a, u64 b) { u64 r; __asm__("clmul %0, %1, %2" : "=r"(r) : "r"(a), "r"(b)); return r; }
static inline u64 clmulh(u64 a, u64 b) { u64 r; __asm__("clmulh %0, %1, %2" : "=r"(r) : "r"(a), "r"(b)); return r; }

/* zlib's CRC-32, eight bytes a step: the quotient by the inverse of the reflected polynomial modulo x^64, and what is
   over 64 bits of its product with the polynomial. */
__attribute__((noinline)) static unsigned crc32(const u64 *data, long n) {
  u64 crc = 0xFFFFFFFFu;
  for (long i = 0; i < n; i++) crc = clmulh(clmul(crc ^ data[i], 0xB4E5B025F7011641ul), 0x1DB710641ul);
  return ~(unsigned)crc;
}

/* Rotations, counts, byte order, single bits, minima: what compilers make of plain C with Zbb and Zbs. */
__attribute__((noinline)) static void mix(u64 *to, const u64 *from, long n) {
  u64 a = 1, b = 0x9E3779B97F4A7C15ul;
  for (long i = 0; i < n; i++) {
    u64 w = from[i];
    a ^= (w << 24 | w >> 40) + __builtin_popcountl(w & ~b);
    b = __builtin_bswap64(b ^ w) + __builtin_clzl(a | 1) * 8 + __builtin_ctzl(w | 1ul << 63);
    a = a > w ? a ^ 1ul << (b & 63) : w | 1ul << (a & 63);
    to[i] = a < b ? a : b;
  }
}

/* Shifted adds: a list of indexes followed through an array. */
__attribute__((noinline)) static u64 follow(const unsigned *at, const u64 *values, long n) {
  u64 sum = 0;
  unsigned k = 0;
  for (long i = 0; i < n; i++) sum += values[k], k = at[k];
  return sum;
}

__attribute__((noinline)) static void saxpy(_Float16 a, long n) { for (long i = 0; i < n; i++) y[i] = a * x[i] + y[i]; }

static void fill(void) {
  for (long i = 0; i < N; i++) {
    words[i] = (i + 1) * 0x9E3779B97F4A7C15ul;
    next[i] = (i * 5 + 1) & (N - 1);
    x[i] = (_Float16)(i & 63), y[i] = (_Float16)1;
  }
}
u64 run_crc(u64 count) { fill(); u64 sum = 0; for (u64 i = 0; i < count; i++) words[i & 255]++, sum += crc32(words, N); return sum; }
u64 run_mix(u64 count) { fill(); for (u64 i = 0; i < count; i++) mix(mixed, words, N); return mixed[777]; }
u64 run_follow(u64 count) { fill(); u64 sum = 0; for (u64 i = 0; i < count; i++) words[i & 255]++, sum += follow(next, words, N); return sum; }
u64 run_saxpy(u64 count) { fill(); for (u64 i = 0; i < count; i++) saxpy((_Float16)0.0625f, N); return (u64)(float)y[777]; }

static void leave(long code) {
  register long a7 __asm__("a7") = 93, a0 __asm__("a0") = code;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory");
}

static u64 number(const char *digits) {
  u64 value = 0;
  for (; *digits; digits++) value = value * 10 + (*digits - '0');
  return value;
}
__attribute__((used)) void user_main(long *stack) {
  static u64 (*const runs[])(u64) = {run_crc, run_mix, run_follow, run_saxpy};
  char **arguments = (char **)(stack + 1);
  leave(runs[number(arguments[1])](number(arguments[2])) & 0x7f);
}
__asm__(".globl _start\n_start: mv a0, sp\n andi sp, sp, -16\n call user_main\n");
