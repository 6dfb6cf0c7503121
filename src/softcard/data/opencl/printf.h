// printf: the compiler turns a call into a record in the printf buffer, and its format into metadata of the program.
#ifndef SOFTCARD_OPENCL_PRINTF_H
#define SOFTCARD_OPENCL_PRINTF_H
#include "atomic.h"

// Place for a record, called by what the compiler makes of printf; NULL where the buffer is full. C++ would give the
// function another name than the one that the compiler knows.
//
// Without optimisation, clang up to 16 deletes functions that are always inlined before it translates printf.
// __SOFTCARD_PART__ is defined for sources that are linked, perhaps without optimisation, with others.
#if defined(__OPTIMIZE__) && !defined(__SOFTCARD_PART__)
#define __US_PRINTF_FN static inline __attribute__((always_inline, nodebug))
#else
#define __US_PRINTF_FN static inline __attribute__((nodebug))
#endif
__US_PRINTF_FN global char *__printf_alloc(uint bytes) __asm("__printf_alloc");
__US_PRINTF_FN global char *__printf_alloc(uint bytes)
{
    if (!bytes)
        return 0;
    global uint *buffer = ((global uint *const constant *)__builtin_amdgcn_implicitarg_ptr())
        [__SOFTCARD_CODE_OBJECT__ >= 5 ? 9 : 3];
    uint size = buffer[1];
#if __US_STANDARD >= 200
    volatile global atomic_uint *used = (volatile global atomic_uint *)buffer;
    uint at = atomic_load_explicit(used, memory_order_relaxed, memory_scope_all_svm_devices);
    do {
        if (at + bytes > size)
            return 0;
    } while (!atomic_compare_exchange_strong_explicit(used, &at, at + bytes, memory_order_relaxed, memory_order_relaxed,
                                                      memory_scope_all_svm_devices));
#else
    uint at = atomic_or(buffer, 0u), seen;
    do {
        if (at + bytes > size)
            return 0;
        seen = at;
        at = atomic_cmpxchg(buffer, seen, seen + bytes);
    } while (at != seen);
#endif
    return (global char *)(buffer + 2) + at;
}
__US_C int printf(constant const char *format, ...) __attribute__((format(printf, 1, 2)));
// Nobody but the compiler calls __printf_alloc: the call with 0, which does nothing, keeps it until then.
#define printf(...) (__printf_alloc(0), printf(__VA_ARGS__))

#endif
