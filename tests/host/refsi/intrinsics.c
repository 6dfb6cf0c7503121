/* Functions by intrinsics for RV64GCV, and as plain C for the host: `tests/host/refsi/test_vectors.py`. */
typedef signed char i8;
typedef long i64;

#ifdef __riscv
#include <riscv_vector.h>
#define STRIPS(type) for (long i = 0, vl; vl = __riscv_vsetvl_##type(n - i), i < n; i += vl)
#define I32(at) __riscv_vle32_v_i32m4(at, vl)

void length(long id, i64 *a, const i8 *b, const i8 *c, long n) {
  for (unsigned long i = 0, vl; i < n; i += vl) {
    vint8m8_t v = __riscv_vle8ff_v_i8m8(b + i, &vl, __riscv_vsetvl_e8m8(n - i));
    long first = __riscv_vfirst_m_b1(__riscv_vmseq_vx_i8m8_b1(v, 0, vl), vl);
    a[0] = i + (first < 0 ? vl : first);
    if (first >= 0) break;
  }
}
void keep(long id, int *a, const int *b, const int *c, long n) {
  STRIPS(e32m4) {
    vbool8_t odd = __riscv_vmsne_vx_i32m4_b8(__riscv_vand_vx_i32m4(I32(c + i), 1, vl), 0, vl);
    long kept = __riscv_vcpop_m_b8(odd, vl);
    __riscv_vse32_v_i32m4(a, __riscv_vcompress_vm_i32m4(I32(b + i), odd, vl), kept);
    a += kept;
  }
}
void rank(long id, int *a, const int *b, const int *c, long n) {
  int before = 0;
  STRIPS(e32m4) {
    vbool8_t odd = __riscv_vmsne_vx_i32m4_b8(__riscv_vand_vx_i32m4(I32(b + i), 1, vl), 0, vl);
    vint32m4_t ranks = __riscv_vreinterpret_v_u32m4_i32m4(__riscv_viota_m_u32m4(odd, vl));
    __riscv_vse32_v_i32m4(a + i, __riscv_vadd_vx_i32m4(ranks, before, vl), vl);
    before += __riscv_vcpop_m_b8(odd, vl);
  }
}
void order(long id, double *a, const double *b, const double *c, long n) {
  vfloat64m1_t sum = __riscv_vfmv_s_f_f64m1(0, 1);
  STRIPS(e64m8) sum = __riscv_vfredosum_vs_f64m8_f64m1(__riscv_vle64_v_f64m8(b + i, vl), sum, vl);
  a[0] = __riscv_vfmv_f_s_f64m1_f64(sum);
}
void prefix(long id, int *a, const int *b, const int *c, long n) {
  int carry = 0;
  STRIPS(e32m4) {
    vint32m4_t v = I32(b + i), zero = __riscv_vmv_v_x_i32m4(0, vl);
    for (long by = 1; by < vl; by *= 2) v = __riscv_vadd_vv_i32m4(v, __riscv_vslideup_vx_i32m4(zero, v, by, vl), vl);
    __riscv_vse32_v_i32m4(a + i, __riscv_vadd_vx_i32m4(v, carry, vl), vl);
    carry = a[i + vl - 1];
  }
}
void difference(long id, int *a, const int *b, const int *c, long n) {
  int last = 0;
  STRIPS(e32m4) {
    vint32m4_t v = I32(b + i);
    __riscv_vse32_v_i32m4(a + i, __riscv_vsub_vv_i32m4(v, __riscv_vslide1up_vx_i32m4(v, last, vl), vl), vl);
    last = b[i + vl - 1];
  }
}
void look_up(long id, i8 *a, const i8 *b, const i8 *c, long n) {
  vint8m1_t table = __riscv_vle8_v_i8m1(b, 64);
  STRIPS(e8m1) {
    vuint8m1_t at = __riscv_vreinterpret_v_i8m1_u8m1(__riscv_vand_vx_i8m1(__riscv_vle8_v_i8m1(c + i, vl), 63, vl));
    __riscv_vse8_v_i8m1(a + i, __riscv_vrgather_vv_i8m1(table, at, vl), vl);
  }
}
void scatter(long id, int *a, const int *b, const int *c, long n) {
  STRIPS(e32m4) {
    vuint32m4_t at = __riscv_vreinterpret_v_i32m4_u32m4(__riscv_vand_vx_i32m4(I32(c + i), 1020, vl));
    __riscv_vsoxei32_v_i32m4(a, at, I32(b + i), vl);
  }
}
void comb(long id, int *a, const int *b, const int *c, long n) {
  n /= 3;
  STRIPS(e32m4) __riscv_vsse32_v_i32m4(a + 3 * i, 12, __riscv_vlse32_v_i32m4(b + 3 * i + 1, 12, vl), vl);
}
void remainders(long id, int *a, const int *b, const int *c, long n) {
  STRIPS(e32m4) __riscv_vse32_v_i32m4(a + i, __riscv_vrem_vv_i32m4(I32(b + i), __riscv_vor_vx_i32m4(I32(c + i), 2, vl), vl), vl);
}
#else
void length(long id, i64 *a, const i8 *b, const i8 *c, long n) { for (a[0] = 0; a[0] < n && b[a[0]]; a[0]++); }
void keep(long id, int *a, const int *b, const int *c, long n) { for (long i = 0; i < n; i++) if (c[i] & 1) *a++ = b[i]; }
void rank(long id, int *a, const int *b, const int *c, long n) { for (int i = 0, k = 0; i < n; i++) a[i] = k, k += b[i] & 1; }
void order(long id, double *a, const double *b, const double *c, long n) { double s = 0; for (long i = 0; i < n; i++) s += b[i]; a[0] = s; }
void prefix(long id, int *a, const int *b, const int *c, long n) { int s = 0; for (long i = 0; i < n; i++) a[i] = s += b[i]; }
void difference(long id, int *a, const int *b, const int *c, long n) { for (long i = 0; i < n; i++) a[i] = b[i] - (i ? b[i - 1] : 0); }
void look_up(long id, i8 *a, const i8 *b, const i8 *c, long n) { for (long i = 0; i < n; i++) a[i] = b[c[i] & 63]; }
void scatter(long id, int *a, const int *b, const int *c, long n) { for (long i = 0; i < n; i++) a[(c[i] & 1020) / 4] = b[i]; }
void comb(long id, int *a, const int *b, const int *c, long n) { for (long i = 0; i < n / 3; i++) a[3 * i] = b[3 * i + 1]; }
void remainders(long id, int *a, const int *b, const int *c, long n) { for (long i = 0; i < n; i++) a[i] = b[i] % (c[i] | 2); }
#endif
