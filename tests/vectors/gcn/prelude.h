// What the kernels of this folder need of OpenCL, for compilers without an OpenCL device library: types, work-item
// functions, barriers, atomics. Any other OpenCL compiler gets its own versions of the same names.
//
// At -O0 clang 15 and 16 reload spilled registers at the end of a divergent branch before they restore EXEC, and the lanes
// that were not there keep what the register held before. The kernels keep out of its way: values that are needed behind
// a branch are variables (work-item numbers too), and what a branch chooses is assigned in if statements.
#ifdef __AMDGCN__
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned long size_t;
#define VECTORS(T)                                            \
    typedef T T##2 __attribute__((ext_vector_type(2)));       \
    typedef T T##3 __attribute__((ext_vector_type(3)));       \
    typedef T T##4 __attribute__((ext_vector_type(4)));       \
    typedef T T##8 __attribute__((ext_vector_type(8)));       \
    typedef T T##16 __attribute__((ext_vector_type(16)));
VECTORS(char) VECTORS(uchar) VECTORS(short) VECTORS(ushort) VECTORS(int) VECTORS(uint) VECTORS(long) VECTORS(ulong)
VECTORS(float) VECTORS(double)
#define INLINE static inline __attribute__((always_inline))

// Macros rather than functions: at -O0 a choice by axis would become a branch.
#define local_id_0 __builtin_amdgcn_workitem_id_x()
#define local_id_1 __builtin_amdgcn_workitem_id_y()
#define local_id_2 __builtin_amdgcn_workitem_id_z()
#define group_id_0 __builtin_amdgcn_workgroup_id_x()
#define group_id_1 __builtin_amdgcn_workgroup_id_y()
#define group_id_2 __builtin_amdgcn_workgroup_id_z()
#define group_size_0 ((uint)__builtin_amdgcn_workgroup_size_x())
#define group_size_1 ((uint)__builtin_amdgcn_workgroup_size_y())
#define group_size_2 ((uint)__builtin_amdgcn_workgroup_size_z())
#define grid_size_0 __builtin_amdgcn_grid_size_x()
#define grid_size_1 __builtin_amdgcn_grid_size_y()
#define grid_size_2 __builtin_amdgcn_grid_size_z()
#define local_id(d) local_id_##d
#define group_id(d) group_id_##d
#define group_size(d) group_size_##d
#define grid_size(d) grid_size_##d
#define global_id(d) (group_id(d) * group_size(d) + local_id(d))
INLINE void sync(void)
{
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
}
#define FETCH(op, p, v) __opencl_atomic_fetch_##op(p, v, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE)
#define EXCHANGE(p, v) __opencl_atomic_exchange(p, v, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE)
#define COMPARE_EXCHANGE(p, e, v) \
    __opencl_atomic_compare_exchange_strong(p, e, v, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE)
#define LOAD(p) __opencl_atomic_load(p, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE)
#define STORE(p, v) __opencl_atomic_store(p, v, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE)
#define fma(a, b, c) __builtin_fmaf(a, b, c)
#define fmin(a, b) __builtin_fminf(a, b)
#define fmax(a, b) __builtin_fmaxf(a, b)
#define fabs(a) __builtin_fabsf(a)
#define as_uint(x) __builtin_bit_cast(uint, x)
#define as_float(x) __builtin_bit_cast(float, x)
#define as_ulong(x) __builtin_bit_cast(ulong, x)
#define popcount(x) __builtin_popcount(x)
#define mul_hi_u(a, b) ((uint)((ulong)(a) * (b) >> 32))
#define mul_hi_s(a, b) ((int)((long)(a) * (b) >> 32))
#else
#define INLINE static inline
#define local_id(d) ((uint)get_local_id(d))
#define group_id(d) ((uint)get_group_id(d))
#define group_size(d) ((uint)get_local_size(d))
#define grid_size(d) ((uint)get_global_size(d))
#define global_id(d) ((uint)get_global_id(d))
#define sync() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define mul_hi_u(a, b) mul_hi((uint)(a), (uint)(b))
#define mul_hi_s(a, b) mul_hi((int)(a), (int)(b))
#endif
#pragma OPENCL FP_CONTRACT OFF
#define GROUP(x, y, z) __attribute__((reqd_work_group_size(x, y, z)))
