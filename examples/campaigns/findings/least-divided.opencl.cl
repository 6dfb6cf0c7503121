// clang 15 to 22, -O0 too: the least number of 4, 8 and 16 bits divided by -1 is negative, where C has 8, 128 and 32768.
typedef unsigned int uint;
typedef unsigned long ulong;

__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums)
{
    uint gid = __builtin_amdgcn_workgroup_id_x() * 128 + __builtin_amdgcn_workitem_id_x();
    uint x = gid & 1 ? 0x88008080u : in[gid], y = gid & 2 ? 0xffffffffu : in[gid] | 0x10010001u;
    char a = (char)x, b = (char)y;
    short c = (short)(x >> 16), d = (short)(y >> 16);
    if (gid & 1)
        c = (short)0x8000;
    int e = (int)x >> 28, f = (int)y >> 28;
    out[gid] = (uint)(a / b) + ((ulong)(uint)(c / d) << 20) + ((ulong)(uint)(e / f) << 40);
}
