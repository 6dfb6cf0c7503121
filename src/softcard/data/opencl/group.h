// Functions of work-groups and sub-groups: all of their work-items call them together.
#ifndef SOFTCARD_OPENCL_GROUP_H
#define SOFTCARD_OPENCL_GROUP_H
#include "types.h"
#include "atomic.h"
#include "work_item.h"

#if __US_STANDARD >= 200
// ---- what is done with values as bits --------------------------------------------------------------------------------------------

#define __US_BITS_OF_char(x) ((ulong)(uchar)(x))
#define __US_BITS_OF_uchar(x) ((ulong)(x))
#define __US_BITS_OF_short(x) ((ulong)(ushort)(x))
#define __US_BITS_OF_ushort(x) ((ulong)(x))
#define __US_BITS_OF_half(x) ((ulong)as_ushort(x))
#define __US_BITS_OF_float(x) ((ulong)as_uint(x))
#define __US_BITS_OF_double(x) as_ulong(x)
#define __US_BITS_OF_int(x) ((ulong)(uint)(x))
#define __US_BITS_OF_uint(x) ((ulong)(x))
#define __US_BITS_OF_long(x) ((ulong)(x))
#define __US_BITS_OF_ulong(x) (x)
#define __US_OF_BITS_char(x) ((char)(x))
#define __US_OF_BITS_uchar(x) ((uchar)(x))
#define __US_OF_BITS_short(x) ((short)(x))
#define __US_OF_BITS_ushort(x) ((ushort)(x))
#define __US_OF_BITS_half(x) as_half((ushort)(x))
#define __US_OF_BITS_float(x) as_float((uint)(x))
#define __US_OF_BITS_double(x) as_double(x)
#define __US_OF_BITS_int(x) ((int)(x))
#define __US_OF_BITS_uint(x) ((uint)(x))
#define __US_OF_BITS_long(x) ((long)(x))
#define __US_OF_BITS_ulong(x) (x)

__US_CONVERGENT ulong __us_of_lane(ulong x, uint lane)
{
    uint low = (uint)__builtin_amdgcn_readlane((int)(uint)x, (int)lane);
    uint high = (uint)__builtin_amdgcn_readlane((int)(uint)(x >> 32), (int)lane);
    return (ulong)high << 32 | low;
}
__US_CONVERGENT ulong __us_lanes(bool which) { return __builtin_amdgcn_uicmp((uint)which, 0u, 33); }

// One word for each sub-group of a work-group, in LDS (linked.c).
__US_C local ulong *__us_words(void) __attribute__((const));
// The word of a sub-group, from its work-item that `gives`, for all work-items to read; then: done with them.
__US_CONVERGENT void __us_give(bool gives, uint at, ulong word)
{
    if (gives)
        __us_words()[at] = word;
    barrier(CLK_LOCAL_MEM_FENCE);
}

// ---- votes and broadcasts ----------------------------------------------------------------------------------------------------------

