// The extensions of sub-groups: work-items of a wave, of which some may be inactive, exchange values.
#ifndef SOFTCARD_OPENCL_SUB_GROUP_H
#define SOFTCARD_OPENCL_SUB_GROUP_H
#include "types.h"
#include "group.h"

#define cl_khr_subgroup_extended_types 1
#define cl_khr_subgroup_non_uniform_vote 1
#define cl_khr_subgroup_ballot 1
#define cl_khr_subgroup_non_uniform_arithmetic 1
#define cl_khr_subgroup_shuffle 1
#define cl_khr_subgroup_shuffle_relative 1
#define cl_khr_subgroup_clustered_reduce 1
#define cl_khr_subgroup_rotate 1

// ---- values of other lanes -----------------------------------------------------------------------------------------------

// Each lane has its own `lane`: the instruction for this is newer than GFX7.
__US_CONVERGENT uint __us_from_lane(uint x, uint lane)
{
#ifdef __GFX7__
    uint r = x;
    for (uint i = 0; i < __US_WAVE; i++) {
        uint other = (uint)__builtin_amdgcn_readlane((int)x, (int)i);
        r = i == (lane & (__US_WAVE - 1)) ? other : r;
    }
    return r;
#else
    return (uint)__builtin_amdgcn_ds_bpermute((int)(lane << 2), (int)x);
#endif
}
__US_CONVERGENT ulong __us_bits_from_lane(ulong x, uint lane, bool wide)
{
    ulong r = __us_from_lane((uint)x, lane);
    if (wide)
        r |= (ulong)__us_from_lane((uint)(x >> 32), lane) << 32;
    return r;
}
__US_CONVERGENT ulong __us_active(void) { return __us_lanes(true); }
__US_CONVERGENT uint __us_first_lane(void) { return (uint)__builtin_ctzl(__us_active()); }
__US_CONVERGENT uint __us_uniform(uint x) { return (uint)__builtin_amdgcn_readfirstlane((int)x); }

#define __US_EXCHANGE(T)                                                                                            \
    __US_CONVERGENT T sub_group_shuffle(T x, uint lane)                                                             \
    {                                                                                                               \
        return __US_OF_BITS_##T(__us_bits_from_lane(__US_BITS_OF_##T(x), lane, sizeof(T) > 4));                     \
    }                                                                                                               \
    __US_CONVERGENT T sub_group_shuffle_xor(T x, uint mask)                                                         \
    {                                                                                                               \
        return sub_group_shuffle(x, get_sub_group_local_id() ^ mask);                                               \
    }                                                                                                               \
    __US_CONVERGENT T sub_group_shuffle_up(T x, uint by) { return sub_group_shuffle(x, get_sub_group_local_id() - by); } \
    __US_CONVERGENT T sub_group_shuffle_down(T x, uint by)                                                          \
    {                                                                                                               \
        return sub_group_shuffle(x, get_sub_group_local_id() + by);                                                 \
    }                                                                                                               \
    __US_CONVERGENT T sub_group_rotate(T x, int by)                                                                 \
    {                                                                                                               \
        return sub_group_shuffle(x, (get_sub_group_local_id() + (uint)by) & (__US_WAVE - 1));                       \
    }                                                                                                               \
    __US_CONVERGENT T sub_group_clustered_rotate(T x, int by, uint size)                                            \
    {                                                                                                               \
        uint me = get_sub_group_local_id();                                                                         \
        return sub_group_shuffle(x, (me & ~(size - 1)) | ((me + (uint)by) & (size - 1)));                           \
    }                                                                                                               \
    __US_CONVERGENT T sub_group_broadcast_first(T x)                                                                \
    {                                                                                                               \
        return __US_OF_BITS_##T(__us_of_lane(__US_BITS_OF_##T(x), __us_first_lane()));                              \
    }                                                                                                               \
    __US_CONVERGENT int sub_group_non_uniform_all_equal(T x)                                                        \
    {                                                                                                               \
        return __us_lanes(x != sub_group_broadcast_first(x)) == 0;                                                  \
    }                                                                                                               \
    __US_CONVERGENT T sub_group_non_uniform_broadcast(T x, uint lane)                                               \
    {                                                                                                               \
        return __US_OF_BITS_##T(__us_of_lane(__US_BITS_OF_##T(x), __us_uniform(lane)));                             \
    }                                                                                                               \
    __US_SIZES(__US_BROADCAST_SIZE, T)
