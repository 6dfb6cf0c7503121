// Kernels with loops and branches, and a function of their own.
__attribute__((noinline)) int steps(int n) {
    int count = 0;
    for (; n > 1 && count < 1000; count++) n = n & 1 ? 3 * n + 1 : n / 2;
    return count;
}

kernel void collatz(global int *out, global const int *in, int n) {
    int i = get_global_id(0);
    if (i < n) out[i] = steps(in[i]);
}

kernel void rows(global float *out, global const float *in, int n) {
    int i = get_global_id(0);
    float sum = 0;
    for (int k = 0; k < n; k++)
        if (in[i * n + k] > 0) sum += in[i * n + k];
    out[i] = sum;
}
