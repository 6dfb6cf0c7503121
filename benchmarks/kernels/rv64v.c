/* Guest code for rv64_vectors.py: loops for RV64GCV, by intrinsics or left to the compiler. As a user program for
   qemu-riscv64, "rv64v WHICH COUNT" runs function WHICH (its place in the table) COUNT times. */
#include <riscv_vector.h>
typedef unsigned long u64;

#define N (1 << 20)
#define M 128

static int a[N], b[N], c[N];
static float x[N], y[N], p[M * M], q[M * M], r[M * M];
static signed char s[N], t[N];

__attribute__((noinline)) static void vadd(long n) {
  for (long i = 0, vl; i < n; i += vl) {
    vl = __riscv_vsetvl_e32m8(n - i);
    __riscv_vse32_v_i32m8(c + i, __riscv_vadd_vv_i32m8(__riscv_vle32_v_i32m8(a + i, vl), __riscv_vle32_v_i32m8(b + i, vl), vl), vl);
  }
}
__attribute__((noinline)) static void saxpy(float f, long n) { for (long i = 0; i < n; i++) y[i] = f * x[i] + y[i]; }
__attribute__((noinline)) static void copy(long n) {
  for (long i = 0, vl; i < n; i += vl) {
    vl = __riscv_vsetvl_e8m8(n - i);
    __riscv_vse8_v_i8m8(t + i, __riscv_vle8_v_i8m8(s + i, vl), vl);
  }
}
__attribute__((noinline)) static int dot(long n) { int sum = 0; for (long i = 0; i < n; i++) sum += s[i] * t[i]; return sum; }
__attribute__((noinline)) static long length(const signed char *from) {
  const signed char *at = from;
  for (;;) {
    unsigned long vl;
    vint8m8_t v = __riscv_vle8ff_v_i8m8(at, &vl, __riscv_vsetvlmax_e8m8());
    long first = __riscv_vfirst_m_b1(__riscv_vmseq_vx_i8m8_b1(v, 0, vl), vl);
    if (first >= 0) return at - from + first;
    at += vl;
  }
}
__attribute__((noinline)) static void matmul(void) {
  for (long i = 0; i < M; i++)
    for (long k = 0; k < M; k++)
      for (long j = 0; j < M; j++) r[i * M + j] += p[i * M + k] * q[k * M + j];
}

static void fill(void) {
  for (long i = 0; i < N; i++) a[i] = i * 7, b[i] = ~i, x[i] = i & 255, y[i] = 1, s[i] = (i % 100) + 1, t[i] = (i & 7) - 3;
  s[N - 1] = 0;
  for (long i = 0; i < M * M; i++) p[i] = i & 15, q[i] = i & 7, r[i] = 0;
}
u64 run_vadd(u64 count) { fill(); for (u64 i = 0; i < count; i++) vadd(N); return c[777]; }
u64 run_saxpy(u64 count) { fill(); for (u64 i = 0; i < count; i++) saxpy(0.5f, N); return (u64)y[777]; }
u64 run_copy(u64 count) { fill(); for (u64 i = 0; i < count; i++) copy(N); return t[777]; }
u64 run_dot(u64 count) { fill(); u64 sum = 0; for (u64 i = 0; i < count; i++) { s[i & 255] ^= 1; sum += dot(N); } return sum; }
u64 run_length(u64 count) { fill(); u64 sum = 0; for (u64 i = 0; i < count; i++) sum += length(s + (i & 255)); return sum; }
u64 run_matmul(u64 count) { fill(); for (u64 i = 0; i < count; i++) matmul(); return (u64)r[777]; }

static void leave(long code) {
  register long a7 __asm__("a7") = 93, a0 __asm__("a0") = code;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory");
}

__attribute__((used)) void user_main(long *stack) {
  static u64 (*const table[])(u64) = {run_vadd, run_saxpy, run_copy, run_dot, run_length, run_matmul};
  char **arguments = (char **)(stack + 1);
  u64 count = 0;
  for (char *d = arguments[2]; *d; d++) count = count * 10 + (*d - '0');
  leave(table[arguments[1][0] - '0'](count) & 0x7f);
}
__asm__(".globl _start\n_start: mv a0, sp\n andi sp, sp, -16\n call user_main\n");
