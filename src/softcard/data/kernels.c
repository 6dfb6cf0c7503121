/* Kernels of `softcard demo` and of the examples, in the RUN_INSTANCES form of the RefSi command processor: the first
 * argument is the instance id, up to seven more follow. Kernels launched over a grid of more than one dimension
 * take the slice number as their second argument.
 *
 * Built for the harts of RefSi M1 and linked where the driver's ELF window begins; README.md holds the command.
 */
typedef unsigned long u64;
typedef unsigned int u32;
typedef int i32;

enum { EXIT = 0, PUTS = 1, BARRIER = 2 };

static inline void host_call(u64 operation, u64 value)
{
    register u64 a0 __asm__("a0") = value;
    register u64 a7 __asm__("a7") = operation;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory");
}

/* c[i] = a[i] + b[i] over the instance's share of n elements */
void vector_add(u64 id, const i32 *a, const i32 *b, i32 *c, u64 n)
{
    a += id * n, b += id * n, c += id * n;
    for (u64 i = 0; i < n; i++)
        c[i] = a[i] + b[i];
}

/* y[i] = alpha * x[i] + y[i]; alpha comes as the bits of a float, since arguments travel in integer registers */
void saxpy(u64 id, u64 alpha_bits, const float *x, float *y, u64 n)
{
    union { u32 bits; float value; } alpha = { (u32)alpha_bits };
    x += id * n, y += id * n;
    for (u64 i = 0; i < n; i++)
        y[i] = __builtin_fmaf(alpha.value, x[i], y[i]);
}

/* one row of C = A B per instance, n by n */
void matmul_f32(u64 row, const float *a, const float *b, float *c, u64 n)
{
    for (u64 j = 0; j < n; j++) {
        float sum = 0;
        for (u64 k = 0; k < n; k++)
            sum = __builtin_fmaf(a[row * n + k], b[k * n + j], sum);
        c[row * n + j] = sum;
    }
}

/* escape times of z = z*z + c: one pixel column per instance, one row per slice */
void mandelbrot(u64 x, u64 y, u32 *out, u64 width, u64 height, u64 limit)
{
    double cr = 3.0 * (double)(long)x / (double)(long)width - 2.25;
    double ci = 2.5 * (double)(long)y / (double)(long)height - 1.25;
    double zr = 0, zi = 0;
    u32 steps = 0;
    while (steps < limit && zr * zr + zi * zi < 4.0) {
        double next = zr * zr - zi * zi + cr;
        zi = 2 * zr * zi + ci;
        zr = next;
        steps++;
    }
    out[y * width + x] = steps;
}

/* counts of byte values, shared by all harts through atomic adds */
void histogram(u64 id, const unsigned char *data, u32 *bins, u64 n)
{
    data += id * n;
    for (u64 i = 0; i < n; i++)
        __atomic_fetch_add(&bins[data[i]], 1, __ATOMIC_RELAXED);
}

/* CRC-32 (reflected 0xEDB88320) of the instance's share, bit by bit: a pure integer loop */
void crc32(u64 id, const unsigned char *data, u32 *out, u64 n)
{
    u32 crc = ~0u;
    data += id * n;
    for (u64 i = 0; i < n; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xEDB88320u & -(crc & 1));
    }
    out[id] = ~crc;
}

/* sum of one array by all instances of one group: partial sums, a barrier, then instance 0 adds up */
void barrier_sum(u64 id, const i32 *data, u64 n, long *partial, long *total, u64 instances)
{
    long sum = 0;
    for (u64 i = id; i < n; i += instances)
        sum += data[i];
    partial[id] = sum;
    host_call(BARRIER, 1);
    if (id == 0) {
        long all = 0;
        for (u64 i = 0; i < instances; i++)
            all += partial[i];
        *total = all;
    }
}

/* the instance's greeting, printed by the host */
void hello(u64 id, const char *text)
{
    (void)id;
    host_call(PUTS, (u64)text);
}

/* a kernel with a bug: instance `bad` stores behind the end of device memory */
void broken(u64 id, i32 *out, u64 bad)
{
    if (id == bad)
        out = (i32 *)0x200000000ul;
    out[id] = (i32)id;
}

/* a kernel that gives up with a code of its own */
void gives_up(u64 id, u64 code)
{
    (void)id;
    host_call(EXIT, code);
}

/* vector_add by vector instructions, as many elements at a time as eight registers hold */
void vector_add_rvv(u64 id, const i32 *a, const i32 *b, i32 *c, u64 n)
{
    a += id * n, b += id * n, c += id * n;
    for (u64 vl; n; n -= vl, a += vl, b += vl, c += vl)
        __asm__ volatile(".option push; .option arch, +v;"
                         "vsetvli %0, %1, e32, m8, ta, ma;"
                         "vle32.v v8, (%2); vle32.v v16, (%3); vadd.vv v8, v8, v16; vse32.v v8, (%4);"
                         ".option pop"
                         : "=&r"(vl) : "r"(n), "r"(a), "r"(b), "r"(c) : "memory");
}
