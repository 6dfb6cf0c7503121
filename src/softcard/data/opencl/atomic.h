// Atomics of OpenCL 1.2 and 2.0, fences and barriers.
#ifndef SOFTCARD_OPENCL_ATOMIC_H
#define SOFTCARD_OPENCL_ATOMIC_H
#include "types.h"

typedef uint cl_mem_fence_flags;
typedef enum { memory_scope_work_item = 0, memory_scope_work_group = 1, memory_scope_device = 2,
               memory_scope_all_svm_devices = 3, memory_scope_all_devices = 3,
               memory_scope_sub_group = 4 } memory_scope;
typedef enum { memory_order_relaxed = 0, memory_order_acquire = 2, memory_order_release = 3, memory_order_acq_rel = 4,
               memory_order_seq_cst = 5 } memory_order;

// ---- fences and barriers -----------------------------------------------------------------------------------------------

#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define CLK_IMAGE_MEM_FENCE 4

// Orders and scopes are constants where this is inlined, so that one fence stays of them all.
#define __US_FENCES(scope)                                                                      \
    switch (order) {                                                                            \
    case memory_order_relaxed: break;                                                           \
    case memory_order_acquire: __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, scope); break;          \
    case memory_order_release: __builtin_amdgcn_fence(__ATOMIC_RELEASE, scope); break;          \
    case memory_order_acq_rel: __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, scope); break;          \
    case memory_order_seq_cst: __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, scope); break;          \
    }
__US_FN void atomic_work_item_fence(cl_mem_fence_flags flags, memory_order order, memory_scope scope)
{
    switch (scope) {
    case memory_scope_work_item: break;
    case memory_scope_sub_group: __US_FENCES("wavefront") break;
    case memory_scope_work_group: __US_FENCES("workgroup") break;
    case memory_scope_device: __US_FENCES("agent") break;
    case memory_scope_all_svm_devices: __US_FENCES("") break;
    }
}
__US_CONVERGENT void work_group_barrier(cl_mem_fence_flags flags, memory_scope scope)
{
    atomic_work_item_fence(flags, memory_order_release, scope);
    __builtin_amdgcn_s_barrier();
    atomic_work_item_fence(flags, memory_order_acquire, scope);
}
__US_CONVERGENT void work_group_barrier(cl_mem_fence_flags flags)
{
    work_group_barrier(flags, memory_scope_work_group);
}
__US_CONVERGENT void barrier(cl_mem_fence_flags flags) { work_group_barrier(flags, memory_scope_work_group); }
__US_CONVERGENT void sub_group_barrier(cl_mem_fence_flags flags, memory_scope scope)
{
    atomic_work_item_fence(flags, memory_order_release, scope);
    __builtin_amdgcn_wave_barrier();
    atomic_work_item_fence(flags, memory_order_acquire, scope);
}
__US_CONVERGENT void sub_group_barrier(cl_mem_fence_flags flags) { sub_group_barrier(flags, memory_scope_sub_group); }
__US_FN void mem_fence(cl_mem_fence_flags flags)
{
    atomic_work_item_fence(flags, memory_order_acq_rel, memory_scope_work_group);
}
__US_FN void read_mem_fence(cl_mem_fence_flags flags)
{
    atomic_work_item_fence(flags, memory_order_acquire, memory_scope_work_group);
}
__US_FN void write_mem_fence(cl_mem_fence_flags flags)
{
    atomic_work_item_fence(flags, memory_order_release, memory_scope_work_group);
}

#if __US_STANDARD >= 200
__US_FN cl_mem_fence_flags get_fence(const void *p)
{
    return __builtin_amdgcn_is_shared(p) ? CLK_LOCAL_MEM_FENCE : CLK_GLOBAL_MEM_FENCE;
}
#endif

// ---- OpenCL 1.2: relaxed, device scope ---------------------------------------------------------------------------------

