// Memory that kernels allocate themselves, and text that they print: the device library's heap, used by many waves.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        hipError_t error = (call);                                                                                     \
        if (error != hipSuccess) {                                                                                     \
            printf("%s: %s\n", #call, hipGetErrorString(error));                                                       \
            exit(3);                                                                                                   \
        }                                                                                                              \
    } while (0)

constexpr int GROUPS = 2, GROUP = 128, N = GROUPS * GROUP, ROUNDS = 2, MANY = 6;

struct Node {
    int value;
    Node *next;
    __device__ Node(int value, Node *next) : value(value), next(next) {}
};

// Lists of a lane's own, by new and delete.
__global__ void lists_kernel(int *out, int round) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    Node *first = nullptr;
    for (int k = 0; k <= i % 5; k++) first = new Node(i + k + round, first);
    while (first) {
        Node *gone = first;
        sum += first->value;
        first = first->next;
        delete gone;
    }
    out[i] = sum;
}

// Blocks that need several slabs of the heap: waves look for room in the same ones, and reuse what others have freed.
__global__ void crowd_kernel(int *out, int round) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    int *blocks[MANY];
    for (int k = 0; k < MANY; k++) {
        blocks[k] = static_cast<int *>(malloc(2500 + i % 50));
        blocks[k][0] = i + k;
        blocks[k][624] = round;
    }
    for (int k = 0; k < MANY; k++) {
        sum += blocks[k][0] + blocks[k][624];
        free(blocks[k]);
    }
    out[i] = sum;
}

__global__ void text_kernel() {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 64 == 5) printf("lane %d\n", i);
}

// ---- Mistakes ----

__global__ void shared_kernel(int *out) { // all groups store to the block of the first one
    __shared__ int *block;
    int **where = reinterpret_cast<int **>(out);
    if (threadIdx.x == 0) {
        block = static_cast<int *>(malloc(64));
        *block = 0;
        if (blockIdx.x == 0)
            __hip_atomic_store(where, block, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
        else {
            int *first;
            while (!(first = __hip_atomic_load(where, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT))) {}
            first[1] = blockIdx.x; // nothing orders the groups
        }
    }
}

static int compared(const std::vector<int> &got, int (*expected)(int, int), int round) {
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += got[i] != expected(i, round);
    return wrong;
}

static int rounds(void (*kernel)(int *, int), int (*expected)(int, int)) {
    int *out, wrong = 0;
    std::vector<int> got(N);
    CHECK(hipMalloc((void **)&out, 4 * N));
    for (int round = 0; round < ROUNDS; round++) {
        kernel<<<GROUPS, GROUP>>>(out, round);
        CHECK(hipMemcpy(got.data(), out, 4 * N, hipMemcpyDeviceToHost));
        wrong += compared(got, expected, round);
    }
    return wrong;
}

static int crowd() {
    return rounds(crowd_kernel, [](int i, int round) { return MANY * (i + round) + MANY * (MANY - 1) / 2; });
}

static int lists() {
    return rounds(lists_kernel, [](int i, int round) {
        int n = i % 5 + 1;
        return n * (i + round) + n * (n - 1) / 2;
    });
}

static int text() {
    for (int round = 0; round < ROUNDS; round++) {
        text_kernel<<<GROUPS, GROUP>>>();
        CHECK(hipDeviceSynchronize());
    }
    return 0;
}

static int shared() {
    int *out;
    CHECK(hipMalloc((void **)&out, 8));
    CHECK(hipMemset(out, 0, 8));
    shared_kernel<<<3, 64>>>(out);
    CHECK(hipDeviceSynchronize());
    return 0;
}

int main(int count, char **names) {
    const std::map<std::string, int (*)()> programs = {
        {"crowd", crowd}, {"lists", lists}, {"text", text}, {"shared", shared},
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
