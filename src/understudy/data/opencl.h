// OpenCL C for AMD GPUs without a device library: types, work-item functions, barriers, atomics, and the mathematics
// that the hardware has instructions for. Understudy's compile() puts it in front of a source; any clang with the AMDGPU
// target takes it, together with -cl-no-stdinc -nogpulib. __UNDERSTUDY_CODE_OBJECT__ is the code object version.
//
// exp, log, pow, sin, cos and their kin are the hardware's approximations; link a device library for exact ones.
#ifndef UNDERSTUDY_OPENCL_H
#define UNDERSTUDY_OPENCL_H

#ifndef __UNDERSTUDY_CODE_OBJECT__
#define __UNDERSTUDY_CODE_OBJECT__ 5
#endif
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef unsigned long uintptr_t;
typedef long intptr_t;
typedef uint cl_mem_fence_flags;

#define __UNDERSTUDY_VECTORS(T)                         \
    typedef T T##2 __attribute__((ext_vector_type(2))); \
    typedef T T##3 __attribute__((ext_vector_type(3))); \
    typedef T T##4 __attribute__((ext_vector_type(4))); \
    typedef T T##8 __attribute__((ext_vector_type(8))); \
    typedef T T##16 __attribute__((ext_vector_type(16)));
__UNDERSTUDY_VECTORS(char) __UNDERSTUDY_VECTORS(uchar) __UNDERSTUDY_VECTORS(short) __UNDERSTUDY_VECTORS(ushort)
__UNDERSTUDY_VECTORS(int) __UNDERSTUDY_VECTORS(uint) __UNDERSTUDY_VECTORS(long) __UNDERSTUDY_VECTORS(ulong)
__UNDERSTUDY_VECTORS(half) __UNDERSTUDY_VECTORS(float) __UNDERSTUDY_VECTORS(double)

#define __UNDERSTUDY_FN static inline __attribute__((always_inline, overloadable))
#define NULL ((void *)0)
#define INT_MAX 0x7fffffff
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 0xffffffffu
#define LONG_MAX 0x7fffffffffffffffL
#define LONG_MIN (-LONG_MAX - 1)
#define ULONG_MAX 0xffffffffffffffffUL
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1.0p-126f
#define FLT_EPSILON 0x1.0p-23f
#define DBL_MAX 0x1.fffffffffffffp1023
#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define M_PI_F 3.14159274101257f
#define M_PI 3.141592653589793115998

// ---- work-items ------------------------------------------------------------------------------------------------------

#define __UNDERSTUDY_AXIS(d, x, y, z) ((d) == 0 ? (x) : (d) == 1 ? (y) : (d) == 2 ? (z) : 0)

__UNDERSTUDY_FN uint get_work_dim(void)
{
#if __UNDERSTUDY_CODE_OBJECT__ >= 5
    return ((const constant ushort *)__builtin_amdgcn_implicitarg_ptr())[32];
#else
    return ((const constant ushort *)__builtin_amdgcn_dispatch_ptr())[1] & 3;
#endif
}
__UNDERSTUDY_FN size_t get_global_size(uint d)
{
    return __UNDERSTUDY_AXIS(d, __builtin_amdgcn_grid_size_x(), __builtin_amdgcn_grid_size_y(),
                             __builtin_amdgcn_grid_size_z()) + (d > 2);
}
__UNDERSTUDY_FN size_t get_enqueued_local_size(uint d)
{
    return __UNDERSTUDY_AXIS(d, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
                             __builtin_amdgcn_workgroup_size_z()) + (d > 2);
}
__UNDERSTUDY_FN size_t get_local_id(uint d)
{
    return __UNDERSTUDY_AXIS(d, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
                             __builtin_amdgcn_workitem_id_z());
}
__UNDERSTUDY_FN size_t get_group_id(uint d)
{
    return __UNDERSTUDY_AXIS(d, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
                             __builtin_amdgcn_workgroup_id_z());
}
__UNDERSTUDY_FN size_t get_num_groups(uint d)
{
    uint size = get_enqueued_local_size(d);
    return ((uint)get_global_size(d) + size - 1) / size;
}
__UNDERSTUDY_FN size_t get_local_size(uint d)
{
    uint size = get_enqueued_local_size(d), left = (uint)get_global_size(d) - (uint)get_group_id(d) * size;
    return left < size ? left : size;
}
__UNDERSTUDY_FN size_t get_global_offset(uint d)
{
    const constant ulong *hidden = (const constant ulong *)__builtin_amdgcn_implicitarg_ptr();
    return d > 2 ? 0 : hidden[d + (__UNDERSTUDY_CODE_OBJECT__ >= 5 ? 5 : 0)];
}
__UNDERSTUDY_FN size_t get_global_id(uint d)
{
    return (uint)get_group_id(d) * (uint)get_enqueued_local_size(d) + (uint)get_local_id(d) + get_global_offset(d);
}
__UNDERSTUDY_FN size_t get_local_linear_id(void)
{
    return (get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0);
}
__UNDERSTUDY_FN size_t get_global_linear_id(void)
{
    size_t x = get_global_id(0) - get_global_offset(0), y = get_global_id(1) - get_global_offset(1);
    return ((get_global_id(2) - get_global_offset(2)) * get_global_size(1) + y) * get_global_size(0) + x;
}

