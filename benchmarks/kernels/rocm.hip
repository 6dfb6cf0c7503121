// What ROCm programs do all the time, timed by the program itself: the argument names it, numbers are printed.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if (call) exit(3);                                                                                             \
    } while (0)

static double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void say() { printf("said\n"); }

// 64 x 64 results by 16 x 16 lanes, 4 x 4 each, tiles in LDS.
__global__ void sgemm(const float *a, const float *b, float *c, int n) {
    __shared__ float tile_a[16][64], tile_b[16][64];
    int x = threadIdx.x, y = threadIdx.y, lane = y * 16 + x, row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k = 0; k < n; k += 16) {
        for (int i = lane; i < 1024; i += 256) {
            tile_a[i % 16][i / 16] = a[(row + i / 16) * n + k + i % 16];
            tile_b[i / 64][i % 64] = b[(k + i / 64) * n + column + i % 64];
        }
        __syncthreads();
        for (int i = 0; i < 16; i++)
            for (int r = 0; r < 4; r++)
                for (int s = 0; s < 4; s++) sum[r][s] += tile_a[i][y * 4 + r] * tile_b[i][x * 4 + s];
        __syncthreads();
    }
    for (int r = 0; r < 4; r++)
        for (int s = 0; s < 4; s++) c[(row + y * 4 + r) * n + column + x * 4 + s] = sum[r][s];
}

static void calls(int count) { // microseconds of a launch alone, and of one that is waited for
    float *x;
    CHECK(hipMalloc((void **)&x, 1024));
    for (int round = 0; round < 3; round++) {
        double start = now();
        for (int i = 0; i < count; i++) add<<<1, 64>>>(x, x, x, 64);
        double launched = now();
        CHECK(hipDeviceSynchronize());
        double done = now();
        for (int i = 0; i < count / 10; i++) {
            add<<<1, 64>>>(x, x, x, 64);
            CHECK(hipDeviceSynchronize());
        }
        double waited = now();
        if (round)
            printf("%g %g %g\n", (launched - start) / count * 1e6, (done - start) / count * 1e6,
                   (waited - done) / (count / 10) * 1e6);
    }
}

static void copies(size_t size) { // seconds to the GPU, and back
    std::vector<char> host(size, 5);
    char *device;
    CHECK(hipMalloc((void **)&device, size));
    for (int round = 0; round < 4; round++) {
        double start = now();
        CHECK(hipMemcpy(device, host.data(), size, hipMemcpyHostToDevice));
        double there = now();
        CHECK(hipMemcpy(host.data(), device, size, hipMemcpyDeviceToHost));
        if (round) printf("%g %g\n", there - start, now() - there);
    }
}

static void vector(int n) {
    std::vector<float> a(n, 1), b(n, 2), c(n);
    float *x, *y, *z;
    CHECK(hipMalloc((void **)&x, 4 * n));
    CHECK(hipMalloc((void **)&y, 4 * n));
    CHECK(hipMalloc((void **)&z, 4 * n));
    CHECK(hipMemcpy(x, a.data(), 4 * n, hipMemcpyHostToDevice));
    CHECK(hipMemcpy(y, b.data(), 4 * n, hipMemcpyHostToDevice));
    add<<<(n + 255) / 256, 256>>>(x, y, z, n);
    CHECK(hipMemcpy(c.data(), z, 4 * n, hipMemcpyDeviceToHost));
    for (float each : c)
        if (each != 3) exit(4);
}

static void product(int n) { // seconds of each
    std::vector<float> a(n * n, 1), c(n * n);
    float *x, *z;
    CHECK(hipMalloc((void **)&x, 4 * n * n));
    CHECK(hipMalloc((void **)&z, 4 * n * n));
    CHECK(hipMemcpy(x, a.data(), 4 * n * n, hipMemcpyHostToDevice));
    for (int round = 0; round < 6; round++) {
        double start = now();
        sgemm<<<dim3(n / 64, n / 64), dim3(16, 16)>>>(x, x, z, n);
        CHECK(hipDeviceSynchronize());
        if (round) printf("%g\n", now() - start);
    }
    CHECK(hipMemcpy(c.data(), z, 4 * n * n, hipMemcpyDeviceToHost));
    for (float each : c)
        if (each != n) exit(4);
}

int main(int count, char **words) {
    int size = count > 2 ? atoi(words[2]) : 0;
    if (!strcmp(words[1], "calls")) calls(size);
    if (!strcmp(words[1], "copies")) copies((size_t)size << 20);
    if (!strcmp(words[1], "vector")) vector(size);
    if (!strcmp(words[1], "product")) product(size);
    if (!strcmp(words[1], "text")) {
        say<<<1, 1>>>();
        CHECK(hipDeviceSynchronize());
    }
    return 0;
}
