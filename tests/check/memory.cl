/* Kernels with one mistake each, which -DB=0 corrects. The line with the mistake has the mark "BUG". What they are given
   and what is to be found stands in memory_cases.py. */
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

kernel void store_past(global float *x, int n) {
    int i = get_global_id(0);
    if (B || i < n)
        x[i] = 1.0f; // BUG
}
kernel void load_past(global float *x, global float *y) {
    int i = get_global_id(0);
    y[i] = x[i + B]; // BUG
}
kernel void store_before(global int *x) {
    int i = get_global_id(0);
    x[i - B] = i; // BUG
}
kernel void load_vector(global float *x, global float *y, int n) {
    int i = get_global_id(0);
    if (i < n / 4 + B)
        ((global float4 *)y)[i] = ((global float4 *)x)[i]; // BUG
}
kernel void store_vector(global double *x, int n) {
    int i = get_global_id(0);
    if (i <= n / 2 - !B)
        ((global double2 *)x)[i] = 1.0; // BUG
}
kernel void store_byte(global char *x, int n) {
    int i = get_global_id(0);
    if (i < n + B)
        x[i] = 7; // BUG
}
kernel void load_half(global short *x, global int *y, int n) {
    int i = get_global_id(0);
    y[i] = x[min(i, n - !B)]; // BUG
}
kernel void uniform_load(global int *x, global int *y, int n) {
    y[get_global_id(0)] = x[n - !B]; // BUG
}
kernel void gather(global int *index, global float *x, global float *y, int n) {
    int i = get_global_id(0), k = index[i];
    if (B || k < n)
        y[i] = x[k]; // BUG
}
kernel void scatter(global int *index, global float *x, int n) {
    int i = get_global_id(0);
    if (B || index[i] < n)
        x[index[i]] = i; // BUG
}
kernel void loop_inclusive(global int *x, global int *y, int n) {
    int sum = 0;
    for (int k = get_global_id(0); k < n + B; k += 64)
        sum += x[k]; // BUG
    y[get_global_id(0)] = sum;
}
kernel void pitch(global int *x, int width, int height) {
    int row = get_global_id(0);
    int step = B ? width + 1 : width;
    for (int column = 0; column < width; column++)
        if (row < height)
            x[row * step + column] = row; // BUG
}
struct pair { int key; int value[3]; };
kernel void structure(global struct pair *x, global int *y) {
    int i = get_global_id(0);
    y[i] = x[i + B].value[2]; // BUG
}
kernel void wrong_type(global char *bytes, int n) {
    int i = get_global_id(0);
    if (i < (B ? n : n / 4))
        ((global int *)bytes)[i] = i; // BUG
}
kernel void other_array(global int *x, global int *y, int nx) {
    int i = get_global_id(0);
    y[i] = x[i * (B ? nx : 1)]; // BUG
}
kernel void group_rounding(global int *x, int n) {
    int i = get_group_id(0) * get_local_size(0) + get_local_id(0);
    int last = B ? n : n - 1;
    if (i <= last)
        x[i] += 1; // BUG
}
kernel void reversed(global int *x, global int *y, int n) {
    int i = get_global_id(0);
    if (i < n)
        y[i] = x[n - i - !B]; // BUG
}
kernel void unsigned_underflow(global int *x, global int *y) {
    uint i = get_global_id(0);
    uint before = B ? i - 1 : max(i, 1u) - 1;
    y[i] = x[(int)before]; // BUG
}
kernel void atomic_past(global int *x) {
    atomic_add(x + get_global_id(0) + B, 1); // BUG
}
kernel void atomic_misaligned(global char *x) {
    atomic_add((global int *)(x + 4 * get_global_id(0) + B), 1); // BUG
}
kernel void lds_read(global int *y) {
    local int a[64];
    int l = get_local_id(0);
    a[l] = l;
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_global_id(0)] = a[l + B]; // BUG
}
kernel void lds_write(global int *y, local int *a) {
    int l = get_local_id(0);
    a[l * (1 + B)] = l; // BUG
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_global_id(0)] = a[0];
}
kernel void lds_byte(global int *y, local uchar *a) {
    int l = get_local_id(0);
    a[l + B] = l; // BUG
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_global_id(0)] = a[l];
}
kernel void lds_atomic(global int *y) {
    local int a[64];
    int l = get_local_id(0);
    a[l] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_inc(&a[l + B]); // BUG
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_global_id(0)] = a[l];
}
kernel void private_read(global int *y, int n) {
    int a[64];
    for (int k = 0; k < 64; k++)
        a[k] = y[k];
    y[get_global_id(0)] = a[get_global_id(0) + n + 80 * B]; // BUG
}
kernel void private_write(global int *y, int n) {
    int a[64] = {0};
    a[(get_global_id(0) & 31) + n + 1000 * B] = 5; // BUG
    y[get_global_id(0)] = a[get_global_id(0) ^ y[0]];
}
kernel void pointer_in_memory(global ulong *places, global int *y) {
    y[get_global_id(0)] = ((global int *)places[B])[get_global_id(0)]; // BUG
}
kernel void freed(ulong place, ulong alive, global int *y) {
    y[get_global_id(0)] = ((global int *)(B ? place : alive))[get_global_id(0)]; // BUG
}
kernel void freed_store(ulong place, ulong alive) {
    ((global int *)(B ? place : alive))[get_global_id(0)] = 1; // BUG
}
kernel void null_pointer(global int *x, global int *y) {
    y[get_global_id(0)] = (B ? (global int *)0 : x)[get_global_id(0)]; // BUG
}
