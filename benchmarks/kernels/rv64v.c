/* Guest code for rv64_vectors.py: loops for RV64GCV, by intrinsics or left to the compiler. As a user program for
   qemu-riscv64, "rv64v WHICH COUNT" runs function WHICH (its place in the table) COUNT times. */
#include <riscv_vector.h>
typedef unsigned long u64;

#define N (1 << 20)
#define M 128

static int a[N], b[N], c[N];
static float x[N], y[N], p[M * M], q[M * M], r[M * M];
static signed char s[N], t[N];
static unsigned char rgb[3 * N], table[64];
static unsigned where[N];
static double z[N];

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
__attribute__((noinline)) static void divide(long n) { for (long i = 0; i < n; i++) c[i] = a[i] / (b[i] | 1); }
__attribute__((noinline)) static void gather(long n) {
  for (long i = 0, vl; i < n; i += vl) {
    vl = __riscv_vsetvl_e32m4(n - i);
    __riscv_vse32_v_i32m4(c + i, __riscv_vluxei32_v_i32m4(a, __riscv_vle32_v_u32m4(where + i, vl), vl), vl);
  }
}
__attribute__((noinline)) static void transpose(void) {
  for (long i = 0; i < M; i++)
    for (long j = 0, vl; j < M; j += vl) {
      vl = __riscv_vsetvl_e32m8(M - j);
      __riscv_vse32_v_f32m8(r + i * M + j, __riscv_vlse32_v_f32m8(p + j * M + i, 4 * M, vl), vl);
    }
}
__attribute__((noinline)) static void grey(long n) {
  for (long i = 0, vl; i < n; i += vl) {
    vl = __riscv_vsetvl_e8m2(n - i);
    vuint8m2_t red, green, blue;
    __riscv_vlseg3e8_v_u8m2(&red, &green, &blue, rgb + 3 * i, vl);
    vuint16m4_t sum = __riscv_vwmulu_vx_u16m4(red, 77, vl);
    sum = __riscv_vwmaccu_vx_u16m4(__riscv_vwmaccu_vx_u16m4(sum, 150, green, vl), 29, blue, vl);
    __riscv_vse8_v_u8m2((unsigned char *)t + i, __riscv_vnsrl_wx_u8m2(sum, 8, vl), vl);
  }
}
__attribute__((noinline)) static long keep(long n) {
  long kept = 0;
  for (long i = 0, vl; i < n; i += vl) {
    vl = __riscv_vsetvl_e32m4(n - i);
    vint32m4_t v = __riscv_vle32_v_i32m4(a + i, vl);
    vbool8_t odd = __riscv_vmsne_vx_i32m4_b8(__riscv_vand_vx_i32m4(v, 1, vl), 0, vl);
    __riscv_vse32_v_i32m4(c + kept, __riscv_vcompress_vm_i32m4(v, odd, vl), vl);
    kept += __riscv_vcpop_m_b8(odd, vl);
  }
  return kept;
}
__attribute__((noinline)) static double total(long n) {
  vfloat64m1_t sum = __riscv_vfmv_s_f_f64m1(0, 1);
  for (long i = 0, vl; i < n; i += vl) {
    vl = __riscv_vsetvl_e64m8(n - i);
    sum = __riscv_vfredosum_vs_f64m8_f64m1(__riscv_vle64_v_f64m8(z + i, vl), sum, vl);
  }
  return __riscv_vfmv_f_s_f64m1_f64(sum);
}
__attribute__((noinline)) static void prefix(long n) {
  int carry = 0;
  for (long i = 0, vl; i < n; i += vl) {
    vl = __riscv_vsetvl_e32m4(n - i);
    vint32m4_t v = __riscv_vle32_v_i32m4(a + i, vl), zero = __riscv_vmv_v_x_i32m4(0, vl);
    for (long by = 1; by < vl; by *= 2) v = __riscv_vadd_vv_i32m4(v, __riscv_vslideup_vx_i32m4(zero, v, by, vl), vl);
    v = __riscv_vadd_vx_i32m4(v, carry, vl);
    __riscv_vse32_v_i32m4(c + i, v, vl);
    carry = c[i + vl - 1];
  }
}
__attribute__((noinline)) static void look_up(long n) {
  vuint8m1_t by = __riscv_vle8_v_u8m1(table, __riscv_vsetvlmax_e8m1());
  for (long i = 0, vl; i < n; i += vl) {
    vl = __riscv_vsetvl_e8m1(n - i);
    vuint8m1_t v = __riscv_vle8_v_u8m1(rgb + i, vl);
    __riscv_vse8_v_u8m1((unsigned char *)t + i, __riscv_vrgather_vv_u8m1(by, v, vl), vl);
  }
}

