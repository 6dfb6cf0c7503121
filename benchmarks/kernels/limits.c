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

void substitution(const uint8_t *restrict table, const uint32_t *restrict a, uint32_t *restrict b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t x = a[i];
        for (uint32_t k = 0; k < 32; k++)
            x = (table[x >> 24] | table[x & 255] << 8 | table[x >> 8 & 255] << 16
                 | (uint32_t)table[x >> 16 & 255] << 24) ^ k;
        b[i] = x;
    }
}

void tables(const uint32_t *restrict table, const uint32_t *restrict a, uint32_t *restrict b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t x = a[i];
        for (uint32_t k = 0; k < 32; k++)
            x = table[x & 255] ^ table[256 + (x >> 8 & 255)] ^ table[512 + (x >> 16 & 255)] ^ table[768 + (x >> 24)]
                ^ k;
        b[i] = x;
    }
}

void gather(const uint32_t *restrict index, const float *restrict a, float *restrict sums, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = index[i];
        float sum = 0;
        for (uint32_t k = 0; k < 64; k++) {
            sum += a[at];
            at = (at * 1664525u + 1013904223u) & 0xffff;
        }
        sums[i] = sum;
    }
}

void rows(const float *restrict a, const float *restrict x, float *restrict y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float sum = 0;
        for (uint32_t k = 0; k < n; k++)
            sum = fmaf(a[i * n + k], x[k], sum);
        y[i] = sum;
    }
}

void columns(const float *restrict a, const float *restrict x, float *restrict y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = 0;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < n; i++)
            y[i] = fmaf(a[k * n + i], x[k], y[i]);
}

void transpose4(const float *restrict a, float *restrict b, uint32_t n)
{
    for (uint32_t row = 0; row < n; row += 16)
        for (uint32_t column = 0; column < n; column += 16)
            for (uint32_t y = row; y < row + 16; y++)
                for (uint32_t x = column; x < column + 16; x++)
                    b[x * n + y] = a[y * n + x];
}