// ---- barriers and fences -----------------------------------------------------------------------------------------------

#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
__UNDERSTUDY_FN __attribute__((convergent)) void barrier(cl_mem_fence_flags flags)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#define work_group_barrier barrier
__UNDERSTUDY_FN void mem_fence(cl_mem_fence_flags flags) { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup"); }
#define read_mem_fence mem_fence
#define write_mem_fence mem_fence

// ---- atomics -----------------------------------------------------------------------------------------------------------

typedef enum { memory_scope_work_item = 0, memory_scope_work_group = 1, memory_scope_device = 2,
               memory_scope_all_svm_devices = 3, memory_scope_sub_group = 4 } memory_scope;
typedef enum { memory_order_relaxed = 0, memory_order_acquire = 2, memory_order_release = 3, memory_order_acq_rel = 4,
               memory_order_seq_cst = 5 } memory_order;

// OpenCL 1.2: relaxed, device scope.
#define __UNDERSTUDY_ATOMIC(name, op, T, S)                                                                     \
    __UNDERSTUDY_FN T name(volatile S T *p, T v)                                                                \
    {                                                                                                           \
        return __opencl_atomic_##op((volatile S atomic_##T *)p, v, memory_order_relaxed, memory_scope_device);  \
    }
#define __UNDERSTUDY_ATOMICS(T, S)                                                                              \
    __UNDERSTUDY_ATOMIC(atomic_add, fetch_add, T, S) __UNDERSTUDY_ATOMIC(atomic_sub, fetch_sub, T, S)           \
    __UNDERSTUDY_ATOMIC(atomic_and, fetch_and, T, S) __UNDERSTUDY_ATOMIC(atomic_or, fetch_or, T, S)             \
    __UNDERSTUDY_ATOMIC(atomic_xor, fetch_xor, T, S) __UNDERSTUDY_ATOMIC(atomic_min, fetch_min, T, S)           \
    __UNDERSTUDY_ATOMIC(atomic_max, fetch_max, T, S) __UNDERSTUDY_ATOMIC(atomic_xchg, exchange, T, S)           \
    __UNDERSTUDY_FN T atomic_inc(volatile S T *p) { return atomic_add(p, (T)1); }                               \
    __UNDERSTUDY_FN T atomic_dec(volatile S T *p) { return atomic_sub(p, (T)1); }                               \
    __UNDERSTUDY_FN T atomic_cmpxchg(volatile S T *p, T expected, T v)                                          \
    {                                                                                                           \
        __opencl_atomic_compare_exchange_strong((volatile S atomic_##T *)p, &expected, v, memory_order_relaxed, \
                                                memory_order_relaxed, memory_scope_device);                     \
        return expected;                                                                                        \
    }
__UNDERSTUDY_ATOMICS(int, global) __UNDERSTUDY_ATOMICS(uint, global)
__UNDERSTUDY_ATOMICS(long, global) __UNDERSTUDY_ATOMICS(ulong, global)
__UNDERSTUDY_ATOMICS(int, local) __UNDERSTUDY_ATOMICS(uint, local)
__UNDERSTUDY_ATOMICS(long, local) __UNDERSTUDY_ATOMICS(ulong, local)
#define atom_add atomic_add
#define atom_inc atomic_inc
#define atom_cmpxchg atomic_cmpxchg

// OpenCL 2.0.
#define atomic_init(p, v) __opencl_atomic_init(p, v)
#define atomic_load_explicit(p, order, scope) __opencl_atomic_load(p, order, scope)
#define atomic_store_explicit(p, v, order, scope) __opencl_atomic_store(p, v, order, scope)
#define atomic_exchange_explicit(p, v, order, scope) __opencl_atomic_exchange(p, v, order, scope)
#define atomic_fetch_add_explicit(p, v, order, scope) __opencl_atomic_fetch_add(p, v, order, scope)
#define atomic_fetch_sub_explicit(p, v, order, scope) __opencl_atomic_fetch_sub(p, v, order, scope)
#define atomic_fetch_and_explicit(p, v, order, scope) __opencl_atomic_fetch_and(p, v, order, scope)
#define atomic_fetch_or_explicit(p, v, order, scope) __opencl_atomic_fetch_or(p, v, order, scope)
#define atomic_fetch_xor_explicit(p, v, order, scope) __opencl_atomic_fetch_xor(p, v, order, scope)
#define atomic_fetch_min_explicit(p, v, order, scope) __opencl_atomic_fetch_min(p, v, order, scope)
#define atomic_fetch_max_explicit(p, v, order, scope) __opencl_atomic_fetch_max(p, v, order, scope)
#define atomic_compare_exchange_strong_explicit(p, e, v, success, failure, scope) \
    __opencl_atomic_compare_exchange_strong(p, e, v, success, failure, scope)
#define atomic_load(p) __opencl_atomic_load(p, memory_order_seq_cst, memory_scope_device)
#define atomic_store(p, v) __opencl_atomic_store(p, v, memory_order_seq_cst, memory_scope_device)
#define atomic_exchange(p, v) __opencl_atomic_exchange(p, v, memory_order_seq_cst, memory_scope_device)
#define atomic_fetch_add(p, v) __opencl_atomic_fetch_add(p, v, memory_order_seq_cst, memory_scope_device)
#define atomic_fetch_sub(p, v) __opencl_atomic_fetch_sub(p, v, memory_order_seq_cst, memory_scope_device)
#define atomic_fetch_and(p, v) __opencl_atomic_fetch_and(p, v, memory_order_seq_cst, memory_scope_device)
#define atomic_fetch_or(p, v) __opencl_atomic_fetch_or(p, v, memory_order_seq_cst, memory_scope_device)
#define atomic_fetch_xor(p, v) __opencl_atomic_fetch_xor(p, v, memory_order_seq_cst, memory_scope_device)
#define atomic_fetch_min(p, v) __opencl_atomic_fetch_min(p, v, memory_order_seq_cst, memory_scope_device)
#define atomic_fetch_max(p, v) __opencl_atomic_fetch_max(p, v, memory_order_seq_cst, memory_scope_device)

// ---- conversions -------------------------------------------------------------------------------------------------------

#define __UNDERSTUDY_CONVERT(T)                                                    \
    __UNDERSTUDY_FN T __convert_##T(char x) { return x; }                          \
    __UNDERSTUDY_FN T __convert_##T(uchar x) { return x; }                         \
    __UNDERSTUDY_FN T __convert_##T(short x) { return x; }                         \
    __UNDERSTUDY_FN T __convert_##T(ushort x) { return x; }                        \
    __UNDERSTUDY_FN T __convert_##T(int x) { return x; }                           \
    __UNDERSTUDY_FN T __convert_##T(uint x) { return x; }                          \
    __UNDERSTUDY_FN T __convert_##T(long x) { return x; }                          \
    __UNDERSTUDY_FN T __convert_##T(ulong x) { return x; }                         \
    __UNDERSTUDY_FN T __convert_##T(float x) { return x; }                         \
    __UNDERSTUDY_FN T __convert_##T(double x) { return x; }
__UNDERSTUDY_CONVERT(char) __UNDERSTUDY_CONVERT(uchar) __UNDERSTUDY_CONVERT(short) __UNDERSTUDY_CONVERT(ushort)
__UNDERSTUDY_CONVERT(int) __UNDERSTUDY_CONVERT(uint) __UNDERSTUDY_CONVERT(long) __UNDERSTUDY_CONVERT(ulong)
__UNDERSTUDY_CONVERT(float) __UNDERSTUDY_CONVERT(double)
#define convert_char(x) __convert_char(x)
#define convert_uchar(x) __convert_uchar(x)
#define convert_short(x) __convert_short(x)
#define convert_ushort(x) __convert_ushort(x)
#define convert_int(x) __convert_int(x)
#define convert_uint(x) __convert_uint(x)
#define convert_long(x) __convert_long(x)
#define convert_ulong(x) __convert_ulong(x)
#define convert_float(x) __convert_float(x)
#define convert_double(x) __convert_double(x)
#define convert_int2(x) __builtin_convertvector(x, int2)
#define convert_int4(x) __builtin_convertvector(x, int4)
#define convert_uint2(x) __builtin_convertvector(x, uint2)
#define convert_uint4(x) __builtin_convertvector(x, uint4)
#define convert_uchar4(x) __builtin_convertvector(x, uchar4)
#define convert_float2(x) __builtin_convertvector(x, float2)
#define convert_float4(x) __builtin_convertvector(x, float4)
#define convert_float8(x) __builtin_convertvector(x, float8)
#define convert_double2(x) __builtin_convertvector(x, double2)
#define convert_double4(x) __builtin_convertvector(x, double4)

#define as_char(x) __builtin_astype(x, char)
#define as_uchar(x) __builtin_astype(x, uchar)
#define as_short(x) __builtin_astype(x, short)
#define as_ushort(x) __builtin_astype(x, ushort)
#define as_int(x) __builtin_astype(x, int)
#define as_uint(x) __builtin_astype(x, uint)
#define as_long(x) __builtin_astype(x, long)
#define as_ulong(x) __builtin_astype(x, ulong)
#define as_float(x) __builtin_astype(x, float)
#define as_double(x) __builtin_astype(x, double)
#define as_int2(x) __builtin_astype(x, int2)
#define as_int4(x) __builtin_astype(x, int4)
#define as_uint2(x) __builtin_astype(x, uint2)
#define as_uint4(x) __builtin_astype(x, uint4)
#define as_float2(x) __builtin_astype(x, float2)
#define as_float4(x) __builtin_astype(x, float4)

// ---- mathematics -------------------------------------------------------------------------------------------------------

#define __UNDERSTUDY_WIDE1(f, T)                                                 \
    __UNDERSTUDY_FN T##2 f(T##2 a) { return (T##2)(f(a.x), f(a.y)); }            \
    __UNDERSTUDY_FN T##3 f(T##3 a) { return (T##3)(f(a.xy), f(a.z)); }           \
    __UNDERSTUDY_FN T##4 f(T##4 a) { return (T##4)(f(a.lo), f(a.hi)); }          \
    __UNDERSTUDY_FN T##8 f(T##8 a) { return (T##8)(f(a.lo), f(a.hi)); }          \
    __UNDERSTUDY_FN T##16 f(T##16 a) { return (T##16)(f(a.lo), f(a.hi)); }
#define __UNDERSTUDY_WIDE2(f, T)                                                            \
    __UNDERSTUDY_FN T##2 f(T##2 a, T##2 b) { return (T##2)(f(a.x, b.x), f(a.y, b.y)); }     \
    __UNDERSTUDY_FN T##3 f(T##3 a, T##3 b) { return (T##3)(f(a.xy, b.xy), f(a.z, b.z)); }   \
    __UNDERSTUDY_FN T##4 f(T##4 a, T##4 b) { return (T##4)(f(a.lo, b.lo), f(a.hi, b.hi)); } \
    __UNDERSTUDY_FN T##8 f(T##8 a, T##8 b) { return (T##8)(f(a.lo, b.lo), f(a.hi, b.hi)); } \
    __UNDERSTUDY_FN T##16 f(T##16 a, T##16 b) { return (T##16)(f(a.lo, b.lo), f(a.hi, b.hi)); }
#define __UNDERSTUDY_WIDE3(f, T)                                                                                \
    __UNDERSTUDY_FN T##2 f(T##2 a, T##2 b, T##2 c) { return (T##2)(f(a.x, b.x, c.x), f(a.y, b.y, c.y)); }       \
    __UNDERSTUDY_FN T##3 f(T##3 a, T##3 b, T##3 c) { return (T##3)(f(a.xy, b.xy, c.xy), f(a.z, b.z, c.z)); }    \
    __UNDERSTUDY_FN T##4 f(T##4 a, T##4 b, T##4 c) { return (T##4)(f(a.lo, b.lo, c.lo), f(a.hi, b.hi, c.hi)); } \
    __UNDERSTUDY_FN T##8 f(T##8 a, T##8 b, T##8 c) { return (T##8)(f(a.lo, b.lo, c.lo), f(a.hi, b.hi, c.hi)); } \
    __UNDERSTUDY_FN T##16 f(T##16 a, T##16 b, T##16 c) { return (T##16)(f(a.lo, b.lo, c.lo), f(a.hi, b.hi, c.hi)); }

#define __UNDERSTUDY_FLOAT1(name)                                      \
    __UNDERSTUDY_FN float name(float a) { return __builtin_##name##f(a); } \
    __UNDERSTUDY_FN double name(double a) { return __builtin_##name(a); }  \
    __UNDERSTUDY_WIDE1(name, float) __UNDERSTUDY_WIDE1(name, double)
#define __UNDERSTUDY_FLOAT2(name)                                                   \
    __UNDERSTUDY_FN float name(float a, float b) { return __builtin_##name##f(a, b); } \
    __UNDERSTUDY_FN double name(double a, double b) { return __builtin_##name(a, b); } \
    __UNDERSTUDY_WIDE2(name, float) __UNDERSTUDY_WIDE2(name, double)
__UNDERSTUDY_FLOAT1(fabs)
__UNDERSTUDY_FLOAT1(floor)
__UNDERSTUDY_FLOAT1(ceil)
__UNDERSTUDY_FLOAT1(trunc)
__UNDERSTUDY_FLOAT1(rint)
__UNDERSTUDY_FLOAT1(round)
__UNDERSTUDY_FLOAT1(sqrt)
__UNDERSTUDY_FLOAT2(fmin)
__UNDERSTUDY_FLOAT2(fmax)
__UNDERSTUDY_FLOAT2(copysign)
__UNDERSTUDY_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__UNDERSTUDY_FN double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
__UNDERSTUDY_WIDE3(fma, float) __UNDERSTUDY_WIDE3(fma, double)
#define mad(a, b, c) ((a) * (b) + (c))

__UNDERSTUDY_FN float rsqrt(float a) { return __builtin_amdgcn_rsqf(a); }
__UNDERSTUDY_FN float exp2(float a) { return __builtin_exp2f(a); }
__UNDERSTUDY_FN float log2(float a) { return __builtin_log2f(a); }
__UNDERSTUDY_FN float exp(float a) { return exp2(a * 0x1.715476p+0f); }
__UNDERSTUDY_FN float exp10(float a) { return exp2(a * 0x1.a934f0p+1f); }
__UNDERSTUDY_FN float log(float a) { return log2(a) * 0x1.62e430p-1f; }
__UNDERSTUDY_FN float log10(float a) { return log2(a) * 0x1.344136p-2f; }
__UNDERSTUDY_FN float pow(float a, float b) { return b == 0 ? 1.0f : exp2(b * log2(a)); }
#define powr pow
__UNDERSTUDY_FN float sin(float a) { return __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(a * 0x1.45f306p-3f)); }
__UNDERSTUDY_FN float cos(float a) { return __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(a * 0x1.45f306p-3f)); }
__UNDERSTUDY_FN float tan(float a) { return sin(a) / cos(a); }
__UNDERSTUDY_FN float fmod(float a, float b) { return a - b * __builtin_truncf(a / b); }
__UNDERSTUDY_FN float ldexp(float a, int n) { return __builtin_amdgcn_ldexpf(a, n); }
__UNDERSTUDY_FN double ldexp(double a, int n) { return __builtin_amdgcn_ldexp(a, n); }
__UNDERSTUDY_WIDE1(rsqrt, float) __UNDERSTUDY_WIDE1(exp2, float) __UNDERSTUDY_WIDE1(log2, float)
__UNDERSTUDY_WIDE1(exp, float) __UNDERSTUDY_WIDE1(exp10, float) __UNDERSTUDY_WIDE1(log, float)
__UNDERSTUDY_WIDE1(log10, float) __UNDERSTUDY_WIDE1(sin, float) __UNDERSTUDY_WIDE1(cos, float)
__UNDERSTUDY_WIDE1(tan, float) __UNDERSTUDY_WIDE2(pow, float) __UNDERSTUDY_WIDE2(fmod, float)
#define native_sqrt(x) __builtin_amdgcn_sqrtf(x)
#define native_rsqrt(x) __builtin_amdgcn_rsqf(x)
#define native_recip(x) __builtin_amdgcn_rcpf(x)
#define native_divide(x, y) ((x) * __builtin_amdgcn_rcpf(y))
#define native_exp2(x) __builtin_exp2f(x)
#define native_log2(x) __builtin_log2f(x)
#define native_exp(x) __builtin_exp2f((x) * 0x1.715476p+0f)
#define native_log(x) (__builtin_log2f(x) * 0x1.62e430p-1f)
#define native_sin(x) __builtin_amdgcn_sinf((x) * 0x1.45f306p-3f)
#define native_cos(x) __builtin_amdgcn_cosf((x) * 0x1.45f306p-3f)
#define half_sqrt native_sqrt
#define half_recip native_recip
#define isnan(x) ((x) != (x))
#define isinf(x) (fabs(x) == INFINITY)
#define isfinite(x) (fabs(x) < INFINITY)

__UNDERSTUDY_FN float dot(float2 a, float2 b) { return a.x * b.x + a.y * b.y; }
__UNDERSTUDY_FN float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__UNDERSTUDY_FN float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
__UNDERSTUDY_FN float3 cross(float3 a, float3 b) { return a.yzx * b.zxy - a.zxy * b.yzx; }
#define length(v) sqrt(dot(v, v))
#define distance(a, b) length((a) - (b))
#define normalize(v) ((v) * rsqrt(dot(v, v)))
#define mix(a, b, t) ((a) + ((b) - (a)) * (t))
#define step(edge, x) ((x) < (edge) ? 0.0f : 1.0f)

// ---- integers, and what is for all types -------------------------------------------------------------------------------

#define __UNDERSTUDY_ORDER(T)                                                                \
    __UNDERSTUDY_FN T min(T a, T b) { return b < a ? b : a; }                                \
    __UNDERSTUDY_FN T max(T a, T b) { return a < b ? b : a; }                                \
    __UNDERSTUDY_FN T clamp(T a, T low, T high) { return min(max(a, low), high); }           \
    __UNDERSTUDY_WIDE2(min, T) __UNDERSTUDY_WIDE2(max, T) __UNDERSTUDY_WIDE3(clamp, T)
__UNDERSTUDY_ORDER(char) __UNDERSTUDY_ORDER(uchar) __UNDERSTUDY_ORDER(short) __UNDERSTUDY_ORDER(ushort)
__UNDERSTUDY_ORDER(int) __UNDERSTUDY_ORDER(uint) __UNDERSTUDY_ORDER(long) __UNDERSTUDY_ORDER(ulong)
__UNDERSTUDY_ORDER(float) __UNDERSTUDY_ORDER(double)

__UNDERSTUDY_FN uint abs(int a) { return a < 0 ? -(uint)a : a; }
__UNDERSTUDY_FN uint abs(uint a) { return a; }
__UNDERSTUDY_FN ulong abs(long a) { return a < 0 ? -(ulong)a : a; }
__UNDERSTUDY_FN uint abs_diff(int a, int b) { return a < b ? (uint)b - (uint)a : (uint)a - (uint)b; }
__UNDERSTUDY_FN uint abs_diff(uint a, uint b) { return a < b ? b - a : a - b; }
__UNDERSTUDY_FN int mul_hi(int a, int b) { return (int)((long)a * b >> 32); }
__UNDERSTUDY_FN uint mul_hi(uint a, uint b) { return (uint)((ulong)a * b >> 32); }
__UNDERSTUDY_FN int mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
__UNDERSTUDY_FN uint mul24(uint a, uint b) { return (a & 0xffffffu) * (b & 0xffffffu); }
#define mad24(a, b, c) (mul24(a, b) + (c))
#define mad_hi(a, b, c) (mul_hi(a, b) + (c))
__UNDERSTUDY_FN uint rotate(uint a, uint n) { return a << (n & 31) | a >> (-n & 31); }
__UNDERSTUDY_FN int rotate(int a, int n) { return (int)rotate((uint)a, (uint)n); }
__UNDERSTUDY_FN ulong rotate(ulong a, ulong n) { return a << (n & 63) | a >> (-n & 63); }
__UNDERSTUDY_FN uint popcount(uint a) { return __builtin_popcount(a); }
__UNDERSTUDY_FN int popcount(int a) { return __builtin_popcount(a); }
__UNDERSTUDY_FN ulong popcount(ulong a) { return __builtin_popcountl(a); }
__UNDERSTUDY_FN uint clz(uint a) { return a ? __builtin_clz(a) : 32; }
__UNDERSTUDY_FN int clz(int a) { return a ? __builtin_clz(a) : 32; }
__UNDERSTUDY_FN uint ctz(uint a) { return a ? __builtin_ctz(a) : 32; }
#define select(a, b, c) ((c) ? (b) : (a))

#define __UNDERSTUDY_VLOAD(T, S)                                                                                 \
    __UNDERSTUDY_FN T##2 vload2(size_t n, const S T *p) { p += 2 * n; return (T##2)(p[0], p[1]); }               \
    __UNDERSTUDY_FN T##3 vload3(size_t n, const S T *p) { p += 3 * n; return (T##3)(p[0], p[1], p[2]); }         \
    __UNDERSTUDY_FN T##4 vload4(size_t n, const S T *p) { p += 4 * n; return (T##4)(p[0], p[1], p[2], p[3]); }   \
    __UNDERSTUDY_FN void vstore2(T##2 v, size_t n, S T *p) { p += 2 * n; p[0] = v.x; p[1] = v.y; }               \
    __UNDERSTUDY_FN void vstore3(T##3 v, size_t n, S T *p) { p += 3 * n; p[0] = v.x; p[1] = v.y; p[2] = v.z; }   \
    __UNDERSTUDY_FN void vstore4(T##4 v, size_t n, S T *p)                                                       \
    {                                                                                                            \
        p += 4 * n;                                                                                              \
        p[0] = v.x;                                                                                              \
        p[1] = v.y;                                                                                              \
        p[2] = v.z;                                                                                              \
        p[3] = v.w;                                                                                              \
    }
__UNDERSTUDY_VLOAD(uchar, global) __UNDERSTUDY_VLOAD(int, global) __UNDERSTUDY_VLOAD(uint, global)
__UNDERSTUDY_VLOAD(float, global) __UNDERSTUDY_VLOAD(double, global)
__UNDERSTUDY_VLOAD(int, local) __UNDERSTUDY_VLOAD(uint, local) __UNDERSTUDY_VLOAD(float, local)

#endif
