// Parts of the run-time library, a small program each: an argument names one, which says if it is right.
#include <hip/hip_runtime.h> // before the others, which need it
#include <hip/hip_cooperative_groups.h>
#include <hip/hip_fp16.h>
#include <hip/hiprtc.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        hipError_t error = (call);                                                                                     \
        if (error != hipSuccess) {                                                                                     \
            printf("%s: %s\n", #call, hipGetErrorString(error));                                                       \
            exit(3);                                                                                                   \
        }                                                                                                              \
    } while (0)

constexpr int N = 4096;
using Wide = unsigned long long;

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

template <class T> int unlike(const std::vector<T> &got, std::function<T(int)> expected) {
    int wrong = 0;
    for (size_t i = 0; i < got.size(); i++) wrong += got[i] != expected(i);
    return wrong;
}

__global__ void step_kernel(int *x, int factor, int more) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = x[i] * factor + more;
}

int ordered() { // by events, over four streams
    hipStream_t streams[4];
    hipEvent_t event;
    int *x = on_device(std::vector<int>(N, 1)), value = 1;
    CHECK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    for (auto &each : streams) CHECK(hipStreamCreateWithFlags(&each, hipStreamNonBlocking));
    for (int i = 0; i < 40; i++) {
        auto stream = streams[i % 4];
        CHECK(hipStreamWaitEvent(stream, event, 0));
        step_kernel<<<N / 256, 256, 0, stream>>>(x, 3, i);
        CHECK(hipEventRecord(event, stream));
        value = value * 3 + i;
    }
    CHECK(hipEventSynchronize(event));
    int wrong = unlike<int>(back(x, N), [&](int) { return value; });
    CHECK(hipEventDestroy(event));
    for (auto each : streams) CHECK(hipStreamDestroy(each));
    return wrong;
}

int pinned() { // memory, to the GPU and back in pieces, behind one another
    int *host, *got, *x;
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    CHECK(hipHostMalloc((void **)&host, 4 * N));
    CHECK(hipHostMalloc((void **)&got, 4 * N));
    CHECK(hipMalloc((void **)&x, 4 * N));
    for (int i = 0; i < N; i++) host[i] = i, got[i] = -1;
    for (int at = 0; at < N; at += 512) {
        CHECK(hipMemcpyAsync(x + at, host + at, 2048, hipMemcpyHostToDevice, stream));
        step_kernel<<<2, 256, 0, stream>>>(x + at, 2, at);
        CHECK(hipMemcpyAsync(got + at, x + at, 2048, hipMemcpyDeviceToHost, stream));
    }
    while (hipStreamQuery(stream) == hipErrorNotReady) {}
    CHECK(hipStreamDestroy(stream)); // four queues are all there are: streams that are left would share them
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += got[i] != 2 * i + i / 512 * 512;
    return wrong;
}

static void note(hipStream_t, hipError_t status, void *place) {
    *static_cast<std::atomic<int> *>(place) += 1 + status;
}

int host_functions() { // between kernels
    hipStream_t stream;
    std::atomic<int> count{0};
    int *x = on_device(std::vector<int>(N, 1));
    CHECK(hipStreamCreate(&stream));
    for (int i = 0; i < 10; i++) {
        step_kernel<<<N / 256, 256, 0, stream>>>(x, 1, 1);
        CHECK(hipStreamAddCallback(stream, note, &count, 0)); // hipLaunchHostFunc is not in Debian's library
    }
    CHECK(hipStreamSynchronize(stream));
    CHECK(hipStreamDestroy(stream));
    return (count != 10) + unlike<int>(back(x, N), [](int) { return 11; });
}

