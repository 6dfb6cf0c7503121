// printf: the compiler turns a call into a record in the printf buffer, and its format into metadata of the program.
#ifndef SOFTCARD_OPENCL_PRINTF_H
#define SOFTCARD_OPENCL_PRINTF_H
#include "atomic.h"

// Place for a record, called by what the compiler makes of printf; NULL where the buffer is full.
static inline __attribute__((always_inline)) global char *__printf_alloc(uint bytes)
{
    if (!bytes)
        return 0;
    global uint *buffer = ((global uint *const constant *)__builtin_amdgcn_implicitarg_ptr())
        [__SOFTCARD_CODE_OBJECT__ >= 5 ? 9 : 3];
    volatile global atomic_uint *used = (volatile global atomic_uint *)buffer;
    uint at = atomic_load_explicit(used, memory_order_relaxed, memory_scope_all_svm_devices), size = buffer[1];
    do {
        if (at + bytes > size)
            return 0;
    } while (!atomic_compare_exchange_strong_explicit(used, &at, at + bytes, memory_order_relaxed, memory_order_relaxed,
                                                      memory_scope_all_svm_devices));
    return (global char *)(buffer + 2) + at;
}
int printf(constant const char *format, ...) __attribute__((format(printf, 1, 2)));
// Nobody but the compiler calls __printf_alloc: the call with 0, which does nothing, keeps it until then.
#define printf(...) (__printf_alloc(0), printf(__VA_ARGS__))

#endif