#define __US_BROADCAST_SIZE(T, n)                                                                                   \
    __US_CONVERGENT T##n sub_group_non_uniform_broadcast(T##n x, uint lane)                                         \
    {                                                                                                               \
        T##n r;                                                                                                     \
        for (int i = 0; i < n; i++)                                                                                 \
            r[i] = sub_group_non_uniform_broadcast(x[i], lane);                                                     \
        return r;                                                                                                   \
    }                                                                                                               \
    __US_CONVERGENT T##n sub_group_broadcast(T##n x, uint lane) { return sub_group_non_uniform_broadcast(x, lane); }
__US_TYPES(__US_EXCHANGE)
#define __US_BROADCAST_NARROW(T) \
    __US_CONVERGENT T sub_group_broadcast(T x, uint lane) { return sub_group_non_uniform_broadcast(x, lane); }
__US_BROADCAST_NARROW(char) __US_BROADCAST_NARROW(uchar) __US_BROADCAST_NARROW(short) __US_BROADCAST_NARROW(ushort)

// ---- votes and ballots -----------------------------------------------------------------------------------------------------

__US_CONVERGENT int sub_group_elect(void) { return get_sub_group_local_id() == __us_first_lane(); }
__US_CONVERGENT int sub_group_non_uniform_any(int x) { return __us_lanes(x != 0) != 0; }
__US_CONVERGENT int sub_group_non_uniform_all(int x) { return __us_lanes(x == 0) == 0; }

__US_FN uint4 __us_ballot(ulong lanes) { return (uint4)((uint)lanes, (uint)(lanes >> 32), 0, 0); }
__US_FN ulong __us_ballot_bits(uint4 ballot) { return (ulong)ballot.y << 32 | ballot.x; }
// The bits of a ballot that stand for work-items of the sub-group.
__US_FN ulong __us_ballot_members(uint4 ballot)
{
    uint size = get_sub_group_size();
    return __us_ballot_bits(ballot) & (size < 64 ? (1ul << size) - 1 : ~0ul);
}
__US_FN ulong __us_before(void) { return (1ul << get_sub_group_local_id()) - 1; }
__US_CONVERGENT uint4 sub_group_ballot(int x) { return __us_ballot(__us_lanes(x != 0)); }
__US_FN int sub_group_inverse_ballot(uint4 ballot) { return __us_ballot_bits(ballot) >> get_sub_group_local_id() & 1; }
__US_FN int sub_group_ballot_bit_extract(uint4 ballot, uint i) { return __us_ballot_bits(ballot) >> (i & 63) & 1; }
__US_FN uint sub_group_ballot_bit_count(uint4 ballot)
{
    return (uint)__builtin_popcountl(__us_ballot_members(ballot));
}
__US_FN uint sub_group_ballot_exclusive_scan(uint4 ballot)
{
    return (uint)__builtin_popcountl(__us_ballot_bits(ballot) & __us_before());
}
__US_FN uint sub_group_ballot_inclusive_scan(uint4 ballot)
{
    return sub_group_ballot_exclusive_scan(ballot) + (uint)sub_group_inverse_ballot(ballot);
}
__US_FN uint sub_group_ballot_find_lsb(uint4 ballot)
{
    ulong bits = __us_ballot_members(ballot);
    return bits ? (uint)__builtin_ctzl(bits) : UINT_MAX;
}
__US_FN uint sub_group_ballot_find_msb(uint4 ballot)
{
    ulong bits = __us_ballot_members(ballot);
    return bits ? 63 - (uint)__builtin_clzl(bits) : UINT_MAX;
}
__US_FN uint4 get_sub_group_eq_mask(void) { return __us_ballot(1ul << get_sub_group_local_id()); }
__US_FN uint4 get_sub_group_ge_mask(void) { return __us_ballot(~__us_before()); }
__US_FN uint4 get_sub_group_gt_mask(void) { return __us_ballot(~__us_before() & ~(1ul << get_sub_group_local_id())); }
__US_FN uint4 get_sub_group_le_mask(void) { return __us_ballot(__us_before() | 1ul << get_sub_group_local_id()); }
__US_FN uint4 get_sub_group_lt_mask(void) { return __us_ballot(__us_before()); }

// ---- reductions and scans of active work-items, in their order ---------------------------------------------------------------

