// binary32 division, correctly rounded.
// Flags: -cl-fp32-correctly-rounded-divide-sqrt
#include "prelude.h"

kernel GROUP(64, 1, 1) void float_divide(global const float *a, global const float *b, global float *out)
{
    uint i = global_id(0), n = grid_size(0);
    out[i] = a[i] / b[i];
    out[i + n] = 1.0f / a[i];
    out[i + 2 * n] = a[i] / 3.0f;
}
