// HIP for AMD GPUs, device code only: what kernels call, as code that is inlined. Mathematical functions are those of
// OpenCL C's library.
#ifndef SOFTCARD_HIP_RUNTIME_H
#define SOFTCARD_HIP_RUNTIME_H

#define __HIP_PLATFORM_AMD__ 1
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define HIP_DYNAMIC_SHARED(T, name) extern __shared__ T name[];

#define __US_FN static inline __attribute__((device, always_inline))
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned long size_t;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef _Float16 __half;
#ifndef NULL
#define NULL __null
#endif
#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define M_PI 3.141592653589793

#define __US_VECTOR(T, N)                                                                             \
    struct N##2 { T x, y; };                                                                          \
    struct N##3 { T x, y, z; };                                                                       \
    struct __attribute__((aligned(sizeof(T) * 4))) N##4 { T x, y, z, w; };                            \
    __US_FN N##2 make_##N##2(T x, T y) { return N##2{x, y}; }                                         \
    __US_FN N##3 make_##N##3(T x, T y, T z) { return N##3{x, y, z}; }                                 \
    __US_FN N##4 make_##N##4(T x, T y, T z, T w) { return N##4{x, y, z, w}; }
__US_VECTOR(signed char, char) __US_VECTOR(uchar, uchar) __US_VECTOR(short, short) __US_VECTOR(ushort, ushort)
__US_VECTOR(int, int) __US_VECTOR(uint, uint) __US_VECTOR(long, long) __US_VECTOR(ulong, ulong)
__US_VECTOR(float, float) __US_VECTOR(double, double)

// ---- work-items ------------------------------------------------------------------------------------------------------

struct dim3 {
    uint x = 1, y = 1, z = 1;
};
#define __US_DIM3(expression) (dim3{expression(x), expression(y), expression(z)})
#define __US_GROUPS(a) \
    ((__builtin_amdgcn_grid_size_##a() + __builtin_amdgcn_workgroup_size_##a() - 1) / __builtin_amdgcn_workgroup_size_##a())
#define __US_THREAD(a) __builtin_amdgcn_workitem_id_##a()
#define __US_BLOCK(a) __builtin_amdgcn_workgroup_id_##a()
#define __US_SIZE(a) __builtin_amdgcn_workgroup_size_##a()
#define threadIdx __US_DIM3(__US_THREAD)
#define blockIdx __US_DIM3(__US_BLOCK)
#define blockDim __US_DIM3(__US_SIZE)
#define gridDim __US_DIM3(__US_GROUPS)
#define warpSize 64
__US_FN uint __lane_id() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }

// ---- barriers and fences -----------------------------------------------------------------------------------------------

__US_FN void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
__US_FN void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
__US_FN void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }
__US_FN __attribute__((convergent)) void __syncthreads()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// ---- atomics: relaxed, of the device -----------------------------------------------------------------------------------

