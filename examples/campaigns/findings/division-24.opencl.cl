// clang 19 and 22 from -O1 on: 0xe3170d / 0xc32 is 4767, not 4766. Numbers of 24 bits are divided by way of float.
typedef unsigned int uint;
typedef unsigned long ulong;

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint gid = __builtin_amdgcn_workgroup_id_x() * 128 + __builtin_amdgcn_workitem_id_x();
    volatile uint dividend = 0xe3170du - (gid & 0x80u), divisor = 0xc32u;
    out[gid] = (dividend & 0xffffffu) / (divisor & 0xffffffu);
}
