// Kernels of `softcard demo` and of the examples; README.md beside this says how they were compiled.

kernel void saxpy(float a, global const float *x, global float *y)
{
    size_t i = get_global_id(0);
    y[i] = a * x[i] + y[i];
}

// One tile of 16 x 16 results for each work-group, through LDS.
kernel __attribute__((reqd_work_group_size(16, 16, 1))) void
matmul(global const float *a, global const float *b, global float *c, int n)
{
    local float tile_a[16][16], tile_b[16][16];
    int x = get_local_id(0), y = get_local_id(1);
    int column = get_group_id(0) * 16 + x, row = get_group_id(1) * 16 + y;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        tile_a[y][x] = a[row * n + k + x];
        tile_b[y][x] = b[(k + y) * n + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < 16; i++)
            sum += tile_a[y][i] * tile_b[i][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + column] = sum;
}

// Lanes leave the loop one by one: EXEC masks.
kernel void mandelbrot(global uint *out, int n, int limit)
{
    int x = get_global_id(0), y = get_global_id(1);
    double cr = 3.0 * x / n - 2.25, ci = 2.5 * y / n - 1.25, zr = 0, zi = 0;
    int steps = 0;
    while (steps < limit && zr * zr + zi * zi < 4.0) {
        double next = zr * zr - zi * zi + cr;
        zi = 2 * zr * zi + ci;
        zr = next;
        steps++;
    }
    out[y * n + x] = steps;
}

// Atomics on LDS, then on global memory; 256 bins in memory that the launch adds.
kernel void histogram(global const uchar *data, int n, global int *bins, local int *mine)
{
    int id = get_local_id(0), size = get_local_size(0);
    for (int i = id; i < 256; i += size)
        mine[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        atomic_inc(mine + data[i]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = id; i < 256; i += size)
        atomic_add(bins + i, mine[i]);
}

// A private array that stays in memory: scratch.
kernel void sort_private(global const int *in, global int *out)
{
    volatile int v[16];
    int i = get_global_id(0);
#pragma nounroll
    for (int k = 0; k < 16; k++)
        v[k] = in[16 * i + k];
#pragma nounroll
    for (int k = 1; k < 16; k++) {
        int x = v[k], j = k - 1;
        for (; j >= 0 && v[j] > x; j--)
            v[j + 1] = v[j];
        v[j + 1] = x;
    }
#pragma nounroll
    for (int k = 0; k < 16; k++)
        out[16 * i + k] = v[k];
}

// Work-items beyond the first `good` store where no memory is.
kernel void broken(global float *data, int good)
{
    int i = get_global_id(0);
    data[i < good ? i : i + 0x10000000] = i;
}
