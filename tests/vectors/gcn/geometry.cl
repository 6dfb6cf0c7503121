// Work-item and work-group numbers; grids that work-groups do not divide.
#include "prelude.h"

kernel void geometry_ids(global uint *out)
{
    uint x = global_id(0), y = global_id(1), z = global_id(2);
    uint at = (z * grid_size(1) + y) * grid_size(0) + x;
    out[at] = local_id(0) | local_id(1) << 5 | local_id(2) << 10 | group_id(0) << 15 | group_id(1) << 20 | group_id(2) << 25;
}

kernel void geometry_sizes(global uint *out)
{
    uint at = global_id(1) * grid_size(0) + global_id(0);
    out[at] = grid_size(0) | grid_size(1) << 8 | grid_size(2) << 16 | group_size(0) << 24;
}
