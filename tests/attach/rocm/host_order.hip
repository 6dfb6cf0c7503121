#include <hip/hip_runtime.h>
#include <atomic>
#include <cstdio>
#include <map>
#include <string>
#define CHECK(call) do { hipError_t e = (call); if (e) { printf("%s: %s\n", #call, hipGetErrorString(e)); return 1; } } while (0)
const int N = 64, LARGE = 1 << 16, BUSY = 20000000;

__global__ void slow(int *x, int n) {
    int v = threadIdx.x;
    for (int k = 0; k < n; k++) v = v * 1664525 + 1013904223;
    if (v == 12345) x[0] = v;
}
__global__ void stay(volatile int *gate) {
    while (!*gate) {}
}
__global__ void sum(const int *x, int *o) { atomicAdd(o, x[threadIdx.x]); }
__global__ void twice(int *x) { x[threadIdx.x] *= 2; }
__global__ void mailbox(volatile int *flag, const int *x, int *o) {
    while (!*flag) {}
    __threadfence_system();
    o[threadIdx.x] = x[threadIdx.x];
}
__global__ void announced(const int *x, int *o, volatile int *flag, int n) {
    o[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    __threadfence_system();
    if (threadIdx.x == 0) *flag = 1;
    int v = threadIdx.x;
    for (int k = 0; k < n; k++) v = v * 1664525 + 1013904223;
    if (v == 12345) o[0] = v;
}

__global__ void reply(volatile int *flag, int *x) {
    while (!*flag) {}
    __threadfence_system();
    x[threadIdx.x] = 7;
}

static volatile int seen;
static int *called;
static int *pin(int count) {
    int *made = nullptr;
    (void)hipHostMalloc((void **)&made, 4 * count);
    for (int i = 0; i < count; i++) made[i] = 1;
    return made;
}
static void fill(int *x, int count, int value) {
    for (int i = 0; i < count; i++) x[i] = value;
}

struct Fixture {
    hipStream_t stream;
    int *device, *out;
    volatile int *gate; // in memory of the device; relaxed loads of it order nothing
    Fixture() {
        (void)hipMalloc((void **)&device, 4 * LARGE);
        (void)hipMalloc((void **)&out, 4 * LARGE);
        (void)hipMalloc((void **)&gate, 8);
        (void)hipMemset(out, 0, 4 * LARGE);
        (void)hipStreamCreateWithFlags(&stream, hipStreamNonBlocking);
        int *host = pin(LARGE); // what is made at first use, before it matters when that is
        slow<<<1, 64, 0, stream>>>(device, 1);
        for (int count : {N, LARGE}) (void)hipMemcpyAsync(device, host, 4 * count, hipMemcpyHostToDevice, stream);
        sum<<<1, N, 0, stream>>>(out, out);
        (void)hipDeviceSynchronize();
    }
    void close() { // keep the stream until `open`
        *gate = 0;
        stay<<<1, 1, 0, stream>>>(gate);
    }
    void open() { *gate = 1; }
    void busy(int n = 100000) { slow<<<1, 64, 0, stream>>>(out, n); }
};

// ---- Mistakes ----
static int refilled(Fixture &f, int count) {
    int *h = pin(count);
    f.close();
    CHECK(hipMemcpyAsync(f.device, h, 4 * count, hipMemcpyHostToDevice, f.stream));
    fill(h, count, 2);
    f.open();
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static int copy_refilled(Fixture &f) { return refilled(f, N); }
static int large_copy_refilled(Fixture &f) { return refilled(f, LARGE); }
static int kernel_refilled(Fixture &f) {
    int *h = pin(N);
    f.close();
    sum<<<1, N, 0, f.stream>>>(h, f.out);
    fill(h, N, 3);
    f.open();
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static int registered_refilled(Fixture &f) {
    static int own[4096];
    int *seen;
    CHECK(hipHostRegister(own, sizeof own, 0));
    CHECK(hipHostGetDevicePointer((void **)&seen, own, 0));
    f.close();
    sum<<<1, N, 0, f.stream>>>(seen, f.out);
    fill(own, N, 3);
    f.open();
    CHECK(hipStreamSynchronize(f.stream));
    CHECK(hipHostUnregister(own));
    return 0;
}
static int managed_refilled(Fixture &f) {
    int *m;
    CHECK(hipMallocManaged((void **)&m, 4 * N));
    fill(m, N, 1);
    f.close();
    sum<<<1, N, 0, f.stream>>>(m, f.out);
    fill(m, N, 5);
    f.open();
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}

static int read_too_early(Fixture &f) { // the target of a copy to the host
    int *h = pin(N);
    f.busy(BUSY);
    CHECK(hipMemcpyAsync(h, f.device, 4 * N, hipMemcpyDeviceToHost, f.stream));
    seen = h[5];
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static int result_read_too_early(Fixture &f) { // what a kernel stores
    int *h = pin(N);
    f.busy(BUSY);
    twice<<<1, N, 0, f.stream>>>(h);
    seen = h[6];
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static int target_stored_to(Fixture &f) {
    int *h = pin(N);
    f.busy(BUSY);
    CHECK(hipMemcpyAsync(h, f.device, 4 * N, hipMemcpyDeviceToHost, f.stream));
    h[7] = 1;
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static int written_by_a_call(Fixture &f) { // the kernel of the system stores to it
    int *h = pin(N);
    FILE *zeros = fopen("/dev/zero", "rb");
    setvbuf(zeros, nullptr, _IONBF, 0);
    f.busy(BUSY);
    CHECK(hipMemcpyAsync(h, f.device, 4 * N, hipMemcpyDeviceToHost, f.stream));
    int failed = fread(h + 8, 1, 4, zeros) != 4;
    CHECK(hipStreamSynchronize(f.stream));
    fclose(zeros);
    return failed;
}
static int device_read(Fixture &f) { // memory of the device, which a large BAR shows
    f.busy(BUSY);
    twice<<<1, N, 0, f.stream>>>(f.device);
    seen = f.device[9];
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static int device_stored_to(Fixture &f) {
    f.busy(BUSY);
    sum<<<1, N, 0, f.stream>>>(f.device, f.out);
    f.device[10] = 3;
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}

// ---- Right programs ----
static int read_after_a_wait(Fixture &f) { // results of kernels and copies, several times
    int *h = pin(N), *g = pin(N);
    for (int i = 0; i < 4; i++) {
        f.busy();
        CHECK(hipMemcpyAsync(h, f.device, 4 * N, hipMemcpyDeviceToHost, f.stream));
        twice<<<1, N, 0, f.stream>>>(g);
        CHECK(hipStreamSynchronize(f.stream));
        seen = h[5] + g[5] + f.device[5];
        h[5] = 2;
        f.device[5] = 3;
    }
    return g[5] != 16;
}
static int other_half(Fixture &f) { // the host uses one half of a page, and system calls do, while the other is written
    int *h = pin(2 * N);
    FILE *zeros = fopen("/dev/zero", "rb");
    setvbuf(zeros, nullptr, _IONBF, 0);
    f.busy(BUSY);
    CHECK(hipMemcpyAsync(h, f.device, 4 * N, hipMemcpyDeviceToHost, f.stream));
    twice<<<1, N, 0, f.stream>>>(f.out);
    int failed = fread(h + N, 1, 4 * N, zeros) != 4 * N;
    for (int i = N; i < 2 * N; i++) failed |= h[i] != 0;
    CHECK(hipStreamSynchronize(f.stream));
    fclose(zeros);
    return failed;
}
static int ping_pong(Fixture &f) { // the kernel waits for the host's word before it stores where the host has read
    int *h = pin(2 * N);
    volatile int *flag = h + N;
    *flag = 0;
    reply<<<1, N, 0, f.stream>>>(flag, h);
    seen = h[5];
    std::atomic_thread_fence(std::memory_order_seq_cst);
    *flag = 1;
    CHECK(hipStreamSynchronize(f.stream));
    return h[5] != 7;
}
static int ping_pong_on_device(Fixture &f) { // likewise, with a word in memory of the device
    f.gate[1] = 0;
    reply<<<1, N, 0, f.stream>>>(f.gate + 1, f.device);
    seen = f.device[5];
    f.gate[1] = 1;
    CHECK(hipStreamSynchronize(f.stream));
    return f.device[5] != 7;
}
static int read_by_callback(Fixture &f) { // which the copy behind it waits for
    called = pin(N);
    for (size_t i = 0; i < 4; i++) {
        CHECK(hipMemcpyAsync(called, f.device, 4 * N, hipMemcpyDeviceToHost, f.stream));
        CHECK(hipStreamAddCallback(f.stream, [](hipStream_t, hipError_t, void *) { seen = called[5]; }, nullptr, 0));
        CHECK(hipMemcpyAsync(called, f.out, 4 * N, hipMemcpyDeviceToHost, f.stream));
    }
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static int read_before_a_value(Fixture &f) { // the stream waits for the host's word before it stores where the host has read
    int *h = pin(N);
    uint64_t *word;
    CHECK(hipExtMallocWithFlags((void **)&word, 8, hipMallocSignalMemory));
    *word = 0;
    CHECK(hipStreamWaitValue64(f.stream, word, 5, hipStreamWaitValueGte));
    twice<<<1, N, 0, f.stream>>>(h);
    CHECK(hipMemcpyAsync(h, f.device, 4 * N, hipMemcpyDeviceToHost, f.stream));
    seen = h[5];
    std::atomic_thread_fence(std::memory_order_seq_cst);
    *(volatile uint64_t *)word = 5;
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static int two_buffers(Fixture &f) { // each filled again when its copy is over
    int *h[2] = {pin(N), pin(N)};
    hipEvent_t done[2];
    for (auto &each : done) CHECK(hipEventCreate(&each));
    for (int i = 0; i < 6; i++) {
        CHECK(hipEventSynchronize(done[i % 2]));
        fill(h[i % 2], N, i);
        CHECK(hipMemcpyAsync(f.device, h[i % 2], 4 * N, hipMemcpyHostToDevice, f.stream));
        CHECK(hipEventRecord(done[i % 2], f.stream));
        sum<<<1, N, 0, f.stream>>>(f.device, f.out);
    }
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static int halves(Fixture &f) { // one allocation: one half is filled while the other is copied
    int *h = pin(2 * N);
    for (int i = 0; i < 6; i++) {
        int *half = h + (i % 2) * N;
        fill(half, N, i);
        if (i) CHECK(hipStreamSynchronize(f.stream));
        f.busy();
        CHECK(hipMemcpyAsync(f.device, half, 4 * N, hipMemcpyHostToDevice, f.stream));
    }
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static int in_place(Fixture &f) { // kernels and copies write what later ones read
    int *h = pin(N), *g = pin(N);
    f.busy();
    for (int i = 0; i < 4; i++) {
        twice<<<1, N, 0, f.stream>>>(h);
        CHECK(hipMemcpyAsync(f.device, h, 4 * N, hipMemcpyHostToDevice, f.stream));
        CHECK(hipMemcpyAsync(g, f.device, 4 * N, hipMemcpyDeviceToHost, f.stream));
        sum<<<1, N, 0, f.stream>>>(g, f.out);
        CHECK(hipMemsetAsync(g, i, 4 * N, f.stream));
        sum<<<1, N, 0, f.stream>>>(g, f.out);
    }
    CHECK(hipStreamSynchronize(f.stream));
    return h[5] != 16;
}
static void refill(hipStream_t, hipError_t, void *value) { fill(called, N, (int)(size_t)value); }
static int by_callback(Fixture &f) { // the stream waits for the host's function
    called = pin(N);
    for (size_t i = 0; i < 4; i++) {
        CHECK(hipMemcpyAsync(f.device, called, 4 * N, hipMemcpyHostToDevice, f.stream));
        CHECK(hipStreamAddCallback(f.stream, refill, (void *)(i + 7), 0));
        CHECK(hipMemcpyAsync(f.device, called, 4 * N, hipMemcpyHostToDevice, f.stream));
        sum<<<1, N, 0, f.stream>>>(f.device, f.out);
    }
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static void refill_once(void *value) { fill(called, N, *static_cast<int *>(value)); }
static int by_graph(Fixture &f) { // a node of which is a function of the host
    static int value = 11;
    hipGraph_t graph;
    hipGraphExec_t made;
    hipGraphNode_t node;
    hipHostNodeParams what = {refill_once, &value};
    called = pin(N);
    CHECK(hipGraphCreate(&graph, 0));
    CHECK(hipGraphAddHostNode(&node, graph, nullptr, 0, &what));
    CHECK(hipGraphInstantiate(&made, graph, nullptr, nullptr, 0));
    f.busy();
    CHECK(hipGraphLaunch(made, f.stream));
    sum<<<1, N, 0, f.stream>>>(called, f.out);
    CHECK(hipStreamSynchronize(f.stream));
    CHECK(hipGraphExecDestroy(made));
    CHECK(hipGraphDestroy(graph));
    return called[5] != value;
}
static int by_value(Fixture &f) { // the stream waits for a word that the host stores last
    int *h = pin(N);
    uint64_t *word;
    CHECK(hipExtMallocWithFlags((void **)&word, 8, hipMallocSignalMemory));
    *word = 0;
    CHECK(hipStreamWaitValue64(f.stream, word, 5, hipStreamWaitValueGte));
    sum<<<1, N, 0, f.stream>>>(h, f.out);
    fill(h, N, 9);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    *(volatile uint64_t *)word = 5;
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static int by_flag(Fixture &f) { // the kernel waits for a word that the host stores last
    int *h = pin(2 * N);
    volatile int *flag = h + N;
    *flag = 0;
    mailbox<<<1, N, 0, f.stream>>>(flag, h, f.out);
    fill(h, N, 9);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    *flag = 1;
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static int by_word_of_the_kernel(Fixture &f) { // which the host waits for before it stores
    int *h = pin(N), *word = pin(1);
    *word = 0;
    announced<<<1, N, 0, f.stream>>>(h, f.out, word, 5000000);
    while (!*(volatile int *)word) {}
    fill(h, N, 9);
    CHECK(hipStreamSynchronize(f.stream));
    return 0;
}
static int freed(Fixture &f) { // and allocated anew
    for (int i = 0; i < 4; i++) {
        int *h = pin(N);
        CHECK(hipMemcpyAsync(f.device, h, 4 * N, hipMemcpyHostToDevice, f.stream));
        f.busy();
        CHECK(hipStreamSynchronize(f.stream));
        fill(h, N, i);
        CHECK(hipHostFree(h));
    }
    return 0;
}
static int host_stores(Fixture &f) { // to memory of the device
    f.device[0] = 1;
    return 0;
}

int main(int count, char **names) {
    const std::map<std::string, int (*)(Fixture &)> parts = {
        {"copy_refilled", copy_refilled}, {"large_copy_refilled", large_copy_refilled},
        {"kernel_refilled", kernel_refilled}, {"registered_refilled", registered_refilled},
        {"managed_refilled", managed_refilled}, {"two_buffers", two_buffers}, {"halves", halves},
        {"in_place", in_place}, {"by_callback", by_callback}, {"by_flag", by_flag},
        {"by_word_of_the_kernel", by_word_of_the_kernel}, {"host_stores", host_stores}, {"by_graph", by_graph}, {"by_value", by_value}, {"freed", freed},
        {"read_too_early", read_too_early}, {"result_read_too_early", result_read_too_early},
        {"target_stored_to", target_stored_to}, {"written_by_a_call", written_by_a_call},
        {"device_read", device_read}, {"device_stored_to", device_stored_to},
        {"read_after_a_wait", read_after_a_wait}, {"other_half", other_half}, {"ping_pong", ping_pong},
        {"ping_pong_on_device", ping_pong_on_device},
        {"read_by_callback", read_by_callback}, {"read_before_a_value", read_before_a_value},
    };
    Fixture fixture;
    int wrong = 0;
    for (int each = 1; each < count; each++) {
        int failed = parts.at(names[each])(fixture);
        if (failed) printf("%s: WRONG\n", names[each]);
        wrong += failed;
    }
    return wrong;
}