static void fill(void) {
  for (long i = 0; i < N; i++) a[i] = i * 7, b[i] = ~i, x[i] = i & 255, y[i] = 1, s[i] = (i % 100) + 1, t[i] = (i & 7) - 3;
  s[N - 1] = 0;
  for (long i = 0; i < N; i++) where[i] = (i * 40503u & N - 1) * 4, z[i] = i & 31, rgb[i] = i * 5 & 63, rgb[N + i] = i, rgb[2 * N + i] = ~i;
  for (long i = 0; i < 64; i++) table[i] = i * i;
  for (long i = 0; i < M * M; i++) p[i] = i & 15, q[i] = i & 7, r[i] = 0;
}
u64 run_vadd(u64 count) { fill(); for (u64 i = 0; i < count; i++) vadd(N); return c[777]; }
u64 run_vadd_small(u64 count) { fill(); for (u64 i = 0; i < count; i++) vadd(4096); return c[777]; }
u64 run_saxpy(u64 count) { fill(); for (u64 i = 0; i < count; i++) saxpy(0.5f, N); return (u64)y[777]; }
u64 run_copy(u64 count) { fill(); for (u64 i = 0; i < count; i++) copy(N); return t[777]; }
u64 run_dot(u64 count) { fill(); u64 sum = 0; for (u64 i = 0; i < count; i++) { s[i & 255] ^= 1; sum += dot(N); } return sum; }
u64 run_length(u64 count) { fill(); u64 sum = 0; for (u64 i = 0; i < count; i++) sum += length(s + (i & 255)); return sum; }
u64 run_matmul(u64 count) { fill(); for (u64 i = 0; i < count; i++) matmul(); return (u64)r[777]; }
u64 run_divide(u64 count) { fill(); for (u64 i = 0; i < count; i++) divide(N); return c[777]; }
u64 run_gather(u64 count) { fill(); for (u64 i = 0; i < count; i++) gather(N); return c[777]; }
u64 run_transpose(u64 count) { fill(); for (u64 i = 0; i < count; i++) transpose(); return (u64)r[777]; }
u64 run_grey(u64 count) { fill(); for (u64 i = 0; i < count; i++) grey(N); return t[777]; }
u64 run_keep(u64 count) { fill(); u64 sum = 0; for (u64 i = 0; i < count; i++) sum += keep(N); return sum; }
u64 run_total(u64 count) { fill(); double sum = 0; for (u64 i = 0; i < count; i++) sum += total(N); return (u64)sum; }
u64 run_prefix(u64 count) { fill(); for (u64 i = 0; i < count; i++) prefix(N); return c[777]; }
u64 run_look_up(u64 count) { fill(); for (u64 i = 0; i < count; i++) look_up(N); return t[777]; }

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
  static u64 (*const runs[])(u64) = {run_vadd,   run_saxpy,     run_copy, run_dot,  run_length, run_matmul, run_divide,
                                     run_gather, run_transpose, run_grey, run_keep, run_total,  run_prefix, run_look_up, run_vadd_small};
  char **arguments = (char **)(stack + 1);
  leave(runs[number(arguments[1])](number(arguments[2])) & 0x7f);
}
__asm__(".globl _start\n_start: mv a0, sp\n andi sp, sp, -16\n call user_main\n");
