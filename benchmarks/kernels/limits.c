/* What the measured GCN kernels compute, as plain loops for one core of the host: gcc -O3 -march=native. */
#include <math.h>
#include <stdint.h>

void vector_add(const float *restrict a, const float *restrict b, float *restrict c, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        c[i] = a[i] + b[i];
}

void matmul(const float *restrict a, const float *restrict b, float *restrict c, uint32_t n)
{
    for (uint32_t row = 0; row < n; row++) {
        float *restrict sums = c + row * n;
        for (uint32_t column = 0; column < n; column++)
            sums[column] = 0;
        for (uint32_t k = 0; k < n; k++)
            for (uint32_t column = 0; column < n; column++)
                sums[column] += a[row * n + k] * b[k * n + column];
    }
}

/* Sums of 256 as the kernel adds them: halves onto halves. */
void reduction(const float *restrict a, float *restrict sums, uint32_t count)
{
    for (uint32_t group = 0; group < count / 256; group++) {
        float part[128];
        for (uint32_t l = 0; l < 128; l++)
            part[l] = a[group * 256 + l] + a[group * 256 + 128 + l];
        for (uint32_t k = 64; k > 0; k >>= 1)
            for (uint32_t l = 0; l < k; l++)
                part[l] += part[l + k];
        sums[group] = part[0];
    }
}

void collatz(uint32_t *restrict steps, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t x = i + 1, found = 0;
        while (x != 1) {
            x = x & 1 ? 3 * x + 1 : x >> 1;
            found++;
        }
        steps[i] = found;
    }
}

/* 64 side by side, as many as hide the latency of a chain. */
void polynomial(const float *restrict a, float *restrict b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += 64) {
        float y[64];
        for (uint32_t l = 0; l < 64; l++)
            y[l] = 0.5f;
        for (uint32_t k = 0; k < 256; k++)
            for (uint32_t l = 0; l < 64; l++) {
                float x = a[i + l];
                y[l] = fmaf(fmaf(fmaf(fmaf(y[l], x, 0.25f), x, x), x, -0.125f), x, -0.5f);
            }
        for (uint32_t l = 0; l < 64; l++)
            b[i + l] = y[l];
    }
}
