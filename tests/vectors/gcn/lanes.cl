// What only waves can do: lane permutations, masks, instructions with names of their own.
#include "prelude.h"

kernel GROUP(64, 1, 1) void lane_permute(global const int *a, global int *out)
{
    uint i = global_id(0), n = grid_size(0), l = local_id(0);
    out[i + n] = __builtin_amdgcn_ds_swizzle(a[i], 0x041f); // lane ^ 1
    out[i + 2 * n] = __builtin_amdgcn_readlane(a[i], 5);
    out[i + 3 * n] = __builtin_amdgcn_readfirstlane(a[i]);
#if !defined(__gfx700__) && !defined(__gfx701__) // which has neither permutations nor DPP
    out[i] = __builtin_amdgcn_ds_bpermute((l * 5 + 1) << 2, a[i]);
    out[i + 4 * n] = __builtin_amdgcn_ds_permute((l ^ 7) << 2, a[i]);
    out[i + 5 * n] = __builtin_amdgcn_update_dpp(-1, a[i], 0x111, 0xf, 0xf, false); // row_shr:1
    out[i + 6 * n] = __builtin_amdgcn_mov_dpp(a[i], 0x1b, 0xf, 0xf, true);          // quad_perm 3 2 1 0
#else
    out[i] = a[(i & ~63u) | ((l * 5 + 1) & 63)];
    out[i + 4 * n] = a[(i & ~63u) | (l ^ 7)];
    out[i + 5 * n] = l & 15 ? a[i - 1] : -1;
    out[i + 6 * n] = a[i ^ 3];
#endif
}

kernel GROUP(64, 1, 1) void lane_masks(global const int *a, global ulong *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = __builtin_amdgcn_sicmp(a[i], 10, 38); // signed greater than
    out[i + n] = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 3u));
    if (a[i] & 1)
        out[i + 2 * n] = __builtin_amdgcn_sicmp(a[i], 0, 33); // not equal, of the lanes that are here
    else
        out[i + 2 * n] = __builtin_amdgcn_sicmp(a[i], 0, 40); // less than
}

kernel GROUP(64, 1, 1) void lane_special(global const uint *a, global const uint *b, global uint *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = __builtin_amdgcn_sad_u8(a[i], b[i], 7);
    out[i + n] = __builtin_amdgcn_ubfe(a[i], b[i] & 15, 9);
    out[i + 2 * n] = (uint)__builtin_amdgcn_sbfe((int)a[i], b[i] & 15, 9);
    out[i + 3 * n] = __builtin_amdgcn_alignbyte(a[i], b[i], 3);
    out[i + 4 * n] = __builtin_amdgcn_lerp(a[i], b[i], 0x01010101);
    out[i + 5 * n] = __builtin_amdgcn_msad_u8(a[i], b[i], 1);
#if !defined(__gfx700__) && !defined(__gfx701__)
    out[i + 6 * n] = __builtin_amdgcn_perm(a[i], b[i], 0x07020c00);
#else
    out[i + 6 * n] = (a[i] >> 24 << 24) | (b[i] >> 16 & 255) << 16 | (b[i] & 255);
#endif
}

kernel GROUP(64, 1, 1) void lane_reduce(global const int *a, global int *out)
{
    // Sums of 32 lanes without LDS memory: each step adds the lane whose number differs in one bit.
    int x = a[global_id(0)];
    x += __builtin_amdgcn_ds_swizzle(x, 0x041f);
    x += __builtin_amdgcn_ds_swizzle(x, 0x081f);
    x += __builtin_amdgcn_ds_swizzle(x, 0x101f);
    x += __builtin_amdgcn_ds_swizzle(x, 0x201f);
    x += __builtin_amdgcn_ds_swizzle(x, 0x401f);
    out[global_id(0)] = x;
}