__US_CONVERGENT int sub_group_any(int x) { return __us_lanes(x != 0) != 0; }
__US_CONVERGENT int sub_group_all(int x) { return __us_lanes(x == 0) == 0; }
__US_CONVERGENT int __us_vote(int mine, bool all)
{
    __us_give(get_sub_group_local_id() == 0, get_sub_group_id(), (ulong)(uint)mine);
    int r = all;
    for (uint i = 0; i < get_num_sub_groups(); i++)
        r = all ? r & (int)__us_words()[i] : r | (int)__us_words()[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    return r;
}
__US_CONVERGENT int work_group_any(int x) { return __us_vote(sub_group_any(x), false); }
__US_CONVERGENT int work_group_all(int x) { return __us_vote(sub_group_all(x), true); }

#define __US_BROADCAST(T)                                                                                           \
    __US_CONVERGENT T sub_group_broadcast(T x, uint lane)                                                           \
    {                                                                                                               \
        return __US_OF_BITS_##T(__us_of_lane(__US_BITS_OF_##T(x), (uint)__builtin_amdgcn_readfirstlane((int)lane))); \
    }                                                                                                               \
    __US_CONVERGENT T work_group_broadcast(T x, size_t i, size_t j, size_t k)                                       \
    {                                                                                                               \
        __us_give(get_local_id(0) == i && get_local_id(1) == j && get_local_id(2) == k, 0, __US_BITS_OF_##T(x));    \
        T r = __US_OF_BITS_##T(__us_words()[0]);                                                                    \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                               \
        return r;                                                                                                   \
    }                                                                                                               \
    __US_CONVERGENT T work_group_broadcast(T x, size_t i) { return work_group_broadcast(x, i, 0, 0); }              \
    __US_CONVERGENT T work_group_broadcast(T x, size_t i, size_t j) { return work_group_broadcast(x, i, j, 0); }
__US_BROADCAST(int) __US_BROADCAST(uint) __US_BROADCAST(long) __US_BROADCAST(ulong) __US_FLOATS(__US_BROADCAST)

// ---- reductions and scans: in the order of work-items -------------------------------------------------------------------------------

#define __US_SCAN(name, T, none, expression)                                                                        \
    __US_FN T __us_##name(T a, T b) { return expression; }                                                          \
    /* What work-items of the sub-group before this one come to, with and without it; all of them. */               \
    __US_CONVERGENT void __us_scan_##name(T x, T *before, T *with, T *all)                                          \
    {                                                                                                               \
        T sum = none;                                                                                               \
        uint me = get_sub_group_local_id(), size = get_sub_group_size();                                            \
        for (uint i = 0; i < size; i++) {                                                                           \
            T next = __us_##name(sum, __US_OF_BITS_##T(__us_of_lane(__US_BITS_OF_##T(x), i)));                      \
            *before = i == me ? sum : *before;                                                                      \
            *with = i == me ? next : *with;                                                                         \
            sum = next;                                                                                             \
        }                                                                                                           \
        *all = sum;                                                                                                 \
    }                                                                                                               \
    __US_CONVERGENT T sub_group_reduce_##name(T x)                                                                  \
    {                                                                                                               \
        T before, with, all;                                                                                        \
        __us_scan_##name(x, &before, &with, &all);                                                                  \
        return all;                                                                                                 \
    }                                                                                                               \
    __US_CONVERGENT T sub_group_scan_inclusive_##name(T x)                                                          \
    {                                                                                                               \
        T before, with, all;                                                                                        \
        __us_scan_##name(x, &before, &with, &all);                                                                  \
        return with;                                                                                                \
    }                                                                                                               \
    __US_CONVERGENT T sub_group_scan_exclusive_##name(T x)                                                          \
    {                                                                                                               \
        T before, with, all;                                                                                        \
        __us_scan_##name(x, &before, &with, &all);                                                                  \
        return before;                                                                                              \
    }                                                                                                               \
    /* The same of the work-group: what sub-groups before this one come to is put in front. */                      \
    __US_CONVERGENT void __us_group_scan_##name(T x, T *before, T *with, T *all)                                    \
    {                                                                                                               \
        T mine, sum = none;                                                                                         \
        __us_scan_##name(x, before, with, &mine);                                                                   \
        uint me = get_sub_group_id();                                                                               \
        __us_give(get_sub_group_local_id() == 0, me, __US_BITS_OF_##T(mine));                                       \
        for (uint i = 0; i < get_num_sub_groups(); i++) {                                                           \
            *before = i == me ? __us_##name(sum, *before) : *before;                                                \
            *with = i == me ? __us_##name(sum, *with) : *with;                                                      \
            sum = __us_##name(sum, __US_OF_BITS_##T(__us_words()[i]));                                              \
        }                                                                                                           \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                               \
        *all = sum;                                                                                                 \
    }                                                                                                               \
    __US_CONVERGENT T work_group_reduce_##name(T x)                                                                 \
    {                                                                                                               \
        T before, with, all;                                                                                        \
        __us_group_scan_##name(x, &before, &with, &all);                                                            \
        return all;                                                                                                 \
    }                                                                                                               \
    __US_CONVERGENT T work_group_scan_inclusive_##name(T x)                                                         \
    {                                                                                                               \
        T before, with, all;                                                                                        \
        __us_group_scan_##name(x, &before, &with, &all);                                                            \
        return with;                                                                                                \
    }                                                                                                               \
    __US_CONVERGENT T work_group_scan_exclusive_##name(T x)                                                         \
    {                                                                                                               \
        T before, with, all;                                                                                        \
        __us_group_scan_##name(x, &before, &with, &all);                                                            \
        return before;                                                                                              \
    }
#define __US_SCANS(T, least, most)                                                                                  \
    __US_SCAN(add, T, (T)0, a + b) __US_SCAN(min, T, most, b < a ? b : a) __US_SCAN(max, T, least, a < b ? b : a)
__US_SCANS(int, INT_MIN, INT_MAX) __US_SCANS(uint, 0u, UINT_MAX) __US_SCANS(long, LONG_MIN, LONG_MAX)
__US_SCANS(ulong, 0ul, ULONG_MAX) __US_SCANS(half, (half)-INFINITY, (half)INFINITY)
__US_SCANS(float, -INFINITY, INFINITY) __US_SCANS(double, -INFINITY, INFINITY)
#endif

// ---- copies by the whole work-group, which are complete when it goes on after wait_group_events ---------------------------------------

#define __US_ASYNC(T)                                                                                               \
    __US_ASYNC_FROM(T, local, global, 1, stride) __US_ASYNC_FROM(T, global, local, stride, 1)
#define __US_ASYNC_FROM(T, D, S, to_step, from_step)                                                                \
    __US_CONVERGENT event_t async_work_group_strided_copy(D T *to, const S T *from, size_t n, size_t stride, event_t e) \
    {                                                                                                               \
        for (size_t i = get_local_linear_id(); i < n; i += __us_group_size())                                       \
            to[i * (to_step)] = from[i * (from_step)];                                                              \
        return e;                                                                                                   \
    }                                                                                                               \
    __US_CONVERGENT event_t async_work_group_copy(D T *to, const S T *from, size_t n, event_t e)                    \
    {                                                                                                               \
        return async_work_group_strided_copy(to, from, n, 1, e);                                                    \
    }
#define __US_ASYNC_SIZE(T, n) __US_ASYNC(T##n)
#define __US_ASYNC_ALL(T) __US_ASYNC(T) __US_SIZES(__US_ASYNC_SIZE, T)
__US_TYPES(__US_ASYNC_ALL)
__US_CONVERGENT void wait_group_events(int n, event_t *events)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}
#define __US_PREFETCH(T) __US_FN void prefetch(const global T *p, size_t n) {}
#define __US_PREFETCH_SIZE(T, n) __US_PREFETCH(T##n)
#define __US_PREFETCH_ALL(T) __US_PREFETCH(T) __US_SIZES(__US_PREFETCH_SIZE, T)
__US_TYPES(__US_PREFETCH_ALL)

#endif
