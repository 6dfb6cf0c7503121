// The program of `softcard demo`: a sum of arrays, by HIP as anybody writes it.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <vector>

__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

int main() {
    constexpr int n = 1 << 20;
    constexpr size_t size = n * sizeof(float);
    std::vector<float> a(n), b(n), c(n);
    for (int i = 0; i < n; i++) a[i] = i, b[i] = 2 * i;
    float *device_a, *device_b, *device_c;
    hipDeviceProp_t properties;
    if (hipGetDeviceProperties(&properties, 0) || hipMalloc((void **)&device_a, size) ||
        hipMalloc((void **)&device_b, size) || hipMalloc((void **)&device_c, size))
        return 2;
    if (hipMemcpy(device_a, a.data(), size, hipMemcpyHostToDevice) ||
        hipMemcpy(device_b, b.data(), size, hipMemcpyHostToDevice))
        return 2;
    add<<<n / 256, 256>>>(device_a, device_b, device_c, n);
    if (hipMemcpy(c.data(), device_c, size, hipMemcpyDeviceToHost)) return 2;
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += c[i] != a[i] + b[i];
    printf("%d sums on %s, %d wrong\n", n, properties.gcnArchName, wrong);
    return wrong != 0;
}
