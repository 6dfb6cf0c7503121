// A kernel for `softcard inspect`: a branch, LDS, private memory, arguments of several kinds.
kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
scale(global const float *in, global float *out, float factor, int n, uchar4 tag)
{
    local float tile[64];
    int i = get_global_id(0), id = get_local_id(0);
    tile[id] = i < n ? in[i] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < n; k++)
        tile[id] = tile[id ^ 1] * factor;
    if (i < n)
        out[i] = tile[63 - id] + tag.y;
}

#ifndef NO_TABLE // lld cannot link such a reference in a mesa3d object
constant int table[4] = {2, 3, 5, 7};

kernel void lookup(global int *out) { out[get_global_id(0)] = table[out[get_global_id(0)] & 3]; }
#endif