#define __US_FETCH(name, op, T)                                                                       \
    __US_FN T name(T *p, T v) { return __hip_atomic_##op(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
#define __US_ATOMICS(T)                                                                               \
    __US_FETCH(atomicAdd, fetch_add, T) __US_FETCH(atomicAnd, fetch_and, T) __US_FETCH(atomicOr, fetch_or, T) \
    __US_FETCH(atomicXor, fetch_xor, T) __US_FETCH(atomicMin, fetch_min, T) __US_FETCH(atomicMax, fetch_max, T) \
    __US_FETCH(atomicExch, exchange, T)                                                               \
    __US_FN T atomicSub(T *p, T v) { return atomicAdd(p, (T)-v); }                                    \
    __US_FN T atomicCAS(T *p, T expected, T v)                                                        \
    {                                                                                                 \
        __hip_atomic_compare_exchange_strong(p, &expected, v, __ATOMIC_RELAXED, __ATOMIC_RELAXED,     \
                                             __HIP_MEMORY_SCOPE_AGENT);                               \
        return expected;                                                                              \
    }
__US_ATOMICS(int) __US_ATOMICS(uint) __US_ATOMICS(long) __US_ATOMICS(ulong)
__US_ATOMICS(long long) __US_ATOMICS(unsigned long long)
__US_FETCH(atomicAdd, fetch_add, float) __US_FETCH(atomicAdd, fetch_add, double) __US_FETCH(atomicExch, exchange, float)

// ---- across a wave -------------------------------------------------------------------------------------------------------

__US_FN __attribute__((convergent)) ulong __ballot(int x) { return __builtin_amdgcn_uicmp((uint)(x != 0), 0u, 33); }
__US_FN __attribute__((convergent)) int __any(int x) { return __ballot(x) != 0; }
__US_FN __attribute__((convergent)) int __all(int x) { return __ballot(!x) == 0; }
// Of each lane, what another one has: the instruction that does so is newer than GFX7.
__US_FN __attribute__((convergent)) int __us_of_lane(int x, int lane)
{
#ifdef __GFX7__
    int r = x;
    for (int i = 0; i < 64; i++) {
        int other = __builtin_amdgcn_readlane(x, i);
        r = i == lane ? other : r;
    }
    return r;
#else
    return __builtin_amdgcn_ds_bpermute(lane << 2, x);
#endif
}
__US_FN __attribute__((convergent)) int __shfl(int x, int lane, int width = 64)
{
    return __us_of_lane(x, ((int)__lane_id() & -width) | (lane & (width - 1)));
}
__US_FN __attribute__((convergent)) int __shfl_xor(int x, int mask, int width = 64)
{
    int me = (int)__lane_id(), other = me ^ mask;
    return __us_of_lane(x, other < ((me + width) & -width) ? other : me);
}
__US_FN __attribute__((convergent)) int __shfl_up(int x, uint by, int width = 64)
{
    int me = (int)__lane_id(), other = me - (int)by;
    return __us_of_lane(x, other < (me & -width) ? me : other);
}
__US_FN __attribute__((convergent)) int __shfl_down(int x, uint by, int width = 64)
{
    int me = (int)__lane_id(), other = me + (int)by;
    return __us_of_lane(x, (me & (width - 1)) + (int)by < width ? other : me);
}
#define __US_SHUFFLES(T)                                                                                                \
    __US_FN __attribute__((convergent)) T __shfl(T x, int lane, int width = 64)                                         \
    {                                                                                                                   \
        return __builtin_bit_cast(T, __shfl(__builtin_bit_cast(int, x), lane, width));                                  \
    }                                                                                                                   \
    __US_FN __attribute__((convergent)) T __shfl_xor(T x, int mask, int width = 64)                                     \
    {                                                                                                                   \
        return __builtin_bit_cast(T, __shfl_xor(__builtin_bit_cast(int, x), mask, width));                              \
    }                                                                                                                   \
    __US_FN __attribute__((convergent)) T __shfl_up(T x, uint by, int width = 64)                                       \
    {                                                                                                                   \
        return __builtin_bit_cast(T, __shfl_up(__builtin_bit_cast(int, x), by, width));                                 \
    }                                                                                                                   \
    __US_FN __attribute__((convergent)) T __shfl_down(T x, uint by, int width = 64)                                     \
    {                                                                                                                   \
        return __builtin_bit_cast(T, __shfl_down(__builtin_bit_cast(int, x), by, width));                               \
    }
__US_SHUFFLES(uint) __US_SHUFFLES(float)

// ---- numbers ---------------------------------------------------------------------------------------------------------------

#define SOFTCARD_OPENCL_TYPES_H
#define as_long(x) __builtin_bit_cast(long, x)
#pragma clang fp contract(off)
#include "../../opencl/real.h"
#pragma clang fp contract(fast)
#undef as_long

#define __US_REAL1(name)                                                            \
    __US_FN double name(double x) { return __us_##name(x); }                        \
    __US_FN float name(float x) { return (float)__us_##name((double)x); }           \
    __US_FN float name##f(float x) { return (float)__us_##name((double)x); }
#define __US_REAL2(name)                                                                                    \
    __US_FN double name(double x, double y) { return __us_##name(x, y); }                                   \
    __US_FN float name(float x, float y) { return (float)__us_##name((double)x, (double)y); }               \
    __US_FN float name##f(float x, float y) { return (float)__us_##name((double)x, (double)y); }
__US_FN double __us_log(double x) { return __us_ln(x); }
__US_FN double __us_lgamma(double x)
{
    int sign;
    return __us_lgamma(x, &sign);
}
__US_REAL1(exp) __US_REAL1(exp2) __US_REAL1(exp10) __US_REAL1(expm1) __US_REAL1(log) __US_REAL1(log2) __US_REAL1(log10)
__US_REAL1(log1p) __US_REAL1(cbrt) __US_REAL1(rsqrt) __US_REAL1(sin) __US_REAL1(cos) __US_REAL1(tan) __US_REAL1(sinpi)
__US_REAL1(cospi) __US_REAL1(asin) __US_REAL1(acos) __US_REAL1(atan) __US_REAL1(sinh) __US_REAL1(cosh) __US_REAL1(tanh)
__US_REAL1(asinh) __US_REAL1(acosh) __US_REAL1(atanh) __US_REAL1(erf) __US_REAL1(erfc) __US_REAL1(tgamma)
__US_REAL1(lgamma) __US_REAL2(pow) __US_REAL2(hypot) __US_REAL2(atan2) __US_REAL2(fmod) __US_REAL2(remainder)

#define __US_HARDWARE1(name)                                                        \
    __US_FN double name(double x) { return __builtin_##name(x); }                   \
    __US_FN float name(float x) { return __builtin_##name##f(x); }                  \
    __US_FN float name##f(float x) { return __builtin_##name##f(x); }
#define __US_HARDWARE2(name)                                                        \
    __US_FN double name(double x, double y) { return __builtin_##name(x, y); }      \
    __US_FN float name(float x, float y) { return __builtin_##name##f(x, y); }      \
    __US_FN float name##f(float x, float y) { return __builtin_##name##f(x, y); }
__US_HARDWARE1(fabs) __US_HARDWARE1(floor) __US_HARDWARE1(ceil) __US_HARDWARE1(trunc) __US_HARDWARE1(rint)
__US_HARDWARE1(round) __US_HARDWARE1(sqrt) __US_HARDWARE2(fmin) __US_HARDWARE2(fmax) __US_HARDWARE2(copysign)
__US_FN double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
__US_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__US_FN float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__US_FN bool isnan(double x) { return x != x; }
__US_FN bool isinf(double x) { return __builtin_fabs(x) == INFINITY; }
__US_FN bool isfinite(double x) { return __builtin_fabs(x) < INFINITY; }
__US_FN int abs(int x) { return x < 0 ? -x : x; }
template <typename T> __US_FN T min(T a, T b) { return b < a ? b : a; }
template <typename T> __US_FN T max(T a, T b) { return a < b ? b : a; }
__US_FN float __expf(float x) { return __builtin_exp2f(x * 0x1.715476p+0f); }
__US_FN float __logf(float x) { return __builtin_log2f(x) * 0x1.62e430p-1f; }
__US_FN float __fdividef(float x, float y) { return x * __builtin_amdgcn_rcpf(y); }
__US_FN int __popc(uint x) { return __builtin_popcount(x); }
__US_FN int __popcll(ulong x) { return __builtin_popcountl(x); }
__US_FN int __clz(int x) { return x ? __builtin_clz((uint)x) : 32; }
__US_FN int __clzll(long x) { return x ? __builtin_clzl((ulong)x) : 64; }
__US_FN int __ffs(int x) { return __builtin_ffs(x); }
__US_FN int __ffsll(long x) { return __builtin_ffsl(x); }
__US_FN uint __brev(uint x) { return __builtin_bitreverse32(x); }
__US_FN int __mulhi(int a, int b) { return (int)((long)a * b >> 32); }
__US_FN uint __umulhi(uint a, uint b) { return (uint)((ulong)a * b >> 32); }
__US_FN float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
__US_FN int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
__US_FN uint __float_as_uint(float x) { return __builtin_bit_cast(uint, x); }
__US_FN float __uint_as_float(uint x) { return __builtin_bit_cast(float, x); }
__US_FN long clock64() { return (long)__builtin_readcyclecounter(); }

// ---- printf: as in OpenCL C --------------------------------------------------------------------------------------------------

extern "C" {
typedef __attribute__((address_space(1))) char __us_record;
inline __attribute__((device, always_inline)) __us_record *__printf_alloc(uint bytes)
{
    if (!bytes)
        return 0;
    uint *buffer = ((uint *const __attribute__((address_space(4))) *)__builtin_amdgcn_implicitarg_ptr())
        [__SOFTCARD_CODE_OBJECT__ >= 5 ? 9 : 3];
    uint at = __hip_atomic_load(buffer, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM), size = buffer[1];
    do {
        if (at + bytes > size)
            return 0;
    } while (!__hip_atomic_compare_exchange_strong(buffer, &at, at + bytes, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                                   __HIP_MEMORY_SCOPE_SYSTEM));
    return (__us_record *)(buffer + 2) + at;
}
// Under its own name the front end would make another thing of it, which needs a server.
__device__ int __us_printf(const char *format, ...) __asm("printf") __attribute__((format(printf, 1, 2)));
}
#define printf(...) (__printf_alloc(0), __us_printf(__VA_ARGS__))

#endif