__global__ void wide_kernel(Wide *out, double *sum) {
    Wide i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicMax(out, i << 33);
    atomicMin(out + 1, ~0ull - i);
    atomicAnd(out + 2, ~(1ull << (i & 63)));
    atomicOr(out + 3, 1ull << (i & 63));
    atomicXor(out + 4, i * 0x100000001ull);
    Wide seen = out[5], expected;
    do expected = seen, seen = atomicCAS(out + 5, expected, expected + (1ull << 32) + 1);
    while (seen != expected);
    if (atomicExch(out + 6, i + 1) == i + 1) atomicAdd(out + 7, 1ull);
    atomicAdd(sum, .5);
}

int wide_atomics() {
    auto out = on_device(std::vector<Wide>{0, ~0ull, ~0ull, 0, 0, 0, 0, 0});
    auto sum = on_device(std::vector<double>(1, 1));
    wide_kernel<<<4, 128>>>(out, sum);
    auto got = back(out, 8);
    return (got[0] != 511ull << 33) + (got[1] != ~0ull - 511) + (got[2] != 0) + (got[3] != ~0ull) + (got[4] != 0) +
           (got[5] != 512 * ((1ull << 32) + 1)) + (got[6] == 0 || got[6] > 512) + (got[7] != 0) +
           (back(sum, 1)[0] != 257);
}

__global__ void lines_kernel(int more) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 3 == 0) printf("line %d of %s: %lld %g%%\n", i, "many", (long long)i << 33, i * .25 + more);
}

int lines() { // a test looks at what is said
    lines_kernel<<<3, 128>>>(1);
    CHECK(hipDeviceSynchronize());
    return 0;
}

__global__ void turned_kernel(const int *in, int *out, int count) {
    extern __shared__ int all[];
    for (int i = threadIdx.x; i < count; i += blockDim.x) all[i] = in[i];
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = all[count - 1 - i];
}

int all_lds() { // all 64 KiB of it
    constexpr int count = 16384;
    std::vector<int> host(count);
    for (int i = 0; i < count; i++) host[i] = i * 7;
    int *in = on_device(host), *out = on_device(std::vector<int>(count));
    turned_kernel<<<1, 1024, 4 * count>>>(in, out, count);
    CHECK(hipGetLastError());
    return unlike<int>(back(out, count), [&](int i) { return (count - 1 - i) * 7; });
}

static const char *const SOURCE = R"(
extern "C" __constant__ int step = 3;
extern "C" __global__ void scale(int *x, int factor) { x[threadIdx.x] = x[threadIdx.x] * factor + step; }
)";