// OpenCL C before 2.0 lacks the atomic types that the compiler's functions require: it links those of linked.cl.
#if __US_STANDARD >= 200
#ifdef __US_LINKED
#define __US_ATOMIC_FN __attribute__((always_inline, overloadable, nodebug))
#else
#define __US_ATOMIC_FN __US_FN
#endif
#define __US_ATOMIC_OF(name, op, T, S)                                                                         \
    __US_ATOMIC_FN T atomic_##name(volatile S T *p, T v)                                                       \
    {                                                                                                          \
        return __opencl_atomic_##op((volatile S atomic_##T *)p, v, memory_order_relaxed, memory_scope_device); \
    }
#define __US_ATOMIC_COMPARE(T, S)                                                                                   \
    __US_ATOMIC_FN T atomic_cmpxchg(volatile S T *p, T expected, T v)                                               \
    {                                                                                                               \
        __opencl_atomic_compare_exchange_strong((volatile S atomic_##T *)p, &expected, v, memory_order_relaxed,     \
                                                memory_order_relaxed, memory_scope_device);                         \
        return expected;                                                                                            \
    }
#else
#define __US_ATOMIC_OF(name, op, T, S) __attribute__((overloadable)) T atomic_##name(volatile S T *p, T v);
#define __US_ATOMIC_COMPARE(T, S) __attribute__((overloadable)) T atomic_cmpxchg(volatile S T *p, T expected, T v);
#endif
#define __US_ATOMIC(name, op, T, S)                                             \
    __US_ATOMIC_OF(name, op, T, S)                                              \
    __US_FN T atom_##name(volatile S T *p, T v) { return atomic_##name(p, v); }
#define __US_ATOMICS(T, S)                                                                                          \
    __US_ATOMIC(add, fetch_add, T, S) __US_ATOMIC(sub, fetch_sub, T, S) __US_ATOMIC(and, fetch_and, T, S)           \
    __US_ATOMIC(or, fetch_or, T, S) __US_ATOMIC(xor, fetch_xor, T, S) __US_ATOMIC(min, fetch_min, T, S)             \
    __US_ATOMIC(max, fetch_max, T, S) __US_ATOMIC(xchg, exchange, T, S)                                             \
    __US_FN T atomic_inc(volatile S T *p) { return atomic_add(p, (T)1); }                                           \
    __US_FN T atomic_dec(volatile S T *p) { return atomic_sub(p, (T)1); }                                           \
    __US_FN T atom_inc(volatile S T *p) { return atomic_add(p, (T)1); }                                             \
    __US_FN T atom_dec(volatile S T *p) { return atomic_sub(p, (T)1); }                                             \
    __US_ATOMIC_COMPARE(T, S)                                                                                       \
    __US_FN T atom_cmpxchg(volatile S T *p, T expected, T v) { return atomic_cmpxchg(p, expected, v); }
__US_ATOMICS(int, global) __US_ATOMICS(uint, global) __US_ATOMICS(long, global) __US_ATOMICS(ulong, global)
__US_ATOMICS(int, local) __US_ATOMICS(uint, local) __US_ATOMICS(long, local) __US_ATOMICS(ulong, local)
__US_FN float atomic_xchg(volatile global float *p, float v)
{
    return as_float(atomic_xchg((volatile global uint *)p, as_uint(v)));
}
__US_FN float atomic_xchg(volatile local float *p, float v)
{
    return as_float(atomic_xchg((volatile local uint *)p, as_uint(v)));
}

// ---- OpenCL 2.0 --------------------------------------------------------------------------------------------------------

#if __US_STANDARD >= 200
typedef atomic_int atomic_flag;
#define ATOMIC_VAR_INIT(x) (x)
#define ATOMIC_FLAG_INIT 0
#define __US_ORDER memory_order_seq_cst, memory_scope_device
// The forms with an order take the scope as an argument, or else mean the device.
#define __US_NAMED(a, b, c, d, e, f, name, ...) name

#define atomic_init(p, v) __opencl_atomic_init(p, v)
#define __us_load2(p, o) __opencl_atomic_load(p, o, memory_scope_device)
#define __us_load3(p, o, s) __opencl_atomic_load(p, o, s)
#define atomic_load_explicit(...) __US_NAMED(__VA_ARGS__, 0, 0, 0, __us_load3, __us_load2, 0)(__VA_ARGS__)
#define atomic_load(p) __opencl_atomic_load(p, __US_ORDER)
#define __us_store3(p, v, o) __opencl_atomic_store(p, v, o, memory_scope_device)
#define __us_store4(p, v, o, s) __opencl_atomic_store(p, v, o, s)
#define atomic_store_explicit(...) __US_NAMED(__VA_ARGS__, 0, 0, __us_store4, __us_store3, 0)(__VA_ARGS__)
#define atomic_store(p, v) __opencl_atomic_store(p, v, __US_ORDER)
#define __us_exchange3(p, v, o) __opencl_atomic_exchange(p, v, o, memory_scope_device)
#define __us_exchange4(p, v, o, s) __opencl_atomic_exchange(p, v, o, s)
#define atomic_exchange_explicit(...) __US_NAMED(__VA_ARGS__, 0, 0, __us_exchange4, __us_exchange3, 0)(__VA_ARGS__)
#define atomic_exchange(p, v) __opencl_atomic_exchange(p, v, __US_ORDER)
#define __us_fetch_add3(p, v, o) __opencl_atomic_fetch_add(p, v, o, memory_scope_device)
#define __us_fetch_add4(p, v, o, s) __opencl_atomic_fetch_add(p, v, o, s)
#define atomic_fetch_add_explicit(...) __US_NAMED(__VA_ARGS__, 0, 0, __us_fetch_add4, __us_fetch_add3, 0)(__VA_ARGS__)
#define atomic_fetch_add(p, v) __opencl_atomic_fetch_add(p, v, __US_ORDER)
#define __us_fetch_sub3(p, v, o) __opencl_atomic_fetch_sub(p, v, o, memory_scope_device)
#define __us_fetch_sub4(p, v, o, s) __opencl_atomic_fetch_sub(p, v, o, s)
#define atomic_fetch_sub_explicit(...) __US_NAMED(__VA_ARGS__, 0, 0, __us_fetch_sub4, __us_fetch_sub3, 0)(__VA_ARGS__)
#define atomic_fetch_sub(p, v) __opencl_atomic_fetch_sub(p, v, __US_ORDER)
#define __us_fetch_and3(p, v, o) __opencl_atomic_fetch_and(p, v, o, memory_scope_device)
#define __us_fetch_and4(p, v, o, s) __opencl_atomic_fetch_and(p, v, o, s)
#define atomic_fetch_and_explicit(...) __US_NAMED(__VA_ARGS__, 0, 0, __us_fetch_and4, __us_fetch_and3, 0)(__VA_ARGS__)
#define atomic_fetch_and(p, v) __opencl_atomic_fetch_and(p, v, __US_ORDER)
#define __us_fetch_or3(p, v, o) __opencl_atomic_fetch_or(p, v, o, memory_scope_device)
#define __us_fetch_or4(p, v, o, s) __opencl_atomic_fetch_or(p, v, o, s)
#define atomic_fetch_or_explicit(...) __US_NAMED(__VA_ARGS__, 0, 0, __us_fetch_or4, __us_fetch_or3, 0)(__VA_ARGS__)
#define atomic_fetch_or(p, v) __opencl_atomic_fetch_or(p, v, __US_ORDER)
#define __us_fetch_xor3(p, v, o) __opencl_atomic_fetch_xor(p, v, o, memory_scope_device)
#define __us_fetch_xor4(p, v, o, s) __opencl_atomic_fetch_xor(p, v, o, s)
#define atomic_fetch_xor_explicit(...) __US_NAMED(__VA_ARGS__, 0, 0, __us_fetch_xor4, __us_fetch_xor3, 0)(__VA_ARGS__)
#define atomic_fetch_xor(p, v) __opencl_atomic_fetch_xor(p, v, __US_ORDER)
#define __us_fetch_min3(p, v, o) __us_fetch_min4(p, v, o, memory_scope_device)
#define __us_fetch_max3(p, v, o) __us_fetch_max4(p, v, o, memory_scope_device)
#if __clang_major__ >= 17
#define __us_fetch_min4(p, v, o, s) __opencl_atomic_fetch_min(p, v, o, s)
#define __us_fetch_max4(p, v, o, s) __opencl_atomic_fetch_max(p, v, o, s)
#else
// These compilers have functions of integers only.
#define __US_EXTREME(name, S, T)                                                                                    \
    __US_FN T __us_fetch_##name##4(volatile S atomic_##T *p, T v, memory_order order, memory_scope scope)           \
    {                                                                                                               \
        return __opencl_atomic_fetch_##name(p, v, order, scope);                                                    \
    }
#define __US_FLOAT_EXTREME(name, S, T)                                                                              \
    __US_FN T __us_fetch_##name##4(volatile S atomic_##T *p, T v, memory_order order, memory_scope scope)           \
    {                                                                                                               \
        T old = __opencl_atomic_load(p, memory_order_relaxed, scope);                                               \
        while (!__opencl_atomic_compare_exchange_weak(p, &old, (T)__builtin_f##name((double)old, (double)v), order, \
                                                      memory_order_relaxed, scope)) {                               \
        }                                                                                                           \
        return old;                                                                                                 \
    }
#define __US_EXTREMES(name, S)                                                                                      \
    __US_EXTREME(name, S, int) __US_EXTREME(name, S, uint) __US_EXTREME(name, S, long) __US_EXTREME(name, S, ulong) \
    __US_FLOAT_EXTREME(name, S, half) __US_FLOAT_EXTREME(name, S, float) __US_FLOAT_EXTREME(name, S, double)
__US_EXTREMES(min, global) __US_EXTREMES(min, local) __US_EXTREMES(min, generic)
__US_EXTREMES(max, global) __US_EXTREMES(max, local) __US_EXTREMES(max, generic)
#endif
#define atomic_fetch_min_explicit(...) __US_NAMED(__VA_ARGS__, 0, 0, __us_fetch_min4, __us_fetch_min3, 0)(__VA_ARGS__)
#define atomic_fetch_min(p, v) __us_fetch_min4(p, v, memory_order_seq_cst, memory_scope_device)
#define atomic_fetch_max_explicit(...) __US_NAMED(__VA_ARGS__, 0, 0, __us_fetch_max4, __us_fetch_max3, 0)(__VA_ARGS__)
#define atomic_fetch_max(p, v) __us_fetch_max4(p, v, memory_order_seq_cst, memory_scope_device)
#define __us_strong5(p, e, v, o, f) __opencl_atomic_compare_exchange_strong(p, e, v, o, f, memory_scope_device)
#define __us_strong6(p, e, v, o, f, s) __opencl_atomic_compare_exchange_strong(p, e, v, o, f, s)
#define atomic_compare_exchange_strong_explicit(...) __US_NAMED(__VA_ARGS__, __us_strong6, __us_strong5, 0)(__VA_ARGS__)
#define atomic_compare_exchange_strong(p, e, v) \
    __opencl_atomic_compare_exchange_strong(p, e, v, memory_order_seq_cst, __US_ORDER)
#define __us_weak5(p, e, v, o, f) __opencl_atomic_compare_exchange_weak(p, e, v, o, f, memory_scope_device)
#define __us_weak6(p, e, v, o, f, s) __opencl_atomic_compare_exchange_weak(p, e, v, o, f, s)
#define atomic_compare_exchange_weak_explicit(...) __US_NAMED(__VA_ARGS__, __us_weak6, __us_weak5, 0)(__VA_ARGS__)
#define atomic_compare_exchange_weak(p, e, v) \
    __opencl_atomic_compare_exchange_weak(p, e, v, memory_order_seq_cst, __US_ORDER)

#define atomic_flag_test_and_set(p) (atomic_exchange(p, 1) != 0)
#define atomic_flag_test_and_set_explicit(p, ...) (atomic_exchange_explicit(p, 1, __VA_ARGS__) != 0)
#define atomic_flag_clear(p) atomic_store(p, 0)
#define atomic_flag_clear_explicit(p, ...) atomic_store_explicit(p, 0, __VA_ARGS__)
#endif

#endif
