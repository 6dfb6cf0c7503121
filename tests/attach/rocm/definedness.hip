// Programs for the check of uninitialised values, by name: those that are right, and those with one planted mistake.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

static void must(hipError_t found) {
    if (found != hipSuccess) {
        printf("%s\n", hipGetErrorString(found));
        exit(1);
    }
}

template <typename T> static T *device(size_t count) {
    T *made;
    must(hipMalloc((void **)&made, count * sizeof(T)));
    return made;
}

template <typename T> static std::vector<T> back(const T *from, size_t count) {
    std::vector<T> got(count);
    must(hipMemcpy(got.data(), from, count * sizeof(T), hipMemcpyDeviceToHost));
    return got;
}

struct Gaps { char letter; int number; double real; short last; };

__global__ void doubled(const int *x, int *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
__global__ void fields(Gaps *all, int n) {
    int i = threadIdx.x;
    if (i < n) { all[i].letter = 'a'; all[i].number = i; all[i].real = i; all[i].last = 3; }
}
__global__ void copied(const Gaps *from, Gaps *to, int n) {
    if (threadIdx.x < n) to[threadIdx.x] = from[threadIdx.x];
}
__global__ void positive(const int *x, int *y) {
    if (x[threadIdx.x] > 0) y[threadIdx.x] = 1;
}
__global__ void half_lds(int *y, int from) {
    __shared__ int s[256];
    if (threadIdx.x < 128) s[threadIdx.x] = 1;
    __syncthreads();
    y[threadIdx.x] = s[(threadIdx.x + from) & 255];
}
__global__ void half_private(int *y, const int *at) {
    int own[64];
    for (int i = 0; i < at[0]; i++) own[i * 7 & 63] = i;
    y[threadIdx.x] = own[at[1] & 63];
}
__global__ void text(const int *x) { if (threadIdx.x < 2) printf("%d %s\n", x[threadIdx.x], "text"); }
__device__ int variable[4];
__global__ void from_variable(int *y) { y[threadIdx.x] = variable[threadIdx.x & 3]; }
struct Node { Node *left, *right; };
__device__ int depth(const Node *node) {
    if (!node) return 0;
    int left = depth(node->left), right = depth(node->right);
    return 1 + (left > right ? left : right);
}
__global__ void depths(const Node *nodes, int *y) { y[threadIdx.x] = depth(nodes + (threadIdx.x & 1)); }

static void copies() {
    int *x = device<int>(1000), *y = device<int>(1000), *z = device<int>(1000), numbers[1000];
    for (int i = 0; i < 1000; i++) numbers[i] = i;
    must(hipMemcpy(x, numbers, sizeof numbers, hipMemcpyHostToDevice));
    doubled<<<4, 256>>>(x, y, 1000);
    must(hipMemcpy(z, y, sizeof numbers, hipMemcpyDeviceToDevice));
    must(hipMemset(x, 0, sizeof numbers));
    back(x, 1000);
    printf("%d\n", back(z, 1000)[999]);
}
static void host_stores() {
    int *x = device<int>(1000), *y = device<int>(1000);
    for (int i = 0; i < 1000; i++) x[i] = i;  // as cards with a large BAR allow
    doubled<<<4, 256>>>(x, y, 1000);
    must(hipDeviceSynchronize());
    memset(x, 0xFF, 4000);
    doubled<<<4, 256>>>(x, y, 1000);
    char *bytes = device<char>(4097), *more = device<char>(4097);
    for (int i = 0; i < 4097; i++) bytes[i] = (char)(i * 37);
    must(hipMemcpy(more, bytes, 4097, hipMemcpyDeviceToDevice));
    back(more, 4097);
    printf("%d\n", back(y, 1000)[999]);
}
static void padding() {
    Gaps *x = device<Gaps>(100), *y = device<Gaps>(100), *one = device<Gaps>(1);
    fields<<<1, 128>>>(x, 100);
    copied<<<1, 128>>>(x, y, 100);
    fields<<<1, 128>>>(one, 1);
    back(one, 1);
    back(x, 100);
    printf("%d\n", back(y, 100)[99].number);
}
static void pinned() {
    int *x, *y;
    must(hipHostMalloc((void **)&x, 4000, 0));
    must(hipHostMalloc((void **)&y, 4000, 0));
    for (int i = 0; i < 1000; i++) x[i] = i;
    doubled<<<4, 256>>>(x, y, 1000);
    must(hipDeviceSynchronize());
    printf("%d\n", y[999]);
}
static void symbols() {
    int *y = device<int>(64), numbers[4] = {1, 2, 3, 4};
    from_variable<<<1, 64>>>(y);
    back(y, 64);
    must(hipMemcpyToSymbol(HIP_SYMBOL(variable), numbers, sizeof numbers));
    from_variable<<<1, 64>>>(y);
    printf("%d\n", back(y, 64)[3]);
}
static void recursion() {
    Node *nodes = device<Node>(20), list[20];
    int *y = device<int>(64);
    for (int i = 0; i < 20; i++) list[i] = {i < 19 ? nodes + i + 1 : nullptr, nullptr};
    must(hipMemcpy(nodes, list, sizeof list, hipMemcpyHostToDevice));
    depths<<<1, 64>>>(nodes, y);  // functions save registers that nothing has written
    std::vector<int> got = back(y, 64);
    printf("%d %d\n", got[0], got[1]);
}
static void printing() {
    int *x = device<int>(2), numbers[2] = {5, 6};
    must(hipMemcpy(x, numbers, sizeof numbers, hipMemcpyHostToDevice));
    text<<<1, 64>>>(x);
    must(hipDeviceSynchronize());
}
static void rectangle() {
    int *x, host[10][10];
    size_t pitch;
    must(hipMallocPitch((void **)&x, &pitch, 40, 10));
    memset(host, 1, sizeof host);
    must(hipMemcpy2D(x, pitch, host, 40, 40, 10, hipMemcpyHostToDevice));
    must(hipMemcpy2D(host, 40, x, pitch, 40, 10, hipMemcpyDeviceToHost));
    printf("%d\n", host[9][9]);
}
// Mistakes
static void last_missing() {
    int *x = device<int>(1000), *y = device<int>(1000);
    must(hipMemset(x, 0, 4000));
    doubled<<<4, 256>>>(x, y, 999);
    back(y, 1000);
}
static void decided() {
    int *x = device<int>(64), *y = device<int>(64);
    must(hipMemset(y, 0, 256));
    positive<<<1, 64>>>(x, y);
    back(y, 64);
}
static void lds() { int *y = device<int>(256); half_lds<<<1, 256>>>(y, 3); back(y, 256); }
static void own() {
    int *y = device<int>(64), *at = device<int>(2), numbers[2] = {3, 5};
    must(hipMemcpy(at, numbers, sizeof numbers, hipMemcpyHostToDevice));
    half_private<<<1, 64>>>(y, at);
    back(y, 64);
}
static void pinned_lds() {
    int *y;
    must(hipHostMalloc((void **)&y, 1024, 0));
    half_lds<<<1, 256>>>(y, 3);
    must(hipDeviceSynchronize());
}
static void through_copies() {
    int *x = device<int>(64), *y = device<int>(64), *z = device<int>(64);
    must(hipMemset(x, 1, 128));
    must(hipMemcpy(y, x, 256, hipMemcpyDeviceToDevice));
    doubled<<<1, 64>>>(y, z, 64);
    back(z, 64);
}
static void recycled() {
    for (int round = 0; round < 3; round++) {
        int *x = device<int>(64), *y = device<int>(64);
        if (round < 2) must(hipMemset(x, 0, 256));
        doubled<<<1, 64>>>(x, y, 64);
        back(y, 64);
        must(hipFree(x));
        must(hipFree(y));
    }
}
static void one_word() {
    int *x = device<int>(1), *y = device<int>(256);
    doubled<<<1, 64>>>(y, x, 1);
    back(x, 1);
}
static void half_by_host() {
    int *x = device<int>(64), *y = device<int>(64);
    for (int i = 0; i < 32; i++) x[i] = i;
    doubled<<<1, 64>>>(x, y, 64);
    back(y, 64);
}

int main(int count, char **names) {
    const std::map<std::string, std::function<void()>> programs = {
        {"copies", copies}, {"host_stores", host_stores}, {"padding", padding}, {"pinned", pinned},
        {"symbols", symbols}, {"recursion", recursion}, {"printing", printing}, {"rectangle", rectangle},
        {"last_missing", last_missing}, {"decided", decided}, {"lds", lds}, {"own", own}, {"pinned_lds", pinned_lds},
        {"through_copies", through_copies}, {"recycled", recycled}, {"one_word", one_word}, {"half_by_host", half_by_host},
    };
    for (int each = 1; each < count; each++) programs.at(names[each])();
}