int modules() { // compiled now, and loaded
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    std::string option = std::string("--gpu-architecture=") + properties.gcnArchName;
    const char *options[] = {option.c_str()};
    hiprtcProgram program;
    size_t size = 0;
    if (hiprtcCreateProgram(&program, SOURCE, "scale.hip", 0, nullptr, nullptr)) return 1;
    if (hiprtcCompileProgram(program, 1, options)) {
        hiprtcGetProgramLogSize(program, &size);
        std::string log(size, 0);
        hiprtcGetProgramLog(program, &log[0]);
        printf("%s\n", log.c_str());
        return 1;
    }
    if (hiprtcGetCodeSize(program, &size)) return 1;
    std::vector<char> code(size);
    if (hiprtcGetCode(program, code.data())) return 1;
    hipModule_t module;
    hipFunction_t scale;
    hipDeviceptr_t step;
    CHECK(hipModuleLoadData(&module, code.data()));
    CHECK(hipModuleGetFunction(&scale, module, "scale"));
    CHECK(hipModuleGetGlobal(&step, &size, module, "step"));
    if (size != 4) return 1;
    int *x = on_device(std::vector<int>(64, 5)), factor = 2, more = 9;
    void *arguments[] = {&x, &factor};
    CHECK(hipModuleLaunchKernel(scale, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
    CHECK(hipMemcpy((void *)step, &more, 4, hipMemcpyHostToDevice));
    CHECK(hipModuleLaunchKernel(scale, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
    int wrong = unlike<int>(back(x, 64), [](int) { return (5 * 2 + 3) * 2 + 9; });
    CHECK(hipModuleUnload(module));
    return wrong;
}

static const char *const WRONG = R"(
extern "C" __global__ void wrong(int *x)
{
    x[threadIdx.x - (1ll << 34)] = 1;
}
)";

int compiled_wild() { // compiled now, with debug information
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    std::string option = std::string("--gpu-architecture=") + properties.gcnArchName;
    const char *options[] = {option.c_str(), "-g"};
    hiprtcProgram program;
    size_t size = 0;
    if (hiprtcCreateProgram(&program, WRONG, "wrong.hip", 0, nullptr, nullptr)) return 1;
    if (hiprtcCompileProgram(program, 2, options) || hiprtcGetCodeSize(program, &size)) return 1;
    std::vector<char> code(size);
    if (hiprtcGetCode(program, code.data())) return 1;
    hipModule_t module;
    hipFunction_t wrong;
    CHECK(hipModuleLoadData(&module, code.data()));
    CHECK(hipModuleGetFunction(&wrong, module, "wrong"));
    int *x = on_device(std::vector<int>(64, 5));
    void *arguments[] = {&x};
    CHECK(hipModuleLaunchKernel(wrong, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
    CHECK(hipDeviceSynchronize());
    return 0;
}

int threads() { // eight of the host's, with a stream each
    std::vector<std::thread> all;
    std::atomic<int> wrong{0};
    for (int number = 0; number < 8; number++)
        all.emplace_back([number, &wrong] {
            hipStream_t stream;
            int *x = on_device(std::vector<int>(256, number)), value = number;
            std::vector<int> got(256);
            CHECK(hipStreamCreate(&stream));
            for (int i = 0; i < 50; i++) step_kernel<<<1, 256, 0, stream>>>(x, 3, number), value = value * 3 + number;
            CHECK(hipMemcpyAsync(got.data(), x, 1024, hipMemcpyDeviceToHost, stream));
            CHECK(hipStreamSynchronize(stream));
            wrong += unlike<int>(got, [&](int) { return value; });
            CHECK(hipStreamDestroy(stream));
            CHECK(hipFree(x));
        });
    for (auto &each : all) each.join();
    return wrong;
}

int peers() { // a copy around all agents
    int count, wrong = 0;
    CHECK(hipGetDeviceCount(&count));
    std::vector<int *> places(count);
    for (int each = 0; each < count; each++) {
        CHECK(hipSetDevice(each));
        places[each] = on_device(std::vector<int>(N, each));
    }
    for (int each = 0; each < count; each++) {
        int next = (each + 1) % count;
        CHECK(hipSetDevice(each));
        step_kernel<<<N / 256, 256>>>(places[each], 2, 1);
        CHECK(hipMemcpyPeer(places[next], next, places[each], each, 4 * N));
    }
    int value = 0;
    for (int each = 0; each < count; each++) value = value * 2 + 1;
    wrong += unlike<int>(back(places[0], N), [&](int) { return value; });
    CHECK(hipSetDevice(0));
    return wrong;
}

int graphs() { // what is captured from a stream runs as often as wanted
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t ready;
    std::vector<int> got(N);
    int *x = on_device(std::vector<int>(N, 1)), value = 1;
    CHECK(hipStreamCreate(&stream));
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    for (int i = 0; i < 3; i++) step_kernel<<<N / 256, 256, 0, stream>>>(x, 2, i);
    CHECK(hipMemcpyAsync(got.data(), x, 4 * N, hipMemcpyDeviceToHost, stream));
    CHECK(hipStreamEndCapture(stream, &graph));
    CHECK(hipGraphInstantiate(&ready, graph, nullptr, nullptr, 0));
    for (int round = 0; round < 3; round++) {
        CHECK(hipGraphLaunch(ready, stream));
        for (int i = 0; i < 3; i++) value = value * 2 + i;
    }
    CHECK(hipStreamSynchronize(stream));
    CHECK(hipGraphExecDestroy(ready));
    CHECK(hipGraphDestroy(graph));
    CHECK(hipStreamDestroy(stream));
    return unlike<int>(got, [&](int) { return value; });
}

int boxes() { // of three dimensions
    constexpr int width = 20, height = 6, depth = 5;
    hipPitchedPtr box;
    std::vector<int> host(width * height * depth), got(host.size());
    for (size_t i = 0; i < host.size(); i++) host[i] = i;
    CHECK(hipMalloc3D(&box, make_hipExtent(4 * width, height, depth)));
    hipMemcpy3DParms there = {}, again = {};
    there.srcPtr = make_hipPitchedPtr(host.data(), 4 * width, width, height);
    there.dstPtr = again.srcPtr = box;
    again.dstPtr = make_hipPitchedPtr(got.data(), 4 * width, width, height);
    there.extent = again.extent = make_hipExtent(4 * width, height, depth);
    there.kind = hipMemcpyHostToDevice, again.kind = hipMemcpyDeviceToHost;
    CHECK(hipMemcpy3D(&there));
    CHECK(hipMemcpy3D(&again));
    return unlike<int>(got, [](int i) { return i; });
}

struct Shape {
    __device__ virtual int area(int) const = 0;
};
struct Square : Shape {
    __device__ int area(int a) const override { return a * a; }
};
struct Half : Shape {
    __device__ int area(int a) const override { return a * a / 2; }
};
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__global__ void calls_kernel(int *out) {
    Square square;
    Half half;
    const Shape *shape = threadIdx.x % 2 ? (const Shape *)&square : &half;
    out[threadIdx.x] = shape->area(threadIdx.x) + fibonacci(threadIdx.x % 12);
}

int calls() { // through tables of virtual functions, and recursion
    int *out = on_device(std::vector<int>(64));
    calls_kernel<<<1, 64>>>(out);
    std::function<int(int)> fibonacci = [&](int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); };
    return unlike<int>(back(out, 64), [&](int i) { return i * i / (i % 2 ? 1 : 2) + fibonacci(i % 12); });
}

__device__ __noinline__ void put(int *at, int index, int value) { at[index] = value; }
__device__ int total(const int *of, int count) {
    int sum = 0;
    for (int i = 0; i < count; i++) sum += of[i] * (i + 1);
    return sum;
}
__device__ int parity(const int *of, int count) {
    int all = 0;
    for (int i = 0; i < count; i++) all ^= of[i] << i % 8;
    return all;
}
using Reduction = int (*)(const int *, int);
__device__ Reduction reductions[2] = {total, parity};
__shared__ int of_a_group[64];

__global__ void pointers_kernel(int *out, int factor) {
    int mine[32];
    for (int i = 0; i < 32; i++) put(mine, i, i * factor + threadIdx.x);
    of_a_group[threadIdx.x] = threadIdx.x * factor;
    __syncthreads();
    const int *either = threadIdx.x % 4 < 2 ? mine : of_a_group; // which memory it is shows when the kernel runs
    out[threadIdx.x] = reductions[threadIdx.x % 2](either, 32);
}

int pointers() { // to private memory and LDS, through functions that know neither
    int *out = on_device(std::vector<int>(64));
    pointers_kernel<<<1, 64>>>(out, 3);
    return unlike<int>(back(out, 64), [](int lane) {
        int sum = 0, all = 0;
        for (int i = 0; i < 32; i++) {
            int value = lane % 4 < 2 ? i * 3 + lane : i * 3;
            sum += value * (i + 1), all ^= value << i % 8;
        }
        return lane % 2 ? all : sum;
    });
}

int too_large() { // work-groups of 2,048, which the library refuses; nobody looks at the error
    int *x = on_device(std::vector<int>(N, 1));
    step_kernel<<<2, 2048>>>(x, 2, 1);
    return unlike<int>(back(x, N), [](int) { return 1; });
}

__global__ void halves_kernel(const __half2 *x, __half2 *y) {
    int i = threadIdx.x;
    y[i] = __hfma2(x[i], x[i], __float2half2_rn(.5f));
}

int halves() {
    std::vector<__half2> host(64);
    for (int i = 0; i < 64; i++) host[i] = __floats2half2_rn(i % 16 * .25f, i % 16 * .5f);
    __half2 *x = on_device(host), *y = on_device(host);
    halves_kernel<<<1, 64>>>(x, y);
    auto got = back(y, 64);
    int wrong = 0;
    for (int i = 0; i < 64; i++) {
        float x = i % 16 * .25f;
        wrong += __low2float(got[i]) != x * x + .5f || __high2float(got[i]) != 4 * x * x + .5f;
    }
    return wrong;
}

__global__ void groups_kernel(int *out) {
    auto block = cooperative_groups::this_thread_block();
    __shared__ int sum;
    if (!block.thread_rank()) sum = 0;
    block.sync();
    atomicAdd(&sum, (int)block.thread_rank());
    block.sync();
    out[block.group_index().x * block.size() + block.thread_rank()] = sum;
}

int groups() {
    int *out = on_device(std::vector<int>(512));
    groups_kernel<<<2, 256>>>(out);
    return unlike<int>(back(out, 512), [](int) { return 255 * 128; });
}

__global__ void grid_kernel(int *x, int *sums) {
    auto grid = cooperative_groups::this_grid();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = i;
    grid.sync();
    sums[i] = x[(i + 256) % (gridDim.x * blockDim.x)];
}

int grids() { // of groups that wait for each other: no agent says that it can
    int *x = on_device(std::vector<int>(1024)), *sums = on_device(std::vector<int>(1024)), able = 1;
    CHECK(hipDeviceGetAttribute(&able, hipDeviceAttributeCooperativeLaunch, 0));
    void *arguments[] = {&x, &sums};
    return able || !hipLaunchCooperativeKernel((void *)grid_kernel, dim3(4), dim3(256), arguments, 0, nullptr);
}

__global__ void texture_kernel(hipTextureObject_t texture, float *out) {
    out[threadIdx.x] = tex1Dfetch<float>(texture, threadIdx.x);
}

int textures() { // of plain memory
    std::vector<float> host(64);
    for (int i = 0; i < 64; i++) host[i] = i;
    float *x = on_device(host), *out = on_device(std::vector<float>(64));
    hipResourceDesc what = {};
    what.resType = hipResourceTypeLinear;
    what.res.linear.devPtr = x;
    what.res.linear.desc = hipCreateChannelDesc<float>();
    what.res.linear.sizeInBytes = 256;
    hipTextureDesc how = {};
    how.readMode = hipReadModeElementType;
    hipTextureObject_t texture = nullptr;
    CHECK(hipCreateTextureObject(&texture, &what, &how, nullptr));
    texture_kernel<<<1, 64>>>(texture, out);
    return unlike<float>(back(out, 64), [](int i) { return i; });
}

__global__ void picture_kernel(hipTextureObject_t texture, float *out) {
    out[threadIdx.x] = tex2D<float>(texture, threadIdx.x % 16, threadIdx.x / 16);
}

int pictures() { // tiled, which no agent's images are
    hipArray *array = nullptr;
    hipChannelFormatDesc format = hipCreateChannelDesc<float>();
    CHECK(hipMallocArray(&array, &format, 16, 16, 0));
    std::vector<float> host(256);
    for (int i = 0; i < 256; i++) host[i] = i;
    CHECK(hipMemcpy2DToArray(array, 0, 0, host.data(), 64, 64, 16, hipMemcpyHostToDevice));
    hipResourceDesc what = {};
    what.resType = hipResourceTypeArray;
    what.res.array.array = array;
    hipTextureDesc how = {};
    how.readMode = hipReadModeElementType;
    hipTextureObject_t texture = nullptr;
    CHECK(hipCreateTextureObject(&texture, &what, &how, nullptr));
    float *out = on_device(std::vector<float>(64));
    picture_kernel<<<1, 64>>>(texture, out);
    return unlike<float>(back(out, 64), [](int i) { return i; });
}

__global__ void releasing_kernel(int *x, int *other, Wide *flag) {
    x[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) __hip_atomic_store(flag, 5, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
    other[threadIdx.x] = threadIdx.x;
}

int values() { // that streams wait for and write
    Wide *flags;
    hipStream_t one, two;
    CHECK(hipExtMallocWithFlags((void **)&flags, 8, hipMallocSignalMemory));
    *flags = 0;
    CHECK(hipStreamCreateWithFlags(&one, hipStreamNonBlocking));
    CHECK(hipStreamCreateWithFlags(&two, hipStreamNonBlocking));
    int *x = on_device(std::vector<int>(N, 1));
    CHECK(hipStreamWaitValue64(one, flags, 5, hipStreamWaitValueGte));
    step_kernel<<<N / 256, 256, 0, one>>>(x, 3, 0);
    step_kernel<<<N / 256, 256, 0, two>>>(x, 1, 1);
    CHECK(hipStreamWriteValue64(two, flags, 5, 0));
    CHECK(hipStreamSynchronize(two));
    CHECK(hipStreamSynchronize(one));
    CHECK(hipStreamDestroy(one));
    CHECK(hipStreamDestroy(two));
    return unlike<int>(back(x, N), [](int) { return 6; });
}

int values_too_early() { // the value is written before the kernel that the other stream is to wait for
    Wide *flags;
    hipStream_t one, two;
    CHECK(hipExtMallocWithFlags((void **)&flags, 8, hipMallocSignalMemory));
    *flags = 0;
    CHECK(hipStreamCreateWithFlags(&one, hipStreamNonBlocking));
    CHECK(hipStreamCreateWithFlags(&two, hipStreamNonBlocking));
    int *x = on_device(std::vector<int>(N, 1));
    CHECK(hipStreamWaitValue64(one, flags, 5, hipStreamWaitValueGte));
    step_kernel<<<N / 256, 256, 0, one>>>(x, 3, 0);
    CHECK(hipStreamWriteValue64(two, flags, 5, 0));
    step_kernel<<<N / 256, 256, 0, two>>>(x, 1, 1);
    CHECK(hipDeviceSynchronize());
    CHECK(hipStreamDestroy(one));
    CHECK(hipStreamDestroy(two));
    return 0;
}

int value_of_kernel() { // that goes on after it has stored the word that the other stream waits for
    Wide *flags;
    hipStream_t one, two;
    CHECK(hipExtMallocWithFlags((void **)&flags, 8, hipMallocSignalMemory));
    *flags = 0;
    CHECK(hipStreamCreateWithFlags(&one, hipStreamNonBlocking));
    CHECK(hipStreamCreateWithFlags(&two, hipStreamNonBlocking));
    int *x = on_device(std::vector<int>(64, 1)), *other = on_device(std::vector<int>(64, 1));
    CHECK(hipStreamWaitValue64(one, flags, 5, hipStreamWaitValueGte));
    step_kernel<<<1, 64, 0, one>>>(x, 3, 0);
    releasing_kernel<<<1, 64, 0, two>>>(x, other, flags);
    CHECK(hipDeviceSynchronize());
    CHECK(hipStreamDestroy(one));
    CHECK(hipStreamDestroy(two));
    return unlike<int>(back(x, 64), [](int i) { return 3 * i; }) + unlike<int>(back(other, 64), [](int i) { return i; });
}

int prefetched() { // managed memory, with advice
    int *x;
    CHECK(hipMallocManaged((void **)&x, 4 * N));
    for (int i = 0; i < N; i++) x[i] = i;
    (void)hipMemAdvise(x, 4 * N, hipMemAdviseSetReadMostly, 0);
    (void)hipMemPrefetchAsync(x, 4 * N, 0, nullptr);
    (void)hipGetLastError();
    step_kernel<<<N / 256, 256>>>(x, 2, 1);
    CHECK(hipDeviceSynchronize());
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += x[i] != 2 * i + 1;
    return wrong;
}

__global__ void cube_kernel(int *out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    int wide = gridDim.x * blockDim.x, high = gridDim.y * blockDim.y;
    out[(z * high + y) * wide + x] = x + 100 * y + 10000 * z;
}

int cubes() {
    int *out = on_device(std::vector<int>(12 * 10 * 8));
    cube_kernel<<<dim3(3, 2, 4), dim3(4, 5, 2)>>>(out);
    return unlike<int>(back(out, 960), [](int i) { return i % 12 + i / 12 % 10 * 100 + i / 120 * 10000; });
}

__global__ void asserting_kernel(int n) { assert(threadIdx.x < n); }

int asserting() {
    asserting_kernel<<<1, 64>>>(63);
    CHECK(hipDeviceSynchronize());
    return 1;
}

__global__ void first_kernel(volatile int *flag, volatile int *begun, int *out, int rounds) {
    *begun = 1;
    for (int i = 0; i < rounds; i++) {
        while (*flag <= 2 * i) {}
        *flag = 2 * i + 2;
    }
    *out = 7;
}

__global__ void second_kernel(volatile int *flag, int *out, int rounds) {
    for (int i = 0; i < rounds; i++) {
        *flag = 2 * i + 1;
        while (*flag <= 2 * i + 1) {}
    }
    *out = 8;
}

static int in_turns(int *flags, int *last) { // two kernels, each of which waits for the other
    hipStream_t one, two;
    CHECK(hipStreamCreateWithFlags(&one, hipStreamNonBlocking));
    CHECK(hipStreamCreateWithFlags(&two, hipStreamNonBlocking));
    first_kernel<<<1, 1, 0, one>>>(flags, flags + 64, last, 3);
    while (!*(volatile int *)(flags + 64)) {}
    second_kernel<<<1, 1, 0, two>>>(flags, flags + 192, 3);
    CHECK(hipStreamSynchronize(two));
    CHECK(hipStreamSynchronize(one));
    CHECK(hipStreamDestroy(one));
    CHECK(hipStreamDestroy(two));
    return (*last != 7) + (flags[192] != 8);
}

static int *zeros() { // that host and kernels see at once
    int *made;
    CHECK(hipHostMalloc((void **)&made, 4096, hipHostMallocCoherent));
    memset(made, 0, 4096);
    return made;
}

int turns() {
    int *flags = zeros();
    return in_turns(flags, flags + 128);
}

int last_turn() { // the earlier kernel's is a mistake
    int *flags = zeros();
    return in_turns(flags, flags - (1ll << 34));
}

int main(int count, char **names) {
    const std::map<std::string, std::function<int()>> programs = {
        {"ordered", ordered}, {"pinned", pinned}, {"host_functions", host_functions}, {"wide_atomics", wide_atomics},
        {"lines", lines}, {"all_lds", all_lds}, {"modules", modules}, {"threads", threads}, {"peers", peers},
        {"graphs", graphs}, {"boxes", boxes}, {"calls", calls}, {"pointers", pointers}, {"halves", halves},
        {"groups", groups}, {"grids", grids}, {"textures", textures}, {"pictures", pictures}, {"values", values},
        {"values_too_early", values_too_early}, {"value_of_kernel", value_of_kernel},
        {"prefetched", prefetched}, {"cubes", cubes}, {"asserting", asserting},
        {"turns", turns}, {"last_turn", last_turn}, {"compiled_wild", compiled_wild}, {"too_large", too_large},
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
