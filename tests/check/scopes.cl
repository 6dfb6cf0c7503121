// Programs whose work-groups pass data by atomics and fences of the scope SCOPE; all of them are right.

#define ITEM get_local_id(0)

kernel void message(global uint *data, global atomic_uint *flag, global uint *out)
{
    if (get_group_id(0) == 0) {
        data[ITEM] = 3 * ITEM;
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (ITEM == 0)
            atomic_store_explicit(flag, 1, memory_order_release, SCOPE);
    } else {
        if (ITEM == 0)
            while (atomic_load_explicit(flag, memory_order_acquire, SCOPE) == 0)
                ;
        barrier(CLK_GLOBAL_MEM_FENCE);
        out[get_global_id(0)] = data[ITEM];
    }
}

kernel void fences(global uint *data, global atomic_uint *flag, global uint *out)
{
    if (get_group_id(0) == 0) {
        data[ITEM] = 3 * ITEM;
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (ITEM == 0) {
            atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_release, SCOPE);
            atomic_store_explicit(flag, 1, memory_order_relaxed, SCOPE);
        }
    } else {
        if (ITEM == 0) {
            while (atomic_load_explicit(flag, memory_order_relaxed, SCOPE) == 0)
                ;
            atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acquire, SCOPE);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        out[get_global_id(0)] = data[ITEM];
    }
}

// The last work-group adds up what all have stored, and resets the counter by a plain store.
kernel void last(global uint *data, global atomic_uint *flag, global uint *out)
{
    local uint before;
    data[get_global_id(0)] = get_global_id(0);
    atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_release, SCOPE);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (ITEM == 0)
        before = atomic_fetch_add_explicit(flag, 1, memory_order_relaxed, SCOPE);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (before == get_num_groups(0) - 1) {
        atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acquire, SCOPE);
        for (uint n = ITEM; n < get_global_size(0); n += get_local_size(0))
            out[ITEM] += data[n];
        if (ITEM == 0)
            *(global uint *)flag = 0;
    }
}

// Turns are passed on by an addition that both acquires and releases.
kernel void turns(global uint *data, global atomic_uint *flag, global uint *out)
{
    if (ITEM == 0) {
        while (atomic_fetch_add_explicit(flag, 0, memory_order_acquire, SCOPE) != get_group_id(0))
            ;
        data[0] = data[0] + get_group_id(0);
        atomic_fetch_add_explicit(flag, 1, memory_order_release, SCOPE);
    }
}

kernel void lock(global uint *data, global atomic_uint *flag, global uint *out)
{
    if (ITEM == 0) {
        uint none = 0;
        while (!atomic_compare_exchange_strong_explicit(
            flag, &none, 1, memory_order_acquire, memory_order_relaxed, SCOPE))
            none = 0;
        data[0] = data[0] + 1;
        atomic_store_explicit(flag, 0, memory_order_release, SCOPE);
    }
}

kernel void sequential(global uint *data, global atomic_uint *flag, global uint *out)
{
    if (get_group_id(0) == 0) {
        data[ITEM] = 3 * ITEM;
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (ITEM == 0)
            atomic_store_explicit(flag, 1, memory_order_seq_cst, SCOPE);
    } else {
        if (ITEM == 0)
            while (atomic_load_explicit(flag, memory_order_seq_cst, SCOPE) == 0)
                ;
        barrier(CLK_GLOBAL_MEM_FENCE);
        out[get_global_id(0)] = data[ITEM];
    }
}

// The second wave of each work-group reads what the first one stored.
kernel void within(global uint *data, global atomic_uint *flag, global uint *out)
{
    uint own = get_group_id(0) * get_local_size(0), group = get_group_id(0);
    if (ITEM < 64) {
        data[own + ITEM] = 3 * ITEM;
        if (ITEM == 0)
            atomic_store_explicit(flag + group, 1, memory_order_release, SCOPE);
    } else {
        while (atomic_load_explicit(flag + group, memory_order_acquire, SCOPE) == 0)
            ;
        out[own + ITEM] = data[own + ITEM - 64];
    }
}
