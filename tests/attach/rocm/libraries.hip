// What rocRAND and rocSPARSE compute, for a test to compare: each argument names one.
#define FQUALIFIERS __forceinline__ __host__ __device__ // the generators' own code, for this processor too
#include <hip/hip_runtime.h>
#include <rocrand/rocrand.h>
#include <rocrand/rocrand_kernel.h>
#include <rocsparse/rocsparse.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        int error = (int)(call);                                                                                       \
        if (error) {                                                                                                   \
            printf("%s: %d\n", #call, error);                                                                          \
            exit(3);                                                                                                   \
        }                                                                                                              \
    } while (0)

template <class T> T *on_device(const std::vector<T> &values) {
    T *made;
    CHECK(hipMalloc((void **)&made, values.size() * sizeof(T)));
    CHECK(hipMemcpy(made, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
    return made;
}

constexpr size_t COUNT = 4096;

std::vector<unsigned> numbers(rocrand_rng_type type, bool has_seed) {
    std::vector<unsigned> words(COUNT);
    unsigned *device;
    rocrand_generator generator;
    CHECK(hipMalloc((void **)&device, 4 * COUNT));
    CHECK(rocrand_create_generator(&generator, type));
    if (has_seed) CHECK(rocrand_set_seed(generator, 12345));
    CHECK(rocrand_generate(generator, device, COUNT));
    CHECK(hipMemcpy(words.data(), device, 4 * COUNT, hipMemcpyDeviceToHost));
    CHECK(rocrand_destroy_generator(generator));
    return words;
}

void say(const char *name, const std::vector<unsigned> &words) {
    printf("%s", name);
    for (unsigned word : words) printf(" %x", word);
    printf("\n");
}

void xorwow() {
    auto words = numbers(ROCRAND_RNG_PSEUDO_XORWOW, true);
    int wrong = 0;
    for (size_t i = 0; i < COUNT; i++) {
        rocrand_state_xorwow state;
        rocrand_init(12345, i, 0, &state);
        wrong += words[i] != rocrand(&state);
    }
    printf("xorwow %d\n", wrong);
}

void sparse() {
    rocsparse_handle handle;
    CHECK(rocsparse_create_handle(&handle));
    constexpr int n = 1000, entries = 200, rows = 300;
    std::vector<float> y(n, 1), x(entries), got(n);
    std::vector<int> at(entries);
    for (int i = 0; i < entries; i++) x[i] = i, at[i] = 5 * i;
    float *device_y = on_device(y), *device_x = on_device(x), alpha = 2;
    int *device_at = on_device(at), wrong = 0;
    CHECK(rocsparse_saxpyi(handle, entries, &alpha, device_x, device_at, device_y, rocsparse_index_base_zero));
    CHECK(hipMemcpy(got.data(), device_y, 4 * n, hipMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) wrong += got[i] != (i % 5 ? 1 : 1 + 2.f * (i / 5));
    printf("saxpyi %d\n", wrong);
    float dot = 0, sum = 0;
    for (int i = 0; i < entries; i++) y[5 * i] = 1, sum += x[i];
    device_y = on_device(y);
    CHECK(rocsparse_sdoti(handle, entries, device_x, device_at, device_y, &dot, rocsparse_index_base_zero));
    CHECK(hipDeviceSynchronize());
    printf("sdoti %d\n", dot != sum); // small integers: exact in any order
    std::vector<int> begins(rows + 1), columns;
    std::vector<float> values, expected(rows), result(rows);
    for (int i = 0; i < rows; i++) {
        begins[i] = columns.size();
        for (int j = i - 1; j <= i + 1; j++)
            if (j >= 0 && j < rows) columns.push_back(j), values.push_back(i + j + 1), expected[i] += i + j + 1;
    }
    begins[rows] = columns.size();
    float one = 1, zero = 0, *out = on_device(result);
    rocsparse_mat_descr description;
    CHECK(rocsparse_create_mat_descr(&description));
    CHECK(rocsparse_scsrmv(handle, rocsparse_operation_none, rows, rows, columns.size(), &one, description,
                           on_device(values), on_device(begins), on_device(columns), nullptr,
                           on_device(std::vector<float>(rows, 1)), &zero, out));
    CHECK(hipMemcpy(result.data(), out, 4 * rows, hipMemcpyDeviceToHost));
    wrong = 0;
    for (int i = 0; i < rows; i++) wrong += result[i] != expected[i];
    printf("scsrmv %d\n", wrong);
    CHECK(rocsparse_destroy_handle(handle));
}

int main(int count, char **names) {
    for (int each = 1; each < count; each++) {
        if (!strcmp(names[each], "philox")) say("philox", numbers(ROCRAND_RNG_PSEUDO_PHILOX4_32_10, true));
        if (!strcmp(names[each], "sobol")) say("sobol", numbers(ROCRAND_RNG_QUASI_SOBOL32, false));
        if (!strcmp(names[each], "xorwow")) xorwow();
        if (!strcmp(names[each], "sparse")) sparse();
    }
    return 0;
}
