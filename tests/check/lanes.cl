/* One mistake each, without B: what lanes of one wave do to each other where nothing in the source orders them. */
#if B
#define MISSING(x)
#define WRONG(x, y) x
#else
#define MISSING(x) x
#define WRONG(x, y) y
#endif
#define LOCAL_BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define GLOBAL_BARRIER barrier(CLK_GLOBAL_MEM_FENCE)

kernel void shift(global int *x, global int *y)
{
    int i = get_local_id(0), v = x[i + 1];
    MISSING(GLOBAL_BARRIER);
    x[i] = v; /* here */
}

kernel void reduce(global int *x, global int *y)
{
    local int t[64];
    int i = get_local_id(0);
    t[i] = y[i];
    LOCAL_BARRIER;
    for (int s = 32; s > 0; s >>= 1) {
        if (i < s)
            t[i] += t[i + s]; /* here */
        MISSING(LOCAL_BARRIER);
    }
    x[i] = t[0];
}

kernel void first_sets(global int *x, global int *y)
{
    local int n;
    int i = get_local_id(0);
    if (i == 0)
        n = y[3];
    MISSING(LOCAL_BARRIER);
    x[i] = n; /* here */
}

kernel void all_set(global int *x, global int *y)
{
    int i = get_local_id(0);
    x[WRONG(0, i)] = y[i]; /* here */
}

kernel void histogram(global int *x, global int *y)
{
    int i = get_local_id(0);
    WRONG(x[y[i] & 7]++, atomic_inc(x + (y[i] & 7))); /* here */
}

kernel void reset(global int *x, global int *y)
{
    int i = get_local_id(0);
    if (i == 5)
        x[0] = 0;
    MISSING(GLOBAL_BARRIER);
    atomic_max(x, y[i]); /* here */
}

kernel void result(global int *x, global int *y)
{
    int i = get_local_id(0);
    atomic_max(x, y[i]);
    MISSING(GLOBAL_BARRIER);
    x[i + 1] = x[0]; /* here */
}

kernel void overlap(global int *x, global int *y)
{
    int i = get_local_id(0);
    vstore2((int2)(y[i], 7 * y[i]), 0, x + WRONG(1, 2) * i); /* here */
}

kernel void turn(global int *x, global int *y)
{
    local int t[64];
    int i = get_local_id(0);
    t[i] = y[i];
    MISSING(LOCAL_BARRIER);
    x[i] = t[63 - i]; /* here */
}

kernel void own_halves(global int *z, global int *y)
{
    global short *x = (global short *)z;
    int i = get_local_id(0);
    x[WRONG(i / 2, i)] = y[i]; /* here */
}
