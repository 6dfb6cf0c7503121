/* Guest code for rv64_engine.py: plain functions of one number. As a user program for qemu-riscv64,
   "rv64 WHICH COUNT" runs function WHICH (its place in the table) with COUNT. */
typedef unsigned long u64;

#define N 128
#define WORDS (1 << 17)

static float a[N * N], b[N * N], c[N * N];
static u64 from[WORDS], to[WORDS];

/* Integer arithmetic and unpredictable branches. */
u64 run_collatz(u64 count) {
  u64 longest = 0;
  for (u64 i = 1; i < count; i++) {
    u64 x = i, steps = 0;
    while (x != 1) {
      x = (x & 1) ? 3 * x + 1 : x >> 1;
      steps++;
    }
    if (steps > longest) longest = steps;
  }
  return longest;
}

/* The integer loop of the RefSi recordings: one chain of dependent operations, so bound by their latency. */
u64 run_xorshift(u64 count) {
  u64 x = 0x9E3779B97F4A7C15ul + 1;
  for (u64 i = 0; i < count; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  return x;
}

__attribute__((noinline)) static void matmul(const float *x, const float *y, float *z, long n) {
  for (long i = 0; i < n; i++)
    for (long j = 0; j < n; j++) {
      float sum = 0;
      for (long k = 0; k < n; k++) sum += x[i * n + k] * y[k * n + j];
      z[i * n + j] = sum;
    }
}

u64 run_matmul_f32(u64 count) {
  for (long i = 0; i < N * N; i++) {
    a[i] = (float)(i % 17) * 0.25f;
    b[i] = (float)(i % 13) * 0.5f;
  }
  for (u64 r = 0; r < count; r++) matmul(a, b, c, N);
  float sum = 0;
  for (long i = 0; i < N * N; i++) sum += c[i];
  return (u64)sum;
}

__attribute__((noinline)) static void copy8(u64 *target, const u64 *source, long n) {
  for (long i = 0; i < n; i++) target[i] = source[i] + 1;
}

u64 run_copy(u64 count) {
  for (long i = 0; i < WORDS; i++) from[i] = i * 2654435761ul;
  for (u64 r = 0; r < count; r++) {
    copy8(to, from, WORDS);
    from[r % WORDS] = to[(r + 1) % WORDS];
  }
  return to[777];
}

__attribute__((noinline)) static u64 fib(u64 n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

u64 run_fib(u64 count) { return fib(count); }

static void leave(long code) {
  register long a7 __asm__("a7") = 93, a0 __asm__("a0") = code;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory");
}

__attribute__((used)) void user_main(long *stack) {
  static u64 (*const table[])(u64) = {run_collatz, run_xorshift, run_matmul_f32, run_copy, run_fib};
  char **arguments = (char **)(stack + 1);
  u64 count = 0;
  for (char *p = arguments[2]; *p; p++) count = count * 10 + (*p - '0');
  leave(table[arguments[1][0] - '0'](count) & 0x7f);
}
__asm__(".globl _start\n_start: mv a0, sp\n andi sp, sp, -16\n call user_main\n");
