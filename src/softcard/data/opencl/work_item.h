// Work-item functions.
#ifndef SOFTCARD_OPENCL_WORK_ITEM_H
#define SOFTCARD_OPENCL_WORK_ITEM_H
#include "types.h"

#define __US_AXIS(d, x, y, z) ((d) == 0 ? (x) : (d) == 1 ? (y) : (d) == 2 ? (z) : 0)

__US_FN uint get_work_dim(void)
{
#if __SOFTCARD_CODE_OBJECT__ >= 5
    return ((const constant ushort *)__builtin_amdgcn_implicitarg_ptr())[32];
#else
    return ((const constant ushort *)__builtin_amdgcn_dispatch_ptr())[1] & 3;
#endif
}
__US_FN size_t get_global_size(uint d)
{
    return __US_AXIS(d, __builtin_amdgcn_grid_size_x(), __builtin_amdgcn_grid_size_y(),
                             __builtin_amdgcn_grid_size_z()) + (d > 2);
}
__US_FN size_t get_enqueued_local_size(uint d)
{
    return __US_AXIS(d, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
                             __builtin_amdgcn_workgroup_size_z()) + (d > 2);
}
__US_FN size_t get_local_id(uint d)
{
    return __US_AXIS(d, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
                             __builtin_amdgcn_workitem_id_z());
}
__US_FN size_t get_group_id(uint d)
{
    return __US_AXIS(d, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
                             __builtin_amdgcn_workgroup_id_z());
}
__US_FN size_t get_num_groups(uint d)
{
    uint size = get_enqueued_local_size(d);
    return ((uint)get_global_size(d) + size - 1) / size;
}
__US_FN size_t get_local_size(uint d)
{
    uint size = get_enqueued_local_size(d), left = (uint)get_global_size(d) - (uint)get_group_id(d) * size;
    return left < size ? left : size;
}
__US_FN size_t get_global_offset(uint d)
{
    const constant ulong *hidden = (const constant ulong *)__builtin_amdgcn_implicitarg_ptr();
    return d > 2 ? 0 : hidden[d + (__SOFTCARD_CODE_OBJECT__ >= 5 ? 5 : 0)];
}
__US_FN size_t get_global_id(uint d)
{
    return (uint)get_group_id(d) * (uint)get_enqueued_local_size(d) + (uint)get_local_id(d) + get_global_offset(d);
}
__US_FN size_t get_local_linear_id(void)
{
    return (get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0);
}
__US_FN size_t get_global_linear_id(void)
{
    size_t x = get_global_id(0) - get_global_offset(0), y = get_global_id(1) - get_global_offset(1);
    return ((get_global_id(2) - get_global_offset(2)) * get_global_size(1) + y) * get_global_size(0) + x;
}

// A sub-group is a wave: 64 work-items, of the last one of a work-group perhaps fewer.
#define __US_WAVE 64
__US_FN uint __us_group_size(void) { return (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2)); }
__US_FN uint get_max_sub_group_size(void) { return __US_WAVE; }
__US_FN uint get_sub_group_id(void) { return (uint)get_local_linear_id() / __US_WAVE; }
__US_FN uint get_sub_group_local_id(void) { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }
__US_FN uint get_num_sub_groups(void) { return (__us_group_size() + __US_WAVE - 1) / __US_WAVE; }
__US_FN uint get_enqueued_num_sub_groups(void)
{
    return (uint)((get_enqueued_local_size(0) * get_enqueued_local_size(1) * get_enqueued_local_size(2) + __US_WAVE - 1) /
                  __US_WAVE);
}
__US_FN uint get_sub_group_size(void)
{
    uint left = __us_group_size() - get_sub_group_id() * __US_WAVE;
    return left < __US_WAVE ? left : __US_WAVE;
}

#endif
