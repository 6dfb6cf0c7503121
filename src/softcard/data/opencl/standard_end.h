// The end of what standard.h begins: names of later standards are the user's again.
#if __US_STANDARD < 120
#undef popcount
#pragma OPENCL EXTENSION cl_khr_fp64 : disable
#endif
#if __US_STANDARD < 200
#undef atomic_work_item_fence
#undef ctz
#undef get_enqueued_local_size
#undef get_enqueued_num_sub_groups
#undef get_global_linear_id
#undef get_local_linear_id
#undef get_max_sub_group_size
#undef get_num_sub_groups
#undef get_sub_group_id
#undef get_sub_group_local_id
#undef get_sub_group_size
#undef memory_order
#undef memory_order_acq_rel
#undef memory_order_acquire
#undef memory_order_relaxed
#undef memory_order_release
#undef memory_order_seq_cst
#undef memory_scope
#undef memory_scope_all_devices
#undef memory_scope_all_svm_devices
#undef memory_scope_device
#undef memory_scope_sub_group
#undef memory_scope_work_group
#undef memory_scope_work_item
#undef sub_group_barrier
#undef work_group_barrier
#endif
