// Small HIP programs in one: each argument names one, which says whether what came out is right.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        hipError_t error = (call);                                                                                     \
        if (error != hipSuccess) {                                                                                     \
            printf("%s: %s\n", #call, hipGetErrorString(error));                                                       \
            exit(3);                                                                                                   \
        }                                                                                                              \
    } while (0)

constexpr int N = 20000;

template <class T> T *on_device(const std::vector<T> &values) {
    T *made;
    CHECK(hipMalloc((void **)&made, values.size() * sizeof(T)));
    CHECK(hipMemcpy(made, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
    return made;
}

template <class T> std::vector<T> back(const T *device, size_t count) {
    std::vector<T> values(count);
    CHECK(hipMemcpy(values.data(), device, count * sizeof(T), hipMemcpyDeviceToHost));
    return values;
}

std::vector<float> ramp(int count, float step, float start = 0) {
    std::vector<float> made(count);
    for (int i = 0; i < count; i++) made[i] = start + step * i;
    return made;
}

__global__ void saxpy_kernel(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaf(a, x[i], y[i]);
}

int saxpy() {
    auto x = ramp(N, .25f), y = ramp(N, 1);
    float *device_x = on_device(x), *device_y = on_device(y);
    saxpy_kernel<<<(N + 127) / 128, 128>>>(3, device_x, device_y, N);
    auto got = back(device_y, N);
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += got[i] != fmaf(3, x[i], y[i]);
    CHECK(hipFree(device_x));
    CHECK(hipFree(device_y));
    return wrong;
}

__global__ void reduction_kernel(const float *x, float *sum, int n) {
    __shared__ float part[256];
    int t = threadIdx.x;
    float mine = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) mine += x[i];
    part[t] = mine;
    __syncthreads();
    for (int step = 128; step; step >>= 1) {
        if (t < step) part[t] += part[t + step];
        __syncthreads();
    }
    if (!t) atomicAdd(sum, part[0]);
}

int reduction() {
    float *x = on_device(std::vector<float>(N, 1)), *sum = on_device(std::vector<float>(1, 0));
    reduction_kernel<<<16, 256>>>(x, sum, N);
    return back(sum, 1)[0] != N;
}

__global__ void matmul_kernel(const float *a, const float *b, float *c, int n) {
    __shared__ float tile_a[16][16], tile_b[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int t = 0; t < n; t += 16) {
        tile_a[y][x] = a[row * n + t + x];
        tile_b[y][x] = b[(t + y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += tile_a[y][i] * tile_b[i][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

int matmul() {
    constexpr int n = 64;
    std::vector<float> a(n * n), b(n * n);
    for (int i = 0; i < n * n; i++) a[i] = i % 7, b[i] = i % 5;
    float *c = on_device(std::vector<float>(n * n));
    matmul_kernel<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(on_device(a), on_device(b), c, n);
    auto got = back(c, n * n);
    int wrong = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
            wrong += sum != got[i * n + j];
        }
    return wrong;
}

__global__ void private_kernel(int *out, int m) {
    int mine[64], sum = 0;
    for (int i = 0; i < 64; i++) mine[i] = i * threadIdx.x;
    for (int i = 0; i < 64; i++) sum += mine[(i * m + threadIdx.x) & 63] * (i + 1);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

int private_memory() {
    int *out = on_device(std::vector<int>(512));
    private_kernel<<<8, 64>>>(out, 3);
    auto got = back(out, 512);
    int wrong = 0;
    for (int t = 0; t < 512; t++) {
        int sum = 0, lane = t % 64;
        for (int i = 0; i < 64; i++) sum += ((i * 3 + lane) & 63) * lane * (i + 1);
        wrong += sum != got[t];
    }
    return wrong;
}

__device__ int table[4] = {1, 2, 3, 4};
__constant__ int constants[4];
__global__ void symbols_kernel(int *out) { out[threadIdx.x] = table[threadIdx.x] + constants[threadIdx.x]; }

int symbols() {
    int values[4] = {10, 20, 30, 40}, wrong = 0;
    int *out = on_device(std::vector<int>(4));
    CHECK(hipMemcpyToSymbol(HIP_SYMBOL(constants), values, sizeof values));
    symbols_kernel<<<1, 4>>>(out);
    auto got = back(out, 4);
    for (int i = 0; i < 4; i++) wrong += got[i] != 11 * (i + 1);
    return wrong;
}

__global__ void doubles_kernel(const double *x, double *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = sin(x[i]) + exp(x[i]) / sqrt(x[i]);
}

int doubles() {
    std::vector<double> x(1000);
    for (int i = 0; i < 1000; i++) x[i] = .01 + i * .005;
    double *y = on_device(std::vector<double>(1000));
    doubles_kernel<<<4, 256>>>(on_device(x), y, 1000);
    auto got = back(y, 1000);
    int wrong = 0;
    for (int i = 0; i < 1000; i++) wrong += fabs(got[i] / (sin(x[i]) + exp(x[i]) / sqrt(x[i])) - 1) > 1e-15;
    return wrong;
}

int streams() {
    hipStream_t stream[4];
    float *device[4], *host[4];
    for (int k = 0; k < 4; k++) {
        CHECK(hipStreamCreate(&stream[k]));
        CHECK(hipMalloc((void **)&device[k], 4 * N));
        CHECK(hipHostMalloc((void **)&host[k], 4 * N));
        for (int i = 0; i < N; i++) host[k][i] = i + k;
    }
    for (int k = 0; k < 4; k++) {
        CHECK(hipMemcpyAsync(device[k], host[k], 4 * N, hipMemcpyHostToDevice, stream[k]));
        saxpy_kernel<<<(N + 127) / 128, 128, 0, stream[k]>>>(1, device[k], device[k], N);
        CHECK(hipMemcpyAsync(host[k], device[k], 4 * N, hipMemcpyDeviceToHost, stream[k]));
    }
    CHECK(hipDeviceSynchronize());
    int wrong = 0;
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < N; i++) wrong += host[k][i] != 2.f * (i + k);
        CHECK(hipStreamDestroy(stream[k]));
    }
    return wrong;
}

int registered() { // the program's own memory, at odd addresses
    float *x = (float *)malloc(4 * N + 64) + 3, *y = new float[N], *device_x, *device_y;
    for (int i = 0; i < N; i++) x[i] = i, y[i] = 1;
    CHECK(hipHostRegister(x, 4 * N, 0));
    CHECK(hipHostRegister(y, 4 * N, 0));
    CHECK(hipHostGetDevicePointer((void **)&device_x, x, 0));
    CHECK(hipHostGetDevicePointer((void **)&device_y, y, 0));
    saxpy_kernel<<<(N + 127) / 128, 128>>>(2, device_x, device_y, N);
    CHECK(hipDeviceSynchronize());
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += y[i] != 2 * x[i] + 1;
    CHECK(hipHostUnregister(x));
    CHECK(hipHostUnregister(y));
    free(x - 3);
    delete[] y;
    return wrong;
}

int managed() {
    float *x, *y;
    CHECK(hipMallocManaged((void **)&x, 4 * N));
    CHECK(hipMallocManaged((void **)&y, 4 * N));
    for (int i = 0; i < N; i++) x[i] = i, y[i] = 1;
    saxpy_kernel<<<(N + 127) / 128, 128>>>(2, x, y, N);
    CHECK(hipDeviceSynchronize());
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += y[i] != 2 * x[i] + 1;
    return wrong;
}

__global__ void waiting_kernel(volatile int *flag, volatile int *begun, int *out) {
    *begun = 1;
    __threadfence_system();
    while (!*flag) {}
    *out = 7;
}

int allocation_beside_a_kernel() { // that waits for the host
    int *flags, *more;
    CHECK(hipHostMalloc((void **)&flags, 4096, hipHostMallocCoherent));
    memset(flags, 0, 4096);
    waiting_kernel<<<1, 1>>>(flags, flags + 64, flags + 128);
    while (!*(volatile int *)(flags + 64)) {}
    CHECK(hipMalloc((void **)&more, 4 << 20));
    *(volatile int *)flags = 1;
    CHECK(hipDeviceSynchronize());
    return flags[128] != 7;
}

int copies_beside_a_kernel() { // that waits for the host, while others are launched and copied for
    int *flags, *more;
    hipStream_t waiting, other;
    CHECK(hipStreamCreateWithFlags(&waiting, hipStreamNonBlocking));
    CHECK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
    CHECK(hipHostMalloc((void **)&flags, 4096, hipHostMallocCoherent));
    memset(flags, 0, 4096);
    waiting_kernel<<<1, 1, 0, waiting>>>(flags, flags + 64, flags + 128);
    while (!*(volatile int *)(flags + 64)) {}
    std::vector<int> host(N), got(N);
    for (int i = 0; i < N; i++) host[i] = i;
    CHECK(hipMalloc((void **)&more, 4 * N));
    CHECK(hipMemcpyAsync(more, host.data(), 4 * N, hipMemcpyHostToDevice, other));
    symbols_kernel<<<1, 4, 0, other>>>(more);
    CHECK(hipMemcpyAsync(got.data(), more, 4 * N, hipMemcpyDeviceToHost, other));
    CHECK(hipStreamSynchronize(other));
    int wrong = flags[128] != 0;
    for (int i = 4; i < N; i++) wrong += got[i] != i;
    CHECK(hipStreamDestroy(other));
    *(volatile int *)flags = 1;
    CHECK(hipStreamSynchronize(waiting));
    CHECK(hipStreamDestroy(waiting));
    return wrong + (flags[128] != 7);
}

__global__ void timed_kernel(long long *out, long long ticks) {
    long long start = clock64(), now = start;
    while (now - start < ticks) now = clock64();
    *out = now - start;
}

int clocks() { // a kernel that spins for a time
    long long *out = on_device(std::vector<long long>(1));
    timed_kernel<<<1, 1>>>(out, 20000000);
    return back(out, 1)[0] < 20000000;
}

int rectangles() {
    constexpr int width = 40, height = 30, pitch = 64;
    std::vector<int> host(width * height), got(width * height);
    for (int i = 0; i < width * height; i++) host[i] = i;
    int *device;
    CHECK(hipMalloc((void **)&device, pitch * 4 * height));
    CHECK(hipMemset(device, 0xFF, pitch * 4 * height));
    CHECK(hipMemcpy2D(device, pitch * 4, host.data(), width * 4, width * 4, height, hipMemcpyHostToDevice));
    CHECK(hipMemcpy2D(got.data(), width * 4, device, pitch * 4, width * 4, height, hipMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < width * height; i++) wrong += got[i] != i;
    auto whole = back(device, pitch * height);
    for (int y = 0; y < height; y++) wrong += whole[y * pitch + width] != -1;
    return wrong;
}

int fills() {
    unsigned *device;
    CHECK(hipMalloc((void **)&device, 4 * N));
    CHECK(hipMemset(device, 0x5A, 4 * N));
    CHECK(hipMemsetD32((hipDeviceptr_t)(device + 3), 77, 1001));
    auto got = back(device, N);
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += got[i] != (i >= 3 && i < 1004 ? 77u : 0x5A5A5A5Au);
    return wrong;
}

__global__ void atomics_kernel(int *out, unsigned long long *wide) {
    atomicAdd(out, 1);
    atomicMax(out + 1, (int)threadIdx.x);
    atomicXor(out + 2, 1 << (threadIdx.x & 15));
    int seen = out[3], expected;
    do expected = seen, seen = atomicCAS(out + 3, expected, expected + 2);
    while (seen != expected);
    atomicAdd(wide, 1ull << 32);
}

int atomics() {
    int *out = on_device(std::vector<int>(4, 0));
    auto wide = on_device(std::vector<unsigned long long>(1, 5));
    atomics_kernel<<<4, 128>>>(out, wide);
    auto got = back(out, 4);
    return (got[0] != 512) + (got[1] != 127) + (got[2] != 0) + (got[3] != 1024) + (back(wide, 1)[0] != 5 + (512ull << 32));
}

__global__ void lanes_kernel(int *out, unsigned long long *votes) {
    extern __shared__ int shared[];
    int t = threadIdx.x;
    shared[t] = __shfl_xor(t, 5) + 100 * __shfl_up(t, 1);
    __syncthreads();
    out[t] = shared[63 - t];
    if (!t) votes[0] = __ballot(1), votes[1] = __popcll(__ballot(t < 70));
    if (t % 3 == 0) votes[2] = __ballot(1);
}

int lanes() {
    int *out = on_device(std::vector<int>(64)), wrong = 0;
    auto votes = on_device(std::vector<unsigned long long>(3));
    lanes_kernel<<<1, 64, 256>>>(out, votes);
    auto got = back(out, 64);
    for (int i = 0; i < 64; i++) {
        int t = 63 - i;
        wrong += got[i] != (t ^ 5) + 100 * (t ? t - 1 : 0);
    }
    auto seen = back(votes, 3);
    return wrong + (seen[0] != 1) + (seen[1] != 1) + (seen[2] != 0x9249249249249249ull);
}

int elapsed() {
    hipEvent_t start, stop;
    CHECK(hipEventCreate(&start));
    CHECK(hipEventCreate(&stop));
    float *x = on_device(ramp(N, 1)), milliseconds = -1;
    CHECK(hipEventRecord(start, 0));
    for (int i = 0; i < 20; i++) saxpy_kernel<<<(N + 127) / 128, 128>>>(2, x, x, N);
    CHECK(hipEventRecord(stop, 0));
    CHECK(hipEventSynchronize(stop));
    CHECK(hipEventElapsedTime(&milliseconds, start, stop));
    return !(milliseconds > 0 && milliseconds < 600000);
}

__global__ void text_kernel(int n) {
    if (threadIdx.x < 2) printf("lane %d: %d %.2f %s\n", (int)threadIdx.x, n, n * .5, "text");
}

int text() { // a test looks at what is said
    text_kernel<<<1, 64>>>(42);
    CHECK(hipDeviceSynchronize());
    return 0;
}

int child_process() {
    int *device = on_device(std::vector<int>(4, 1)), status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (!child) _exit(7);
    waitpid(child, &status, 0);
    CHECK(hipMemset(device, 2, 4));
    return (back(device, 1)[0] != 0x02020202) + (WEXITSTATUS(status) != 7);
}

int agents() { // a copy from each to the next
    int count = 0, wrong = 0;
    CHECK(hipGetDeviceCount(&count));
    for (int each = 0; each < count; each++) {
        hipDeviceProp_t properties;
        CHECK(hipSetDevice(each));
        CHECK(hipGetDeviceProperties(&properties, each));
        printf("agent %d: %s\n", each, properties.gcnArchName);
        wrong += saxpy();
    }
    CHECK(hipSetDevice(0));
    return wrong;
}

__global__ void wild_kernel(int *p) { p[-(1ll << 34)] = 1; } // behind it there may be no addresses of programs
__global__ void abort_kernel() { abort(); }
__global__ void endless_kernel(volatile int *p, int *begun) {
    __hip_atomic_store(begun, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
    while (!*p) {}
}

__global__ void beyond_kernel(int *p, int step) { p[threadIdx.x * step] = 1; }

int beyond() { // of its allocation, by what 12 lanes store
    int *p;
    CHECK(hipMalloc((void **)&p, 4096));
    beyond_kernel<<<1, 64>>>(p, 20);
    CHECK(hipDeviceSynchronize());
    return 1;
}

int wild() {
    wild_kernel<<<1, 64>>>(on_device(std::vector<int>(4)));
    CHECK(hipDeviceSynchronize());
    return 1;
}

int device_abort() {
    abort_kernel<<<1, 64>>>();
    CHECK(hipDeviceSynchronize());
    return 1;
}

int endless() {
    int *flag = on_device(std::vector<int>(4, 0));
    int *begun; // in memory of the host: the kernel itself tells that it runs
    CHECK(hipHostMalloc((void **)&begun, sizeof *begun, hipHostMallocCoherent));
    *begun = 0;
    endless_kernel<<<1, 64>>>(flag, begun);
    while (!__atomic_load_n(begun, __ATOMIC_ACQUIRE)) {}
    printf("begun\n");
    fflush(stdout);
    CHECK(hipDeviceSynchronize());
    return 1;
}

int crash() {
    saxpy();
    fflush(stdout);
    *(volatile int *)8 = 1;
    return 1;
}

int main(int count, char **names) {
    const std::map<std::string, std::function<int()>> programs = {
        {"saxpy", saxpy}, {"reduction", reduction}, {"matmul", matmul}, {"private_memory", private_memory},
        {"symbols", symbols}, {"doubles", doubles}, {"streams", streams}, {"registered", registered},
        {"managed", managed}, {"allocation_beside_a_kernel", allocation_beside_a_kernel},
        {"copies_beside_a_kernel", copies_beside_a_kernel}, {"clocks", clocks}, {"rectangles", rectangles}, {"fills", fills}, {"atomics", atomics}, {"lanes", lanes}, {"elapsed", elapsed},
        {"text", text}, {"child_process", child_process}, {"agents", agents}, {"wild", wild}, {"beyond", beyond},
        {"device_abort", device_abort}, {"endless", endless}, {"crash", crash},
    };
    int failed = 0;
    for (int each = 1; each < count; each++) {
        int wrong = programs.at(names[each])();
        printf("%s: %s\n", names[each], wrong ? "WRONG" : "right");
        fflush(stdout);
        failed += wrong != 0;
    }
    return failed;
}
