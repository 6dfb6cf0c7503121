// The standard of the source (-cl-std): its number, feature macros, and names that it leaves to the user.
//
// Functions and macros of later standards are not declared, or have a private name while the headers are read: a source
// of an earlier standard may define functions with their names. opencl.h includes standard_end.h after all other headers.
#ifndef SOFTCARD_OPENCL_STANDARD_H
#define SOFTCARD_OPENCL_STANDARD_H

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable

// C++ for OpenCL 1.0 has the functions of OpenCL C 2.0, C++ for OpenCL 2021 those of OpenCL C 3.0.
#if defined(__OPENCL_CPP_VERSION__)
#if __OPENCL_CPP_VERSION__ >= 202100
#define __US_STANDARD 300
#else
#define __US_STANDARD 200
#endif
#else
#define __US_STANDARD __OPENCL_C_VERSION__
#endif

// Functions that the compiler, or linked.c, knows by their names.
#ifdef __OPENCL_CPP_VERSION__
#define __US_C extern "C"
#else
#define __US_C
#endif

// The version of the device, whatever the standard of the source is.
#ifndef __OPENCL_VERSION__
#define __OPENCL_VERSION__ 300
#endif
#ifndef __IMAGE_SUPPORT__
#define __IMAGE_SUPPORT__ 1
#endif
#define __kernel_exec(X, type) \
    __kernel __attribute__((work_group_size_hint(X, 1, 1))) __attribute__((vec_type_hint(type)))
#define kernel_exec(X, type) __kernel_exec(X, type)

// Features, and what only standards with generic pointers have. Compilers before clang 22 define only a few of them.
#if __US_STANDARD >= 200
#ifndef __opencl_c_atomic_order_acq_rel
#define __opencl_c_atomic_order_acq_rel 1
#endif
#ifndef __opencl_c_atomic_order_seq_cst
#define __opencl_c_atomic_order_seq_cst 1
#endif
#ifndef __opencl_c_atomic_scope_device
#define __opencl_c_atomic_scope_device 1
#endif
#ifndef __opencl_c_atomic_scope_all_devices
#define __opencl_c_atomic_scope_all_devices 1
#endif
#ifndef __opencl_c_generic_address_space
#define __opencl_c_generic_address_space 1
#endif
#ifndef __opencl_c_images
#define __opencl_c_images 1
#endif
#ifndef __opencl_c_program_scope_global_variables
#define __opencl_c_program_scope_global_variables 1
#endif
#ifndef __opencl_c_read_write_images
#define __opencl_c_read_write_images 1
#endif
#ifndef __opencl_c_subgroups
#define __opencl_c_subgroups 1
#endif
#ifndef __opencl_c_work_group_collective_functions
#define __opencl_c_work_group_collective_functions 1
#endif
#define __US_GENERIC(declarations) declarations
#ifdef cl_khr_depth_images
#pragma OPENCL EXTENSION cl_khr_depth_images : enable
#endif
#undef __opencl_c_device_enqueue
#undef __opencl_c_pipes
#else
#define __US_GENERIC(declarations)
#endif

#if __US_STANDARD < 120
#pragma OPENCL EXTENSION cl_clang_storage_class_specifiers : enable
#pragma OPENCL EXTENSION __cl_clang_variadic_functions : enable
#define popcount __us_popcount
#endif
#if __US_STANDARD < 200
#define atomic_work_item_fence __us_atomic_work_item_fence
#define ctz __us_ctz
#define get_enqueued_local_size __us_get_enqueued_local_size
#define get_enqueued_num_sub_groups __us_get_enqueued_num_sub_groups
#define get_global_linear_id __us_get_global_linear_id
#define get_local_linear_id __us_get_local_linear_id
#define get_max_sub_group_size __us_get_max_sub_group_size
#define get_num_sub_groups __us_get_num_sub_groups
#define get_sub_group_id __us_get_sub_group_id
#define get_sub_group_local_id __us_get_sub_group_local_id
#define get_sub_group_size __us_get_sub_group_size
#define memory_order __us_memory_order
#define memory_order_acq_rel __us_memory_order_acq_rel
#define memory_order_acquire __us_memory_order_acquire
#define memory_order_relaxed __us_memory_order_relaxed
#define memory_order_release __us_memory_order_release
#define memory_order_seq_cst __us_memory_order_seq_cst
#define memory_scope __us_memory_scope
#define memory_scope_all_devices __us_memory_scope_all_devices
#define memory_scope_all_svm_devices __us_memory_scope_all_svm_devices
#define memory_scope_device __us_memory_scope_device
#define memory_scope_sub_group __us_memory_scope_sub_group
#define memory_scope_work_group __us_memory_scope_work_group
#define memory_scope_work_item __us_memory_scope_work_item
#define sub_group_barrier __us_sub_group_barrier
#define work_group_barrier __us_work_group_barrier
#endif

#endif