// Clusters are of `size` work-items, a power of two: those whose numbers differ in lower bits only.
#define __US_NON_UNIFORM(name, T, none, expression)                                                                 \
    __US_CONVERGENT void __us_cluster_##name(T x, uint size, T *before, T *with, T *all)                            \
    {                                                                                                               \
        T sum = none;                                                                                               \
        uint me = get_sub_group_local_id();                                                                         \
        for (ulong left = __us_active(); left; left &= left - 1) {                                                  \
            uint i = (uint)__builtin_ctzl(left);                                                                    \
            T a = sum, b = __US_OF_BITS_##T(__us_of_lane(__US_BITS_OF_##T(x), i));                                  \
            T next = expression;                                                                                    \
            *before = i == me ? sum : *before;                                                                      \
            *with = i == me ? next : *with;                                                                         \
            sum = ((i ^ me) & ~(size - 1)) == 0 ? next : sum;                                                       \
        }                                                                                                           \
        *all = sum;                                                                                                 \
    }                                                                                                               \
    __US_CONVERGENT T sub_group_clustered_reduce_##name(T x, uint size)                                             \
    {                                                                                                               \
        T before, with, all;                                                                                        \
        __us_cluster_##name(x, size, &before, &with, &all);                                                         \
        return all;                                                                                                 \
    }                                                                                                               \
    __US_CONVERGENT T sub_group_non_uniform_reduce_##name(T x)                                                      \
    {                                                                                                               \
        return sub_group_clustered_reduce_##name(x, __US_WAVE);                                                     \
    }                                                                                                               \
    __US_CONVERGENT T sub_group_non_uniform_scan_inclusive_##name(T x)                                              \
    {                                                                                                               \
        T before, with, all;                                                                                        \
        __us_cluster_##name(x, __US_WAVE, &before, &with, &all);                                                    \
        return with;                                                                                                \
    }                                                                                                               \
    __US_CONVERGENT T sub_group_non_uniform_scan_exclusive_##name(T x)                                              \
    {                                                                                                               \
        T before, with, all;                                                                                        \
        __us_cluster_##name(x, __US_WAVE, &before, &with, &all);                                                    \
        return before;                                                                                              \
    }
#define __US_NON_UNIFORMS(T, least, most)                                                                           \
    __US_NON_UNIFORM(add, T, (T)0, (T)(a + b)) __US_NON_UNIFORM(mul, T, (T)1, (T)(a * b))                           \
    __US_NON_UNIFORM(min, T, most, b < a ? b : a) __US_NON_UNIFORM(max, T, least, a < b ? b : a)
#define __US_NON_UNIFORM_INTEGERS(T, least, most)                                                                   \
    __US_NON_UNIFORMS(T, least, most) __US_NON_UNIFORM(and, T, (T)-1, (T)(a & b))                                   \
    __US_NON_UNIFORM(or, T, (T)0, (T)(a | b)) __US_NON_UNIFORM(xor, T, (T)0, (T)(a ^ b))
__US_NON_UNIFORM_INTEGERS(char, CHAR_MIN, CHAR_MAX) __US_NON_UNIFORM_INTEGERS(uchar, 0, UCHAR_MAX)
__US_NON_UNIFORM_INTEGERS(short, SHRT_MIN, SHRT_MAX) __US_NON_UNIFORM_INTEGERS(ushort, 0, USHRT_MAX)
__US_NON_UNIFORM_INTEGERS(int, INT_MIN, INT_MAX) __US_NON_UNIFORM_INTEGERS(uint, 0u, UINT_MAX)
__US_NON_UNIFORM_INTEGERS(long, LONG_MIN, LONG_MAX) __US_NON_UNIFORM_INTEGERS(ulong, 0ul, ULONG_MAX)
__US_NON_UNIFORMS(half, (half)-INFINITY, (half)INFINITY) __US_NON_UNIFORMS(float, -INFINITY, INFINITY)
__US_NON_UNIFORMS(double, -INFINITY, INFINITY)
__US_NON_UNIFORM(logical_and, int, 1, (a != 0) & (b != 0)) __US_NON_UNIFORM(logical_or, int, 0, (a != 0) | (b != 0))
__US_NON_UNIFORM(logical_xor, int, 0, (a != 0) ^ (b != 0))

// The uniform functions of narrow integers: all work-items of the sub-group are active.
#define __US_UNIFORM(name, T)                                                                                       \
    __US_CONVERGENT T sub_group_reduce_##name(T x) { return sub_group_non_uniform_reduce_##name(x); }               \
    __US_CONVERGENT T sub_group_scan_inclusive_##name(T x) { return sub_group_non_uniform_scan_inclusive_##name(x); } \
    __US_CONVERGENT T sub_group_scan_exclusive_##name(T x) { return sub_group_non_uniform_scan_exclusive_##name(x); }
#define __US_UNIFORMS(T) __US_UNIFORM(add, T) __US_UNIFORM(min, T) __US_UNIFORM(max, T)
__US_UNIFORMS(char) __US_UNIFORMS(uchar) __US_UNIFORMS(short) __US_UNIFORMS(ushort)

#endif
