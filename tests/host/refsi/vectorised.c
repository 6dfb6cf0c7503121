/* Loops that compilers turn into vector instructions, for the host and for RV64GCV: `tests/host/refsi/test_vectors.py`. */
#define LOOP for (long i = 0; i < n; i++)
typedef unsigned char u8;
typedef short i16;
typedef long i64;

void saxpy(long id, float *a, const float *b, const float *c, long n) { LOOP a[i] = 2.5f * b[i] + c[i]; }
void quotient(long id, double *a, const double *b, const double *c, long n) { LOOP a[i] = b[i] / c[i] - __builtin_sqrt(c[i] * c[i]); }
void dot(long id, int *a, const signed char *b, const signed char *c, long n) {
  int sum = 0;
  LOOP sum += b[i] * c[i];
  a[0] = sum;
}
void total(long id, i64 *a, const int *b, const int *c, long n) {
  i64 sum = 0, most = b[0];
  LOOP { sum += b[i]; most = b[i] > most ? b[i] : most; }
  a[0] = sum, a[1] = most;
}
void divide(long id, int *a, const int *b, const int *c, long n) { LOOP a[i] = b[i] / (c[i] | 1) + b[i] % 7; }
void choose(long id, float *a, const float *b, const float *c, long n) { LOOP if (b[i] < c[i]) a[i] = b[i]; else if (c[i] != 0) a[i] += c[i]; }
void reverse(long id, i16 *a, const i16 *b, const i16 *c, long n) { LOOP a[i] = b[n - 1 - i] ^ c[i]; }
void stride(long id, int *a, const int *b, const int *c, long n) { for (long i = 0; i < n / 3; i++) a[i] = b[3 * i] + b[3 * i + 1] * c[3 * i + 2]; }
void gather(long id, int *a, const int *b, const unsigned *c, long n) { LOOP a[i] = b[c[i] % 256] + 1; }
void convert(long id, int *a, const double *b, const float *c, long n) { LOOP a[i] = (int)(b[i] * 3) + (int)c[i]; }
void widen(long id, double *a, const float *b, const int *c, long n) { LOOP a[i] = (double)b[i] * c[i]; }
void narrow(long id, u8 *a, const int *b, const i16 *c, long n) { LOOP { int v = (b[i] >> 9) + c[i]; a[i] = v < 0 ? 0 : v > 255 ? 255 : v; } }
void shift(long id, unsigned *a, const unsigned *b, const unsigned *c, long n) { LOOP a[i] = b[i] << (c[i] & 31) | b[i] >> (-c[i] & 31); }
void copy(long id, u8 *a, const u8 *b, const u8 *c, long n) { LOOP a[i] = b[i]; }
void pairs(long id, int *a, const int *b, const int *c, long n) { for (long i = 0; i < n / 2; i++) { a[2 * i] = b[2 * i + 1]; a[2 * i + 1] = c[2 * i]; } }
void matmul(long id, float *a, const float *b, const float *c, long n) {
  for (long i = 0; i < 16; i++) for (long j = 0; j < 16; j++) {
    float s = 0;
    for (long k = 0; k < 16; k++) s += b[16 * i + k] * c[16 * k + j];
    a[16 * i + j] = s;
  }
}
